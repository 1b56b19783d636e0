"""Golden numbers of what works on signals, images and volumes: convolutions, pooling, resizing, padding.

    python3 images.py      # needs torch and numpy; writes images.json beside this file

make.py says what a case is.
"""

import json

import torch
import torch.nn.functional as F

from make import Cases, write


def snake(name):
    return "".join("_" + l.lower() if l.isupper() else l for l in name)


def torch_names(args):
    return {snake(k): v for k, v in args.items()}


def convolutions(c):
    for op, x, w, args in (
        ("conv1d", (2, 3, 9), (4, 3, 3), {}),
        ("conv1d", (2, 4, 11), (6, 2, 3), {"stride": 2, "padding": 2, "dilation": 2, "groups": 2}),
        ("conv1d", (1, 3, 5), (3, 1, 5), {"padding": 2, "groups": 3}),
        ("conv3d", (2, 2, 4, 5, 6), (3, 2, 2, 3, 3), {}),
        ("conv3d", (1, 4, 5, 6, 5), (6, 2, 3, 2, 3), {"stride": [2, 1, 2], "padding": [1, 0, 1], "groups": 2}),
        ("conv3d", (1, 1, 6, 5, 5), (2, 1, 2, 2, 2), {"dilation": [3, 2, 1], "padding": 1}),
        ("conv1d", (2, 2, 7), (3, 2, 4), {"padding": "same", "dilation": 3}),
        ("conv2d", (1, 2, 5, 6), (4, 1, 4, 3), {"padding": "same", "groups": 2}),
        ("conv2d", (1, 2, 4, 4), (2, 2, 3, 3), {"padding": "valid", "stride": 2}),
        ("conv3d", (1, 2, 3, 4, 3), (2, 2, 2, 3, 2), {"padding": "same", "dilation": [1, 2, 1]}),
        ("convTranspose1d", (2, 3, 5), (3, 4, 3), {}),
        ("convTranspose1d", (2, 4, 5), (4, 2, 4), {"stride": 3, "padding": 1, "outputPadding": 2, "groups": 2}),
        ("convTranspose2d", (1, 1, 1, 1), (1, 1, 2, 2), {}),
        ("convTranspose2d", (2, 3, 4, 5), (3, 2, 3, 3), {}),
        ("convTranspose2d", (2, 3, 4, 5), (3, 2, 4, 4), {"stride": 2, "padding": 1}),
        ("convTranspose2d", (1, 2, 5, 4), (2, 3, 3, 2), {"stride": [2, 3], "padding": [1, 0], "outputPadding": [1, 2]}),
        ("convTranspose2d", (1, 4, 4, 4), (4, 3, 3, 3), {"groups": 2, "dilation": 2, "padding": 2}),
        ("convTranspose2d", (1, 4, 3, 4), (4, 1, 3, 3), {"groups": 4, "stride": 2}),
        ("convTranspose2d", (1, 2, 4, 3), (2, 2, 2, 2), {"dilation": 3, "outputPadding": 2, "padding": 1}),
        ("convTranspose3d", (2, 2, 3, 2, 3), (2, 3, 2, 3, 2), {}),
        ("convTranspose3d", (1, 4, 2, 3, 2), (4, 1, 3, 3, 2), {"stride": [2, 1, 3], "padding": [1, 0, 1], "outputPadding": [1, 0, 2], "groups": 2}),
        ("convTranspose3d", (1, 1, 3, 2, 2), (1, 2, 2, 2, 2), {"dilation": 3, "outputPadding": 2, "padding": 1}),
    ):
        name = f"{op} {x} {w} {json.dumps(args)}"
        r = c.random(name)
        f = getattr(F, "conv_transpose" + op[-2:] if "Transpose" in op else op)
        outputs = w[1] * args.get("groups", 1) if "Transpose" in op else w[0]
        compute = lambda x, weight, bias, f=f, args=args: f(x, weight, bias, **torch_names(args))
        inputs = {"x": r(*x), "weight": r(*w), "bias": r(outputs)}
        c.add(name, op, compute, inputs, args, grad=["x", "weight", "bias"])


def pools(c):
    for op, x, args in (
        ("maxPool1d", (2, 3, 9), {"kernel": 2}),
        ("maxPool1d", (1, 2, 11), {"kernel": 3, "stride": 2, "padding": 1, "dilation": 2}),
        ("avgPool1d", (2, 3, 9), {"kernel": 2}),
        ("avgPool1d", (1, 2, 11), {"kernel": 3, "stride": 2, "padding": 1, "countIncludePad": False}),
        ("adaptiveAvgPool1d", (2, 2, 7), {"outputSize": 3}),
        ("adaptiveMaxPool1d", (2, 2, 7), {"outputSize": 3}),
        ("adaptiveAvgPool2d", (2, 3, 5, 7), {"outputSize": 1}),
        ("adaptiveAvgPool2d", (2, 3, 6, 8), {"outputSize": [3, 2]}),
        ("adaptiveAvgPool2d", (1, 2, 5, 7), {"outputSize": [3, 4]}),
        ("adaptiveAvgPool2d", (1, 2, 3, 2), {"outputSize": [5, 2]}),
        ("adaptiveMaxPool2d", (2, 3, 6, 8), {"outputSize": [3, 2]}),
        ("adaptiveMaxPool2d", (1, 2, 5, 7), {"outputSize": [3, 4]}),
        ("adaptiveMaxPool2d", (1, 2, 3, 2), {"outputSize": [5, 2]}),
    ):
        name = f"{op} {x} {json.dumps(args)}"
        rest = {snake(k): v for k, v in args.items() if k not in ("kernel", "outputSize")}
        f = getattr(F, snake(op))
        size = args.get("kernel", args.get("outputSize"))
        compute = lambda x, f=f, size=size, rest=rest: f(x, size, **rest)
        c.add(name, op, compute, {"x": c.random(name)(*x)}, args, grad=["x"])


def resizing(c):
    for x, args in (
        ((2, 2, 5), {"size": 8}),
        ((2, 2, 3, 4), {"scaleFactor": 2}),
        ((1, 2, 5, 4), {"size": [3, 7]}),
        ((1, 1, 5, 6), {"scaleFactor": [1.3, 0.7]}),
        ((2, 2, 5), {"size": 8, "mode": "nearest-exact"}),
        ((1, 2, 5, 4), {"size": [3, 8], "mode": "nearest-exact"}),
        ((1, 1, 5, 6), {"scaleFactor": [1.3, 0.7], "mode": "nearest-exact"}),
        ((2, 2, 5), {"size": 3, "mode": "area"}),
        ((1, 1, 5, 6), {"scaleFactor": [1.3, 0.7], "mode": "area"}),
        ((2, 2, 5), {"size": 8, "mode": "linear"}),
        ((2, 2, 5), {"size": 3, "mode": "linear", "alignCorners": True}),
        ((1, 2, 3, 4), {"scaleFactor": 2, "mode": "bilinear"}),
        ((1, 2, 3, 4), {"size": [5, 9], "mode": "bilinear", "alignCorners": True}),
        ((1, 1, 5, 6), {"scaleFactor": [1.3, 0.7], "mode": "bilinear"}),
        ((1, 1, 2, 3), {"size": 1, "mode": "bilinear", "alignCorners": True}),
        ((1, 2, 3, 4), {"scaleFactor": 2, "mode": "bicubic"}),
        ((1, 2, 6, 5), {"size": [4, 9], "mode": "bicubic", "alignCorners": True}),
    ):
        name = f"interpolate {x} {json.dumps(args)}"
        compute = lambda x, args=args: F.interpolate(x, **torch_names(args))
        c.add(name, "interpolate", compute, {"x": c.random(name)(*x)}, args, grad=["x"])
    for op, x in (("pixelShuffle", (2, 8, 3, 2)), ("pixelUnshuffle", (2, 2, 4, 6))):
        compute = lambda x, f=getattr(F, snake(op)): f(x, 2)
        c.add(op, op, compute, {"x": c.random(op)(*x)}, {"factor": 2}, grad=["x"])
    for mode in ("reflect", "replicate", "circular"):
        for x, sides in (((2, 2, 5), [2, 3]), ((1, 2, 4, 5), [3, 1, 2, 0])):
            name = f"pad {mode} {x}"
            compute = lambda x, sides=sides, mode=mode: F.pad(x, sides, mode=mode)
            amounts = [list(pair) for pair in reversed(list(zip(sides[::2], sides[1::2])))]
            args = {"amounts": [0, 0, 0, 0, *sum(amounts, [])], "mode": mode}
            c.add(name, "pad", compute, {"x": c.random(name)(*x)}, args, grad=["x"])
    windows = {"stride": [2, 1], "padding": [1, 2], "dilation": [2, 1]}
    r = c.random("unfold")
    c.add(
        "unfold",
        "unfold",
        lambda x: F.unfold(x, (2, 3), **windows),
        {"x": r(2, 2, 5, 4)},
        {"kernel": [2, 3], **windows},
        grad=["x"],
    )
    columns = F.unfold(torch.zeros(2, 2, 5, 4), (2, 3), **windows).shape
    c.add(
        "fold",
        "fold",
        lambda x: F.fold(x, (5, 4), (2, 3), **windows),
        {"x": r(*columns)},
        {"outputSize": [5, 4], "kernel": [2, 3], **windows},
        grad=["x"],
    )


def main():
    c = Cases()
    for family in (convolutions, pools, resizing):
        family(c)
    write("images", cases=c.cases)
    print(f"{len(c.cases)} cases")


if __name__ == "__main__":
    main()
