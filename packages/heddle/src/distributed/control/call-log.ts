/**
 * The collectives that a process has begun, in memory that the thread of the control reads: it shows them to rank 0, which
 * compares them with those of the other ranks. On GPUs nothing else compares them.
 */
import { differenceOf, HEADER_WORDS, placeKey } from '../call.js';

/** Calls that are kept: those of some steps. */
const KEPT = 512;
/** Calls that rank 0 remembers. */
const MOST_KNOWN = 16_384;

export class CallLog {
  /** How many there have been, and the headers of the last ones. */
  readonly shared: Int32Array;

  constructor(shared: Int32Array = new Int32Array(new SharedArrayBuffer(4 * (1 + KEPT * HEADER_WORDS)))) {
    this.shared = shared;
  }

  note(header: Int32Array): void {
    const count = Atomics.load(this.shared, 0) >>> 0;
    this.shared.set(header, 1 + (count % KEPT) * HEADER_WORDS);
    Atomics.store(this.shared, 0, (count + 1) | 0);
  }

  /** The headers of calls from that number on that are still kept, and the number of the next one. */
  from(first: number): { readonly next: number; readonly headers: number[][] } {
    const next = Atomics.load(this.shared, 0) >>> 0;
    const headers: number[][] = [];
    // The oldest are about to be written over.
    for (let i = Math.max(first, next - KEPT / 2); i < next; i++) {
      const at = 1 + (i % KEPT) * HEADER_WORDS;
      headers.push([...this.shared.subarray(at, at + HEADER_WORDS)]);
    }
    return { next, headers };
  }
}

/** Compares the calls of all ranks, in rank 0. */
export class CallComparison {
  /** Calls that one rank of a group has told of, by group and number. */
  readonly #known = new Map<string, { readonly rank: number; readonly words: Int32Array }>();

  /** @returns what two ranks do at the same place, if that is different */
  add(rank: number, headers: readonly (readonly number[])[]): string | undefined {
    for (const header of headers) {
      const words = Int32Array.from(header);
      const key = placeKey(words);
      const other = this.#known.get(key);
      if (!other) this.#known.set(key, { rank, words });
      else if (words.some((word, i) => word !== other.words[i])) return differenceOf(other, { rank, words });
    }
    for (const key of this.#known.keys()) {
      if (this.#known.size <= MOST_KNOWN) break;
      this.#known.delete(key);
    }
    return undefined;
  }
}
