/** The gradients of all ranks, in one sum. */
import { above, type Rules, requireOptions } from '../core/arguments.js';
import { noteUseOfGradients } from '../engine/trace.js';
import { requireTensors } from '../tensor/checks.js';
import { noGrad } from '../tensor/modes.js';
import type { AnyTensor, Tensor } from '../tensor/tensor.js';
import { allReduce } from './collectives.js';
import { membership } from './membership.js';

/**
 * Bytes of a bucket. Large enough that an exchange takes most of the bandwidth, and small enough that the first one begins
 * long before the backward pass ends (S. Li et al., PyTorch Distributed: Experiences on Accelerating Data Parallel Training,
 * 2020, has the same size).
 */
const BUCKET_BYTES = 25 * 2 ** 20;

/** Options of `averageGradients`. */
export interface AverageGradientsOptions {
  /** Bytes of gradients that are exchanged at a time, about (default 25 MiB). */
  readonly bucketBytes?: number;
}

const AVERAGE: Rules<AverageGradientsOptions> = { bucketBytes: above(0) };

/**
 * The sums over all ranks, bucket by bucket from the last tensor on: gradients of the last layers are there first, and
 * their sums are made while the backward pass goes on.
 */
export function sumInBuckets(tensors: readonly AnyTensor[], bucketBytes = BUCKET_BYTES): AnyTensor[] {
  const sums: AnyTensor[] = [];
  let bucket: number[] = [];
  let bytes = 0;
  const close = (): void => {
    if (bucket.length === 0) return;
    allReduce(bucket.map((i) => tensors[i]!)).forEach((sum, i) => {
      sums[bucket[i]!] = sum;
    });
    bucket = [];
    bytes = 0;
  };
  for (let i = tensors.length - 1; i >= 0; i--) {
    bucket.push(i);
    bytes += tensors[i]!.size * tensors[i]!.dtype.bytes;
    if (bytes >= bucketBytes) close();
  }
  close();
  return sums;
}

/**
 * Replace each gradient by its mean over all ranks: between `backward()` and the optimizer's `step()`, in a training loop
 * of your own. (`fit` does it automatically.) Ranks whose batches have different sizes weigh the same. In `jit` the exchange
 * of a bucket runs while the gradients of earlier layers are computed.
 * @example
 * ```ts no-run
 * import { crossEntropy, jit, nn, optim } from 'heddle';
 * import * as distributed from 'heddle/distributed';
 *
 * await distributed.init();
 * const model = new nn.Linear(784, 10);
 * const optimizer = new optim.SGD(model.parameters(), { lr: 0.1 });
 * const step = jit((x, y) => {
 *   const loss = crossEntropy(model.forward(x), y);
 *   loss.backward();
 *   distributed.averageGradients(model.parameters());
 *   optimizer.step();
 *   return loss;
 * });
 * ```
 * @param parameters the same on all ranks; those without a gradient must have none on any rank
 */
export function averageGradients(parameters: Iterable<Tensor>, options: AverageGradientsOptions = {}): void {
  const list = [...parameters];
  requireTensors('averageGradients', 'parameters', list);
  requireOptions('averageGradients', options, AVERAGE);
  const { size } = membership().world;
  noteUseOfGradients();
  const moving = list.filter((p) => p.grad);
  if (size === 1 || moving.length === 0) return;
  noGrad(() => {
    sumInBuckets(
      moving.map((p) => p.grad!),
      options.bucketBytes,
    ).forEach((sum, i) => {
      moving[i]!.grad = sum.div(size) as unknown as Tensor;
    });
  });
}
