/** What layers compute, as functions. Sources: PyTorch's torch.nn.functional. */
import {
  aBoolean,
  integerFrom,
  type Rules,
  requireArgument,
  requireOptions,
  within,
} from '../core/arguments.js';
import { f32 } from '../core/dtype.js';
import { ShapeError } from '../core/errors.js';
import { formatShape, type Shape } from '../core/shape.js';
import * as b from '../graph/build.js';
import {
  type AnyTensor,
  requireBias,
  requireFloat,
  requireLabels,
  requireRank,
  requireSameDtype,
  requireTensor,
} from './checks.js';
import { rand } from './random.js';
import type { Applied, Fitted, ResultShape } from './shape-types.js';
import { type DTypeOf, MATMUL, type MatmulOptions, type ShapeOf, Tensor, widely } from './tensor.js';

/**
 * x · weightᵀ + bias.
 * @example
 * ```ts
 * import { linear, ones } from 'heddle';
 *
 * console.log(await linear(ones([1, 3]), ones([2, 3]), ones([2])).array()); // → [ [ 4, 4 ] ]
 * ```
 * @param x (…, in)
 * @param weight (out, in)
 * @param bias (out)
 * @param options.precision of the product and of those for its gradients; default: `getPrecision().matmul`
 * @returns (…, out)
 * @throws ShapeError, DTypeError
 */
export function linear<T extends AnyTensor, W extends AnyTensor>(
  x: Fitted<Applied<ShapeOf<T>, ShapeOf<W>>, T>,
  weight: W,
  bias?: AnyTensor,
  options: MatmulOptions = {},
): Tensor<ResultShape<Applied<ShapeOf<T>, ShapeOf<W>>>, DTypeOf<T>> {
  return new Tensor(applied(x as T, weight, bias, options).node);
}

function applied(
  x: AnyTensor,
  weight: AnyTensor,
  bias: AnyTensor | undefined,
  options: MatmulOptions,
): AnyTensor {
  requireOptions('linear', options, MATMUL);
  requireRank('linear', 'weight', weight, 2, '(out, in)');
  requireSameDtype('linear', 'x', x, 'weight', weight);
  const [outputs, inputs] = weight.shape as [number, number];
  if (x.ndim === 0 || x.shape.at(-1) !== inputs)
    throw new ShapeError(
      `[linear] x is ${formatShape(x.shape)}, weight (${outputs},${inputs}): the last size of x must be ${inputs}. ` +
        'Flatten images first: .flatten(1).',
    );
  const rows = x.ndim === 1 ? x.unsqueeze(0) : x;
  const product = rows.matmul(weight.transpose(), options);
  if (bias !== undefined) requireBias('linear', x, bias, outputs);
  const y = bias ? product.add(bias.cast(product.dtype)) : product;
  return x.ndim === 1 ? y.squeeze(0) : y;
}

/** Options of `dropout`. */
export interface DropoutOptions {
  /** The probability that an element becomes 0: 0 to 1, default 0.5 (of `dropPath` 0). */
  readonly p?: number;
  /** Whether anything is dropped at all (default true). */
  readonly training?: boolean;
}

/** @internal */
export const DROPOUT: Rules<DropoutOptions> = { p: within(0, 1), training: aBoolean };

/**
 * In training, each element becomes 0 with probability p, the others are divided by 1 − p; otherwise x unchanged.
 * @param x floats, any shape
 * @throws ArgumentError if p is outside 0 … 1, DTypeError
 */
export function dropout<T extends AnyTensor>(x: T, options: DropoutOptions = {}): T {
  requireTensor('dropout', 'x', x);
  requireOptions('dropout', options, DROPOUT);
  return dropped('dropout', x, x.shape, options);
}

/** @param mask broadcasts to x: what is dropped together */
function dropped<T extends AnyTensor>(
  op: string,
  x: T,
  mask: Shape,
  { p = 0.5, training = true }: DropoutOptions,
): T {
  requireFloat(op, 'x', x);
  if (!training || p === 0) return x;
  if (p === 1) return (x as AnyTensor).mul(0) as T;
  const kept = rand(mask).ge(p);
  return widely((x) => kept.where(x.mul(1 / (1 - p)), 0), x);
}

/**
 * As `dropout`, of whole channels. J. Tompson et al., Efficient object localization using convolutional networks (2015).
 * @param x floats (N, C, H, W)
 * @throws ShapeError, ArgumentError if p is outside 0 … 1, DTypeError
 */
export function dropout2d<T extends AnyTensor>(x: T, options: DropoutOptions = {}): T {
  requireRank('dropout2d', 'x', x, 4, '(N,C,H,W)');
  requireOptions('dropout2d', options, DROPOUT);
  return dropped('dropout2d', x, [x.shape[0]!, x.shape[1]!, 1, 1], options);
}

/**
 * As `dropout`, of whole examples (default p 0): what a residual block adds is left out for some of them. G. Huang et al., Deep
 * networks with stochastic depth (2016).
 * @param x floats (N, …)
 * @throws ShapeError, ArgumentError if p is outside 0 … 1, DTypeError
 */
export function dropPath<T extends AnyTensor>(x: T, options: DropoutOptions = {}): T {
  requireTensor('dropPath', 'x', x);
  if (x.ndim === 0)
    throw new ShapeError('[dropPath] x is a scalar, must be (N, …): a value for each example.');
  requireOptions('dropPath', options, DROPOUT);
  return dropped('dropPath', x, [x.shape[0]!, ...x.shape.slice(1).map(() => 1)], { p: 0, ...options });
}

/**
 * 1 where the class is the label, 0 elsewhere.
 * @example
 * ```ts
 * import { oneHot, tensor } from 'heddle';
 *
 * console.log(await oneHot(tensor(Int32Array.of(2, 0)), 3).array()); // → [ [ 0, 0, 1 ], [ 1, 0, 0 ] ]
 * ```
 * @param labels i32, any shape (…), each 0 … classes−1; others give a row of zeros
 * @returns f32 (…, classes)
 */
export function oneHot(labels: AnyTensor, classes: number): Tensor<Shape, 'f32'> {
  requireLabels('oneHot', labels);
  requireArgument('oneHot', 'classes', classes, integerFrom(1));
  const shape = [...labels.shape, classes];
  return new Tensor(b.iota(shape, labels.ndim)).eq(labels.unsqueeze(-1)).cast(f32);
}
