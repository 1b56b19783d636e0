"""
The polynomials of kernel/math/formats.ts, minimax fits of relative error by the Remez exchange, and its constants; the
bits of 2/π of kernel/elementary/wave.ts.

    pip install mpmath && python3 scripts/fit-polynomials.py

Prints, for each function and format, the coefficients (lowest first) and the largest relative error of the function
that is made of them, in bits; then π/2 in parts of 11 and 33 bits, and 64 bits of 2/π per word.
"""

from mpmath import cos, erf, erfc, exp, fabs, floor, log, lu_solve, matrix, mp, mpf, pi, sqrt

mp.dps = 60


def remez(f, weight, low, high, terms, rounds=12, grid=1500):
    """Coefficients p of the least largest |weight(x) · (Σ p[k] x^k − f(x))| on [low, high]."""
    low, high = mpf(low), mpf(high)
    middle, half = (low + high) / 2, (high - low) / 2
    points = [middle - half * cos(pi * i / terms) for i in range(terms + 1)]
    xs = [middle - half * cos(pi * i / grid) for i in range(grid + 1)]
    known = [(x, f(x), weight(x)) for x in xs]
    for _ in range(rounds):
        a = matrix(terms + 1, terms + 1)
        b = matrix(terms + 1, 1)
        for i, x in enumerate(points):
            for k in range(terms):
                a[i, k] = x**k
            a[i, terms] = (-1) ** i / weight(x)
            b[i] = f(x)
        solved = lu_solve(a, b)
        p = [solved[k] for k in range(terms)]
        errors = [w * (sum(c * x**k for k, c in enumerate(p)) - y) for x, y, w in known]
        extremes, start = [], 0
        for i in range(1, len(xs) + 1):
            if i == len(xs) or (errors[i] > 0) != (errors[start] > 0):
                extremes.append(max(range(start, i), key=lambda j: fabs(errors[j])))
                start = i
        while len(extremes) > terms + 1:
            extremes.pop(0 if fabs(errors[extremes[0]]) < fabs(errors[extremes[-1]]) else -1)
        if len(extremes) < terms + 1:
            break
        points = [xs[i] for i in extremes]
        sizes = [fabs(errors[i]) for i in extremes]
        if max(sizes) < min(sizes) * mpf("1.01"):
            break
    return p, max(fabs(e) for e in errors)


def show(name, terms, fit):
    p, error = fit
    print(f"{name}: {terms} terms, {-float(log(error, 2)):.1f} bits")
    print("  [" + ", ".join(repr(float(c)) for c in p) + "]")


def at_zero(f, value):
    return lambda x: value if x == 0 else f(x)


# erf x = x + x·P(x²) for |x| ≤ 1; the error relative to erf x.
slope = 2 / sqrt(pi)
erf_rest = at_zero(lambda z: erf(sqrt(z)) / sqrt(z) - 1, slope - 1)
erf_weight = at_zero(lambda z: sqrt(z) / erf(sqrt(z)), 1 / slope)

# erf x = 1 − e^(−P(x − 1)) for x from 1 to where that is 1; the error relative to erf x.
def far_fit(end, terms):
    return remez(lambda u: -log(erfc(u + 1)), lambda u: erfc(u + 1) / erf(u + 1), 0, end - 1, terms, grid=800)


# Φ(−t) = e^(−t²/2) · P(u) / (t + c) with u = (t − c) / (t + c), t from 0 to where Φ(−t) is 0.
def tail(c):
    def value(u):
        t = c * (1 + u) / (1 - u)
        return erfc(t / sqrt(2)) / 2 * exp(t * t / 2) * (t + c)

    return value


def tail_fit(c, end, terms):
    value = tail(mpf(c))
    return remez(value, lambda u: 1 / value(u), -1, (mpf(end) - c) / (mpf(end) + c), terms, grid=800)


# Φ(−t)/φ(t) = v·P(v) with v = 1/(1 + p·t), t from 0 to where φ(t) is 0 in f32; the error relative to it, and what is beyond
# `near` counts an eighth.
def ratio_fit(p, near, end, terms):
    time = lambda v: (1 / v - 1) / p
    ratio = lambda t: erfc(t / sqrt(2)) * exp(t * t / 2) * sqrt(pi / 2)
    weight = lambda v: v / ratio(time(v)) / (8 if time(v) > near else 1)
    return remez(lambda v: ratio(time(v)) / v, weight, 1 / (1 + p * mpf(end)), 1, terms, grid=800)


def parts(x, bits, count):
    """`count` numbers of so many bits, and what is left."""
    out = []
    for _ in range(count):
        unit = mpf(2) ** (floor(log(x, 2)) - bits + 1)
        out.append(float(floor(x / unit) * unit))
        x -= mpf(out[-1])
    return [*out, float(x)]


if __name__ == "__main__":
    show("f32 erf", 7, remez(erf_rest, erf_weight, 0, 1, 7))
    show("f64 erf", 12, remez(erf_rest, erf_weight, 0, 1, 12))
    show("f32 far erf", 7, far_fit(4, 7))
    show("f64 far erf", 19, far_fit(6, 19))
    show("f32 tail", 10, tail_fit(4, 14.5, 10))
    show("f64 tail", 23, tail_fit(5, 39, 23))
    show("f32 tail ratio", 6, ratio_fit(mpf("0.3"), mpf("5.6"), mpf("14.4"), 6))
    mp.prec = 1400
    print("halfPi, f32:", parts(pi / 2, 11, 4))
    print("halfPi, f64:", parts(pi / 2, 33, 3))
    for i in range(19):
        print(f"{int(floor(2 / pi * mpf(2) ** (64 * (i + 1)))) % 2**64:#018x}n")
