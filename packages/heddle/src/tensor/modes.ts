/** Switches around a piece of code, and what can be observed of the engine. */
import { aFunction, aString, requireArgument } from '../core/arguments.js';
import { ArgumentError } from '../core/errors.js';
import { stats } from '../engine/program.js';
import { realize as realizeNodes } from '../engine/realize.js';
import { currentDevice, useDevice as use } from '../engine/storage.js';
import { currentTrace } from '../engine/trace.js';
import { withoutGradients } from '../graph/build.js';
import type { DeviceInfo, HostMemory, MemoryKind, MemoryReport } from '../runtime/device.js';
import { type AnyTensor, requireTensor } from './tensor.js';

/** @internal */
export { writePart } from '../engine/realize.js';
/** @internal */
export { reclaim } from '../engine/storage.js';
/** @internal */
export { currentTrace, isFromBefore, noteUseOfGradients } from '../engine/trace.js';
export type { HostMemory, MemoryKind };

/**
 * Run `body` without recording gradients: no tensor made in it requires one.
 * @example
 * ```ts
 * import { noGrad, ones } from 'heddle';
 *
 * const w = ones([2], { requiresGrad: true });
 * console.log(noGrad(() => w.mul(2)).requiresGrad); // → false
 * ```
 */
export function noGrad<T>(body: () => T): T {
  requireArgument('noGrad', 'body', body, aFunction, 'Write noGrad(() => …).');
  const result = withoutGradients(body);
  if (result instanceof Promise)
    throw new ArgumentError(
      '[noGrad] takes a function that is not async: gradients are off only until it returns.',
    );
  return result;
}

/**
 * Make `name` the device of all tensors made from now on: cuda, cuda:1 (the second GPU), cpu or sim.
 * @example
 * ```ts
 * import { useDevice } from 'heddle';
 *
 * console.log(useDevice('cpu').name); // → cpu
 * ```
 * @returns the device, as `device()` does from now on
 * @throws DeviceError if there is none of that name, or it cannot be used here
 */
export function useDevice(name: string): DeviceInfo {
  requireArgument('useDevice', 'name', name, aString);
  use(name);
  return device();
}

/** Compute these tensors now, together, and keep their values. Within `jit` nothing is computed, so this does nothing. */
export const realize = (...tensors: readonly AnyTensor[]): void => {
  tensors.forEach((t, i) => {
    requireTensor('realize', `tensor ${i}`, t);
  });
  if (!currentTrace()) realizeNodes(tensors.map((t) => t.node));
};

/**
 * Memory of the current device in bytes: used, reserved, peak, and who holds it.
 * @example
 * ```ts
 * import { memory, ones, realize } from 'heddle';
 *
 * const x = ones([1024]).add(1);
 * realize(x);
 * console.log(memory().used >= 4096); // → true
 * ```
 */
export const memory = (): MemoryReport => currentDevice().memory();

/** @internal Memory of the host that the current device copies from by itself, where it can. */
export const openHostMemory = (bytes: number, memory: MemoryKind): HostMemory | undefined =>
  currentDevice().openHostMemory?.(bytes, memory);

/** Graphs compiled, programs run, kernels launched so far. */
export const engineStats = stats;

/** The device in use: the one that `useDevice` chose, else that of HEDDLE_DEVICE, else the fastest there is. */
export function device(): DeviceInfo {
  const { name, description } = currentDevice();
  return { name, description };
}

/**
 * The time in µs that the device takes for the work that `work` starts (kernels on any stream, jitted functions,
 * `realize`): measured by events on a GPU, by the clock elsewhere.
 */
export async function time(work: () => void): Promise<number> {
  requireArgument('time', 'work', work, aFunction, 'Write time(() => …).');
  return currentDevice().time(work);
}

/**
 * Resolves once the current device has finished all work that was started. You need not call it before you read values.
 * @throws KernelError for an assertion that failed in a kernel, DeviceError if a kernel has faulted
 */
export const synchronize = (): Promise<void> => currentDevice().synchronize();
