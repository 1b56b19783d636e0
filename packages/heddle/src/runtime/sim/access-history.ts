/**
 * What the threads of a cluster, and what works beside them, have done to a memory: whoever touches a place must know of the
 * accesses before it (clocks.ts). Two of them may come in any order where neither writes, or both are atomic.
 */
import type { Knowledge } from './clocks.js';
import type { Run } from './run.js';
import { type AccessKind, ATOMIC, READ, WRITE } from './shadow.js';

/** One access that is remembered. */
interface PastAccess {
  readonly agent: number;
  readonly step: number;
  readonly site: number;
  /** What did it, if not a plain access of a thread. */
  readonly by?: string | undefined;
  /** It was the copy engine or the tensor cores. */
  readonly isAsync?: boolean | undefined;
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

/** Two accesses that nothing orders, or that lack a fence. */
interface Conflict {
  readonly actor: Actor;
  readonly does: AccessKind;
  readonly before: PastAccess;
  readonly did: AccessKind;
  readonly lacks: 'order' | 'fence';
}

/** By whom a tile is stored, on the side of global memory: it is there once the launch has ended. */
export const STORES_TILE = 'a tile store to memory';

const NAMES: Record<AccessKind, string> = {
  [READ]: 'reads',
  [WRITE]: 'writes',
  [ATOMIC]: 'atomically updates',
};

/** Whether all on whose behalf `actor` acts know of an access before it. */
function knows({ knowledge }: Actor, { agent, step }: PastAccess): boolean {
  for (let i = 0; i < knowledge.length; i++) if (!knowledge[i]!.hasSeen(agent, step)) return false;
  return true;
}

export class AccessHistory {
  readonly #run: Run;
  /** Whether it is shared memory, for which there is a fence. */
  readonly #isShared: boolean;
  #writes: (PastAccess | undefined)[] = [];
  /** Since the last write. */
  #reads: (PastAccess[] | undefined)[] = [];
  #updates: (PastAccess[] | undefined)[] = [];
  /** Who was found last to know of a write, and which: neighbouring places have mostly been written together. */
  #knower: Actor | undefined;
  #known: PastAccess | undefined;

  constructor(run: Run, isShared: boolean) {
    this.#run = run;
    this.#isShared = isShared;
  }

  /** A cluster begins. */
  begin(): void {
    this.#writes = [];
    this.#reads = [];
    this.#updates = [];
  }

  /** The last write to a place. */
  writeTo(place: number): PastAccess | undefined {
    return this.#writes[place];
  }

  /** An access to a place. @param element what its author calls it @throws SimulatorError if it conflicts with one before it */
  access(actor: Actor, does: AccessKind, place: number, element: () => string): void {
    const written = this.#writes[place];
    const conflict =
      (written && this.#afterWrite(actor, does, written)) ??
      (does === READ ? undefined : afterAll(actor, does, this.#reads[place], READ)) ??
      (does === ATOMIC ? undefined : afterAll(actor, does, this.#updates[place], ATOMIC));
    if (conflict) this.#report(conflict, element());
    if (does === WRITE) {
      this.#writes[place] = actor;
      if (this.#reads[place]) this.#reads[place] = undefined;
      if (this.#updates[place]) this.#updates[place] = undefined;
    } else remember(does === READ ? this.#reads : this.#updates, actor, place);
  }

  /** What was written must be known to whoever touches it, and fenced for what works beside the threads. */
  #afterWrite(actor: Actor, does: AccessKind, before: PastAccess): Conflict | undefined {
    if (this.#knower === actor && this.#known === before) return undefined;
    const found = { actor, does, before, did: WRITE } as const;
    if (!knows(actor, before)) return { ...found, lacks: 'order' };
    if (!this.#sees(actor, before)) return { ...found, lacks: 'fence' };
    this.#knower = actor;
    this.#known = before;
    return undefined;
  }

  /** What the copy engine and the tensor cores touch must have been fenced by the thread that wrote it. */
  #sees(actor: Actor, written: PastAccess): boolean {
    if (!actor.isAsync || written.isAsync) return true;
    return this.#isShared && actor.knowledge.every((k) => k.hasFenced(written.agent, written.step));
  }

  #report({ actor, does, before, did, lacks }: Conflict, element: string): never {
    const run = this.#run;
    const name = (of: PastAccess): string => of.by ?? run.nameOfCluster(of.agent);
    const who = `${name(actor)} ${NAMES[does]} what ${name(before)}`;
    const line = run.nameLine(before.site);
    if (lacks === 'order')
      return run.fail(
        'race',
        `a race on ${element}: ${who} ${NAMES[did]}${line}, and nothing orders the two. ${this.#remedy(before, did)}`,
        actor.site,
      );
    return run.fail(
      'missing-fence',
      `${element}: ${who} wrote${line} without a fence. ${this.#fence(before)}`,
      actor.site,
    );
  }

  #fence({ by }: PastAccess): string {
    if (!this.#isShared) return 'Of global memory, the copy engine sees what earlier launches have written.';
    return by
      ? 'Call fenceAsync() after waiting for the copy.'
      : 'Call fenceAsync() after writing, before the barrier.';
  }

  #remedy({ agent, by }: PastAccess, did: AccessKind): string {
    const run = this.#run;
    if (by?.startsWith('a tile copy') || by?.startsWith('a store from'))
      return 'Wait at its mbarrier with waitBarrier(…) first.';
    if (by?.startsWith('an asynchronous copy'))
      return 'The thread that copies waits with waitCopies(…), or calls arriveCopies(…) for an mbarrier that others wait at.';
    if (by?.startsWith('wgmma')) return 'Wait with waitWgmma(…), and arrive after it.';
    if (by === STORES_TILE) return 'It is there once the launch has ended: leave it to the next one.';
    if (by?.startsWith('a tile store')) return 'Wait with tmaWait(…) first.';
    if (!by && Math.floor(agent / run.threads) !== run.rank)
      return 'Put arriveCluster() and waitCluster() between the two.';
    return did === READ
      ? 'Those who read arrive at an mbarrier when they are done, and those who write wait for it.'
      : 'Put a barrier, or arrive(…) and waitBarrier(…), between the two.';
  }
}

function afterAll(
  actor: Actor,
  does: AccessKind,
  all: readonly PastAccess[] | undefined,
  did: AccessKind,
): Conflict | undefined {
  const before = all?.find((one) => !knows(actor, one));
  return before && { actor, does, before, did, lacks: 'order' };
}

/** Whoever knows of an access knows of those that it knows of. */
function remember(all: (PastAccess[] | undefined)[], actor: Actor, place: number): void {
  const others = all[place]?.filter((one) => one.agent !== actor.agent && !knows(actor, one));
  if (others?.length) others.push(actor);
  all[place] = others?.length ? others : [actor];
}
