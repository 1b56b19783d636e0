/** Reductions, softmax, and what is made of them: rows of the table. */

import type { DTypeName } from '../../src/core/dtype.js';
import type { Tensor } from '../../src/index.js';
import * as nd from '../ndarray.js';
import { each, type Op, op, type Picker } from './op.js';
import { type Curve, type Entries, FORMATS, isFloat, type Tape } from './tape.js';

export interface Over {
  readonly axes: readonly number[];
  readonly keepdim: boolean;
}

function over(shape: readonly number[], p: Picker): Over {
  const axes = shape.map((_, d) => d).filter(() => p.chance(0.5));
  return { axes: axes.length === 0 && p.chance(0.7) ? shape.map((_, d) => d) : axes, keepdim: p.chance(0.5) };
}

/** One entry for all those that agree outside the axes. */
export function folded(
  x: Entries,
  { axes, keepdim }: Over,
  f: (ids: readonly number[]) => number,
  dtype: DTypeName = x.dtype,
): Entries {
  return { ...nd.reduce(f, x, axes, keepdim), dtype };
}

const count = (shape: readonly number[], axes: readonly number[]): number =>
  axes.reduce((n, d) => n * shape[d]!, 1);

export const total = (tape: Tape, x: Entries, o: Over): Entries =>
  folded(x, o, (ids) => tape.combination(x.dtype, ids));
export const mean = (tape: Tape, x: Entries, o: Over): Entries =>
  folded(x, o, (ids) =>
    tape.combination(
      x.dtype,
      ids,
      ids.map(() => 1 / ids.length),
    ),
  );

/** x less y, which has size 1 where it is the same for all. */
export function less(tape: Tape, x: Entries, y: Entries): Entries {
  const wide = nd.broadcastTo(y, x.shape).data;
  return each(x, (id, i) => tape.combination(x.dtype, [id, wide[i]!], [1, -1]));
}

const reduction = (
  run: (t: Tensor, o: Over) => Tensor,
  suits: (dtype: DTypeName) => boolean,
  exact: (tape: Tape, x: Entries, o: Over) => Entries,
  atLeast = 0,
): Op<unknown> =>
  op<Over>({
    choose: (p) => {
      const x = p.value((_, dtype) => suits(dtype));
      if (x === undefined) return undefined;
      const o = over(p.shape(x), p);
      return count(p.shape(x), o.axes) < atLeast ? undefined : { src: [x], arg: o };
    },
    run: ([t], o) => run(t!, o),
    exact: (tape, [x], o) => exact(tape, x!, o),
  });

/** The product of entries, of none 1. */
const product =
  (tape: Tape, x: Entries) =>
  (ids: readonly number[]): number =>
    ids.slice(1).reduce((y, id) => tape.dot(x.dtype, [y], [id]), ids[0] ?? tape.constant(x.dtype, 1));

const isNumber = (dtype: DTypeName): boolean => dtype !== 'bool';

/** Of whole numbers, i8 and u8 in i32. */
const wholes = (
  tape: Tape,
  x: Entries,
  o: Over,
  start: number,
  f: (a: number, b: number) => number,
): Entries => {
  const dtype = x.dtype === 'i8' || x.dtype === 'u8' ? 'i32' : x.dtype;
  const fold = (ids: readonly number[]): number => {
    let known = tape.isExact(...ids);
    let sum = start;
    for (const id of ids) {
      const raw = f(sum, tape.value[id]!);
      known &&= Math.abs(raw) <= 2 ** 53;
      sum = FORMATS[dtype].round(raw);
    }
    return tape.plain(dtype, sum, known);
  };
  // The reduction of no axes, or of axes of size 1, is the value itself.
  return folded(x, o, fold, dtype);
};

const extreme =
  (sign: 1 | -1) =>
  (tape: Tape, x: Entries, o: Over): Entries =>
    folded(x, o, (ids) =>
      isFloat(x.dtype)
        ? ids.length === 1
          ? ids[0]!
          : tape.extreme(x.dtype, ids, sign, true)
        : tape.plain(
            x.dtype,
            ids.reduce(
              (m, id) => (sign * tape.value[id]! > sign * m ? tape.value[id]! : m),
              tape.value[ids[0]!]!,
            ),
            tape.isExact(...ids),
          ),
    );

/** Sum of squared deviations over n − correction. */
function variance(tape: Tape, x: Entries, o: Over & { readonly correction: number }): Entries {
  const middle = mean(tape, x, { axes: o.axes, keepdim: true });
  const apart = less(tape, x, middle);
  const squares = each(apart, (id) => tape.dot(x.dtype, [id], [id]));
  const n = count(x.shape, o.axes);
  const factor = 1 / Math.max(0, n - o.correction);
  return folded(squares, o, (ids) =>
    tape.combination(
      x.dtype,
      ids,
      ids.map(() => factor),
    ),
  );
}

/** e^(x − max x) along an axis, and its sum. */
function exponentials(
  tape: Tape,
  x: Entries,
  axis: number,
): { shifted: Entries; powers: Entries; sums: Entries } {
  const o = { axes: [axis], keepdim: true };
  const top = folded(x, o, (ids) =>
    tape.leaf(
      x.dtype,
      Math.max(...ids.map((id) => tape.value[id]!)),
      Math.max(...ids.map((id) => tape.error[id]!)),
    ),
  );
  const shifted = less(tape, x, top);
  const powers = each(shifted, (id) => tape.curve(x.dtype, id, { f: Math.exp, slope: Math.exp }));
  return { shifted, powers, sums: total(tape, powers, o) };
}

export function softmax(tape: Tape, x: Entries, axis: number): Entries {
  const { powers, sums } = exponentials(tape, x, axis);
  const wide = nd.broadcastTo(sums, x.shape).data;
  return each(powers, (id, i) => tape.quotient(x.dtype, id, wide[i]!));
}

export function logSoftmax(tape: Tape, x: Entries, axis: number): Entries {
  const { shifted, sums } = exponentials(tape, x, axis);
  const logs = each(sums, (id) =>
    tape.curve(x.dtype, id, { f: Math.log, slope: (v) => 1 / v, scale: (v) => Math.abs(Math.log(v)) + 1 }),
  );
  return less(tape, shifted, logs);
}

const alongAxis = (
  run: (t: Tensor, axis: number) => Tensor,
  exact: (tape: Tape, x: Entries, axis: number) => Entries,
): Op<unknown> =>
  op<number>({
    choose: (p) => {
      const x = p.floats((shape) => shape.length > 0);
      // The last axis has the kernels.
      return x === undefined
        ? undefined
        : { src: [x], arg: p.chance(0.5) ? p.shape(x).length - 1 : p.below(p.shape(x).length) };
    },
    run: ([t], axis) => run(t!, axis),
    exact: (tape, [x], axis) => exact(tape, x!, axis),
  });

/** Each entry from those up to it along an axis. */
const running = (x: Entries, axis: number, f: (ids: readonly number[]) => number): Entries => ({
  ...nd.alongAxis((ids) => ids.map((_, i) => f(ids.slice(0, i + 1))), x, axis),
  dtype: x.dtype,
});

const place = (
  run: (t: Tensor, axis: number, o: { keepdim: boolean }) => Tensor,
  sign: 1 | -1,
): Op<unknown> =>
  op<{ axis: number; keepdim: boolean }>({
    choose: (p) => {
      const x = p.value((shape, dtype) => isNumber(dtype) && shape.length > 0);
      return x === undefined
        ? undefined
        : { src: [x], arg: { axis: p.below(p.shape(x).length), keepdim: p.chance(0.5) } };
    },
    run: ([t], { axis, keepdim }) => run(t!, axis, { keepdim }),
    exact: (tape, [x], { axis, keepdim }) =>
      folded(x!, { axes: [axis], keepdim }, (ids) => tape.place(ids, sign), 'i32'),
  });

const squareRoot: Curve = {
  f: Math.sqrt,
  // Where all elements are the same, or 0, the gradient is 0.
  slope: (v) => (v === 0 ? 0 : 0.5 / Math.sqrt(v)),
  jump: Math.abs,
};

const deviation = (correction: number) => ({
  variance: reduction(
    (t, { axes, keepdim }) => t.variance(axes, { keepdim, correction }),
    isFloat,
    (tape, x, o) => variance(tape, x, { ...o, correction }),
    2,
  ),
  std: reduction(
    (t, { axes, keepdim }) => t.std(axes, { keepdim, correction }),
    isFloat,
    (tape, x, o) => {
      const squared = variance(tape, x, { ...o, correction });
      return each(squared, (id) => tape.curve(x.dtype, id, squareRoot));
    },
    2,
  ),
});

function norm(tape: Tape, x: Entries, o: Over & { readonly ord: number }): Entries {
  if (o.ord === 2) {
    const squares = each(x, (id) => tape.dot(x.dtype, [id], [id]));
    return each(total(tape, squares, o), (id) => tape.curve(x.dtype, id, squareRoot));
  }
  const sizes = each(x, (id) =>
    tape.curve(x.dtype, id, { f: Math.abs, slope: Math.sign, jump: Math.abs, exact: true }),
  );
  return o.ord === 1 ? total(tape, sizes, o) : extreme(1)(tape, sizes, o);
}

/** x less what `logSoftmax` takes off it, the same for all of a line. Beside an infinite element the others are nothing. */
function logSumExp(tape: Tape, x: Entries, axis: number): Entries {
  const logs = logSoftmax(tape, x, axis).data;
  const places = { ...x, data: x.data.map((_, i) => i) };
  return {
    ...nd.reduce(
      (at) => {
        const ids = at.map((i) => x.data[i]!);
        const top = Math.max(...ids.map((id) => tape.value[id]!));
        if (!Number.isFinite(top)) return tape.extreme(x.dtype, ids, 1, true);
        const k = ids.findIndex((id) => tape.value[id] === top);
        return tape.combination(x.dtype, [ids[k]!, logs[at[k]!]!], [1, -1]);
      },
      places,
      [axis],
    ),
    dtype: x.dtype,
  };
}

export const REDUCTIONS: Readonly<Record<string, Op<unknown>>> = {
  sum: reduction(
    (t, { axes, keepdim }) => t.sum(axes, { keepdim }),
    isNumber,
    (tape, x, o) => (isFloat(x.dtype) ? total(tape, x, o) : wholes(tape, x, o, 0, (a, b) => a + b)),
  ),
  mean: reduction((t, { axes, keepdim }) => t.mean(axes, { keepdim }), isFloat, mean, 1),
  max: reduction((t, { axes, keepdim }) => t.max(axes, { keepdim }), isNumber, extreme(1), 1),
  min: reduction((t, { axes, keepdim }) => t.min(axes, { keepdim }), isNumber, extreme(-1), 1),
  prod: reduction(
    (t, { axes, keepdim }) => t.prod(axes, { keepdim }),
    isNumber,
    (tape, x, o) =>
      isFloat(x.dtype)
        ? folded(x, o, product(tape, x))
        : wholes(tape, x, o, 1, (a, b) => (x.dtype === 'i64' ? a * b : Math.imul(a, b))),
  ),
  ...deviation(1),
  biasedVariance: deviation(0).variance,
  argmax: place((t, axis, o) => t.argmax(axis, o), 1),
  argmin: place((t, axis, o) => t.argmin(axis, o), -1),
  norm: op<Over & { readonly ord: number }>({
    choose: (p) => {
      const x = p.floats();
      if (x === undefined) return undefined;
      const o = { ...over(p.shape(x), p), ord: p.one([2, 2, 1, Number.POSITIVE_INFINITY]) };
      return count(p.shape(x), o.axes) < 1 ? undefined : { src: [x], arg: o };
    },
    run: ([t], { axes, keepdim, ord }) => t!.norm(axes, { keepdim, ord }),
    exact: (tape, [x], o) => norm(tape, x!, o),
  }),
  logSumExp: alongAxis((t, axis) => t.logSumExp(axis), logSumExp),
  softmax: alongAxis((t, axis) => t.softmax(axis), softmax),
  logSoftmax: alongAxis((t, axis) => t.logSoftmax(axis), logSoftmax),
  cumsum: alongAxis(
    (t, axis) => t.cumsum(axis),
    (tape, x, axis) => running(x, axis, (ids) => tape.combination(x.dtype, ids)),
  ),
  cumprod: alongAxis(
    (t, axis) => t.cumprod(axis),
    (tape, x, axis) => running(x, axis, product(tape, x)),
  ),
};
