/** Losses of margins, distances and divergences, and the distances themselves. */
import { bf16, f16, f64, i32 } from '../../src/core/dtype.js';
import type { Tensor } from '../../src/index.js';
import * as H from '../../src/index.js';
import { make, map, mean, type NdArray, reduce, total } from '../ndarray.js';
import type { Case, Input } from './case.js';

type Shape = readonly number[];

/** Odd sizes, one row, one column, no rows. */
const ROWS: readonly Shape[] = [
  [5, 3],
  [1, 7],
  [3, 1],
  [0, 3],
];

/** All is computed in f32 at least and rounded once, and once more where a weight is multiplied. */
const DTYPES = [
  { dtype: f64, relative: 1e-12, absolute: 1e-12 },
  { dtype: f16, relative: 2 ** -10 },
  { dtype: bf16, relative: 2 ** -7 },
] as const;

/** A function of floats on rows of all shapes, and on the first in all dtypes. */
const each = (
  op: string,
  inputs: (shape: Shape) => readonly Input[],
  run: (...inputs: Tensor[]) => Tensor,
  reference: (...inputs: NdArray[]) => NdArray,
): Case[] => [
  ...ROWS.map((shape) => ({ op, inputs: inputs(shape), run, reference })),
  ...DTYPES.map(({ dtype, ...tolerance }) => ({
    op,
    inputs: inputs(ROWS[0]!).map((input) => ({ ...input, dtype: input.dtype ?? dtype })),
    run,
    reference,
    ...tolerance,
  })),
];

/** A loss without a reduction as above, and with the others in f32. */
const loss = (
  op: string,
  inputs: (shape: Shape) => readonly Input[],
  run: (reduction: H.Reduction, ...inputs: Tensor[]) => Tensor,
  reference: (...inputs: NdArray[]) => NdArray,
): Case[] => [
  ...each(op, inputs, (...x) => run('none', ...x), reference),
  ...(
    [
      ['mean', mean],
      ['sum', total],
    ] as const
  ).map(
    ([reduction, f]): Case => ({
      op,
      inputs: inputs(ROWS[0]!),
      run: (...x) => run(reduction, ...x),
      reference: (...x) => reduce(f, reference(...x)),
    }),
  ),
];

const alike =
  (count: number, range: Omit<Input, 'shape'> = {}) =>
  (shape: Shape): readonly Input[] =>
    Array.from({ length: count }, () => ({ shape, ...range }));
const signs = (n: number): number[] => Array.from({ length: n }, (_, i) => (i % 3 === 1 ? -1 : 1));
const row = (x: NdArray, i: number): number[] => x.data.slice(i * x.shape[1]!, (i + 1) * x.shape[1]!);
/** One number for each row of some arrays. */
const byRow = (f: (i: number, ...rows: number[][]) => number, ...x: readonly NdArray[]): NdArray =>
  make([x[0]!.shape[0]!], ([i]) => f(i!, ...x.map((a) => row(a, i!))));

const dot = (x: readonly number[], y: readonly number[]): number => total(x.map((v, i) => v * y[i]!));
const cosine = (x: readonly number[], y: readonly number[], eps = 0): number =>
  dot(x, y) / Math.sqrt((dot(x, x) + eps) * (dot(y, y) + eps));
const distance = (x: readonly number[], y: readonly number[], p: number): number => {
  const apart = x.map((v, i) => Math.abs(v - y[i]! + 1e-6));
  return p === Number.POSITIVE_INFINITY ? Math.max(...apart) : total(apart.map((v) => v ** p)) ** (1 / p);
};
const positive = (v: number): number => Math.max(0, v);

const distances: Case[] = [
  ...each(
    'cosineSimilarity',
    alike(2),
    (x, y) => H.cosineSimilarity(x, y),
    (x, y) => byRow((_, a, b) => cosine(a, b), x, y),
  ),
  {
    op: 'cosineSimilarity of zeros',
    inputs: [{ shape: [2, 2], values: [0, 0, 3, 4] }, { shape: [2, 2] }],
    run: (x, y) => H.cosineSimilarity(x, y, { axis: 0, eps: 10 }),
    reference: (x, y) =>
      make([2], ([j]) => {
        const [a, b] = [x, y].map((v) => [v.data[j!]!, v.data[2 + j!]!]) as [number[], number[]];
        return dot(a, b) / 100;
      }),
  },
  ...[1, 2, 3, Number.POSITIVE_INFINITY].flatMap((p) =>
    each(
      'pairwiseDistance',
      alike(2),
      (x, y) => H.pairwiseDistance(x, y, { p }),
      (x, y) => byRow((_, a, b) => distance(a, b, p), x, y),
    ),
  ),
];

const margins: Case[] = [
  ...loss(
    'cosineEmbedding',
    // A vector of one element turns round at 0.
    (shape) => [
      ...alike(2, shape[1] === 1 ? { low: 0.5 } : {})(shape),
      { shape: [shape[0]!], values: signs(shape[0]!) },
    ],
    (reduction, x, y, sign) => H.cosineEmbedding(x, y, sign, { margin: -0.25, reduction }),
    (x, y, sign) =>
      byRow(
        (i, ...rows) => {
          const [a, b] = rows as [number[], number[]];
          const similarity = cosine(a, b, 1e-12);
          return sign.data[i]! > 0 ? 1 - similarity : positive(similarity + 0.25);
        },
        x,
        y,
      ),
  ),
  ...loss(
    'marginRanking',
    (shape) => [{ shape }, { shape }, { shape, values: signs(shape[0]! * shape[1]!) }],
    (reduction, x, y, sign) => H.marginRanking(x, y, sign, { margin: 0.5, reduction }),
    (x, y, sign) => map((a, b, s) => positive(-s! * (a! - b!) + 0.5), x, y, sign),
  ),
  ...loss(
    'tripletMargin',
    alike(3),
    (reduction, x, y, z) => H.tripletMargin(x, y, z, { reduction }),
    (x, y, z) => byRow((_, a, b, c) => positive(distance(a!, b!, 2) - distance(a!, c!, 2) + 1), x, y, z),
  ),
  {
    op: 'tripletMargin with a swap',
    inputs: alike(3)([5, 3]),
    run: (x, y, z) => H.tripletMargin(x, y, z, { p: 1, margin: 0.5, swap: true }),
    reference: (x, y, z) => {
      const least = (a: number[], b: number[], c: number[]): number =>
        Math.min(distance(a, c, 1), distance(b, c, 1));
      const losses = byRow((_, a, b, c) => positive(distance(a!, b!, 1) - least(a!, b!, c!) + 0.5), x, y, z);
      return reduce(mean, losses);
    },
  },
  ...([1, 2] as const).flatMap((p) =>
    loss(
      'multiMargin',
      (shape) => [
        { shape },
        { shape: [shape[0]!], dtype: i32, low: 0, high: shape[1]! - 1 },
        { shape: [shape[1]!], low: 0.5, high: 2 },
      ],
      (reduction, x, labels, weight) => H.multiMargin(x, labels, { p, margin: 0.75, weight, reduction }),
      (x, labels, weight) =>
        byRow((i, scores) => {
          const own = labels.data[i]!;
          const terms = scores.map((v, k) => (k === own ? 0 : positive(0.75 - scores[own]! + v) ** p));
          return (weight.data[own]! * total(terms)) / scores.length;
        }, x),
    ),
  ),
  {
    op: 'multiMargin of one example',
    inputs: [{ shape: [4] }, { shape: [], dtype: i32, values: [2] }],
    run: (x, label) => H.multiMargin(x, label),
    reference: ({ data }) => ({
      shape: [],
      data: [total(data.map((v, k) => (k === 2 ? 0 : positive(1 - data[2]! + v)))) / 4],
    }),
  },
];

const divergences: Case[] = [
  ...loss(
    'klDiv',
    (shape) => [{ shape }, { shape, low: 0.05, high: 1 }],
    (reduction, x, target) => H.klDiv(x, target, { reduction }),
    (x, target) => map((v, t) => t! * (Math.log(t!) - v!), x, target),
  ),
  ...loss(
    'klDiv of logarithms',
    alike(2),
    (reduction, x, target) => H.klDiv(x, target, { reduction, logTarget: true }),
    (x, target) => map((v, t) => Math.exp(t!) * (t! - v!), x, target),
  ),
  {
    op: 'klDiv by batch, also of 0',
    inputs: [{ shape: [2, 3] }, { shape: [2, 3], values: [0, 0.5, 0.5, 1, 0, 0] }],
    run: (x, target) => H.klDiv(x, target.detach(), { reduction: 'batchMean' }),
    reference: (x, target) => ({
      shape: [],
      data: [
        total(
          x.data.map((v, i) => (target.data[i] ? target.data[i]! * (Math.log(target.data[i]!) - v) : 0)),
        ) / 2,
      ],
    }),
    gradient: { skip: 'the target is at the end of its range' },
  },
];

const bits =
  (weights: number) =>
  (shape: Shape): readonly Input[] => [
    { shape, low: -5, high: 5 },
    { shape, low: 0, high: 1 },
    ...Array.from({ length: weights }, (_, i) => ({ shape: i ? shape : shape.slice(1), low: 0.5, high: 2 })),
  ];
const elements: Case[] = [
  ...loss(
    'smoothL1',
    alike(2),
    (reduction, x, target) => H.smoothL1(x, target, { beta: 0.5, reduction }),
    (x, target) =>
      map(
        (v, t) => {
          const d = Math.abs(v! - t!);
          return d < 0.5 ? d * d : d - 0.25;
        },
        x,
        target,
      ),
  ),
  ...loss(
    'bceWithLogits with weights',
    bits(2),
    (reduction, x, target, posWeight, weight) => H.bceWithLogits(x, target, { posWeight, weight, reduction }),
    (x, target, posWeight, weight) =>
      map(
        (v, t, p, w) => w! * ((1 - t!) * v! + (1 + (p! - 1) * t!) * Math.log1p(Math.exp(-v!))),
        ...[x, target, posWeight, weight],
      ),
  ),
];

export const LOSSES: readonly Case[] = [...distances, ...margins, ...divergences, ...elements];
