/** From a kernel and its arguments to a run: compiles the JavaScript, binds memory, checks the launch. */
import { requireOptions } from '../../core/arguments.js';
import { arrayOf, type TypedArray } from '../../core/dtype.js';
import { DTypeError } from '../../core/errors.js';
import { debug } from '../../core/log.js';
import { sizeOf } from '../../core/shape.js';
import { argumentsOf, type KernelIr, type Param } from '../../kernel/ir/ir.js';
import { type Scalar, wrap } from '../../kernel/ir/ops.js';
import { H200, type Target } from '../../kernel/ir/target.js';
import { isBuffer } from '../../kernel/ir/types.js';
import { compile } from '../../kernel/passes/pipeline.js';
import { type JsKernel, KIT, renderJs } from '../../render/js/render.js';
import {
  type LaunchConfig,
  type LaunchSizes,
  launchSizes,
  requireNames,
  requireScalar,
} from '../launch-rules.js';
import type { ClockedMemory } from './clocked-memory.js';
import { AsyncEngine } from './engine.js';
import type { Mbarriers } from './mbarriers.js';
import { LocalMemory, SumsMemory, WatchedMemory } from './memory.js';
import { RUN, Run, type RunOptions } from './run.js';
import {
  runClusters,
  runThreads,
  runWaitingThreads,
  type ThreadFunction,
  type WaitingThreadFunction,
} from './scheduler.js';
import { Shadow } from './shadow.js';

/**
 * What the simulator is, to those who write kernels for it: a small GPU, without a cache. Memory inside of a program is then taken over
 * as early as it can be, also from what a launch reads, and a launch that may not have it is found.
 */
export const SIM_TARGET: Target = {
  ...H200,
  name: 'sim',
  units: 4,
  limits: { ...H200.limits, cacheBytes: 0 },
};

/** The parameters of `Bind`, by the names that the JavaScript of a kernel has for them. */
const ENVIRONMENT = ['run', 'args', 'shared', 'local', 'engine'] as const;

type Bind = (
  run: Run,
  args: readonly (WatchedMemory | Scalar)[],
  shared: readonly (WatchedMemory | ClockedMemory | Mbarriers)[],
  /** The registers of array `index` of the kernel, for one thread. */
  local: (index: number) => LocalMemory,
  /** What works beside the threads, if anything does. */
  engine: AsyncEngine | undefined,
) => ThreadFunction | WaitingThreadFunction;

interface SimulatedKernel {
  readonly js: JsKernel;
  readonly bind: Bind;
}

const compiled = new WeakMap<KernelIr, SimulatedKernel>();

/** The JavaScript of a kernel, compiled once. */
function compiledFor(ir: KernelIr): SimulatedKernel {
  let known = compiled.get(ir);
  if (!known) {
    const lowered = compile(ir, SIM_TARGET);
    const js = renderJs(lowered, false);
    debug(4, () => `[sim] ${ir.name}\n${renderJs(lowered).source}`);
    const factory = new Function(...Object.keys(KIT), ...ENVIRONMENT, `'use strict';\n${js.source}`);
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
  #epoch = 0;
  readonly #shadows = new WeakMap<ArrayBufferLike, Map<number, Shadow>>();

  /** The shadow of a buffer by places of `bytes`. Launches are ordered, so those of other sizes need not be asked. */
  #shadowOf(buffer: ArrayBufferLike, bytes: number): Shadow {
    let widths = this.#shadows.get(buffer);
    if (!widths) {
      widths = new Map();
      this.#shadows.set(buffer, widths);
    }
    let shadow = widths.get(bytes);
    if (!shadow) {
      shadow = new Shadow();
      widths.set(bytes, shadow);
    }
    return shadow;
  }

  /**
   * Run one launch to its end. `args` are in the order of `argumentsOf`, buffers as typed arrays.
   * @throws SimulatorError at the first finding
   */
  launch(
    ir: KernelIr,
    { grid, block, sharedBytes, cluster }: LaunchSizes,
    args: readonly (TypedArray | Scalar)[],
    options: RunOptions = {},
  ): Run {
    const { js, bind } = compiledFor(ir);
    const size = cluster ? sizeOf(cluster) : 1;
    const run = new Run(js.sites, grid, block, this.#epoch, options, { size, isTimed: js.asynchronous });
    const places = smallestElements(ir, args);
    const engine = js.asynchronous ? new AsyncEngine(run) : undefined;
    const bound = argumentsOf(ir).map((p, i) => {
      const arg = args[i]!;
      if (!isBuffer(p.schema)) return wrap(p.schema, arg as Scalar);
      const data = arg as TypedArray;
      const bytes = places.get(data.buffer)!;
      const shadow = this.#shadowOf(data.buffer, bytes);
      const memory = WatchedMemory.global(run, p.name, data, shadow, bytes, engine);
      if (p.schema.map) engine?.describe(memory, p.schema.map);
      return memory;
    });
    const Local = engine ? SumsMemory : LocalMemory;
    const local = (index: number): LocalMemory => new Local(run, ir.arrays[index]!);
    /** What a thread of a block does: each block of a cluster has its own shared memory. */
    const thread = () => {
      const dynamic = new ArrayBuffer(sharedBytes);
      const shared = ir.arrays
        .filter((a) => a.space === 'shared')
        .map((a) => engine?.shared(a, dynamic) ?? WatchedMemory.shared(run, a, dynamic));
      return threadOf(ir, bound, (list) => bind(run, list, shared, local, engine));
    };
    try {
      if (engine)
        runClusters(
          run,
          Array.from({ length: size }, thread) as WaitingThreadFunction[],
          engine,
          cluster ?? [1, 1, 1],
        );
      else if (js.waits) runWaitingThreads(run, thread() as WaitingThreadFunction, cluster);
      else runThreads(run, thread() as ThreadFunction, cluster);
    } finally {
      this.#epoch = run.lastEpoch;
    }
    return run;
  }
}

/** What a thread does, with the arguments of its block's list if there are several. */
function threadOf<Argument, Thread extends ThreadFunction | WaitingThreadFunction>(
  { params, lists }: KernelIr,
  args: readonly Argument[],
  bind: (list: readonly Argument[]) => Thread,
): Thread {
  if (lists === undefined) return bind(args);
  const first = args.slice(0, lists) as readonly unknown[] as readonly number[];
  const threads = first.map((_, i) => {
    const from = lists + i * params.length;
    return bind(args.slice(from, from + params.length));
  });
  return ((x: number, y: number, z: number, block: number, ...rest: [number, number]) => {
    const list = first.findLastIndex((from) => from <= block);
    return threads[list]!(x, y, z, block - first[list]!, ...rest);
  }) as Thread;
}

/** For each buffer, the bytes of the smallest elements that a parameter sees in it. */
function smallestElements(
  ir: KernelIr,
  args: readonly (TypedArray | Scalar)[],
): Map<ArrayBufferLike, number> {
  const smallest = new Map<ArrayBufferLike, number>();
  argumentsOf(ir).forEach(({ schema }, i) => {
    if (!isBuffer(schema)) return;
    const { buffer } = args[i] as TypedArray;
    smallest.set(buffer, Math.min(smallest.get(buffer) ?? schema.dtype.bytes, schema.dtype.bytes));
  });
  return smallest;
}

/** Arguments of a simulation, by parameter name: buffers as the typed arrays of `viewAs`, changed in place. */
export type SimArguments = Readonly<Record<string, TypedArray | Scalar>>;

/** What a run in the simulator has shown. */
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
  requireOptions(ir.name, options, RUN);
  const sizes = launchSizes(ir, config);
  requireNames(ir, args);
  const ordered = ir.params.map((p) => checkArgument(ir, p, args[p.name]!));
  const { steps, prints } = new Sanitizer().launch(ir, sizes, ordered, options);
  return { steps, prints };
}

function checkArgument(ir: KernelIr, param: Param, arg: TypedArray | Scalar): TypedArray | Scalar {
  const { name, schema } = param;
  if (!isBuffer(schema)) return requireScalar(ir, param, arg);
  const wanted = arrayOf(schema.dtype, 0).constructor.name;
  const given = typeof arg === 'object' && arg !== null ? arg.constructor.name : typeof arg;
  if (given !== wanted)
    throw new DTypeError(
      `[${ir.name}] ${name} is a buffer of ${schema.dtype.name}, which simulate takes as a ${wanted}; got a ${given}.` +
        (given === 'Tensor' || given === 'DeviceArray'
          ? ' Tensors are for launch: with HEDDLE_DEVICE=sim it runs in the simulator, too.'
          : ''),
    );
  return arg;
}
