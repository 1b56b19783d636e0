/** Elements by their order, sums at positions, sums of products by named dimensions: rows of the table. */
import * as H from '../../src/index.js';
import * as nd from '../ndarray.js';
import { each, type Op, op, type Picker } from './op.js';
import type { Entries, Tape } from './tape.js';

interface Along {
  readonly axis: number;
  readonly descending: boolean;
}

/** The places of entries in their order, equal ones as they stand, NaN as the largest; undefined if rounding decides it. */
function order(tape: Tape, ids: readonly number[], descending: boolean): number[] | undefined {
  const isNumber = (i: number): boolean => !Number.isNaN(tape.value[ids[i]!]!);
  const compare = (i: number, j: number): number => {
    if (!isNumber(i) || !isNumber(j)) return Number(isNumber(j)) - Number(isNumber(i));
    const [x, y] = [tape.value[ids[i]!]!, tape.value[ids[j]!]!];
    return x === y ? 0 : x - y;
  };
  const places = nd.range(0, ids.length).toSorted((i, j) => (descending ? compare(j, i) : compare(i, j)));
  const isOpen = places.some((i, k) => {
    const next = places[k + 1];
    return next !== undefined && isNumber(i) && isNumber(next) && tape.isOpen(ids[i]!, ids[next]!);
  });
  return isOpen || ids.some((id) => tape.error[id] === Number.POSITIVE_INFINITY) ? undefined : places;
}

/** `f` of the sorted places of each line, which gives the first `count` of it. */
function inOrder(
  tape: Tape,
  x: Entries,
  { axis, descending }: Along,
  f: (ids: readonly number[], place: number | undefined) => number,
  count = x.shape[axis]!,
): nd.NdArray {
  const sorted = nd.alongAxis(
    (ids) => {
      const places = order(tape, ids, descending);
      return ids.map((_, i) => f(ids, places?.[i]));
    },
    x,
    axis,
  );
  return nd.pick(
    sorted,
    x.shape.map((n, d) => nd.range(0, d === axis ? count : n)),
  );
}

const chooseAxis = (p: Picker): { x: number; arg: Along } | undefined => {
  const x = p.value((shape, dtype) => shape.length > 0 && dtype !== 'bool');
  if (x === undefined) return undefined;
  return { x, arg: { axis: p.below(p.shape(x).length), descending: p.chance(0.5) } };
};

const value =
  (tape: Tape, x: Entries) =>
  (ids: readonly number[], place: number | undefined): number =>
    place === undefined ? tape.open(x.dtype, Number.NaN, ids) : ids[place]!;
const position =
  (tape: Tape) =>
  (_: readonly number[], place: number | undefined): number =>
    tape.plain('i32', place ?? 0, place !== undefined);

/** What an equation of two tensors or one adds up, term by term. */
function summed(tape: Tape, equation: string, tensors: readonly Entries[]): Entries {
  const [left, right] = equation.split('->') as [string, string];
  const terms = left.split(',');
  const sizes = new Map(terms.flatMap((t, k) => [...t].map((l, d) => [l, tensors[k]!.shape[d]!])));
  const over = [...sizes.keys()].filter((l) => !right.includes(l));
  const { dtype } = tensors[0]!;
  const data = nd.make(
    [...right].map((l) => sizes.get(l)!),
    (at) => {
      const known = new Map([...right].map((l, d) => [l, at[d]!]));
      const lists = tensors.map((): number[] => []);
      nd.make(
        over.map((l) => sizes.get(l)!),
        (inner) => {
          for (const [d, l] of over.entries()) known.set(l, inner[d]!);
          terms.forEach((t, k) => {
            const place = [...t].map((l) => known.get(l)!);
            lists[k]!.push(nd.get(tensors[k]!, place));
          });
          return 0;
        },
      );
      const [a, b] = lists as [number[], number[]?];
      return b ? tape.dot(dtype, a, b) : over.length === 0 ? a[0]! : tape.combination(dtype, a);
    },
  );
  return { ...data, dtype };
}

/** By the dimensions of the first tensor. */
const EQUATIONS: readonly (readonly string[])[] = [
  [],
  ['i->', 'i,i->', 'i,j->ij', 'i,ij->j'],
  ['ij->ji', 'ij->j', 'ij,jk->ik', 'ij,kj->ik', 'ij,ik->jk', 'ij,ij->i', 'ij,j->i', 'ij,ij->ij'],
  ['ijk->ki', 'ijk,ikl->ijl', 'ijk,k->ij', 'ijk,lk->ijl', 'ijk,ijk->', 'ijk,jk->i'],
];

export const ORDERS: Readonly<Record<string, Op<unknown>>> = {
  sort: op<Along>({
    choose: (p) => {
      const found = chooseAxis(p);
      return found && { src: [found.x], arg: found.arg };
    },
    run: ([t], { axis, descending }) => t!.sort(axis, { descending }).values,
    exact: (tape, [x], arg) => ({ ...inOrder(tape, x!, arg, value(tape, x!)), dtype: x!.dtype }),
  }),
  argsort: op<Along>({
    choose: (p) => {
      const found = chooseAxis(p);
      return found && { src: [found.x], arg: found.arg };
    },
    run: ([t], { axis, descending }) => t!.argsort(axis, { descending }),
    exact: (tape, [x], arg) => ({ ...inOrder(tape, x!, arg, position(tape)), dtype: 'i32' }),
  }),
  topk: op<Along & { readonly k: number }>({
    choose: (p) => {
      const found = chooseAxis(p);
      if (!found) return undefined;
      return { src: [found.x], arg: { ...found.arg, k: 1 + p.below(p.shape(found.x)[found.arg.axis]!) } };
    },
    run: ([t], { k, axis, descending }) => t!.topk(k, axis, { largest: descending }).values,
    exact: (tape, [x], arg) => ({ ...inOrder(tape, x!, arg, value(tape, x!), arg.k), dtype: x!.dtype }),
  }),
  /** At positions of which some occur more than once. */
  scatterAdd: op<number>({
    choose: (p) => {
      const x = p.floats((shape) => shape.length > 0 && nd.count(shape) > 0);
      if (x === undefined) return undefined;
      const shape = p.shape(x);
      const axis = p.below(shape.length);
      const from = shape.map((n, d) => (d === axis ? 1 + p.below(4) : n));
      const index = p.constant(from, 'i32', { below: shape[axis]! });
      return { src: [x, index, p.fitting(from, p.dtype(x))], arg: axis };
    },
    run: ([t, index, src], axis) => t!.scatterAdd(axis, index!, src!),
    exact: (tape, [x, index, src], axis) => {
      const added = x!.data.map((id) => [id]);
      index!.data.forEach((position, i) => {
        const at = nd.unravel(i, index!.shape);
        at[axis] = tape.value[position]!;
        added[nd.ravel(at, x!.shape)]!.push(src!.data[i]!);
      });
      return each(x!, (id, i) => (added[i]!.length === 1 ? id : tape.combination(x!.dtype, added[i]!)));
    },
  }),
  einsum: op<string>({
    choose: (p) => {
      const x = p.floats((shape) => shape.length > 0 && shape.length < 4 && nd.count(shape) > 0);
      if (x === undefined) return undefined;
      const shape = p.shape(x);
      const equation = p.one(EQUATIONS[shape.length]!);
      const [first, second] = equation.split('->')[0]!.split(',') as [string, string?];
      if (second === undefined) return { src: [x], arg: equation };
      const sizes = [...second].map((l) => (first.includes(l) ? shape[first.indexOf(l)]! : 1 + p.below(4)));
      return { src: [x, p.fitting(sizes, p.dtype(x))], arg: equation };
    },
    run: (t, equation) => H.einsum(equation, t),
    exact: (tape, x, equation) => summed(tape, equation, x),
  }),
};
