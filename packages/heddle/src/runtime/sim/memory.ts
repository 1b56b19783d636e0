/**
 * Memory as a kernel's JavaScript sees it: the elements (`data`), and the checks that every access asks first. Each
 * check returns the element in `data` that is touched.
 */
import { arrayOf, type TypedArray, viewAs } from '../../core/dtype.js';
import { sizeOf } from '../../core/shape.js';
import type { ArrayDecl } from '../../kernel/ir/ir.js';
import { elementsOf } from '../launch-rules.js';
import type { AccessHistory } from './access-history.js';
import type { Actor } from './clocks.js';
import { Flights } from './flights.js';
import type { Loan, Run } from './run.js';
import { type AccessKind, ATOMIC, READ, reportRace, Shadow, WRITE } from './shadow.js';

/** A memory and the indices of a place in it, as a kernel's JavaScript passes them. */
export type At<M> = readonly [memory: M, indices: readonly number[]];

/** The elements of a shared array: those that are dynamic are all in the same memory. */
export const sharedElements = (decl: ArrayDecl, dynamic: ArrayBuffer): TypedArray =>
  decl.dims[0] === -1
    ? viewAs(decl.dtype, dynamic, 0, elementsOf(decl, dynamic.byteLength) * decl.lanes)
    : arrayOf(decl.dtype, elementsOf(decl) * decl.lanes);

/** Bounds and alignment, the same for all memory. */
export abstract class CheckedMemory {
  readonly data: TypedArray;
  protected readonly run: Run;
  protected readonly name: string;
  protected readonly length: number;
  readonly #dims: readonly number[];
  /** Lanes of an element, where elements are vectors. */
  protected readonly width: number;

  constructor(run: Run, name: string, data: TypedArray, dims: readonly number[], width = 1) {
    this.run = run;
    this.name = name;
    this.data = data;
    this.length = data.length;
    this.#dims = dims;
    this.width = width;
  }

  /** An index of one dimension of several. */
  dim(index: number, dimension: number, site: number): number {
    if (index < 0 || index >= this.#dims[dimension]!) {
      this.run.fail(
        'out-of-bounds',
        `${this.name}: index ${index} of dimension ${dimension} is outside ${this.#range(this.#dims[dimension]!)}, ` +
          `sizes (${this.#dims.join(',')}).`,
        site,
      );
    }
    return index;
  }

  /** Of a place in `data`, what the author calls it. */
  describe(element: number): string {
    let rest = Math.floor(element / this.width);
    if (this.#dims.length < 2) return `${this.name}[${rest}]`;
    const index: number[] = [];
    for (let d = this.#dims.length - 1; d >= 0; d--) {
      index.unshift(rest % this.#dims[d]!);
      rest = Math.floor(rest / this.#dims[d]!);
    }
    return `${this.name}[${index.join('][')}]`;
  }

  protected checkBounds(element: number, lanes: number, site: number): void {
    if (element < 0 || element + lanes > this.length) this.#outside(element, lanes, site);
  }

  protected checkAlignment(element: number, lanes: number, address: number, site: number): void {
    if (address % lanes === 0 || this.run.anyAlignment) return;
    this.run.fail(
      'misaligned',
      `${this.describe(element)}: ${lanes} elements at once must start at a multiple of ${lanes}, ` +
        `this is element ${address}.`,
      site,
    );
  }

  protected unwritten(element: number, site: number): never {
    return this.run.fail(
      'uninitialized-read',
      `${this.describe(element)} is read before it is written. ` +
        'Write it first; if another thread does, put a barrier() in between.',
      site,
    );
  }

  #outside(element: number, lanes: number, site: number): never {
    const index = element / this.width;
    const last = (element + lanes) / this.width - 1;
    const what = last > index ? `[${index}] to [${last}]` : `[${index}]`;
    return this.run.fail(
      'out-of-bounds',
      `${this.name}${what} is outside ${this.#range(this.length / this.width)}. ` +
        'Guard it with an if, or check the launch size.',
      site,
    );
  }

  #range(length: number): string {
    return length > 0 ? `0 to ${length - 1}` : 'an empty array';
  }
}

/** Of a kernel with work beside its threads: who accesses memory, and what has been done to it. */
export interface Timed {
  historyOf(buffer: ArrayBufferLike): AccessHistory;
  thread(site: number): Actor;
}

/** A buffer parameter or a shared array, watched for races; of a shared one, also what was never written. */
export class WatchedMemory extends CheckedMemory {
  protected readonly shared: boolean;
  readonly #shadow: Shadow;
  /** The first element, counted from where the shadow begins. */
  readonly #offset: number;
  /** Places of the shadow that an element takes. */
  readonly #places: number;
  /** Who knows of what within a cluster, if something works beside its threads. */
  #timed: { readonly by: Timed; readonly history: AccessHistory } | undefined;
  /** Undefined before the first asynchronous copy to it. */
  #flights: Flights | undefined;

  protected constructor(
    run: Run,
    name: string,
    data: TypedArray,
    dims: readonly number[],
    width: number,
    shared: boolean,
    shadow: Shadow,
    places: number,
  ) {
    super(run, name, data, dims, width);
    this.shared = shared;
    this.#shadow = shadow;
    this.#offset = data.byteOffset / data.BYTES_PER_ELEMENT;
    this.#places = places;
  }

  /** A buffer parameter; `shadow` is that of the whole buffer, by places of `bytes`, which others may also look at. */
  static global(
    run: Run,
    name: string,
    data: TypedArray,
    shadow: Shadow,
    bytes: number,
    timed: Timed | undefined,
  ): WatchedMemory {
    const Memory = run.isTraced ? TracedMemory : WatchedMemory;
    const memory = new Memory(run, name, data, [], 1, false, shadow, data.BYTES_PER_ELEMENT / bytes);
    memory.#timed = timed && { by: timed, history: timed.historyOf(data.buffer) };
    return memory;
  }

  /** @param dynamic the dynamic shared memory of the block */
  static shared(run: Run, decl: ArrayDecl, dynamic: ArrayBuffer): WatchedMemory {
    const data = sharedElements(decl, dynamic);
    const Memory = run.isTraced ? TracedMemory : WatchedMemory;
    return new Memory(run, decl.name, data, decl.dims, decl.lanes, true, new Shadow(), 1);
  }

  /** An asynchronous copy to these elements has begun: until it has been waited for, nobody may touch them. */
  depart(element: number, lanes: number, site: number): boolean {
    const { thread, blockStart } = this.run;
    this.#flights ??= new Flights(this.length);
    const flight = { thread, site, block: blockStart };
    for (let i = element; i < element + lanes; i++) this.#flights.begin(i, flight);
    return false;
  }

  /** The thread that copies has waited. For the others a barrier is still to come. */
  arrive(element: number, lanes: number, site: number): void {
    for (let i = element; i < element + lanes; i++) {
      this.#flights?.end(i);
      this.#touch(WRITE, i, 1, site);
    }
  }

  /** An asynchronous copy reads these elements until it has been waited for: then that is one more read of them. */
  lend(element: number, lanes: number, site: number): () => void {
    const { run } = this;
    const shadow = this.#shadow;
    const first = (this.#offset + element) * this.#places;
    const loan: Loan = { shadow, first, end: first + lanes * this.#places, thread: run.thread, site };
    run.loans.add(loan);
    return () => {
      run.loans.delete(loan);
      this.#touch(READ, element, lanes, site);
    };
  }

  /** @param by who reads, if it is not the thread that runs */
  read(element: number, site: number, by?: Actor): number {
    this.checkBounds(element, 1, site);
    if (this.#flights?.any) this.#mustHaveArrived(element, 'reads', site);
    const known =
      !this.#timed && this.#places === 1 && this.#shadow.readBefore(this.run, this.#offset + element);
    if (!known) this.#touch(READ, element, 1, site, by);
    return element;
  }

  /** @param by who writes, if it is not the thread that runs */
  write(element: number, site: number, by?: Actor): number {
    this.checkBounds(element, 1, site);
    this.#touch(WRITE, element, 1, site, by);
    return element;
  }

  atomic(element: number, site: number): number {
    this.checkBounds(element, 1, site);
    this.#touch(ATOMIC, element, 1, site);
    return element;
  }

  readLanes(element: number, lanes: number, site: number): number {
    this.#checkLanes(element, lanes, site);
    this.#touch(READ, element, lanes, site);
    return element;
  }

  writeLanes(element: number, lanes: number, site: number): number {
    this.#checkLanes(element, lanes, site);
    this.#touch(WRITE, element, lanes, site);
    return element;
  }

  #checkLanes(element: number, lanes: number, site: number): void {
    this.checkBounds(element, lanes, site);
    this.checkAlignment(element, lanes, this.#offset + element, site);
  }

  #mustHaveArrived(element: number, does: string, site: number): void {
    const { run } = this;
    const flight = this.#flights?.of(element);
    if (!flight) return;
    const { thread, site: from, block } = flight;
    if (block === run.blockStart) this.#clashWithCopy(element, does, thread, from, 'is on its way to', site);
    this.#flights!.end(element);
  }

  /** Nobody may write what an asynchronous copy has still to read. */
  #mustNotBeLent(element: number, place: number, site: number): void {
    for (const { shadow, first, end, thread, site: from } of this.run.loans)
      if (shadow === this.#shadow && place >= first && place < end)
        this.#clashWithCopy(element, 'writes', thread, from, 'may still read', site);
  }

  #clashWithCopy(
    element: number,
    does: string,
    thread: number,
    from: number,
    state: string,
    site: number,
  ): never {
    const { run } = this;
    return run.fail(
      'race',
      `a race on ${this.describe(element)}: ${run.nameThread(run.thread)} ${does} what the asynchronous copy of ` +
        `${run.nameThread(thread)}${run.nameLine(from)} ${state}. Put commitCopies(), waitCopies(…) and a barrier() between the two.`,
      site,
    );
  }

  #touch(way: AccessKind, element: number, lanes: number, site: number, by?: Actor): void {
    const actor = this.#timed && (by ?? this.#timed.by.thread(site));
    for (let i = element; i < element + lanes; i++) {
      if (this.#flights?.any) this.#mustHaveArrived(i, way === READ ? 'reads' : 'writes', site);
      const first = (this.#offset + i) * this.#places;
      for (let place = first; place < first + this.#places; place++)
        this.#touchPlace(way, i, place, site, actor);
    }
  }

  #touchPlace(way: AccessKind, element: number, place: number, site: number, actor: Actor | undefined): void {
    const { run } = this;
    const shared = this.shared;
    const since = shared ? run.blockStart : run.launchStart;
    if (shared) {
      if (way !== WRITE && !this.#shadow.writtenSince(place, since)) this.unwritten(element, site);
    } else if (way !== READ && run.loans.size > 0) this.#mustNotBeLent(element, place, site);
    const rival = this.#shadow.access(run, way, place, since, site);
    if (rival !== undefined) reportRace(run, this.describe(element), way, rival, site);
    if (actor) this.#timed!.history.access(actor, way, place, this, element);
  }
}

/** Memory that tells the run of every access before it is checked. */
class TracedMemory extends WatchedMemory {
  override read(element: number, site: number, by?: Actor): number {
    this.#tell('read', element, 1, site);
    return super.read(element, site, by);
  }

  override write(element: number, site: number, by?: Actor): number {
    this.#tell('write', element, 1, site);
    return super.write(element, site, by);
  }

  override atomic(element: number, site: number): number {
    this.#tell('atomic', element, 1, site);
    return super.atomic(element, site);
  }

  override readLanes(element: number, lanes: number, site: number): number {
    this.#tell('read', element, lanes, site);
    return super.readLanes(element, lanes, site);
  }

  override writeLanes(element: number, lanes: number, site: number): number {
    this.#tell('write', element, lanes, site);
    return super.writeLanes(element, lanes, site);
  }

  #tell(kind: 'read' | 'write' | 'atomic', element: number, lanes: number, site: number): void {
    this.run.tell({ kind, memory: this.name, shared: this.shared, element, lanes }, site);
  }
}

/** An array of one thread, in registers where its indices are constant. */
export class LocalMemory extends CheckedMemory {
  readonly #written: Uint8Array;

  protected get isWritten(): boolean {
    return this.#written.includes(1);
  }

  constructor(run: Run, decl: ArrayDecl) {
    super(run, decl.name, arrayOf(decl.dtype, sizeOf(decl.dims) * decl.lanes), decl.dims, decl.lanes);
    this.#written = new Uint8Array(this.length);
  }

  read(element: number, site: number): number {
    return this.readLanes(element, 1, site);
  }

  write(element: number, site: number): number {
    return this.writeLanes(element, 1, site);
  }

  atomic(element: number, site: number): number {
    return this.readLanes(element, 1, site);
  }

  readLanes(element: number, lanes: number, site: number): number {
    this.checkBounds(element, lanes, site);
    for (let i = element; i < element + lanes; i++) {
      if (this.#written[i] === 0) this.unwritten(i, site);
    }
    return element;
  }

  writeLanes(element: number, lanes: number, site: number): number {
    this.checkBounds(element, lanes, site);
    for (let i = element; i < element + lanes; i++) this.#written[i] = 1;
    return element;
  }
}

/** Where a group of products was started. */
interface Started {
  readonly group: number;
  readonly site: number;
}

/** A local array in a kernel with wgmma, whose products are added to it while the thread goes on. */
export class SumsMemory extends LocalMemory {
  readonly decl: ArrayDecl;
  /** The group of products that was started last, and its place; undefined when nothing works on the array. */
  #busy: Started | undefined;
  /** The last group that reads the array as an operand. */
  #lent: Started | undefined;
  /** Changed by the thread since it was fenced for wgmma. */
  #changed = false;
  /** Of an array that the thread clears, whether it has to wait before it reads it. */
  #isLeft: boolean | undefined;

  constructor(run: Run, decl: ArrayDecl) {
    super(run, decl);
    this.decl = decl;
  }

  override readLanes(element: number, lanes: number, site: number): number {
    this.#mustBeDone('read', site);
    if (this.#isLeft) this.#leftToWgmma(`is read: call waitWgmma(${this.name}, 0) first`, site);
    return super.readLanes(element, lanes, site);
  }

  override writeLanes(element: number, lanes: number, site: number): number {
    this.#mustBeDone('written', site);
    if (this.#isLeft !== undefined) this.#leftToWgmma('is written', site);
    if (this.#lent)
      this.run.fail(
        'unfinished',
        `${this.name} is written while wgmma${this.run.nameLine(this.#lent.site)} may still read it. ` +
          'Call commitWgmma() and waitWgmma(…, 0) first.',
        site,
      );
    this.#changed = true;
    return super.writeLanes(element, lanes, site);
  }

  /** Set to 0, and left to wgmma. */
  clear(site: number): void {
    this.#mustBeDone('cleared', site);
    if (this.#isLeft === undefined && this.isWritten) this.#leftToWgmma('was written before', site);
    super.writeLanes(0, this.length, site);
    this.data.fill(0 as never);
    this.#changed = true;
    this.#isLeft = true;
  }

  /** All products are done. */
  giveBack(): void {
    if (this.#isLeft) this.#isLeft = false;
  }

  fence(): void {
    this.#changed = false;
  }

  /** A wgmma of `thread` adds to the array, as one of a group; or writes the elements of `fresh`. */
  multiplied(
    group: number,
    site: number,
    thread: number,
    fresh?: { readonly base: number; readonly count: number },
  ): void {
    this.#mustBeFenced('adds to', site, thread);
    this.run.thread = thread;
    if (fresh) super.writeLanes(fresh.base, fresh.count, site);
    else if (!this.#busy) super.readLanes(0, this.length, site);
    this.#busy = { group, site };
    if (this.#isLeft === false) this.#isLeft = true;
  }

  /** A wgmma of `thread` reads the array, as one of a group. */
  lent(group: number, site: number, thread: number): void {
    this.#mustBeFenced('reads', site, thread);
    this.run.thread = thread;
    if (this.#isLeft !== undefined) this.#leftToWgmma('is a left operand', site);
    super.readLanes(0, this.length, site);
    this.#lent = { group, site };
  }

  /** The groups up to `done` are; whether none works on the array any more. */
  settle(done: number): boolean {
    if (this.#busy && this.#busy.group <= done) this.#busy = undefined;
    if (this.#lent && this.#lent.group <= done) this.#lent = undefined;
    return !this.#busy && !this.#lent;
  }

  #mustBeFenced(does: string, site: number, thread: number): void {
    if (this.#changed)
      this.run.fail(
        'missing-fence',
        `wgmma ${does} ${this.name}, which the thread has changed: call fenceWgmma(${this.name}) after that.`,
        site,
        thread,
      );
  }

  #leftToWgmma(what: string, site: number): never {
    return this.run.fail('unfinished', `${this.name}, which clearSums leaves to wgmma, ${what}.`, site);
  }

  #mustBeDone(what: string, site: number): void {
    if (!this.#busy) return;
    this.run.fail(
      'unfinished',
      `${this.name} is ${what} while wgmma${this.run.nameLine(this.#busy.site)} may still add to it. ` +
        `Call commitWgmma() and waitWgmma(${this.name}, 0) first.`,
      site,
    );
  }
}
