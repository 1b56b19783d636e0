/** User kernels: the first of Heddle's three levels. */
import { above, atLeast, requireArgument } from '../core/arguments.js';
import type { DType } from '../core/dtype.js';
import { DeviceError } from '../core/errors.js';
import type { DeviceArray } from '../engine/device-array.js';
import { type LaunchConfig, type LaunchOptions, launch } from '../engine/launch.js';
import { currentDevice } from '../engine/storage.js';
import type { KernelIr } from '../kernel/ir.js';
import { type Constants, defineKernel, type KernelFunction } from '../kernel/language.js';
import type { Target } from '../kernel/target.js';
import type { BufferSchema, Schema } from '../kernel/types.js';
import { ptxOf } from '../runtime/cuda/inspect.js';
import type { Dim3, KernelInfo } from '../runtime/device.js';
import { SIM_TARGET, type SimArguments, type Simulation, simulate } from '../runtime/sim/launch.js';
import type { RunOptions } from '../runtime/sim/run.js';
import { type Language, sourceOf } from '../runtime/source.js';
import type { Tensor } from './tensor.js';

/** What a launch takes: tensors or `allocate`d memory for buffers, numbers (bool: booleans, i64: bigints) for scalars. */
export type LaunchArguments<S extends Schema> = {
  readonly [K in keyof S]: S[K] extends BufferSchema
    ? Tensor | DeviceArray
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
   * Run on the current device, on the arguments' own memory: what the kernel writes is changed in place. Resolves when
   * the work is queued; what reads the memory later comes after it, also if the launch is on a stream of its own.
   * Where the CPU cannot split the kernel at its barriers, it runs in the simulator and says so once.
   * @example saxpy.launch({ grid: 4, block: 256, stream: s }, { a: 2, x, y, n: 1000 })
   * @throws ArgumentError, DTypeError if the arguments are not what the parameters say
   * @throws DeviceError for a cluster on a GPU before Hopper
   */
  launch(config: LaunchOptions, args: LaunchArguments<S>): Promise<void> {
    return launch(this.ir, config, args as Readonly<Record<string, Tensor | DeviceArray | number>>);
  }

  /**
   * Run in the simulator, on typed arrays, which are changed in place.
   * @throws SimulatorError at the first fault, with the kernel's line, the block and the thread
   */
  simulate(config: LaunchConfig, args: SimArguments, options?: RunOptions): Simulation {
    return simulate(this.ir, config, args, options);
  }

  /**
   * What the GPU's compiler makes of the kernel for such blocks: registers, shared and local memory, occupancy.
   * @throws DeviceError if the current device has no such figures, which only `cuda` has
   */
  info(config: Pick<LaunchConfig, 'block' | 'sharedBytes'>): KernelInfo {
    const device = currentDevice();
    if (!device.inspect)
      throw new DeviceError(
        `[${this.name}] registers and occupancy are known on a GPU only: the current device is ${device.name}. See useDevice('cuda').`,
      );
    return device.inspect(this.ir, blockOf(config.block), config.sharedBytes);
  }

  /**
   * The kernel as PTX, for blocks of at most `block` threads. Needs NVRTC; of the GPU, if one is the current device,
   * else of Hopper. @throws DeviceError if there is no NVRTC
   */
  ptx(config: Pick<LaunchConfig, 'block'>): string {
    const { target } = currentDevice();
    const gpu: Target = target.name === 'cuda' ? target : { ...SIM_TARGET, name: 'cuda', capability: 90 };
    return ptxOf(
      this.ir,
      blockOf(config.block).reduce((n, d) => n * d),
      gpu,
    );
  }

  /** The kernel as CUDA C++, WebAssembly text, the simulator's JavaScript, or Heddle's IR. */
  source(language: Language): string {
    return sourceOf(this.ir, language);
  }
}

function blockOf(block: LaunchConfig['block']): Dim3 {
  const [x, y = 1, z = 1] = typeof block === 'number' ? [block] : block;
  return [x, y, z];
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
export function ceilDiv(a: number, b: number): number {
  requireArgument('ceilDiv', 'a', a, atLeast(0));
  requireArgument('ceilDiv', 'b', b, above(0));
  return Math.ceil(a / b);
}
