/** What functions on tensors demand of their arguments, said the same way everywhere. */
import { i32, isFloat } from '../core/dtype.js';
import { ArgumentError, DTypeError, ShapeError } from '../core/errors.js';
import { formatShape, sameShape } from '../core/shape.js';
import type { Tensor } from './tensor.js';

export function requireFloat(op: string, what: string, x: Tensor): void {
  if (!isFloat(x.dtype))
    throw new DTypeError(`[${op}] ${what} must be floats, got ${x.dtype.name}. Convert with .cast(f32).`);
}

export function requireSameDtype(op: string, a: string, x: Tensor, b: string, y: Tensor): void {
  if (x.dtype !== y.dtype)
    throw new DTypeError(
      `[${op}] dtypes differ: ${a} is ${x.dtype.name}, ${b} ${y.dtype.name}. Convert one with .cast(${x.dtype.name}).`,
    );
}

export function requireSameShape(op: string, a: string, x: Tensor, b: string, y: Tensor): void {
  if (!sameShape(x.shape, y.shape))
    throw new ShapeError(
      `[${op}] shapes differ: ${a} is ${formatShape(x.shape)}, ${b} ${formatShape(y.shape)}. ` +
        'They must be equal: nothing is broadcast here. Use .reshape() or .expand().',
    );
}

export function requireRank(op: string, what: string, x: Tensor, rank: number, layout: string): void {
  if (x.ndim !== rank)
    throw new ShapeError(
      `[${op}] ${what} must be ${layout}, ${rank} dimensions, got ${formatShape(x.shape)} with ${x.ndim}. ` +
        'Use .reshape() or .unsqueeze().',
    );
}

export function requireLabels(op: string, labels: Tensor): void {
  if (labels.dtype !== i32)
    throw new DTypeError(
      `[${op}] labels must be i32 class indices, got ${labels.dtype.name}. Convert with .cast(i32).`,
    );
}

export function requireIn(op: string, name: string, value: number, low: number, high: number): void {
  if (!(value >= low && value <= high))
    throw new ArgumentError(`[${op}] ${name} is ${value}, must be from ${low} to ${high}.`);
}
