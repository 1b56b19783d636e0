/**
 * NumPy's files: .npy holds one array, .npz several by name, as a zip file of .npy files. An array is a magic string, a version,
 * the length of a header, the header (a Python dictionary as text), then the elements.
 * Source: numpy.lib.format, "NPY format".
 */
import { fflate } from '#platform/compression.js';
import { aString, instance, requireArgument } from '../core/arguments.js';
import { DTYPES, type DTypeName } from '../core/dtype.js';
import { FileError } from '../core/errors.js';
import { formatShape, sizeOf } from '../core/shape.js';
import { requireBytes, requireStored, type StoredTensor, type StoredTensors } from './safetensors.js';
import { inRowOrder } from './strided.js';
import { unzip } from './zip.js';

const MAGIC = [0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59];
const DAMAGED = 'The file is damaged or was not fully written.';

/** What NumPy calls dtypes; bf16 it does not have. */
const CODES: Readonly<Partial<Record<DTypeName, string>>> = {
  bool: '|b1',
  i8: '|i1',
  u8: '|u1',
  i32: '<i4',
  u32: '<u4',
  i64: '<i8',
  f16: '<f2',
  f32: '<f4',
  f64: '<f8',
};
const NAMES: ReadonlyMap<string, DTypeName> = new Map(
  Object.entries(CODES).map(([name, code]) => [code, name as DTypeName]),
);

const isBytes = instance(Uint8Array, 'a Uint8Array');

/**
 * The array in the bytes of a .npy file; its data is a view of `bytes`, or a copy in row-major order if it is stored by
 * columns.
 * @param path names the bytes in errors
 * @throws FileError
 */
export function parseNpy(bytes: Uint8Array, path = 'npy data'): StoredTensor {
  requireArgument('parseNpy', 'bytes', bytes, isBytes);
  requireArgument('parseNpy', 'path', path, aString);
  const fail = (message: string): never => {
    throw new FileError(path, message);
  };
  if (bytes.length < 10 || MAGIC.some((byte, i) => bytes[i] !== byte))
    fail('not a .npy file: it does not begin with NumPy’s magic string.');
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const version = bytes[6]!;
  if (version < 1 || version > 3) fail(`version ${version} of the format, expected 1, 2 or 3.`);
  const start = version === 1 ? 10 : 12;
  if (bytes.length < start) fail(`truncated: ${bytes.length} bytes. ${DAMAGED}`);
  const begin = start + (version === 1 ? view.getUint16(8, true) : view.getUint32(8, true));
  if (begin > bytes.length) fail(`truncated: ${bytes.length} bytes, its header ends at ${begin}. ${DAMAGED}`);
  const header = new TextDecoder().decode(bytes.subarray(start, begin));
  const descr = header.match(/'descr':\s*'([^']*)'/)?.[1];
  const order = header.match(/'fortran_order':\s*(True|False)/)?.[1];
  const sizes = header.match(/'shape':\s*\(([\d,\s]*)\)/)?.[1];
  if (descr === undefined || order === undefined || sizes === undefined)
    return fail(`its header does not give descr, fortran_order and shape: ${header.slice(0, 100).trim()}`);
  const dtype = NAMES.get(descr);
  if (dtype === undefined)
    return fail(`elements are '${descr}', expected one of ${[...NAMES.keys()].join(' ')}.`);
  const shape = sizes
    .split(',')
    .filter((text) => text.trim() !== '')
    .map(Number);
  const expected = sizeOf(shape) * DTYPES[dtype].bytes;
  const data = bytes.subarray(begin);
  if (!Number.isSafeInteger(expected) || data.length !== expected)
    return fail(
      `${data.length} bytes of data, expected ${expected} for ${dtype} ${formatShape(shape)}. ${DAMAGED}`,
    );
  if (dtype === 'bool' && data.some((byte) => byte > 1))
    fail(`elements are bool, but there are bytes other than 0 and 1. ${DAMAGED}`);
  if (order === 'False' || shape.length < 2) return { dtype, shape, data };
  const strides = shape.map((_, i) => sizeOf(shape.slice(0, i)));
  return { dtype, shape, data: inRowOrder(data, DTYPES[dtype].bytes, shape, strides) };
}

/**
 * The bytes of a .npy file, version 1.0.
 * @param path names the file in errors
 * @throws FileError for bf16, which NumPy does not have
 */
export function encodeNpy(tensor: StoredTensor, path = 'npy data'): Uint8Array {
  requireArgument('encodeNpy', 'path', path, aString);
  requireStored({ array: tensor });
  requireBytes(tensor, 'the array', path);
  const { dtype, shape, data } = tensor;
  const code = CODES[dtype];
  if (code === undefined)
    throw new FileError(path, `NumPy has no ${dtype}. Convert with .cast(f32), or write safetensors.`);
  const sizes = shape.length === 1 ? `${shape[0]},` : shape.join(', ');
  const header = `{'descr': '${code}', 'fortran_order': False, 'shape': (${sizes}), }`;
  // The data begin at a multiple of 64.
  const begin = Math.ceil((11 + header.length) / 64) * 64;
  const bytes = new Uint8Array(begin + data.length).fill(0x20, 0, begin);
  bytes.set([...MAGIC, 1, 0]);
  new DataView(bytes.buffer).setUint16(8, begin - 10, true);
  bytes.set(new TextEncoder().encode(header), 10);
  bytes[begin - 1] = 0x0a;
  bytes.set(data, begin);
  return bytes;
}

/** The arrays of a .npz file by name. @param path names the bytes in errors · @throws FileError */
export function parseNpz(bytes: Uint8Array, path = 'npz data'): StoredTensors {
  requireArgument('parseNpz', 'bytes', bytes, isBytes);
  requireArgument('parseNpz', 'path', path, aString);
  return Object.fromEntries(
    Object.entries(unzip(bytes, path)).map(([name, file]) => [
      name.replace(/\.npy$/, ''),
      parseNpy(file, `${path}, ${name}`),
    ]),
  );
}

/** The bytes of a .npz file, uncompressed as `numpy.savez` writes it. @throws FileError for bf16 */
export function encodeNpz(tensors: StoredTensors, path = 'npz data'): Uint8Array {
  requireArgument('encodeNpz', 'path', path, aString);
  requireStored(tensors);
  const files = Object.entries(tensors).map(([name, tensor]) => [
    `${name}.npy`,
    encodeNpy(tensor, `${path}, ${name}`),
  ]);
  // A fixed date: equal tensors give equal bytes.
  return fflate().zipSync(Object.fromEntries(files), { level: 0, mtime: '1980-01-01T00:00:00' });
}
