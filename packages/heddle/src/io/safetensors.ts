/**
 * safetensors: a u64 (little-endian) with the length of a JSON header, the header, then the tensors' bytes.
 * The header maps each name to its dtype, shape and `data_offsets` [begin, end) counted from the end of the header;
 * `__metadata__` maps strings to strings. Tensors fill the data without holes or overlaps.
 */
import {
  aString,
  instance,
  isPlainObject,
  oneOf,
  type Rules,
  recordOf,
  requireArgument,
  required,
  requireOptions,
  shown,
} from '../core/arguments.js';
import { DTYPES, type DTypeName } from '../core/dtype.js';
import { ArgumentError, FileError } from '../core/errors.js';
import { formatShape, requireShape, type Shape, sizeOf } from '../core/shape.js';
import { writeFileAtomic } from './atomic.js';
import { readBytes } from './read.js';

/** A tensor as it is in a file. */
export interface StoredTensor {
  /** The dtype of its elements. */
  readonly dtype: DTypeName;
  /** Sizes of the dimensions. */
  readonly shape: Shape;
  /** Little-endian elements in row-major order; `sizeOf(shape)` × the bytes of the dtype. */
  readonly data: Uint8Array;
}

/** Tensors by name. */
export type StoredTensors = Readonly<Record<string, StoredTensor>>;
/** Texts by name, stored with the tensors. */
export type StoredMetadata = Readonly<Record<string, string>>;

/** The content of a safetensors file. */
export interface SafetensorsFile {
  /** The tensors by name. */
  readonly tensors: StoredTensors;
  /** Texts by name. */
  readonly metadata: StoredMetadata;
}

const LENGTH_BYTES = 8;
/** The same bound as the reference implementation. */
const MAX_HEADER_BYTES = 100_000_000;
const METADATA = '__metadata__';
const DAMAGED = 'The file is damaged or was not fully written.';

/** A dtype's name in the file is its name here in capitals. */
const CODES: ReadonlyMap<string, DTypeName> = new Map(
  (Object.keys(DTYPES) as DTypeName[]).map((name) => [name.toUpperCase(), name]),
);

const bytesOf = (t: { readonly dtype: DTypeName; readonly shape: Shape }): number =>
  sizeOf(t.shape) * DTYPES[t.dtype].bytes;

/** @internal @throws FileError unless there are as many bytes as dtype and shape ask for */
export function requireBytes(tensor: StoredTensor, name: string, path: string): void {
  const expected = bytesOf(tensor);
  if (tensor.data.byteLength !== expected)
    throw new FileError(
      path,
      `${name} has ${tensor.data.byteLength} bytes, expected ${expected} for ` +
        `${tensor.dtype} ${formatShape(tensor.shape)}. Nothing was written.`,
    );
}

/**
 * The bytes of a safetensors file, in parts to write one after another; the tensors are not copied. Wide dtypes come
 * first, so that every tensor is aligned. Equal input gives equal bytes.
 * @param path names the file in errors
 * @throws FileError if a tensor's bytes do not match its shape and dtype, or its name is not allowed
 */
export function encodeSafetensors(
  tensors: StoredTensors,
  metadata: StoredMetadata = {},
  path = 'safetensors data',
): Uint8Array[] {
  requireTexts('metadata', metadata);
  requireArgument('safetensors', 'path', path, aString);
  requireStored(tensors);
  const entries = Object.entries(tensors).sort(
    ([a, x], [b, y]) => DTYPES[y.dtype].bytes - DTYPES[x.dtype].bytes || (a < b ? -1 : 1),
  );
  const header: [string, unknown][] = Object.keys(metadata).length > 0 ? [[METADATA, metadata]] : [];
  let end = 0;
  for (const [name, tensor] of entries) {
    if (name === METADATA) throw new FileError(path, `a tensor may not be named ${METADATA}. Rename it.`);
    requireBytes(tensor, `tensor ${quote(name)}`, path);
    const expected = bytesOf(tensor);
    const data_offsets = [end, end + expected];
    header.push([name, { dtype: tensor.dtype.toUpperCase(), shape: tensor.shape, data_offsets }]);
    end += expected;
  }
  const json = new TextEncoder().encode(JSON.stringify(Object.fromEntries(header)));
  const padded = new Uint8Array(LENGTH_BYTES + Math.ceil(json.length / 8) * 8).fill(0x20);
  new DataView(padded.buffer).setBigUint64(0, BigInt(padded.length - LENGTH_BYTES), true);
  padded.set(json, LENGTH_BYTES);
  return [padded, ...entries.map(([, tensor]) => tensor.data)];
}

/** A tensor of a file: what it is, and where its bytes are, counted from the end of the header. */
export interface StoredEntry {
  readonly name: string;
  readonly dtype: DTypeName;
  readonly shape: Shape;
  readonly begin: number;
  readonly end: number;
}

/** What a file says of itself before the tensors' bytes. */
export interface SafetensorsHeader {
  /** In the order of their bytes, which fill the file. */
  readonly entries: readonly StoredEntry[];
  readonly metadata: StoredMetadata;
  /** Bytes of the length and of the header. */
  readonly dataBegin: number;
}

const failsOf =
  (path: string): Fail =>
  (message) => {
    throw new FileError(path, message);
  };

/** Bytes of the length and of the header, by the first bytes of a file of this size. @throws FileError */
export function safetensorsHeaderBytes(start: Uint8Array, size: number, path: string): number {
  const fail = failsOf(path);
  if (size < LENGTH_BYTES)
    fail(`truncated: ${size} bytes, a safetensors file has at least ${LENGTH_BYTES}. ${DAMAGED}`);
  const view = new DataView(start.buffer, start.byteOffset, start.byteLength);
  const headerBytes = view.getBigUint64(0, true);
  if (headerBytes > BigInt(MAX_HEADER_BYTES))
    fail(
      `not a safetensors file: a header of ${headerBytes} bytes, at most ${MAX_HEADER_BYTES} are allowed.`,
    );
  const dataBegin = LENGTH_BYTES + Number(headerBytes);
  if (dataBegin > size) fail(`truncated: ${size} bytes, its header alone ends at ${dataBegin}. ${DAMAGED}`);
  return dataBegin;
}

/** The header of a file of this size, checked in full. @param start its first bytes @throws FileError */
export function parseSafetensorsHeader(start: Uint8Array, size: number, path: string): SafetensorsHeader {
  const fail = failsOf(path);
  const dataBegin = safetensorsHeaderBytes(start, size, path);
  const header = parseHeader(start.subarray(LENGTH_BYTES, dataBegin), fail);
  const entries: StoredEntry[] = [];
  let metadata: StoredMetadata = {};
  for (const [name, value] of Object.entries(header)) {
    if (name === METADATA) metadata = checkMetadata(value, fail);
    else entries.push({ name, ...checkEntry(name, value, size - dataBegin, fail) });
  }
  entries.sort((a, b) => a.begin - b.begin || a.end - b.end);
  checkCoverage(entries, size - dataBegin, fail);
  return { entries, metadata, dataBegin };
}

/**
 * The tensors in the bytes of a safetensors file, checked in full. Their data are views of `bytes`.
 * @param path names the bytes in errors
 * @throws FileError saying what was found and what was expected
 */
export function parseSafetensors(bytes: Uint8Array, path = 'safetensors data'): SafetensorsFile {
  requireArgument('parseSafetensors', 'bytes', bytes, instance(Uint8Array, 'a Uint8Array'));
  requireArgument('parseSafetensors', 'path', path, aString);
  const { entries, metadata, dataBegin } = parseSafetensorsHeader(bytes, bytes.length, path);
  const data = bytes.subarray(dataBegin);
  const tensors = entries.map(({ name, dtype, shape, begin, end }): [string, StoredTensor] => [
    name,
    { dtype, shape, data: data.subarray(begin, end) },
  ]);
  for (const [name, tensor] of tensors) {
    if (tensor.dtype === 'bool' && tensor.data.some((byte) => byte > 1)) {
      failsOf(path)(`tensor ${quote(name)} is BOOL and holds bytes other than 0 and 1. ${DAMAGED}`);
    }
  }
  return { tensors: Object.fromEntries(tensors), metadata };
}

/** Read and check a safetensors file. @throws FileError */
export async function readSafetensors(path: string): Promise<SafetensorsFile> {
  return parseSafetensors(await readBytes(path), path);
}

/** Write a safetensors file atomically: if it fails, what was there before is untouched. @throws FileError */
export async function writeSafetensors(
  path: string,
  tensors: StoredTensors,
  metadata: StoredMetadata = {},
): Promise<void> {
  await writeFileAtomic(path, encodeSafetensors(tensors, metadata, path));
}

const STORED: Rules<StoredTensor> = {
  dtype: required(oneOf(...Object.keys(DTYPES))),
  shape: required({ must: 'a list of sizes', holds: Array.isArray }),
  data: required(instance(Uint8Array, 'a Uint8Array of its bytes')),
};

/** @internal @throws ArgumentError */
export function requireStored(tensors: unknown): asserts tensors is StoredTensors {
  if (!isPlainObject(tensors))
    throw new ArgumentError(
      `[safetensors] tensors is ${shown(tensors)}, must be an object of { dtype, shape, data } by name.`,
    );
  for (const [name, tensor] of Object.entries(tensors)) {
    requireOptions(`safetensors, ${name}`, tensor as StoredTensor, STORED);
    requireShape(`safetensors, ${name}`, (tensor as StoredTensor).shape);
  }
}

function requireTexts(what: string, texts: unknown): void {
  requireArgument('safetensors', what, texts, recordOf(aString, 'an object of strings by name'));
}

type Fail = (message: string) => never;

const quote = (name: string): string => JSON.stringify(name);

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const isSize = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

function parseHeader(bytes: Uint8Array, fail: Fail): Record<string, unknown> {
  if (bytes[0] !== 0x7b) fail('not a safetensors file: its header does not start with "{".');
  let header: unknown;
  try {
    header = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (error) {
    fail(`its header is not valid JSON (${(error as Error).message}). ${DAMAGED}`);
  }
  return isRecord(header) ? header : fail('its header is not a JSON object.');
}

function checkMetadata(value: unknown, fail: Fail): StoredMetadata {
  if (!isRecord(value)) return fail(`${METADATA} is not a JSON object.`);
  for (const [key, text] of Object.entries(value)) {
    if (typeof text !== 'string')
      fail(`${METADATA} ${quote(key)} is ${JSON.stringify(text)}, expected a string.`);
  }
  return value as StoredMetadata;
}

function checkEntry(
  name: string,
  value: unknown,
  dataBytes: number,
  fail: Fail,
): { dtype: DTypeName; shape: Shape; begin: number; end: number } {
  const where = `tensor ${quote(name)}`;
  if (!isRecord(value)) return fail(`${where} is not described by a JSON object.`);
  const dtype = CODES.get(String(value.dtype));
  if (dtype === undefined) {
    return fail(
      `${where} has dtype ${JSON.stringify(value.dtype)}, expected one of ${[...CODES.keys()].join(' ')}.`,
    );
  }
  const shape = value.shape;
  if (!Array.isArray(shape) || !shape.every(isSize)) {
    return fail(`${where} has shape ${JSON.stringify(shape)}, expected a list of sizes.`);
  }
  const offsets = value.data_offsets;
  if (!Array.isArray(offsets) || offsets.length !== 2 || !offsets.every(isSize)) {
    return fail(`${where} has data_offsets ${JSON.stringify(offsets)}, expected [begin, end].`);
  }
  const [begin, end] = offsets as [number, number];
  if (begin > end || end > dataBytes) {
    return fail(
      `${where} has data_offsets [${begin}, ${end}], outside the file's ${dataBytes} bytes. ${DAMAGED}`,
    );
  }
  const expected = bytesOf({ dtype, shape });
  if (end - begin !== expected) {
    return fail(
      `${where} has ${end - begin} bytes, expected ${expected} for ${dtype} ${formatShape(shape)}. ${DAMAGED}`,
    );
  }
  return { dtype, shape, begin, end };
}

/** @param spans in the order of their bytes */
function checkCoverage(spans: readonly StoredEntry[], dataBytes: number, fail: Fail): void {
  let covered = 0;
  for (const { name, begin, end } of spans) {
    if (begin < covered)
      fail(`tensor ${quote(name)} begins at ${begin}, inside the one before it. ${DAMAGED}`);
    if (begin > covered) fail(`bytes ${covered} to ${begin} belong to no tensor. ${DAMAGED}`);
    covered = end;
  }
  if (covered !== dataBytes) fail(`bytes ${covered} to ${dataBytes} belong to no tensor. ${DAMAGED}`);
}
