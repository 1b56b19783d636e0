/** The mode of a model for a while. */
import type { Module } from './module.js';

/** @internal Run `body` with the model in evaluation mode; each module then has the mode that it had. */
export function evaluating<T>(model: Module, body: () => T): T {
  const modes = [...model.namedModules()].map(([, module]) => [module, module.training] as const);
  try {
    model.eval();
    return body();
  } finally {
    for (const [module, training] of modes) module.training = training;
  }
}
