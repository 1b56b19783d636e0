/** Switches around a piece of code, and what there is to see of the engine. */
import { DTypeError } from '../core/errors.js';
import { stats } from '../engine/program.js';
import { realize as realizeNodes } from '../engine/realize.js';
import { currentDevice } from '../engine/storage.js';
import { currentTrace } from '../engine/trace.js';
import { withoutGradients } from '../graph/build.js';
import type { MemoryReport } from '../runtime/device.js';
import type { Tensor } from './tensor.js';

export { useDevice } from '../engine/storage.js';

/** Run `body` without recording gradients: nothing made in it requires one. */
export function noGrad<T>(body: () => T): T {
  const result = withoutGradients(body);
  if (result instanceof Promise)
    throw new DTypeError(
      '[noGrad] takes a function that is not async: gradients are off only until it returns.',
    );
  return result;
}

/** Compute these tensors now, together, and keep their values. Within `jit` nothing is computed, so this does nothing. */
export const realize = (...tensors: readonly Tensor[]): void => {
  if (!currentTrace()) realizeNodes(tensors.map((t) => t.node));
};

/** What the current device holds, in bytes, and by what. */
export const memory = (): MemoryReport => currentDevice().memory();

/** Graphs compiled, programs run, kernels launched so far. */
export const engineStats = stats;

/** The name and description of the device in use. */
export const device = (): { readonly name: string; readonly description: string } => {
  const { name, description } = currentDevice();
  return { name, description };
};
