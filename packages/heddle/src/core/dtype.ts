/** Number types. One record each; the same records type kernel parameters, tensors and files. */
import { type Rule, requireArgument } from './arguments.js';
import { DTypeError } from './errors.js';

/** The names of the dtypes: floats of 16, 32 and 64 bits, integers, and bool. */
export type DTypeName = 'f16' | 'bf16' | 'f32' | 'f64' | 'i8' | 'u8' | 'i32' | 'u32' | 'i64' | 'bool';
/** What a dtype counts as; u8 and u32 are `uint`. */
export type DTypeKind = 'float' | 'int' | 'uint' | 'bool';

/** The type of a tensor's elements, and of values in kernels. Compare dtypes by `===`. */
export interface DType<Name extends DTypeName = DTypeName> {
  /** As in messages, in files and in kernels: `f32`. */
  readonly name: Name;
  /** float, int, uint or bool. */
  readonly kind: DTypeKind;
  /** Size of one element in memory, in bytes. A bool takes one byte, 0 or 1. */
  readonly bytes: 1 | 2 | 4 | 8;
}

const dtype = <Name extends DTypeName>(name: Name, kind: DTypeKind, bytes: 1 | 2 | 4 | 8): DType<Name> =>
  Object.freeze({ name, kind, bytes });

/** IEEE 754 half precision: 11 bits of precision, up to 65504. Ops on tensors compute in f32 and round once. */
export const f16: DType<'f16'> = dtype('f16', 'float', 2);
/** bfloat16: 8 bits of exponent as f32, 8 bits of precision. Ops on tensors compute in f32 and round once. */
export const bf16: DType<'bf16'> = dtype('bf16', 'float', 2);
/** IEEE 754 single precision, 24 bits: the default of tensors. */
export const f32: DType<'f32'> = dtype('f32', 'float', 4);
/** IEEE 754 double precision, 53 bits: JavaScript's numbers. */
export const f64: DType<'f64'> = dtype('f64', 'float', 8);
/** Whole numbers from −128 to 127, modulo 256: quantized values. */
export const i8: DType<'i8'> = dtype('i8', 'int', 1);
/** Whole numbers from 0 to 255, modulo 256: bytes, such as pixels. */
export const u8: DType<'u8'> = dtype('u8', 'uint', 1);
/** Whole numbers from −2³¹ to 2³¹ − 1, modulo 2³²: labels, indices and counts. */
export const i32: DType<'i32'> = dtype('i32', 'int', 4);
/** Whole numbers from 0 to 2³² − 1, modulo 2³². */
export const u32: DType<'u32'> = dtype('u32', 'uint', 4);
/** Whole numbers from −2⁶³ to 2⁶³ − 1, modulo 2⁶⁴. Their values are bigints. */
export const i64: DType<'i64'> = dtype('i64', 'int', 8);
/** true or false, one byte in memory. */
export const bool: DType<'bool'> = dtype('bool', 'bool', 1);

/** Every dtype by its name. */
export const DTYPES = { f16, bf16, f32, f64, i8, u8, i32, u32, i64, bool } as const satisfies {
  [N in DTypeName]: DType<N>;
};

export const isFloat = (t: DType): boolean => t.kind === 'float';
/** f16 or bf16: what is computed of them is computed in f32, and rounded once more. */
export const isHalf = (t: DType): boolean => t.kind === 'float' && t.bytes === 2;
/** i8 or u8: held in 32 bits, cut to a byte after each operation. */
export const isByte = (t: DType): boolean => t.bytes === 1 && t.kind !== 'bool';
/** Signed and unsigned integers; bool is not one. */
export const isInteger = (t: DType): boolean => t.kind === 'int' || t.kind === 'uint';

/** The least and the largest number of each integer type. */
export const LIMITS: Readonly<Partial<Record<DTypeName, readonly [bigint, bigint]>>> = {
  i8: [-128n, 127n],
  u8: [0n, 255n],
  i32: [-(2n ** 31n), 2n ** 31n - 1n],
  u32: [0n, 2n ** 32n - 1n],
  i64: [-(2n ** 63n), 2n ** 63n - 1n],
};

/** The same as numbers: the least, and the one after the largest, which is exact for i64, too. */
export const NUMBER_LIMITS: Readonly<Partial<Record<DTypeName, readonly [least: number, beyond: number]>>> =
  Object.fromEntries(
    Object.entries(LIMITS).map(([name, [least, most]]) => [name, [Number(least), Number(most + 1n)]]),
  );

/** Whether a value is one of `t`'s: a number for a float, an integer within its limits for an integer. */
export function isOf(t: DType, value: unknown): value is number | bigint | boolean {
  const limits = LIMITS[t.name];
  if (!limits) return typeof value === (t.kind === 'bool' ? 'boolean' : 'number');
  if (typeof value === 'bigint') return value >= limits[0] && value <= limits[1];
  const [least, beyond] = NUMBER_LIMITS[t.name]!;
  return Number.isInteger(value) && (value as number) >= least && (value as number) < beyond;
}

/** @throws DTypeError unless it is of floats */
export function requireFloats(op: string, what: string, { dtype }: { readonly dtype: DType }): void {
  if (!isFloat(dtype))
    throw new DTypeError(`[${op}] ${what} must be floats, got ${dtype.name}. Convert with .cast(f32).`);
}

/** What the values of `t` are, for messages. */
export function describeValues(t: DType): string {
  const limits = LIMITS[t.name];
  if (limits) return `an integer from ${limits[0]} to ${limits[1]}`;
  return t.kind === 'bool' ? 'true or false' : 'a number';
}

const RECORDS: readonly unknown[] = Object.values(DTYPES);

/** One of the records above. */
export const aDType: Rule = {
  must: `one of the dtypes ${Object.keys(DTYPES).join(', ')}, as in import { f32 } from 'heddle'`,
  holds: (v) => RECORDS.includes(v),
  error: DTypeError,
};

/** @throws DTypeError unless it is one of the records above, as may happen in JavaScript */
export function requireDType(op: string, t: unknown): asserts t is DType {
  requireArgument(op, 'dtype', t, aDType);
}

/** The typed arrays that values are passed in. */
export type TypedArray =
  | Float32Array
  | Float64Array
  | Int8Array
  | Uint8Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | BigInt64Array;

/** The array that the elements of a tensor arrive in. */
export interface DataArrays {
  f16: Float32Array;
  bf16: Float32Array;
  f32: Float32Array;
  f64: Float64Array;
  i8: Int8Array;
  u8: Uint8Array;
  i32: Int32Array;
  u32: Uint32Array;
  i64: BigInt64Array;
  bool: Uint8Array;
}
/** The typed array that `data()` gives for a dtype. */
export type DataOf<D extends DTypeName> = DataArrays[D];

/** The array that memory of a dtype is seen as: f16 and bf16 are their 16 bits. */
export type MemoryOf<D extends DTypeName> = D extends 'f16' | 'bf16' ? Uint16Array : DataArrays[D];

/**
 * A typed view of `bytes` for elements of `t`. f16 and bf16 are seen as their 16 bits (Uint16Array):
 * `decode` and `encode` convert them.
 */
export function viewAs(t: DType, buffer: ArrayBufferLike, byteOffset: number, length: number): TypedArray {
  switch (t.name) {
    case 'f32':
      return new Float32Array(buffer, byteOffset, length);
    case 'f64':
      return new Float64Array(buffer, byteOffset, length);
    case 'i32':
      return new Int32Array(buffer, byteOffset, length);
    case 'u32':
      return new Uint32Array(buffer, byteOffset, length);
    case 'i64':
      return new BigInt64Array(buffer, byteOffset, length);
    case 'i8':
      return new Int8Array(buffer, byteOffset, length);
    case 'u8':
    case 'bool':
      return new Uint8Array(buffer, byteOffset, length);
    case 'f16':
    case 'bf16':
      return new Uint16Array(buffer, byteOffset, length);
  }
}

/** A fresh zeroed typed array for `length` elements of `t`. */
export const arrayOf = (t: DType, length: number): TypedArray =>
  viewAs(t, new ArrayBuffer(length * t.bytes), 0, length);
