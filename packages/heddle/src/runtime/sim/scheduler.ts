/**
 * Runs the threads of a kernel: clusters of blocks one after another, the blocks of a cluster by turns, the threads of a
 * block from one barrier to the next.
 */
import { WARPGROUP } from '../../kernel/ir/asynchronous.js';
import type { IntrinsicRecord, LaneValue } from '../../kernel/ir/intrinsic-record.js';
import { INTRINSICS } from '../../kernel/ir/intrinsics.js';
import { isPast } from '../../render/js/names.js';
import type { Dim3 } from '../device.js';
import type { AsyncEngine } from './engine.js';
import type { Mbarriers } from './mbarriers.js';
import type { At } from './memory.js';
import { type BlockTime, coordinates, type Run } from './run.js';

type ThreadIndex = [number, number, number, number, number, number];
/** What a waiting thread says: the site it waits at, and its arguments there. */
type Request = readonly [site: number, ...args: LaneValue[]];
/** A thread of a kernel that waits; it returns the site where it ends. */
type Thread = Generator<Request, number, LaneValue | undefined>;

/** One thread's program: called with threadIdx x, y, z and blockIdx x, y, z. */
export type ThreadFunction = (...index: ThreadIndex) => void;
export type WaitingThreadFunction = (...index: ThreadIndex) => Thread;

const WARP = 32;
/** Of a warpgroup. */
const WARPS = WARPGROUP / WARP;

const volume = ([x, y, z]: Dim3): number => x * y * z;

/** The coordinates of the blocks of each cluster, one cluster after the other. */
function* clustersOf(grid: Dim3, cluster: Dim3): Generator<Dim3[]> {
  const clusters = grid.map((n, i) => n / cluster[i]!) as unknown as Dim3;
  for (let c = 0; c < volume(clusters); c++) {
    const first = coordinates(c, clusters);
    yield Array.from({ length: volume(cluster) }, (_, rank) => {
      const within = coordinates(rank, cluster);
      return first.map((at, i) => at * cluster[i]! + within[i]!) as unknown as Dim3;
    });
  }
}

const ALONE: Dim3 = [1, 1, 1];

/** Run a kernel that never waits: one thread after another. */
export function runThreads(run: Run, thread: ThreadFunction, cluster = ALONE): void {
  for (const blocks of clustersOf(run.gridDim, cluster))
    for (const [rank, block] of blocks.entries()) {
      run.beginCluster();
      run.beginBlock(block, rank);
      for (let t = 0; t < run.threads; t++) {
        run.thread = t;
        thread(...coordinates(t, run.blockDim), ...block);
      }
    }
}

/** A block that runs. */
interface RunningBlock {
  readonly time: BlockTime;
  readonly warps: readonly Warp[];
}

function startBlock(
  run: Run,
  thread: WaitingThreadFunction,
  [block, rank]: readonly [Dim3, number],
  engine?: AsyncEngine,
): RunningBlock {
  const time = run.beginBlock(block, rank);
  const warps: Warp[] = [];
  for (let first = 0; first < run.threads; first += WARP) {
    const lanes = Array.from({ length: Math.min(WARP, run.threads - first) }, (_, i) =>
      thread(...coordinates(first + i, run.blockDim), ...block),
    );
    warps.push(new Warp(run, first, lanes, engine));
  }
  return { time, warps };
}

/** Run a kernel with barriers or warp operations: one block after another. */
export function runWaitingThreads(run: Run, thread: WaitingThreadFunction, cluster = ALONE): void {
  for (const blocks of clustersOf(run.gridDim, cluster))
    for (const [rank, at] of blocks.entries()) {
      run.beginCluster();
      toTheEnd(run, [startBlock(run, thread, [at, rank])]);
    }
}

/**
 * Run a kernel with work beside its threads: the blocks of a cluster by turns.
 * @param threads what the threads do of each block of a cluster
 */
export function runClusters(
  run: Run,
  threads: readonly WaitingThreadFunction[],
  engine: AsyncEngine,
  cluster: Dim3,
): void {
  for (const blocks of clustersOf(run.gridDim, cluster)) {
    run.beginCluster();
    engine.beginCluster();
    const running = blocks.map((at, rank) => startBlock(run, threads[rank]!, [at, rank], engine));
    toTheEnd(run, running, engine);
    engine.endCluster(running.map(({ time }) => time));
  }
}

/** Run blocks until all threads have returned. @throws SimulatorError where some wait for ever */
function toTheEnd(run: Run, blocks: readonly RunningBlock[], engine?: AsyncEngine): void {
  for (let any = true; any; ) {
    any = false;
    for (const { time, warps } of blocks) {
      run.resume(time);
      while (advance(run, warps, engine)) any = true;
      if (meet(run, warps, engine)) any = true;
    }
    if (!any && engine && meetAsCluster(run, blocks, engine)) any = true;
  }
  const waiting = blocks.filter(({ warps }) => warps.some((w) => w.requests.some((r) => r)));
  const stuck = waiting.find(({ warps }) => engine && hasBegunWaiting(run, warps, engine)) ?? waiting[0];
  if (!stuck) return;
  run.resume(stuck.time);
  reportWaiting(run, stuck.warps, engine);
}

/** All threads of a cluster that have not returned have arrived at its barrier: those that wait may go on. */
function meetAsCluster(run: Run, blocks: readonly RunningBlock[], engine: AsyncEngine): boolean {
  const ended = blocks.flatMap(({ warps }) => warps.flatMap((w) => w.requests.map((r) => r === undefined)));
  if (!engine.cluster.meet(ended)) return false;
  run.passClusterBarrier(blocks.map(({ time }) => time));
  return true;
}

/** Let every warp go on until it waits for others; whether any could. */
function advance(run: Run, warps: readonly Warp[], engine: AsyncEngine | undefined): boolean {
  let any = false;
  for (const warp of warps) if (warp.advance()) any = true;
  if (!engine) return false;
  return multiplyTogether(run, warps, engine) || meetInGroups(run, warps, engine) || any;
}

/** Warpgroups whose threads all wait at one wgmma start it; whether any did. */
function multiplyTogether(run: Run, warps: readonly Warp[], engine: AsyncEngine): boolean {
  let any = false;
  for (let w = 0; w + WARPS <= warps.length; w += WARPS) {
    const group = warps.slice(w, w + WARPS);
    const requests = group.flatMap((warp) => warp.requests);
    const site = requests[0]?.[0];
    if (site === undefined || run.site(site).intrinsic !== 'wgmma' || requests.length < WARPGROUP) continue;
    if (requests.some((r) => r?.[0] !== site)) continue;
    const lanes = requests.map((r) => r!.slice(1)) as unknown as Parameters<AsyncEngine['wgmma']>[2];
    engine.wgmma(site, w * WARP, lanes);
    for (const warp of group) warp.release(() => true);
    any = true;
  }
  return any;
}

/** Threads that have met at a barrier of a group go on; whether any did. */
function meetInGroups(run: Run, warps: readonly Warp[], engine: AsyncEngine): boolean {
  const waiting = new Map<number, { readonly wanted: number; readonly threads: number[] }>();
  warps.forEach((warp, w) => {
    warp.requests.forEach((request, lane) => {
      if (!request || run.site(request[0]).intrinsic !== 'groupBarrier') return;
      const [site, id, wanted] = request as readonly [number, number, number];
      const here = waiting.get(id) ?? { wanted, threads: [] };
      waiting.set(id, here);
      here.threads.push(w * WARP + lane);
      if (here.wanted !== wanted || here.threads.length > wanted)
        run.fail(
          'divergent-barrier',
          `groupBarrier(${id}, ${wanted}) is reached by ${here.threads.length} threads, and by some with ${here.wanted}: ` +
            'give each group of threads a number of its own.',
          site,
          w * WARP + lane,
        );
    });
  });
  let any = false;
  for (const { wanted, threads } of waiting.values()) {
    if (threads.length < wanted) continue;
    engine.meet(threads);
    const members = new Set(threads);
    for (const [w, warp] of warps.entries()) warp.release((lane) => members.has(w * WARP + lane));
    any = true;
  }
  return any;
}

/** Threads that all stand at one barrier of the block go on; whether they do. */
function meet(run: Run, warps: readonly Warp[], engine: AsyncEngine | undefined): boolean {
  const requests = warps.flatMap((w) => w.requests);
  const first = requests.find((r) => r !== undefined);
  if (!first || run.site(first[0]).intrinsic !== 'barrier') return false;
  const [site, expected = requests.length] = first as [number, number?];
  if (requests.some((r, i) => r?.[0] !== (i < expected ? site : undefined))) return false;
  run.passBarrier(site);
  engine?.meet([...requests.keys()]);
  for (const warp of warps) warp.release(() => true);
  return true;
}

/** Some threads wait, and nothing goes on: say why. */
function reportWaiting(run: Run, warps: readonly Warp[], engine: AsyncEngine | undefined): never {
  const requests = warps.flatMap((w) => w.requests);
  const waiting = requests.findIndex((r) => r !== undefined);
  const stuck = stuckOf(run, requests, engine);
  if (stuck >= 0) reportStuck(run, requests, stuck, engine!);
  const [site, expected = requests.length] = requests[waiting]! as [number, number?];
  const other = requests.findIndex((r, i) => r?.[0] !== (i < expected ? site : undefined));
  const arrived = requests.filter((r) => r?.[0] === site).length;
  return run.fail(
    'divergent-barrier',
    `barrier() is reached by ${arrived} of the block's ${expected} threads: ` +
      `${whereabouts(run, other, requests[other])}. Every thread of a block must reach the same barrier(): ` +
      'move it out of the if or loop, and do not return before it.',
    site,
    waiting,
  );
}

/** Whether a thread of the block waits at an mbarrier whose phase has begun. */
const hasBegunWaiting = (run: Run, warps: readonly Warp[], engine: AsyncEngine): boolean =>
  warps.some(({ requests }) => requests.some((r) => r && waitsBegun(run, r, engine)));

const waitsBegun = (run: Run, request: Request, engine: AsyncEngine): boolean =>
  run.site(request[0]).intrinsic === 'waitBarrier' &&
  engine.mbarriers.hasBegun(request[1] as unknown as At<Mbarriers>);

/** The thread that tells most of why nothing goes on, −1 if all wait at barriers of the block. */
function stuckOf(
  run: Run,
  requests: readonly (Request | undefined)[],
  engine: AsyncEngine | undefined,
): number {
  const at = (...names: readonly string[]): number =>
    requests.findIndex((r) => r !== undefined && names.includes(run.site(r[0]).intrinsic!));
  const divergent = at('wgmma', 'groupBarrier');
  if (divergent >= 0) return divergent;
  const begun = requests.findIndex((r) => r !== undefined && waitsBegun(run, r, engine!));
  if (begun >= 0) return begun;
  const waiting = at('waitBarrier', 'waitCluster');
  return waiting >= 0
    ? waiting
    : requests.findIndex((r) => r !== undefined && run.site(r[0]).intrinsic !== 'barrier');
}

/** Nothing goes on: say what the threads wait for. */
function reportStuck(
  run: Run,
  requests: readonly (Request | undefined)[],
  stuck: number,
  engine: AsyncEngine,
): never {
  const [site, ...args] = requests[stuck]!;
  const { intrinsic } = run.site(site);
  if (intrinsic === 'waitBarrier') {
    const [at, parity] = args as unknown as readonly [At<Mbarriers>, number];
    return run.fail('deadlock', engine.mbarriers.explainWait(at, parity), site, stuck);
  }
  if (intrinsic === 'waitCluster') return run.fail('deadlock', engine.cluster.explain(), site, stuck);
  const first = stuck - (stuck % WARPGROUP);
  const [from, count] = intrinsic === 'wgmma' ? [first, WARPGROUP] : [0, Number(args[1])];
  const all = Array.from(requests.keys()).slice(from, intrinsic === 'wgmma' ? first + WARPGROUP : undefined);
  const there = all.filter((thread) => requests[thread]?.[0] === site);
  const absent = all.find((thread) => requests[thread]?.[0] !== site);
  return run.fail(
    'divergent-barrier',
    `${intrinsic}() is reached by ${there.length} of ${count} threads` +
      (absent === undefined ? '. ' : `: ${whereabouts(run, absent, requests[absent])}. `) +
      (intrinsic === 'wgmma'
        ? 'All 128 threads of a warpgroup must reach it together: it is 4 whole warps, from a multiple of 128 threads on.'
        : 'As many threads must reach it as it names.'),
    site,
    stuck,
  );
}

function whereabouts(run: Run, thread: number, request: Request | undefined): string {
  const name = run.nameThread(thread);
  if (!request) return `${name} has returned`;
  return `${name} waits at ${run.site(request[0]).intrinsic}()${run.nameLine(request[0])}`;
}

/**
 * Up to 32 threads that take warp operations together: all that have not returned before. On a GPU each operation
 * names all 32 lanes in its mask, and "all non-exited threads named in mask must execute the same intrinsic with the
 * same mask, or the result is undefined" (CUDA C++ Programming Guide, warp shuffle functions). A thread that runs past
 * the operation and ends later has not exited before it, so it counts. Reductions and votes are of the threads that
 * take part; a shuffle gets nothing defined from one that does not ("if the target thread is inactive, the retrieved
 * value is undefined", there), and tensor cores need all 32 ("undefined if any thread in the warp has exited", PTX ISA,
 * mma.sync; ldmatrix alike).
 */
class Warp {
  /** What each lane waits for; undefined once it has returned. */
  readonly requests: (Request | undefined)[];
  readonly #run: Run;
  readonly #first: number;
  readonly #lanes: readonly Thread[];
  /** The sites where lanes have ended. */
  readonly #ends: (number | undefined)[];
  /** Lanes that need not wait any more. */
  readonly #free: boolean[];
  readonly #engine: AsyncEngine | undefined;

  constructor(run: Run, first: number, lanes: readonly Thread[], engine: AsyncEngine | undefined) {
    this.#run = run;
    this.#first = first;
    this.#lanes = lanes;
    this.requests = lanes.map(() => undefined);
    this.#ends = lanes.map(() => undefined);
    this.#free = lanes.map(() => true);
    this.#engine = engine;
  }

  /** Let these lanes go on. */
  release(which: (lane: number) => boolean): void {
    this.#lanes.forEach((_, i) => {
      if (this.#ends[i] === undefined && which(i)) this.#free[i] = true;
    });
  }

  /** Run every lane to where it waits for other warps, or to its end, through warp operations; whether any went on. */
  advance(): boolean {
    let any = false;
    for (let results: readonly (LaneValue | undefined)[] = []; ; ) {
      this.#passBarriers();
      if (!this.#free.includes(true)) return any;
      any = true;
      this.#lanes.forEach((lane, i) => {
        if (!this.#free[i]) return;
        this.#free[i] = false;
        this.#run.thread = this.#first + i;
        const { done, value } = lane.next(results[i]);
        if (done) this.#ends[i] = value;
        this.requests[i] = done ? undefined : value;
      });
      results = this.#exchange();
      if (results.length > 0) this.release(() => true);
    }
  }

  /** Lanes that wait at mbarriers or the barrier of the cluster, whose phase is complete, go on. */
  #passBarriers(): void {
    const engine = this.#engine;
    if (!engine) return;
    this.requests.forEach((request, lane) => {
      if (!request || this.#free[lane]) return;
      const { intrinsic } = this.#run.site(request[0]);
      const thread = this.#first + lane;
      if (intrinsic === 'waitCluster') this.#free[lane] = engine.cluster.mayPass(request[0], thread);
      if (intrinsic !== 'waitBarrier') return;
      const [site, at, parity] = request as unknown as readonly [number, At<Mbarriers>, number];
      if (engine.mbarriers.mayPass(site, thread, at, parity)) this.#free[lane] = true;
    });
  }

  /** The results of the warp operation that all lanes wait at; empty if they wait at a barrier or have returned. */
  #exchange(): readonly (LaneValue | undefined)[] {
    const { requests } = this;
    const run = this.#run;
    const asking = requests.findIndex((r) => r && this.#record(r).scope === 'warp');
    if (asking < 0) return [];
    // A lane that waits at an mbarrier may still come.
    if (requests.some((r) => r && this.#record(r).waits)) return [];
    const [site] = requests[asking]!;
    const other = requests.findIndex((r, i) => (r ? r[0] !== site : this.#hasPassed(i, site)));
    if (other >= 0) {
      const live = requests.filter((r, i) => r || this.#hasPassed(i, site)).length;
      const where = requests[other]
        ? whereabouts(run, this.#first + other, requests[other])
        : `${run.nameThread(this.#first + other)} has run past it to its end`;
      run.fail(
        'divergent-barrier',
        `${run.site(site).intrinsic}() is reached by ${requests.filter((r) => r?.[0] === site).length} of the ` +
          `warp's ${live} running threads: ${where}. ` +
          'All threads of a warp that have not returned must reach a warp operation together: ' +
          'move it out of the if or loop.',
        site,
        this.#first + asking,
      );
    }
    const lanes = Array.from({ length: WARP }, (_, i) => requests[i]?.slice(1) as LaneValue[] | undefined);
    const record = this.#record(requests[asking]!);
    this.#checkPresence(record, site, lanes);
    return record.warp!(run.site(site).dtype!, lanes);
  }

  /** Whether a lane has ended and left out an operation on its way. */
  #hasPassed(lane: number, operation: number): boolean {
    const end = this.#ends[lane];
    return end !== undefined && isPast(this.#run.site(end).path!, this.#run.site(operation).path!);
  }

  /** The lanes that an operation needs must take part in it. */
  #checkPresence(
    { whole, source }: IntrinsicRecord,
    site: number,
    lanes: readonly (readonly LaneValue[] | undefined)[],
  ): void {
    const run = this.#run;
    const first = this.#first;
    const { intrinsic } = run.site(site);
    const absent = (lane: number): string =>
      lane < this.#lanes.length
        ? `${run.nameThread(first + lane)} has returned`
        : `this warp of the block has ${this.#lanes.length} threads`;
    if (whole && lanes.includes(undefined)) {
      run.fail(
        'inactive-lane',
        `${intrinsic}() needs all 32 lanes of a warp: ${absent(lanes.indexOf(undefined))}. ` +
          'Launch blocks of a multiple of 32 threads, and return after it.',
        site,
        first + lanes.findIndex((l) => l),
      );
    }
    if (!source) return;
    lanes.forEach((args, lane) => {
      if (!args) return;
      const from = source(lane, args[1] as number);
      if (from < 0 || from >= WARP || lanes[from]) return;
      run.fail(
        'inactive-lane',
        `${intrinsic}() reads lane ${from}, whose value is undefined: ${absent(from)}. ` +
          'Read lanes that take part, launch blocks of a multiple of 32 threads, and return after it.',
        site,
        first + lane,
      );
    });
  }

  #record(request: Request): IntrinsicRecord {
    return INTRINSICS[this.#run.site(request[0]).intrinsic!];
  }
}
