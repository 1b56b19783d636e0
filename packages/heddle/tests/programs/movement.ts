/** Ops that move elements: rows of the table. Entries of the tape are moved, none is made but for what a pad adds. */
import * as H from '../../src/index.js';
import { tensor } from '../../src/index.js';
import * as nd from '../ndarray.js';
import { each, type Op, op, type Picker } from './op.js';
import type { Entries, Tape } from './tape.js';

/** A row that moves the elements of one value. `choose` gets its shape. */
const move = <A>(
  choose: (shape: readonly number[], p: Picker) => A | undefined,
  run: (t: H.Tensor, arg: A) => H.Tensor,
  moved: (x: Entries, arg: A, tape: Tape) => nd.NdArray,
): Op<unknown> =>
  op<A>({
    choose: (p) => {
      const x = p.value();
      const arg = x === undefined ? undefined : choose(p.shape(x), p);
      return arg === undefined ? undefined : { src: [x!], arg };
    },
    run: ([t], arg) => run(t!, arg),
    exact: (tape, [x], arg) => ({ ...moved(x!, arg, tape), dtype: x!.dtype }),
  });

const axisOf = (shape: readonly number[], p: Picker): number | undefined =>
  shape.length === 0 ? undefined : p.below(shape.length);

/** Neighbouring dimensions joined, sizes split in two, and sizes of 1 put in. */
function regrouped(sizes: readonly number[], p: Picker): number[] {
  const joined: number[] = [];
  for (const n of sizes) {
    if (joined.length > 0 && p.chance(0.5)) joined.push(joined.pop()! * n);
    else joined.push(n);
  }
  const split = joined.flatMap((n) => {
    if (p.chance(0.15)) return [1, n];
    const divisors = nd.range(2, n).filter((d) => n % d === 0);
    if (divisors.length === 0 || p.chance(0.5)) return [n];
    const d = p.one(divisors);
    return [d, n / d];
  });
  return split.slice(0, 5).length === split.length ? split : [nd.count(sizes)];
}

interface Slice {
  readonly text: string;
  readonly positions: readonly number[];
}

function sliceOf(n: number, p: Picker): Slice {
  if (n === 0 || p.chance(0.4)) return { text: ':', positions: nd.range(0, n) };
  const from = p.below(n);
  const to = from + 1 + p.below(n - from);
  const step = 1 + p.below(3);
  if (p.chance(0.3))
    return {
      text: `${to - 1}:${from === 0 ? '' : from - 1}:${-step}`,
      positions: nd.range(to - 1, from - 1, -step),
    };
  return { text: `${from}:${to}:${step}`, positions: nd.range(from, to, step) };
}

/** The elements on one side of a diagonal, zeros on the other. */
const triangle = (side: 'tril' | 'triu'): Op<unknown> =>
  move(
    (shape, p) => (shape.length < 2 ? undefined : p.below(4) - 2),
    (t, diagonal) => t[side](diagonal),
    (x, diagonal, tape) =>
      nd.make(x.shape, (at) => {
        const [i, j] = at.slice(-2) as [number, number];
        const isKept = side === 'tril' ? j - i <= diagonal : j - i >= diagonal;
        return isKept ? nd.get(x, at) : tape.constant(x.dtype, 0);
      }),
  );

export const MOVEMENT: Readonly<Record<string, Op<unknown>>> = {
  permute: move(
    (shape, p) => {
      if (shape.length < 2) return undefined;
      const order = shape.map((_, d) => d);
      for (let i = shape.length - 1; i > 0; i--) {
        const j = p.below(i + 1);
        [order[i], order[j]] = [order[j]!, order[i]!];
      }
      return order;
    },
    (t, order) => t.permute(order),
    (x, order) => nd.permute(x, order),
  ),
  reshape: move(
    regrouped,
    (t, shape) => t.reshape(shape),
    (x, shape) => nd.reshape(x, shape),
  ),
  expand: move(
    (shape, p) => {
      if (shape.length > 3 || nd.count(shape) > 100) return undefined;
      const at = p.below(shape.length + 1);
      return { at, times: 1 + p.below(4) };
    },
    (t, { at, times }) => {
      const wide = t.unsqueeze(at);
      return wide.expand(wide.shape.map((n, d) => (d === at ? times : n)));
    },
    (x, { at, times }) => {
      const wide = [...x.shape.slice(0, at), 1, ...x.shape.slice(at)];
      return nd.broadcastTo(
        nd.reshape(x, wide),
        wide.map((n, d) => (d === at ? times : n)),
      );
    },
  ),
  unsqueeze: move(
    (shape, p) => (shape.length > 4 ? undefined : p.below(shape.length + 1)),
    (t, at) => t.unsqueeze(at),
    (x, at) => nd.reshape(x, [...x.shape.slice(0, at), 1, ...x.shape.slice(at)]),
  ),
  squeeze: move(
    (shape, p) => {
      const ones = shape.flatMap((n, d) => (n === 1 ? [d] : []));
      return ones.length === 0 ? undefined : p.one(ones);
    },
    (t, at) => t.squeeze(at),
    (x, at) =>
      nd.reshape(
        x,
        x.shape.filter((_, d) => d !== at),
      ),
  ),
  roll: move(
    (shape, p) => {
      const axis = axisOf(shape, p);
      return axis === undefined ? undefined : { axis, by: p.below(9) - 4 };
    },
    (t, { axis, by }) => t.roll(by, axis),
    (x, { axis, by }) =>
      nd.pick(
        x,
        x.shape.map((n, d) => nd.range(0, n).map((i) => (d === axis ? (((i - by) % n) + n) % n : i))),
      ),
  ),
  tril: triangle('tril'),
  triu: triangle('triu'),
  flip: move(axisOf, (t, axis) => t.flip(axis), nd.flip),
  slice: move(
    (shape, p) => (shape.length === 0 ? undefined : shape.map((n) => sliceOf(n, p))),
    (t, slices) => t.at(...slices.map((s) => s.text)),
    (x, slices) =>
      nd.pick(
        x,
        slices.map((s) => s.positions),
      ),
  ),
  /** A position of one dimension, which is dropped. */
  select: move(
    (shape, p) => {
      const axis = axisOf(shape, p);
      return axis === undefined || shape[axis] === 0 ? undefined : { axis, at: p.below(shape[axis]!) };
    },
    (t, { axis, at }) => t.at(...t.shape.map((_, d) => (d === axis ? at : ':'))),
    (x, { axis, at }) =>
      nd.reshape(
        nd.pick(
          x,
          x.shape.map((n, d) => (d === axis ? [at] : nd.range(0, n))),
        ),
        x.shape.filter((_, d) => d !== axis),
      ),
  ),
  pad: move(
    (shape, p) => {
      if (shape.length === 0) return undefined;
      return { amounts: shape.map((): [number, number] => [p.below(3), p.below(2)]), value: p.below(2) };
    },
    (t, { amounts, value }) => t.pad(amounts, { value }),
    (x, { amounts, value }, tape) => nd.pad(x, amounts, tape.constant(x.dtype, value)),
  ),
  /** Rows by their positions, some more than once, some from the back. */
  rows: move(
    (shape, p) => {
      const axis = axisOf(shape, p);
      if (axis === undefined || shape[axis] === 0) return undefined;
      const n = shape[axis]!;
      return { axis, positions: Array.from({ length: 1 + p.below(5) }, () => p.below(2 * n) - n) };
    },
    (t, { axis, positions }) =>
      t.at(...t.shape.map((_, d) => (d === axis ? tensor(Int32Array.from(positions)) : ':'))),
    (x, { axis, positions }) =>
      nd.pick(
        x,
        x.shape.map((n, d) => (d === axis ? positions.map((k) => (k < 0 ? k + n : k)) : nd.range(0, n))),
      ),
  ),
  cat: op<number>({
    choose: (p) => {
      const x = p.value((shape) => shape.length > 0);
      if (x === undefined) return undefined;
      const [shape, dtype] = [p.shape(x), p.dtype(x)];
      const axis = p.below(shape.length);
      const fits = p.value(
        (s, t) => t === dtype && s.length === shape.length && s.every((n, d) => d === axis || n === shape[d]),
      );
      return { src: p.chance(0.5) ? [x, fits ?? x] : [fits ?? x, x, x].slice(0, 2 + p.below(2)), arg: axis };
    },
    run: (t, axis) => H.cat(t, axis),
    exact: (_, x, axis) => ({ ...nd.cat(x, axis), dtype: x[0]!.dtype }),
  }),
  stack: op<number>({
    choose: (p) => {
      const x = p.value((shape) => shape.length < 4);
      if (x === undefined) return undefined;
      const [shape, dtype] = [p.shape(x), p.dtype(x)];
      const other = p.value(
        (s, t) => t === dtype && s.length === shape.length && s.every((n, d) => n === shape[d]),
      );
      return { src: [x, other ?? x], arg: p.below(shape.length + 1) };
    },
    run: (t, axis) => H.stack(t, axis),
    exact: (_, x, axis) => {
      const { shape, dtype } = x[0]!;
      const wide = [...shape.slice(0, axis), 1, ...shape.slice(axis)];
      return {
        ...nd.cat(
          x.map((e) => nd.reshape(e, wide)),
          axis,
        ),
        dtype,
      };
    },
  }),
  gather: op<number>({
    choose: (p) => {
      const x = p.value((shape) => shape.length > 0 && nd.count(shape) > 0);
      if (x === undefined) return undefined;
      const shape = p.shape(x);
      const axis = p.below(shape.length);
      const positions = p.constant(
        shape.map((n, d) => (d === axis ? 1 + p.below(4) : n)),
        'i32',
        { below: shape[axis]! },
      );
      return { src: [x, positions], arg: axis };
    },
    run: ([t, positions], axis) => t!.gather(axis, positions!),
    exact: (tape, [x, positions], axis) => ({
      ...nd.gather(
        x!,
        axis,
        each(positions!, (id) => tape.value[id]!),
      ),
      dtype: x!.dtype,
    }),
  }),
};
