"""
The elementary functions and activations in f64, to 30 digits:

    python3 functions.py        # needs mpmath; writes functions.json beside this one

"functions": {name, rows: [x, high, low] or, of pow, [a, b, high, low]}: high + low is the value, high its nearest f64.
"""

import json
import math
import random
import struct
from pathlib import Path

import mpmath
from mpmath import mp, mpf

random.seed(9)
sqrt2 = lambda: mpmath.sqrt(2)


def finite_bits(n):
    """Doubles of random bits."""
    values = []
    while len(values) < n:
        (v,) = struct.unpack("d", struct.pack("Q", random.getrandbits(64)))
        if math.isfinite(v):
            values.append(v)
    return values


def spread(low, high, n):
    return [random.uniform(low, high) for _ in range(n)]


def logarithmic(low, high, n):
    return [random.choice((-1, 1)) * math.exp(random.uniform(math.log(low), math.log(high))) for _ in range(n)]


def around(*points):
    return [v for p in points for v in (math.nextafter(p, -math.inf), p, math.nextafter(p, math.inf))]


SMALLEST = [5e-324, -5e-324, 2.2250738585072014e-308, -2.225073858507201e-308, 1e-300, 1e-17, -1e-17, 1e-9]
WAVES = [k * math.pi / 2 for k in (1, 2, 3, 5, 22, 1001, 2**20, 2**20 + 7)]
# The double nearest to a multiple of π/2, relative to its size (Muller et al., Handbook of floating-point arithmetic).
NEAREST = 6381956970095103 * 2.0**797


def normal(x):
    if abs(x) > 100:
        return mpf(0 if x < 0 else 1)
    return mpmath.erfc(-x / sqrt2()) / 2


def sigmoid(x):
    return 1 / (1 + mpmath.exp(-x))


def tanh_gelu(x):
    return x * sigmoid(2 * mpmath.sqrt(2 / mp.pi) * (x + mpf(0.044715) * x**3))


wide = lambda low, high: finite_bits(40) + spread(low, high, 120) + SMALLEST
positive = lambda values: [abs(v) for v in values]
FUNCTIONS = {
    "exp": (mpmath.exp, spread(-746, 710, 120) + spread(-1, 1, 60) + SMALLEST + around(-708.4, 709.78)),
    "exp2": (lambda x: mpf(2) ** x, spread(-1075, 1024, 120) + spread(-1, 1, 60) + SMALLEST + [0.5, -1073.5]),
    "expm1": (mpmath.expm1, spread(-40, 710, 60) + spread(-1.5, 1.5, 60) + spread(0.35, 0.42, 60) + logarithmic(1e-20, 1, 40) + SMALLEST),
    "log": (mpmath.log, positive(wide(0.5, 2)) + around(1.0, math.sqrt(2), math.sqrt(0.5))),
    "log2": (lambda x: mpmath.log(x) / mpmath.log(2), positive(wide(0.5, 2)) + around(1.0, 2.0, 1024.0)),
    "log1p": (mpmath.log1p, [v for v in wide(-1, 3) if v > -1] + logarithmic(1e-20, 0.9, 60) + [math.nextafter(-1, 0)]),
    "sin": (mpmath.sin, wide(-30, 30) + logarithmic(1, 1e7, 60) + WAVES + [NEAREST] + around(1_600_000.0)),
    "cos": (mpmath.cos, wide(-30, 30) + logarithmic(1, 1e7, 60) + WAVES + [NEAREST] + around(1_600_000.0)),
    "tanh": (mpmath.tanh, wide(-20, 20) + logarithmic(1e-3, 1, 60)),
    "erf": (mpmath.erf, wide(-6, 6) + spread(-1.2, 1.2, 60) + around(1.0, -1.0)),
    "normcdf": (normal, wide(-38.5, 9) + spread(-3, 3, 100)),
    "rsqrt": (lambda x: 1 / mpmath.sqrt(x), positive(wide(0.5, 2))),
    "sigmoid": (sigmoid, wide(-40, 40) + spread(-745, -600, 20)),
    "silu": (lambda x: x * sigmoid(x), wide(-40, 40) + spread(-700, -600, 20)),
    "softplus": (lambda x: mpmath.log1p(mpmath.exp(x)), wide(-40, 20) + spread(-745, -600, 20)),
    "elu": (lambda x: x if x > 0 else mpmath.expm1(x), wide(-40, 5) + logarithmic(1e-20, 1, 40)),
    "gelu": (lambda x: x * normal(x), wide(-37, 9) + spread(-3, 3, 100)),
    "geluTanh": (tanh_gelu, spread(-8, 9, 150) + spread(-1, 1, 60) + SMALLEST),
}


def value(f, *args):
    mp.prec = 1300
    v = f(*map(mpf, args))
    high = float(v)
    if math.isinf(high):
        return ["Infinity" if high > 0 else "-Infinity", 0]
    return [high, float(f"{float(v - mpf(high)):.4g}")]


def in_range(name, x):
    """Where e^x is too large for mpmath, the result is one of the special values, which have a test of their own."""
    return abs(x) < 1e5 or name in ("log", "log2", "log1p", "sin", "cos", "erf", "normcdf", "rsqrt")


def powers():
    pairs = []
    for _ in range(60):
        a = math.exp(random.uniform(-744, 709))
        pairs.append((a, random.uniform(-1075, 1024) / math.log2(a)))
        a = 1 + random.choice((-1, 1)) * math.exp(random.uniform(-36, -1))
        pairs.append((a, random.uniform(-1075, 1024) / math.log2(a)))
        pairs.append((random.uniform(0.4, 3), random.uniform(-20, 20)))
        pairs.append((float(random.randint(2, 50)), float(random.randint(-180, 180))))
    return pairs


def angles():
    """Points in all directions and at all distances; near the axes and the eighths of a turn."""
    pairs = []
    for _ in range(60):
        turn, size = random.uniform(-math.pi, math.pi), math.exp(random.uniform(-700, 700))
        pairs.append((size * math.sin(turn), size * math.cos(turn)))
        x = random.choice((-1, 1)) * random.uniform(0.5, 2)
        pairs.append((x * random.choice(around(1.0, math.tan(math.pi / 8), 1 / math.tan(math.pi / 8))), x))
        pairs.append((random.uniform(-1, 1) * x, x))
        pairs.append((random.choice((-1, 1)) * math.exp(random.uniform(-40, -1)), x))
        pairs.append((x, random.choice((-1, 1)) * math.exp(random.uniform(-40, -1))))
    return pairs + list(zip(finite_bits(40), finite_bits(40)))


def composed():
    """What tensors have beside the elementary functions, made of several; after the others, whose numbers stay as they are."""
    unit = lambda: spread(-1, 1, 100) + logarithmic(1e-20, 1, 40) + around(0.5, -0.5) + [1.0, -1.0, math.nextafter(1, 0)] + SMALLEST
    turns = [v for v in wide(-30, 30) if abs(v) < 1e5] + WAVES[:6]
    near = lambda low: [v for v in wide(low, 20) if abs(v) < 1e5] + logarithmic(1e-9, 1, 40)
    scale, alpha = mpf(1.0507009873554805), mpf(1.6732632423543772)
    return {
        "tan": (mpmath.tan, turns + logarithmic(1e-3, 10, 60)),
        "asin": (mpmath.asin, unit()),
        "acos": (mpmath.acos, unit()),
        "sinh": (mpmath.sinh, spread(-710, 710, 80) + near(-20) + around(80.0, -80.0)),
        "cosh": (mpmath.cosh, spread(-710, 710, 80) + near(-20) + around(80.0, -80.0)),
        "logSigmoid": (lambda x: -mpmath.log1p(mpmath.exp(-x)), near(-40) + spread(600, 745, 20)),
        "mish": (lambda x: x * mpmath.tanh(mpmath.log1p(mpmath.exp(x))), near(-40) + spread(-745, -600, 40)),
        "softsign": (lambda x: x / (1 + abs(x)), wide(-20, 20) + logarithmic(1e-9, 1e9, 60)),
        "selu": (lambda x: scale * (x if x > 0 else alpha * mpmath.expm1(x)), near(-40)),
        "celu": (lambda x: x if x > 0 else mpmath.expm1(x), near(-40)),
    }


def main():
    lines = []

    def add(name, f, xs):
        rows = [[x, *value(f, x)] for x in xs if in_range(name, x)]
        lines.append(json.dumps({"name": name, "rows": rows}))

    for name, (f, xs) in FUNCTIONS.items():
        add(name, f, xs)
    lines.append(json.dumps({"name": "pow", "rows": [[a, b, *value(lambda p, q: p**q, a, b)] for a, b in powers()]}))
    lines.append(json.dumps({"name": "atan2", "rows": [[y, x, *value(mpmath.atan2, y, x)] for y, x in angles()]}))
    for name, (f, xs) in composed().items():
        add(name, f, xs)
    text = '{"functions": [\n' + ",\n".join(lines) + "\n]}\n"
    Path(__file__).with_name("functions.json").write_text(text)


main()
