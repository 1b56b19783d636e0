/** Reductions, positions of extremes, softmax. */
import { bf16, bool, f16, f64, i8, i32, i64, u8, u32 } from '../../src/core/dtype.js';
import type { Tensor } from '../../src/index.js';
import {
  alongAxis,
  logSoftmax,
  make,
  map,
  mean,
  type NdArray,
  product,
  reduce,
  softmax,
  total,
  variance,
} from '../ndarray.js';
import type { Case, Input } from './case.js';

type Axes = number | readonly number[] | undefined;
type Name = 'sum' | 'mean' | 'max' | 'min' | 'prod' | 'variance' | 'std';

/** Kinds of axes: none named, first, last, middle, two apart, two together, all, of size 1, long, vectors and a tail. */
const AXES: readonly {
  readonly shape: readonly number[];
  readonly axes?: Axes;
  readonly keepdim?: boolean;
}[] = [
  { shape: [2, 3] },
  { shape: [] },
  { shape: [1] },
  { shape: [5], axes: 0 },
  { shape: [3, 4], axes: 0 },
  { shape: [3, 4], axes: -1, keepdim: true },
  { shape: [2, 3, 4], axes: 1 },
  { shape: [2, 3, 4], axes: [0, 2] },
  { shape: [2, 3, 4], axes: [0, 2], keepdim: true },
  { shape: [2, 3, 4], axes: [1, 2] },
  { shape: [2, 3, 4], axes: [0, 1, 2], keepdim: true },
  { shape: [3, 1, 2], axes: 1 },
  { shape: [1, 1], axes: [0, 1] },
  { shape: [2, 3], axes: [] },
  { shape: [3, 71], axes: 1 },
  { shape: [130], axes: 0 },
  { shape: [67, 3], axes: 0 },
  { shape: [5, 2, 13], axes: [0, 2] },
];
const EMPTY: typeof AXES = [
  { shape: [0, 3], axes: 1 },
  { shape: [2, 0, 3], axes: 0 },
  { shape: [2, 0, 3], axes: [0, 2], keepdim: true },
];
/** Of no elements: 0 for a sum, 1 for a product. */
const OF_NOTHING: typeof AXES = [
  { shape: [0] },
  { shape: [0, 3], axes: 0 },
  { shape: [2, 0], axes: 1, keepdim: true },
];

const list = (axes: Axes, rank: number): readonly number[] =>
  axes === undefined ? Array.from({ length: rank }, (_, i) => i) : typeof axes === 'number' ? [axes] : axes;

const over = (
  name: Name,
  f: (values: number[]) => number,
  rows: typeof AXES,
  input: Omit<Input, 'shape'> = {},
  rest: Partial<Case> = {},
): Case[] =>
  rows.map(({ shape, axes, keepdim = false }) => ({
    op: name,
    inputs: [{ shape, ...input }],
    run: (x: Tensor) => x[name](axes, { keepdim }),
    reference: (x) => reduce(f, x, list(axes, shape.length), keepdim),
    absolute: 2e-5,
    ...rest,
  }));

const greatest = (values: number[]): number => Math.max(...values);
const least = (values: number[]): number => Math.min(...values);
const several = AXES.filter(({ shape }) => shape.reduce((n, d) => n * d, 1) > 4);

const sums: Case[] = [
  ...over('sum', total, [...AXES, ...EMPTY, ...OF_NOTHING]),
  ...over('mean', mean, [...AXES, ...EMPTY]),
  ...over('max', greatest, [...AXES, ...EMPTY]),
  ...over('min', least, [...AXES, ...EMPTY]),
  ...over('prod', product, [...AXES, ...EMPTY, ...OF_NOTHING], { low: 0.7, high: 1.3 }, { relative: 1e-4 }),
  ...over(
    'variance',
    variance(1),
    several.filter((r) => list(r.axes, r.shape.length).length > 0 && r.shape[1] !== 1),
  ),
  ...over('std', (v) => Math.sqrt(variance(1)(v)), [{ shape: [3, 4], axes: 1 }, { shape: [2, 3] }]),
  {
    op: 'variance',
    inputs: [{ shape: [3, 7] }],
    run: (x) => x.variance(1, { correction: 0, keepdim: true }),
    reference: (x) => reduce(variance(0), x, [1], true),
  },
  ...[i32, u32, i64].flatMap((dtype) => [
    ...over('sum', total, several, { dtype, low: 0, high: 50 }),
    ...over('max', greatest, several, { dtype, low: 0, high: 50 }),
  ]),
  ...over('sum', total, several, { dtype: i8, low: -100, high: 100 }),
  ...over('sum', total, several, { dtype: u8, low: 0, high: 200 }),
  ...over('min', least, several, { dtype: i32, low: -50, high: -3 }),
  ...over('max', greatest, several, { dtype: i32, low: -50, high: -3 }),
  ...over('min', least, several, { dtype: i8, low: -100, high: -20 }),
  ...over('min', least, several, { dtype: u8, low: 100, high: 200 }),
  ...over('prod', product, [{ shape: [2, 3], axes: 1 }], { dtype: i32, low: -3, high: 4 }),
  ...over('sum', total, several, { dtype: f64 }, { relative: 1e-12, absolute: 1e-12 }),
  ...over('sum', total, several, { dtype: f16 }, { relative: 2e-3, absolute: 2e-2 }),
  ...over('mean', mean, several, { dtype: bf16 }, { relative: 2e-2, absolute: 2e-2 }),
  ...over('max', greatest, several, { dtype: f16 }, { relative: 1e-3 }),
  ...[
    [2, 3, 4, 0, 5, 6, 0, 7, 0, 1, -1, 0],
    [0, 0, 0, 1, 2, 3, 4, 5, -0, 1, 1, 1],
  ].map(
    (values): Case => ({
      op: 'prod with zeros',
      inputs: [{ shape: [4, 3], values }],
      run: (x) => x.prod(1),
      reference: (x) => reduce(product, x, [1]),
    }),
  ),
  {
    op: 'max and min of NaN',
    inputs: [{ shape: [2, 9], values: [1, 2, 3, NaN, 5, 6, 7, 8, 9, 9, 8, 7, 6, 5, 4, 3, 2, 1] }],
    run: (x) => x.max(1).add(x.min(1)),
    reference: (x) => map((a, b) => a! + b!, reduce(greatest, x, [1]), reduce(least, x, [1])),
    gradient: { skip: 'not finite' },
  },
  {
    op: 'max where several tie',
    inputs: [{ shape: [2, 3], values: [1, 3, 3, 2, 2, 2] }],
    run: (x) => x.max(1),
    reference: (x) => reduce(greatest, x, [1]),
    gradient: { skip: 'differences see one side only; gradients.test.ts has the even split' },
  },
];

const position =
  (best: (line: readonly number[]) => number) =>
  (x: NdArray, axis: number, keepdim: boolean): NdArray =>
    reduce((line) => line.indexOf(best(line)), x, [axis], keepdim);

const positions: Case[] = (
  [
    ['argmax', position((l) => Math.max(...l))],
    ['argmin', position((l) => Math.min(...l))],
  ] as const
).flatMap(([name, reference]) =>
  (
    [
      [[4], 0, false],
      [[3, 5], 1, false],
      [[3, 5], 0, true],
      [[2, 3, 4], -2, false],
      [[1, 1], 1, false],
      [[0, 3], 1, false],
      [[2, 70], 1, false],
    ] as const
  ).flatMap(([shape, axis, keepdim]) =>
    [{}, { dtype: i32, low: 0, high: 3 }].map(
      (input): Case => ({
        op: name,
        inputs: [{ shape, ...input }],
        run: (x) => x[name](axis, { keepdim }),
        reference: (x) => reference(x, axis, keepdim),
      }),
    ),
  ),
);

const softmaxes: Case[] = (
  [
    ['softmax', softmax],
    ['logSoftmax', logSoftmax],
  ] as const
).flatMap(([name, f]) => [
  ...(
    [
      [[2, 5], -1],
      [[2, 5], 0],
      [[2, 3, 4], 1],
      [[6], 0],
      [[3, 1], 1],
      [[0, 3], 1],
      [[2, 0], 1],
      [[2, 70], 1],
    ] as const
  ).map(
    ([shape, axis]): Case => ({
      op: name,
      inputs: [{ shape, low: -4, high: 4 }],
      run: (x) => x[name](axis),
      reference: (x) => alongAxis(f, x, axis),
    }),
  ),
  {
    op: name,
    inputs: [{ shape: [2, 7], low: -4, high: 4, dtype: f16 }],
    run: (x: Tensor) => x[name](1),
    reference: (x: NdArray) => alongAxis(f, x, 1),
    relative: 2e-3,
  },
  {
    op: `${name} of large numbers`,
    inputs: [{ shape: [2, 3], values: [1000, 999, 998, -1000, -1001, -1e30] }],
    run: (x: Tensor) => x[name](1),
    reference: (x: NdArray) => alongAxis(f, x, 1),
    gradient: { skip: 'saturated: differences are all zero' },
  },
  {
    op: name,
    inputs: [{ shape: [3, 5], dtype: f16 }],
    run: (x: Tensor) => x[name](1),
    reference: (x: NdArray) => alongAxis(f, x, 1),
    relative: 5e-3,
    absolute: 2e-3,
  },
]);

/** Rows for small and large teams of threads, several tiles, chunks of a long row, and another axis than the last. */
const running: Case[] = (
  [
    ['cumsum', (a: number, b: number) => a + b],
    ['cumprod', (a: number, b: number) => a * b],
  ] as const
).flatMap(([name, f]) => {
  const scan = (line: readonly number[]): number[] => {
    let last: number | undefined;
    return line.map((v) => {
      last = last === undefined ? v : f(last, v);
      return last;
    });
  };
  const of = (shape: readonly number[], axis: number, input: Partial<Input> = {}): Case => ({
    op: name,
    inputs: [{ shape, ...(name === 'cumprod' && { low: 0.9, high: 1.1 }), ...input }],
    run: (x) => x[name](axis),
    reference: (x) => alongAxis(scan, x, axis),
    absolute: 2e-5,
  });
  return [
    ...[of([1], 0), of([7], -1), of([0], 0), of([2, 0], 0)],
    ...[of([3, 5], 0), of([2, 3, 4], 1), of([5, 33], 1), of([3, 131], 1)],
    { ...of([2500], 0), gradient: { skip: 'one element at a time: the rows above are enough' } },
    ...[of([3, 9], 1, { dtype: i32, low: -3, high: 4 }), of([4, 2], 0, { dtype: u8, low: 0, high: 3 })],
    ...[of([2, 6], 1, { dtype: i64, low: -3, high: 4 }), of([3, 5], 1, { dtype: f64 })],
    { ...of([3, 5], 1, { dtype: f16 }), relative: 2e-3, absolute: 5e-3 },
    { ...of([3, 5], 1, { dtype: bf16 }), relative: 2e-2, absolute: 4e-2 },
    {
      ...of([2, 5], 1, { values: [1, 0, 2, 3, 4, 2, 3, 0, 0, 5] }),
      op: `${name} with zeros`,
    },
  ];
});

const votes: Case[] = (['any', 'all'] as const).flatMap((name) => {
  const vote = (line: number[]): number =>
    Number(name === 'any' ? line.some((v) => v !== 0) : line.every((v) => v !== 0));
  return (
    [
      [[3, 4], 1, {}],
      [[2, 3], undefined, { dtype: bool }],
      [[5, 3], 0, { dtype: i32, low: 0, high: 1 }],
      [[0, 3], 0, {}],
      [[2, 3], 1, { values: [0, NaN, 0, 0, -0, 0] }],
    ] as const
  ).map(
    ([shape, axes, input]): Case => ({
      op: name,
      inputs: [{ shape, ...input }],
      run: (x) => x[name](axes),
      reference: (x) => reduce(vote, x, list(axes, shape.length)),
    }),
  );
});

const logSumExp = (line: readonly number[]): number => {
  const top = Math.max(...line);
  return Number.isFinite(top) ? top + Math.log(total(line.map((v) => Math.exp(v - top)))) : top;
};

const norms: Case[] = [
  ...([2, 1, 3, 0, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0.5] as const).flatMap((ord) => {
    const norm = (line: readonly number[]): number =>
      ord === 0
        ? line.filter((v) => v !== 0).length
        : Number.isFinite(ord)
          ? total(line.map((v) => Math.abs(v) ** ord)) ** (1 / ord)
          : (ord > 0 ? Math.max : Math.min)(...line.map(Math.abs));
    return [
      { shape: [3, 5], axes: 1, keepdim: true },
      { shape: [2, 3, 4], axes: [0, 2], keepdim: false },
      { shape: [7], axes: undefined, keepdim: false },
    ].map(
      ({ shape, axes, keepdim }): Case => ({
        op: 'norm',
        inputs: [{ shape }],
        run: (x) => x.norm(axes, { ord, keepdim }),
        reference: (x) => reduce(norm, x, list(axes, shape.length), keepdim),
        absolute: 2e-5,
        ...(ord === 0 && { gradient: { skip: 'it has none' } }),
      }),
    );
  }),
  {
    op: 'norm of zeros',
    inputs: [{ shape: [2, 3], values: [0, 0, 0, 3, 0, 4] }],
    run: (x) => x.norm(1),
    reference: () => ({ shape: [2], data: [0, 5] }),
    gradient: { skip: 'it bends at 0; PyTorch has 0 there (tests/golden)' },
  },
  ...[
    { shape: [3, 5], axes: 1 },
    { shape: [2, 3, 4], axes: [0, 2] },
    { shape: [70], axes: undefined },
  ].map(
    ({ shape, axes }): Case => ({
      op: 'logSumExp',
      inputs: [{ shape, low: -4, high: 4 }],
      run: (x) => x.logSumExp(axes),
      reference: (x) => reduce(logSumExp, x, list(axes, shape.length)),
    }),
  ),
  {
    op: 'logSumExp of large and infinite numbers',
    inputs: [{ shape: [4, 2], values: [1e4, 1e4 - 1, -1e4, -1e4, -Infinity, -Infinity, Infinity, 1] }],
    run: (x) => x.logSumExp(1),
    reference: (x) => reduce(logSumExp, x, [1]),
    gradient: { skip: 'infinite' },
  },
  {
    op: 'argmax and argmin over everything',
    inputs: [{ shape: [3, 4] }],
    run: (x) =>
      x
        .argmax()
        .mul(100)
        .add(x.argmin(undefined, { keepdim: true })),
    reference: (x) => ({
      shape: [1, 1],
      data: [100 * x.data.indexOf(Math.max(...x.data)) + x.data.indexOf(Math.min(...x.data))],
    }),
  },
];

/** What several reductions make together, and with the elements they came from. */
const combined: Case[] = [
  {
    op: 'standardize',
    inputs: [{ shape: [3, 7] }],
    run: (x) =>
      x
        .sub(x.mean(1, { keepdim: true }))
        .div(x.variance(1, { keepdim: true, correction: 0 }).add(1e-5).sqrt()),
    reference: (x) =>
      alongAxis(
        (line) => {
          const scale = Math.sqrt(variance(0)(line) + 1e-5);
          return line.map((v) => (v - mean(line)) / scale);
        },
        x,
        1,
      ),
  },
  {
    op: 'two reductions in one expression',
    inputs: [{ shape: [4, 5] }],
    run: (x) => x.sum(0).add(x.square().sum(0)).mul(x.max(0)),
    reference: (x) =>
      map(
        (a, b, c) => (a! + b!) * c!,
        reduce(total, x, [0]),
        reduce((v) => total(v.map((e) => e * e)), x, [0]),
        reduce(greatest, x, [0]),
      ),
  },
  {
    op: 'reductions over different axes, multiplied',
    inputs: [{ shape: [3, 4] }],
    run: (x) => x.sum(0, { keepdim: true }).mul(x.sum(1, { keepdim: true })),
    reference: (x) => map((a, b) => a! * b!, reduce(total, x, [0], true), reduce(total, x, [1], true)),
  },
  {
    op: 'a reduction of a reduction',
    inputs: [{ shape: [2, 3, 9] }],
    run: (x) => x.max(2).sum(0).min(),
    reference: (x) => reduce(least, reduce(total, reduce(greatest, x, [2]), [0])),
  },
  {
    op: 'a sum of squares of a difference from a repeated column',
    inputs: [{ shape: [4, 6] }, { shape: [4] }],
    run: (x, c) => x.sub(c.unsqueeze(1)).square().sum(1),
    reference: (x, c) =>
      reduce(
        total,
        make([4, 6], ([i, j]) => (x.data[i! * 6 + j!]! - c.data[i!]!) ** 2),
        [1],
      ),
  },
];

export const REDUCE: readonly Case[] = [
  ...sums,
  ...positions,
  ...softmaxes,
  ...running,
  ...votes,
  ...norms,
  ...combined,
];
