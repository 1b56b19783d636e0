/** The datatypes of the Open Inference Protocol: one record each. */
import type { DTypeName } from 'heddle';
import { fromBf16, fromF16, toBf16, toF16 } from 'heddle/internal/core/float16.js';
import type { InferTensorContents } from '../grpc/generated/open_inference_grpc_pb.js';

/** What the protocol calls the datatypes whose elements have a fixed size. */
export type Datatype = keyof typeof DATATYPES;

type ContentsField = Exclude<keyof InferTensorContents, `$${string}` | 'bytesContents'>;

/** How elements of a datatype are stored, row by row and little-endian, and written as JSON. */
interface DatatypeRecord {
  /** Of one element. */
  readonly bytes: 1 | 2 | 4 | 8;
  /** Of tensors with such elements; undefined if no model of Heddle has them. */
  readonly dtype: DTypeName | undefined;
  /** The field of gRPC's typed contents; undefined for 16-bit floats, which travel as raw bytes alone. */
  readonly contents: ContentsField | undefined;
  /** Why a value of JSON or of typed contents is refused. */
  readonly must: string;
  readonly holds: (value: unknown) => boolean;
  readonly write: (view: DataView, at: number, value: never) => void;
  readonly read: (view: DataView, at: number) => number | bigint | boolean;
}

const integers = (bits: 8 | 16 | 32, signed: boolean): Pick<DatatypeRecord, 'must' | 'holds'> => {
  const least = signed ? -(2 ** (bits - 1)) : 0;
  const most = 2 ** (signed ? bits - 1 : bits) - 1;
  return {
    must: `an integer from ${least} to ${most}`,
    holds: (v) => Number.isInteger(v) && (v as number) >= least && (v as number) <= most,
  };
};

/** JSON's numbers are exact up to 2⁵³; gRPC has bigints. */
const wide = (least: bigint, most: bigint): Pick<DatatypeRecord, 'must' | 'holds'> => ({
  must: `an integer from ${least} to ${most}, in JSON of at most 2^53 (send larger ones as binary data)`,
  holds: (v) =>
    (typeof v === 'bigint' || Number.isSafeInteger(v)) &&
    BigInt(v as number) >= least &&
    BigInt(v as number) <= most,
});

const floats: Pick<DatatypeRecord, 'must' | 'holds'> = {
  must: 'a number',
  holds: (v) => typeof v === 'number',
};

export const DATATYPES = {
  BOOL: {
    ...{ bytes: 1, dtype: 'bool', contents: 'boolContents', must: 'true or false' },
    holds: (v) => typeof v === 'boolean' || v === 0 || v === 1,
    write: (view, at, v: boolean) => view.setUint8(at, v ? 1 : 0),
    read: (view, at) => view.getUint8(at) !== 0,
  },
  UINT8: {
    ...{ bytes: 1, dtype: 'u8', contents: 'uintContents', ...integers(8, false) },
    write: (view, at, v: number) => view.setUint8(at, v),
    read: (view, at) => view.getUint8(at),
  },
  UINT16: {
    ...{ bytes: 2, dtype: undefined, contents: 'uintContents', ...integers(16, false) },
    write: (view, at, v: number) => view.setUint16(at, v, true),
    read: (view, at) => view.getUint16(at, true),
  },
  UINT32: {
    ...{ bytes: 4, dtype: 'u32', contents: 'uintContents', ...integers(32, false) },
    write: (view, at, v: number) => view.setUint32(at, v, true),
    read: (view, at) => view.getUint32(at, true),
  },
  UINT64: {
    ...{ bytes: 8, dtype: undefined, contents: 'uint64Contents', ...wide(0n, 2n ** 64n - 1n) },
    write: (view, at, v: number | bigint) => view.setBigUint64(at, BigInt(v), true),
    read: (view, at) => view.getBigUint64(at, true),
  },
  INT8: {
    ...{ bytes: 1, dtype: 'i8', contents: 'intContents', ...integers(8, true) },
    write: (view, at, v: number) => view.setInt8(at, v),
    read: (view, at) => view.getInt8(at),
  },
  INT16: {
    ...{ bytes: 2, dtype: undefined, contents: 'intContents', ...integers(16, true) },
    write: (view, at, v: number) => view.setInt16(at, v, true),
    read: (view, at) => view.getInt16(at, true),
  },
  INT32: {
    ...{ bytes: 4, dtype: 'i32', contents: 'intContents', ...integers(32, true) },
    write: (view, at, v: number) => view.setInt32(at, v, true),
    read: (view, at) => view.getInt32(at, true),
  },
  INT64: {
    ...{ bytes: 8, dtype: 'i64', contents: 'int64Contents', ...wide(-(2n ** 63n), 2n ** 63n - 1n) },
    write: (view, at, v: number | bigint) => view.setBigInt64(at, BigInt(v), true),
    read: (view, at) => view.getBigInt64(at, true),
  },
  FP16: {
    ...{ bytes: 2, dtype: 'f16', contents: undefined, ...floats },
    write: (view, at, v: number) => view.setUint16(at, toF16(v), true),
    read: (view, at) => fromF16(view.getUint16(at, true)),
  },
  BF16: {
    ...{ bytes: 2, dtype: 'bf16', contents: undefined, ...floats },
    write: (view, at, v: number) => view.setUint16(at, toBf16(v), true),
    read: (view, at) => fromBf16(view.getUint16(at, true)),
  },
  FP32: {
    ...{ bytes: 4, dtype: 'f32', contents: 'fp32Contents', ...floats },
    write: (view, at, v: number) => view.setFloat32(at, v, true),
    read: (view, at) => view.getFloat32(at, true),
  },
  FP64: {
    ...{ bytes: 8, dtype: 'f64', contents: 'fp64Contents', ...floats },
    write: (view, at, v: number) => view.setFloat64(at, v, true),
    read: (view, at) => view.getFloat64(at, true),
  },
} as const satisfies Record<string, DatatypeRecord>;

/** The record of a datatype. */
export const recordOf = (datatype: Datatype): DatatypeRecord => DATATYPES[datatype];

/** What the protocol calls a dtype. */
export function datatypeOf(dtype: DTypeName): Datatype {
  const found = Object.entries(DATATYPES).find(([, record]) => record.dtype === dtype);
  return found![0] as Datatype;
}

/**
 * Values as the bytes of their datatype.
 * @param refuse makes the error for the first value that the datatype does not have
 */
export function bytesOf(
  datatype: Datatype,
  values: readonly unknown[],
  refuse: (index: number, must: string) => Error,
): Uint8Array {
  const { bytes, holds, must, write } = recordOf(datatype);
  const out = new Uint8Array(values.length * bytes);
  const view = new DataView(out.buffer);
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    if (!holds(value)) throw refuse(i, must);
    write(view, i * bytes, value as never);
  }
  return out;
}

/** The elements that bytes stand for. */
export function valuesOf(datatype: Datatype, bytes: Uint8Array): (number | bigint | boolean)[] {
  const { bytes: size, read } = recordOf(datatype);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return Array.from({ length: bytes.byteLength / size }, (_, i) => read(view, i * size));
}
