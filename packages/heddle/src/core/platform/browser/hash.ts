/** SHA-256 (FIPS 180-4): a browser's own one answers with a promise. */
import type * as node from '../node/hash.js';

/** The first 32 bits of the fractional parts of a root of the first `count` primes. */
function rootsOfPrimes(count: number, root: (prime: number) => number): Int32Array {
  const primes: number[] = [];
  for (let n = 2; primes.length < count; n++) if (primes.every((p) => n % p > 0)) primes.push(n);
  return Int32Array.from(primes, (p) => (root(p) % 1) * 2 ** 32);
}
/** The state to begin with, and the constants of the rounds. */
let tables: { readonly first: Int32Array; readonly rounds: Int32Array } | undefined;

const rotate = (x: number, by: number): number => (x >>> by) | (x << (32 - by));

export function sha256(...parts: readonly (string | Uint8Array)[]): Uint8Array {
  const bytes = padded(parts.map((p) => (typeof p === 'string' ? new TextEncoder().encode(p) : p)));
  const view = new DataView(bytes.buffer);
  tables ??= { first: rootsOfPrimes(8, Math.sqrt), rounds: rootsOfPrimes(64, Math.cbrt) };
  const { rounds } = tables;
  const state = tables.first.slice();
  const w = new Int32Array(64);
  for (let block = 0; block < bytes.length; block += 64) {
    for (let i = 0; i < 16; i++) w[i] = view.getInt32(block + 4 * i);
    for (let i = 16; i < 64; i++) {
      const x = w[i - 15]!;
      const y = w[i - 2]!;
      const s0 = rotate(x, 7) ^ rotate(x, 18) ^ (x >>> 3);
      const s1 = rotate(y, 17) ^ rotate(y, 19) ^ (y >>> 10);
      w[i] = w[i - 16]! + s0 + w[i - 7]! + s1;
    }
    mix(state, w, rounds);
  }
  const digest = new DataView(new ArrayBuffer(32));
  for (let i = 0; i < 8; i++) digest.setInt32(4 * i, state[i]!);
  return new Uint8Array(digest.buffer);
}

function mix(state: Int32Array, w: Int32Array, rounds: Int32Array): void {
  let [a, b, c, d, e, f, g, h] = state as unknown as readonly [
    ...[number, number, number, number],
    ...[number, number, number, number],
  ];
  for (let i = 0; i < 64; i++) {
    const s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
    const t1 = (h + s1 + ((e & f) ^ (~e & g)) + rounds[i]! + w[i]!) | 0;
    const s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
    const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + t1) | 0, c, b, a, (t1 + t2) | 0];
  }
  [a, b, c, d, e, f, g, h].forEach((v, i) => {
    state[i]! += v;
  });
}

/** All bytes, a 1 bit, zeros, and the number of bits in the last 8 bytes: a multiple of 64 bytes. */
function padded(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  const bytes = new Uint8Array(Math.ceil((length + 9) / 64) * 64);
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  bytes[length] = 0x80;
  new DataView(bytes.buffer).setBigUint64(bytes.length - 8, BigInt(length) * 8n);
  return bytes;
}

const hex = (bytes: Uint8Array): string =>
  Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');

export const sha256Hex: typeof node.sha256Hex = (...parts) => hex(sha256(...parts));

export const randomHex: typeof node.randomHex = (bytes) =>
  hex(Uint8Array.from({ length: bytes }, () => Math.random() * 256));

export const systemCrc32: typeof node.systemCrc32 = undefined;
