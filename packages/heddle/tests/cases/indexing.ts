/** Indexing: elements chosen by ranges, and by positions in other tensors. */
import { f64, i32, u8 } from '../../src/core/dtype.js';
import { gather, pick, range, reduce, reshape, total } from '../ndarray.js';
import { type Case, one } from './case.js';

const all = (n: number): number[] => range(0, n);

/** NumPy's results of x[…]. */
const indices: Case[] = [
  one(
    'at',
    [4, 5],
    (x) => x.at(1),
    (x) => reshape(pick(x, [[1], all(5)]), [5]),
  ),
  one(
    'at',
    [4, 5],
    (x) => x.at(-1, -2),
    (x) => reshape(pick(x, [[3], [3]]), []),
  ),
  one(
    'at',
    [4, 5],
    (x) => x.at('1:3'),
    (x) => pick(x, [[1, 2], all(5)]),
  ),
  one(
    'at',
    [4, 5],
    (x) => x.at('::2', '1::3'),
    (x) =>
      pick(x, [
        [0, 2],
        [1, 4],
      ]),
  ),
  one(
    'at',
    [4, 5],
    (x) => x.at('::-1', '4:0:-2'),
    (x) =>
      pick(x, [
        [3, 2, 1, 0],
        [4, 2],
      ]),
  ),
  one(
    'at',
    [4, 5],
    (x) => x.at('-3:-1', ':-1'),
    (x) =>
      pick(x, [
        [1, 2],
        [0, 1, 2, 3],
      ]),
  ),
  one(
    'at',
    [4, 5],
    (x) => x.at('2:100', '-100:2'),
    (x) =>
      pick(x, [
        [2, 3],
        [0, 1],
      ]),
  ),
  one(
    'at',
    [4, 5],
    (x) => x.at('3:1'),
    (x) => pick(x, [[], all(5)]),
  ),
  one(
    'at',
    [4, 5],
    (x) => x.at('...', 0),
    (x) => reshape(pick(x, [all(4), [0]]), [4]),
  ),
  one(
    'at',
    [2, 3, 4],
    (x) => x.at(0, '...', '::-3'),
    (x) => reshape(pick(x, [[0], all(3), [3, 0]]), [3, 2]),
  ),
  one(
    'at',
    [2, 3],
    (x) => x.at(null, '...', null),
    (x) => reshape(x, [1, 2, 3, 1]),
  ),
  one(
    'at',
    [2, 3],
    (x) => x.at(1, null, '1:'),
    (x) => reshape(pick(x, [[1], [1, 2]]), [1, 2]),
  ),
  one(
    'at',
    [7],
    (x) => x.at('5::-2'),
    (x) => pick(x, [[5, 3, 1]]),
  ),
  one(
    'at',
    [7],
    (x) => x.at('6:1:-3').at('::-1'),
    (x) => pick(x, [[3, 6]]),
  ),
  one(
    'at',
    [0, 3],
    (x) => x.at('::-1', '1:'),
    (x) => pick(x, [[], [1, 2]]),
  ),
  one(
    'at',
    [9],
    (x) => x.at('1::2'),
    (x) => pick(x, [[1, 3, 5, 7]]),
    { dtype: u8, low: 0, high: 9 },
  ),
];

const positioned: Case[] = [
  ...(
    [
      [[3, 4], [2], [2, 0]],
      [
        [3, 4],
        [2, 2],
        [0, 1, 2, 0],
      ],
      [[3, 4], [3], [-1, -3, 1]],
      [[3, 4], [0], []],
      [[3, 4], [], [1]],
    ] as const
  ).map(
    ([shape, at, values]): Case => ({
      op: 'at with a tensor of positions',
      inputs: [{ shape }, { shape: at, dtype: i32, values }],
      run: (x, rows) => x.at(rows),
      reference: (x, rows) => {
        const taken = pick(x, [rows.data.map((r) => (r < 0 ? r + shape[0] : r)), all(shape[1])]);
        return reshape(taken, [...at, shape[1]]);
      },
    }),
  ),
  {
    op: 'at with a tensor of positions',
    inputs: [{ shape: [2, 3, 5] }, { shape: [2], dtype: i32, values: [4, 1] }],
    run: (x, columns) => x.at(1, '::2', columns),
    reference: (x, columns) => reshape(pick(x, [[1], [0, 2], columns.data]), [2, 2]),
  },
  ...(
    [
      [[3, 4], 1, [3, 2], [0, 3, 1, 1, 2, 0]],
      [[3, 4], 0, [2, 4], [0, 1, 2, 0, 2, 2, 1, 0]],
      [[5], 0, [7], [4, 4, 0, 1, 2, 3, 0]],
      [[5], 0, [3], [9, -1, 2]],
      [[2, 3], 1, [2, 0], []],
      [[2, 1, 3], -2, [2, 2, 3], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]],
      // So many that the gradient has kernels.
      [[2, 300], 1, [2, 300], Array.from({ length: 600 }, (_, i) => (i * i * 7 + i) % 320)],
      [[9, 2], 0, [300, 2], Array.from({ length: 600 }, (_, i) => (i * i * 5 + i) % 10)],
    ] as const
  ).flatMap(([shape, axis, at, values]) =>
    [{}, { dtype: f64 }].map(
      (input): Case => ({
        op: 'gather',
        inputs: [
          { shape, ...input },
          { shape: at, dtype: i32, values },
        ],
        run: (x, positions) => x.gather(axis, positions),
        reference: (x, positions) => gather(x, axis < 0 ? axis + shape.length : axis, positions),
      }),
    ),
  ),
  {
    op: 'gather of a computed value, then a sum',
    inputs: [{ shape: [4, 3] }, { shape: [4, 1], dtype: i32, values: [2, 0, 1, 1] }],
    run: (x, positions) => x.exp().gather(1, positions).log().sum(),
    reference: (x, positions) => reduce(total, gather(x, 1, positions)),
  },
];

export const INDEXING: readonly Case[] = [...indices, ...positioned];
