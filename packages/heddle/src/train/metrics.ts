/** What is measured besides the loss. */
import { f32 } from '../core/dtype.js';
import { ShapeError } from '../core/errors.js';
import { formatShape } from '../core/shape.js';
import { type AnyTensor, requireTensor } from '../tensor/checks.js';
import type { Tensor } from '../tensor/tensor.js';

/** Of a batch, the sum over its examples, a scalar; the metric is the mean over all examples. */
export type MetricFunction<Outputs = Tensor, Targets = Tensor> = (
  outputs: Outputs,
  targets: Targets,
) => AnyTensor;

/** What follows from sums over all examples, such as a quotient of two of them. */
export interface SummedMetric<Outputs = Tensor, Targets = Tensor> {
  /** How many sums there are. */
  readonly size: number;
  /** Of a batch: a tensor of `size` elements. Those of all batches are added up on the device, in f64. */
  readonly sums: (outputs: Outputs, targets: Targets) => AnyTensor;
  /** The metric, from the sums over so many examples: a number, or a table of numbers. */
  readonly result: (sums: readonly number[], examples: number) => number | readonly (readonly number[])[];
}

/** What is measured besides the loss. */
export type Metric<Outputs = Tensor, Targets = Tensor> =
  | MetricFunction<Outputs, Targets>
  | SummedMetric<Outputs, Targets>;

/** Whether the largest of the logits (N, C) is that of the label (N), i32. */
export const accuracy: MetricFunction = (logits, labels) => {
  requireTensor('accuracy', 'logits', logits);
  requireTensor('accuracy', 'labels', labels);
  if (logits.ndim !== 2 || labels.ndim !== 1)
    throw new ShapeError(
      `[accuracy] takes logits (N,C) and labels (N), got ${formatShape(logits.shape)} and ${formatShape(labels.shape)}. ` +
        'For one logit per example use binaryAccuracy.',
    );
  return logits.argmax(1).eq(labels).cast(f32).sum();
};

/** Whether a logit, (N, 1), is positive where its label is 1 and negative where it is 0. */
export const binaryAccuracy: MetricFunction = (logits, labels) => {
  requireTensor('binaryAccuracy', 'logits', logits);
  requireTensor('binaryAccuracy', 'labels', labels);
  if (logits.ndim !== 2 || logits.shape[1] !== 1 || labels.ndim !== 1)
    throw new ShapeError(
      `[binaryAccuracy] takes logits (N,1) and labels (N), got ${formatShape(logits.shape)} and ` +
        `${formatShape(labels.shape)}. For one logit per class use accuracy.`,
    );
  return logits.squeeze(1).gt(0).eq(labels.eq(1)).cast(f32).sum();
};
