/**
 * What happens before what in a block whose threads do not all meet at one barrier: vector clocks (F. Mattern, Virtual time
 * and global states of distributed systems, 1989). Each agent counts its own steps: the threads, and what works beside them,
 * the copies that an mbarrier counts, the products of a warpgroup and the tile stores of a thread. What an agent has done at
 * a step is known to whoever has since met it at a barrier or at an mbarrier, directly or by way of others.
 */

/** Steps of the agents, by their numbers; 0 for those of whom nothing is known. */
type Steps = Int32Array;

/** The same steps, with a place for so many agents at least. Places are a power of two: agents come one by one. */
function withRoom(steps: Steps, agents: number): Steps {
  if (agents <= steps.length) return steps;
  const larger = new Int32Array(2 ** Math.ceil(Math.log2(agents)));
  larger.set(steps);
  return larger;
}

function join(into: Steps, from: Steps): Steps {
  const all = withRoom(into, from.length);
  for (let i = 0; i < from.length; i++) if (from[i]! > all[i]!) all[i] = from[i]!;
  return all;
}

function withStep(steps: Steps, agent: number, step: number): Steps {
  const all = withRoom(steps, agent + 1);
  all[agent] = step;
  return all;
}

/** What a thread knows, or what those who wait at a barrier learn. */
export class Knowledge {
  /** What happened before. */
  #seen: Steps = new Int32Array(0);
  /** Of that, what threads have fenced for the copy engine and the tensor cores. */
  #fenced: Steps = this.#seen;

  learn(of: Knowledge): void {
    this.#seen = join(this.#seen, of.#seen);
    this.#fenced = join(this.#fenced, of.#fenced);
  }

  /** What an agent has done up to a step. */
  see(agent: number, step: number): void {
    if (!this.hasSeen(agent, step)) this.#seen = withStep(this.#seen, agent, step);
  }

  /** What has been seen of an agent is fenced. */
  fence(agent: number): void {
    this.#fenced = withStep(this.#fenced, agent, this.lastOf(agent));
  }

  /** The last step of an agent that happened before; 0 for none. */
  lastOf(agent: number): number {
    return this.#seen[agent] ?? 0;
  }

  hasSeen(agent: number, step: number): boolean {
    return this.lastOf(agent) >= step;
  }

  hasFenced(agent: number, step: number): boolean {
    return (this.#fenced[agent] ?? 0) >= step;
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
      knowledge.see(thread, 1);
      return knowledge;
    });
  }

  of(thread: number): Knowledge {
    return this.#threads[thread]!;
  }

  /** The step that a thread is in: what it does now. */
  stepOf(thread: number): number {
    return this.#threads[thread]!.lastOf(thread);
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
    own.see(thread, this.stepOf(thread) + 1);
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
    own.fence(thread);
    for (const { agent } of this.#copies.values()) own.fence(agent);
    own.see(thread, this.stepOf(thread) + 1);
  }

  /** These threads have met. */
  meet(threads: readonly number[]): void {
    const all = new Knowledge();
    for (const thread of threads) this.release(thread, all);
    for (const thread of threads) this.#threads[thread]!.learn(all);
  }
}
