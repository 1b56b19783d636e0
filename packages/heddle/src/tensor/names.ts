/** What tensors are called, for messages: parameters by their place in a model. */
import { formatShape } from '../core/shape.js';
import type { AnyTensor } from './tensor.js';

const names = new WeakMap<AnyTensor, string>();

/** @internal */
export const nameTensor = (t: AnyTensor, name: string): void => {
  names.set(t, name);
};

/** @internal Its name, if it has one, and its shape. */
export const labelOf = (t: AnyTensor): string => {
  const name = names.get(t);
  return name === undefined ? `a tensor ${formatShape(t.shape)}` : `${name} ${formatShape(t.shape)}`;
};
