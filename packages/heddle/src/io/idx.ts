/**
 * IDX, the format of the MNIST files: two zero bytes, a type code, the number of dimensions, their sizes as big-endian
 * u32, then the elements, big-endian, last dimension fastest. Often gzipped.
 */
import { aString, instance, requireArgument } from '../core/arguments.js';
import { FileError } from '../core/errors.js';
import { formatShape, type Shape, sizeOf } from '../core/shape.js';
import { gunzipped, REPLACE } from './gzip.js';
import { readBytes } from './read.js';

/** The element types that IDX files have. */
export type IdxElements = Uint8Array | Int8Array | Int16Array | Int32Array | Float32Array | Float64Array;

/** The content of an IDX file, the format of MNIST. */
export interface IdxArray {
  /** Sizes of the dimensions. */
  readonly shape: Shape;
  /** Elements in row-major order. Bytes are a view of the file's bytes; wider types are copied to host order. */
  readonly elements: IdxElements;
}

interface ElementType {
  readonly bytes: number;
  readonly decode: (bytes: Uint8Array, count: number) => IdxElements;
}

const viewOf = (b: Uint8Array): DataView => new DataView(b.buffer, b.byteOffset, b.byteLength);

/** Elements of more than one byte, copied to the byte order of this machine. */
function wide<A extends IdxElements>(
  make: new (length: number) => A,
  bytes: number,
  get: (view: DataView, offset: number) => number,
): ElementType {
  return {
    bytes,
    decode: (source, count) => {
      const view = viewOf(source);
      const elements = new make(count);
      for (let i = 0; i < count; i++) elements[i] = get(view, i * bytes);
      return elements;
    },
  };
}

/** By the type code, the third byte. */
const ELEMENT_TYPES: ReadonlyMap<number, ElementType> = new Map([
  [0x08, { bytes: 1, decode: (b) => b }],
  [0x09, { bytes: 1, decode: (b, count) => new Int8Array(b.buffer, b.byteOffset, count) }],
  [0x0b, wide(Int16Array, 2, (view, offset) => view.getInt16(offset))],
  [0x0c, wide(Int32Array, 4, (view, offset) => view.getInt32(offset))],
  [0x0d, wide(Float32Array, 4, (view, offset) => view.getFloat32(offset))],
  [0x0e, wide(Float64Array, 8, (view, offset) => view.getFloat64(offset))],
] satisfies [number, ElementType][]);

const MAX_RANK = 8;

/**
 * The array in the bytes of an IDX file.
 * @param path names the bytes in errors
 * @throws FileError on a wrong magic number, unknown type, or sizes that do not match the number of bytes
 */
export function parseIdx(bytes: Uint8Array, path = 'IDX data'): IdxArray {
  requireArgument('parseIdx', 'bytes', bytes, instance(Uint8Array, 'a Uint8Array'));
  requireArgument('parseIdx', 'path', path, aString);
  if (bytes.length < 4) {
    throw new FileError(path, `truncated: ${bytes.length} bytes, an IDX file has at least 4. ${REPLACE}`);
  }
  const [zero0, zero1, code, rank] = bytes as unknown as [number, number, number, number];
  if (zero0 !== 0 || zero1 !== 0) {
    const found = hex(bytes.subarray(0, 4));
    throw new FileError(path, `not an IDX file: starts with ${found}, expected 00 00. ${guess(bytes)}`);
  }
  const type = ELEMENT_TYPES.get(code);
  if (!type) {
    const known = [...ELEMENT_TYPES.keys()].map((c) => `0x${c.toString(16).padStart(2, '0')}`).join(' ');
    throw new FileError(
      path,
      `unknown IDX type code ${hex(bytes.subarray(2, 3))}, expected one of ${known}. ${REPLACE}`,
    );
  }
  if (rank < 1 || rank > MAX_RANK) {
    throw new FileError(path, `has ${rank} dimensions, expected 1 to ${MAX_RANK}. ${REPLACE}`);
  }
  const headerBytes = 4 + 4 * rank;
  if (bytes.length < headerBytes) {
    throw new FileError(
      path,
      `truncated: ${bytes.length} bytes, its header alone has ${headerBytes}. ${REPLACE}`,
    );
  }
  const header = viewOf(bytes);
  const shape = Array.from({ length: rank }, (_, i) => header.getUint32(4 + 4 * i));
  const count = sizeOf(shape);
  const expected = headerBytes + count * type.bytes;
  if (bytes.length !== expected) {
    const what = bytes.length < expected ? 'truncated' : 'has trailing bytes';
    throw new FileError(
      path,
      `${what}: ${bytes.length} bytes, expected ${expected} for a header of ${headerBytes} and shape ` +
        `${formatShape(shape)} of ${type.bytes}-byte elements. ${REPLACE}`,
    );
  }
  return { shape, elements: type.decode(bytes.subarray(headerBytes), count) };
}

/** Read an IDX file, gzipped or plain, told apart by their first bytes. @throws FileError */
export async function readIdx(path: string): Promise<IdxArray> {
  return parseIdx(await gunzipped(await readBytes(path), path), path);
}

const hex = (bytes: Uint8Array): string =>
  Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join(' ');

/** What a file that is not an IDX file may be. */
function guess(bytes: Uint8Array): string {
  if (bytes[0] === 0x1f && bytes[1] === 0x8b)
    return 'These are gzipped bytes: unzip them first, or use readIdx.';
  if (bytes[0] === 0x3c) return 'This looks like a web page: the download link may be dead.';
  return REPLACE;
}
