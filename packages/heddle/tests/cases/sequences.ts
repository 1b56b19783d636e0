/** What works on sequences: embeddings. */
import { bf16, f64, i32 } from '../../src/core/dtype.js';
import * as H from '../../src/index.js';
import { make } from '../ndarray.js';
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

export const SEQUENCES: readonly Case[] = [
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
