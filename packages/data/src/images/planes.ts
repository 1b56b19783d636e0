/** Pixels as networks take them: one plane for each channel. */
import type { Normalization } from 'heddle/data';
import { byteTable, normalizationOf } from 'heddle/internal/data/normalization.js';

/** What the bytes of each channel become as inputs, f32: a table of 256 for each channel. */
export function byteTables(normalize: Normalization, channels: 1 | 3): readonly Float32Array[] {
  const own = normalizationOf('imageFolder', normalize, [channels]).map(byteTable);
  return Array.from({ length: channels }, (_, i) => own[own.length === 1 ? 0 : i]!);
}

/**
 * Write the pixels of an image, channels side by side, into `to` as planes: all of its first channel, then the next.
 * @param pixels a view that begins at a multiple of 4 bytes
 * @param tables what the bytes of each channel become; there are as many channels
 */
export function writePlanes(
  pixels: Uint8Array,
  tables: readonly Float32Array[],
  to: Float32Array,
  at: number,
): void {
  const [first, second, third] = tables as readonly [Float32Array, Float32Array?, Float32Array?];
  const count = pixels.length / tables.length;
  if (!second || !third) {
    for (let i = 0; i < count; i++) to[at + i] = first[pixels[i]!]!;
    return;
  }
  writeColours(pixels, [first, second, third], to, at);
}

/** Four pixels are twelve bytes, which are read as three words: half the time that reading bytes takes. */
function writeColours(
  pixels: Uint8Array,
  [red, green, blue]: readonly [Float32Array, Float32Array, Float32Array],
  to: Float32Array,
  at: number,
): void {
  const count = pixels.length / 3;
  const words = new Uint32Array(pixels.buffer, pixels.byteOffset, Math.floor(count / 4) * 3);
  // Three indices into one array, not one into an array for each plane: V8 keeps those in registers.
  let r = at;
  let g = at + count;
  let b = at + 2 * count;
  for (let word = 0; word < words.length; word += 3) {
    const first = words[word]!;
    const second = words[word + 1]!;
    const third = words[word + 2]!;
    to[r] = red[first & 255]!;
    to[r + 1] = red[first >>> 24]!;
    to[r + 2] = red[(second >>> 16) & 255]!;
    to[r + 3] = red[(third >>> 8) & 255]!;
    to[g] = green[(first >>> 8) & 255]!;
    to[g + 1] = green[second & 255]!;
    to[g + 2] = green[second >>> 24]!;
    to[g + 3] = green[(third >>> 16) & 255]!;
    to[b] = blue[(first >>> 16) & 255]!;
    to[b + 1] = blue[(second >>> 8) & 255]!;
    to[b + 2] = blue[third & 255]!;
    to[b + 3] = blue[third >>> 24]!;
    r += 4;
    g += 4;
    b += 4;
  }
  for (let byte = 4 * words.length; byte < pixels.length; byte += 3) {
    to[r++] = red[pixels[byte]!]!;
    to[g++] = green[pixels[byte + 1]!]!;
    to[b++] = blue[pixels[byte + 2]!]!;
  }
}

/** The same with bytes as they are. */
export function writeBytePlanes(pixels: Uint8Array, channels: 1 | 3, to: Uint8Array, at: number): void {
  if (channels === 1) {
    to.set(pixels, at);
    return;
  }
  const count = pixels.length / 3;
  if (count % 4 === 0 && (to.byteOffset + at) % 4 === 0) {
    writeWordPlanes(pixels, to, at);
    return;
  }
  for (let i = 0; i < count; i++) {
    to[at + i] = pixels[3 * i]!;
    to[at + count + i] = pixels[3 * i + 1]!;
    to[at + 2 * count + i] = pixels[3 * i + 2]!;
  }
}

/** Three words are four pixels: a word for each plane. The first byte of a word is its lowest. */
function writeWordPlanes(pixels: Uint8Array, to: Uint8Array, at: number): void {
  const from = new Uint32Array(pixels.buffer, pixels.byteOffset, pixels.length / 4);
  const words = new Uint32Array(to.buffer, to.byteOffset + at, pixels.length / 4);
  const plane = from.length / 3;
  for (let i = 0; i < plane; i++) {
    const first = from[3 * i]!;
    const second = from[3 * i + 1]!;
    const third = from[3 * i + 2]!;
    words[i] =
      (first & 0xff) | ((first >>> 16) & 0xff00) | (second & 0xff0000) | ((third << 16) & 0xff000000);
    words[plane + i] =
      ((first >>> 8) & 0xff) |
      ((second << 8) & 0xff00) |
      ((second >>> 8) & 0xff0000) |
      ((third << 8) & 0xff000000);
    words[2 * plane + i] =
      ((first >>> 16) & 0xff) | (second & 0xff00) | ((third << 16) & 0xff0000) | (third & 0xff000000);
  }
}
