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
  const planes = [0, 1, 2].map((c) => to.subarray(at + c * count, at + (c + 1) * count));
  writeColours(pixels, [first, second, third], planes as [Float32Array, Float32Array, Float32Array]);
}

/**
 * Four pixels are twelve bytes, three words. Reading words takes 160 µs for 256 × 256 pixels where reading bytes takes 270,
 * and the decoder, which needs the processor as well, takes 1,600.
 */
function writeColours(
  pixels: Uint8Array,
  [red, green, blue]: readonly [Float32Array, Float32Array, Float32Array],
  [toRed, toGreen, toBlue]: readonly [Float32Array, Float32Array, Float32Array],
): void {
  const words = new Uint32Array(pixels.buffer, pixels.byteOffset, Math.floor(pixels.length / 12) * 3);
  let i = 0;
  for (let word = 0; word < words.length; word += 3, i += 4) {
    const a = words[word]!;
    const b = words[word + 1]!;
    const c = words[word + 2]!;
    toRed[i] = red[a & 255]!;
    toGreen[i] = green[(a >>> 8) & 255]!;
    toBlue[i] = blue[(a >>> 16) & 255]!;
    toRed[i + 1] = red[a >>> 24]!;
    toGreen[i + 1] = green[b & 255]!;
    toBlue[i + 1] = blue[(b >>> 8) & 255]!;
    toRed[i + 2] = red[(b >>> 16) & 255]!;
    toGreen[i + 2] = green[b >>> 24]!;
    toBlue[i + 2] = blue[c & 255]!;
    toRed[i + 3] = red[(c >>> 8) & 255]!;
    toGreen[i + 3] = green[(c >>> 16) & 255]!;
    toBlue[i + 3] = blue[c >>> 24]!;
  }
  for (; i < toRed.length; i++) {
    toRed[i] = red[pixels[3 * i]!]!;
    toGreen[i] = green[pixels[3 * i + 1]!]!;
    toBlue[i] = blue[pixels[3 * i + 2]!]!;
  }
}

/** The same with bytes as they are. */
export function writeBytePlanes(pixels: Uint8Array, channels: 1 | 3, to: Uint8Array, at: number): void {
  if (channels === 1) {
    to.set(pixels, at);
    return;
  }
  const count = pixels.length / 3;
  for (let i = 0; i < count; i++) {
    to[at + i] = pixels[3 * i]!;
    to[at + count + i] = pixels[3 * i + 1]!;
    to[at + 2 * count + i] = pixels[3 * i + 2]!;
  }
}
