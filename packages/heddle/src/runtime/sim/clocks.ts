/**
 * What happens before what in a block whose threads do not all meet at one barrier: vector clocks (F. Mattern, Virtual time
 * and global states of distributed systems, 1989). Each agent counts its own steps: the threads, and what works beside them,
 * the copies that an mbarrier counts, the products of a warpgroup and the tile stores of a thread. What an agent has done at
 * a step is known to whoever has since met it at a barrier or at an mbarrier, directly or by way of others.
 */

/** Steps of the agents, by their numbers; 0 for those of whom nothing is known. */
type Steps = number[];

const join = (into: Steps, from: Steps): void => {
  for (let i = 0; i < from.length; i++) {
    const step = from[i] ?? 0;
    if (step > (into[i] ?? 0)) into[i] = step;
  }
};

/** What a thread knows, or what those who wait at a barrier learn. */
export class Knowledge {
  /** What happened before. */
  readonly seen: Steps = [];
  /** Of that, what threads have fenced for the copy engine and the tensor cores. */
  readonly fenced: Steps = [];

  learn({ seen, fenced }: Knowledge): void {
    join(this.seen, seen);
    join(this.fenced, fenced);
  }

  /** What an agent has done up to a step. */
  see(agent: number, step: number): void {
    if (!this.hasSeen(agent, step)) this.seen[agent] = step;
  }

  hasSeen(agent: number, step: number): boolean {
    return (this.seen[agent] ?? 0) >= step;
  }

  hasFenced(agent: number, step: number): boolean {
    return (this.fenced[agent] ?? 0) >= step;
  }
}

export class Clocks {
  readonly #threads: readonly Knowledge[];
  /** Agents beside the threads, by what they are. */
  readonly #agents = new Map<string, number>();
  /** Copies that each thread has started. */
  readonly #copies = new Map<number, { readonly agent: number; step: number }>();

  constructor(threads: number) {
    this.#threads = Array.from({ length: threads }, (_, thread) => {
      const knowledge = new Knowledge();
      knowledge.seen[thread] = 1;
      return knowledge;
    });
  }

  of(thread: number): Knowledge {
    return this.#threads[thread]!;
  }

  /** The step that a thread is in: what it does now. */
  stepOf(thread: number): number {
    return this.#threads[thread]!.seen[thread]!;
  }

  /** The number of an agent beside the threads. */
  agent(name: string): number {
    let number = this.#agents.get(name);
    if (number === undefined) {
      number = this.#threads.length + this.#agents.size;
      this.#agents.set(name, number);
    }
    return number;
  }

  /** A thread tells others what it has done; what it does from now on they do not know. */
  release(thread: number, to: Knowledge): void {
    const own = this.#threads[thread]!;
    to.learn(own);
    own.seen[thread]!++;
  }

  /** The asynchronous copies of a thread so far. */
  copiesOf(thread: number): { readonly agent: number; readonly step: number } {
    let copies = this.#copies.get(thread);
    if (!copies) {
      copies = { agent: this.agent(`copies of ${thread}`), step: 0 };
      this.#copies.set(thread, copies);
    }
    return copies;
  }

  /** A thread starts another. */
  nextCopy(thread: number): { readonly agent: number; readonly step: number } {
    this.copiesOf(thread);
    const copies = this.#copies.get(thread)!;
    copies.step++;
    return { ...copies };
  }

  /**
   * What a thread has written so far, and the asynchronous copies that it knows of, may be read by the copy engine and the
   * tensor cores.
   */
  fence(thread: number): void {
    const own = this.#threads[thread]!;
    own.fenced[thread] = own.seen[thread]!;
    for (const { agent } of this.#copies.values()) own.fenced[agent] = own.seen[agent] ?? 0;
    own.seen[thread]!++;
  }

  /** These threads have met. */
  meet(threads: readonly number[]): void {
    const all = new Knowledge();
    for (const thread of threads) this.release(thread, all);
    for (const thread of threads) this.#threads[thread]!.learn(all);
  }
}
