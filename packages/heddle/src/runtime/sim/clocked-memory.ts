/** Shared memory in a kernel that waits at mbarriers or in groups: every access must know of those before it that it touches. */
import { arrayOf } from '../../core/dtype.js';
import type { ArrayDecl } from '../../kernel/ir/ir.js';
import { elementsOf } from '../launch-rules.js';
import type { Clocks, Knowledge } from './clocks.js';
import { CheckedMemory } from './memory.js';
import type { Run } from './run.js';

/** One access that is remembered. */
interface PastAccess {
  readonly agent: number;
  readonly step: number;
  readonly site: number;
  /** What did it, if not a plain access of a thread. */
  readonly by?: string | undefined;
}

/** Who reads or writes: a thread, or what works beside the threads. */
export interface Actor {
  readonly agent: number;
  readonly step: number;
  /** Of those on whose behalf it acts: each must know of what was before. */
  readonly knowledge: readonly Knowledge[];
  readonly site: number;
  /** The copy engine or the tensor cores, by name; they see only what is fenced. */
  readonly by?: string;
}

export class ClockedMemory extends CheckedMemory {
  readonly decl: ArrayDecl;
  #clocks!: Clocks;
  #writes: (PastAccess | undefined)[] = [];
  #reads: (PastAccess[] | undefined)[] = [];

  constructor(run: Run, decl: ArrayDecl, sharedBytes: number) {
    const data = arrayOf(decl.dtype, elementsOf(decl, sharedBytes) * decl.lanes);
    super(run, decl.name, data, decl.dims, decl.lanes);
    this.decl = decl;
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

  /** cp.async has no mbarrier here. */
  depart(_element: number, _lanes: number, site: number): never {
    return this.run.fail(
      'race',
      `${this.name}: copyAsync does not work in a kernel that waits at mbarriers or in groups. Use tmaLoad, or load and store.`,
      site,
    );
  }

  #thread(site: number): Actor {
    const { thread } = this.run;
    return { agent: thread, step: this.#clocks.stepOf(thread), knowledge: [this.#clocks.of(thread)], site };
  }

  readBy(actor: Actor, element: number): void {
    const written = this.#writes[element];
    if (!written) this.unwritten(element, actor.site);
    this.#mustKnow(actor, written, element, 'reads', 'writes');
    this.#mustSee(actor, written, element, 'reads');
    const { agent, step, site, by } = actor;
    // Whoever knows of this read knows of those that this one knows of.
    const others = (this.#reads[element] ?? []).filter(
      (r) => r.agent !== agent && !actor.knowledge.every((k) => k.hasSeen(r.agent, r.step)),
    );
    this.#reads[element] = [...others, { agent, step, site, by }];
  }

  writeBy(actor: Actor, element: number): void {
    const written = this.#writes[element];
    if (written) {
      this.#mustKnow(actor, written, element, 'writes', 'writes');
      this.#mustSee(actor, written, element, 'writes');
    }
    for (const read of this.#reads[element] ?? []) this.#mustKnow(actor, read, element, 'writes', 'reads');
    const { agent, step, site, by } = actor;
    this.#reads[element] = undefined;
    this.#writes[element] = { agent, step, site, by };
  }

  #mustKnow(actor: Actor, before: PastAccess, element: number, does: string, did: string): void {
    if (actor.knowledge.every((k) => k.hasSeen(before.agent, before.step))) return;
    const other = before.by ?? this.run.nameThread(before.agent);
    this.run.fail(
      'race',
      `a race on ${this.describe(element)}: ${this.#name(actor)} ${does} what ${other} ${did}${this.run.nameLine(before.site)}, ` +
        `and nothing orders the two. ${this.#remedy(before, did)}`,
      actor.site,
    );
  }

  /** What the copy engine and the tensor cores touch must have been fenced by the thread that wrote it. */
  #mustSee(actor: Actor, written: PastAccess, element: number, does: string): void {
    if (!actor.by || written.by || actor.knowledge.every((k) => k.hasFenced(written.agent, written.step)))
      return;
    this.run.fail(
      'missing-fence',
      `${this.describe(element)}: ${this.#name(actor)} ${does} what ${this.run.nameThread(written.agent)} wrote` +
        `${this.run.nameLine(written.site)} without a fence. Call fenceAsync() after writing, before the barrier.`,
      actor.site,
    );
  }

  #name({ by, agent }: Actor): string {
    return by ?? this.run.nameThread(agent);
  }

  #remedy({ by }: PastAccess, did: string): string {
    if (by?.startsWith('a tile copy')) return 'Wait at its mbarrier with waitBarrier(…) first.';
    if (by?.startsWith('wgmma')) return 'Wait with waitWgmma(…), and arrive after it.';
    if (by?.startsWith('a tile store')) return 'Wait with tmaWait(…) first.';
    return did === 'reads'
      ? 'Those who read arrive at an mbarrier when they are done, and those who write wait for it.'
      : 'Put a barrier, or arrive(…) and waitBarrier(…), between the two.';
  }
}
