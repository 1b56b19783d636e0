/** Activation functions, element by element unless an axis is named. Sources: PyTorch's torch.nn.functional. */

import { above, aFinite, aNumber, oneOf, type Rules, requireOptions } from '../core/arguments.js';
import * as b from '../graph/build.js';
import * as fused from '../ops/activation/op.js';
import { type AnyTensor, requireFloat, requireTensor } from './checks.js';
import { Tensor, widely } from './tensor.js';

/**
 * max(0, x); the gradient at 0 is 0.
 * @example
 * ```ts
 * import { relu, tensor } from 'heddle';
 *
 * console.log(await relu(tensor([-1, 0, 2])).array()); // → [ 0, 0, 2 ]
 * ```
 */
export function relu<T extends AnyTensor>(x: T): T {
  requireTensor('relu', 'x', x);
  return x.relu() as T;
}

/** Options of `leakyRelu`. */
export interface LeakyReluOptions {
  /** The factor where x ≤ 0: any finite number, default 0.01. */
  readonly negativeSlope?: number;
}

/** @internal */
export const LEAKY_RELU: Rules<LeakyReluOptions> = { negativeSlope: aFinite };

/** x where x > 0, else negativeSlope · x. */
export function leakyRelu<T extends AnyTensor>(x: T, options: LeakyReluOptions = {}): T {
  requireFloat('leakyRelu', 'x', x);
  requireOptions('leakyRelu', options, LEAKY_RELU);
  const { negativeSlope = 0.01 } = options;
  return widely((x) => x.gt(0).where(x, x.mul(negativeSlope)), x);
}

/** 1 / (1 + e^−x). */
export function sigmoid<T extends AnyTensor>(x: T): T {
  requireTensor('sigmoid', 'x', x);
  return x.sigmoid() as T;
}

/** (e^x − e^−x) / (e^x + e^−x). */
export function tanh<T extends AnyTensor>(x: T): T {
  requireFloat('tanh', 'x', x);
  return x.tanh() as T;
}

/** x · sigmoid(x), also called swish. */
export function silu<T extends AnyTensor>(x: T): T {
  requireFloat('silu', 'x', x);
  return new Tensor(fused.silu(x.node)) as T;
}

/** Options of `elu`. */
export interface EluOptions {
  /** Minus the limit for x → −∞: any finite number, default 1. */
  readonly alpha?: number;
}

/** @internal */
export const ELU: Rules<EluOptions> = { alpha: aFinite };

/** x where x > 0, else alpha · (e^x − 1). */
export function elu<T extends AnyTensor>(x: T, options: EluOptions = {}): T {
  requireFloat('elu', 'x', x);
  requireOptions('elu', options, ELU);
  const { alpha = 1 } = options;
  return widely((x) => {
    const positive = x.gt(0);
    return positive.where(x, positive.where(0, x).expm1().mul(alpha));
  }, x);
}

/** Options of `softplus`. */
export interface SoftplusOptions {
  /** How steep the curve is: greater than 0, default 1. */
  readonly beta?: number;
  /** Where beta · x is larger, the result is x; default 20. */
  readonly threshold?: number;
}

/** @internal */
export const SOFTPLUS: Rules<SoftplusOptions> = { beta: above(0), threshold: aNumber };

/** log(1 + e^(beta · x)) / beta, and x itself where beta · x > threshold. */
export function softplus<T extends AnyTensor>(x: T, options: SoftplusOptions = {}): T {
  requireFloat('softplus', 'x', x);
  requireOptions('softplus', options, SOFTPLUS);
  const { beta = 1, threshold = 20 } = options;
  return widely((x) => {
    const scaled = x.mul(beta);
    const soft = new Tensor(fused.softplus(scaled.node)).mul(1 / beta);
    return scaled.gt(threshold).where(x, soft);
  }, x);
}

/** The error function 2/√π ∫₀ˣ e^−t² dt. */
export function erf<T extends AnyTensor>(x: T): T {
  requireFloat('erf', 'x', x);
  return new Tensor(b.map('erf', x.node)) as T;
}

/** Options of `gelu`. */
export interface GeluOptions {
  /** 'none' (default), or 'tanh': ½x(1 + tanh u) = x · sigmoid(2u) with u = √(2/π)(x + 0.044715x³). */
  readonly approximate?: 'none' | 'tanh';
}

/** @internal */
export const GELU: Rules<GeluOptions> = { approximate: oneOf('none', 'tanh') };

/**
 * x · Φ(x), Φ the normal distribution's cumulative function (Hendrycks and Gimpel, 2016).
 */
export function gelu<T extends AnyTensor>(x: T, options: GeluOptions = {}): T {
  requireFloat('gelu', 'x', x);
  requireOptions('gelu', options, GELU);
  if (options.approximate !== 'tanh') return new Tensor(fused.gelu(x.node)) as T;
  const power = (x: AnyTensor): AnyTensor =>
    x
      .mul(x)
      .mul(0.044715)
      .add(1)
      .mul(x)
      .mul(2 * Math.sqrt(2 / Math.PI));
  return widely((x) => x.mul(sigmoid(power(x))), x);
}

/**
 * e^x / Σ e^x along `axis`, computed from x − max x.
 * @example
 * ```ts
 * import { softmax, tensor } from 'heddle';
 *
 * console.log(await softmax(tensor([[0, 0], [1, 1]])).array()); // → [ [ 0.5, 0.5 ], [ 0.5, 0.5 ] ]
 * ```
 */
export function softmax<T extends AnyTensor>(x: T, axis = -1): T {
  requireTensor('softmax', 'x', x);
  return x.softmax(axis) as T;
}

/** x − log Σ e^x along `axis`, computed from x − max x. */
export function logSoftmax<T extends AnyTensor>(x: T, axis = -1): T {
  requireTensor('logSoftmax', 'x', x);
  return x.logSoftmax(axis) as T;
}
