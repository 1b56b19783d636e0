/** A warp of a block: what its threads wait for, and the operations that they take together. */
import type { IntrinsicRecord, LaneValue } from '../../kernel/ir/intrinsic-record.js';
import { INTRINSICS } from '../../kernel/ir/intrinsics.js';
import { isPast } from '../../render/js/names.js';
import type { AsyncEngine } from './engine.js';
import type { Mbarriers } from './mbarriers.js';
import type { At } from './memory.js';
import type { Run } from './run.js';

/** What a waiting thread says: the site it waits at, and its arguments there. */
export type WaitRequest = readonly [site: number, ...args: LaneValue[]];
/** A thread of a kernel that waits; it returns the site where it ends. */
export type WaitingThread = Generator<WaitRequest, number, LaneValue | undefined>;

export const WARP = 32;

/** Where a thread is that others wait for. */
export function whereabouts(run: Run, thread: number, request: WaitRequest | undefined): string {
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
export class Warp {
  /** What each lane waits for; undefined once it has returned. */
  readonly requests: (WaitRequest | undefined)[];
  readonly #run: Run;
  readonly #first: number;
  readonly #lanes: readonly WaitingThread[];
  /** The sites where lanes have ended. */
  readonly #ends: (number | undefined)[];
  /** Lanes that need not wait any more. */
  readonly #free: boolean[];
  readonly #engine: AsyncEngine | undefined;

  constructor(run: Run, first: number, lanes: readonly WaitingThread[], engine: AsyncEngine | undefined) {
    this.#run = run;
    this.#first = first;
    this.#lanes = lanes;
    this.requests = lanes.map(() => undefined);
    this.#ends = lanes.map(() => undefined);
    this.#free = lanes.map(() => true);
    this.#engine = engine;
  }

  /** Let these lanes go on. */
  release(which: (lane: number) => boolean = () => true): void {
    for (let i = 0; i < this.#lanes.length; i++)
      if (this.#ends[i] === undefined && which(i)) this.#free[i] = true;
  }

  /** Run every lane to where it waits for other warps, or to its end, through warp operations; whether any went on. */
  advance(): boolean {
    let any = false;
    for (let results: readonly (LaneValue | undefined)[] = []; ; ) {
      this.#passBarriers();
      if (!this.#free.includes(true)) return any;
      any = true;
      for (let i = 0; i < this.#lanes.length; i++) if (this.#free[i]) this.#resume(i, results[i]);
      results = this.#exchange();
      if (results.length > 0) this.release();
    }
  }

  /** Run a lane to where it waits. @param result of the warp operation that it waited at */
  #resume(lane: number, result: LaneValue | undefined): void {
    this.#free[lane] = false;
    this.#run.thread = this.#first + lane;
    const { done, value } = this.#lanes[lane]!.next(result);
    if (done) this.#ends[lane] = value;
    this.requests[lane] = done ? undefined : value;
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
    const asking = this.#asking();
    if (asking < 0) return [];
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

  /** The first lane that waits at a warp operation; −1 if none does, or one waits at an mbarrier, which may still come. */
  #asking(): number {
    let asking = -1;
    let known: number | undefined;
    let record: IntrinsicRecord | undefined;
    for (let i = 0; i < this.requests.length; i++) {
      const request = this.requests[i];
      if (!request) continue;
      // Most lanes wait at the same place.
      if (request[0] !== known) record = this.#record(request);
      known = request[0];
      if (record!.waits) return -1;
      if (asking < 0 && record!.scope === 'warp') asking = i;
    }
    return asking;
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

  #record(request: WaitRequest): IntrinsicRecord {
    return INTRINSICS[this.#run.site(request[0]).intrinsic!];
  }
}
