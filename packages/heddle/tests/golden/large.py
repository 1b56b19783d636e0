"""Golden numbers for losses of logits at ±1e4, where e^x overflows and f32 has steps of a thousandth.

    python3 large.py       # needs torch and numpy; writes large.json beside this file

The file is as make.py describes ops.json. Losses stay as they are ('none'), so that each is compared with its own size.
"""

import torch
import torch.nn.functional as F

from make import Cases, write

BIG = 1e4
NONE = {"reduction": "none"}
# Apart, near each other at the top, near each other at the bottom, all the same, and one of usual size.
LOGITS = torch.tensor(
    [
        [BIG, -BIG, 0, 1, -1],
        [BIG, BIG - 1, BIG - 2, -BIG, 0],
        [-BIG, -BIG + 1, -BIG + 0.5, -BIG - 1, -BIG],
        [BIG, BIG, BIG, BIG, BIG],
        [-BIG, -BIG, -BIG, -BIG, -BIG],
        [BIG, -BIG, BIG, -BIG, BIG],
        [1, -0.5, 0, 0.25, -1],
    ]
)
LABELS = torch.tensor([1, 1, 3, 0, 4, 2, 3])
WEIGHT = torch.tensor([0.5, 2, 1, 0.25, 3])


def of_labels(c):
    scores = {"labels": LABELS, "weight": WEIGHT}
    for smoothing in (0.0, 0.1):

        def cross_entropy(logits, labels, weight, smoothing=smoothing):
            return F.cross_entropy(logits, labels, weight, label_smoothing=smoothing, reduction="none")

        args = NONE | {"labelSmoothing": smoothing}
        c.add(f"crossEntropy {smoothing}", "crossEntropy", cross_entropy, {"logits": LOGITS} | scores, args, grad=["logits"])
    logs = F.log_softmax(LOGITS.double(), 1).float()
    c.add("nllLoss", "nllLoss", lambda logProbabilities, labels: F.nll_loss(logProbabilities, labels, reduction="none"),
          {"logProbabilities": logs, "labels": LABELS}, NONE, grad=["logProbabilities"])
    for p in (1, 2):
        c.add(f"multiMargin {p}", "multiMargin",
              lambda x, labels, weight, p=p: F.multi_margin_loss(x, labels, p, weight=weight, reduction="none"),
              {"x": LOGITS} | scores, NONE | {"p": p}, grad=["x"])


def of_elements(c):
    x = torch.tensor([[BIG, -BIG, BIG, -BIG, BIG, -BIG], [1, -1, 0.5, -0.5, 2, -2]])
    bits = torch.tensor([1.0, 0, 0, 1, 0.25, 0.25])
    target = {"x": x, "target": bits.repeat(2, 1)}
    c.add("bceWithLogits", "bceWithLogits",
          lambda x, target: F.binary_cross_entropy_with_logits(x, target, reduction="none"), target, NONE, grad=["x"])
    c.add("bceWithLogits posWeight", "bceWithLogits", lambda x, target, posWeight: F.binary_cross_entropy_with_logits(
        x, target, pos_weight=posWeight, reduction="none"), target | {"posWeight": torch.tensor(3.0)}, NONE, grad=["x"])
    c.add("hinge", "hinge", lambda x, target: F.relu(1 - x * target),
          {"x": x, "target": torch.tensor([1.0, -1, -1, 1, -1, 1]).repeat(2, 1)}, NONE, grad=["x"])
    losses = {"mse": F.mse_loss, "l1": F.l1_loss, "huber": F.huber_loss, "smoothL1": F.smooth_l1_loss}
    for op, f in losses.items():
        c.add(op, op, lambda x, target, f=f: f(x, target, reduction="none"), target, NONE, grad=["x"])
    chances = torch.tensor([1.0, 0, 0.25, 0.5, 1e-30, 0]).repeat(2, 1)
    logs = torch.tensor([[-BIG, -BIG, -BIG, 0, -BIG, 0], [-1, -2, -0.5, -3, 0, -BIG]])
    c.add("klDiv", "klDiv", lambda x, target: F.kl_div(x, target, reduction="none"),
          {"x": logs, "target": chances}, NONE, grad=["x"])
    c.add("klDiv logTarget", "klDiv", lambda x, target: F.kl_div(x, target, reduction="none", log_target=True),
          {"x": logs, "target": logs.flip(0)}, NONE | {"logTarget": True}, grad=["x", "target"])


def of_vectors(c):
    x = torch.tensor([[BIG, -BIG, 0, 1], [BIG, BIG, BIG, BIG], [BIG, 1, -1, 0], [1, 2, -1, 0.5]])
    y = torch.tensor([[-BIG, BIG, BIG, 1], [BIG, -BIG, BIG, BIG], [0, BIG, BIG, 1], [BIG, 0, -BIG, BIG]])
    for sign in (1.0, -1.0):
        c.add(f"cosineEmbedding {sign}", "cosineEmbedding",
              lambda x, y, target: F.cosine_embedding_loss(x, y, target, reduction="none"),
              {"x": x, "y": y, "target": torch.full((4,), sign)}, NONE, grad=["x", "y"])
    for p in (2, 3):
        c.add(f"tripletMargin {p}", "tripletMargin",
              lambda x, y, z, p=p: F.triplet_margin_loss(x, y, z, p=p, reduction="none"),
              {"x": x, "y": y, "z": y.flip(0) / 8}, NONE | {"p": p}, grad=["x", "y", "z"])


def ctc(c):
    """Of multiples of 64, so that one way to say the target is far more probable than all others, and sums are exact."""
    generator = torch.Generator().manual_seed(1)
    logits = 64.0 * torch.randint(-156, 157, (5, 6, 4), generator=generator)
    lengths = {"inputLengths": torch.tensor([5, 5, 4, 5, 3, 5]), "targetLengths": torch.tensor([3, 2, 2, 1, 3, 0])}
    c.add("ctcLoss", "ctcLoss",
          lambda logits, targets, inputLengths, targetLengths: F.ctc_loss(
              logits.log_softmax(2), targets.long(), inputLengths, targetLengths, reduction="none"),
          {"logits": logits, "targets": torch.tensor([1, 2, 3]).repeat(6, 1)} | lengths, NONE, grad=["logits"])


def main():
    c = Cases()
    for part in (of_labels, of_elements, of_vectors, ctc):
        part(c)
    write("large", cases=c.cases)
    print(f"{len(c.cases)} cases")


if __name__ == "__main__":
    main()
