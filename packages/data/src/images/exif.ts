/** Orientations in image files. */

const SOI = 0xffd8;
const APP1 = 0xffe1;
/** What follows are pixels. */
const SOS = 0xffda;
const EXIF = [...'Exif\0'].map((letter) => letter.charCodeAt(0));

/**
 * Whether an image may have an orientation other than the usual one. Most JPEGs show at their beginning that they have
 * none: no Exif segment before their pixels. Of any other file the answer is true.
 */
export function mayBeTurned(file: Uint8Array): boolean {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  if (file.length < 2 || view.getUint16(0) !== SOI) return true;
  for (let at = 2; at + 4 <= file.length; at += 2 + view.getUint16(at + 2)) {
    const marker = view.getUint16(at);
    if (marker === SOS) return false;
    // Anything but a segment with a length: padding, or damage. The decoder shall see to it.
    if (marker < 0xffc0 || marker === 0xffff) return true;
    if (marker === APP1 && EXIF.every((byte, i) => file[at + 4 + i] === byte)) return true;
  }
  return true;
}
