/** Elements of an array in shared memory that asynchronous copies are on their way to. */

/** Who copies to an element, where in the source, and when the block began whose thread it is. */
export interface Flight {
  readonly thread: number;
  readonly site: number;
  readonly block: number;
}

/** Typed arrays, as every access asks them while any copy is on its way. */
export class Flights {
  readonly #threads: Int32Array;
  readonly #sites: Int32Array;
  readonly #blocks: Float64Array;
  #count = 0;

  /** @param length elements of the array */
  constructor(length: number) {
    // Of an element that no copy is on its way to: −1.
    this.#threads = new Int32Array(length).fill(-1);
    this.#sites = new Int32Array(length);
    this.#blocks = new Float64Array(length);
  }

  get any(): boolean {
    return this.#count > 0;
  }

  of(element: number): Flight | undefined {
    const thread = this.#threads[element]!;
    if (thread < 0) return undefined;
    return { thread, site: this.#sites[element]!, block: this.#blocks[element]! };
  }

  begin(element: number, { thread, site, block }: Flight): void {
    if (this.#threads[element]! < 0) this.#count++;
    this.#threads[element] = thread;
    this.#sites[element] = site;
    this.#blocks[element] = block;
  }

  end(element: number): void {
    if (this.#threads[element]! < 0) return;
    this.#threads[element] = -1;
    this.#count--;
  }
}
