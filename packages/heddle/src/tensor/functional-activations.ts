/** Activation functions, element by element unless an axis is named. Sources: PyTorch's torch.nn.functional. */
import { ArgumentError } from '../core/errors.js';
import type { Shape } from '../core/shape.js';
import * as fused from '../fused/activation.js';
import { requireFloat } from './functional-checks.js';
import { Tensor, widely } from './tensor.js';

/** max(0, x); the gradient at 0 is 0. */
export function relu<S extends Shape>(x: Tensor<S>): Tensor<S> {
  requireFloat('relu', 'x', x);
  return new Tensor<S>(fused.relu(x.node));
}

/** x where x > 0, else negativeSlope · x. */
export function leakyRelu<S extends Shape>(x: Tensor<S>, negativeSlope = 0.01): Tensor<S> {
  requireFloat('leakyRelu', 'x', x);
  return x.gt(0).where(x, x.mul(negativeSlope)) as Tensor<S>;
}

/** 1 / (1 + e^−x). */
export function sigmoid<S extends Shape>(x: Tensor<S>): Tensor<S> {
  requireFloat('sigmoid', 'x', x);
  return new Tensor<S>(fused.sigmoid(x.node));
}

/** (e^x − e^−x) / (e^x + e^−x). */
export function tanh<S extends Shape>(x: Tensor<S>): Tensor<S> {
  requireFloat('tanh', 'x', x);
  return x.tanh();
}

/** x · sigmoid(x), also called swish. */
export function silu<S extends Shape>(x: Tensor<S>): Tensor<S> {
  requireFloat('silu', 'x', x);
  return widely(x, (x) => x.mul(sigmoid(x))) as Tensor<S>;
}

/** x where x > 0, else alpha · (e^x − 1). */
export function elu<S extends Shape>(x: Tensor<S>, alpha = 1): Tensor<S> {
  requireFloat('elu', 'x', x);
  return widely(x, (x) => x.gt(0).where(x, x.minimum(0).exp().sub(1).mul(alpha))) as Tensor<S>;
}

/** log(1 + e^(beta · x)) / beta, and x itself where beta · x > threshold. */
export function softplus<S extends Shape>(
  x: Tensor<S>,
  options: { readonly beta?: number; readonly threshold?: number } = {},
): Tensor<S> {
  requireFloat('softplus', 'x', x);
  const { beta = 1, threshold = 20 } = options;
  if (!(beta > 0)) throw new ArgumentError(`[softplus] beta is ${beta}, must be greater than 0.`);
  const scaled = x.mul(beta);
  const soft = new Tensor<S>(fused.softplus(scaled.node)).mul(1 / beta);
  return scaled.gt(threshold).where(x, soft) as Tensor<S>;
}

/** The error function 2/√π ∫₀ˣ e^−t² dt; absolute error ≤ 1.5e-7. */
export function erf<S extends Shape>(x: Tensor<S>): Tensor<S> {
  requireFloat('erf', 'x', x);
  return new Tensor<S>(fused.erf(x.node));
}

/**
 * x · Φ(x), Φ the normal distribution's cumulative function (Hendrycks and Gimpel, 2016).
 * @param options approximate: 'none' (default) by `erf`, 'tanh' by ½x(1 + tanh(√(2/π)(x + 0.044715x³)))
 */
export function gelu<S extends Shape>(
  x: Tensor<S>,
  options: { readonly approximate?: 'none' | 'tanh' } = {},
): Tensor<S> {
  requireFloat('gelu', 'x', x);
  const { approximate = 'none' } = options;
  if (approximate !== 'none' && approximate !== 'tanh')
    throw new ArgumentError(`[gelu] approximate is '${String(approximate)}', must be 'none' or 'tanh'.`);
  const curve = (x: Tensor): Tensor =>
    approximate === 'none'
      ? erf(x.mul(Math.SQRT1_2))
      : x
          .add(x.mul(x).mul(x).mul(0.044715))
          .mul(Math.sqrt(2 / Math.PI))
          .tanh();
  return widely(x, (x) => x.mul(0.5).mul(curve(x).add(1))) as Tensor<S>;
}

/** e^x / Σ e^x along `axis`, computed from x − max x. */
export function softmax<S extends Shape>(x: Tensor<S>, axis = -1): Tensor<S> {
  requireFloat('softmax', 'x', x);
  return x.softmax(axis) as Tensor<S>;
}

/** x − log Σ e^x along `axis`, computed from x − max x. */
export function logSoftmax<S extends Shape>(x: Tensor<S>, axis = -1): Tensor<S> {
  requireFloat('logSoftmax', 'x', x);
  return x.logSoftmax(axis) as Tensor<S>;
}
