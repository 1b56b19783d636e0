/** Losses: rows of the table. */
import type { DTypeName } from '../../src/core/dtype.js';
import type { Reduction, Tensor } from '../../src/index.js';
import * as H from '../../src/index.js';
import * as nd from '../ndarray.js';
import { each, type Op, op } from './op.js';
import { logSoftmax, mean, total } from './reductions.js';
import type { Entries, Tape } from './tape.js';

const all = (x: Entries): { axes: number[]; keepdim: boolean } => ({
  axes: x.shape.map((_, d) => d),
  keepdim: false,
});

const reduced = (tape: Tape, losses: Entries, reduction: Reduction): Entries =>
  reduction === 'none'
    ? losses
    : reduction === 'sum'
      ? total(tape, losses, all(losses))
      : mean(tape, losses, all(losses));

/** A loss of x and a target of the same shape, from the entries of both. */
const pairwise = (
  run: (x: Tensor, target: Tensor, reduction: Reduction) => Tensor,
  loss: (tape: Tape, dtype: DTypeName, x: number, t: number) => number,
): Op<unknown> =>
  op<Reduction>({
    choose: (p) => {
      const x = p.floats();
      if (x === undefined) return undefined;
      const dtype = p.dtype(x);
      return {
        src: [x, p.chance(0.6) ? p.constant(p.shape(x), dtype, 'unit') : p.fitting(p.shape(x), dtype)],
        arg: p.one(['mean', 'sum', 'none'] as const),
      };
    },
    run: ([x, target], reduction) => run(x!, target!, reduction),
    exact: (tape, [x, target], reduction) => {
      const { dtype } = x!;
      return reduced(
        tape,
        each(x!, (id, i) => loss(tape, dtype, id, target!.data[i]!)),
        reduction,
      );
    },
  });

const minus = (tape: Tape, dtype: DTypeName, a: number, b: number): number =>
  tape.combination(dtype, [a, b], [1, -1]);
const softplus = (x: number): number => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)));
const boundedLog = (x: number): number => Math.max(Math.log(x), -100);

interface Labelled {
  readonly reduction: Reduction;
  readonly weighted: boolean;
  readonly ignoreIndex?: number;
  readonly labelSmoothing?: number;
}

/** −weight[label] · logs[label], and its share spread over all classes; rows of (N, C, …). */
function negativeLikelihood(
  tape: Tape,
  logs: Entries,
  labels: Entries,
  weight: Entries | undefined,
  o: Labelled,
): Entries {
  const { dtype, shape } = logs;
  const classes = shape[1]!;
  const { labelSmoothing: smooth = 0, ignoreIndex } = o;
  const counted: number[] = [];
  const losses = nd.make(labels.shape, (at) => {
    const label = tape.value[nd.get(labels, at)]!;
    if (label === ignoreIndex) return tape.constant(dtype, 0);
    if (weight) counted.push(weight.data[label]!);
    else counted.push(tape.constant(dtype, 1));
    const of = (c: number): number => {
      const log = nd.get(logs, [at[0]!, c, ...at.slice(1)]);
      return weight ? tape.dot(dtype, [log], [weight.data[c]!]) : log;
    };
    if (smooth === 0) return tape.combination(dtype, [of(label)], [-1]);
    const everywhere = nd.range(0, classes).map(of);
    return tape.combination(
      dtype,
      [of(label), ...everywhere],
      [smooth - 1, ...everywhere.map(() => -smooth / classes)],
    );
  });
  const made = { ...losses, dtype };
  if (o.reduction !== 'mean' || (!weight && ignoreIndex === undefined))
    return reduced(tape, made, o.reduction);
  const [sum, over] = [total(tape, made, all(made)), tape.combination(dtype, counted)];
  return each(sum, (id) => tape.quotient(dtype, id, over));
}

const labelled = (
  run: (x: Tensor, labels: Tensor, o: H.CrossEntropyOptions) => Tensor,
  logs: (tape: Tape, x: Entries) => Entries,
  smooth: boolean,
): Op<unknown> =>
  op<Labelled>({
    choose: (p) => {
      const x = p.floats((s) => s.length >= 2 && s.length <= 4);
      if (x === undefined) return undefined;
      const [shape, dtype] = [p.shape(x), p.dtype(x)];
      const classes = shape[1]!;
      const labels = p.constant(
        shape.filter((_, d) => d !== 1),
        'i32',
        { below: classes },
      );
      const weighted = p.chance(0.25);
      return {
        src: [x, labels, ...(weighted ? [p.constant([classes], dtype, 'positive')] : [])],
        arg: {
          reduction: p.one(['mean', 'none', 'none', 'sum'] as const),
          weighted,
          ...(p.chance(0.2) && classes > 1 ? { ignoreIndex: 0 } : {}),
          ...(smooth && p.chance(0.25) ? { labelSmoothing: 0.1 } : {}),
        },
      };
    },
    run: ([x, labels, weight], { weighted: _, ...options }) =>
      run(x!, labels!, weight ? { ...options, weight } : options),
    exact: (tape, [x, labels, weight], o) => negativeLikelihood(tape, logs(tape, x!), labels!, weight, o),
  });

export const LOSSES: Readonly<Record<string, Op<unknown>>> = {
  crossEntropy: labelled(H.crossEntropy, (tape, x) => logSoftmax(tape, x, 1), true),
  nllLoss: labelled(H.nllLoss, (_, x) => x, false),
  mse: pairwise(
    (x, t, reduction) => H.mse(x, t, { reduction }),
    (tape, dtype, x, t) => {
      const d = minus(tape, dtype, x, t);
      return tape.dot(dtype, [d], [d]);
    },
  ),
  l1: pairwise(
    (x, t, reduction) => H.l1(x, t, { reduction }),
    (tape, dtype, x, t) =>
      tape.curve(dtype, minus(tape, dtype, x, t), {
        f: Math.abs,
        slope: Math.sign,
        jump: Math.abs,
        exact: true,
      }),
  ),
  huber: pairwise(
    (x, t, reduction) => H.huber(x, t, { reduction }),
    (tape, dtype, x, t) =>
      tape.curve(dtype, minus(tape, dtype, x, t), {
        f: (d) => (Math.abs(d) <= 1 ? 0.5 * d * d : Math.abs(d) - 0.5),
        slope: (d) => Math.max(-1, Math.min(1, d)),
      }),
  ),
  hinge: pairwise(
    (x, t, reduction) => H.hinge(x, t, { reduction }),
    (tape, dtype, x, t) =>
      tape.curve(dtype, minus(tape, dtype, tape.constant(dtype, 1), tape.dot(dtype, [x], [t])), {
        f: (d) => Math.max(0, d),
        slope: (d) => (d > 0 ? 1 : 0),
        jump: Math.abs,
        exact: true,
      }),
  ),
  bce: pairwise(
    (x, t, reduction) => H.bce(x, t, { reduction }),
    (tape, dtype, x, t) => {
      const one = tape.constant(dtype, 1);
      const log = (id: number): number => tape.curve(dtype, id, { f: boundedLog, slope: (v) => 1 / v });
      const [rest, left] = [minus(tape, dtype, one, x), minus(tape, dtype, one, t)];
      const sum = tape.dot(dtype, [t, left], [log(x), log(rest)]);
      return tape.combination(dtype, [sum], [-1]);
    },
  ),
  bceWithLogits: pairwise(
    (x, t, reduction) => H.bceWithLogits(x, t, { reduction }),
    (tape, dtype, x, t) => {
      // ∞ − ∞, or what is left of it: as the loss is written.
      if (!Number.isFinite(tape.value[x]!)) return tape.open(dtype, Number.NaN, [x, t]);
      const soft = tape.curve(dtype, x, {
        f: softplus,
        slope: (v) => 1 / (1 + Math.exp(-v)),
        scale: (v) => Math.abs(v) + 1,
        slopeScale: () => 1,
      });
      return minus(tape, dtype, soft, tape.dot(dtype, [x], [t]));
    },
  ),
};
