/** The tar format (POSIX ustar), as far as it takes to read data sets that are published in it. */
import { FileError } from '../core/errors.js';
import { REPLACE } from './gzip.js';

const BLOCK = 512;
/** Fields of a header: where they begin, and how long they are. */
const NAME = [0, 100] as const;
const SIZE = [124, 12] as const;
const CHECKSUM = [148, 8] as const;
const TYPE = 156;
const PREFIX = [345, 155] as const;

/** The files of an archive by their paths, sharing its memory. @throws FileError if it is damaged, cut, or no archive */
export function tarFiles(archive: Uint8Array, path: string): ReadonlyMap<string, Uint8Array> {
  const files = new Map<string, Uint8Array>();
  for (let at = 0; at < archive.length; ) {
    const header = archive.subarray(at, at + BLOCK);
    if (header.every((byte) => byte === 0)) break;
    if (header.length < BLOCK || octal(header, CHECKSUM) !== checksum(header))
      throw new FileError(path, `is not a whole tar archive: byte ${at} begins no header. ${REPLACE}`);
    const size = octal(header, SIZE);
    const begin = at + BLOCK;
    if (!(begin + size <= archive.length))
      throw new FileError(
        path,
        `ends within '${text(header, NAME)}', after ${archive.length} bytes. ${REPLACE}`,
      );
    const type = header[TYPE]!;
    // '0', or 0 in old archives: a file.
    if (type === 0x30 || type === 0) {
      const name = [text(header, PREFIX), text(header, NAME)].filter((part) => part !== '').join('/');
      files.set(name, archive.subarray(begin, begin + size));
    }
    at = begin + Math.ceil(size / BLOCK) * BLOCK;
  }
  return files;
}

function text(header: Uint8Array, [begin, length]: readonly [number, number]): string {
  const field = header.subarray(begin, begin + length);
  const end = field.indexOf(0);
  return new TextDecoder().decode(end < 0 ? field : field.subarray(0, end));
}

/** NaN for what is not a number. */
function octal(header: Uint8Array, field: readonly [number, number]): number {
  const digits = text(header, field).trim();
  return /^[0-7]+$/.test(digits) ? Number.parseInt(digits, 8) : Number.NaN;
}

/** The sum of the bytes, those of the checksum itself taken as spaces. */
const checksum = (header: Uint8Array): number =>
  header.reduce((sum, byte, i) => {
    const isOwn = i >= CHECKSUM[0] && i < CHECKSUM[0] + CHECKSUM[1];
    return sum + (isOwn ? 0x20 : byte);
  }, 0);
