/** Tensors of BYTES: each element is a string of bytes, stored behind its length, a u32 in little-endian order. */
import { invalid } from '../errors.js';

const LENGTH = 4;

/** @throws ServiceError for lengths that lie */
export function splitStrings(name: string, bytes: Uint8Array): readonly Uint8Array[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const strings: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; ) {
    const length = at + LENGTH <= bytes.length ? view.getUint32(at, true) : 0;
    const end = at + LENGTH + length;
    if (end > bytes.length)
      throw invalid(
        `the element ${strings.length} of '${name}' should end at the byte ${end}, but its data have ${bytes.length}. Each element is a length of 4 bytes, and as many bytes.`,
      );
    strings.push(bytes.subarray(at + LENGTH, end));
    at = end;
  }
  return strings;
}

export function joinStrings(strings: readonly Uint8Array[]): Uint8Array {
  return Buffer.concat(
    strings.flatMap((bytes) => {
      const length = Buffer.alloc(LENGTH);
      length.writeUInt32LE(bytes.length);
      return [length, bytes];
    }),
  );
}
