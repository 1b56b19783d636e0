/** User kernels: the first of Heddle's three levels. */

import { ptxOf } from '#runtime/devices.js';
import { above, atLeast, isPlainObject, requireArgument, shown } from '../core/arguments.js';
import type { DType, DTypeName, MemoryOf } from '../core/dtype.js';
import { ArgumentError, DeviceError, DTypeError } from '../core/errors.js';
import { requireShape, type Shape } from '../core/shape.js';
import type { DeviceArray } from '../engine/device-array.js';
import { type LaunchConfig, type LaunchOptions, launch } from '../engine/launch.js';
import { writtenBy } from '../engine/launch-arguments.js';
import { currentDevice } from '../engine/storage.js';
import type { StageArgument } from '../graph/fused-op.js';
import { requireIndexable } from '../graph/node.js';
import type { KernelIr } from '../kernel/ir/ir.js';
import type { Target } from '../kernel/ir/target.js';
import { type BufferSchema, isBuffer, type Schema } from '../kernel/ir/types.js';
import { type Constants, defineKernel, type KernelFunction } from '../kernel/language/language.js';
import { callKernel } from '../ops/user-kernel/op.js';
import type { KernelInfo } from '../runtime/device.js';
import {
  type BlockConfig,
  blockOf,
  blockSizes,
  launchSizes,
  requireNames,
  requireScalar,
} from '../runtime/launch-rules.js';
import { SIM_TARGET, type SimArguments, type Simulation, simulate } from '../runtime/sim/launch.js';
import type { RunOptions } from '../runtime/sim/run.js';
import { type Language, sourceOf } from '../runtime/source.js';
import { type AnyTensor, Tensor } from './tensor.js';

/** A scalar of a kernel, by its dtype: a boolean, a bigint or a number. */
export type ScalarOf<P> = P extends DType<'bool'> ? boolean : P extends DType<'i64'> ? bigint : number;

/** The arguments of a launch: tensors or `allocate`d memory for buffers, numbers (bool: booleans, i64: bigints) for scalars. */
export type LaunchArguments<S extends Schema> = { readonly [K in keyof S]: LaunchArgument<S[K]> };
/** The argument for one parameter of a kernel at a launch. */
export type LaunchArgument<P> = P extends BufferSchema ? AnyTensor | DeviceArray : ScalarOf<P>;

/** The arguments of a simulation: a typed array for each buffer, scalars as in a launch. */
export type SimulateArguments<S extends Schema> = { readonly [K in keyof S]: SimulateArgument<S[K]> };
/** The argument for one parameter of a kernel in the simulator. */
export type SimulateArgument<P> = P extends BufferSchema<DType<infer N>> ? MemoryOf<N> : ScalarOf<P>;

/** The arguments of `apply`, all but the result `K`: tensors for buffers, numbers (bool: booleans, i64: bigints) for scalars. */
export type ApplyArguments<S extends Schema, K extends keyof S> = {
  readonly [P in Exclude<keyof S, K>]: S[P] extends BufferSchema ? AnyTensor : ScalarOf<S[P]>;
};
/** The tensor that a kernel makes of a buffer parameter. */
export type ResultOf<P> = P extends BufferSchema<DType<infer N extends DTypeName>> ? Tensor<Shape, N> : never;

/** A kernel, made by `kernel`. */
export class Kernel<S extends Schema = Schema> {
  /** The kernel as the compiler sees it. */
  readonly ir: KernelIr;

  /** @internal Kernels are made by `kernel`. */
  constructor(ir: KernelIr) {
    if (typeof ir !== 'object' || ir === null || !('params' in ir))
      throw new ArgumentError('[Kernel] kernels are made by kernel(name, schema, fn), not by new Kernel().');
    this.ir = ir;
  }

  /** The name it was made with. */
  get name(): string {
    return this.ir.name;
  }

  /**
   * Run on the current device, on the arguments' own memory: what the kernel writes is changed in place. Resolves when
   * the work is queued; what reads the memory later comes after it, also if the launch is on its own stream.
   * Where the CPU cannot split the kernel at its barriers, it runs in the simulator and says so once.
   *
   * Accesses are not checked: one out of bounds reads or changes adjacent memory, on the CPU as on a GPU. `simulate`
   * finds it, and so does this call where HEDDLE_DEVICE=sim. A launch takes no part in gradients: what it writes to a
   * parameter is new data, as from `write`. See `apply` for a kernel that does.
   *
   * Every error is a rejection of the promise, never thrown at the call. Inside `jit`, where a launch cannot be, the
   * jitted function throws it as well.
   * @example await saxpy.launch({ grid: 4, block: 256, stream: s }, { a: 2, x, y, n: 1000 })
   * @throws ArgumentError, DTypeError if the sizes are not what a GPU takes, or the arguments not what the parameters
   * say; ArgumentError to write to a view of another tensor, or to one computed from what requires a gradient
   * @throws DeviceError for a cluster on a GPU before Hopper
   */
  launch(config: LaunchOptions, args: LaunchArguments<S>): Promise<void> {
    return launch(this.ir, config, args as Readonly<Record<string, AnyTensor | DeviceArray | number>>);
  }

  /**
   * The kernel as an operation on tensors: a new tensor of what it writes to one of its buffers, computed when it is asked
   * for, within `jit` as part of the program. Its elements are 0 before the kernel runs. The other buffers are only read.
   * `customGradient` gives it a gradient; without one, `backward` refuses to pass it.
   * @param result the buffer that is written, and the shape of the tensor: `{ y: x.shape }`
   * @example const y = cube.apply({ grid: ceilDiv(n, 256), block: 256 }, { x, n }, { y: [n] })
   * @throws ArgumentError, DTypeError if the sizes are not what a GPU takes, the arguments not what the parameters say, or
   * if the kernel writes to another buffer
   */
  apply<const K extends keyof S & string>(
    config: LaunchConfig,
    args: ApplyArguments<S, K>,
    result: Readonly<Record<K, Shape>>,
  ): ResultOf<S[K]> {
    const { ir } = this;
    const { grid, block, sharedBytes } = launchSizes(ir, config, ['grid', 'block', 'sharedBytes']);
    const [name, shape] = resultOf(ir, result);
    requireNames(ir, { ...args, [name]: shape });
    const written = writtenBy(ir);
    const sources: AnyTensor[] = [];
    const given = args as Readonly<Record<string, unknown>>;
    let dtype: DType | undefined;
    const ordered = ir.params.map((param): StageArgument => {
      const { schema } = param;
      if (!isBuffer(schema)) return { value: requireScalar(ir, param, given[param.name]) };
      if (param.name === name) {
        ({ dtype } = schema);
        return { output: true };
      }
      const x = given[param.name];
      if (written.has(param))
        throw new ArgumentError(
          `[${ir.name}] writes to ${param.name}: apply gives the one result ${name}, and changes no other buffer. Use launch, or a kernel for each result.`,
        );
      if (!(x instanceof Tensor) || x.dtype !== schema.dtype)
        throw new DTypeError(
          `[${ir.name}] ${param.name} is a buffer of ${schema.dtype.name}: pass a tensor of it, got ${x instanceof Tensor ? `one of ${x.dtype.name}. Convert with .cast(${schema.dtype.name})` : shown(x)}.`,
        );
      return { input: sources.push(x) - 1 };
    });
    const arg = { grid, block, sharedBytes, args: ordered, shape, dtype: dtype! };
    return new Tensor(
      callKernel(
        ir,
        sources.map((x) => x.node),
        arg,
      ),
    ) as unknown as ResultOf<S[K]>;
  }

  /**
   * Run in the simulator, at once, on typed arrays, which are changed in place: a Float32Array for f32 and so on, f16 and
   * bf16 as their bits in a Uint16Array, bool as a Uint8Array. Two of them may look at the same memory.
   * @throws ArgumentError, DTypeError as `launch`
   * @throws SimulatorError at the first fault, with the kernel's line, the block and the thread
   */
  simulate(config: LaunchConfig, args: SimulateArguments<S>, options?: RunOptions): Simulation {
    return simulate(this.ir, config, args as SimArguments, options);
  }

  /**
   * The resources that the kernel needs on the GPU for such blocks: registers, shared and local memory, occupancy.
   * @throws ArgumentError for blocks that no GPU takes
   * @throws DeviceError if the current device has no such figures, which only `cuda` has
   */
  info(config: BlockConfig): KernelInfo {
    const { block, sharedBytes } = blockSizes(this.ir, config);
    const device = currentDevice();
    if (!device.inspect)
      throw new DeviceError(
        `[${this.name}] registers and occupancy are known on a GPU only: the current device is ${device.name}. See useDevice('cuda').`,
      );
    return device.inspect(this.ir, block, sharedBytes);
  }

  /**
   * The kernel as PTX, for blocks of at most `block` threads. Needs NVRTC; of the GPU, if one is the current device,
   * else of Hopper.
   * @throws ArgumentError for blocks that no GPU takes, DeviceError if there is no NVRTC
   */
  ptx(config: Pick<BlockConfig, 'block'>): string {
    const [x, y, z] = blockOf(this.ir, config);
    const { target } = currentDevice();
    const gpu: Target = target.name === 'cuda' ? target : { ...SIM_TARGET, name: 'cuda', capability: 90 };
    return ptxOf(this.ir, x * y * z, gpu);
  }

  /**
   * The kernel as CUDA C++ ('cuda'), WebAssembly text ('wasm'), the simulator's JavaScript ('js'), or Heddle's IR ('ir').
   * @throws ArgumentError for another language
   */
  source(language: Language): string {
    return sourceOf(this.ir, language);
  }
}

/** The buffer that `apply` makes a tensor of, and its shape. @throws ArgumentError, ShapeError */
function resultOf(ir: KernelIr, result: unknown): readonly [name: string, shape: Shape] {
  const entries = isPlainObject(result) ? Object.entries(result) : [];
  const [entry] = entries;
  const param = ir.params.find((p) => p.name === entry?.[0]);
  if (!entry || entries.length > 1 || !param || !isBuffer(param.schema))
    throw new ArgumentError(
      `[${ir.name}] result is ${shown(result)}, must be the buffer that is written with the shape of its tensor, as in { y: x.shape }.`,
    );
  const [name, shape] = entry as [string, Shape];
  requireShape(ir.name, shape);
  requireIndexable(shape);
  return [name, shape];
}

/**
 * Compile a TypeScript function to a kernel.
 * @example
 * ```ts
 * import { buffer, ceilDiv, f32, i32, kernel, ones } from 'heddle';
 *
 * const scale = kernel('scale', { x: buffer(f32), by: f32, n: i32 }, ({ x, by, n }, { globalId }) => {
 *   const i = globalId.x;
 *   if (i < n) x[i] = by * x[i];
 * });
 * const x = ones([1000]);
 * await scale.launch({ grid: ceilDiv(1000, 256), block: 256 }, { x, by: 3, n: 1000 });
 * console.log(await x.at(':3').array()); // → [ 3, 3, 3 ]
 * ```
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
