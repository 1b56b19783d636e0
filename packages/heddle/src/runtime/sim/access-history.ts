/**
 * What the threads of a cluster, and what works beside them, have done to a memory: whoever touches a place must know of the
 * accesses before it (clocks.ts). Two of them may come in any order where neither writes, or both are atomic.
 */
import type { Actor } from './clocks.js';
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

/** Memory that says what its author calls an element. */
interface DescribedMemory {
  describe(element: number): string;
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

const PAGE_BITS = 8;
const PAGE = 1 << PAGE_BITS;

/** What is remembered of places, in pages: those of a large buffer that are touched may lie far apart. */
class Places<Memory> {
  readonly #pages: (Memory | undefined)[][] = [];

  at(place: number): Memory | undefined {
    return this.#pages[place >> PAGE_BITS]?.[place & (PAGE - 1)];
  }

  put(place: number, memory: Memory | undefined): void {
    const number = place >> PAGE_BITS;
    const page = this.#pages[number] ?? new Array<Memory | undefined>(PAGE).fill(undefined);
    this.#pages[number] = page;
    page[place & (PAGE - 1)] = memory;
  }
}

/** Accesses that may come in any order: mostly one. */
type Unordered = PastAccess | PastAccess[];

export class AccessHistory {
  readonly #run: Run;
  /** Whether it is shared memory, for which there is a fence. */
  readonly #isShared: boolean;
  #writes = new Places<PastAccess>();
  /** Since the last write. */
  #reads = new Places<Unordered>();
  #updates = new Places<Unordered>();
  /** Who was found last to know of a write, and which: neighbouring places have mostly been written together. */
  #knower: Actor | undefined;
  #known: PastAccess | undefined;

  constructor(run: Run, isShared: boolean) {
    this.#run = run;
    this.#isShared = isShared;
  }

  /** A cluster begins. */
  begin(): void {
    this.#writes = new Places();
    this.#reads = new Places();
    this.#updates = new Places();
  }

  /** The last write to a place. */
  writeTo(place: number): PastAccess | undefined {
    return this.#writes.at(place);
  }

  /** An access to a place, which is an element of a memory. @throws SimulatorError if it conflicts with one before it */
  access(actor: Actor, does: AccessKind, place: number, memory: DescribedMemory, element: number): void {
    const written = this.#writes.at(place);
    const conflict =
      (written && this.#afterWrite(actor, does, written)) ??
      (does === READ ? undefined : afterAll(actor, does, this.#reads.at(place), READ)) ??
      (does === ATOMIC ? undefined : afterAll(actor, does, this.#updates.at(place), ATOMIC));
    if (conflict) this.#report(conflict, memory.describe(element));
    if (does === WRITE) {
      this.#writes.put(place, actor);
      if (this.#reads.at(place)) this.#reads.put(place, undefined);
      if (this.#updates.at(place)) this.#updates.put(place, undefined);
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
  all: Unordered | undefined,
  did: AccessKind,
): Conflict | undefined {
  if (!all) return undefined;
  const before = Array.isArray(all)
    ? all.find((one) => !knows(actor, one))
    : knows(actor, all)
      ? undefined
      : all;
  return before && { actor, does, before, did, lacks: 'order' };
}

/** Whether an access tells all that one before it does: whoever knows of an access knows of those that it knows of. */
const includes = (actor: Actor, before: PastAccess): boolean =>
  before.agent === actor.agent || knows(actor, before);

function remember(all: Places<Unordered>, actor: Actor, place: number): void {
  const before = all.at(place);
  if (before === actor) return;
  if (!before || (!Array.isArray(before) && includes(actor, before))) all.put(place, actor);
  else if (!Array.isArray(before)) all.put(place, [before, actor]);
  else if (before.at(-1) !== actor) {
    // Looking through all of them each time would take the square of their number.
    const isPowerOfTwo = (before.length & (before.length - 1)) === 0;
    const others =
      isPowerOfTwo || includes(actor, before[0]!) ? before.filter((one) => !includes(actor, one)) : before;
    others.push(actor);
    all.put(place, others.length > 1 ? others : actor);
  }
}
