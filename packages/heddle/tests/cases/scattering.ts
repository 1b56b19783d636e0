/** Values put into tensors, and taken out of them, by position. */
import { bf16, bool, f64, i32, i64, u8 } from '../../src/core/dtype.js';
import type { AnyTensor, Tensor } from '../../src/tensor/tensor.js';
import { count, make, type NdArray, ravel, reshape, unravel } from '../ndarray.js';
import type { Case, Input } from './case.js';

type Combine = (old: number, value: number) => number;

/** x, and at each position of `index` in row order what `combine` makes of the element there and that of `src`. */
function scattered(x: NdArray, axis: number, index: NdArray, src: NdArray, combine: Combine): NdArray {
  const data = [...x.data];
  for (let i = 0; i < count(index.shape); i++) {
    const at = unravel(i, index.shape);
    const to = at.map((k, d) => (d === axis ? index.data[i]! : k));
    if (to[axis]! < 0 || to[axis]! >= x.shape[axis]!) continue;
    const place = ravel(to, x.shape);
    data[place] = combine(data[place]!, src.data[ravel(at, src.shape)]!);
  }
  return { shape: x.shape, data };
}

const added: Combine = (old, value) => old + value;
const put: Combine = (_, value) => value;

const positions = (shape: readonly number[], size: number): Input => ({
  shape,
  dtype: i32,
  values: Array.from({ length: count(shape) }, (_, i) => (i * i * 5 + i) % size),
});

/** x and src, axis, index. */
const LAYOUTS: readonly (readonly [
  x: readonly number[],
  axis: number,
  index: Input,
  src: readonly number[],
])[] = [
  [[5], 0, { shape: [3], dtype: i32, values: [4, 0, 2] }, [3]],
  [[3, 5], 1, { shape: [2, 4], dtype: i32, values: [0, 4, 4, 1, 2, 2, 2, 0] }, [3, 4]],
  [[4, 3], 0, { shape: [5, 2], dtype: i32, values: [3, 0, 3, 9, -1, 1, 2, 1, 0, 0] }, [6, 3]],
  [[2, 3, 2], 1, positions([2, 3, 2], 3), [2, 3, 2]],
  // So many that rows are scattered by kernels of their own.
  [[2, 9], 1, positions([2, 300], 10), [2, 300]],
  [[2, 3], 1, { shape: [2, 0], dtype: i32, values: [] }, [2, 4]],
];

const of = (
  op: 'scatter' | 'scatterAdd',
  [shape, axis, index, src]: (typeof LAYOUTS)[number],
  input: Partial<Input> = {},
): Case => ({
  op,
  inputs: [{ shape, ...input }, index, { shape: src, ...input }],
  run: (x, index, src) => x[op](axis, index, src),
  reference: (x, index, src) => scattered(x, axis, index, src, op === 'scatter' ? put : added),
  ...(count(src) > 100 && { relative: 5e-5, absolute: 5e-5 }),
});

const scatters = LAYOUTS.flatMap((layout) => [of('scatter', layout), of('scatterAdd', layout)]);
const [, rows, columns] = LAYOUTS;

const byPosition = (
  op: string,
  inputs: readonly Input[],
  run: (...inputs: Tensor[]) => AnyTensor,
  reference: (...inputs: NdArray[]) => NdArray,
): Case => ({ op, inputs, run, reference });

const one = (values: readonly number[]): Input => ({ shape: [values.length], dtype: i32, values });

export const SCATTERING: readonly Case[] = [
  ...scatters,
  of('scatter', rows!, { dtype: bool }),
  of('scatter', columns!, { dtype: i64 }),
  of('scatter', rows!, { dtype: f64 }),
  of('scatterAdd', rows!, { dtype: u8, low: 0, high: 9 }),
  of('scatterAdd', columns!, { dtype: f64 }),
  { ...of('scatterAdd', columns!, { dtype: bf16 }), relative: 2 ** -7 },
  byPosition(
    'scatter of a number',
    [{ shape: [2, 4] }, { shape: [2, 2], dtype: i32, values: [3, 0, 1, 1] }],
    (x, index) => x.scatter(-1, index, 7),
    (x, index) =>
      scattered(
        x,
        1,
        index,
        make([2, 2], () => 7),
        put,
      ),
  ),
  byPosition(
    'indexAdd',
    [{ shape: [3, 4] }, one([2, 0, 2, 5]), { shape: [4, 4] }],
    (x, index, src) => x.indexAdd(0, index, src),
    (x, index, src) =>
      scattered(
        x,
        0,
        make([4, 4], ([i]) => index.data[i!]!),
        src,
        added,
      ),
  ),
  byPosition(
    'indexAdd',
    [{ shape: [2, 3, 2] }, one([1, 1]), { shape: [2, 2, 2] }],
    (x, index, src) => x.indexAdd(1, index, src, { alpha: -0.5 }),
    (x, index, src) =>
      scattered(
        x,
        1,
        make([2, 2, 2], ([, i]) => index.data[i!]!),
        src,
        (old, v) => old - 0.5 * v,
      ),
  ),
  byPosition(
    'indexSelect',
    [{ shape: [3, 4] }, one([3, 0, -1])],
    (x, index) => x.indexSelect(1, index),
    (x) => make([3, 3], ([r, i]) => x.data[4 * r! + [3, 0, 3][i!]!]!),
  ),
  byPosition(
    'take',
    [{ shape: [2, 3] }, { shape: [2, 2], dtype: i32, values: [5, 0, -1, 3] }],
    (x, index) => x.take(index),
    (x) => reshape({ shape: [4], data: [5, 0, 5, 3].map((i) => x.data[i]!) }, [2, 2]),
  ),
];
