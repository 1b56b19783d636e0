/** Losses. */
import { type AnyTensor, i32, type Tensor } from 'heddle';
import { sizeOf } from 'heddle/internal/core/shape.js';
import { Value } from '../values/value.js';
import { int, text } from './attributes.js';
import { type Call, operator } from './operator.js';

const LOSS = { ignore_index: int(undefined), reduction: text('mean') };

/** −weight[target] · log p[target], (N, d₁, …) of log p (N, C, d₁, …). */
function negativeLogLikelihood(
  call: Call<typeof LOSS>,
  logProbabilities: Tensor,
  target: Tensor,
  weight: AnyTensor | undefined,
): AnyTensor {
  const { ignore_index: ignored, reduction } = call.attributes;
  const labels = target.cast(i32);
  const isIgnored = ignored === undefined ? undefined : labels.eq(ignored);
  // What is ignored may be no class at all: its place is taken from class 0, and its weight is 0.
  const safe = isIgnored ? (isIgnored.where(0, labels) as AnyTensor) : labels;
  const picked = logProbabilities.gather(1, safe.unsqueeze(1)).squeeze(1).neg();
  const given = weight ? weight.at(safe) : picked.mul(0).add(1);
  const weights = isIgnored ? (isIgnored.where(0, given) as AnyTensor) : given;
  const losses = (isIgnored ? (isIgnored.where(0, picked) as AnyTensor) : picked).mul(weights);
  if (reduction === 'none') return losses;
  if (reduction === 'sum') return losses.sum();
  if (reduction !== 'mean') throw call.shapeError(`the reduction '${reduction}' is not known.`);
  return weight || isIgnored ? losses.sum().div(weights.sum()) : losses.mean();
}

const NegativeLogLikelihoodLoss = operator({
  since: [12, 13, 22],
  inputs: [2, 3],
  attributes: LOSS,
  compute: (call) =>
    Value.of(
      negativeLogLikelihood(
        call,
        call.tensor(0) as Tensor,
        call.tensor(1) as Tensor,
        call.optional(2)?.tensor,
      ),
    ),
});

const SoftmaxCrossEntropyLoss = operator({
  since: [12, 13],
  inputs: [2, 3],
  attributes: LOSS,
  compute: (call) => {
    const x = call.tensor(0) as Tensor;
    const logProbabilities = x.logSoftmax(1) as Tensor;
    if (sizeOf(x.shape) === 0) throw call.shapeError('there are no elements.');
    const loss = negativeLogLikelihood(
      call,
      logProbabilities,
      call.tensor(1) as Tensor,
      call.optional(2)?.tensor,
    );
    return [Value.of(loss), Value.of(logProbabilities)];
  },
});

export const LOSSES = { NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss };
