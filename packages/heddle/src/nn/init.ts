/**
 * Initial values, drawn on the host from the seed of `manualSeed`: the same on every device. The functions overwrite
 * a tensor in place and return it. Sources: Glorot and Bengio 2010 (Xavier), He et al. 2015 (Kaiming).
 */
import { ArgumentError, ShapeError } from '../core/errors.js';
import { formatShape, type Shape, sizeOf } from '../core/shape.js';
import { defaultGenerator } from '../tensor/random.js';
import type { Tensor } from '../tensor/tensor.js';

export type Nonlinearity = 'linear' | 'sigmoid' | 'tanh' | 'relu' | 'leakyRelu';

export interface KaimingOptions {
  /** Negative slope of the leaky ReLU that follows (default 0: a ReLU). */
  readonly a?: number;
  /** Keep the size of values ('fanIn', default) or of gradients ('fanOut'). */
  readonly mode?: 'fanIn' | 'fanOut';
  readonly nonlinearity?: Nonlinearity;
}

/** By how much weights must grow to make up for what a nonlinearity shrinks. */
export function gainOf(nonlinearity: Nonlinearity, a = 0.01): number {
  switch (nonlinearity) {
    case 'linear':
    case 'sigmoid':
      return 1;
    case 'tanh':
      return 5 / 3;
    case 'relu':
      return Math.SQRT2;
    case 'leakyRelu':
      return Math.sqrt(2 / (1 + a * a));
    default:
      throw new ArgumentError(
        `[init] nonlinearity is '${String(nonlinearity)}', must be linear, sigmoid, tanh, relu or leakyRelu.`,
      );
  }
}

/** How many inputs one output of these weights has, and how many outputs one input. (out, in, …kernel) */
function fans(op: string, shape: Shape): { fanIn: number; fanOut: number } {
  if (shape.length < 2)
    throw new ShapeError(
      `[${op}] ${formatShape(shape)} has fewer than 2 dimensions: no inputs and outputs to count. Use init.uniform.`,
    );
  const taps = sizeOf(shape.slice(2));
  return { fanIn: shape[1]! * taps, fanOut: shape[0]! * taps };
}

const fill = (size: number, draw: () => number): Float64Array => Float64Array.from({ length: size }, draw);

/** Evenly from [low, high). */
export function uniform<S extends Shape>(t: Tensor<S>, low = 0, high = 1): Tensor<S> {
  const stream = defaultGenerator().host;
  return t.write(fill(t.size, () => low + (high - low) * stream.uniform()));
}

/** From the normal distribution with `mean` and standard deviation `std`. */
export function normal<S extends Shape>(t: Tensor<S>, mean = 0, std = 1): Tensor<S> {
  const stream = defaultGenerator().host;
  return t.write(fill(t.size, () => mean + std * stream.normal()));
}

export function constant<S extends Shape>(t: Tensor<S>, value: number): Tensor<S> {
  return t.write(new Float64Array(t.size).fill(value));
}

export function zeros<S extends Shape>(t: Tensor<S>): Tensor<S> {
  return constant(t, 0);
}

export function ones<S extends Shape>(t: Tensor<S>): Tensor<S> {
  return constant(t, 1);
}

/** U(−b, b), b = gain · √(6 / (fanIn + fanOut)). */
export function xavierUniform<S extends Shape>(t: Tensor<S>, gain = 1): Tensor<S> {
  const { fanIn, fanOut } = fans('xavierUniform', t.shape);
  const bound = gain * Math.sqrt(6 / (fanIn + fanOut));
  return uniform(t, -bound, bound);
}

/** N(0, s²), s = gain · √(2 / (fanIn + fanOut)). */
export function xavierNormal<S extends Shape>(t: Tensor<S>, gain = 1): Tensor<S> {
  const { fanIn, fanOut } = fans('xavierNormal', t.shape);
  return normal(t, 0, gain * Math.sqrt(2 / (fanIn + fanOut)));
}

function kaimingDeviation(op: string, shape: Shape, options: KaimingOptions): number {
  const { a = 0, mode = 'fanIn', nonlinearity = 'leakyRelu' } = options;
  return gainOf(nonlinearity, a) / Math.sqrt(fans(op, shape)[mode]);
}

/** U(−b, b), b = gain · √(3 / fan). */
export function kaimingUniform<S extends Shape>(t: Tensor<S>, options: KaimingOptions = {}): Tensor<S> {
  const bound = Math.sqrt(3) * kaimingDeviation('kaimingUniform', t.shape, options);
  return uniform(t, -bound, bound);
}

/** N(0, s²), s = gain / √fan. */
export function kaimingNormal<S extends Shape>(t: Tensor<S>, options: KaimingOptions = {}): Tensor<S> {
  return normal(t, 0, kaimingDeviation('kaimingNormal', t.shape, options));
}
