"""Files that NumPy and PyTorch write, for the tests of reading them.

    python3 files.py    # needs torch and numpy; writes files/ beside this file
"""

import io
import pathlib
import zipfile

import numpy as np
import torch

HERE = pathlib.Path(__file__).parent / "files"
HERE.mkdir(exist_ok=True)

for name in ("float16", "float32", "float64", "int32", "int64", "uint8", "bool"):
    np.save(HERE / f"{name}.npy", (np.arange(6).reshape(2, 3) - 1).astype(name))
np.save(HERE / "scalar.npy", np.float32(2.5))
np.save(HERE / "columns.npy", np.asfortranarray(np.arange(24, dtype=np.float32).reshape(2, 3, 4)))
np.save(HERE / "empty.npy", np.zeros((0, 3), np.float32))
np.save(HERE / "big-endian.npy", np.arange(3, dtype=">f4"))
np.savez(HERE / "two.npz", a=np.arange(3, dtype=np.float32), b=np.eye(2))
np.savez_compressed(HERE / "compressed.npz", zeros=np.zeros(10000, np.float32))

base = torch.arange(12, dtype=torch.float32)
model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
with torch.no_grad():
    for i, p in enumerate(model.state_dict().values()):
        p.copy_(torch.arange(p.numel()).reshape(p.shape) + 10 * i)
torch.save(model.state_dict(), HERE / "model.pth")
torch.save(
    {
        "epoch": 3,
        "state_dict": {
            "rows": base.reshape(3, 4),
            "transposed": base.reshape(3, 4).t(),
            "part": base.reshape(3, 4)[1:, 2],
            "half": torch.tensor([1.5, -2], dtype=torch.float16),
            "brain": torch.tensor([1.5, -2], dtype=torch.bfloat16),
            "long": torch.tensor([2**40, -1]),
            "bool": torch.tensor([True, False]),
            "scalar": torch.tensor(7.0),
            "empty": torch.zeros(0, 2),
            "parameter": torch.nn.Parameter(torch.ones(2)),
        },
        "history": [1.5, (2, "text"), None, True, 2**70],
    },
    HERE / "checkpoint.pt",
)


class Evil:
    def __reduce__(self):
        return (print, ("code was run",))


torch.save({"w": torch.ones(1), "evil": Evil()}, HERE / "evil.pth")
torch.save(torch.nn.Linear(1, 1), HERE / "module.pth")
torch.save(torch.ones(2), HERE / "old.pth", _use_new_zipfile_serialization=False)
