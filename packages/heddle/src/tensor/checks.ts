/** What functions on tensors demand of them, said the same way everywhere. */
import { instance, type Rule, shown } from '../core/arguments.js';
import { i32, isFloat, requireFloats } from '../core/dtype.js';
import { ArgumentError, DTypeError, ShapeError } from '../core/errors.js';
import { formatShape, sameShape } from '../core/shape.js';
import { isMixed } from './autocast.js';
import { type AnyTensor, requireTensor, Tensor } from './tensor.js';

export { requireIndexable } from '../graph/node.js';
export { type AnyTensor, requireTensor };

export const aTensor: Rule = instance(Tensor, 'a tensor');
/** @throws ArgumentError unless it is an array of tensors */
export function requireTensors(
  op: string,
  name: string,
  list: unknown,
): asserts list is readonly AnyTensor[] {
  if (!Array.isArray(list))
    throw new ArgumentError(
      `[${op}] ${name} is ${shown(list)}, must be an array of tensors, as in ${op}([a, b]).`,
    );
  list.forEach((x, i) => {
    requireTensor(op, `${name}[${i}]`, x);
  });
}
export function requireFloat(op: string, what: string, x: AnyTensor): void {
  requireTensor(op, what, x);
  requireFloats(op, what, x);
}

export function requireSameDtype(op: string, a: string, x: AnyTensor, b: string, y: AnyTensor): void {
  requireTensor(op, a, x);
  requireTensor(op, b, y);
  if (x.dtype !== y.dtype && !(isMixed() && isFloat(x.dtype) && isFloat(y.dtype)))
    throw new DTypeError(
      `[${op}] dtypes differ: ${a} is ${x.dtype.name}, ${b} ${y.dtype.name}. Convert one with .cast(${x.dtype.name}).`,
    );
}

export function requireSameShape(op: string, a: string, x: AnyTensor, b: string, y: AnyTensor): void {
  if (!sameShape(x.shape, y.shape))
    throw new ShapeError(
      `[${op}] shapes differ: ${a} is ${formatShape(x.shape)}, ${b} ${formatShape(y.shape)}. ` +
        'They must be equal: nothing is broadcast here. Use .reshape() or .expand().',
    );
}

export function requireRank(op: string, what: string, x: AnyTensor, rank: number, layout: string): void {
  requireTensor(op, what, x);
  if (x.ndim !== rank)
    throw new ShapeError(
      `[${op}] ${what} must be ${layout}, ${rank} dimensions, got ${formatShape(x.shape)} with ${x.ndim}. ` +
        'Use .reshape() or .unsqueeze().',
    );
}

export function requireBias(op: string, x: AnyTensor, bias: AnyTensor, size: number): void {
  requireSameDtype(op, 'x', x, 'bias', bias);
  if (bias.ndim !== 1 || bias.shape[0] !== size)
    throw new ShapeError(`[${op}] bias is ${formatShape(bias.shape)}, must be (${size}): one per output.`);
}

export function requireLabels(op: string, labels: AnyTensor): void {
  requireTensor(op, 'labels', labels);
  if (labels.dtype !== i32)
    throw new DTypeError(
      `[${op}] labels must be i32 class indices, got ${labels.dtype.name}. Convert with .cast(i32).`,
    );
}
