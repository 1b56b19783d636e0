/** The JavaScript engine: its flags, its garbage, its event loop, and the processor below it. */
import { availableParallelism, cpus } from 'node:os';
import v8 from 'node:v8';
import vm from 'node:vm';

/**
 * The V8 of Node 26: its optimizing compiler relies on call counts that only the baseline compiler collects. Without them it ends
 * the process.
 */
const NEEDS_BASELINE = 14;

/** Set before the first module is compiled: modules are small and run long. The flags apply to every WebAssembly module of the process. */
export function optimizeWasm(): void {
  // The optimizing compiler runs at once: instead of the baseline compiler, or right after it.
  const needsBaseline = Number.parseInt(process.versions.v8, 10) >= NEEDS_BASELINE;
  v8.setFlagsFromString(needsBaseline ? '--no-wasm-dynamic-tiering' : '--no-liftoff');
}

/** Switch relaxed SIMD on where it is behind a flag (Node 20). */
export function allowRelaxedSimd(): void {
  v8.setFlagsFromString('--experimental-wasm-relaxed-simd');
}

let collect: (() => void) | undefined;

/** Collect garbage now, if the engine lets us. */
export function collectGarbage(): void {
  if (!collect) {
    v8.setFlagsFromString('--expose-gc');
    collect = vm.runInNewContext('gc') as () => void;
  }
  collect();
}

/** A turn of the event loop: timers, signals, finalizers and I/O run before it is over. */
export const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** How many threads of ours may compute at the same time. */
export const parallelism = (): number => availableParallelism();

export const processorModel = (): string => cpus()[0]?.model.trim() ?? 'processor';
