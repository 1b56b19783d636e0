/**
 * Philox4x32-10, the counter-based random generator of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"
 * (SC 2011). Block `counter` of stream `key` is a pure function of the two, so any element of a random tensor, on any
 * device, can be computed without the ones before it.
 */

import { GAUSSIAN, gaussianOf, SQRT_HALF_BITS } from './gaussian.js';

const MULTIPLIER_0 = 0xd2511f53;
const MULTIPLIER_1 = 0xcd9e8d57;
const WEYL_0 = 0x9e3779b9;
const WEYL_1 = 0xbb67ae85;
const ROUNDS = 10;

export type PhiloxKey = readonly [number, number];
export type PhiloxCounter = readonly [number, number, number, number];

/**
 * The upper 32 bits of the 64-bit product of two u32, from the products of their halves. In integers: every round waits for
 * the one before it, and an f64 takes several times as long.
 */
function multiplyHigh(a: number, b: number): number {
  const aHigh = a >>> 16;
  const aLow = a & 0xffff;
  const bHigh = b >>> 16;
  const bLow = b & 0xffff;
  const middle = (Math.imul(aHigh, bLow) + (Math.imul(aLow, bLow) >>> 16)) | 0;
  const carry = (Math.imul(aLow, bHigh) + (middle & 0xffff)) | 0;
  return (Math.imul(aHigh, bHigh) + (middle >>> 16) + (carry >>> 16)) | 0;
}

/** The four u32 of block `counter` of the stream `key`. */
export function philox4x32(counter: PhiloxCounter, key: PhiloxKey): [number, number, number, number] {
  const block = new Uint32Array(4);
  drawBlock(block, ...counter, ...key);
  return [block[0]!, block[1]!, block[2]!, block[3]!];
}

/** A block, in memory that its reader uses again: millions are drawn one after the other. */
function drawBlock(
  into: Uint32Array,
  ...[c0, c1, c2, c3, k0, k1]: [number, number, number, number, number, number]
): void {
  for (let round = 0; round < ROUNDS; round++) {
    const low0 = Math.imul(MULTIPLIER_0, c0);
    const high0 = multiplyHigh(MULTIPLIER_0, c0);
    const low1 = Math.imul(MULTIPLIER_1, c2);
    const high1 = multiplyHigh(MULTIPLIER_1, c2);
    c0 = high1 ^ c1 ^ k0;
    c1 = low1;
    c2 = high0 ^ c3 ^ k1;
    c3 = low0;
    k0 = (k0 + WEYL_0) | 0;
    k1 = (k1 + WEYL_1) | 0;
  }
  into[0] = c0;
  into[1] = c1;
  into[2] = c2;
  into[3] = c3;
}

/** The key of a seed: its lower and upper 32 bits. `seed` is a whole number from 0 to 2^53 − 1. */
export const keyOfSeed = (seed: number): PhiloxKey => [seed >>> 0, Math.floor(seed / 2 ** 32) >>> 0];

/** Philox read one number after another, for work on the host: shuffling, generated data. */
export class PhiloxStream {
  /** @internal That of the seed. */
  readonly key: PhiloxKey;
  /** @internal Which of the seed's sequences it is. */
  readonly stream: number;
  readonly #substream: number;
  #block = 0;
  readonly #words = new Uint32Array(4);
  #used = 4;

  /**
   * @param stream which of the seed's 2^32 independent sequences, such as the number of an epoch
   * @param substream which of the stream's 2^32 independent sequences, such as that of an example
   */
  constructor(seed: number, stream = 0, substream = 0) {
    this.key = keyOfSeed(seed);
    this.stream = stream >>> 0;
    this.#substream = substream >>> 0;
  }

  /** Words given out so far. Set it to go on from there. */
  get position(): number {
    return 4 * this.#block + this.#used - 4;
  }

  set position(words: number) {
    this.#block = Math.floor(words / 4);
    this.#used = 4;
    for (let word = words % 4; word > 0; word--) this.next();
  }

  /** The next u32. */
  next(): number {
    if (this.#used === 4) {
      const high = Math.floor(this.#block / 2 ** 32) >>> 0;
      const [k0, k1] = this.key;
      drawBlock(this.#words, this.#block >>> 0, high, this.stream, this.#substream, k0, k1);
      this.#block++;
      this.#used = 0;
    }
    return this.#words[this.#used++]!;
  }

  /** A whole number from 0 to `bound` − 1, each equally likely. `bound` is at most 2^32. */
  below(bound: number): number {
    let word = this.next();
    // Every multiple of `bound` up to 2^32 is the end of a full round of results: only words close to 2^32 can be past the last.
    if (word > 2 ** 32 - bound) {
      const limit = 2 ** 32 - (2 ** 32 % bound);
      while (word >= limit) word = this.next();
    }
    return word % bound;
  }

  /** A number from 0 up to but without 1, with 24 bits, as an f32 holds them. */
  uniform(): number {
    return (this.next() >>> 8) * 2 ** -24;
  }

  /** Every element of `values`, drawn one after the other. */
  fill<T extends Float32Array | Float64Array>(values: T, draw: (stream: this) => number): T {
    // By index: the array's own `from` takes several times as long.
    for (let i = 0; i < values.length; i++) values[i] = draw(this);
    return values;
  }

  /** A number of the standard normal distribution (Box–Muller), of 24 bits of each of the next two words. */
  normal(): number {
    AS_FLOAT[0] = 2 ** 24 - (this.next() >>> 8);
    const exponent = (AS_BITS[0]! - SQRT_HALF_BITS) >> 23;
    AS_BITS[0]! -= exponent << 23;
    const turn = this.next() >>> 8;
    const y = (2 ** 22 - Math.min(turn, 2 ** 24 - turn)) * 2 ** -24;
    return gaussianOf(AS_FLOAT[0]!, exponent - 24, y, GAUSSIAN);
  }
}

/** A number as an f32, and its bits. */
const AS_FLOAT = new Float32Array(1);
const AS_BITS = new Int32Array(AS_FLOAT.buffer);
