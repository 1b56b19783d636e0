/** The values of a TensorProto, from whichever of its fields they are in. Sizes are checked before memory is taken. */
import { FileError, type Shape } from 'heddle';
import { fromBf16, fromF16 } from 'heddle/internal/core/float16.js';
import { type TensorProto, TensorProto_DataLocation } from '../protobuf/onnx_pb.js';
import { type ElementType, elementTypeOf, type HostArray } from './element-types.js';
import type { ExternalData } from './external-data.js';
import type { HostTensor } from './host-tensor.js';

/** The most elements of a tensor: kernels count them in i32. */
const MOST_ELEMENTS = 2 ** 31 - 2 ** 20;

/** Where a tensor is read from. */
export interface TensorSource {
  /** The file, for messages. */
  readonly path: string;
  /** Reads what is kept in other files; without it external data are refused. */
  readonly external: ExternalData | undefined;
}

/** What a tensor's header says, checked. */
export interface TensorHeader {
  /** The name, or `what` of the reader where it has none. */
  readonly name: string;
  /** The element type, one that the library reads. */
  readonly type: ElementType;
  /** Sizes of the dimensions. */
  readonly shape: Shape;
  /** How many elements. */
  readonly size: number;
}

/** @param what is read, where the tensor has no name @throws FileError for sizes or types that cannot be */
export function readHeader(tensor: TensorProto, path: string, what: string): TensorHeader {
  const name = tensor.name === '' ? what : `the tensor '${tensor.name}'`;
  const type = elementTypeOf(tensor.dataType, `${path}: ${name}`);
  if (!type.array)
    throw new FileError(
      path,
      `${name} has elements of type ${type.name}, which the library does not compute with.`,
    );
  if (tensor.dims.length > 64)
    throw new FileError(path, `${name} has ${tensor.dims.length} dimensions, at most 64.`);
  let size = 1n;
  for (const d of tensor.dims) {
    if (d < 0n)
      throw new FileError(path, `${name} has the shape (${tensor.dims}), sizes must be at least 0.`);
    size *= d;
  }
  // A dimension of size 0 makes the tensor empty: the others must be numbers all the same.
  if (size > BigInt(MOST_ELEMENTS) || tensor.dims.some((d) => d > BigInt(MOST_ELEMENTS)))
    throw new FileError(
      path,
      `${name} has the shape (${tensor.dims}), a tensor has at most ${MOST_ELEMENTS} elements.`,
    );
  if (tensor.segment) throw new FileError(path, `${name} is stored in segments, which are not supported.`);
  return { name, type, shape: tensor.dims.map(Number), size: Number(size) };
}

/** The values of a tensor that may be kept in another file. @throws FileError */
export async function readTensor(
  tensor: TensorProto,
  source: TensorSource,
  what: string,
): Promise<HostTensor> {
  if (tensor.dataLocation !== TensorProto_DataLocation.EXTERNAL)
    return parseTensor(tensor, source.path, what);
  const header = readHeader(tensor, source.path, what);
  if (!source.external || header.type.kind === 'string')
    throw new FileError(source.path, `${header.name} has external data, which are not read here.`);
  const bytes = await source.external.read(tensor, bytesOf(header));
  return { type: header.type, shape: header.shape, values: decode(bytes, header) };
}

/** The values of a tensor that has them itself. @throws FileError */
export function parseTensor(tensor: TensorProto, path: string, what: string): HostTensor {
  const header = readHeader(tensor, path, what);
  const { type, shape } = header;
  if (tensor.dataLocation === TensorProto_DataLocation.EXTERNAL)
    throw new FileError(path, `${header.name} has external data, which only initializers may have.`);
  if (tensor.rawData.length === 0) return { type, shape, values: typedValues(tensor, header, path) };
  if (type.kind === 'string')
    throw new FileError(path, `${header.name} has texts as raw bytes, which ONNX forbids.`);
  const expected = bytesOf(header);
  if (tensor.rawData.length !== expected)
    throw new FileError(
      path,
      `${header.name} has ${tensor.rawData.length} bytes, ${type.name} (${shape}) asks for ${expected}.`,
    );
  const values = decode(tensor.rawData, header);
  requireBooleans(values, header, path);
  return { type, shape, values };
}

const bytesOf = ({ type, size }: TensorHeader): number => Math.ceil((size * type.bits) / 8);

/** Little-endian elements; those of 4 and 2 bits fill bytes from the low bits on. */
function decode(bytes: Uint8Array, { type, size }: TensorHeader): HostArray {
  const values = type.array!(size) as Exclude<HostArray, string[]>;
  if (type.name === 'f16' || type.name === 'bf16') {
    const from = type.name === 'f16' ? fromF16 : fromBf16;
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    for (let i = 0; i < size; i++) values[i] = from(view.getUint16(2 * i, true));
  } else if (type.bits < 8) unpack(bytes, type, values as Int8Array | Uint8Array);
  else new Uint8Array(values.buffer, values.byteOffset, values.byteLength).set(bytes);
  return values;
}

/** Elements of fewer than 8 bits, the first in the lowest bits of a byte. */
function unpack(bytes: ArrayLike<number>, { bits, kind }: ElementType, values: Int8Array | Uint8Array): void {
  const perByte = 8 / bits;
  const mask = 2 ** bits - 1;
  const sign = kind === 'int' ? 2 ** (bits - 1) : 2 ** bits;
  for (let i = 0; i < values.length; i++) {
    const value = (bytes[Math.floor(i / perByte)]! >> (bits * (i % perByte))) & mask;
    values[i] = value >= sign ? value - 2 ** bits : value;
  }
}

/** The values of the typed field. */
function typedValues(tensor: TensorProto, header: TensorHeader, path: string): HostArray {
  const { name, type, size, shape } = header;
  const field = tensor[type.field];
  const packed = type.bits > 0 && type.bits < 8;
  const expected = packed ? bytesOf(header) : size;
  if (field.length !== expected)
    throw new FileError(
      path,
      `${name} has ${field.length} values, ${type.name} (${shape}) asks for ${expected}. The file is damaged.`,
    );
  if (type.kind === 'string') {
    const decoder = new TextDecoder();
    return (field as Uint8Array[]).map((bytes) => decoder.decode(bytes));
  }
  const values = type.array!(size) as Exclude<HostArray, string[]>;
  if (packed) unpack(field as number[], type, values as Int8Array | Uint8Array);
  else if (type.name === 'f16' || type.name === 'bf16') {
    const from = type.name === 'f16' ? fromF16 : fromBf16;
    for (let i = 0; i < size; i++) values[i] = from((field as number[])[i]!);
  } else if (type.name === 'u32') for (let i = 0; i < size; i++) values[i] = Number((field as bigint[])[i]!);
  else for (let i = 0; i < size; i++) values[i] = (field as number[])[i]!;
  const wrong = packed || type.kind === 'float' ? -1 : firstOther(values, field as (number | bigint)[]);
  if (wrong >= 0)
    throw new FileError(path, `${name} has the value ${field[wrong]}, which ${type.name} does not have.`);
  requireBooleans(values, header, path);
  return values;
}

/** The first place at which two lists of integers differ, or −1. */
function firstOther(values: ArrayLike<number | bigint>, stored: readonly (number | bigint)[]): number {
  return stored.findIndex((value, i) => BigInt(value) !== BigInt(values[i]!));
}

function requireBooleans(values: HostArray, { name, type }: TensorHeader, path: string): void {
  if (type.kind !== 'bool') return;
  const wrong = (values as Uint8Array).find((value) => value > 1);
  if (wrong !== undefined)
    throw new FileError(path, `${name} is bool and has the value ${wrong}, must be 0 or 1.`);
}
