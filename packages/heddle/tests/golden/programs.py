"""What PyTorch computes for random programs: a check of the tape that all other random programs are checked with.

    python3 programs.py    # needs torch and numpy, and a build; writes programs.json beside this file

The programs are those that dist/tests/programs/print.js prints. Floats are computed in f64, whatever their dtype, so that
the results are those of exact arithmetic, and are stored as f32; all else has its own dtype. An array is base64 of
little-endian elements: f32, or of whole numbers and bools i32.
"""

import base64
import json
import math
import pathlib
import subprocess

import numpy as np
import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).parent
PRINT = HERE.parent.parent / "dist" / "tests" / "programs" / "print.js"
torch.set_num_threads(1)

FLOATS = {"f16", "bf16", "f32", "f64"}
WHOLE = {"i32": torch.int32, "u32": torch.int64, "u8": torch.uint8, "i64": torch.int64, "bool": torch.bool}
LIMITS = {"i32": (-2**31, 2**31 - 1), "u32": (0, 2**32 - 1), "u8": (0, 255), "i64": (-2**63, 2**63 - 1)}


class Value:
    """A tensor and Heddle's name of its dtype."""

    def __init__(self, t, dtype):
        self.t, self.dtype = t, dtype

    @property
    def is_float(self):
        return self.dtype in FLOATS


def rounded(number, dtype):
    """A number in the source takes the dtype of the tensor that it meets."""
    to = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}.get(dtype)
    return number if to is None else torch.tensor(number, dtype=torch.float64).to(torch.float32).to(to).double().item()


def wrapped(t, dtype):
    if dtype in FLOATS or dtype == "i64" or dtype == "bool":
        return t
    low, high = LIMITS[dtype]
    return ((t.long() - low) % (high - low + 1) + low).to(WHOLE[dtype])


def cast(x, dtype):
    if dtype == "bool":
        return x.t != 0
    if dtype in FLOATS:
        return x.t.double()
    if not x.is_float:
        return wrapped(x.t.long(), dtype)
    low, high = LIMITS[dtype]
    t = torch.nan_to_num(x.t.detach().trunc(), nan=0.0, posinf=float(high), neginf=float(low))
    return t.clamp(low, high).to(WHOLE[dtype])


def operands(x, arg):
    a = x[0]
    b = x[1].t if len(x) > 1 else torch.tensor(rounded(arg, a.dtype) if a.is_float else arg)
    b = b.double() if a.is_float else b
    return (a.t, b) if a.is_float or a.dtype == "bool" else (a.t.long(), b.long())


def binary(f):
    def run(x, arg):
        return wrapped(f(*operands(x, arg)), x[0].dtype), x[0].dtype

    return run


def comparison(f):
    return lambda x, arg: (f(*operands(x, arg)), "bool")


def unary(f):
    return lambda x, arg: (f(x[0].t), x[0].dtype)


def quotient(a, b):
    return torch.where(b == 0, torch.zeros_like(a), torch.div(a, torch.where(b == 0, 1, b), rounding_mode="trunc"))


def remainder(a, b):
    if a.is_floating_point():
        return torch.fmod(a, b)
    return torch.where(b == 0, torch.zeros_like(a + b), torch.fmod(a, torch.where(b == 0, 1, b)))


def bits(f):
    def run(x, arg):
        if x[0].dtype == "bool":
            return f(x[0].t, x[1].t), "bool"
        a, b = operands(x, arg)
        return wrapped(f(a, b), x[0].dtype), x[0].dtype

    return run


def reduction(f):
    def run(x, arg):
        x, axes, keep = x[0], arg["axes"], arg["keepdim"]
        dtype = "i32" if x.dtype == "u8" and f in (total, product) else x.dtype
        t = x.t if x.is_float else x.t.long()
        return wrapped(f(t, axes, keep), dtype), dtype

    return run


def total(t, axes, keep):
    return t.sum(axes, keepdim=keep) if axes else t


def product(t, axes, keep):
    for axis in sorted(axes, reverse=True):
        t = t.prod(axis, keepdim=True)
    return t if keep else t.reshape([n for d, n in enumerate(t.shape) if d not in axes])


def extreme(f):
    return lambda t, axes, keep: f(t, axes, keepdim=keep) if axes else t


def spread(correction, root=False):
    def run(t, axes, keep):
        if not axes:
            axes, keep = [], True
        n = math.prod(t.shape[d] for d in axes)
        apart = t - (t.mean(axes, keepdim=True) if axes else t)
        squares = (apart**2).sum(axes, keepdim=keep) if axes else apart**2
        variance = squares / max(1, n - correction) if n > correction else squares * math.inf
        return variance.sqrt() if root else variance

    return run


def place(f):
    return lambda x, arg: (f(x[0].t, arg["axis"], keepdim=arg["keepdim"]).to(torch.int32), "i32")


def gelu_tanh(t):
    """As F.gelu(t, approximate="tanh"), which loses all digits of small results: 1 + tanh(u) = 2 sigmoid(2u)."""
    return t * torch.sigmoid(2 * math.sqrt(2 / math.pi) * (t + 0.044715 * t**3))


def norm(x, arg):
    ord, axes, keep = number(arg["ord"]), arg["axes"], arg["keepdim"]
    if not axes:
        return x[0].t.abs(), x[0].dtype
    return torch.linalg.vector_norm(x[0].t, ord, axes, keep), x[0].dtype


def ordered(t, arg):
    return t.sort(dim=arg["axis"], descending=arg["descending"], stable=True)


def sliced(x, arg):
    t = x[0].t
    for axis, part in enumerate(arg):
        t = t.index_select(axis, torch.tensor(part["positions"], dtype=torch.long))
    return t, x[0].dtype


def rows(x, arg):
    t, axis = x[0].t, arg["axis"]
    return t.index_select(axis, torch.tensor([k % t.shape[axis] for k in arg["positions"]])), x[0].dtype


def padded(x, arg):
    amounts = [n for pair in reversed(arg["amounts"]) for n in pair]
    t = x[0].t
    kind = t.dtype
    t = t.long() if not x[0].is_float else t
    return F.pad(t, amounts, value=arg["value"]).to(kind), x[0].dtype


def expanded(x, arg):
    t = x[0].t.unsqueeze(arg["at"])
    return t.expand([arg["times"] if d == arg["at"] else n for d, n in enumerate(t.shape)]), x[0].dtype


def matmul(x, arg):
    a, b = x[0].t, x[1].t
    return a @ (b.transpose(-1, -2) if arg["transposed"] else b), x[0].dtype


def linear(x, _):
    return F.linear(x[0].t, x[1].t, x[2].t if len(x) > 2 else None), x[0].dtype


def conv2d(x, arg):
    bias = x[2].t if len(x) > 2 else None
    image = x[0].t.reshape(arg["image"])
    return F.conv2d(image, x[1].t, bias, arg["stride"], arg["padding"], 1, arg["groups"]), x[0].dtype


def max_pool(x, arg):
    return F.max_pool2d(x[0].t.reshape(arg["image"]), arg["kernel"], arg["stride"], arg["padding"]), x[0].dtype


def avg_pool(x, arg):
    image = x[0].t.reshape(arg["image"])
    pad = arg["countIncludePad"]
    return F.avg_pool2d(image, arg["kernel"], arg["stride"], arg["padding"], count_include_pad=pad), x[0].dtype


def batch_norm(x, arg):
    image, n = x[0].t.reshape(arg["image"]), arg["image"][1]
    mean, variance = torch.zeros(n, dtype=torch.float64), torch.ones(n, dtype=torch.float64)
    weight, bias = (x[1].t, x[2].t) if arg["affine"] else (None, None)
    eps = rounded(1e-5, x[0].dtype) if x[0].dtype in ("f32", "f64") else rounded(1e-5, "f32")
    return F.batch_norm(image, mean, variance, weight, bias, arg["training"], eps=eps), x[0].dtype


def reduced(losses, how):
    return losses if how == "none" else losses.sum() if how == "sum" else losses.mean()


def labelled(log):
    def run(x, arg):
        logs = F.log_softmax(x[0].t, 1) if log else x[0].t
        weight = x[2].t if arg["weighted"] else None
        ignore = arg.get("ignoreIndex", -100)
        smooth = arg.get("labelSmoothing", 0)
        # Of log-probabilities cross_entropy would take the softmax again, which leaves them as they are.
        f = F.cross_entropy if log else F.nll_loss
        more = {"label_smoothing": smooth} if log else {}
        t = f(logs, x[1].t.long(), weight=weight, ignore_index=ignore, reduction=arg["reduction"], **more)
        return t, x[0].dtype

    return run


def pairwise(f):
    return lambda x, arg: (reduced(f(x[0].t, x[1].t), arg), x[0].dtype)


def full(_, arg):
    dtype = "f64" if arg["wide"] else "f32"
    return torch.full(arg["shape"], rounded(arg["value"], dtype), dtype=torch.float64), dtype


def arange(_, arg):
    n = arg["n"]
    return (torch.arange(n).double() + 0.5, "f32") if arg["float"] else (torch.arange(n, dtype=torch.int32), "i32")


def where(x, _):
    return torch.where(x[0].t, x[1].t, x[2].t), x[1].dtype


def one_hot(x, classes):
    return (x[0].t.unsqueeze(-1) == torch.arange(classes)).double(), "f32"


def shape_of(f):
    return lambda x, arg: (f(x[0].t, arg), x[0].dtype)


def inverted(x, _):
    return (~x[0].t if x[0].dtype == "bool" else wrapped(~x[0].t.long(), x[0].dtype)), x[0].dtype


OPS = {
    **{n: unary(getattr(torch, n)) for n in ("abs", "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "tanh")},
    **{n: unary(getattr(torch, n)) for n in ("sigmoid", "floor", "ceil", "trunc", "round", "sign", "relu", "square")},
    **{n: unary(getattr(torch, n)) for n in ("reciprocal", "erf", "expm1", "log1p")},
    "leakyRelu": unary(lambda t: F.leaky_relu(t, 0.25)),
    "elu": unary(F.elu),
    "silu": unary(F.silu),
    "softplus": unary(F.softplus),
    "softplusBeta": unary(lambda t: F.softplus(t, 2, 5)),
    "gelu": unary(F.gelu),
    "geluTanh": unary(gelu_tanh),
    "neg": lambda x, _: (wrapped(-x[0].t, x[0].dtype), x[0].dtype),
    "clamp": shape_of(lambda t, arg: t.clamp(*arg)),
    "isNaN": lambda x, _: (torch.isnan(x[0].t), "bool"),
    "detach": unary(lambda t: t.detach()),
    "not": inverted,
    "where": where,
    "cast": lambda x, dtype: (cast(x[0], dtype), dtype),
    "add": binary(torch.add),
    "sub": binary(torch.sub),
    "mul": binary(torch.mul),
    "div": binary(torch.div),
    "pow": binary(torch.pow),
    "mod": binary(remainder),
    "idiv": binary(quotient),
    "maximum": binary(torch.maximum),
    "minimum": binary(torch.minimum),
    **{n: comparison(getattr(torch, n)) for n in ("lt", "le", "gt", "ge", "eq", "ne")},
    "and": bits(torch.bitwise_and),
    "or": bits(torch.bitwise_or),
    "xor": bits(torch.bitwise_xor),
    "permute": shape_of(lambda t, order: t.permute(order)),
    "reshape": shape_of(lambda t, shape: t.reshape(shape)),
    "expand": expanded,
    "unsqueeze": shape_of(lambda t, at: t.unsqueeze(at)),
    "squeeze": shape_of(lambda t, at: t.squeeze(at)),
    "flip": shape_of(lambda t, axis: t.flip(axis)),
    "slice": sliced,
    "select": shape_of(lambda t, arg: t.select(arg["axis"], arg["at"])),
    "pad": padded,
    "rows": rows,
    "cat": lambda x, axis: (torch.cat([v.t for v in x], axis), x[0].dtype),
    "stack": lambda x, axis: (torch.stack([v.t for v in x], axis), x[0].dtype),
    "gather": lambda x, axis: (torch.gather(x[0].t, axis, x[1].t.long()), x[0].dtype),
    "sum": reduction(total),
    "mean": reduction(lambda t, axes, keep: t.mean(axes, keepdim=keep) if axes else t),
    "max": reduction(extreme(torch.amax)),
    "min": reduction(extreme(torch.amin)),
    "prod": reduction(product),
    "variance": reduction(spread(1)),
    "biasedVariance": reduction(spread(0)),
    "std": reduction(spread(1, root=True)),
    "argmax": place(torch.argmax),
    "argmin": place(torch.argmin),
    "softmax": shape_of(F.softmax),
    "logSoftmax": shape_of(F.log_softmax),
    "cumsum": shape_of(torch.cumsum),
    "cumprod": shape_of(torch.cumprod),
    "norm": norm,
    "logSumExp": shape_of(torch.logsumexp),
    "roll": shape_of(lambda t, arg: t.roll(arg["by"], arg["axis"])),
    "tril": shape_of(torch.tril),
    "triu": shape_of(torch.triu),
    "sort": shape_of(lambda t, arg: ordered(t, arg).values),
    "argsort": lambda x, arg: (ordered(x[0].t, arg).indices.to(torch.int32), "i32"),
    "topk": shape_of(lambda t, arg: ordered(t, arg).values.narrow(arg["axis"], 0, arg["k"])),
    "scatterAdd": lambda x, axis: (x[0].t.scatter_add(axis, x[1].t.long(), x[2].t), x[0].dtype),
    "einsum": lambda x, equation: (torch.einsum(equation, *(v.t for v in x)), x[0].dtype),
    "matmul": matmul,
    "linear": linear,
    "conv2d": conv2d,
    "maxPool2d": max_pool,
    "avgPool2d": avg_pool,
    "batchNorm": batch_norm,
    "oneHot": one_hot,
    "arange": arange,
    "full": full,
    "crossEntropy": labelled(True),
    "nllLoss": labelled(False),
    "mse": pairwise(lambda x, t: (x - t) ** 2),
    "l1": pairwise(lambda x, t: (x - t).abs()),
    "huber": pairwise(lambda x, t: F.huber_loss(x, t, reduction="none")),
    "hinge": pairwise(lambda x, t: torch.relu(1 - x * t)),
    "bce": pairwise(lambda x, t: -(t * x.log().clamp(min=-100) + (1 - t) * (1 - x).log().clamp(min=-100))),
    "bceWithLogits": pairwise(lambda x, t: F.softplus(x, threshold=1e9) - x * t),
}


def number(v):
    return float(v.replace("Infinity", "inf")) if isinstance(v, str) else v


def encoded(value):
    t = value.t.detach().contiguous()
    kind = "<f4" if t.is_floating_point() else "<i4"
    with np.errstate(all="ignore"):
        data = t.numpy().astype(kind)
    return {"shape": list(t.shape), "data": base64.b64encode(data.tobytes()).decode()}


def run(program):
    values, parameters = [], []
    for given in program["inputs"]:
        of = [number(v) for v in given["values"][0]]
        is_float = given["dtype"] in FLOATS
        t = torch.tensor(of, dtype=torch.float64 if is_float else WHOLE[given["dtype"]]).reshape(given["shape"])
        if given.get("requiresGrad"):
            t.requires_grad_(True)
            parameters.append(t)
        values.append(Value(t, given["dtype"]))
    for step in program["steps"]:
        t, dtype = OPS[step["op"]]([values[i] for i in step["src"]], step["arg"])
        values.append(Value(t, dtype))
    for loss in program["losses"]:
        if values[loss].t.requires_grad:
            values[loss].t.sum().backward(retain_graph=True)
    gradients = [Value(torch.zeros_like(p) if p.grad is None else p.grad, "f64") for p in parameters]
    return {
        "program": program,
        "outputs": [encoded(values[i]) for i in program["outputs"]],
        "gradients": [encoded(g) for g in gradients],
    }


def main():
    programs = json.loads(subprocess.run(["node", PRINT], check=True, capture_output=True, text=True).stdout)
    used = {step["op"] for program in programs for step in program["steps"]}
    print(f"{len(programs)} programs of {len(used)} ops; not among them: {sorted(set(OPS) - used)}")
    lines = ",\n".join(json.dumps(run(program), separators=(",", ":")) for program in programs)
    (HERE / "programs.json").write_text(f'{{"torch": "{torch.__version__}", "programs": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
