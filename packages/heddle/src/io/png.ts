/** PNG (ISO/IEC 15948): 8 bits a channel, rows without a filter. */
import { deflate } from '#platform/compression.js';
import { concatBytes } from '../core/bytes.js';
import { crc32 } from './crc32.js';

const SIGNATURE = Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a);
/** Channels → colour type: grey, RGB, RGB with opacity. */
const COLOR_TYPES: Readonly<Record<number, number>> = { 1: 0, 3: 2, 4: 6 };

/** @param pixels height × width × channels bytes · @param channels 1, 3 or 4 */
export function encodePng(pixels: Uint8Array, height: number, width: number, channels: number): Uint8Array {
  const header = new Uint8Array(13);
  const view = new DataView(header.buffer);
  view.setUint32(0, width);
  view.setUint32(4, height);
  header.set([8, COLOR_TYPES[channels]!], 8);
  const row = width * channels;
  const filtered = new Uint8Array(height * (row + 1));
  for (let y = 0; y < height; y++) filtered.set(pixels.subarray(y * row, (y + 1) * row), y * (row + 1) + 1);
  const parts = [chunk('IHDR', header), chunk('IDAT', deflate(filtered)), chunk('IEND', new Uint8Array())];
  return concatBytes([SIGNATURE, ...parts]);
}

/** Length, name, data, and the check of name and data. */
function chunk(name: string, data: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(12 + data.length);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, data.length);
  bytes.set(new TextEncoder().encode(name), 4);
  bytes.set(data, 8);
  view.setUint32(8 + data.length, crc32(bytes.subarray(4, 8 + data.length)));
  return bytes;
}
