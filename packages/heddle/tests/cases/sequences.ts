/** What works on sequences: embeddings, attention, recurrent networks, CTC. */
import { bf16, bool, f16, f32, f64, i32 } from '../../src/core/dtype.js';
import * as H from '../../src/index.js';
import { recurrentLayer } from '../../src/tensor/functional-recurrent.js';
import { make, type NdArray, total } from '../ndarray.js';
import type { Case } from './case.js';

const embeddings: Case[] = [
  { shape: [5, 3], values: [4, 0, 4, 1, 2, 2] },
  { shape: [1, 1], values: [0, 0, 0, 0, 0, 0] },
  { shape: [9, 2], dtype: f64, values: [8, 0, 8, 0, 8, 0] },
  { shape: [5, 3], dtype: bf16, values: [4, 0, 4, 1, 2, 2] },
].map(({ values, ...weight }) => ({
  op: 'embedding',
  inputs: [{ shape: [2, 3], dtype: i32, values }, weight],
  run: (indices, table) => H.embedding(indices, table),
  reference: (indices, table) =>
    make(
      [2, 3, weight.shape[1]!],
      ([i, j, k]) => table.data[indices.data[i! * 3 + j!]! * weight.shape[1]! + k!]!,
    ),
}));

/** Queries (B, L, E), keys (B, S, E), values (B, S, V); `score` of batch, query and key, from their product. */
function attended(
  [q, k, v]: readonly NdArray[],
  score: (product: number, b: number, i: number, j: number) => number,
): NdArray {
  const [batch, queries, features] = q!.shape as [number, number, number];
  const [, keys, width] = v!.shape as [number, number, number];
  return make([batch, queries, width], ([b, i, c]) => {
    const weights = Array.from({ length: keys }, (_, j) => {
      const of = Array.from(
        { length: features },
        (_, e) => q!.data[(b! * queries + i!) * features + e]! * k!.data[(b! * keys + j) * features + e]!,
      );
      return Math.exp(score(total(of), b!, i!, j));
    });
    const all = total(weights);
    return all === 0 ? 0 : total(weights.map((w, j) => (w / all) * v!.data[(b! * keys + j) * width + c!]!));
  });
}

const attentions: Case[] = [
  ...(
    [
      [2, 3, 5, 4, 2],
      [1, 1, 1, 1, 1],
      [3, 7, 19, 5, 9],
      [0, 2, 3, 2, 2],
      [2, 0, 3, 2, 2],
    ] as const
  ).flatMap(([batch, l, s, e, width]): Case[] => {
    const inputs = [{ shape: [batch, l, e] }, { shape: [batch, s, e] }, { shape: [batch, s, width] }];
    const large = s > 5 && ({ gradient: { skip: 'smaller shapes show it' } } as const);
    return [
      {
        ...large,
        op: 'scaledDotProductAttention',
        inputs,
        run: (q, k, v) => H.scaledDotProductAttention(q, k, v),
        reference: (...qkv) => attended(qkv, (product) => product / Math.sqrt(e)),
      },
      {
        ...large,
        op: 'causal attention',
        inputs,
        run: (q, k, v) => H.scaledDotProductAttention(q, k, v, { isCausal: true, scale: 0.7 }),
        reference: (...qkv) => attended(qkv, (product, _, i, j) => (j > i ? -Infinity : 0.7 * product)),
      },
    ];
  }),
  {
    op: 'attention with a mask that leaves a query nothing',
    inputs: [
      { shape: [2, 3, 2] },
      { shape: [2, 4, 2] },
      { shape: [2, 4, 3] },
      { shape: [3, 4], dtype: bool, values: [1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 1, 0] },
    ],
    run: (q, k, v, mask) => H.scaledDotProductAttention(q, k, v, { mask, scale: 1 }),
    reference: (q, k, v, mask) =>
      attended([q!, k!, v!], (product, _, i, j) => (mask!.data[i * 4 + j] ? product : -Infinity)),
  },
  {
    op: 'attention with a mask that is added',
    inputs: [{ shape: [2, 3, 2] }, { shape: [2, 4, 2] }, { shape: [2, 4, 3] }, { shape: [2, 1, 4] }],
    run: (q, k, v, mask) => H.scaledDotProductAttention(q, k, v, { mask, scale: 1 }),
    reference: (q, k, v, mask) =>
      attended([q!, k!, v!], (product, b, _, j) => product + mask!.data[b * 4 + j]!),
  },
  {
    op: 'attention in bf16',
    inputs: [3, 6, 6].map((length) => ({ shape: [2, length, 4], dtype: bf16 })),
    run: (q, k, v) => H.scaledDotProductAttention(q, k, v),
    reference: (...qkv) => attended(qkv, (product) => product / 2),
    relative: 1e-2,
    absolute: 1e-2,
  },
];

const logistic = (v: number): number => 1 / (1 + Math.exp(-v));

/** The outputs and the last state of a layer, one after the other; x is (T, N, I), the states (N, H). */
function recurrent(
  cell: 'tanh' | 'relu' | 'gru' | 'lstm',
  [x, wi, wh, bi, bh, h0, c0]: readonly NdArray[],
): NdArray {
  const [steps, rows, features] = x!.shape as [number, number, number];
  const size = h0!.shape[1]!;
  const output: number[] = [];
  const ends: number[][] = [];
  for (let n = 0; n < rows; n++) {
    let h = h0!.data.slice(n * size, (n + 1) * size);
    let c = c0!.data.slice(n * size, (n + 1) * size);
    for (let t = 0; t < steps; t++) {
      const own = (r: number): number =>
        bi!.data[r]! +
        total(
          Array.from(
            { length: features },
            (_, i) => wi!.data[r * features + i]! * x!.data[(t * rows + n) * features + i]!,
          ),
        );
      const back = (r: number): number =>
        bh!.data[r]! + total(Array.from({ length: size }, (_, i) => wh!.data[r * size + i]! * h[i]!));
      const both = (r: number): number => own(r) + back(r);
      const next = Array.from({ length: size }, (_, j) => {
        if (cell === 'tanh') return [Math.tanh(both(j)), 0];
        if (cell === 'relu') return [Math.max(0, both(j)), 0];
        const [a, b] = [logistic(both(j)), logistic(both(size + j))];
        if (cell === 'gru')
          return [(1 - b) * Math.tanh(own(2 * size + j) + a * back(2 * size + j)) + b * h[j]!, 0];
        const state = b * c[j]! + a * Math.tanh(both(2 * size + j));
        return [logistic(both(3 * size + j)) * Math.tanh(state), state];
      });
      h = next.map(([v]) => v!);
      c = next.map(([, v]) => v!);
      output.push(...h);
    }
    ends.push(cell === 'lstm' ? c : h);
  }
  const ordered = make([steps, rows, size], ([t, n, j]) => output[(n! * steps + t!) * size + j!]!);
  return { shape: [output.length + rows * size], data: [...ordered.data, ...ends.flat()] };
}

const recurrents: Case[] = (
  [
    ['tanh', 1],
    ['relu', 1],
    ['gru', 3],
    ['lstm', 4],
  ] as const
).flatMap(([cell, gates]) =>
  (
    [
      [3, 2, 2, 3, f32],
      [1, 1, 1, 1, f32],
      [2, 3, 1, 4, f32],
      [3, 2, 2, 3, bf16],
      [2, 1, 2, 4, f16],
    ] as const
  ).map(
    ([steps, rows, features, size, dtype]): Case => ({
      op: `recurrent layer of ${cell}${dtype === f32 ? '' : ` in ${dtype.name}`}`,
      inputs: [
        { shape: [steps, rows, features], dtype },
        ...[[gates * size, features], [gates * size, size], [gates * size], [gates * size]].map((shape) => ({
          ...{ shape, dtype, low: -0.9, high: 0.8 },
        })),
        { shape: [rows, size], dtype },
        { shape: [rows, size], dtype },
      ],
      run: (x, weightIh, weightHh, biasIh, biasHh, h0, c0) => {
        const first = cell === 'lstm' ? [h0!, c0!] : [h0!];
        const weights = { weightIh: weightIh!, weightHh: weightHh!, biasIh, biasHh };
        const { output, last } = recurrentLayer(cell, x!, weights, first);
        return H.cat([output.flatten(), last.at(-1)!.flatten()]);
      },
      reference: (...inputs) => recurrent(cell, inputs),
      absolute: dtype === f32 ? 1e-5 : dtype === f16 ? 2e-3 : 2e-2,
    }),
  ),
);

/** What a path says: repeats count once, then blanks go. */
const said = (path: readonly number[]): string => path.filter((c, t) => c !== 0 && c !== path[t - 1]).join();

/** The loss of each example (T, N, C) by all paths, one after the other. */
function pathLosses(
  logProbs: NdArray,
  targets: readonly (readonly number[])[],
  lengths: readonly number[],
): NdArray {
  const [, rows, classes] = logProbs.shape as [number, number, number];
  return make([rows], ([n]) => {
    const steps = lengths[n!]!;
    const paths = Array.from({ length: classes ** steps }, (_, i) =>
      Array.from({ length: steps }, (_, t) => Math.floor(i / classes ** t) % classes),
    ).filter((path) => said(path) === targets[n!]!.join());
    const score = (path: readonly number[]): number =>
      total(path.map((c, t) => logProbs.data[(t * rows + n!) * classes + c]!));
    return -Math.log(total(paths.map((path) => Math.exp(score(path)))));
  });
}

const ctc: Case[] = [
  {
    op: 'ctcLoss',
    inputs: [
      { shape: [4, 4, 3] },
      { shape: [4, 2], dtype: i32, values: [1, 2, 2, 2, 1, 7, 0, 0] },
      { shape: [4], dtype: i32, values: [4, 3, 2, 1] },
      { shape: [4], dtype: i32, values: [2, 2, 1, 0] },
    ],
    run: (x, ...rest) => H.ctcLoss(x, ...(rest as [H.Tensor, H.Tensor, H.Tensor]), { reduction: 'none' }),
    reference: (x) => pathLosses(x, [[1, 2], [2, 2], [1], []], [4, 3, 2, 1]),
  },
  {
    op: 'ctcLoss of targets that cannot be',
    inputs: [
      { shape: [2, 2, 3] },
      { shape: [2, 2], dtype: i32, values: [1, 1, 1, 3] },
      { shape: [2], dtype: i32, values: [2, 2] },
      { shape: [2], dtype: i32, values: [2, 2] },
    ],
    run: (x, ...rest) => H.ctcLoss(x, ...(rest as [H.Tensor, H.Tensor, H.Tensor]), { reduction: 'none' }),
    reference: () => ({ shape: [2], data: [Infinity, Number.NaN] }),
    gradient: { skip: 'it is 0' },
  },
];

export const SEQUENCES: readonly Case[] = [
  ...ctc,
  ...recurrents,
  ...attentions,
  ...embeddings,
  {
    op: 'embedding of no indices',
    inputs: [{ shape: [0, 2], dtype: i32 }, { shape: [3, 4] }],
    run: (indices, table) => H.embedding(indices, table),
    reference: () => ({ shape: [0, 2, 4], data: [] }),
  },
  {
    op: 'embedding of indices outside the table',
    inputs: [{ shape: [3], dtype: i32, values: [-1, 1, 3] }, { shape: [3, 2] }],
    run: (indices, table) => H.embedding(indices, table).isNaN(),
    reference: () => ({ shape: [3, 2], data: [1, 1, 0, 0, 1, 1] }),
  },
];
