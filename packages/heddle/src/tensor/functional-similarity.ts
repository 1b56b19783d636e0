/** Distances between vectors, and losses of them. Sources: PyTorch's torch.nn.functional. */
import {
  aBoolean,
  above,
  aFinite,
  aNumber,
  atLeast,
  oneOf,
  type Rules,
  requireOptions,
} from '../core/arguments.js';
import type { DTypeName } from '../core/dtype.js';
import { ShapeError } from '../core/errors.js';
import { formatShape, normalizeAxis, type Shape } from '../core/shape.js';
import { type AnyTensor, requireFloat, requireSameDtype, requireSameShape } from './checks.js';
import { LOSS, type LossOptions, type LossShape, type Reduction, reduced } from './functional-losses.js';
import { inFullPrecision, type Tensor, widely } from './tensor.js';

function requirePair(op: string, x: AnyTensor, y: AnyTensor): void {
  requireFloat(op, 'x', x);
  requireSameDtype(op, 'x', x, 'y', y);
  requireSameShape(op, 'x', x, 'y', y);
}

/** Labels of pairs: 1 or −1 each, of the shape of the losses. */
function requireSigns(op: string, x: AnyTensor, sign: AnyTensor, shape: readonly number[]): void {
  requireSameDtype(op, 'x', x, 'target', sign);
  if (formatShape(sign.shape) !== formatShape(shape))
    throw new ShapeError(
      `[${op}] target is ${formatShape(sign.shape)}, must be ${formatShape(shape)}: 1 or −1 for each pair.`,
    );
}

/** Options of `cosineSimilarity`. */
export interface CosineOptions {
  /** The dimension of the vectors (default 1). */
  readonly axis?: number;
  /** The least length that is divided by (default 1e-8). */
  readonly eps?: number;
}

const COSINE: Rules<CosineOptions> = { axis: aNumber, eps: atLeast(0) };

/**
 * x·y / (max(‖x‖, eps) · max(‖y‖, eps)) of the vectors along `axis`.
 * @param x floats
 * @param y the same shape and dtype
 * @returns the shape without `axis`
 * @throws ShapeError, DTypeError
 */
export function cosineSimilarity<D extends DTypeName>(
  x: Tensor<Shape, D>,
  y: AnyTensor,
  options: CosineOptions = {},
): Tensor<Shape, D> {
  requirePair('cosineSimilarity', x, y);
  requireOptions('cosineSimilarity', options, COSINE);
  const { axis = 1, eps = 1e-8 } = options;
  const at = normalizeAxis('cosineSimilarity', axis, x.ndim);
  return widely(
    (x, y) => {
      const unit = (v: AnyTensor): AnyTensor => v.div(v.norm(at, { keepdim: true }).clamp(eps));
      return unit(x).mul(unit(y)).sum(at);
    },
    x,
    y,
  );
}

/** Options of `pairwiseDistance`. */
export interface DistanceOptions {
  /** Which norm (default 2). */
  readonly p?: number;
  /** Added to each difference, so that the gradient is finite at 0 (default 1e-6). */
  readonly eps?: number;
}

const DISTANCE: Rules<DistanceOptions> = { p: aNumber, eps: aFinite };

/**
 * ‖x − y + eps‖ₚ of the vectors along the last dimension.
 * @param x floats (…, D)
 * @param y the same shape and dtype
 * @returns (…)
 * @throws ShapeError, DTypeError
 */
export function pairwiseDistance<D extends DTypeName>(
  x: Tensor<Shape, D>,
  y: AnyTensor,
  options: DistanceOptions = {},
): Tensor<Shape, D> {
  requirePair('pairwiseDistance', x, y);
  requireOptions('pairwiseDistance', options, DISTANCE);
  const { p = 2, eps = 1e-6 } = options;
  return widely((x, y) => x.sub(y).add(eps).norm(-1, { ord: p }), x, y);
}

/** Options of `cosineEmbedding` and `marginRanking`. */
export interface MarginOptions<R extends Reduction = Reduction> extends LossOptions<R> {
  /** By how much pairs must differ until nothing is lost (default 0). */
  readonly margin?: number;
}

const MARGIN: Rules<MarginOptions> = { ...LOSS, margin: aFinite };

/**
 * 1 − cos(x, y) where target is 1, max(0, cos(x, y) − margin) where it is −1.
 * @param x (N, D) or (D), floats
 * @param y the same shape and dtype
 * @param target (N) or (), the same dtype
 * @throws ShapeError, DTypeError, ArgumentError
 */
export function cosineEmbedding<D extends DTypeName, R extends Reduction = 'mean'>(
  x: Tensor<Shape, D>,
  y: AnyTensor,
  target: AnyTensor,
  options: MarginOptions<R> = {},
): Tensor<LossShape<R>, D> {
  requirePair('cosineEmbedding', x, y);
  requireSigns('cosineEmbedding', x, target, x.shape.slice(0, -1));
  requireOptions('cosineEmbedding', options, MARGIN);
  const { margin = 0 } = options;
  const losses = (x: AnyTensor, y: AnyTensor, target: AnyTensor): AnyTensor => {
    const length = (v: AnyTensor): AnyTensor => v.square().sum(-1).add(1e-12);
    const cosine = x
      .mul(y)
      .sum(-1)
      .div(length(x).mul(length(y)).sqrt());
    return target.gt(0).where(cosine.neg().add(1), cosine.sub(margin).clamp(0));
  };
  return reduced(widely(losses, inFullPrecision(x), y, target), options.reduction);
}

/**
 * max(0, −target · (x − y) + margin): x is to be larger than y where target is 1, smaller where it is −1.
 * @param x floats, any shape
 * @param y the same shape and dtype
 * @param target the same shape and dtype, 1 or −1
 * @throws ShapeError, DTypeError, ArgumentError
 */
export function marginRanking<D extends DTypeName, R extends Reduction = 'mean'>(
  x: Tensor<Shape, D>,
  y: AnyTensor,
  target: AnyTensor,
  options: MarginOptions<R> = {},
): Tensor<LossShape<R>, D> {
  requirePair('marginRanking', x, y);
  requireSigns('marginRanking', x, target, x.shape);
  requireOptions('marginRanking', options, MARGIN);
  const { margin = 0 } = options;
  const losses = (x: AnyTensor, y: AnyTensor, target: AnyTensor): AnyTensor =>
    target.neg().mul(x.sub(y)).add(margin).clamp(0);
  return reduced(widely(losses, inFullPrecision(x), y, target), options.reduction);
}

/** Options of `tripletMargin`. */
export interface TripletOptions<R extends Reduction = Reduction> extends LossOptions<R> {
  /** By how much the negative must be further away (greater than 0, default 1). */
  readonly margin?: number;
  /** Which norm (default 2). */
  readonly p?: number;
  /** Added to each difference (default 1e-6). */
  readonly eps?: number;
  /** Take the distance of the negative from the positive instead, where that is smaller (default false). */
  readonly swap?: boolean;
}

const TRIPLET: Rules<TripletOptions> = { ...LOSS, ...DISTANCE, margin: above(0), swap: aBoolean };

/**
 * max(0, d(anchor, positive) − d(anchor, negative) + margin), d the distance along the last dimension (Schroff, Kalenichenko
 * and Philbin, FaceNet, 2015).
 * @param anchor (N, D) or (D), floats
 * @param positive the same shape and dtype: what is alike
 * @param negative the same shape and dtype: what is not
 * @throws ShapeError, DTypeError, ArgumentError
 */
export function tripletMargin<D extends DTypeName, R extends Reduction = 'mean'>(
  anchor: Tensor<Shape, D>,
  positive: AnyTensor,
  negative: AnyTensor,
  options: TripletOptions<R> = {},
): Tensor<LossShape<R>, D> {
  requirePair('tripletMargin', anchor, positive);
  requirePair('tripletMargin', anchor, negative);
  requireOptions('tripletMargin', options, TRIPLET);
  const { margin = 1, p = 2, eps = 1e-6, swap = false } = options;
  const losses = (anchor: AnyTensor, positive: AnyTensor, negative: AnyTensor): AnyTensor => {
    const distance = (x: AnyTensor, y: AnyTensor): AnyTensor => pairwiseDistance(x, y, { p, eps });
    const apart = distance(anchor, negative);
    const least = swap ? apart.minimum(distance(positive, negative)) : apart;
    return distance(anchor, positive).sub(least).add(margin).clamp(0);
  };
  return reduced(widely(losses, inFullPrecision(anchor), positive, negative), options.reduction);
}

/** Options of `klDiv`. */
export interface KlOptions {
  /** How the losses of the elements are reduced (default 'mean'); 'batchMean' is their sum divided by N. */
  readonly reduction?: 'mean' | 'sum' | 'none' | 'batchMean';
  /** Whether the target is given as logarithms, too (default false). */
  readonly logTarget?: boolean;
}

const KL: Rules<KlOptions> = { reduction: oneOf('mean', 'sum', 'none', 'batchMean'), logTarget: aBoolean };

/**
 * The Kullback–Leibler divergence, element by element: target · (log target − x), 0 where the target is 0. 'batchMean' is
 * the divergence of distributions in rows.
 * @param x logarithms of probabilities, any shape (N, …)
 * @param target probabilities, or with `logTarget` their logarithms; the same shape and dtype
 * @throws ShapeError, DTypeError, ArgumentError
 */
export function klDiv<D extends DTypeName>(
  x: Tensor<Shape, D>,
  target: AnyTensor,
  options: KlOptions = {},
): Tensor<Shape, D> {
  requirePair('klDiv', x, target);
  requireOptions('klDiv', options, KL);
  const { reduction = 'mean', logTarget = false } = options;
  const losses = widely(
    (x, target) => {
      if (logTarget) return target.exp().mul(target.sub(x));
      const isZero = target.eq(0);
      return isZero.where(0, target.mul(isZero.where(1, target).log().sub(x)));
    },
    inFullPrecision(x),
    target,
  );
  if (reduction === 'batchMean') return losses.sum().div(x.shape[0] ?? 1) as Tensor<Shape, D>;
  return reduced(losses, reduction);
}
