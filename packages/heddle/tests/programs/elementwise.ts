/** Ops on each element: rows of the table. */
import { DTYPES, type DTypeName, LIMITS } from '../../src/core/dtype.js';
import type { Tensor } from '../../src/index.js';
import * as H from '../../src/index.js';
import * as nd from '../ndarray.js';
import { type Choice, constantFor, each, type Op, op, type Picker } from './op.js';
import { type Curve, type Entries, FORMATS, isFloat, type Tape } from './tape.js';

const isWhole = (dtype: DTypeName): boolean => !isFloat(dtype) && dtype !== 'bool';

// ── one operand ──────────────────────────────────────────────────────────────────────────────────────────────────

/** The error function: e^−x² Σ 2ⁿx²ⁿ⁺¹/(2n + 1)!!, of which no term cancels another. */
export function erf(x: number): number {
  if (Math.abs(x) > 3) return Math.sign(x) * (1 - erfc(Math.abs(x)));
  let [term, sum] = [x, x];
  for (let n = 1; n < 100; n++) {
    term *= (2 * x * x) / (2 * n + 1);
    sum += term;
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}

/** 1 − erf(x), by its continued fraction where that is small. */
export function erfc(x: number): number {
  if (x < 0.8) return 1 - erf(x);
  if (x > 30) return 0;
  let fraction = x;
  for (let k = 400; k > 0; k--) fraction = x + k / 2 / fraction;
  return Math.exp(-x * x) / fraction / Math.sqrt(Math.PI);
}

const normal = (x: number): number => erfc(-x / Math.SQRT2) / 2;
const density = (x: number): number => Math.exp((-x * x) / 2) / Math.sqrt(2 * Math.PI);
const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x));
const softplus = (x: number): number => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)));
const toInteger = (x: number): number => Math.abs(x - Math.round(x));
/** To the nearest whole number, ties to even. */
const rint = (x: number): number => {
  const low = Math.floor(x);
  return x - low < 0.5 || (x - low === 0.5 && low % 2 === 0) ? low : low + 1;
};
const step = (f: (x: number) => number, jump: (x: number) => number): Curve => ({
  ...{ f, slope: () => 0, jump, exact: true, flat: true },
});

type Unary = readonly [run: (t: Tensor) => Tensor, curve: Curve];
const CURVES: Readonly<Record<string, Unary>> = {
  abs: [(t) => t.abs(), { f: Math.abs, slope: Math.sign, jump: Math.abs, exact: true }],
  exp: [(t) => t.exp(), { f: Math.exp, slope: Math.exp }],
  expm1: [(t) => t.expm1(), { f: Math.expm1, slope: Math.exp }],
  log1p: [(t) => t.log1p(), { f: Math.log1p, slope: (x) => 1 / (1 + x) }],
  exp2: [(t) => t.exp2(), { f: (x) => 2 ** x, slope: (x) => Math.LN2 * 2 ** x }],
  log: [(t) => t.log(), { f: Math.log, slope: (x) => 1 / x }],
  log2: [(t) => t.log2(), { f: Math.log2, slope: (x) => 1 / (x * Math.LN2) }],
  sqrt: [(t) => t.sqrt(), { f: Math.sqrt, slope: (x) => 0.5 / Math.sqrt(x) }],
  rsqrt: [(t) => t.rsqrt(), { f: (x) => 1 / Math.sqrt(x), slope: (x) => -0.5 * x ** -1.5 }],
  sin: [(t) => t.sin(), { f: Math.sin, slope: Math.cos, waves: true }],
  cos: [(t) => t.cos(), { f: Math.cos, slope: (x) => -Math.sin(x), waves: true }],
  tanh: [(t) => t.tanh(), { f: Math.tanh, slope: (x) => 1 / Math.cosh(x) ** 2, slopeScale: () => 1 }],
  sigmoid: [(t) => t.sigmoid(), { f: sigmoid, slope: (x) => sigmoid(x) * sigmoid(-x), slopeScale: sigmoid }],
  floor: [(t) => t.floor(), step(Math.floor, toInteger)],
  ceil: [(t) => t.ceil(), step(Math.ceil, toInteger)],
  trunc: [(t) => t.trunc(), step(Math.trunc, toInteger)],
  round: [(t) => t.round(), step(rint, (x) => toInteger(x - 0.5))],
  sign: [(t) => t.sign(), step((x) => (x === 0 ? 0 : Math.sign(x)), Math.abs)],
  relu: [
    (t) => t.relu(),
    { f: (x) => Math.max(x, 0), slope: (x) => (x > 0 ? 1 : 0), jump: Math.abs, exact: true },
  ],
  leakyRelu: [
    (t) => H.leakyRelu(t, { negativeSlope: 0.25 }),
    { f: (x) => (x > 0 ? x : 0.25 * x), slope: (x) => (x > 0 ? 1 : 0.25), jump: Math.abs },
  ],
  elu: [
    (t) => H.elu(t),
    {
      f: (x) => (x > 0 ? x : Math.expm1(x)),
      slope: (x) => (x > 0 ? 1 : Math.exp(x)),
    },
  ],
  softplus: [
    (t) => H.softplus(t),
    {
      f: (x) => (x > 20 ? x : softplus(x)),
      slope: (x) => (x > 20 ? 1 : sigmoid(x)),
      ...{ ulps: 8, jump: (x: number) => Math.abs(x - 20) },
    },
  ],
  softplusBeta: [
    (t) => H.softplus(t, { beta: 2, threshold: 5 }),
    {
      f: (x) => (2 * x > 5 ? x : softplus(2 * x) / 2),
      slope: (x) => (2 * x > 5 ? 1 : sigmoid(2 * x)),
      ...{ ulps: 8, jump: (x: number) => Math.abs(x - 2.5) },
    },
  ],
  gelu: [
    (t) => H.gelu(t),
    {
      f: (x) => x * normal(x),
      slope: (x) => normal(x) + x * density(x),
      ulps: 24,
      slopeScale: (x) => 1 + Math.abs(x) * density(x),
    },
  ],
  geluTanh: [
    (t) => H.gelu(t, { approximate: 'tanh' }),
    {
      f: (x) => x / (1 + Math.exp(-2 * inner(x))),
      slope: (x) => 0.5 * (1 + Math.tanh(inner(x))) + (0.5 * x * innerSlope(x)) / Math.cosh(inner(x)) ** 2,
      ulps: 200,
      slopeScale: (x) => 2 * (1 + Math.abs(x) * innerSlope(x)),
    },
  ],
  erf: [
    (t) => H.erf(t),
    {
      f: erf,
      slope: (x) => (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x),
      slopeScale: (x) => Math.exp(-x * x) * (2 + 2 * x * x),
    },
  ],
};
const inner = (x: number): number => Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3);
const innerSlope = (x: number): number => Math.sqrt(2 / Math.PI) * (1 + 3 * 0.044715 * x * x);

const anyFloats = (p: Picker): Choice<null> | undefined => {
  const x = p.floats();
  return x === undefined ? undefined : { src: [x], arg: null };
};

const curves = Object.fromEntries(
  Object.entries(CURVES).map(([name, [run, curve]]): [string, Op<unknown>] => [
    name,
    op<null>({
      choose: anyFloats,
      run: ([t]) => run(t!),
      exact: (tape, [x]) => each(x!, (id) => tape.curve(x!.dtype, id, curve)),
    }),
  ]),
);

// ── two operands ─────────────────────────────────────────────────────────────────────────────────────────────────

/** Two values that broadcast to one shape; the second may be a number, or a row or column made for the first. */
function pair(
  p: Picker,
  suits: (dtype: DTypeName) => boolean,
): { src: number[]; arg: number | null } | undefined {
  const x = p.value((_, dtype) => suits(dtype));
  if (x === undefined) return undefined;
  const dtype = p.dtype(x);
  if (dtype !== 'bool' && p.chance(0.25))
    return {
      src: [x],
      arg: isFloat(dtype)
        ? constantFor(p)
        : p.one(dtype === 'i32' || dtype === 'i64' ? [2, 3, -1, 7, 0] : [2, 3, 7, 0]),
    };
  const shape = p.shape(x);
  const other = p.value((s, t) => t === dtype && broadcasts(shape, s));
  if (other !== undefined && p.chance(0.5))
    return { src: p.chance(0.5) ? [x, other] : [other, x], arg: null };
  const part = p.chance(0.6)
    ? shape
    : shape.slice(p.below(shape.length + 1)).map((n) => (p.chance(0.3) ? 1 : n));
  return { src: [x, p.fitting(part, dtype)], arg: null };
}
const broadcasts = (s: readonly number[], t: readonly number[]): boolean =>
  Array.from({ length: Math.min(s.length, t.length) }, (_, i) => [s.at(-1 - i)!, t.at(-1 - i)!]).every(
    ([n, m]) => n === m || n === 1 || m === 1,
  );

/** The operands' entries, broadcast, and those of a number that stands for the second. */
function operands(tape: Tape, x: readonly Entries[], arg: number | null): [Entries, Entries] {
  const [a] = x as [Entries];
  const b = x[1] ?? { shape: [], dtype: a.dtype, data: [tape.constant(a.dtype, arg!)] };
  const shape = nd.broadcastShape(a.shape, b.shape);
  return [a, b].map((e) => ({ ...nd.broadcastTo(e, shape), dtype: e.dtype })) as [Entries, Entries];
}

type Scalars = (tape: Tape, dtype: DTypeName, a: number, b: number) => number;
const binary = (
  run: (a: Tensor, b: Tensor | number) => Tensor,
  suits: (dtype: DTypeName) => boolean,
  scalar: Scalars,
  result?: DTypeName,
): Op<unknown> =>
  op<number | null>({
    choose: (p) => pair(p, suits),
    run: ([a, b], arg) => run(a!, b ?? arg!),
    exact: (tape, x, arg) => {
      const [a, b] = operands(tape, x, arg);
      return each(a, (id, i) => scalar(tape, a.dtype, id, b.data[i]!), result ?? a.dtype);
    },
  });

/** Of whole numbers: computed at once. Products of i32 may need more than 53 bits. */
const wholes =
  (f: (a: number, b: number, dtype: DTypeName) => number): Scalars =>
  (tape, dtype, a, b) => {
    const raw = f(tape.value[a]!, tape.value[b]!, dtype);
    return tape.plain(dtype, FORMATS[dtype].round(raw), tape.isExact(a, b) && Math.abs(raw) <= 2 ** 53);
  };
const both =
  (floats: Scalars, ints: Scalars): Scalars =>
  (tape, dtype, a, b) =>
    (isFloat(dtype) ? floats : ints)(tape, dtype, a, b);
const isNumber = (dtype: DTypeName): boolean => dtype !== 'bool';
const isBits = (dtype: DTypeName): boolean => !isFloat(dtype);
const times = (a: number, b: number, dtype: DTypeName): number =>
  dtype === 'i32' || dtype === 'u32' ? Math.imul(a, b) : a * b;

const comparison = (
  run: (a: Tensor, b: Tensor | number) => Tensor,
  test: (a: number, b: number) => boolean,
): Op<unknown> =>
  binary(
    run,
    isNumber,
    (tape, _dtype, a, b) =>
      tape.plain(
        'bool',
        test(tape.value[a]!, tape.value[b]!) ? 1 : 0,
        !tape.isOpen(a, b) && tape.error[a]! + tape.error[b]! < Number.POSITIVE_INFINITY,
      ),
    'bool',
  );
const bits = (
  run: (a: Tensor, b: Tensor | number) => Tensor,
  f: (a: bigint, b: bigint) => bigint,
): Op<unknown> =>
  binary(
    run,
    isBits,
    wholes((a, b) => Number(BigInt.asIntN(64, f(BigInt(a), BigInt(b))))),
  );

/** The number 0.5 as exponent means the square root, which is NaN of −∞ where the power is ∞. */
const power = binary(
  (a, b) => a.pow(b),
  isFloat,
  (tape, dtype, a, b) => tape.power(dtype, a, b),
);

export const ELEMENTWISE: Readonly<Record<string, Op<unknown>>> = {
  ...curves,
  add: binary(
    (a, b) => a.add(b),
    isNumber,
    both(
      (t, d, a, b) => t.combination(d, [a, b]),
      wholes((a, b) => a + b),
    ),
  ),
  sub: binary(
    (a, b) => a.sub(b),
    isNumber,
    both(
      (t, d, a, b) => t.combination(d, [a, b], [1, -1]),
      wholes((a, b) => a - b),
    ),
  ),
  mul: binary(
    (a, b) => a.mul(b),
    isNumber,
    both((t, d, a, b) => t.dot(d, [a], [b]), wholes(times)),
  ),
  div: binary(
    (a, b) => a.div(b),
    isFloat,
    (t, d, a, b) => t.quotient(d, a, b),
  ),
  pow: {
    ...power,
    exact: (tape, x, arg) =>
      x.length === 1 && arg === 0.5 ? curves.sqrt!.exact(tape, x, null) : power.exact(tape, x, arg),
  },
  mod: binary(
    (a, b) => a.mod(b),
    isNumber,
    both(
      (t, d, a, b) => t.remainder(d, a, b),
      wholes((a, b) => (b === 0 ? 0 : a % b)),
    ),
  ),
  idiv: binary(
    (a, b) => a.idiv(b),
    isWhole,
    wholes((a, b) => (b === 0 ? 0 : Math.trunc(a / b))),
  ),
  maximum: binary(
    (a, b) => a.maximum(b),
    isNumber,
    both(
      (t, d, a, b) => t.extreme(d, [a, b], 1, true),
      wholes((a, b) => Math.max(a, b)),
    ),
  ),
  minimum: binary(
    (a, b) => a.minimum(b),
    isNumber,
    both(
      (t, d, a, b) => t.extreme(d, [a, b], -1, true),
      wholes((a, b) => Math.min(a, b)),
    ),
  ),
  lt: comparison(
    (a, b) => a.lt(b),
    (a, b) => a < b,
  ),
  le: comparison(
    (a, b) => a.le(b),
    (a, b) => a <= b,
  ),
  gt: comparison(
    (a, b) => a.gt(b),
    (a, b) => a > b,
  ),
  ge: comparison(
    (a, b) => a.ge(b),
    (a, b) => a >= b,
  ),
  eq: comparison(
    (a, b) => a.eq(b),
    (a, b) => a === b,
  ),
  ne: comparison(
    (a, b) => a.ne(b),
    (a, b) => a !== b,
  ),
  and: bits(
    (a, b) => a.and(b),
    (a, b) => a & b,
  ),
  or: bits(
    (a, b) => a.or(b),
    (a, b) => a | b,
  ),
  xor: bits(
    (a, b) => a.xor(b),
    (a, b) => a ^ b,
  ),

  not: op<null>({
    choose: (p) => {
      const x = p.value((_, dtype) => isBits(dtype));
      return x === undefined ? undefined : { src: [x], arg: null };
    },
    run: ([t]) => t!.not(),
    exact: (tape, [x]) =>
      each(x!, (id) =>
        tape.plain(
          x!.dtype,
          x!.dtype === 'bool' ? 1 - tape.value[id]! : FORMATS[x!.dtype].round(-1 - tape.value[id]!),
          tape.isExact(id),
        ),
      ),
  }),
  neg: op<null>({
    choose: (p) => {
      const x = p.value((_, dtype) => isFloat(dtype) || dtype === 'i32' || dtype === 'i64');
      return x === undefined ? undefined : { src: [x], arg: null };
    },
    run: ([t]) => t!.neg(),
    exact: (tape, [x]) =>
      each(x!, (id) =>
        isFloat(x!.dtype)
          ? tape.curve(x!.dtype, id, { f: (v) => -v, slope: () => -1, exact: true })
          : tape.plain(x!.dtype, FORMATS[x!.dtype].round(0 - tape.value[id]!), tape.isExact(id)),
      ),
  }),
  square: op<null>({
    choose: anyFloats,
    run: ([t]) => t!.square(),
    exact: (tape, [x]) => each(x!, (id) => tape.dot(x!.dtype, [id], [id])),
  }),
  reciprocal: op<null>({
    choose: anyFloats,
    run: ([t]) => t!.reciprocal(),
    exact: (tape, [x]) => each(x!, (id) => tape.quotient(x!.dtype, tape.constant(x!.dtype, 1), id)),
  }),
  clamp: op<readonly [number, number]>({
    choose: (p) => {
      const x = p.floats();
      return x === undefined
        ? undefined
        : {
            src: [x],
            arg: p.one([
              [-1, 1],
              [0, 0.75],
              [-0.5, 2],
            ] as const),
          };
    },
    run: ([t], [low, high]) => t!.clamp(low, high),
    exact: (tape, [x], [low, high]) =>
      each(x!, (id) =>
        tape.curve(x!.dtype, id, {
          f: (v) => Math.min(Math.max(v, low), high),
          slope: (v) => (v >= low && v <= high ? 1 : 0),
          jump: (v) => Math.min(Math.abs(v - low), Math.abs(v - high)),
          exact: true,
        }),
      ),
  }),
  isNaN: op<null>({
    choose: anyFloats,
    run: ([t]) => t!.isNaN(),
    exact: (tape, [x]) =>
      each(
        x!,
        (id) =>
          tape.plain(
            'bool',
            Number.isNaN(tape.value[id]) ? 1 : 0,
            tape.error[id]! < Number.POSITIVE_INFINITY,
          ),
        'bool',
      ),
  }),
  silu: op<null>({
    choose: anyFloats,
    run: ([t]) => H.silu(t!),
    exact: (tape, [x]) => {
      const [, curve] = CURVES.sigmoid!;
      return each(x!, (id) => tape.dot(x!.dtype, [id], [tape.curve(x!.dtype, id, curve)]));
    },
  }),
  detach: op<null>({
    choose: anyFloats,
    run: ([t]) => t!.detach(),
    exact: (tape, [x]) => each(x!, (id) => tape.detached(id)),
  }),
  where: op<null>({
    choose: (p) => {
      const x = p.value();
      if (x === undefined) return undefined;
      const dtype = p.dtype(x);
      const condition =
        p.value((s, t) => t === 'bool' && broadcasts(s, p.shape(x))) ??
        p.constant(p.shape(x), 'bool', 'bits');
      const shape = nd.broadcastShape(p.shape(condition), p.shape(x));
      const other = p.value((s, t) => t === dtype && broadcasts(s, shape));
      const y =
        other !== undefined && p.chance(0.8)
          ? other
          : p.fitting(
              shape.map((n) => (p.chance(0.2) ? 1 : n)),
              dtype,
            );
      return { src: [condition, ...(p.chance(0.5) ? [x, y] : [y, x])], arg: null };
    },
    run: ([c, a, b]) => c!.where(a!, b!),
    exact: (tape, x) => {
      const shape = nd.broadcastShape(...x.map((e) => e.shape));
      const [c, a, b] = x.map((e) => nd.broadcastTo(e, shape).data) as [
        readonly number[],
        readonly number[],
        readonly number[],
      ];
      return { shape, dtype: x[1]!.dtype, data: c.map((id, i) => (tape.value[id] ? a[i]! : b[i]!)) };
    },
  }),
  cast: op<DTypeName>({
    choose: (p) => {
      const x = p.value();
      if (x === undefined) return undefined;
      const others = (Object.keys(DTYPES) as DTypeName[]).filter((t) => t !== p.dtype(x));
      return { src: [x], arg: p.one([...others, 'i32', 'f32', 'u32', 'f64']) };
    },
    run: ([t], to) => t!.cast(DTYPES[to]) as Tensor,
    exact: (tape, [x], to) => each(x!, (id) => tape.converted(to, id, (v) => converted(x!.dtype, to, v)), to),
  }),
};

/** A number in another dtype: of floats to whole ones towards zero and saturating; of whole ones their lower bits. */
function converted(from: DTypeName, to: DTypeName, v: number): number {
  if (to === 'bool') return v === 0 ? 0 : 1;
  if (!isFloat(from)) return FORMATS[to].round(v);
  if (Number.isNaN(v)) return 0;
  const [least, most] = LIMITS[to]!;
  return Math.max(Number(least), Math.min(Number(most), Math.trunc(v))) + 0;
}
