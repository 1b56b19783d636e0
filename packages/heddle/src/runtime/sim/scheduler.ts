/** Runs the threads of a kernel: blocks one after another, the threads of a block from one barrier to the next. */
import { INTRINSICS, type IntrinsicRecord, type LaneValue } from '../../kernel/ir/intrinsics.js';
import { isPast } from '../../render/js/names.js';
import type { Dim3 } from '../device.js';
import { coordinates, type Run } from './run.js';

type ThreadIndex = [number, number, number, number, number, number];
/** What a waiting thread says: the site it waits at, and its arguments there. */
type Request = readonly [site: number, ...args: LaneValue[]];
/** A thread of a kernel that waits; it returns the site where it ends. */
type Thread = Generator<Request, number, LaneValue | undefined>;

/** One thread's program: called with threadIdx x, y, z and blockIdx x, y, z. */
export type ThreadFunction = (...index: ThreadIndex) => void;
export type WaitingThreadFunction = (...index: ThreadIndex) => Thread;

const WARP = 32;

const volume = ([x, y, z]: Dim3): number => x * y * z;

/** Run a kernel that never waits: one thread after another. */
export function runThreads(run: Run, thread: ThreadFunction): void {
  const threads = volume(run.blockDim);
  for (let b = 0; b < volume(run.gridDim); b++) {
    const [bx, by, bz] = coordinates(b, run.gridDim);
    run.beginBlock();
    for (let t = 0; t < threads; t++) {
      run.thread = t;
      const [x, y, z] = coordinates(t, run.blockDim);
      thread(x, y, z, bx, by, bz);
    }
  }
}

/** Run a kernel with barriers or warp operations. */
export function runWaitingThreads(run: Run, thread: WaitingThreadFunction): void {
  const threads = volume(run.blockDim);
  for (let b = 0; b < volume(run.gridDim); b++) {
    const block = coordinates(b, run.gridDim);
    run.beginBlock();
    const warps: Warp[] = [];
    for (let first = 0; first < threads; first += WARP) {
      const lanes = Array.from({ length: Math.min(WARP, threads - first) }, (_, i) =>
        thread(...coordinates(first + i, run.blockDim), ...block),
      );
      warps.push(new Warp(run, first, lanes));
    }
    let running = true;
    while (running) {
      for (const warp of warps) warp.advance();
      running = meet(run, warps);
    }
  }
}

/** All threads stand at a barrier or have returned: check that they agree. Whether the block goes on. */
function meet(run: Run, warps: readonly Warp[]): boolean {
  const requests = warps.flatMap((w) => w.requests);
  const waiting = requests.findIndex((r) => r !== undefined);
  if (waiting < 0) return false;
  const [site, expected = requests.length] = requests[waiting]! as [number, number?];
  const other = requests.findIndex((r, i) => r?.[0] !== (i < expected ? site : undefined));
  if (other >= 0) {
    const arrived = requests.filter((r) => r?.[0] === site).length;
    run.fail(
      'divergent-barrier',
      `barrier() is reached by ${arrived} of the block's ${expected} threads: ` +
        `${whereabouts(run, other, requests[other])}. Every thread of a block must reach the same barrier(): ` +
        'move it out of the if or loop, and do not return before it.',
      site,
      waiting,
    );
  }
  run.passBarrier(site);
  return true;
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

  constructor(run: Run, first: number, lanes: readonly Thread[]) {
    this.#run = run;
    this.#first = first;
    this.#lanes = lanes;
    this.requests = lanes.map(() => undefined);
    this.#ends = lanes.map(() => undefined);
  }

  /** Run every lane to its next barrier or its end, through warp operations. */
  advance(): void {
    let results: readonly (LaneValue | undefined)[] = [];
    do {
      this.#lanes.forEach((lane, i) => {
        if (this.#ends[i] !== undefined) return;
        this.#run.thread = this.#first + i;
        const { done, value } = lane.next(results[i]);
        if (done) this.#ends[i] = value;
        this.requests[i] = done ? undefined : value;
      });
      results = this.#exchange();
    } while (results.length > 0);
  }

  /** The results of the warp operation that all lanes wait at; empty if they wait at a barrier or have returned. */
  #exchange(): readonly (LaneValue | undefined)[] {
    const { requests } = this;
    const run = this.#run;
    const asking = requests.findIndex((r) => r && this.#record(r).scope === 'warp');
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
