/** From a kernel and its arguments to a run: compiles the JavaScript, binds memory, checks the launch. */
import { arrayOf, type TypedArray } from '../../core/dtype.js';
import { ArgumentError, DTypeError } from '../../core/errors.js';
import { debug } from '../../core/log.js';
import type { KernelIr } from '../../kernel/ir.js';
import { type Scalar, wrap } from '../../kernel/ops.js';
import { MOST_SHARED_BYTES, type Target } from '../../kernel/target.js';
import { isBuffer } from '../../kernel/types.js';
import { type JsKernel, KIT, renderJs } from '../../render/js.js';
import { type Dim3, requireClusters } from '../device.js';
import { elementsOf, WatchedMemory } from './memory.js';
import { Run, type RunOptions } from './run.js';
import {
  runThreads,
  runWaitingThreads,
  type ThreadFunction,
  type WaitingThreadFunction,
} from './scheduler.js';
import { Shadow } from './shadow.js';

/** What the simulator is, to those who write kernels for it: a small GPU. */
export const SIM_TARGET: Target = {
  name: 'sim',
  model: 'threads',
  units: 4,
  fma: true,
  maxThreadsPerBlock: 1024,
  sharedBytesPerBlock: MOST_SHARED_BYTES,
  capability: 90,
  libraries: new Set(),
};

/** A grid or block: x alone, or x, y and z where given. */
export type Extent = number | readonly [x: number, y?: number, z?: number];

export interface LaunchConfig {
  readonly grid: Extent;
  readonly block: Extent;
  /** Bytes of the dynamic shared array, if the kernel has one. */
  readonly sharedBytes?: number;
  /** Blocks of a thread-block cluster, at most 8, whose extents divide the grid's. Default: 1. */
  readonly cluster?: Extent;
}

type Bind = (
  run: Run,
  args: readonly (WatchedMemory | Scalar)[],
  shared: readonly WatchedMemory[],
) => ThreadFunction | WaitingThreadFunction;

interface Compiled {
  readonly js: JsKernel;
  readonly bind: Bind;
}

const compiled = new WeakMap<KernelIr, Compiled>();

/** The JavaScript of a kernel, compiled once. */
function compile(ir: KernelIr): Compiled {
  let known = compiled.get(ir);
  if (!known) {
    const js = renderJs(ir);
    debug(4, () => `[sim] ${ir.name}\n${js.source}`);
    const factory = new Function(...Object.keys(KIT), 'run', 'args', 'shared', `'use strict';\n${js.source}`);
    known = { js, bind: (...environment) => factory(...Object.values(KIT), ...environment) };
    compiled.set(ir, known);
  }
  return known;
}

/**
 * Remembers accesses from launch to launch. Parameters that look at the same memory share what is remembered, so
 * that races between them are seen.
 */
export class Sanitizer {
  private epoch = 0;
  private readonly shadows = new WeakMap<ArrayBufferLike, Map<number, Shadow>>();

  /** The shadow of a buffer by places of `bytes`. Launches are ordered, so those of other sizes need not be asked. */
  private shadowOf(buffer: ArrayBufferLike, bytes: number): Shadow {
    let widths = this.shadows.get(buffer);
    if (!widths) {
      widths = new Map();
      this.shadows.set(buffer, widths);
    }
    let shadow = widths.get(bytes);
    if (!shadow) {
      shadow = new Shadow();
      widths.set(bytes, shadow);
    }
    return shadow;
  }

  /**
   * Run one launch to its end. `args` are in the order of the parameters, buffers as typed arrays.
   * @throws SimulatorError at the first finding
   */
  launch(
    ir: KernelIr,
    config: LaunchConfig,
    args: readonly (TypedArray | Scalar)[],
    options: RunOptions = {},
  ): Run {
    const { js, bind } = compile(ir);
    const gridDim = checkExtent(ir, 'grid', config.grid, 0);
    const blockDim = checkExtent(ir, 'block', config.block, 1);
    const sharedBytes = config.sharedBytes ?? 0;
    checkLimits(ir, blockDim, sharedBytes);
    if (config.cluster !== undefined)
      requireClusters(ir.name, checkExtent(ir, 'cluster', config.cluster, 1), gridDim);
    const run = new Run({ sites: js.sites, arrays: ir.arrays }, gridDim, blockDim, this.epoch, options);
    const places = smallestElements(ir, args);
    const bound = ir.params.map((p, i) => {
      const arg = args[i]!;
      if (!isBuffer(p.schema)) return wrap(p.schema, arg as Scalar);
      const data = arg as TypedArray;
      const bytes = places.get(data.buffer)!;
      return WatchedMemory.global(run, p.name, data, this.shadowOf(data.buffer, bytes), bytes);
    });
    const shared = ir.arrays
      .filter((a) => a.space === 'shared')
      .map((a) => WatchedMemory.shared(run, a, sharedBytes));
    const thread = bind(run, bound, shared);
    try {
      if (js.waits) runWaitingThreads(run, thread as WaitingThreadFunction);
      else runThreads(run, thread as ThreadFunction);
    } finally {
      this.epoch = run.epoch;
    }
    return run;
  }
}

/** For each buffer, the bytes of the smallest elements that a parameter sees in it. */
function smallestElements(
  ir: KernelIr,
  args: readonly (TypedArray | Scalar)[],
): Map<ArrayBufferLike, number> {
  const smallest = new Map<ArrayBufferLike, number>();
  ir.params.forEach(({ schema }, i) => {
    if (!isBuffer(schema)) return;
    const { buffer } = args[i] as TypedArray;
    smallest.set(buffer, Math.min(smallest.get(buffer) ?? schema.dtype.bytes, schema.dtype.bytes));
  });
  return smallest;
}

/** The three sizes of a grid or block. @throws ArgumentError unless they are whole numbers from `least` on. */
function checkExtent(ir: KernelIr, what: 'grid' | 'block' | 'cluster', extent: Extent, least: number): Dim3 {
  const [x, y = 1, z = 1] = typeof extent === 'number' ? [extent] : extent;
  for (const size of [x, y, z]) {
    if (!Number.isInteger(size) || size < least) {
      throw new ArgumentError(
        `[${ir.name}] ${what} (${[x, y, z].join(',')}): sizes must be whole numbers from ${least} on.`,
      );
    }
  }
  return [x, y, z];
}

function checkLimits(ir: KernelIr, [x, y, z]: Dim3, sharedBytes: number): void {
  const { maxThreadsPerBlock, sharedBytesPerBlock } = SIM_TARGET;
  if (x * y * z > maxThreadsPerBlock) {
    throw new ArgumentError(
      `[${ir.name}] block (${x},${y},${z}) has ${x * y * z} threads: at most ${maxThreadsPerBlock} on a GPU. ` +
        'Use a smaller block and a larger grid.',
    );
  }
  const shared = ir.arrays.filter((a) => a.space === 'shared');
  if (shared.some((a) => a.dims[0] === -1) && sharedBytes === 0) {
    throw new ArgumentError(
      `[${ir.name}] has a dynamic shared array: give its size at launch as sharedBytes.`,
    );
  }
  const bytes = shared.reduce((sum, a) => sum + elementsOf(a, sharedBytes) * a.lanes * a.dtype.bytes, 0);
  if (bytes > sharedBytesPerBlock) {
    throw new ArgumentError(
      `[${ir.name}] asks for ${bytes} bytes of shared memory per block: at most ${sharedBytesPerBlock}.`,
    );
  }
}

/** Arguments of a simulation, by parameter name: buffers as the typed arrays of `viewAs`, changed in place. */
export type SimArguments = Readonly<Record<string, TypedArray | Scalar>>;

export interface Simulation {
  /** Loop iterations taken, by all threads together. */
  readonly steps: number;
  /** What the kernel printed, a line each. */
  readonly prints: readonly string[];
}

/**
 * Run a kernel in the simulator, on typed arrays that are changed in place (f16 and bf16 as their bits in a
 * Uint16Array, bool as a Uint8Array).
 * @throws SimulatorError at the first finding, with the kernel's line, the block and the thread
 * @throws ArgumentError for missing or unknown arguments, or a launch that no GPU takes
 * @throws DTypeError for a typed array or scalar that is not what the parameter says
 */
export function simulate(
  ir: KernelIr,
  config: LaunchConfig,
  args: SimArguments,
  options: RunOptions = {},
): Simulation {
  const known = new Set(ir.params.map((p) => p.name));
  const unknown = Object.keys(args).find((name) => !known.has(name));
  if (unknown !== undefined) {
    throw new ArgumentError(
      `[${ir.name}] has no parameter ${unknown}: its parameters are ${[...known].join(', ') || 'none'}.`,
    );
  }
  const ordered = ir.params.map((p) => checkArgument(ir, p, args[p.name]));
  const { steps, prints } = new Sanitizer().launch(ir, config, ordered, options);
  return { steps, prints };
}

function checkArgument(
  ir: KernelIr,
  { name, schema }: KernelIr['params'][number],
  arg: TypedArray | Scalar | undefined,
): TypedArray | Scalar {
  if (arg === undefined) throw new ArgumentError(`[${ir.name}] the argument ${name} is missing.`);
  if (isBuffer(schema)) {
    const wanted = arrayOf(schema.dtype, 0).constructor.name;
    const given = typeof arg === 'object' ? arg.constructor.name : typeof arg;
    if (given !== wanted) {
      throw new DTypeError(
        `[${ir.name}] ${name} is buffer(${schema.dtype.name}), which takes a ${wanted}; got a ${given}.`,
      );
    }
    return arg;
  }
  const wanted = schema.name === 'i64' ? 'bigint' : schema.name === 'bool' ? 'boolean' : 'number';
  if (typeof arg !== wanted) {
    throw new DTypeError(
      `[${ir.name}] ${name} is ${schema.name}, which takes a ${wanted}; got a ${typeof arg}.`,
    );
  }
  return arg;
}
