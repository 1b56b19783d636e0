/** mbarriers: what completes their phases, and what those who wait for one learn. */
import type { ArrayDecl } from '../../kernel/ir/ir.js';
import { type Clocks, Knowledge } from './clocks.js';
import type { At } from './memory.js';
import type { Run } from './run.js';

/** An mbarrier in its current phase. */
export interface Mbarrier {
  readonly arrivals: number;
  /** Who began it, for those who use it: they must know. */
  readonly begun: { readonly thread: number; readonly step: number };
  phase: number;
  /** Arrivals and bytes that the phase still waits for. */
  pending: number;
  bytes: number;
  /** What those who have arrived know, and what they knew who completed the last phase. */
  arriving: Knowledge;
  completed: Knowledge;
}

/** An array of mbarriers of one block. */
export class Mbarriers {
  readonly decl: ArrayDecl;
  readonly name: string;
  readonly data = undefined;
  readonly list: (Mbarrier | undefined)[];
  /** Which block of a cluster they belong to. */
  readonly rank: number;

  constructor(decl: ArrayDecl, rank: number) {
    this.decl = decl;
    this.name = decl.name;
    this.rank = rank;
    this.list = Array<undefined>(decl.dims[0]!).fill(undefined);
  }
}

/** What threads do to mbarriers. */
export class MbarrierUnit {
  readonly #run: Run;
  /** Who knows of what, in the cluster that runs. */
  readonly #timed: { readonly clocks: Clocks };

  constructor(run: Run, timed: { readonly clocks: Clocks }) {
    this.#run = run;
    this.#timed = timed;
  }

  init(site: number, [barriers, [i]]: At<Mbarriers>, arrivals: number): void {
    const run = this.#run;
    if (arrivals < 1)
      run.fail('mbarrier', `initBarrier: a phase needs 1 arrival or more, got ${arrivals}.`, site);
    this.#mustBeIn(barriers, i!, site);
    const me = run.inCluster();
    const begun = { thread: me, step: this.#timed.clocks.stepOf(me) };
    const fresh = {
      phase: 0,
      pending: arrivals,
      bytes: 0,
      arriving: new Knowledge(),
      completed: new Knowledge(),
    };
    barriers.list[i!] = { arrivals, begun, ...fresh };
  }

  /** Whether the phase of that parity is complete; the thread then knows what those knew who completed it. */
  mayPass(site: number, thread: number, at: At<Mbarriers>, parity: number): boolean {
    const barrier = this.at(site, at, thread);
    if ((barrier.phase & 1) === (parity & 1)) return false;
    this.#timed.clocks.of(this.#run.inCluster(thread)).learn(barrier.completed);
    return true;
  }

  /** Whether somebody has come in the current phase of an mbarrier. */
  hasBegun([barriers, [i]]: At<Mbarriers>): boolean {
    const { pending, arrivals, bytes } = barriers.list[i!]!;
    return pending < arrivals || bytes !== 0;
  }

  /** Why a thread waits at an mbarrier for ever. */
  explainWait([barriers, [i]]: At<Mbarriers>, parity: number): string {
    const { phase, pending, arrivals, bytes } = barriers.list[i!]!;
    return (
      `waitBarrier(${barriers.name}[${i}], ${parity & 1}) waits for ever: phase ${phase} lacks ${pending} of ` +
      `${arrivals} arrivals` +
      (bytes === 0
        ? '.'
        : ` and ${bytes} bytes of tiles or values: arriveExpect names the bytes of all its tmaLoad and storeRemote.`)
    );
  }

  /** A thread arrives, and names bytes that are to come. */
  arrive(site: number, at: At<Mbarriers>, bytes = 0): void {
    const barrier = this.comingTo(site, at);
    barrier.bytes += bytes;
    barrier.pending--;
    this.#timed.clocks.release(this.#run.inCluster(), barrier.arriving);
    this.settle(barrier);
  }

  /** An mbarrier whose phase waits for one arrival at least. */
  comingTo(site: number, at: At<Mbarriers>): Mbarrier {
    const run = this.#run;
    const barrier = this.at(site, at, run.thread);
    if (barrier.pending === 0)
      run.fail(
        'mbarrier',
        `${at[0].name}[${at[1][0]}]: all ${barrier.arrivals} arrivals of phase ${barrier.phase} are there already. ` +
          'Does initBarrier name as many arrivals as there are?',
        site,
      );
    return barrier;
  }

  /** The phase is complete once nothing is missing. */
  settle(barrier: Mbarrier): void {
    if (barrier.pending > 0 || barrier.bytes !== 0) return;
    barrier.completed = barrier.arriving;
    barrier.arriving = new Knowledge();
    barrier.phase++;
    barrier.pending = barrier.arrivals;
  }

  #mustBeIn({ name, list }: Mbarriers, i: number, site: number): void {
    if (i < 0 || i >= list.length)
      this.#run.fail('out-of-bounds', `${name}[${i}] is outside 0 to ${list.length - 1}.`, site);
  }

  /** The mbarrier at a place, for a thread of the block that runs. */
  at(site: number, [barriers, [i]]: At<Mbarriers>, thread: number): Mbarrier {
    const run = this.#run;
    this.#mustBeIn(barriers, i!, site);
    const barrier = barriers.list[i!];
    const knowledge = this.#timed.clocks.of(run.inCluster(thread));
    if (barrier && knowledge.hasSeen(barrier.begun.thread, barrier.begun.step)) return barrier;
    const isOwn = barriers.rank === run.rank;
    return run.fail(
      'mbarrier',
      `${barriers.name}[${i}]${isOwn ? '' : ` of block ${barriers.rank} of the cluster`} is used before it is initialized: ` +
        `one thread calls initBarrier, then all ${isOwn ? 'a barrier()' : 'threads of the cluster arriveCluster() and waitCluster()'}.`,
      site,
      thread,
    );
  }
}
