/** Gradients that are those of each rank alone: they are averaged by the optimizer's step only. */
import { ArgumentError } from '../core/errors.js';
import type { Tensor } from '../tensor/tensor.js';

const ownGradients = new WeakSet<Tensor>();

/** From now on the gradients of these parameters are averaged by a step only. */
export const noteOwnGradients = (parameters: Iterable<Tensor>): void => {
  for (const p of parameters) ownGradients.add(p);
};

/** @throws ArgumentError where an operation needs the gradients of all ranks, and these are those of each alone */
export function requireAveraged(op: string, parameters: readonly Tensor[]): void {
  if (parameters.some((p) => ownGradients.has(p)))
    throw new ArgumentError(
      `[${op}] the gradients are those of this rank alone until the optimizer steps. Use shardOptimizer() without averages, and averageGradients().`,
    );
}
