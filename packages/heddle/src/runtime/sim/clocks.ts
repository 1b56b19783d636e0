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
  if (into.length === 0) return copied(into, from);
  const all = withRoom(into, from.length);
  for (let i = 0; i < from.length; i++) if (from[i]! > all[i]!) all[i] = from[i]!;
  return all;
}

/** The steps of `from`, in the place of `into` where they fit it. */
function copied(into: Steps, from: Steps): Steps {
  if (into.length !== from.length) return from.slice();
  into.set(from);
  return into;
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

  /** Learn what includes all that is known already. */
  replaceBy(of: Knowledge): void {
    this.#seen = copied(this.#seen, of.#seen);
    this.#fenced = copied(this.#fenced, of.#fenced);
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

/** Who reads or writes: a thread, or what works beside the threads. */
export interface Actor {
  readonly agent: number;
  readonly step: number;
  /** Of those on whose behalf it acts: each must know of what was before. */
  readonly knowledge: readonly Knowledge[];
  readonly site: number;
  /** What it is, if not a plain access of a thread. */
  readonly by?: string;
  /** The copy engine or the tensor cores: they see only what is fenced. */
  readonly isAsync?: boolean;
}

export class Clocks {
  readonly #threads: readonly Knowledge[];
  /** The same, a list for each. */
  readonly #lists: readonly (readonly [Knowledge])[];
  /** Each thread at each site, in the step when it was last there. */
  readonly #actors: readonly (Actor | undefined)[][];
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
    this.#lists = this.#threads.map((knowledge) => [knowledge]);
    this.#actors = this.#threads.map(() => []);
  }

  of(thread: number): Knowledge {
    return this.#threads[thread]!;
  }

  /** What a thread knows, as that of somebody who acts for it alone. */
  listOf(thread: number): readonly [Knowledge] {
    return this.#lists[thread]!;
  }

  /** The step that a thread is in: what it does now. */
  stepOf(thread: number): number {
    return this.#threads[thread]!.lastOf(thread);
  }

  /** A thread that does something itself. */
  actor(thread: number, site: number): Actor {
    const own = this.#actors[thread]!;
    const step = this.stepOf(thread);
    let actor = own[site];
    if (actor?.step !== step) {
      actor = { agent: thread, step, knowledge: this.listOf(thread), site };
      own[site] = actor;
    }
    return actor;
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
    for (const thread of threads) all.learn(this.#threads[thread]!);
    for (const thread of threads) {
      const own = this.#threads[thread]!;
      own.replaceBy(all);
      own.see(thread, this.stepOf(thread) + 1);
    }
  }
}
