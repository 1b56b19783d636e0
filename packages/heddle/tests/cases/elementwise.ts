/** Element by element: arithmetic, comparison, selection, conversion. */
import { bf16, bool, type DType, f16, f32, f64, i8, i32, i64, u8, u32 } from '../../src/core/dtype.js';
import type { Tensor } from '../../src/index.js';
import * as H from '../../src/index.js';
import { convert, type Scalar } from '../../src/kernel/ir/ops.js';
import { map } from '../ndarray.js';
import { type Case, type Input, SHAPES } from './case.js';

/** Pairs of shapes that broadcast: equal, a row, a column, both ways, a scalar, empty, and vectors with a tail. */
const PAIRS: readonly (readonly [readonly number[], readonly number[]])[] = [
  [
    [2, 3],
    [2, 3],
  ],
  [[2, 3], [3]],
  [
    [2, 3],
    [2, 1],
  ],
  [
    [4, 1],
    [1, 3],
  ],
  [[], [2, 2]],
  [
    [0, 3],
    [1, 3],
  ],
  [[2, 1, 19], [19]],
];

type UnaryName =
  | 'abs'
  | 'acos'
  | 'asin'
  | 'atan'
  | 'ceil'
  | 'cos'
  | 'cosh'
  | 'exp'
  | 'exp2'
  | 'expm1'
  | 'floor'
  | 'frac'
  | 'isNaN'
  | 'log'
  | 'log1p'
  | 'log2'
  | 'neg'
  | 'not'
  | 'reciprocal'
  | 'relu'
  | 'round'
  | 'rsqrt'
  | 'sigmoid'
  | 'sign'
  | 'sin'
  | 'sinh'
  | 'sqrt'
  | 'square'
  | 'tan'
  | 'tanh'
  | 'trunc';

const unary = (
  name: UnaryName,
  f: (v: number) => number,
  range: Pick<Input, 'low' | 'high' | 'dtype' | 'values'> = {},
  rest: Partial<Case> = {},
): Case[] =>
  SHAPES.map((shape) => ({
    op: name,
    inputs: [{ shape, ...range }],
    run: (x: Tensor) => x[name](),
    reference: (x) => map(f, x),
    ...rest,
  }));

type BinaryName =
  | 'add'
  | 'and'
  | 'atan2'
  | 'div'
  | 'eq'
  | 'ge'
  | 'gt'
  | 'idiv'
  | 'le'
  | 'logaddexp'
  | 'lt'
  | 'maximum'
  | 'minimum'
  | 'mod'
  | 'mul'
  | 'ne'
  | 'or'
  | 'pow'
  | 'remainder'
  | 'shl'
  | 'shr'
  | 'sub'
  | 'xor';

const binary = (
  name: BinaryName,
  f: (a: number, b: number) => number,
  left: Omit<Input, 'shape'> = {},
  right: Omit<Input, 'shape'> = left,
  rest: Partial<Case> = {},
): Case[] =>
  PAIRS.map(([a, b]) => ({
    op: name,
    inputs: [
      { shape: a, ...left },
      { shape: b, ...right },
    ],
    run: (x: Tensor, y: Tensor) => x[name](y),
    reference: (x, y) => map(f as (...v: number[]) => number, x!, y!),
    ...rest,
  }));

const roundHalfToEven = (v: number): number => {
  const low = Math.floor(v);
  return v - low < 0.5 || (v - low === 0.5 && low % 2 === 0) ? low : low + 1;
};
const tiny = { low: -50, high: 50 };
const words = { low: 0, high: 200 };

const UNARY: Case[] = [
  ...unary('abs', Math.abs),
  ...unary('ceil', Math.ceil),
  ...unary('cos', Math.cos, { low: -7, high: 7 }),
  ...unary('exp', Math.exp, { low: -5, high: 5 }),
  ...unary('exp2', (v) => 2 ** v, { low: -5, high: 5 }),
  ...unary('floor', Math.floor),
  ...unary('expm1', Math.expm1, { low: -5, high: 5 }),
  ...unary('log', Math.log, { low: 0.05, high: 9 }),
  ...unary('log1p', Math.log1p, { low: -0.9, high: 9 }),
  ...unary('log2', Math.log2, { low: 0.05, high: 9 }),
  ...unary('neg', (v) => -v),
  ...unary('reciprocal', (v) => 1 / v, { low: 0.2, high: 4 }),
  ...unary('relu', (v) => Math.max(0, v)),
  ...unary('round', roundHalfToEven, { low: -4, high: 4 }),
  ...unary('rsqrt', (v) => 1 / Math.sqrt(v), { low: 0.2, high: 9 }),
  ...unary('sigmoid', (v) => 1 / (1 + Math.exp(-v)), { low: -6, high: 6 }),
  ...unary('sign', Math.sign),
  ...unary('sin', Math.sin, { low: -7, high: 7 }),
  ...unary('sqrt', Math.sqrt, { low: 0.05, high: 9 }),
  ...unary('square', (v) => v * v),
  ...unary('tanh', Math.tanh, { low: -4, high: 4 }),
  ...unary('trunc', Math.trunc),
  ...unary('frac', (v) => v - Math.trunc(v)),
  ...unary('tan', Math.tan, { low: -1.4, high: 1.4 }),
  ...unary('atan', Math.atan, { low: -9, high: 9 }),
  ...unary('asin', Math.asin, { low: -0.99, high: 0.99 }),
  ...unary('acos', Math.acos, { low: -0.99, high: 0.99 }),
  ...unary('sinh', Math.sinh, { low: -5, high: 5 }),
  ...unary('cosh', Math.cosh, { low: -5, high: 5 }),
  ...unary('neg', (v) => -v, { dtype: i32, ...tiny }),
  ...unary('abs', Math.abs, { dtype: i32, ...tiny }),
  ...unary('sign', Math.sign, { dtype: i32, ...tiny }),
  ...unary('square', (v) => v * v, { dtype: u32, ...words }),
  ...unary('not', (v) => ~v, { dtype: i32, ...tiny }),
  ...unary('not', (v) => ~v, { dtype: i8, ...tiny }),
  ...unary('neg', (v) => -v, { dtype: i8, ...tiny }),
  ...unary('abs', Math.abs, { dtype: i8, ...tiny }),
  ...unary('not', (v) => ~v, { dtype: u8, ...words }),
  ...unary('not', (v) => 1 - v, { dtype: bool }),
];

const BINARY: Case[] = [
  ...binary('add', (a, b) => a + b),
  ...binary('sub', (a, b) => a - b),
  ...binary('mul', (a, b) => a * b),
  ...binary('div', (a, b) => a / b, {}, { low: 0.3, high: 3 }),
  ...binary('mod', (a, b) => a % b, { low: -9, high: 9 }, { low: 1.1, high: 3 }),
  ...binary('atan2', Math.atan2),
  ...binary('logaddexp', (a, b) => Math.log(Math.exp(a) + Math.exp(b)), { low: -9, high: 9 }),
  ...binary('remainder', (a, b) => a - b * Math.floor(a / b), { low: -9, high: 9 }, { low: 1.1, high: 3 }),
  ...binary(
    'remainder',
    (a, b) => a - b * Math.floor(a / b),
    { low: -9, high: 9, dtype: i32 },
    { low: -3, high: -1, dtype: i32 },
  ),
  ...binary('shl', (a, b) => a << b, { low: -9, high: 9, dtype: i32 }, { low: 0, high: 20, dtype: i32 }),
  ...binary('shr', (a, b) => a >> b, { low: -900, high: 900, dtype: i32 }, { low: 0, high: 9, dtype: i32 }),
  ...binary('pow', (a, b) => a ** b, { low: 0.2, high: 3 }, { low: -2, high: 2 }),
  ...binary('minimum', (a, b) => Math.min(a, b)),
  ...binary('maximum', (a, b) => Math.max(a, b)),
  ...binary('lt', (a, b) => Number(a < b)),
  ...binary('le', (a, b) => Number(a <= b)),
  ...binary('gt', (a, b) => Number(a > b)),
  ...binary('ge', (a, b) => Number(a >= b)),
  ...binary('eq', (a, b) => Number(a === b), { dtype: i32, low: 0, high: 2 }),
  ...binary('ne', (a, b) => Number(a !== b), { dtype: u8, low: 0, high: 2 }),
  ...binary('eq', (a, b) => Number(a === b), { dtype: bool }),
  ...binary('lt', (a, b) => Number(a < b), { dtype: u32, low: 0, high: 4 }),
  ...binary('le', (a, b) => Number(a <= b), { dtype: i64, low: -2, high: 2 }),
  ...binary('add', (a, b) => a + b, { dtype: i32, ...tiny }),
  ...binary('add', (a, b) => a + b, { dtype: i8, ...tiny }),
  ...binary('mul', (a, b) => a * b, { dtype: i8, ...tiny }),
  ...binary('idiv', (a, b) => (b === 0 ? 0 : Math.trunc(a / b)), { dtype: i8, ...tiny }),
  ...binary('lt', (a, b) => Number(a < b), { dtype: i8, ...tiny }),
  ...binary('minimum', (a, b) => Math.min(a, b), { dtype: i8, ...tiny }),
  ...binary('add', (a, b) => a + b, { dtype: u8, ...words }),
  ...binary('add', (a, b) => a + b, { dtype: i64, ...tiny }),
  ...binary('sub', (a, b) => a - b, { dtype: u32, ...words }),
  ...binary('mul', (a, b) => a * b, { dtype: i32, ...tiny }),
  ...binary('mul', (a, b) => a * b, { dtype: i64, ...tiny }),
  ...binary('idiv', (a, b) => (b === 0 ? 0 : Math.trunc(a / b)), { dtype: i32, ...tiny }, { dtype: i32 }),
  ...binary('idiv', (a, b) => (b === 0 ? 0 : Math.trunc(a / b)), { dtype: u32, ...words }),
  ...binary(
    'mod',
    (a, b) => (b === 0 ? 0 : a % b),
    { dtype: i32, ...tiny },
    { dtype: i32, low: -5, high: 5 },
  ),
  ...binary('mod', (a, b) => (b === 0 ? 0 : a % b), { dtype: u8, ...words }),
  ...binary('minimum', (a, b) => Math.min(a, b), { dtype: i32, ...tiny }),
  ...binary('maximum', (a, b) => Math.max(a, b), { dtype: u32, ...words }),
  ...binary('and', (a, b) => a & b, { dtype: i32, ...tiny }),
  ...binary('or', (a, b) => a | b, { dtype: u8, ...words }),
  ...binary('xor', (a, b) => a ^ b, { dtype: u32, ...words }),
  ...binary('and', (a, b) => a & b, { dtype: bool }),
  ...binary('or', (a, b) => a | b, { dtype: bool }),
  ...binary('xor', (a, b) => a ^ b, { dtype: bool }),
];

/** f64 keeps more than f32 does; 16-bit floats compute in f32 and round once. */
const WIDTHS: Case[] = [
  { dtype: f64, relative: 1e-12, absolute: 1e-12 },
  { dtype: f16, relative: 2e-3, absolute: 1e-3 },
  { dtype: bf16, relative: 2e-2, absolute: 1e-2 },
].flatMap(({ dtype, ...tolerance }): Case[] => [
  ...binary('mul', (a, b) => a * b, { dtype }, { dtype }, tolerance),
  ...binary('sub', (a, b) => a - b, { dtype }, { dtype }, tolerance),
  ...binary('maximum', Math.max, { dtype }, { dtype }, tolerance),
  ...unary('exp', Math.exp, { dtype }, tolerance),
  ...unary('tanh', Math.tanh, { dtype }, tolerance),
  ...unary('neg', (v) => -v, { dtype }, tolerance),
]);

const f64Functions: Case[] = (
  [
    ['log', Math.log, 0.05],
    ['log2', Math.log2, 0.05],
    ['exp2', (v: number) => 2 ** v, -3],
    ['sqrt', Math.sqrt, 0.05],
    ['sin', Math.sin, -7],
    ['cos', Math.cos, -7],
    ['sigmoid', (v: number) => 1 / (1 + Math.exp(-v)), -6],
  ] as const
).flatMap(([name, f, low]) =>
  unary(name, f, { dtype: f64, low, high: 7 }, { relative: 1e-12, absolute: 1e-12 }),
);

const SPECIAL = [Number.NaN, Infinity, -Infinity, -0, 0, 1.5, -2.5, 3e9, -3e9, 300, 0.25, -0.75];

const specials: Case[] = [
  ...unary('isNaN', (v) => Number(Number.isNaN(v))),
  {
    op: 'isNaN',
    inputs: [{ shape: [12], values: SPECIAL }],
    run: (x) => x.isNaN(),
    reference: (x) => map((v) => Number(Number.isNaN(v)), x),
  },
  {
    op: 'isInf and isFinite',
    inputs: [{ shape: [12], values: SPECIAL }],
    run: (x) => x.isInf().cast(i32).sub(x.isFinite().cast(i32)),
    reference: (x) => map((v) => Number(Math.abs(v!) === Infinity) - Number(Number.isFinite(v)), x),
  },
  ...(
    [
      ['maximum', Math.max],
      ['minimum', Math.min],
      ['add', (a: number, b: number) => a + b],
      ['mul', (a: number, b: number) => a * b],
      ['lt', (a: number, b: number) => Number(a < b)],
      ['ne', (a: number, b: number) => Number(a !== b)],
    ] as const
  ).map(
    ([name, f]): Case => ({
      op: `${name} of NaN and infinities`,
      inputs: [
        { shape: [12], values: SPECIAL },
        { shape: [12, 1], values: SPECIAL },
      ],
      run: (x, y) => x[name](y),
      reference: (x, y) => map(f as (...v: number[]) => number, x, y),
      gradient: { skip: 'not finite' },
    }),
  ),
];

const selections: Case[] = [
  ...PAIRS.map(
    ([a, b]): Case => ({
      op: 'where',
      inputs: [{ shape: b, dtype: bool }, { shape: a }, { shape: b }],
      run: (c, x, y) => H.where(c, x, y),
      reference: (c, x, y) => map((k, v, w) => (k ? v! : w!), c, x, y),
    }),
  ),
  {
    op: 'where',
    inputs: [{ shape: [5], dtype: bool }, { shape: [2, 5] }],
    run: (c, x) => H.where(c, x, 7),
    reference: (c, x) => map((k, v) => (k ? v! : 7), c, x),
  },
  {
    op: 'where',
    inputs: [
      { shape: [5], dtype: bool },
      { shape: [5], dtype: i32 },
      { shape: [5], dtype: i32 },
    ],
    run: (c, x, y) => c.where(x, y),
    reference: (c, x, y) => map((k, v, w) => (k ? v! : w!), c, x, y),
  },
  ...(
    [
      ['clamp', (x) => x.clamp(undefined, 0.5), (v) => Math.min(v, 0.5), {}],
      ['clamp', (x) => x.clamp(-0.5), (v) => Math.max(v, -0.5), {}],
      ['clamp', (x) => x.clamp(2), (v) => Math.max(v, 2), { dtype: i32, low: -5, high: 5 }],
      ['floorDivide', (x) => x.floorDivide(0.3), (v) => Math.floor(v / Math.fround(0.3)), {}],
      ['floorDivide', (x) => x.floorDivide(3), (v) => Math.floor(v / 3), { dtype: i32, low: -7, high: 7 }],
      ['floorDivide', (x) => x.floorDivide(-4), (v) => Math.floor(v / -4), { dtype: i32, low: -9, high: 9 }],
      ['floorDivide', (x) => x.floorDivide(0), () => 0, { dtype: i32, low: -7, high: 7 }],
      ['floorDivide', (x) => x.floorDivide(3), (v) => Math.floor(v / 3), { dtype: u8, low: 0, high: 200 }],
      ['maskedFill', (x) => x.maskedFill(x.gt(0.3), 7), (v) => (v > 0.3 ? 7 : v), {}],
    ] as const satisfies readonly (readonly [
      string,
      (x: Tensor) => Tensor,
      (v: number) => number,
      Partial<Input>,
    ])[]
  ).map(
    ([op, run, f, input]): Case => ({
      op,
      inputs: [{ shape: [3, 5], ...input }],
      run,
      reference: (x) => map((v) => f(v!), x),
    }),
  ),
  {
    op: 'lerp',
    inputs: [{ shape: [2, 3] }, { shape: [3] }, { shape: [2, 1] }],
    run: (x, e, w) => x.lerp(e, w).add(x.lerp(4, 0.25)),
    reference: (x, e, w) => map((a, b, t) => a! + t! * (b! - a!) + a! + 0.25 * (4 - a!), x, e, w),
  },
  ...SHAPES.map(
    (shape): Case => ({
      op: 'clamp',
      inputs: [{ shape }],
      run: (x) => x.clamp(-0.9, 1.1),
      reference: (x) => map((v) => Math.min(1.1, Math.max(-0.9, v)), x),
    }),
  ),
  ...(
    [
      ['pow', 3, (v: number) => v ** 3],
      ['pow', 2, (v: number) => v ** 2],
      ['pow', 0.5, Math.sqrt],
      ['pow', -1.5, (v: number) => v ** -1.5],
      ['pow', 0, () => 1],
      ['mul', 1, (v: number) => v],
      ['mul', -3, (v: number) => -3 * v],
      ['add', 0, (v: number) => v],
      ['div', 4, (v: number) => v / 4],
      ['maximum', 0.7, (v: number) => Math.max(v, 0.7)],
    ] as const
  ).map(
    ([name, scalar, f]): Case => ({
      op: `${name} of a number`,
      inputs: [{ shape: [3, 5], low: 0.3, high: 2 }],
      run: (x) => x[name](scalar),
      reference: (x) => map(f, x),
    }),
  ),
];

const FLOATS = [-2.75, -1, -0.5, 0, 0.25, 1, 1.5, 2.5, 100.25, 200];
const INTEGERS: Readonly<Record<string, readonly number[]>> = {
  i32: [-(2 ** 31), -300, -1, 0, 1, 2, 77, 255, 256, 2 ** 31 - 1],
  u32: [0, 1, 2, 77, 255, 256, 65535, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1],
  i8: [-128, -127, -77, -1, 0, 1, 2, 77, 126, 127],
  u8: [0, 1, 2, 77, 127, 128, 200, 254, 255, 3],
  i64: [-(2 ** 40), -300, -1, 0, 1, 2, 77, 255, 2 ** 33, 2 ** 40],
  bool: [0, 1, 1, 0, 0, 1, 0, 1, 1, 0],
};
const EXTREMES = [Number.NaN, Infinity, -Infinity, 3e9, -3e9, 5e9, -0.9, 0.9, 255.9, 256];
const DTYPES = [f32, f64, f16, bf16, i32, u32, i8, u8, i64, bool];
const asScalar = (t: DType, v: number): Scalar => (t === i64 ? BigInt(v) : t === bool ? v !== 0 : v);

const casts: Case[] = DTYPES.flatMap((from) =>
  DTYPES.flatMap((to): Case[] => {
    const row = (values: readonly number[]): Case => ({
      op: `cast ${from.name} to ${to.name}`,
      inputs: [{ shape: [2, 5], dtype: from, values }],
      run: (x) => x.cast(to),
      reference: (x) => map((v) => Number(convert(from, to, asScalar(from, v))), x),
      ...(from.kind === 'float' && to.kind === 'float' && from !== f32 && to !== f32
        ? {}
        : { gradient: { skip: 'only between floats of full width' } }),
      relative: 0,
      absolute: 0,
    });
    if (from.kind !== 'float') return [row(INTEGERS[from.name]!)];
    return from.bytes > 2 && to.kind !== 'float' ? [row(FLOATS), row(EXTREMES)] : [row(FLOATS)];
  }),
);

export const ELEMENTWISE: readonly Case[] = [
  ...UNARY,
  ...BINARY,
  ...WIDTHS,
  ...f64Functions,
  ...specials,
  ...selections,
  ...casts,
];
