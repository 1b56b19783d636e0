/**
 * Philox4x32-10, the counter-based random generator of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"
 * (SC 2011). Block `counter` of stream `key` is a pure function of the two, so any element of a random tensor, on any
 * device, can be computed without the ones before it.
 */

const MULTIPLIER_0 = 0xd2511f53;
const MULTIPLIER_1 = 0xcd9e8d57;
const WEYL_0 = 0x9e3779b9;
const WEYL_1 = 0xbb67ae85;
const ROUNDS = 10;

export type PhiloxKey = readonly [number, number];
export type PhiloxCounter = readonly [number, number, number, number];

/** The upper 32 bits of the 64-bit product of two u32. */
function multiplyHigh(a: number, b: number): number {
  const aLow = a & 0xffff;
  const aHigh = a >>> 16;
  const bLow = b & 0xffff;
  const bHigh = b >>> 16;
  const middle = aHigh * bLow + ((aLow * bLow) >>> 16);
  const carry = aLow * bHigh + (middle & 0xffff);
  return (aHigh * bHigh + Math.floor(middle / 0x10000) + Math.floor(carry / 0x10000)) >>> 0;
}

/** The four u32 of block `counter` of the stream `key`. */
export function philox4x32(counter: PhiloxCounter, key: PhiloxKey): [number, number, number, number] {
  let [c0, c1, c2, c3] = counter;
  let [k0, k1] = key;
  for (let round = 0; round < ROUNDS; round++) {
    const high0 = multiplyHigh(MULTIPLIER_0, c0);
    const low0 = Math.imul(MULTIPLIER_0, c0);
    const high1 = multiplyHigh(MULTIPLIER_1, c2);
    const low1 = Math.imul(MULTIPLIER_1, c2);
    c0 = (high1 ^ c1 ^ k0) >>> 0;
    c1 = low1 >>> 0;
    c2 = (high0 ^ c3 ^ k1) >>> 0;
    c3 = low0 >>> 0;
    k0 = (k0 + WEYL_0) >>> 0;
    k1 = (k1 + WEYL_1) >>> 0;
  }
  return [c0, c1, c2, c3];
}

/** The key of a seed: its lower and upper 32 bits. `seed` is a whole number from 0 to 2^53 − 1. */
export const keyOfSeed = (seed: number): PhiloxKey => [seed >>> 0, Math.floor(seed / 2 ** 32) >>> 0];

/** Philox read one number after another, for work on the host: shuffling, generated data. */
export class PhiloxStream {
  readonly #key: PhiloxKey;
  readonly #stream: number;
  readonly #substream: number;
  #block = 0;
  #words: [number, number, number, number] = [0, 0, 0, 0];
  #used = 4;

  /**
   * @param stream which of the seed's 2^32 independent sequences, such as the number of an epoch
   * @param substream which of the stream's 2^32 independent sequences, such as that of an example
   */
  constructor(seed: number, stream = 0, substream = 0) {
    this.#key = keyOfSeed(seed);
    this.#stream = stream >>> 0;
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
      this.#words = philox4x32([this.#block >>> 0, high, this.#stream, this.#substream], this.#key);
      this.#block++;
      this.#used = 0;
    }
    return this.#words[this.#used++]!;
  }

  /** A whole number from 0 to `bound` − 1, each equally likely. `bound` is at most 2^32. */
  below(bound: number): number {
    const limit = 2 ** 32 - (2 ** 32 % bound);
    let word = this.next();
    while (word >= limit) word = this.next();
    return word % bound;
  }

  /** A number from 0 up to but without 1, with 24 bits, as an f32 holds them. */
  uniform(): number {
    return (this.next() >>> 8) * 2 ** -24;
  }

  /** A number of the standard normal distribution (Box–Muller). */
  normal(): number {
    const radius = Math.sqrt(-2 * Math.log(1 - this.uniform()));
    return radius * Math.cos(2 * Math.PI * this.uniform());
  }
}
