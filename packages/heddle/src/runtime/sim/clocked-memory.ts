/** Shared memory in a kernel that waits at mbarriers or in groups: every access must know of those before it that it touches. */
import type { TypedArray } from '../../core/dtype.js';
import type { ArrayDecl } from '../../kernel/ir/ir.js';
import type { Clocks, Knowledge } from './clocks.js';
import { CheckedMemory, sharedElements } from './memory.js';
import type { Run } from './run.js';

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

/** Whether all on whose behalf `actor` acts know of an access before it. */
function knows({ knowledge }: Actor, { agent, step }: PastAccess): boolean {
  for (let i = 0; i < knowledge.length; i++) if (!knowledge[i]!.hasSeen(agent, step)) return false;
  return true;
}

/** Of the engine: what it is told of accesses. */
interface Reach {
  remote(memory: ClockedMemory, element: number, rank: number, site: number): TypedArray;
}

export class ClockedMemory extends CheckedMemory {
  readonly decl: ArrayDecl;
  readonly rank: number;
  readonly #reach: Reach;
  #clocks!: Clocks;
  #writes: (PastAccess | undefined)[] = [];
  #reads: (PastAccess[] | undefined)[] = [];
  /** Who was found last to know of a write, and which: neighbouring elements have mostly been written together. */
  #knower: Actor | undefined;
  #known: PastAccess | undefined;

  /** @param dynamic the dynamic shared memory of the block @param rank of that block in its cluster */
  constructor(run: Run, decl: ArrayDecl, dynamic: ArrayBuffer, reach: Reach, rank: number) {
    super(run, decl.name, sharedElements(decl, dynamic), decl.dims, decl.lanes);
    this.decl = decl;
    this.#reach = reach;
    this.rank = rank;
  }

  /** A block begins: nothing is in shared memory yet. */
  begin(clocks: Clocks): void {
    this.#clocks = clocks;
    this.#writes = [];
    this.#reads = [];
  }

  read(element: number, site: number): number {
    return this.readLanes(element, 1, site);
  }

  write(element: number, site: number): number {
    return this.writeLanes(element, 1, site);
  }

  atomic(element: number, site: number): number {
    this.readLanes(element, 1, site);
    return this.writeLanes(element, 1, site);
  }

  readLanes(element: number, lanes: number, site: number): number {
    this.checkBounds(element, lanes, site);
    this.checkAlignment(element, lanes, element, site);
    const actor = this.#thread(site);
    for (let i = element; i < element + lanes; i++) this.readBy(actor, i);
    return element;
  }

  writeLanes(element: number, lanes: number, site: number): number {
    this.checkBounds(element, lanes, site);
    this.checkAlignment(element, lanes, element, site);
    const actor = this.#thread(site);
    for (let i = element; i < element + lanes; i++) this.writeBy(actor, i);
    return element;
  }

  /** What stands there in another block of the cluster. */
  remote(element: number, rank: number, site: number): TypedArray {
    return this.#reach.remote(this, element, rank, site);
  }

  /** A value that a thread of a block of the cluster sends. */
  receive(actor: Actor, element: number): void {
    this.checkBounds(element, 1, actor.site);
    this.writeBy(actor, element);
  }

  /** An asynchronous copy is made where it is started: who has not waited for it does not know of it. */
  depart(element: number, lanes: number, site: number): boolean {
    const thread = this.run.inCluster();
    const copies = this.#clocks.nextCopy(thread);
    const actor = { ...copies, knowledge: [this.#clocks.of(thread)], site, by: 'an asynchronous copy' };
    for (let i = element; i < element + lanes; i++) this.writeBy(actor, i);
    return true;
  }

  /** The thread that copies has waited for these elements. */
  arrive(element: number): void {
    const written = this.#writes[element];
    const thread = this.run.inCluster();
    const { agent } = this.#clocks.copiesOf(thread);
    if (written?.agent === agent) this.#clocks.of(thread).see(agent, written.step);
  }

  #thread(site: number): Actor {
    const thread = this.run.inCluster();
    return { agent: thread, step: this.#clocks.stepOf(thread), knowledge: [this.#clocks.of(thread)], site };
  }

  readBy(actor: Actor, element: number): void {
    const written = this.#writes[element];
    if (!written) this.unwritten(element, actor.site);
    this.#mustFollow(actor, written, element, 'reads');
    const reads = this.#reads[element];
    // Whoever knows of this read knows of those that this one knows of.
    const others = reads?.filter((r) => r.agent !== actor.agent && !knows(actor, r));
    if (others?.length) others.push(actor);
    this.#reads[element] = others?.length ? others : [actor];
  }

  writeBy(actor: Actor, element: number): void {
    const written = this.#writes[element];
    if (written) this.#mustFollow(actor, written, element, 'writes');
    const reads = this.#reads[element];
    if (reads) {
      for (const read of reads) this.#mustKnow(actor, read, element, 'writes', 'reads');
      this.#reads[element] = undefined;
    }
    this.#writes[element] = actor;
  }

  /** What was written must be known to whoever touches it, and fenced for what works beside the threads. */
  #mustFollow(actor: Actor, written: PastAccess, element: number, does: string): void {
    if (this.#knower === actor && this.#known === written) return;
    this.#mustKnow(actor, written, element, does, 'writes');
    this.#mustSee(actor, written, element, does);
    this.#knower = actor;
    this.#known = written;
  }

  #mustKnow(actor: Actor, before: PastAccess, element: number, does: string, did: string): void {
    if (knows(actor, before)) return;
    const other = before.by ?? this.run.nameOfCluster(before.agent);
    this.run.fail(
      'race',
      `a race on ${this.describe(element)}: ${this.#name(actor)} ${does} what ${other} ${did}${this.run.nameLine(before.site)}, ` +
        `and nothing orders the two. ${this.#remedy(before, did)}`,
      actor.site,
    );
  }

  /** What the copy engine and the tensor cores touch must have been fenced by the thread that wrote it. */
  #mustSee(actor: Actor, written: PastAccess, element: number, does: string): void {
    if (!actor.isAsync || written.isAsync) return;
    if (actor.knowledge.every((k) => k.hasFenced(written.agent, written.step))) return;
    const who = written.by ?? this.run.nameOfCluster(written.agent);
    this.run.fail(
      'missing-fence',
      `${this.describe(element)}: ${this.#name(actor)} ${does} what ${who} wrote${this.run.nameLine(written.site)} without a fence. ` +
        (written.by
          ? 'Call fenceAsync() after waiting for the copy.'
          : 'Call fenceAsync() after writing, before the barrier.'),
      actor.site,
    );
  }

  #name({ by, agent }: Actor): string {
    return by ?? this.run.nameOfCluster(agent);
  }

  #remedy({ agent, by }: PastAccess, did: string): string {
    if (by?.startsWith('a tile copy') || by?.startsWith('a store from'))
      return 'Wait at its mbarrier with waitBarrier(…) first.';
    if (by?.startsWith('an asynchronous copy'))
      return 'The thread that copies waits with waitCopies(…), or calls arriveCopies(…) for an mbarrier that others wait at.';
    if (by?.startsWith('wgmma')) return 'Wait with waitWgmma(…), and arrive after it.';
    if (by?.startsWith('a tile store')) return 'Wait with tmaWait(…) first.';
    if (!by && Math.floor(agent / this.run.threads) !== this.run.rank)
      return 'Put arriveCluster() and waitCluster() between the two.';
    return did === 'reads'
      ? 'Those who read arrive at an mbarrier when they are done, and those who write wait for it.'
      : 'Put a barrier, or arrive(…) and waitBarrier(…), between the two.';
  }
}
