/** Normalization, as functions. Sources: PyTorch's torch.nn.functional. Of 16-bit floats all is computed in f32. */
import {
  aBoolean,
  atLeast,
  integerFrom,
  type Rules,
  requireArgument,
  requireOptions,
  within,
} from '../core/arguments.js';
import { bf16, type DTypeName, f16, f64 } from '../core/dtype.js';
import { ShapeError } from '../core/errors.js';
import { aShape, formatShape, type Shape, sameShape } from '../core/shape.js';
import { moments, standardize } from '../ops/standardize/op.js';
import { type AnyTensor, aTensor, requireFloat, requireSameDtype } from './checks.js';
import { cat, full } from './create.js';
import { noGrad } from './modes.js';
import { Tensor, widely } from './tensor.js';
import { currentWorld, type World } from './world.js';

/** The affine map that is applied to the normalized values. */
export interface AffineOptions {
  /** The factor of the normalized values. */
  readonly weight?: AnyTensor | undefined;
  /** The offset of the normalized values. */
  readonly bias?: AnyTensor | undefined;
}

/** Options of `layerNorm`, `groupNorm` and `instanceNorm`. */
export interface NormOptions extends AffineOptions {
  /** Added to the variance (default 1e-5). */
  readonly eps?: number;
}

/** Options of `batchNorm`. */
export interface BatchNormOptions extends NormOptions {
  /** Use the batch's statistics and update the running ones (default false: use the running ones). */
  readonly training?: boolean;
  /** The batch's share in the running statistics (default 0.1). */
  readonly momentum?: number;
  /**
   * Use the statistics of the batches of all processes that train together, see `heddle/distributed` (default false). All
   * call it then.
   */
  readonly synchronized?: boolean;
}

/** Options of `rmsNorm`. */
export interface RmsNormOptions {
  /** The factor of the normalized values. */
  readonly weight?: AnyTensor | undefined;
  /** Added to the mean square (default: the dtype's epsilon, 2⁻²³ for f32). */
  readonly eps?: number;
}

/** @internal */
export const NORM: Rules<NormOptions> = { weight: aTensor, bias: aTensor, eps: atLeast(0) };
/** @internal */
export const BATCH_NORM: Rules<BatchNormOptions> = {
  ...NORM,
  training: aBoolean,
  momentum: within(0, 1),
  synchronized: aBoolean,
};
/** @internal */
export const RMS_NORM: Rules<RmsNormOptions> = { weight: aTensor, eps: atLeast(0) };

const affine = (y: AnyTensor, weight: AnyTensor | undefined, bias: AnyTensor | undefined): AnyTensor => {
  const scaled = weight ? y.mul(weight) : y;
  return bias ? scaled.add(bias) : scaled;
};

/** A tensor of one value per channel, laid out to broadcast over x (N, C, …). */
function perChannel(op: string, name: string, t: AnyTensor, x: AnyTensor): AnyTensor {
  requireSameDtype(op, 'x', x, name, t);
  const channels = x.shape[1]!;
  if (!sameShape(t.shape, [channels]))
    throw new ShapeError(
      `[${op}] ${name} is ${formatShape(t.shape)}, x ${formatShape(x.shape)}: must be (${channels}), one per channel.`,
    );
  return t.reshape([1, channels, ...x.shape.slice(2).map(() => 1)]);
}

function requireChannels(op: string, x: AnyTensor, least: number): void {
  requireFloat(op, 'x', x);
  if (x.ndim < least)
    throw new ShapeError(
      `[${op}] x is ${formatShape(x.shape)}, must be (N,C${least > 2 ? ',L' : ''},…) with ${least} dimensions or more.`,
    );
}

/**
 * (x − mean) / √(var + eps) · weight + bias, per channel (Ioffe and Szegedy, 2015). The batch is normalized by its
 * biased variance; the running variance is the unbiased one, as in PyTorch.
 * @param x (N, C) or (N, C, …)
 * @param runningMean (C), updated in training
 * @param runningVar (C), updated in training
 * @param options `weight` and `bias` are (C)
 * @throws ShapeError, DTypeError
 */
export function batchNorm<T extends AnyTensor>(
  x: T,
  runningMean: AnyTensor,
  runningVar: AnyTensor,
  options: BatchNormOptions = {},
): T {
  requireChannels('batchNorm', x, 2);
  requireOptions('batchNorm', options, BATCH_NORM);
  const { weight, bias, training = false, momentum = 0.1, eps = 1e-5, synchronized = false } = options;
  const channels = x.shape[1]!;
  const mean = perChannel('batchNorm', 'runningMean', runningMean, x);
  const variance = perChannel('batchNorm', 'runningVar', runningVar, x);
  const factor = weight && perChannel('batchNorm', 'weight', weight, x);
  const offset = bias && perChannel('batchNorm', 'bias', bias, x);
  if (!training)
    return widely(
      (x, mean, variance, factor, offset) => {
        const scale = variance.add(eps).rsqrt();
        return affine(x.sub(mean).mul(factor ? scale.mul(factor) : scale), undefined, offset);
      },
      x,
      mean,
      variance,
      factor,
      offset,
    );
  const count = x.size / channels;
  const world = synchronized ? currentWorld() : undefined;
  if (count * (world?.size ?? 1) < 2)
    throw new ShapeError(
      `[batchNorm] x ${formatShape(x.shape)} has ${count === 0 ? 'no values' : 'one value'} per channel, a variance needs two. ` +
        'Train with larger batches, or call .eval().',
    );
  const axes = x.shape.map((_, i) => i).filter((i) => i !== 1);
  const update = (mean: AnyTensor, unbiased: AnyTensor): void =>
    noGrad(() => {
      const blend = (running: AnyTensor, now: AnyTensor): void => {
        const seen = now.cast(running.dtype).reshape([channels]);
        running.assign(running.mul(1 - momentum).add(seen.mul(momentum)));
      };
      blend(runningMean, mean);
      blend(runningVar, unbiased);
    });
  if (world)
    return widely(
      (x: AnyTensor, factor?: AnyTensor, offset?: AnyTensor) => {
        const all = statisticsOfAll(world, x, axes);
        update(all.mean.detach(), all.variance.detach().mul(all.count.div(all.count.sub(1))));
        const scale = all.variance.add(eps).rsqrt();
        return affine(x.sub(all.mean).mul(factor ? scale.mul(factor) : scale), undefined, offset);
      },
      x,
      factor,
      offset,
    );
  const batch = noGrad(() => moments(x.node, axes));
  update(
    new Tensor(batch.mean),
    noGrad(() => new Tensor(batch.variance).mul(count / (count - 1))),
  );
  const normalized = (x: AnyTensor, factor?: AnyTensor, offset?: AnyTensor): AnyTensor =>
    affine(new Tensor(standardize(x.node, axes, eps, factor?.node)), undefined, offset);
  return widely(normalized, x, factor, offset);
}

/** Of the batches of all ranks together: the mean and the biased variance of each channel, laid out as x, and a count. */
interface Statistics {
  readonly mean: AnyTensor;
  readonly variance: AnyTensor;
  /** Values per channel, a scalar. */
  readonly count: AnyTensor;
}

/**
 * Each rank has the moments of its own batch about its own mean, which are put together without the loss of digits that
 * sums of squares would have (T. Chan, G. Golub, R. LeVeque, Updating formulae and a pairwise algorithm for computing sample
 * variances, 1979).
 */
function statisticsOfAll(world: World, x: AnyTensor, axes: readonly number[]): Statistics {
  const channels = x.shape[1]!;
  const layout = x.shape.map((_, i) => (i === 1 ? channels : 1));
  const own = x.mean(axes, { keepdim: true });
  const squares = x.sub(own).square().sum(axes);
  const mine = cat([
    own.reshape([channels]),
    squares.reshape([channels]),
    full([1], x.size / channels, { dtype: x.dtype }),
  ]);
  const all = world.gather(mine).reshape([world.size, 2 * channels + 1]);
  const [means, deviations, counts] = all.split([channels, channels, 1], 1) as [
    AnyTensor,
    AnyTensor,
    AnyTensor,
  ];
  const count = counts.sum();
  const mean = means.mul(counts).sum(0).div(count);
  const variance = deviations.add(means.sub(mean).square().mul(counts)).sum(0).div(count);
  return { mean: mean.reshape(layout), variance: variance.reshape(layout), count };
}

/** The last dimensions of x, if they are `shape`, and weight and bias of that shape. */
function lastAxes(
  op: string,
  x: AnyTensor,
  normalizedShape: number | Shape,
  { weight, bias }: AffineOptions,
): number[] {
  requireFloat(op, 'x', x);
  const shape = typeof normalizedShape === 'number' ? [normalizedShape] : normalizedShape;
  requireArgument(op, 'normalizedShape', shape, aShape);
  const first = x.ndim - shape.length;
  if (shape.length === 0 || first < 0 || !sameShape(x.shape.slice(first), shape))
    throw new ShapeError(
      `[${op}] x is ${formatShape(x.shape)}, but normalizedShape is ${formatShape(shape)}: x must end with it.`,
    );
  for (const [name, t] of Object.entries({ weight, bias })) {
    if (!t) continue;
    requireSameDtype(op, 'x', x, name, t);
    if (!sameShape(t.shape, shape))
      throw new ShapeError(
        `[${op}] ${name} is ${formatShape(t.shape)}, normalizedShape ${formatShape(shape)}: must be the same.`,
      );
  }
  return shape.map((_, i) => first + i);
}

/**
 * (x − mean) / √(var + eps) · weight + bias over the last dimensions (Ba, Kiros and Hinton, 2016).
 * @example
 * ```ts
 * import { layerNorm, tensor } from 'heddle';
 *
 * const y = layerNorm(tensor([[1, 3], [2, 6]]), [2]);
 * console.log(await y.round().array()); // → [ [ -1, 1 ], [ -1, 1 ] ]
 * ```
 * @param x (…, normalizedShape)
 * @param normalizedShape the sizes of the last dimensions; a number is one dimension
 * @param options `weight` and `bias` have the normalized shape
 * @throws ShapeError, DTypeError, ArgumentError
 */
export function layerNorm<T extends AnyTensor>(
  x: T,
  normalizedShape: number | Shape,
  options: NormOptions = {},
): T {
  requireOptions('layerNorm', options, NORM);
  const axes = lastAxes('layerNorm', x, normalizedShape, options);
  const { weight, bias, eps = 1e-5 } = options;
  return widely(
    (x, weight, bias) => affine(new Tensor(standardize(x.node, axes, eps)), weight, bias),
    x,
    weight,
    bias,
  );
}

/** The distance from 1 to the next larger number. */
const epsilonOf = ({ dtype }: AnyTensor): number =>
  2 ** (dtype === f64 ? -52 : dtype === f16 ? -10 : dtype === bf16 ? -7 : -23);

/**
 * x / √(mean(x²) + eps) · weight over the last dimensions (Zhang and Sennrich, 2019).
 * @param x (…, normalizedShape)
 * @param normalizedShape the sizes of the last dimensions; a number is one dimension
 * @param options `weight` has the normalized shape
 * @throws ShapeError, DTypeError, ArgumentError
 */
export function rmsNorm<T extends AnyTensor>(
  x: T,
  normalizedShape: number | Shape,
  options: RmsNormOptions = {},
): T {
  requireOptions('rmsNorm', options, RMS_NORM);
  const axes = lastAxes('rmsNorm', x, normalizedShape, options);
  const { weight, eps = epsilonOf(x) } = options;
  const normalized = (x: AnyTensor, weight?: AnyTensor): AnyTensor =>
    affine(x.mul(x.square().mean(axes, { keepdim: true }).add(eps).rsqrt()), weight, undefined);
  return widely(normalized, x, weight);
}

/**
 * (x − mean) / √(var + eps) · weight + bias over the positions and the channels of each of `groups` groups (Wu and He,
 * 2018).
 * @param x (N, C, …)
 * @param groups divides C
 * @param options `weight` and `bias` are (C)
 * @throws ShapeError, DTypeError, ArgumentError
 */
export function groupNorm<T extends AnyTensor>(x: T, groups: number, options: NormOptions = {}): T {
  requireChannels('groupNorm', x, 2);
  requireOptions('groupNorm', options, NORM);
  requireArgument('groupNorm', 'groups', groups, integerFrom(1));
  return normalizeGroups('groupNorm', x, groups, options) as T;
}

/**
 * (x − mean) / √(var + eps) · weight + bias over the positions of each channel of each example (Ulyanov, Vedaldi and
 * Lempitsky, 2016).
 * @param x (N, C, L) or (N, C, …)
 * @param options `weight` and `bias` are (C)
 * @throws ShapeError, DTypeError
 */
export function instanceNorm<T extends AnyTensor>(x: T, options: NormOptions = {}): T {
  requireChannels('instanceNorm', x, 3);
  requireOptions('instanceNorm', options, NORM);
  if (x.size > 0 && x.size === x.shape[0]! * x.shape[1]!)
    throw new ShapeError(
      `[instanceNorm] x ${formatShape(x.shape)} has one value per example and channel, a variance needs two.`,
    );
  return normalizeGroups('instanceNorm', x, Math.max(1, x.shape[1]!), options) as T;
}

function normalizeGroups<D extends DTypeName>(
  op: string,
  x: Tensor<Shape, D>,
  groups: number,
  { weight, bias, eps = 1e-5 }: NormOptions,
): Tensor<Shape, D> {
  const [n, channels] = x.shape as [number, number];
  if (channels % groups !== 0)
    throw new ShapeError(
      `[${op}] ${groups} groups do not divide the ${channels} channels of x ${formatShape(x.shape)}.`,
    );
  if (x.size === 0) return x;
  const factor = weight && perChannel(op, 'weight', weight, x);
  const offset = bias && perChannel(op, 'bias', bias, x);
  return widely(
    (x, factor, offset) => {
      const grouped = x.reshape([n, groups, x.size / (n * groups)]);
      return affine(new Tensor(standardize(grouped.node, [2], eps)).reshape(x.shape), factor, offset);
    },
    x,
    factor,
    offset,
  );
}
