/** Launches compiled together, and their runs: kernel by kernel the first time, as a CUDA graph from then on. */
import { DeviceError } from '../../../core/errors.js';
import { during } from '../../../core/phases.js';
import type { Scalar } from '../../../kernel/ir/ops.js';
import type { DeviceBuffer, Launch, Program, Stream } from '../../device.js';
import type { CudaContext } from '../driver/context.js';
import type { CudaStream } from '../driver/stream.js';
import type { Streams } from '../driver/streams.js';
import type { CudaMemory } from '../memory/memory.js';
import { ArgumentBlock } from './arguments.js';
import { CudaGraph } from './graph.js';
import type { PlannedLaunch } from './plan.js';

/** Most nodes of a graph that holds several runs. The time to build one grows with them, and is waited for. */
const MOST_NODES = 512;

export class CudaProgram implements Program {
  readonly launches: readonly Launch[];
  readonly plan: readonly PlannedLaunch[];
  readonly #context: CudaContext;
  readonly #streams: Streams;
  readonly #memory: CudaMemory;
  readonly #args: ArgumentBlock;
  /** Of the slots, as `args` has them. */
  readonly #addresses: Float64Array;
  /** By the number of runs they hold. */
  readonly #graphs = new Map<number, CudaGraph>();
  /** Those that are told of every run. */
  readonly #told: readonly (() => void)[];
  #started = false;
  #disposed = false;

  constructor(
    context: CudaContext,
    streams: Streams,
    memory: CudaMemory,
    launches: readonly Launch[],
    plan: readonly PlannedLaunch[],
  ) {
    this.#context = context;
    this.#streams = streams;
    this.#memory = memory;
    this.launches = launches;
    this.plan = plan;
    this.#told = plan.flatMap((launch) => ('routine' in launch && launch.routine.begins) || []);
    this.#args = new ArgumentBlock(context.driver, launches);
    this.#addresses = new Float64Array(this.#args.slots);
  }

  run(slots: readonly DeviceBuffer[], times = 1, stream?: Stream): void {
    const context = this.#context;
    if (this.#disposed) throw new DeviceError('This program has been disposed of.');
    if (slots.length < this.#args.slots)
      throw new DeviceError(`The program uses ${this.#args.slots} buffers, ${slots.length} were given.`);
    if (times < 1 || this.plan.length === 0) return;
    context.activate();
    context.remember(this);
    const own = this.#streams.begin(stream);
    try {
      this.#setAddresses(slots, own);
      if (this.#told.length > 0) for (let i = 0; i < times; i++) for (const begins of this.#told) begins();
      if (own || context.step) for (let i = 0; i < times; i++) this.#launchEach(own?.handle);
      else if (!this.#started && times === 1) this.#launchEach();
      else this.#launchGraphs(times);
    } catch (error) {
      throw context.failure(error);
    }
    this.#started ||= !own;
  }

  setScalar(launch: number, argument: number, value: Scalar): void {
    this.#args.setScalar(launch, argument, value);
    for (const graph of this.#graphs.values()) graph.update([launch]);
  }

  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.#context.release(() => {
      for (const launch of this.plan) if ('routine' in launch) launch.routine.dispose();
      for (const graph of this.#graphs.values()) graph.dispose();
    });
    this.#graphs.clear();
  }

  #setAddresses(slots: readonly DeviceBuffer[], stream: CudaStream | undefined): void {
    const addresses = this.#addresses;
    const memory = this.#memory;
    for (let i = 0; i < addresses.length; i++) {
      const address = memory.use(slots[i]!, stream);
      if (address === addresses[i]) continue;
      addresses[i] = address;
      this.#args.set(i, address);
    }
  }

  #launchEach(stream = this.#context.stream): void {
    const { driver, step } = this.#context;
    const { api } = driver;
    this.plan.forEach((launch, i) => {
      try {
        if ('fn' in launch) {
          const { fn, grid, block, sharedBytes, clusters } = launch;
          const args = this.#args.pointers[i]!;
          if (clusters) api.cuLaunchKernelEx(clusters.on(stream), fn.handle, args, 0);
          else api.cuLaunchKernel(fn.handle, ...grid, ...block, sharedBytes, stream, args, 0);
        } else launch.routine.enqueue(stream, this.#args.values(i));
        if (step) this.#streams.finish(stream);
      } catch (error) {
        throw this.#context.failure(error, launch);
      }
    });
  }

  #launchGraphs(times: number): void {
    // A power of two, as the numbers of runs often are: none is left over then.
    const most = 2 ** Math.max(0, Math.floor(Math.log2(MOST_NODES / this.plan.length)));
    const copies = Math.min(times, most);
    const graph = this.#graphOf(copies);
    for (let left = times; left >= copies; left -= copies) graph.launch();
    // One by one: a graph of the rest would take longer to build than it saves.
    const rest = times % copies;
    const single = rest > 0 ? this.#graphOf(1) : undefined;
    for (let i = 0; i < rest; i++) single!.launch();
  }

  #graphOf(copies: number): CudaGraph {
    const addresses = this.#addresses;
    const known = this.#graphs.get(copies);
    if (!known || known.isDisposed) return this.#build(copies);
    let changed: Set<number> | undefined;
    for (let i = 0; i < addresses.length; i++) {
      if (known.addresses[i] === addresses[i]) continue;
      known.addresses[i] = addresses[i]!;
      changed ??= new Set();
      for (const launch of this.#args.usersOf(i)) changed.add(launch);
    }
    if (!changed) return known;
    try {
      known.update(changed);
      return known;
    } catch (error) {
      this.#graphs.delete(copies);
      known.dispose();
      // A library may do other things for other addresses, which a graph that is made cannot.
      if (![...changed].some((i) => 'routine' in this.plan[i]!)) throw error;
      return this.#build(copies);
    }
  }

  #build(copies: number): CudaGraph {
    const graph = during(
      'graph',
      () => new CudaGraph(this.#context, this.plan, this.#args, copies, this.#addresses),
    );
    this.#graphs.set(copies, graph);
    return graph;
  }
}
