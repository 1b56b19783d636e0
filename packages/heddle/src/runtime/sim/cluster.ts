/** What the blocks of a cluster have in common: their barrier, and that none ends while others reach into it. */
import { type Clocks, Knowledge } from './clocks.js';
import type { BlockTime, Run } from './run.js';

/** What a block's thread, or a copy of it, does in shared memory of another block of the cluster. */
interface RemoteAccess {
  readonly what: string;
  /** The block whose memory it is, and the thread. */
  readonly owner: number;
  readonly by: number;
  readonly agent: number;
  readonly step: number;
  readonly site: number;
}

export class ClusterUnit {
  readonly #run: Run;
  /** Who knows of what, in the cluster that runs. */
  readonly #timed: { readonly clocks: Clocks };
  /** The last access of each agent to the memory of each other block. */
  readonly #remote = new Map<string, RemoteAccess>();
  /** How often each thread has come to the barrier of the cluster, and has gone on from it. */
  #arrived: number[] = [];
  #passed: number[] = [];
  #meetings = 0;
  #arriving = new Knowledge();
  #met = new Knowledge();

  constructor(run: Run, timed: { readonly clocks: Clocks }) {
    this.#run = run;
    this.#timed = timed;
  }

  /** The next cluster begins. */
  begin(): void {
    const threads = this.#run.threads * this.#run.clusterSize;
    this.#remote.clear();
    this.#arrived = Array<number>(threads).fill(0);
    this.#passed = Array<number>(threads).fill(0);
    this.#meetings = 0;
    this.#arriving = new Knowledge();
  }

  /** All threads have returned: whoever has reached into a block, it has waited for that. */
  end(blocks: readonly BlockTime[]): void {
    const run = this.#run;
    for (const { what, owner, by, agent, step, site } of this.#remote.values()) {
      const first = owner * run.threads;
      const knows = (_: unknown, i: number): boolean => this.#timed.clocks.of(first + i).hasSeen(agent, step);
      if (Array.from({ length: run.threads }).some(knows)) continue;
      run.resume(blocks[Math.floor(by / run.threads)]!);
      run.fail(
        'unfinished',
        `${what} block ${owner} of the cluster, which may have ended: none of its threads waits for it. ` +
          'Call arriveCluster() and waitCluster() at the end of all blocks, or wait for it at an mbarrier there.',
        site,
        by % run.threads,
      );
    }
  }

  arrive(site: number): void {
    const me = this.#run.inCluster();
    if (this.#arrived[me]! > this.#passed[me]!)
      this.#run.fail(
        'divergent-barrier',
        'arriveCluster() comes twice, with no waitCluster() in between: each thread arrives, then waits.',
        site,
      );
    this.#arrived[me]!++;
    this.#timed.clocks.release(me, this.#arriving);
  }

  /** Whether all threads of the cluster have arrived, for one that has and waits. */
  mayPass(site: number, thread: number): boolean {
    const me = this.#run.inCluster(thread);
    if (this.#arrived[me] === this.#passed[me])
      this.#run.fail(
        'divergent-barrier',
        'waitCluster() comes with no arriveCluster() before it.',
        site,
        thread,
      );
    if (this.#meetings === this.#passed[me]) return false;
    this.#passed[me]!++;
    this.#timed.clocks.of(me).learn(this.#met);
    return true;
  }

  /** The barrier of the cluster, once all threads have arrived, but for those that have ended; whether they have. */
  meet(ended: readonly boolean[]): boolean {
    const isComing = this.#arrived.some((n) => n > this.#meetings);
    if (!isComing || this.#arrived.some((n, i) => n <= this.#meetings && !ended[i])) return false;
    this.#meetings++;
    this.#met = this.#arriving;
    this.#arriving = new Knowledge();
    return true;
  }

  /** Why a thread waits at the barrier of the cluster for ever. */
  explain(): string {
    const absent = this.#arrived.findIndex((n) => n <= this.#meetings);
    return (
      `waitCluster() waits for ever: ${this.#arrived.filter((n) => n > this.#meetings).length} of the cluster's ` +
      `${this.#arrived.length} threads have arrived, ${this.#run.nameOfCluster(absent)} has not. All threads of all blocks call arriveCluster().`
    );
  }

  /** An access to the memory of a block, which must not end before. */
  reach(owner: number, what: string, site: number, agent: number, step: number): void {
    const run = this.#run;
    if (owner === run.rank) return;
    this.#remote.set(`${owner} ${agent}`, { what, owner, by: run.inCluster(), agent, step, site });
  }
}
