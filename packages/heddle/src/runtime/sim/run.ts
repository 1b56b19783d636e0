/** One launch in the simulator: where it stands, what it counts, and how it reports a finding. */
import { aBoolean, above, aFunction, type Rules } from '../../core/arguments.js';
import type { DType } from '../../core/dtype.js';
import { type FindingKind, SimulatorError } from '../../core/errors.js';
import type { Scalar } from '../../kernel/ir/ops.js';
import type { Site } from '../../render/js/render.js';
import type { Dim3 } from '../device.js';

/** What a simulated thread does to memory that others see, or that the threads of a block have met. */
export interface SimulationEvent {
  /** 'atomic' reads and writes; 'barrier' is of the whole block. */
  readonly kind: 'read' | 'write' | 'atomic' | 'barrier';
  /** The parameter or shared array; '' for a barrier. */
  readonly memory: string;
  /** Whether that is shared memory. */
  readonly shared: boolean;
  /** The first element, counted in scalars from the start of the memory. */
  readonly element: number;
  /** How many elements; 0 for a barrier. */
  readonly lanes: number;
  /** The block's coordinates (x, y, z). */
  readonly block: readonly [x: number, y: number, z: number];
  /** The thread's coordinates (x, y, z) in its block; (0, 0, 0) for a barrier. */
  readonly thread: readonly [x: number, y: number, z: number];
  /** The line of the source, from 1, where it is known. */
  readonly line: number | undefined;
}

/** Options of `simulate`. */
export interface RunOptions {
  /** Loop iterations that one thread may take before it counts as running away. */
  readonly stepBudget?: number;
  /** Vectors may start at any element, as on the CPU device; kernels that run nowhere else rely on it. */
  readonly anyAlignment?: boolean;
  /**
   * Is told of every access to buffers and shared memory, and of every barrier, in the order in which they happen. A
   * finding is thrown after what led to it has been told.
   */
  readonly trace?: (event: SimulationEvent) => void;
}

export const RUN: Rules<RunOptions> = { stepBudget: above(0), anyAlignment: aBoolean, trace: aFunction };

const DEFAULT_STEP_BUDGET = 50_000_000;

/** Coordinates of the `index`-th cell of a grid, x fastest. */
export const coordinates = (index: number, [x, y]: Dim3): Dim3 => [
  index % x,
  Math.floor(index / x) % y,
  Math.floor(index / (x * y)),
];

/** Places `first` to `end` − 1 of global memory that an asynchronous copy may still read. */
export interface Loan {
  /** The shadow memory that these are places of. */
  readonly shadow: object;
  readonly first: number;
  readonly end: number;
  readonly thread: number;
  readonly site: number;
}

/** A block of a launch, and where it stands in time. */
export interface BlockTime {
  readonly coordinates: Dim3;
  /** Which block of its cluster it is. */
  readonly rank: number;
  /** Its first epoch, and the one it is in. */
  readonly start: number;
  epoch: number;
}

/**
 * Time is counted in epochs: each block, and each interval between two barriers of a block, begins a new one. What
 * memory remembers of an access is its epoch, so nothing need be cleared between intervals, blocks or launches. The blocks
 * of a cluster run by turns, each in epochs of its own.
 */
export class Run {
  /** The thread that runs now, counted within its block. */
  thread = 0;
  /** The epoch of the block that runs now. */
  epoch: number;
  /** The first epoch of this launch and of the block that runs now. */
  readonly launchStart: number;
  blockStart: number;
  /** Which block of its cluster runs now. */
  rank = 0;
  /** Loop iterations taken, by all threads. */
  steps = 0;
  readonly prints: string[] = [];
  /** What asynchronous copies of this block that have not been waited for may still read. */
  readonly loans = new Set<Loan>();
  readonly blockDim: Dim3;
  readonly gridDim: Dim3;
  /** Blocks of a cluster, and threads of a block. */
  readonly clusterSize: number;
  readonly threads: number;
  /** Whether clocks say what is ordered within a cluster (clocks.ts), as something works beside its threads. */
  readonly isTimed: boolean;
  /** The newest epoch. */
  lastEpoch: number;
  /** The block of each epoch of this launch, the first at 0. */
  readonly #owners: BlockTime[] = [];
  #block: BlockTime | undefined;
  /** The first epoch of the cluster. */
  #clusterStart: number;
  readonly #sites: readonly Site[];
  readonly anyAlignment: boolean;
  readonly #trace: RunOptions['trace'];
  readonly #budget: number;

  constructor(
    sites: readonly Site[],
    gridDim: Dim3,
    blockDim: Dim3,
    lastEpoch: number,
    options: RunOptions = {},
    cluster = { size: 1, isTimed: false },
  ) {
    this.#sites = sites;
    this.gridDim = gridDim;
    this.blockDim = blockDim;
    this.epoch = lastEpoch;
    this.lastEpoch = lastEpoch;
    this.launchStart = lastEpoch + 1;
    this.blockStart = this.launchStart;
    this.#clusterStart = this.launchStart;
    this.clusterSize = cluster.size;
    this.isTimed = cluster.isTimed;
    this.threads = blockDim[0] * blockDim[1] * blockDim[2];
    this.anyAlignment = options.anyAlignment ?? false;
    this.#trace = options.trace;
    this.#budget = options.stepBudget ?? DEFAULT_STEP_BUDGET;
  }

  /** The blocks that begin from here on run together. */
  beginCluster(): void {
    this.#clusterStart = this.lastEpoch + 1;
    this.loans.clear();
  }

  /** A block begins, and runs now. */
  beginBlock(coordinates: Dim3, rank = 0): BlockTime {
    const start = this.lastEpoch + 1;
    const block = { coordinates, rank, start, epoch: start };
    this.#nextEpoch(block);
    this.resume(block);
    return block;
  }

  /** A block of the cluster runs now. */
  resume(block: BlockTime): void {
    this.#block = block;
    this.epoch = block.epoch;
    this.blockStart = block.start;
    this.rank = block.rank;
  }

  /** All threads of the block have met at the barrier at `site`. */
  passBarrier(site: number): void {
    this.tell({ kind: 'barrier', memory: '', shared: false, element: 0, lanes: 0 }, site, 0);
    this.#nextEpoch(this.#block!);
    this.epoch = this.#block!.epoch;
  }

  #nextEpoch(block: BlockTime): void {
    block.epoch = ++this.lastEpoch;
    this.#owners.push(block);
  }

  /** Whether an epoch is one of the cluster that runs now. */
  isOfCluster(epoch: number): boolean {
    return epoch >= this.#clusterStart;
  }

  #ownerOf(epoch: number): BlockTime | undefined {
    return this.#owners[epoch - this.launchStart];
  }

  /** A thread of the block that runs now, counted in the cluster. */
  inCluster(thread = this.thread): number {
    return this.rank * this.threads + thread;
  }

  /** Whether somebody is told of every access. */
  get isTraced(): boolean {
    return this.#trace !== undefined;
  }

  /** Tell of what a thread does at `site`. */
  tell(event: Omit<SimulationEvent, 'block' | 'thread' | 'line'>, site: number, thread = this.thread): void {
    this.#trace?.({
      ...event,
      block: this.blockAt(this.epoch),
      thread: coordinates(thread, this.blockDim),
      line: this.#sites[site]?.at?.line,
    });
  }

  site(number: number): Site {
    return this.#sites[number]!;
  }

  /** Coordinates of the block that ran at an epoch of this launch. */
  blockAt(epoch: number): Dim3 {
    return this.#ownerOf(epoch)?.coordinates ?? [0, 0, 0];
  }

  /** A thread of a block, for people. */
  nameThread(thread: number): string {
    return `thread (${coordinates(thread, this.blockDim).join(',')})`;
  }

  /** A thread that is counted in its cluster, for people. */
  nameOfCluster(thread: number): string {
    const rank = Math.floor(thread / this.threads);
    const name = this.nameThread(thread % this.threads);
    return rank === this.rank ? name : `${name} of block ${rank} of the cluster`;
  }

  /** ` (line 12)`, where a site's line is known. */
  nameLine(site: number): string {
    const line = this.#sites[site]?.at?.line;
    return line === undefined ? '' : ` (line ${line})`;
  }

  /** Stop at a finding. @throws SimulatorError always */
  fail(kind: FindingKind, message: string, site: number, thread = this.thread): never {
    throw new SimulatorError(
      kind,
      message,
      this.#sites[site]?.at,
      this.blockAt(this.epoch),
      coordinates(thread, this.blockDim),
    );
  }

  // ── What a kernel's JavaScript calls ───────────────────────────────────────────────────────────────────────────

  /** An iteration of the loop at `site`, the `taken`-th of this thread. */
  step(taken: number, site: number): void {
    this.steps++;
    if (taken > this.#budget) {
      this.fail(
        'step-budget',
        `a runaway loop: this thread has taken more than ${this.#budget} loop iterations. ` +
          'Does the condition ever become false? A longer kernel needs a larger stepBudget.',
        site,
      );
    }
  }

  assertion(message: string, site: number): never {
    return this.fail('assert', message ? `assert failed: ${message}` : 'assert failed', site);
  }

  print(text: string, dtypes: readonly DType[], values: readonly (Scalar | readonly Scalar[])[]): void {
    let next = 0;
    const line = text.replace(/\{\}/g, (hole) => {
      const at = next++;
      const v = values[at];
      if (v === undefined) return hole;
      const t = dtypes[at]!;
      return Array.isArray(v)
        ? `(${v.map((e) => formatScalar(t, e)).join(', ')})`
        : formatScalar(t, v as Scalar);
    });
    const block = this.blockAt(this.epoch).join(',');
    this.prints.push(`[block (${block}) ${this.nameThread(this.thread)}] ${line}`);
  }
}

/** The shortest text that is read back as the same value of `t`. */
export function formatScalar(t: DType, v: Scalar): string {
  if (typeof v !== 'number' || t.name === 'f64' || Number.isInteger(v) || !Number.isFinite(v))
    return String(v);
  let digits = 1;
  while (Math.fround(Number(v.toPrecision(digits))) !== v) digits++;
  return String(Number(v.toPrecision(digits)));
}
