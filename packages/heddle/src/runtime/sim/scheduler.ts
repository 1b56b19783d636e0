/**
 * Runs the threads of a kernel: clusters of blocks one after another, the blocks of a cluster by turns, the threads of a
 * block from one barrier to the next.
 */
import { WARPGROUP } from '../../kernel/ir/asynchronous.js';
import type { Dim3 } from '../device.js';
import type { AsyncEngine } from './engine.js';
import { type BlockTime, coordinates, type Run } from './run.js';
import { hasBegunWaiting, reportWaiting } from './stuck.js';
import { WARP, type WaitingThread, Warp } from './warp.js';

type ThreadIndex = [number, number, number, number, number, number];
/** One thread's program: called with threadIdx x, y, z and blockIdx x, y, z. */
export type ThreadFunction = (...index: ThreadIndex) => void;
export type WaitingThreadFunction = (...index: ThreadIndex) => WaitingThread;

/** Warps of a warpgroup. */
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
        const [x, y, z] = coordinates(t, run.blockDim);
        thread(x, y, z, block[0], block[1], block[2]);
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
    if (!any && engine && meetAsCluster(blocks, engine)) any = true;
  }
  const waiting = blocks.filter(({ warps }) => warps.some((w) => w.requests.some((r) => r)));
  const stuck = waiting.find(({ warps }) => engine && hasBegunWaiting(run, warps, engine)) ?? waiting[0];
  if (!stuck) return;
  run.resume(stuck.time);
  reportWaiting(run, stuck.warps, engine);
}

/** All threads of a cluster that have not returned have arrived at its barrier: those that wait may go on. */
function meetAsCluster(blocks: readonly RunningBlock[], engine: AsyncEngine): boolean {
  const ended = blocks.flatMap(({ warps }) => warps.flatMap((w) => w.requests.map((r) => r === undefined)));
  return engine.cluster.meet(ended);
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
    const site = warps[w]!.requests[0]?.[0];
    if (site === undefined || run.site(site).intrinsic !== 'wgmma') continue;
    const group = warps.slice(w, w + WARPS);
    const requests = group.flatMap((warp) => warp.requests);
    if (requests.length < WARPGROUP || requests.some((r) => r?.[0] !== site)) continue;
    const lanes = requests.map((r) => r!.slice(1)) as unknown as Parameters<AsyncEngine['wgmma']>[2];
    engine.wgmma(site, w * WARP, lanes);
    for (const warp of group) warp.release();
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
  const first = warps.find((w) => w.requests.some((r) => r))?.requests.find((r) => r);
  if (!first || run.site(first[0]).intrinsic !== 'barrier') return false;
  const requests = warps.flatMap((w) => w.requests);
  const [site, expected = requests.length] = first as [number, number?];
  if (requests.some((r, i) => r?.[0] !== (i < expected ? site : undefined))) return false;
  run.passBarrier(site);
  engine?.meet([...requests.keys()]);
  for (const warp of warps) warp.release();
  return true;
}
