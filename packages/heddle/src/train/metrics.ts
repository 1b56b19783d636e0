/** What is measured besides the loss. */
import { f32 } from '../core/dtype.js';
import { ShapeError } from '../core/errors.js';
import { formatShape } from '../core/shape.js';
import { type AnyTensor, requireTensor } from '../tensor/checks.js';
import type { Tensor } from '../tensor/tensor.js';

/** For a batch's outputs and labels (N), i32, the sum over its examples (f32 scalar); means are taken over all examples. */
export type Metric<Outputs = Tensor, Targets = Tensor> = (outputs: Outputs, targets: Targets) => AnyTensor;

/** Whether the largest of the logits (N, C) is that of the label (N), i32. */
export const accuracy: Metric = (logits, labels) => {
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
export const binaryAccuracy: Metric = (logits, labels) => {
  requireTensor('binaryAccuracy', 'logits', logits);
  requireTensor('binaryAccuracy', 'labels', labels);
  if (logits.ndim !== 2 || logits.shape[1] !== 1 || labels.ndim !== 1)
    throw new ShapeError(
      `[binaryAccuracy] takes logits (N,1) and labels (N), got ${formatShape(logits.shape)} and ` +
        `${formatShape(labels.shape)}. For one logit per class use accuracy.`,
    );
  return logits.squeeze(1).gt(0).eq(labels.eq(1)).cast(f32).sum();
};
