/** Elements by their order: sorted, where they were, the largest of them. */
import { bf16, bool, f16, f64, i32, i64, u8, u32 } from '../../src/core/dtype.js';
import type { AnyTensor, Tensor } from '../../src/tensor/tensor.js';
import { get, make, type NdArray } from '../ndarray.js';
import { type Case, type Input, one } from './case.js';

/** Where the elements along `axis` were before they are sorted, as PyTorch's stable sort has it: NaN is the largest. */
function ordered(x: NdArray, axis: number, descending = false): NdArray {
  const before = (a: number, b: number): number =>
    Number.isNaN(a) || Number.isNaN(b) ? Number(Number.isNaN(a)) - Number(Number.isNaN(b)) : a - b;
  return make(x.shape, (at) => {
    const element = (i: number): number =>
      get(
        x,
        at.map((k, d) => (d === axis ? i : k)),
      );
    const places = Array.from({ length: x.shape[axis]! }, (_, i) => i);
    places.sort(
      (a, b) => (descending ? before(element(b), element(a)) : before(element(a), element(b))) || a - b,
    );
    return places[at[axis]!]!;
  });
}

const taken = (x: NdArray, axis: number, places: NdArray): NdArray =>
  make(places.shape, (at) =>
    get(
      x,
      at.map((k, d) => (d === axis ? get(places, at) : k)),
    ),
  );

const first = (x: NdArray, axis: number, k: number): NdArray =>
  make(
    x.shape.map((d, i) => (i === axis ? k : d)),
    (at) => get(x, at),
  );

/** The values and where they were, of one sort. */
const sorts = (
  shape: readonly number[],
  axis: number,
  descending: boolean,
  input: Partial<Input> = {},
): Case[] => {
  const at = axis < 0 ? axis + shape.length : axis;
  const of = (op: string, run: (x: Tensor) => AnyTensor, reference: (x: NdArray) => NdArray): Case =>
    one(op, shape, run, reference, input);
  return [
    of(
      'sort',
      (x) => x.sort(axis, { descending }).values,
      (x) => taken(x, at, ordered(x, at, descending)),
    ),
    of(
      'argsort',
      (x) => x.argsort(axis, { descending }),
      (x) => ordered(x, at, descending),
    ),
  ];
};

/** Where values that differences say nothing of are. */
const where = (values: readonly number[], descending: boolean, input: Partial<Input> = {}): Case =>
  sorts([values.length], 0, descending, { values, ...input })[1]!;

/** Keys that tie. */
const few = { low: 0, high: 3 };

export const SORTING: readonly Case[] = [
  ...sorts([7], 0, false),
  ...sorts([2, 5, 3], 1, true),
  ...sorts([3, 33], -1, false),
  ...sorts([5, 1], 1, false),
  ...sorts([0, 3], 1, true),
  ...sorts([3, 0], 1, false),
  ...[i32, i64, u8, u32].map((dtype, i) => sorts([3, 9], i % 2, i > 1, { ...few, dtype })[i % 2]!),
  ...[bool, f16, bf16, f64].map((dtype, i) => sorts([2, 6], 1, i % 2 > 0, { dtype })[0]!),
  sorts([2], 0, false, { dtype: u32, values: [2 ** 32 - 1, 2 ** 31 - 1] })[0]!,
  ...[false, true].map((descending) =>
    where([0, NaN, -0, Infinity, 1e-45, -Infinity, NaN, -1e-45], descending),
  ),
  where([NaN, 1e300, -0, 0, -1e300, Infinity], false, { dtype: f64 }),
  ...(
    [
      [[9], 3, 0, true],
      [[4, 6], 2, -1, false],
      [[5, 3], 5, 0, true],
      [[4], 0, 0, true],
    ] as const
  ).flatMap(([shape, k, axis, largest]) => {
    const at = axis < 0 ? axis + shape.length : axis;
    return [
      one(
        'topk',
        shape,
        (x) => x.topk(k, axis, { largest }).values,
        (x) => first(taken(x, at, ordered(x, at, largest)), at, k),
      ),
      one(
        'topk',
        shape,
        (x) => x.topk(k, axis, { largest }).indices,
        (x) => first(ordered(x, at, largest), at, k),
        { low: 0, high: 4, dtype: i32 },
      ),
    ];
  }),
  one(
    'sort of a computed value, then a sum',
    [4, 10],
    (x) => x.sin().sort(1).values.at('...', '2:5').square().sum(1),
    (x) => {
      const y = { ...x, data: x.data.map(Math.sin) };
      const rows = taken(y, 1, ordered(y, 1));
      return make([4], ([r]) => [2, 3, 4].reduce((s, c) => s + get(rows, [r!, c]) ** 2, 0));
    },
  ),
];
