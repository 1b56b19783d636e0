/** Tensors in arrays and records: what a batch is made of where it is more than one tensor. */
import { isPlainObject, shown } from '../core/arguments.js';
import { ArgumentError } from '../core/errors.js';
import { type AnyTensor, Tensor } from '../tensor/tensor.js';

/** A tensor, or several in arrays and records. */
export type Batched = AnyTensor | readonly Batched[] | { readonly [name: string]: Batched };

/** The same structure with other tensors. */
export function mapBatched(value: Batched, by: (t: AnyTensor) => AnyTensor): Batched {
  if (value instanceof Tensor) return by(value);
  if (Array.isArray(value)) return value.map((inner: Batched) => mapBatched(inner, by));
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, mapBatched(inner, by)]));
}

/**
 * The tensors with what they are called: `inputs`, `inputs.image`, `inputs[0]`.
 * @throws ArgumentError for anything else
 */
export function* namedIn(name: string, value: unknown): Generator<[string, AnyTensor]> {
  if (value instanceof Tensor) yield [name, value];
  else if (Array.isArray(value))
    for (const [i, inner] of value.entries()) yield* namedIn(`${name}[${i}]`, inner);
  else if (isPlainObject(value))
    for (const [own, inner] of Object.entries(value)) yield* namedIn(`${name}.${own}`, inner);
  else
    throw new ArgumentError(
      `[TensorDataset] ${name} is ${shown(value)}, must be a tensor, or an array or a record of tensors.`,
    );
}
