"""Golden numbers of what works on sequences: embeddings, attention, transformers, recurrent networks, CTC.

    python3 sequences.py   # needs torch and numpy; writes sequences.json beside this file

make.py says what a case is. Parameters are inputs under their names in PyTorch's state dict, in camelCase.
"""

import torch
import torch.nn.functional as F

from make import Cases, write


def embeddings(c):
    r = c.random("embedding")
    weight = r(7, 3)
    indices = torch.tensor([[1, 6, 0, 1], [2, 2, 1, 5]])
    for title, given, args in (
        ("embedding", {}, {}),
        ("embedding with a padding index", {"padding_idx": 2}, {"paddingIndex": 2}),
        ("embedding with a padding index from the back", {"padding_idx": -1}, {"paddingIndex": -1}),
    ):
        compute = lambda indices, weight, given=given: F.embedding(indices, weight, **given)
        c.add(title, "embedding", compute, {"indices": indices, "weight": weight}, args, grad=["weight"])
    for ord in (1, 2):
        limited = lambda indices, weight, ord=ord: F.embedding(indices, weight, max_norm=1.0, norm_type=float(ord))
        c.add(f"embedding of norms up to 1 by p = {ord}", "embedding", limited, {"indices": indices, "weight": weight},
              {"maxNorm": 1, "normType": ord}, more=lambda values: {"weight": values["weight"]})


def main():
    c = Cases()
    for family in (embeddings,):
        family(c)
    write("sequences", cases=c.cases)
    print(f"{len(c.cases)} cases")


if __name__ == "__main__":
    main()
