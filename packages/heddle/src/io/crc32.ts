/** Cyclic redundancy checks of 32 bits, of which PNG has one polynomial and TensorFlow's records another. */
import { systemCrc32 } from '#platform/hash.js';

const tableOf = (polynomial: number): Uint32Array =>
  Uint32Array.from({ length: 256 }, (_, byte) => {
    let rest = byte;
    for (let bit = 0; bit < 8; bit++) rest = rest & 1 ? (rest >>> 1) ^ polynomial : rest >>> 1;
    return rest;
  });

const checkBy = (polynomial: number): ((bytes: Uint8Array, before?: number) => number) => {
  const table = tableOf(polynomial);
  return (bytes, before = 0) => {
    let rest = ~before;
    for (let i = 0; i < bytes.length; i++) rest = table[(rest ^ bytes[i]!) & 0xff]! ^ (rest >>> 8);
    return ~rest >>> 0;
  };
};

/** CRC-32 of ISO 3309, as PNG and zip have it; of more bytes, after those that gave `before`. */
export const crc32 = systemCrc32 ?? checkBy(0xedb88320);
/** CRC-32C (Castagnoli). */
export const crc32c = checkBy(0x82f63b78);
