"""PyTorch reads what Heddle writes by PyTorch's names: strictly, and with the same result.

    python3 names.py    # needs torch; reads files/pytorch-names.safetensors, which tests/io/pytorch-names.test.ts has
                        # written, and writes names.json beside this file
"""

import json
import pathlib
import struct

import torch

HERE = pathlib.Path(__file__).parent
DTYPES = {"F32": torch.float32, "I64": torch.int64}


def safetensors(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    body = data[8 + length :]
    read = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        flat = torch.frombuffer(bytearray(body[begin:end]), dtype=DTYPES[entry["dtype"]])
        read[name] = flat.reshape(entry["shape"])
    return read


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 4, 3)
        self.bn1 = torch.nn.BatchNorm2d(4)
        self.up_conv = torch.nn.ConvTranspose2d(4, 2, 2)
        self.encoder = torch.nn.TransformerEncoderLayer(10, 2, 12, batch_first=True)
        self.lstm = torch.nn.LSTM(10, 5, num_layers=2, bidirectional=True, batch_first=True)
        self.cell = torch.nn.GRUCell(10, 6)
        self.head = torch.nn.Sequential(torch.nn.LayerNorm(6), torch.nn.PReLU(), torch.nn.Linear(6, 3))

    def forward(self, x):
        y = self.up_conv(torch.relu(self.bn1(self.conv1(x)))).flatten(2)  # (2, 2, 25)
        y = self.encoder(y.reshape(2, 5, 10))
        y, _ = self.lstm(y)
        return self.head(self.cell(y[:, -1]))


net = Net().eval()
net.load_state_dict(safetensors(HERE / "files" / "pytorch-names.safetensors"), strict=True)
x = torch.arange(72, dtype=torch.float32).reshape(2, 1, 6, 6) / 36 - 1
with torch.no_grad():
    output = net(x)
(HERE / "names.json").write_text(
    json.dumps({"names": sorted(net.state_dict()), "output": [float(v) for v in output.flatten()]}) + "\n"
)
