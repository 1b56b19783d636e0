/** Resizing, padding by the elements themselves, and windows as columns. */
import { bf16 } from '../../src/core/dtype.js';
import * as H from '../../src/index.js';
import { get, make, type NdArray, pad, permute, pick, range, reshape } from '../ndarray.js';
import { type Case, one } from './case.js';

/** (N, C, H, W) of another size: element i of a direction is the sum of elements of x with these weights. */
const resized = (
  x: NdArray,
  size: readonly [number, number],
  tapsOf: (i: number, n: number, to: number) => readonly (readonly [at: number, weight: number])[],
): NdArray =>
  make([...x.shape.slice(0, 2), ...size], ([n, c, i, j]) => {
    let sum = 0;
    for (const [y, v] of tapsOf(i!, x.shape[2]!, size[0]))
      for (const [z, w] of tapsOf(j!, x.shape[3]!, size[1])) sum += v * w * get(x, [n!, c!, y, z]);
    return sum;
  });

const between = (place: number, n: number): readonly (readonly [number, number])[] => {
  const first = Math.min(n - 1, Math.floor(place));
  return [
    [first, 1 - (place - first)],
    [Math.min(n - 1, first + 1), place - first],
  ];
};

const cubic = (d: number): number => {
  const a = -0.75;
  if (d <= 1) return (a + 2) * d ** 3 - (a + 3) * d ** 2 + 1;
  return d < 2 ? a * d ** 3 - 5 * a * d ** 2 + 8 * a * d - 4 * a : 0;
};

const shape = [1, 2, 3, 4];

const interpolation: Case[] = [
  one(
    'interpolate to the nearest',
    shape,
    (x) => H.interpolate(x, { size: [5, 8] }),
    (x) => resized(x, [5, 8], (i, n, to) => [[Math.floor((i * n) / to), 1]]),
  ),
  one(
    'interpolate to the nearest, exactly',
    shape,
    (x) => H.interpolate(x, { size: [5, 8], mode: 'nearest-exact' }),
    (x) => resized(x, [5, 8], (i, n, to) => [[Math.floor(((i + 0.5) * n) / to), 1]]),
  ),
  one(
    'interpolation by area',
    shape,
    (x) => H.interpolate(x, { size: [2, 7], mode: 'area' }),
    (x) =>
      resized(x, [2, 7], (i, n, to) => {
        const covered = range(Math.floor((i * n) / to), Math.ceil(((i + 1) * n) / to));
        return covered.map((k) => [k, 1 / covered.length]);
      }),
  ),
  one(
    'bilinear interpolation',
    shape,
    (x) => H.interpolate(x, { size: [5, 2], mode: 'bilinear' }),
    (x) => resized(x, [5, 2], (i, n, to) => between(Math.max(0, ((i + 0.5) * n) / to - 0.5), n)),
  ),
  one(
    'bilinear interpolation between the corners',
    shape,
    (x) => H.interpolate(x, { scaleFactor: 2, mode: 'bilinear', alignCorners: true }),
    (x) => resized(x, [6, 8], (i, n, to) => between((i * (n - 1)) / (to - 1), n)),
  ),
  one(
    'bicubic interpolation',
    shape,
    (x) => H.interpolate(x, { scaleFactor: 2, mode: 'bicubic' }),
    (x) =>
      resized(x, [6, 8], (i, n, to) => {
        const place = ((i + 0.5) * n) / to - 0.5;
        return range(-2, 4).map((k) => {
          const at = Math.floor(place) + k;
          return [Math.min(n - 1, Math.max(0, at)), cubic(Math.abs(place - at))];
        });
      }),
  ),
  {
    ...one(
      'interpolation of bf16',
      [1, 1, 2, 2],
      (x) => H.interpolate(x, { size: 3, mode: 'bilinear' }),
      (x) => resized(x, [3, 3], (i, n, to) => between(Math.max(0, ((i + 0.5) * n) / to - 0.5), n)),
      { dtype: bf16 },
    ),
    relative: 1e-2,
    absolute: 1e-2,
  },
];

const rearrangement: Case[] = [
  one(
    'pixelShuffle',
    [2, 8, 2, 3],
    (x) => H.pixelShuffle(x, 2),
    (x) => reshape(permute(reshape(x, [2, 2, 2, 2, 2, 3]), [0, 1, 4, 2, 5, 3]), [2, 2, 4, 6]),
  ),
  one(
    'pixelUnshuffle',
    [2, 4, 6],
    (x) => H.pixelUnshuffle(x, 2),
    (x) => reshape(permute(reshape(x, [2, 2, 2, 3, 2]), [0, 2, 4, 1, 3]), [8, 2, 3]),
  ),
  ...(
    [
      ['reflect', (i: number, n: number) => (i < 0 ? -i : i < n ? i : 2 * n - 2 - i)],
      ['replicate', (i: number, n: number) => Math.max(0, Math.min(n - 1, i))],
      ['circular', (i: number, n: number) => (i + n) % n],
    ] as const
  ).map(([mode, from]) =>
    one(
      `pad, ${mode}`,
      [2, 3, 4],
      (x) =>
        x.pad(
          [
            [0, 0],
            [2, 0],
            [1, 3],
          ],
          { mode },
        ),
      (x) => pick(x, [[0, 1], range(-2, 3).map((i) => from(i, 3)), range(-1, 7).map((i) => from(i, 4))]),
    ),
  ),
];

const windows: Case[] = [
  one(
    'unfold',
    [2, 2, 4, 5],
    (x) => H.unfold(x, [2, 3], { stride: [2, 1], padding: [1, 0] }),
    (x) => {
      const around = pad(x, [
        [0, 0],
        [0, 0],
        [1, 1],
        [0, 0],
      ]);
      return make([2, 12, 9], ([n, row, at]) => {
        const [c, ky, kx] = [Math.floor(row! / 6), Math.floor(row! / 3) % 2, row! % 3];
        return get(around, [n!, c, 2 * Math.floor(at! / 3) + ky, (at! % 3) + kx]);
      });
    },
  ),
  one(
    'fold',
    [1, 8, 6],
    (x) => H.fold(x, [3, 4], 2, { padding: [0, 0] }),
    (x) =>
      make([1, 2, 3, 4], ([, c, y, z]) => {
        let sum = 0;
        for (const ky of [0, 1])
          for (const kx of [0, 1]) {
            const [oy, ox] = [y! - ky, z! - kx];
            if (oy >= 0 && oy < 2 && ox >= 0 && ox < 3) sum += get(x, [0, c! * 4 + ky * 2 + kx, oy * 3 + ox]);
          }
        return sum;
      }),
  ),
];

export const RESIZING: readonly Case[] = [...interpolation, ...rearrangement, ...windows];
