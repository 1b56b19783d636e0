/** Data parallel training: the gradients of all ranks in one sum, and what else ranks share. */
import { aBoolean, above, instance, type Rules, requireArgument, requireOptions } from '../core/arguments.js';
import { currentTrace, noteUseOfGradients } from '../engine/trace.js';
import * as nn from '../nn/index.js';
import { Module } from '../nn/index.js';
import { requireTensors } from '../tensor/checks.js';
import { noGrad } from '../tensor/modes.js';
import type { AnyTensor, Tensor } from '../tensor/tensor.js';
import { nodeOf, tensorOf } from '../tensor/tracing.js';
import { reducedOver, sumsOfCopies } from './collectives.js';
import { membership } from './membership.js';
import { SummedRows } from './summed-rows.js';

/**
 * Most bytes of a bucket. An exchange beside the backward pass is taken to have a latency of 15 µs and a bandwidth of 90 GB/s: in
 * 12 MiB the latency is a tenth of it, and larger buckets would gain little and begin later.
 */
const BUCKET_BYTES = 12 * 2 ** 20;

/**
 * A bucket of so many bytes is not divided: at the bandwidth of the last exchange, that of all links, its bytes take a quarter of
 * the latency.
 */
const LEAST_BYTES = 2 ** 20;

/** One of so many parts of a bucket is small. */
const SMALL_SHARE = 16;

/**
 * Up to so many ranks copy each other's gradients, where they can, and add them up in the update: copies leave the multiprocessors to the
 * backward pass. A rank receives n − 1 times its gradients, which is n / 2 times what it receives in an all-reduce of n ranks.
 */
export const MOST_COPYING = 2;

/** Options of `averageGradients`. */
export interface AverageGradientsOptions {
  /** Most bytes of gradients that are exchanged at a time, about (default 12 MiB). Towards the first layers they are fewer. */
  readonly bucketBytes?: number;
  /**
   * Whether the batches of all ranks have the same shapes (default false). Within `jit` the gradient of an embedding then travels as
   * the rows that the batch looks up, where those are fewer bytes than its table.
   */
  readonly equalBatches?: boolean;
}

/** How `sumInBuckets` exchanges. */
interface Buckets extends AverageGradientsOptions {
  /** Whether ranks copy what is exchanged beside the backward pass, and add it up themselves. Default: where their GPUs do. */
  readonly copies?: boolean;
  /** Which tensors travel as rows. Default: those that can, where `equalBatches` is true. */
  readonly rows?: readonly (SummedRows | undefined)[];
}

const AVERAGE: Rules<AverageGradientsOptions> = { bucketBytes: above(0), equalBatches: aBoolean };

/**
 * Tensors by their numbers, in their order, in buckets. Nothing hides the exchange of the last bucket, whose gradients are
 * complete when the backward pass ends. So a bucket has half of the bytes that are left, at most and at least as much as above.
 * A bucket waits for its last gradient: what is small among the others is left to the next one, as the bias of a layer whose weights
 * come after it.
 * @param sizes bytes of the tensors
 * @param after bytes that are left besides
 */
export function bucketsOf(sizes: readonly number[], most: number = BUCKET_BYTES, after = 0): number[][] {
  const buckets: number[][] = [];
  let left = sizes.reduce((all, bytes) => all + bytes, after);
  let limit = 0;
  let bytes = 0;
  sizes.forEach((own, i) => {
    const isFull = bytes >= limit || (2 * bytes >= limit && bytes + own > limit);
    if (isFull) {
      const before = buckets.at(-1) ?? [];
      const next: number[] = [];
      let small = 0;
      for (let at = before.at(-1); at !== undefined; at = before.at(-1)) {
        if ((small + sizes[at]!) * SMALL_SHARE > bytes) break;
        small += sizes[at]!;
        next.unshift(before.pop()!);
      }
      left -= bytes - small;
      limit = Math.min(most, Math.max(LEAST_BYTES, left / 2));
      buckets.push(next);
      bytes = small;
    }
    buckets.at(-1)!.push(i);
    bytes += own;
  });
  return buckets;
}

/**
 * Tensors by their numbers, in the order in which a trace has made them, which is the same on all ranks: each is there about when it
 * was made. Those that are there from the beginning come first, from the last one on.
 */
export function orderOf(tensors: readonly AnyTensor[]): number[] {
  const made = tensors.map((x) => {
    const node = nodeOf(x);
    return node.isLeaf ? 0 : node.serial;
  });
  const reversed = tensors.map((_, i) => i).reverse();
  return currentTrace() ? reversed.sort((i, k) => made[i]! - made[k]!) : reversed;
}

/**
 * Gradients that travel as rows, whose places are exchanged here: no gradient is needed for that.
 * @param gradients of batches with the same shapes on all ranks
 */
export function summedRows(gradients: readonly AnyTensor[]): (SummedRows | undefined)[] {
  const { size, ranks } = membership().world;
  // Outside of a trace one rank may have computed a gradient before, which is then no sum of rows any more.
  const canTravel = currentTrace() !== undefined && size > 1;
  const rows = gradients.map((x) => (canTravel ? SummedRows.of(nodeOf(x), ranks) : undefined));
  for (const one of rows) one?.gatherPlaces();
  return rows;
}

/**
 * The sums over all ranks, bucket by bucket: those of the first gradients of the backward pass are made while it goes on. Rows come
 * before the last bucket, which is exchanged while they are added up.
 */
export function sumInBuckets(
  tensors: readonly AnyTensor[],
  { bucketBytes, equalBatches = false, copies, rows = equalBatches ? summedRows(tensors) : [] }: Buckets = {},
): AnyTensor[] {
  const { world, copies: canCopy } = membership();
  const byCopies = copies ?? canCopy;
  const sums: AnyTensor[] = [];
  const whole = orderOf(tensors).filter((i) => !rows[i]);
  const buckets = bucketsOf(
    whole.map((i) => tensors[i]!.size * tensors[i]!.dtype.bytes),
    bucketBytes,
    rows.reduce((bytes, one) => bytes + (one?.bytes ?? 0), 0),
  ).map((bucket) => bucket.map((at) => whole[at]!));
  type Sum = (own: readonly AnyTensor[]) => readonly AnyTensor[];
  const exchange = (bucket: readonly number[], sum: Sum): void =>
    sum(bucket.map((i) => tensors[i]!)).forEach((one, k) => {
      sums[bucket[k]!] = one;
    });
  const beside: Sum = byCopies
    ? (own) => sumsOfCopies(world, own)
    : (own) => reducedOver(world, own, { beside: true });
  const last = buckets.pop();
  for (const bucket of buckets) exchange(bucket, beside);
  rows.forEach((one, i) => {
    if (one) sums[i] = tensorOf(one.sum());
  });
  if (last) exchange(last, (own) => reducedOver(world, own, {}));
  return sums;
}

/**
 * Replace each gradient by its mean over all ranks: between `backward()` and the optimizer's `step()`, in a training loop
 * of your own. (`fit` does it automatically.) Ranks whose batches have different sizes weigh the same. In `jit` the exchange
 * of a bucket runs while the gradients of earlier layers are computed.
 * @example
 * ```ts no-run
 * import { crossEntropy, jit, nn, optim, type Tensor } from 'heddle';
 * import * as distributed from 'heddle/distributed';
 *
 * await distributed.init();
 * const model = new nn.Linear(784, 10);
 * const optimizer = new optim.SGD(model.parameters(), { lr: 0.1 });
 * const step = jit((x: Tensor, y: Tensor<[number], 'i32'>) => {
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
      options,
    ).forEach((sum, i) => {
      moving[i]!.grad = sum.div(size) as unknown as Tensor;
    });
  });
}

/**
 * Let all batch norms of a model train with the statistics of the batches of all ranks together, rather than each rank's own.
 * It matters where a rank has few examples.
 */
export function synchronizeBatchNorm(model: Module): void {
  requireArgument('synchronizeBatchNorm', 'model', model, instance(Module, 'a module'));
  for (const [, layer] of model.namedModules())
    if (layer instanceof nn.BatchNorm1d || layer instanceof nn.BatchNorm2d) layer.synchronized = true;
}
