/** Pieces of tensors, repeated, moved round and cut along diagonals. */
import { bool, i32 } from '../../src/core/dtype.js';
import * as H from '../../src/index.js';
import { cat, make, map, type NdArray, permute, pick, range, reshape } from '../ndarray.js';
import { type Case, one } from './case.js';

const along = (x: NdArray, axis: number, positions: readonly number[]): NdArray =>
  pick(
    x,
    x.shape.map((d, i) => (i === axis ? positions : range(0, d))),
  );

const rolled = (x: NdArray, axis: number, by: number): NdArray => {
  const n = x.shape[axis]!;
  return along(
    x,
    axis,
    range(0, n).map((i) => (((i - by) % n) + n) % n),
  );
};

/** Each piece times another number, one after the other: that they are the right ones, and in order. */
const weighted = (pieces: readonly H.Tensor[], axis: number): H.Tensor =>
  H.cat(
    pieces.map((p, i) => p.mul(i + 1)),
    axis,
  );
const weightedReference = (x: NdArray, axis: number, sizes: readonly number[]): NdArray => {
  let from = 0;
  return cat(
    sizes.map((n, i) => {
      from += n;
      return map((v) => v! * (i + 1), along(x, axis, range(from - n, from)));
    }),
    axis,
  );
};

const moved: Case[] = [
  one(
    'roll',
    [5],
    (x) => x.roll(2, 0),
    (x) => rolled(x, 0, 2),
  ),
  one(
    'roll',
    [3, 4],
    (x) => x.roll(-1, 1),
    (x) => rolled(x, 1, -1),
  ),
  one(
    'roll',
    [3, 4],
    (x) => x.roll([7, 2], [0, -1]),
    (x) => rolled(rolled(x, 0, 7), 1, 2),
  ),
  one(
    'roll',
    [3, 4],
    (x) => x.roll(5),
    (x) => reshape(rolled(reshape(x, [12]), 0, 5), [3, 4]),
  ),
  one(
    'roll',
    [0, 2],
    (x) => x.roll(3, 0),
    (x) => x,
  ),
  one(
    'roll',
    [4],
    (x) => x.roll(8, 0),
    (x) => x,
    { dtype: i32, low: 0, high: 9 },
  ),
];

const repeated: Case[] = [
  one(
    'repeat',
    [3],
    (x) => x.repeat([2]),
    (x) => cat([x, x], 0),
  ),
  one(
    'repeat',
    [2, 3],
    (x) => x.repeat([1, 3]),
    (x) => cat([x, x, x], 1),
  ),
  one(
    'repeat',
    [2],
    (x) => x.repeat([3, 2]),
    (x) => make([3, 4], ([, j]) => x.data[j! % 2]!),
  ),
  one(
    'repeat',
    [2, 3],
    (x) => x.repeat([0, 1]),
    () => ({ shape: [0, 3], data: [] }),
  ),
  one(
    'repeatInterleave',
    [3],
    (x) => x.repeatInterleave(2, 0),
    (x) => along(x, 0, [0, 0, 1, 1, 2, 2]),
  ),
  one(
    'repeatInterleave',
    [2, 3],
    (x) => x.repeatInterleave(3, 0),
    (x) => along(x, 0, [0, 0, 0, 1, 1, 1]),
  ),
];

const cut: Case[] = [
  one(
    'split',
    [7, 2],
    (x) => weighted(x.split(3), 0),
    (x) => weightedReference(x, 0, [3, 3, 1]),
  ),
  one(
    'split',
    [2, 6],
    (x) => weighted(x.split([1, 0, 5], 1), 1),
    (x) => weightedReference(x, 1, [1, 0, 5]),
  ),
  one(
    'split',
    [0, 2],
    (x) => x.split(3)[0]!,
    (x) => x,
  ),
  one(
    'chunk',
    [7],
    (x) => weighted(x.chunk(3), 0),
    (x) => weightedReference(x, 0, [3, 3, 1]),
  ),
  one(
    'chunk',
    [2, 4],
    (x) => weighted(x.chunk(8, -1), 1),
    (x) => weightedReference(x, 1, [1, 1, 1, 1]),
  ),
  one(
    'unbind',
    [3, 2],
    (x) => H.stack(x.unbind(), 1),
    (x) => permute(x, [1, 0]),
  ),
  one(
    'unbind',
    [2, 3],
    (x) => x.unbind(-1)[2]!,
    (x) => reshape(along(x, 1, [2]), [2]),
  ),
];

const triangles: Case[] = (
  [
    [[4, 4], 0],
    [[3, 5], 1],
    [[5, 3], -2],
    [[2, 3, 3], -1],
    [[3, 3], 90],
    [[0, 2], 0],
  ] as const
).flatMap(([shape, diagonal]) =>
  (['tril', 'triu'] as const).map((side) =>
    one(
      side,
      shape,
      (x) => x[side](diagonal),
      (x) =>
        make(shape, (at) => {
          const [i, j] = at.slice(-2) as [number, number];
          const isKept = side === 'tril' ? j - i <= diagonal : j - i >= diagonal;
          const index = at.reduce((n, k, d) => n * shape[d]! + k, 0);
          return isKept ? x.data[index]! : 0;
        }),
    ),
  ),
);

export const PIECES: readonly Case[] = [
  ...moved,
  ...repeated,
  ...cut,
  ...triangles,
  one(
    'tril',
    [3, 3],
    (x) => x.tril(),
    (x) => make([3, 3], ([i, j]) => (j! <= i! ? x.data[i! * 3 + j!]! : 0)),
    {
      dtype: bool,
    },
  ),
];
