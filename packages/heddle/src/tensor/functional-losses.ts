/** Losses. Sources: PyTorch's torch.nn.functional, whose names, formulas and defaults these have. */
import {
  above,
  aFinite,
  aNumber,
  atLeast,
  integerFrom,
  oneOf,
  type Rule,
  type Rules,
  requireOptions,
  within,
} from '../core/arguments.js';
import { type DTypeName, isFloat } from '../core/dtype.js';
import { ArgumentError, ShapeError } from '../core/errors.js';
import { broadcastShapes, formatShape, type Shape, sameShape, sizeOf } from '../core/shape.js';
import * as fused from '../ops/activation/op.js';
import { crossEntropy as crossEntropyRows } from '../ops/cross-entropy/op.js';
import { inFull } from './autocast.js';
import {
  type AnyTensor,
  aTensor,
  requireFloat,
  requireLabels,
  requireSameDtype,
  requireSameShape,
  requireTensor,
} from './checks.js';
import { oneHot } from './functional-layers.js';
import { inFullPrecision, Tensor, widely } from './tensor.js';

/** How the losses of the elements are reduced: to their mean (default), to their sum, or not at all. */
export type Reduction = 'mean' | 'sum' | 'none';

/** The shape of a loss: `[]` unless its elements are left as they are. */
export type LossShape<R> = 'none' extends R ? Shape : [];

/** Options of all losses. */
export interface LossOptions<R extends Reduction = Reduction> {
  /** How the losses of the elements are reduced (default 'mean'). */
  readonly reduction?: R;
}

/** Options of `nllLoss`. */
export interface NllOptions<R extends Reduction = Reduction> extends LossOptions<R> {
  /** (C): a factor for each class; the mean divides by the sum of the factors used. */
  readonly weight?: AnyTensor | undefined;
  /** Labels with this value count for nothing. (PyTorch ignores −100 unasked; here none is ignored unless said.) */
  readonly ignoreIndex?: number;
}

/** Options of `crossEntropy`. */
export interface CrossEntropyOptions<R extends Reduction = Reduction> extends NllOptions<R> {
  /** The fraction of the target that is spread evenly over all classes, 0 to 1 (default 0). */
  readonly labelSmoothing?: number;
}

const aReduction: Rule = oneOf('mean', 'sum', 'none');
/** @internal The rules of `LossOptions`. */
export const LOSS: Rules<LossOptions> = { reduction: aReduction };
const NLL: Rules<NllOptions> = {
  ...LOSS,
  weight: aTensor,
  ignoreIndex: integerFrom(-(2 ** 31), 2 ** 31 - 1),
};
const CROSS_ENTROPY: Rules<CrossEntropyOptions> = { ...NLL, labelSmoothing: within(0, 1) };

/** @internal Losses of elements as their mean, their sum, or as they are. */
export function reduced<D extends DTypeName, R extends Reduction = 'mean'>(
  losses: Tensor<Shape, D>,
  reduction?: R,
): Tensor<LossShape<R>, D> {
  const all = reduction === 'none' ? losses : reduction === 'sum' ? losses.sum() : losses.mean();
  return all as Tensor<Shape, D> as Tensor<LossShape<R>, D>;
}

/** (N, C, …) and (N, …), or (C) and (): as rows (R, C) and labels (R). */
function asRows<D extends DTypeName>(
  op: string,
  scores: Tensor<Shape, D>,
  labels: AnyTensor,
): { rows: Tensor<Shape, D>; flat: AnyTensor } {
  requireTensor(op, 'scores', scores);
  requireTensor(op, 'labels', labels);
  const axis = scores.ndim === 1 ? 0 : 1;
  const rest = scores.shape.filter((_, i) => i !== axis);
  if (scores.ndim === 0 || formatShape(rest) !== formatShape(labels.shape)) {
    throw new ShapeError(
      `[${op}] takes scores (N,C,…) and labels (N,…), got ${formatShape(scores.shape)} and ` +
        `${formatShape(labels.shape)}. One class index per row; one-hot rows are for crossEntropy, as floats.`,
    );
  }
  requireFloat(op, 'scores', scores);
  requireLabels(op, labels);
  const order = scores.shape.map((_, i) => i).filter((i) => i !== axis);
  const full = inFullPrecision(scores);
  const last = scores.ndim > 2 ? full.permute([...order, axis]) : full;
  return { rows: last.reshape([sizeOf(rest), scores.shape[axis]!]), flat: labels.reshape([sizeOf(rest)]) };
}

/** Rows' losses to the result: ignored rows cleared, weighted mean. `losses` are weighted already. */
function finish<D extends DTypeName, R extends Reduction>(
  losses: Tensor<Shape, D>,
  labels: AnyTensor,
  shape: readonly number[],
  options: NllOptions<R>,
): Tensor<LossShape<R>, D> {
  const { weight, ignoreIndex, reduction } = options;
  if (weight === undefined && ignoreIndex === undefined) return reduced(losses.reshape(shape), reduction);
  const kept = ignoreIndex === undefined ? losses : labels.ne(ignoreIndex).where(losses, 0);
  if (reduction !== undefined && reduction !== 'mean') return reduced(kept.reshape(shape), reduction);
  const each = weight ? weight.gather(0, labels) : labels.eq(labels).cast(losses.dtype);
  const counted = ignoreIndex === undefined ? each : labels.ne(ignoreIndex).where(each, 0);
  return kept.sum().div(counted.sum()) as Tensor<Shape, D> as Tensor<LossShape<R>, D>;
}

function checkWeight(op: string, scores: AnyTensor, classes: number, weight: AnyTensor | undefined): void {
  if (!weight) return;
  requireSameDtype(op, 'scores', scores, 'weight', weight);
  if (weight.ndim !== 1 || weight.shape[0] !== classes)
    throw new ShapeError(
      `[${op}] weight is ${formatShape(weight.shape)}, must be (${classes}): one factor per class.`,
    );
}

/** −rows[i, labels[i]], times the label's weight; NaN for a label that is not a class. */
function negativePicked<D extends DTypeName>(
  rows: Tensor<Shape, D>,
  labels: AnyTensor,
  weight: AnyTensor | undefined,
): Tensor<Shape, D> {
  const [count, classes] = rows.shape as [number, number];
  const picked = rows
    .gather(1, labels.reshape([count, 1]))
    .reshape([count])
    .neg();
  const valid = labels.ge(0).and(labels.lt(classes));
  const losses = valid.where(picked, Number.NaN);
  return weight ? losses.mul(weight.gather(0, labels)) : losses;
}

/**
 * Negative log likelihood: −weight[yᵢ] · logProbabilities[i, yᵢ].
 * @param logProbabilities (N, C) or (N, C, …), such as `logSoftmax` gives
 * @param labels i32 (N) or (N, …), each 0 … C−1
 * @returns a scalar, or with reduction 'none' the labels' shape
 * @throws ShapeError, DTypeError, ArgumentError
 */
export function nllLoss<D extends DTypeName, R extends Reduction = 'mean'>(
  logProbabilities: Tensor<Shape, D>,
  labels: AnyTensor,
  options: NllOptions<R> = {},
): Tensor<LossShape<R>, D> {
  requireOptions('nllLoss', options, NLL);
  const { rows, flat } = asRows('nllLoss', logProbabilities, labels);
  checkWeight('nllLoss', rows, rows.shape[1]!, options.weight);
  return finish(negativePicked(rows, flat, options.weight), flat, labels.shape, options);
}

/**
 * Cross-entropy of logits against class labels, −log softmax(logits)[label], or against class probabilities,
 * −Σ target·log softmax(logits), computed without overflow. A label that is not a class gives NaN (`fit` and the loaders
 * report it by its position). The mean against probabilities is that over the rows, also with `weight`, as in PyTorch.
 * @example
 * ```ts
 * import { crossEntropy, tensor } from 'heddle';
 *
 * const logits = tensor([[0, 0], [0, 0]]);
 * const labels = tensor(Int32Array.of(0, 1));
 * console.log((await crossEntropy(logits, labels).item()).toFixed(4)); // → 0.6931
 * ```
 * @param logits (N, C) or (N, C, …), floats
 * @param labels i32 (N) or (N, …), each 0 … C−1; or probabilities, floats of the logits' shape
 * @returns a scalar, or with reduction 'none' the shape of labels
 * @throws ShapeError, DTypeError, ArgumentError
 */
export function crossEntropy<D extends DTypeName, R extends Reduction = 'mean'>(
  logits: Tensor<Shape, D>,
  labels: AnyTensor,
  options: CrossEntropyOptions<R> = {},
): Tensor<LossShape<R>, D> {
  requireOptions('crossEntropy', options, CROSS_ENTROPY);
  const { weight, labelSmoothing = 0 } = options;
  requireTensor('crossEntropy', 'labels', labels);
  requireTensor('crossEntropy', 'logits', logits);
  if (isFloat(labels.dtype) && labels.ndim === logits.ndim) return ofProbabilities(logits, labels, options);
  const { rows, flat } = asRows('crossEntropy', logits, labels);
  const classes = rows.shape[1]!;
  checkWeight('crossEntropy', rows, classes, weight);
  if (labelSmoothing === 0) {
    const losses = new Tensor<Shape, D>(crossEntropyRows(rows.node, flat.node));
    const weighted = weight ? losses.mul(weight.gather(0, flat)) : losses;
    return finish(weighted, flat, labels.shape, options);
  }
  const logs = rows.logSoftmax(1);
  const spread = (weight ? logs.mul(weight) : logs).sum(1).mul(-labelSmoothing / classes);
  const losses = negativePicked(logs, flat, weight)
    .mul(1 - labelSmoothing)
    .add(spread);
  return finish(losses, flat, labels.shape, options);
}

/** −Σ weight·target·log softmax(scores) along the classes. */
function ofProbabilities<D extends DTypeName, R extends Reduction>(
  scores: Tensor<Shape, D>,
  targets: AnyTensor,
  { weight, labelSmoothing = 0, ignoreIndex, reduction }: CrossEntropyOptions<R>,
): Tensor<LossShape<R>, D> {
  requireFloat('crossEntropy', 'logits', scores);
  requireSameShape('crossEntropy', 'logits', scores, 'targets', targets);
  if (scores.ndim === 0) throw new ShapeError('[crossEntropy] logits are (), must be (C) or (N,C,…).');
  if (ignoreIndex !== undefined)
    throw new ArgumentError('[crossEntropy] ignoreIndex is for class labels, the targets are probabilities.');
  const axis = scores.ndim === 1 ? 0 : 1;
  const full = inFullPrecision(scores);
  const classes = scores.shape[axis]!;
  checkWeight('crossEntropy', full, classes, weight);
  const logs = full.logSoftmax(axis);
  const weighted = weight
    ? logs.mul(weight.reshape([classes, ...scores.shape.slice(axis + 1).map(() => 1)]))
    : logs;
  const smoothed = targets
    .cast(full.dtype)
    .mul(1 - labelSmoothing)
    .add(labelSmoothing / classes);
  return reduced(weighted.mul(smoothed).sum(axis).neg() as Tensor<Shape, D>, reduction);
}

function checkPair<O extends LossOptions>(
  op: string,
  x: AnyTensor,
  target: AnyTensor,
  options: O,
  rules: Rules<O>,
): void {
  requireOptions(op, options, rules);
  requireFloat(op, 'x', x);
  requireSameDtype(op, 'x', x, 'target', target);
  requireSameShape(op, 'x', x, 'target', target);
}

/** Options of `bce`. */
export interface BceOptions<R extends Reduction = Reduction> extends LossOptions<R> {
  /** A factor for each loss; it broadcasts. */
  readonly weight?: AnyTensor | undefined;
}

/** Options of `bceWithLogits`. */
export interface BceWithLogitsOptions<R extends Reduction = Reduction> extends BceOptions<R> {
  /** A factor for the losses of targets 1, such as (negative examples) / (positive ones); it broadcasts. */
  readonly posWeight?: AnyTensor | undefined;
}

const BCE: Rules<BceOptions> = { ...LOSS, weight: aTensor };
const BCE_WITH_LOGITS: Rules<BceWithLogitsOptions> = { ...BCE, posWeight: aTensor };

/** A factor of the dtype of x that broadcasts to its shape. */
function requireFactor(op: string, x: AnyTensor, name: string, factor: AnyTensor | undefined): void {
  if (!factor) return;
  requireSameDtype(op, 'x', x, name, factor);
  if (!sameShape(broadcastShapes(op, x.shape, factor.shape), x.shape))
    throw new ShapeError(
      `[${op}] ${name} is ${formatShape(factor.shape)}, must broadcast to x ${formatShape(x.shape)}.`,
    );
}

/**
 * Binary cross-entropy: −(t log p + (1 − t) log(1 − p)), the logarithms not below −100 (as in PyTorch).
 * `bceWithLogits` is better conditioned.
 * @param probabilities in [0, 1], any shape
 * @param target the same shape and dtype, in [0, 1]
 */
export function bce<D extends DTypeName, R extends Reduction = 'mean'>(
  probabilities: Tensor<Shape, D>,
  target: AnyTensor,
  options: BceOptions<R> = {},
): Tensor<LossShape<R>, D> {
  checkPair('bce', probabilities, target, options, BCE);
  requireFactor('bce', probabilities, 'weight', options.weight);
  const losses = new Tensor<Shape, D>(
    fused.binaryCrossEntropy(inFull(probabilities.node), inFull(target.node)),
  );
  return reduced(options.weight ? losses.mul(options.weight) : losses, options.reduction);
}

/**
 * Binary cross-entropy of sigmoid(x): log(1 + e^x) − t·x, computed without overflow; with `posWeight` w
 * (1 − t)·x + (1 + (w − 1)·t)·log(1 + e^−x).
 * @example
 * ```ts
 * import { bceWithLogits, tensor } from 'heddle';
 *
 * const loss = bceWithLogits(tensor([0, 0]), tensor([0, 1]));
 * console.log((await loss.item()).toFixed(4)); // → 0.6931
 * ```
 * @param x logits, any shape
 * @param target the same shape and dtype, in [0, 1]
 */
export function bceWithLogits<D extends DTypeName, R extends Reduction = 'mean'>(
  x: Tensor<Shape, D>,
  target: AnyTensor,
  options: BceWithLogitsOptions<R> = {},
): Tensor<LossShape<R>, D> {
  checkPair('bceWithLogits', x, target, options, BCE_WITH_LOGITS);
  const { weight, posWeight } = options;
  requireFactor('bceWithLogits', x, 'weight', weight);
  requireFactor('bceWithLogits', x, 'posWeight', posWeight);
  const weighted = (x: AnyTensor, t: AnyTensor, w: AnyTensor): AnyTensor =>
    t
      .neg()
      .add(1)
      .mul(x)
      .add(
        w
          .sub(1)
          .mul(t)
          .add(1)
          .mul(new Tensor(fused.softplus(x.neg().node))),
      );
  const losses = posWeight
    ? widely(weighted, inFullPrecision(x), target, posWeight)
    : new Tensor<Shape, D>(fused.binaryCrossEntropyOfLogits(inFull(x.node), inFull(target.node)));
  return reduced(weight ? losses.mul(weight) : losses, options.reduction);
}

/**
 * Mean squared error: (x − target)². Both of the same shape and dtype.
 * @example
 * ```ts
 * import { mse, tensor } from 'heddle';
 *
 * console.log(await mse(tensor([1, 2]), tensor([1, 4])).item()); // → 2
 * ```
 */
export function mse<D extends DTypeName, R extends Reduction = 'mean'>(
  x: Tensor<Shape, D>,
  target: AnyTensor,
  options: LossOptions<R> = {},
): Tensor<LossShape<R>, D> {
  checkPair('mse', x, target, options, LOSS);
  return reduced(
    widely((x, target) => x.sub(target).square(), inFullPrecision(x), target),
    options.reduction,
  );
}

/** Mean absolute error: |x − target|. Both of the same shape and dtype. */
export function l1<D extends DTypeName, R extends Reduction = 'mean'>(
  x: Tensor<Shape, D>,
  target: AnyTensor,
  options: LossOptions<R> = {},
): Tensor<LossShape<R>, D> {
  checkPair('l1', x, target, options, LOSS);
  return reduced(inFullPrecision(x).sub(target).abs(), options.reduction);
}

/** Options of `huber`. */
export interface HuberOptions<R extends Reduction = Reduction> extends LossOptions<R> {
  /** Where the square becomes a line: greater than 0, default 1. */
  readonly delta?: number;
}

const HUBER: Rules<HuberOptions> = { ...LOSS, delta: above(0) };

/** With d = |x − target|: ½d² where d ≤ delta, else delta · (d − ½delta). Both of the same shape and dtype. */
export function huber<D extends DTypeName, R extends Reduction = 'mean'>(
  x: Tensor<Shape, D>,
  target: AnyTensor,
  options: HuberOptions<R> = {},
): Tensor<LossShape<R>, D> {
  checkPair('huber', x, target, options, HUBER);
  const { delta = 1 } = options;
  // With q = d cut to ±delta both branches are q·(d − ½q), of which the derivative is q exactly.
  const losses = (x: AnyTensor, target: AnyTensor): AnyTensor => {
    const difference = x.sub(target);
    const cut = difference.clamp(-delta, delta);
    return cut.mul(difference.sub(cut.mul(0.5)));
  };
  return reduced(widely(losses, inFullPrecision(x), target), options.reduction);
}

/** Options of `smoothL1`. */
export interface SmoothL1Options<R extends Reduction = Reduction> extends LossOptions<R> {
  /** Where the square becomes a line: at least 0 (then it is `l1`), default 1. */
  readonly beta?: number;
}

const SMOOTH_L1: Rules<SmoothL1Options> = { ...LOSS, beta: atLeast(0) };

/** With d = |x − target|: ½d²/beta where d < beta, else d − ½beta (Girshick, Fast R-CNN, 2015). Both of one shape and dtype. */
export function smoothL1<D extends DTypeName, R extends Reduction = 'mean'>(
  x: Tensor<Shape, D>,
  target: AnyTensor,
  options: SmoothL1Options<R> = {},
): Tensor<LossShape<R>, D> {
  checkPair('smoothL1', x, target, options, SMOOTH_L1);
  const { beta = 1, ...rest } = options;
  if (beta === 0) return l1(x, target, rest);
  const losses = (x: AnyTensor, target: AnyTensor): AnyTensor =>
    huber(x, target, { delta: beta, reduction: 'none' }).mul(1 / beta);
  return reduced(widely(losses, inFullPrecision(x), target), options.reduction);
}

/** Options of `multiMargin`. */
export interface MultiMarginOptions<R extends Reduction = Reduction> extends LossOptions<R> {
  /** The power of each term, 1 (default) or 2. */
  readonly p?: 1 | 2;
  /** By how much the label's score must exceed the others (default 1). */
  readonly margin?: number;
  /** (C): a factor for each class. */
  readonly weight?: AnyTensor | undefined;
}

const oneOrTwo: Rule = { must: '1 or 2', holds: (v) => v === 1 || v === 2 };
const MULTI_MARGIN: Rules<MultiMarginOptions> = { ...LOSS, p: oneOrTwo, margin: aFinite, weight: aTensor };

/**
 * Σ over the classes i ≠ y of weight[y] · max(0, margin − x[y] + x[i])ᵖ / C; NaN for a label that is not a class.
 * @param x scores (N, C) or (C), floats
 * @param labels i32 (N) or (), each 0 … C−1
 * @throws ShapeError, DTypeError, ArgumentError
 */
export function multiMargin<D extends DTypeName, R extends Reduction = 'mean'>(
  x: Tensor<Shape, D>,
  labels: AnyTensor,
  options: MultiMarginOptions<R> = {},
): Tensor<LossShape<R>, D> {
  requireOptions('multiMargin', options, MULTI_MARGIN);
  const { rows, flat } = asRows('multiMargin', x, labels);
  const [count, classes] = rows.shape as [number, number];
  const { p = 1, margin = 1, weight, reduction } = options;
  checkWeight('multiMargin', rows, classes, weight);
  const losses = (rows: AnyTensor, factor?: AnyTensor): AnyTensor => {
    const own = negativePicked(rows, flat, undefined).reshape([count, 1]);
    const short = rows.add(own).add(margin).relu();
    const isOther = oneHot(flat, classes).eq(0);
    const terms = isOther.where(p === 2 ? short.square() : short, short.mul(0));
    const total = terms.sum(1).mul(1 / classes);
    return factor ? total.mul(factor.gather(0, flat)) : total;
  };
  return reduced(widely(losses, rows, weight).reshape(labels.shape), reduction);
}

/** Options of `hinge`. */
export interface HingeOptions<R extends Reduction = Reduction> extends LossOptions<R> {
  /** How far on the right side nothing is lost; default 1. */
  readonly margin?: number;
}

const HINGE: Rules<HingeOptions> = { ...LOSS, margin: aNumber };

/** Hinge loss of a linear margin: max(0, margin − target · x), target −1 or 1. Both of the same shape and dtype. */
export function hinge<D extends DTypeName, R extends Reduction = 'mean'>(
  x: Tensor<Shape, D>,
  target: AnyTensor,
  options: HingeOptions<R> = {},
): Tensor<LossShape<R>, D> {
  checkPair('hinge', x, target, options, HINGE);
  const losses = (x: AnyTensor, target: AnyTensor): AnyTensor =>
    x
      .mul(target)
      .neg()
      .add(options.margin ?? 1)
      .relu();
  return reduced(widely(losses, inFullPrecision(x), target), options.reduction);
}
