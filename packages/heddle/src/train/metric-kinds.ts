/**
 * Metrics that are computed where the model is: sums over a batch are part of the program that evaluates it. Definitions
 * are those of scikit-learn.
 */
import {
  aNumber,
  integerFrom,
  oneOf,
  type Rules,
  requireArgument,
  requireOptions,
} from '../core/arguments.js';
import { f32, i32 } from '../core/dtype.js';
import { ArgumentError, ShapeError } from '../core/errors.js';
import { formatShape, type Shape, sameShape } from '../core/shape.js';
import { type AnyTensor, requireTensor } from '../tensor/checks.js';
import { arange, stack } from '../tensor/create.js';
import { crossEntropy } from '../tensor/functional-losses.js';
import type { Tensor } from '../tensor/tensor.js';
import type { SummedMetric } from './metrics.js';

export { accuracy, binaryAccuracy } from './metrics.js';

/** @throws ShapeError unless logits are (N, C) and labels (N) */
function requireClassified(name: string, logits: AnyTensor, labels: AnyTensor, classes?: number): void {
  requireTensor(name, 'outputs', logits);
  requireTensor(name, 'labels', labels);
  if (logits.ndim !== 2 || labels.ndim !== 1 || (classes !== undefined && logits.shape[1] !== classes))
    throw new ShapeError(
      `[${name}] takes logits (N,${classes ?? 'C'}) and labels (N), got ${formatShape(logits.shape)} and ${formatShape(labels.shape)}.`,
    );
}

/**
 * The fraction of examples whose label is among the `k` largest logits; of equal ones the first counts as larger.
 * Logits (N, C), labels (N), integers.
 */
export function topK(k: number): SummedMetric {
  requireArgument('topK', 'k', k, integerFrom(1));
  return {
    size: 2,
    sums: (logits, labels) => {
      requireClassified('topK', logits, labels);
      const [n, classes] = logits.shape as [number, number];
      const label = labels.cast(i32).reshape([n, 1]);
      const own = logits.gather(1, label);
      const before = logits.eq(own).and(arange(classes).lt(label));
      const rank = logits.gt(own).or(before).cast(f32).sum(1);
      return stack([rank.lt(k).cast(f32).sum(), rank.mul(0).add(1).sum()]);
    },
    result: ([right, all]) => right! / all!,
  };
}

/** How often each class (row) is taken for each (column), C × C. Of one logit per example the classes are 0 and 1. */
function confusion(name: string, classes: number) {
  return (outputs: Tensor, labels: Tensor): AnyTensor => {
    const isBinary = classes === 2 && (outputs.ndim === 1 || outputs.shape[1] === 1);
    if (!isBinary) requireClassified(name, outputs, labels, classes);
    const predicted = isBinary ? outputs.reshape([-1]).gt(0).cast(i32) : outputs.argmax(1);
    const oneHot = (t: AnyTensor): Tensor<Shape, 'f32'> =>
      t.reshape([-1, 1]).cast(i32).eq(arange(classes)).cast(f32);
    return oneHot(labels).transpose(0, 1).matmul(oneHot(predicted));
  };
}

const rowsOf = (sums: readonly number[], size: number): number[][] =>
  Array.from({ length: size }, (_, row) => sums.slice(row * size, (row + 1) * size));

/**
 * How often each class is taken for each: a row for each label, a column for each prediction. Logits (N, C) and labels
 * (N), integers; with 2 classes also one logit per example, (N, 1) or (N).
 */
export function confusionMatrix(classes: number): SummedMetric {
  requireArgument('confusionMatrix', 'classes', classes, integerFrom(2));
  return {
    size: classes * classes,
    sums: confusion('confusionMatrix', classes),
    result: (sums) => rowsOf(sums, classes),
  };
}

/** Options of `precision`, `recall` and `f1`. */
export interface ClassMetricOptions {
  /** How many classes there are (default 2). */
  readonly classes?: number;
  /**
   * 'binary' (default with 2 classes): of class 1. 'macro' (default with more): the mean over the classes that occur among
   * labels or predictions. 'micro': from the counts of all classes together.
   */
  readonly average?: 'binary' | 'macro' | 'micro';
}

const CLASS_METRIC: Rules<ClassMetricOptions> = {
  classes: integerFrom(2),
  average: oneOf('binary', 'macro', 'micro'),
};

/** Counts of a class: labelled and predicted so, predicted so, labelled so. */
interface ClassCounts {
  readonly right: number;
  readonly predicted: number;
  readonly labelled: number;
}

function classMetric(
  name: string,
  options: ClassMetricOptions,
  of: (counts: ClassCounts) => number,
): SummedMetric {
  requireOptions(name, options, CLASS_METRIC);
  const { classes = 2, average = classes === 2 ? 'binary' : 'macro' } = options;
  if (average === 'binary' && classes !== 2)
    throw new ArgumentError(`[${name}] average is 'binary' with ${classes} classes. Use 'macro' or 'micro'.`);
  const result = (sums: readonly number[]): number => {
    const matrix = rowsOf(sums, classes);
    const counts = matrix.map((row, c) => ({
      right: row[c]!,
      predicted: matrix.reduce((sum, other) => sum + other[c]!, 0),
      labelled: row.reduce((sum, n) => sum + n, 0),
    }));
    if (average === 'binary') return of(counts[1]!);
    if (average === 'micro')
      return of({
        right: counts.reduce((sum, c) => sum + c.right, 0),
        predicted: counts.reduce((sum, c) => sum + c.predicted, 0),
        labelled: counts.reduce((sum, c) => sum + c.labelled, 0),
      });
    const occurring = counts.filter((c) => c.predicted + c.labelled > 0);
    return occurring.reduce((sum, c) => sum + of(c), 0) / occurring.length;
  };
  return { size: classes * classes, sums: confusion(name, classes), result };
}

/** 0 where there is nothing to divide by. */
const share = (part: number, whole: number): number => (whole === 0 ? 0 : part / whole);

/** Of what is predicted to be of a class, the fraction that is. Outputs and labels as of `confusionMatrix`. */
export const precision = (options: ClassMetricOptions = {}): SummedMetric =>
  classMetric('precision', options, ({ right, predicted }) => share(right, predicted));

/** Of what is of a class, the fraction that is predicted to be. Outputs and labels as of `confusionMatrix`. */
export const recall = (options: ClassMetricOptions = {}): SummedMetric =>
  classMetric('recall', options, ({ right, labelled }) => share(right, labelled));

/** The harmonic mean of precision and recall. Outputs and labels as of `confusionMatrix`. */
export const f1 = (options: ClassMetricOptions = {}): SummedMetric =>
  classMetric('f1', options, ({ right, predicted, labelled }) => share(2 * right, predicted + labelled));

/** A mean over all elements of outputs and targets of the same shape. */
const meanOf = (name: string, of: (difference: AnyTensor) => AnyTensor): SummedMetric => ({
  size: 2,
  sums: (outputs, targets) => {
    requireTensor(name, 'outputs', outputs);
    requireTensor(name, 'targets', targets);
    if (!sameShape(outputs.shape, targets.shape))
      throw new ShapeError(
        `[${name}] shapes differ: outputs ${formatShape(outputs.shape)}, targets ${formatShape(targets.shape)}.`,
      );
    const sum = of(outputs.sub(targets)).cast(f32).sum();
    return stack([sum, sum.mul(0).add(outputs.size)]);
  },
  result: ([sum, count]) => sum! / count!,
});

/** The mean absolute error over all elements. Outputs and targets of the same shape. */
export const mae: SummedMetric = meanOf('mae', (difference) => difference.abs());
/** The mean squared error over all elements. Outputs and targets of the same shape. */
export const mse: SummedMetric = meanOf('mse', (difference) => difference.square());

/** Options of `perplexity`. */
export interface PerplexityOptions {
  /** A label that is left out (default −100). */
  readonly ignoreIndex?: number;
}

const PERPLEXITY: Rules<PerplexityOptions> = { ignoreIndex: aNumber };

/** e to the mean cross-entropy of the labels: logits (…, C), labels (…), integers. */
export function perplexity(options: PerplexityOptions = {}): SummedMetric {
  requireOptions('perplexity', options, PERPLEXITY);
  const { ignoreIndex = -100 } = options;
  return {
    size: 2,
    sums: (logits, labels) => {
      requireTensor('perplexity', 'outputs', logits);
      requireTensor('perplexity', 'labels', labels);
      const flat = labels.reshape([-1]);
      const rows = logits.reshape([-1, logits.shape.at(-1)!]);
      const sum = crossEntropy(rows, flat, { reduction: 'sum', ignoreIndex });
      return stack([sum.cast(f32), flat.ne(ignoreIndex).cast(f32).sum()]);
    },
    result: ([sum, count]) => Math.exp(sum! / count!),
  };
}
