/** Rectifiers and other piecewise or gated activations, element by element. Sources: PyTorch's torch.nn.functional. */
import { aFinite, atLeast, type Rule, type Rules, requireOptions } from '../core/arguments.js';
import type { DTypeName } from '../core/dtype.js';
import { ShapeError } from '../core/errors.js';
import { formatShape, normalizeAxis, type Shape } from '../core/shape.js';
import { type AnyTensor, requireFloat, requireSameDtype } from './checks.js';
import { sigmoid, softplus } from './functional-activations.js';
import { type Tensor, widely } from './tensor.js';

/** x limited to 0 … 6. */
export function relu6<T extends AnyTensor>(x: T): T {
  requireFloat('relu6', 'x', x);
  return x.clamp(0, 6) as T;
}

/** Options of `hardtanh`. */
export interface HardtanhOptions {
  /** The lower limit (default −1). */
  readonly low?: number;
  /** The upper limit (default 1). */
  readonly high?: number;
}

/** @internal */
export const HARDTANH: Rules<HardtanhOptions> = { low: aFinite, high: aFinite };

/** x limited to low … high. */
export function hardtanh<T extends AnyTensor>(x: T, options: HardtanhOptions = {}): T {
  requireFloat('hardtanh', 'x', x);
  requireOptions('hardtanh', options, HARDTANH);
  const { low = -1, high = 1 } = options;
  return x.clamp(low, high) as T;
}

const sixth = (x: AnyTensor): AnyTensor => x.add(3).clamp(0, 6).div(6);

/** (x + 3) / 6, limited to 0 … 1. */
export function hardsigmoid<T extends AnyTensor>(x: T): T {
  requireFloat('hardsigmoid', 'x', x);
  return widely(sixth, x);
}

/** x · hardsigmoid(x) (Howard et al., Searching for MobileNetV3, 2019). */
export function hardswish<T extends AnyTensor>(x: T): T {
  requireFloat('hardswish', 'x', x);
  return widely((x) => x.mul(sixth(x)), x);
}

/** e^x − 1 where x ≤ 0, computed so that large x do not overflow there. */
const falling = (x: AnyTensor): AnyTensor => x.clamp(undefined, 0).expm1();
const isAbove = (x: AnyTensor): Tensor<Shape, 'bool'> => x.gt(0);

const SELU = { alpha: 1.6732632423543772, scale: 1.0507009873554805 };

/** 1.0507 · x where x > 0, else 1.0507 · 1.6733 · (e^x − 1) (Klambauer et al., Self-normalizing neural networks, 2017). */
export function selu<T extends AnyTensor>(x: T): T {
  requireFloat('selu', 'x', x);
  return widely((x) => isAbove(x).where(x, falling(x).mul(SELU.alpha)).mul(SELU.scale), x);
}

/** Options of `celu`. */
export interface CeluOptions {
  /** How far below 0 the curve goes: any finite number but 0, default 1. */
  readonly alpha?: number;
}

const notZero: Rule = { must: 'a finite number other than 0', holds: (v) => Number.isFinite(v) && v !== 0 };

/** @internal */
export const CELU: Rules<CeluOptions> = { alpha: notZero };

/** x where x > 0, else alpha · (e^(x/alpha) − 1) (Barron, Continuously differentiable exponential linear units, 2017). */
export function celu<T extends AnyTensor>(x: T, options: CeluOptions = {}): T {
  requireFloat('celu', 'x', x);
  requireOptions('celu', options, CELU);
  const { alpha = 1 } = options;
  return widely(
    (x) =>
      isAbove(x).where(
        x,
        isAbove(x)
          .where(0, x)
          .mul(1 / alpha)
          .expm1()
          .mul(alpha),
      ),
    x,
  );
}

/** x · tanh(log(1 + e^x)) (Misra, 2019). */
export function mish<T extends AnyTensor>(x: T): T {
  requireFloat('mish', 'x', x);
  return widely((x) => x.mul(softplus(x).tanh()), x);
}

/** x / (1 + |x|). */
export function softsign<T extends AnyTensor>(x: T): T {
  requireFloat('softsign', 'x', x);
  return widely((x) => x.div(x.abs().add(1)), x);
}

/** log(1 / (1 + e^−x)). */
export function logSigmoid<T extends AnyTensor>(x: T): T {
  requireFloat('logSigmoid', 'x', x);
  return widely((x) => softplus(x.neg(), { threshold: Number.MAX_VALUE }).neg(), x);
}

/** x − tanh(x). */
export function tanhshrink<T extends AnyTensor>(x: T): T {
  requireFloat('tanhshrink', 'x', x);
  return widely((x) => x.sub(x.tanh()), x);
}

/** Options of `softshrink` and `hardshrink`. */
export interface ShrinkOptions {
  /** Values between −lambda and lambda become 0 (at least 0, default 0.5). */
  readonly lambda?: number;
}

/** @internal */
export const SHRINK: Rules<ShrinkOptions> = { lambda: atLeast(0) };

/** x − lambda where x > lambda, x + lambda where x < −lambda, else 0. */
export function softshrink<T extends AnyTensor>(x: T, options: ShrinkOptions = {}): T {
  requireFloat('softshrink', 'x', x);
  requireOptions('softshrink', options, SHRINK);
  const { lambda = 0.5 } = options;
  return widely((x) => x.gt(lambda).where(x.sub(lambda), x.lt(-lambda).where(x.add(lambda), x.mul(0))), x);
}

/** x where |x| > lambda, else 0. */
export function hardshrink<T extends AnyTensor>(x: T, options: ShrinkOptions = {}): T {
  requireFloat('hardshrink', 'x', x);
  requireOptions('hardshrink', options, SHRINK);
  const { lambda = 0.5 } = options;
  return widely((x) => x.abs().le(lambda).where(0, x), x);
}

/**
 * x where x > 0, else weight · x (He et al., Delving deep into rectifiers, 2015).
 * @param x any shape; with a weight per channel (N, C, …)
 * @param weight (1) or (C)
 * @throws ShapeError, DTypeError
 */
export function prelu<T extends AnyTensor>(x: T, weight: AnyTensor): T {
  requireFloat('prelu', 'x', x);
  requireSameDtype('prelu', 'x', x, 'weight', weight);
  const channels = x.ndim > 1 ? x.shape[1]! : 1;
  if (weight.size !== 1 && (weight.ndim !== 1 || weight.size !== channels))
    throw new ShapeError(
      `[prelu] weight is ${formatShape(weight.shape)}, must be (1), or (${channels}) for x ${formatShape(x.shape)}.`,
    );
  const slope =
    weight.size === 1 ? weight.reshape([]) : weight.reshape([channels, ...x.shape.slice(2).map(() => 1)]);
  return widely((x, slope) => isAbove(x).where(x, x.mul(slope)), x, slope);
}

/**
 * The first half along `axis` times the sigmoid of the second (Dauphin et al., Language modeling with gated convolutional
 * networks, 2017).
 * @throws ShapeError for an odd size, DTypeError
 */
export function glu<D extends DTypeName>(x: Tensor<Shape, D>, axis = -1): Tensor<Shape, D> {
  requireFloat('glu', 'x', x);
  const at = normalizeAxis('glu', axis, x.ndim);
  const size = x.shape[at]!;
  if (size % 2 !== 0)
    throw new ShapeError(`[glu] axis ${axis} of ${formatShape(x.shape)} has ${size} elements, must be even.`);
  const [value, gate] = x.split([size / 2, size / 2], at) as [Tensor<Shape, D>, Tensor<Shape, D>];
  return widely((value, gate) => value.mul(sigmoid(gate)), value, gate);
}
