/** User kernels: the first of Heddle's three levels. */
import type { DType } from '../core/dtype.js';
import { type LaunchConfig, launch } from '../engine/launch.js';
import type { KernelIr } from '../kernel/ir.js';
import { type Constants, defineKernel, type KernelFunction } from '../kernel/language.js';
import type { BufferSchema, Schema } from '../kernel/types.js';
import { type SimArguments, type Simulation, simulate } from '../runtime/sim/launch.js';
import type { RunOptions } from '../runtime/sim/run.js';
import { type Language, sourceOf } from '../runtime/source.js';
import type { Tensor } from './tensor.js';

/** What a launch takes: tensors for buffers, numbers (bool: booleans, i64: bigints) for scalars. */
export type LaunchArguments<S extends Schema> = {
  readonly [K in keyof S]: S[K] extends BufferSchema
    ? Tensor
    : S[K] extends DType<'bool'>
      ? boolean
      : S[K] extends DType<'i64'>
        ? bigint
        : number;
};

export class Kernel<S extends Schema = Schema> {
  readonly ir: KernelIr;

  constructor(ir: KernelIr) {
    this.ir = ir;
  }

  get name(): string {
    return this.ir.name;
  }

  /**
   * Run on the current device, on the tensors' own memory: tensors that the kernel writes are changed in place.
   * Where the CPU cannot split the kernel at its barriers, it runs in the simulator and says so once.
   * @throws ArgumentError, DTypeError if the arguments are not what the parameters say
   */
  launch(config: LaunchConfig, args: LaunchArguments<S>): Promise<void> {
    return launch(this.ir, config, args as Readonly<Record<string, Tensor | number>>);
  }

  /**
   * Run in the simulator, on typed arrays, which are changed in place.
   * @throws SimulatorError at the first fault, with the kernel's line, the block and the thread
   */
  simulate(config: LaunchConfig, args: SimArguments, options?: RunOptions): Simulation {
    return simulate(this.ir, config, args, options);
  }

  /** The kernel as CUDA C++, WebAssembly text, the simulator's JavaScript, or Heddle's IR. */
  source(language: Language): string {
    return sourceOf(this.ir, language);
  }
}

/**
 * Compile a TypeScript function to a kernel.
 * @param schema the parameters: scalars by dtype (`f32`), memory by `buffer(f32)`
 * @param constants what the kernel knows at compile time, taken from the function's second parameter
 * @throws KernelError with file, line and column
 */
export const kernel = <const S extends Schema, C extends Constants = Record<never, never>>(
  name: string,
  schema: S,
  fn: KernelFunction<S, C>,
  constants?: C,
): Kernel<S> => new Kernel<S>(defineKernel(name, schema, fn, constants));

/** ⌈a / b⌉: blocks of `b` that cover `a` elements. */
export const ceilDiv = (a: number, b: number): number => Math.ceil(a / b);
