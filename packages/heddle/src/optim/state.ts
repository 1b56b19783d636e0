/** State that is saved and loaded: tensors by name. */
import { isPlainObject, shown } from '../core/arguments.js';
import { ArgumentError, ShapeError } from '../core/errors.js';
import { formatShape, sameShape } from '../core/shape.js';
import { type AnyTensor, requireTensor } from '../tensor/checks.js';
import { noGrad } from '../tensor/modes.js';
import type { Tensor } from '../tensor/tensor.js';

/** Tensors by name. */
export type SavedTensors = Readonly<Record<string, AnyTensor>>;

/** Values that an update rule keeps from step to step for one parameter, or for its group. */
export type State = Readonly<Record<string, Tensor>>;

/** @throws ArgumentError unless it is a record of tensors */
export function requireRecord(op: string, state: unknown): asserts state is SavedTensors {
  if (!isPlainObject(state))
    throw new ArgumentError(
      `[${op}] the state is ${shown(state)}, must be an object of tensors by name, such as stateDict() gives.`,
    );
  for (const [name, value] of Object.entries(state)) requireTensor(op, name, value);
}

/** Whether `state` has the names and the shapes of `own`. @throws ArgumentError, ShapeError */
export function requireMatch(
  op: string,
  what: string,
  own: Readonly<Record<string, Tensor>>,
  state: unknown,
): asserts state is SavedTensors {
  requireRecord(op, state);
  const missing = Object.keys(own).filter((name) => !Object.hasOwn(state, name));
  const unexpected = Object.keys(state).filter((name) => !Object.hasOwn(own, name));
  if (missing.length > 0 || unexpected.length > 0)
    throw new ArgumentError(
      `[${op}] this is not the state of ${what}. Missing: ${missing.join(', ') || 'none'}. ` +
        `Unexpected: ${unexpected.join(', ') || 'none'}. Make it with the parameters and settings it was saved with.`,
    );
  for (const [name, to] of Object.entries(own)) {
    if (!sameShape(to.shape, state[name]!.shape))
      throw new ShapeError(
        `[${op}] shapes of ${name} differ: ${formatShape(to.shape)} here, ${formatShape(state[name]!.shape)} in the state.`,
      );
  }
}

/** Take the values over. */
export function assignAll(own: Readonly<Record<string, Tensor>>, state: SavedTensors): void {
  noGrad(() => {
    for (const [name, to] of Object.entries(own)) to.assign(state[name]!.detach().cast(to.dtype));
  });
}
