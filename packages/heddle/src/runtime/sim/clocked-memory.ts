/** Shared memory in a kernel that waits at mbarriers or in groups: every access must know of those before it that it touches. */
import type { TypedArray } from '../../core/dtype.js';
import type { ArrayDecl } from '../../kernel/ir/ir.js';
import { AccessHistory } from './access-history.js';
import type { Actor, Clocks } from './clocks.js';
import { CheckedMemory, sharedElements } from './memory.js';
import type { Run } from './run.js';
import { type AccessKind, ATOMIC, READ, WRITE } from './shadow.js';

/** Of the engine: what it is told of accesses. */
interface Reach {
  remote(memory: ClockedMemory, element: number, rank: number, site: number): TypedArray;
}

export class ClockedMemory extends CheckedMemory {
  readonly decl: ArrayDecl;
  readonly rank: number;
  readonly #reach: Reach;
  #clocks!: Clocks;
  readonly #history: AccessHistory;

  /** @param dynamic the dynamic shared memory of the block @param rank of that block in its cluster */
  constructor(run: Run, decl: ArrayDecl, dynamic: ArrayBuffer, reach: Reach, rank: number) {
    super(run, decl.name, sharedElements(decl, dynamic), decl.dims, decl.lanes);
    this.decl = decl;
    this.#reach = reach;
    this.rank = rank;
    this.#history = new AccessHistory(run, true);
  }

  /** A block begins: nothing is in shared memory yet. */
  begin(clocks: Clocks): void {
    this.#clocks = clocks;
    this.#history.begin();
  }

  read(element: number, site: number): number {
    return this.readLanes(element, 1, site);
  }

  write(element: number, site: number): number {
    return this.writeLanes(element, 1, site);
  }

  atomic(element: number, site: number): number {
    this.checkBounds(element, 1, site);
    this.#mustBeWritten(element, site);
    this.#access(this.#thread(site), ATOMIC, element);
    return element;
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
    const actor = { ...copies, knowledge: this.#clocks.listOf(thread), site, by: 'an asynchronous copy' };
    for (let i = element; i < element + lanes; i++) this.writeBy(actor, i);
    return true;
  }

  /** The thread that copies has waited for these elements. */
  arrive(element: number): void {
    const written = this.#history.writeTo(element);
    const thread = this.run.inCluster();
    const { agent } = this.#clocks.copiesOf(thread);
    if (written?.agent === agent) this.#clocks.of(thread).see(agent, written.step);
  }

  #thread(site: number): Actor {
    const thread = this.run.inCluster();
    return this.#clocks.actor(thread, site);
  }

  readBy(actor: Actor, element: number): void {
    this.#mustBeWritten(element, actor.site);
    this.#access(actor, READ, element);
  }

  writeBy(actor: Actor, element: number): void {
    this.#access(actor, WRITE, element);
  }

  #access(actor: Actor, way: AccessKind, element: number): void {
    this.#history.access(actor, way, element, this, element);
  }

  #mustBeWritten(element: number, site: number): void {
    if (!this.#history.writeTo(element)) this.unwritten(element, site);
  }
}
