/**
 * Initial values, drawn on the host from the seed of `manualSeed`: the same on every device. The functions overwrite
 * a tensor in place and return it. Sources: Glorot and Bengio 2010 (Xavier), He et al. 2015 (Kaiming).
 */
import { aFinite, oneOf, type Rules, requireArgument, requireOptions } from '../core/arguments.js';
import { type DType, type DTypeName, f32 } from '../core/dtype.js';
import { ShapeError } from '../core/errors.js';
import { formatShape, type Shape, sizeOf } from '../core/shape.js';
import { type AnyTensor, requireTensor } from '../tensor/checks.js';
import { draw, type ScaledDraws } from '../tensor/initial-values.js';
import { defaultGenerator } from '../tensor/random.js';
import type { Tensor } from '../tensor/tensor.js';

/** Functions whose gain is known. */
export type Nonlinearity = 'linear' | 'sigmoid' | 'tanh' | 'relu' | 'leakyRelu';

/** Options of `kaimingUniform` and `kaimingNormal`. */
export interface KaimingOptions {
  /** Negative slope of the leaky ReLU that follows (default 0: a ReLU). */
  readonly a?: number;
  /** Keep the size of values ('fanIn', default) or of gradients ('fanOut'). */
  readonly mode?: 'fanIn' | 'fanOut';
  /** The nonlinearity that follows the layer (default 'leakyRelu'). */
  readonly nonlinearity?: Nonlinearity;
}

const aNonlinearity = oneOf('linear', 'sigmoid', 'tanh', 'relu', 'leakyRelu');
const KAIMING: Rules<KaimingOptions> = {
  a: aFinite,
  mode: oneOf('fanIn', 'fanOut'),
  nonlinearity: aNonlinearity,
};

/** Options of `gainOf`. */
export interface GainOptions {
  /** Negative slope of a leaky ReLU (default 0.01). */
  readonly a?: number;
}

const GAIN: Rules<GainOptions> = { a: aFinite };

/** By how much weights must grow to make up for what a nonlinearity shrinks. */
export function gainOf(nonlinearity: Nonlinearity, options: GainOptions = {}): number {
  requireArgument('gainOf', 'nonlinearity', nonlinearity, aNonlinearity);
  requireOptions('gainOf', options, GAIN);
  const { a = 0.01 } = options;
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
  }
}

/** How many inputs one output of these weights has, and how many outputs one input. (out, in, …kernel) */
function fans(op: string, t: AnyTensor): { fanIn: number; fanOut: number } {
  requireTensor(op, 't', t);
  const { shape } = t;
  if (shape.length < 2)
    throw new ShapeError(
      `[${op}] ${formatShape(shape)} has fewer than 2 dimensions: no inputs and outputs to count. Use init.uniform.`,
    );
  const taps = sizeOf(shape.slice(2));
  return { fanIn: shape[1]! * taps, fanOut: shape[0]! * taps };
}

/** `t` with numbers of the generator for the host. @param settings numbers by name */
function drawn<D extends DTypeName>(
  op: string,
  t: Tensor<Shape, D>,
  settings: Readonly<Record<string, number>>,
  draws: ScaledDraws,
): Tensor<Shape, D> {
  requireTensor(op, 't', t);
  for (const [name, value] of Object.entries(settings)) requireArgument(op, name, value, aFinite);
  draw(t, defaultGenerator().host, draws);
  return t;
}

/** Options of `uniform`. */
export interface UniformOptions {
  /** Default 0. */
  readonly low?: number;
  /** Default 1. */
  readonly high?: number;
}

const UNIFORM: Rules<UniformOptions> = { low: aFinite, high: aFinite };

/** Evenly from [low, high). */
export function uniform<D extends DTypeName>(
  t: Tensor<Shape, D>,
  options: UniformOptions = {},
): Tensor<Shape, D> {
  requireOptions('uniform', options, UNIFORM);
  const { low = 0, high = 1 } = options;
  return drawn('uniform', t, { low, high }, { distribution: 'uniform', offset: low, scale: high - low });
}

/** Options of `normal`. */
export interface NormalOptions {
  /** Default 0. */
  readonly mean?: number;
  /** Default 1. */
  readonly std?: number;
}

const NORMAL: Rules<NormalOptions> = { mean: aFinite, std: aFinite };

/** From the normal distribution with `mean` and standard deviation `std`. */
export function normal<D extends DTypeName>(
  t: Tensor<Shape, D>,
  options: NormalOptions = {},
): Tensor<Shape, D> {
  requireOptions('normal', options, NORMAL);
  const { mean = 0, std = 1 } = options;
  return drawn('normal', t, { mean, std }, { distribution: 'normal', offset: mean, scale: std });
}

/** `value` in every element. */
export function constant<D extends DTypeName>(t: Tensor<Shape, D>, value: number): Tensor<Shape, D> {
  requireTensor('constant', 't', t);
  requireArgument('constant', 'value', value, aFinite);
  const values = (t.dtype as DType) === f32 ? new Float32Array(t.size) : new Float64Array(t.size);
  return t.write(values.fill(value));
}

/** 0 in every element. */
export function zeros<D extends DTypeName>(t: Tensor<Shape, D>): Tensor<Shape, D> {
  return constant(t, 0);
}

/** 1 in every element. */
export function ones<D extends DTypeName>(t: Tensor<Shape, D>): Tensor<Shape, D> {
  return constant(t, 1);
}

/** Options of `xavierUniform` and `xavierNormal`. */
export interface XavierOptions {
  /** The gain that makes up for the nonlinearity that follows, see `gainOf` (default 1). */
  readonly gain?: number;
}

const XAVIER: Rules<XavierOptions> = { gain: aFinite };

/** U(−b, b), b = gain · √(6 / (fanIn + fanOut)). */
export function xavierUniform<D extends DTypeName>(
  t: Tensor<Shape, D>,
  options: XavierOptions = {},
): Tensor<Shape, D> {
  requireOptions('xavierUniform', options, XAVIER);
  const { gain = 1 } = options;
  const { fanIn, fanOut } = fans('xavierUniform', t);
  const bound = gain * Math.sqrt(6 / (fanIn + fanOut));
  return uniform(t, { low: -bound, high: bound });
}

/** N(0, s²), s = gain · √(2 / (fanIn + fanOut)). */
export function xavierNormal<D extends DTypeName>(
  t: Tensor<Shape, D>,
  options: XavierOptions = {},
): Tensor<Shape, D> {
  requireOptions('xavierNormal', options, XAVIER);
  const { gain = 1 } = options;
  const { fanIn, fanOut } = fans('xavierNormal', t);
  return normal(t, { std: gain * Math.sqrt(2 / (fanIn + fanOut)) });
}

function kaimingDeviation(op: string, t: AnyTensor, options: KaimingOptions): number {
  requireOptions(op, options, KAIMING);
  const { a = 0, mode = 'fanIn', nonlinearity = 'leakyRelu' } = options;
  return gainOf(nonlinearity, { a }) / Math.sqrt(fans(op, t)[mode]);
}

/** U(−b, b), b = gain · √(3 / fan). */
export function kaimingUniform<D extends DTypeName>(
  t: Tensor<Shape, D>,
  options: KaimingOptions = {},
): Tensor<Shape, D> {
  const bound = Math.sqrt(3) * kaimingDeviation('kaimingUniform', t, options);
  return uniform(t, { low: -bound, high: bound });
}

/** N(0, s²), s = gain / √fan. */
export function kaimingNormal<D extends DTypeName>(
  t: Tensor<Shape, D>,
  options: KaimingOptions = {},
): Tensor<Shape, D> {
  return normal(t, { std: kaimingDeviation('kaimingNormal', t, options) });
}
