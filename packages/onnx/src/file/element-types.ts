/**
 * The element types of ONNX, one record each: how many bits a file has for an element, the typed array of values on the host,
 * and the dtype of the tensor that carries them. Heddle has no tensors of 2, 4 or 16-bit integers: their values are
 * carried as i32, and operators bring results back into the range of the type.
 */
import {
  bf16,
  bool,
  type DType,
  DTypeError,
  type DTypeName,
  f16,
  f32,
  f64,
  i8,
  i32,
  i64,
  u8,
  u32,
} from 'heddle';

/** The names of the element types: Heddle's dtypes by their own names, and those that only ONNX has, named alike. */
export type ElementTypeName =
  | DTypeName
  | 'i2'
  | 'u2'
  | 'i4'
  | 'u4'
  | 'i16'
  | 'u16'
  | 'u64'
  | 'f8e4m3fn'
  | 'f8e4m3fnuz'
  | 'f8e5m2'
  | 'f8e5m2fnuz'
  | 'f8e8m0'
  | 'f6e2m3'
  | 'f6e3m2'
  | 'f4e2m1'
  | 'c64'
  | 'c128'
  | 'string';

/** What an element type counts as. */
export type ElementKind = 'float' | 'int' | 'uint' | 'bool' | 'string' | 'other';

/** The values of a tensor on the host, row by row: numbers, bigints of 64-bit integers, or texts. */
export type HostArray =
  | Float32Array
  | Float64Array
  | Int8Array
  | Uint8Array
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array
  | string[];

/** The repeated field of TensorProto that has the values of a type, unless `raw_data` has them. */
export type TypedField = 'floatData' | 'int32Data' | 'int64Data' | 'uint64Data' | 'doubleData' | 'stringData';

/** A type of elements. Compare element types by `===`. */
export interface ElementType {
  /** As in messages: `i64`. */
  readonly name: ElementTypeName;
  /** The number of the type in `TensorProto.DataType`. */
  readonly code: number;
  /** float, int, uint, bool, string, or one of the types that the library does not compute with. */
  readonly kind: ElementKind;
  /** Bits of an element in `raw_data`; 0 for texts. */
  readonly bits: number;
  /** Where the values are that are not in `raw_data`. */
  readonly field: TypedField;
  /** The dtype of tensors that carry the values; undefined where none does. */
  readonly dtype: DType | undefined;
  /** A zeroed array of values on the host; undefined where the library does not read the type. */
  readonly array: ((length: number) => HostArray) | undefined;
}

const type = (
  name: ElementTypeName,
  code: number,
  kind: ElementKind,
  bits: number,
  field: TypedField,
  dtype?: DType,
  array?: (length: number) => HostArray,
): ElementType => Object.freeze({ name, code, kind, bits, field, dtype, array });

const F32 = (n: number): Float32Array => new Float32Array(n);
const I8 = (n: number): Int8Array => new Int8Array(n);
const U8 = (n: number): Uint8Array => new Uint8Array(n);
const texts = (n: number): string[] => new Array<string>(n).fill('');

/** Every element type by its name. f16 and bf16 are f32 on the host. */
export const ELEMENT_TYPES: { readonly [N in ElementTypeName]: ElementType } = {
  f32: type('f32', 1, 'float', 32, 'floatData', f32, F32),
  u8: type('u8', 2, 'uint', 8, 'int32Data', u8, U8),
  i8: type('i8', 3, 'int', 8, 'int32Data', i8, I8),
  u16: type('u16', 4, 'uint', 16, 'int32Data', i32, (n) => new Uint16Array(n)),
  i16: type('i16', 5, 'int', 16, 'int32Data', i32, (n) => new Int16Array(n)),
  i32: type('i32', 6, 'int', 32, 'int32Data', i32, (n) => new Int32Array(n)),
  i64: type('i64', 7, 'int', 64, 'int64Data', i64, (n) => new BigInt64Array(n)),
  string: type('string', 8, 'string', 0, 'stringData', undefined, texts),
  bool: type('bool', 9, 'bool', 8, 'int32Data', bool, U8),
  f16: type('f16', 10, 'float', 16, 'int32Data', f16, F32),
  f64: type('f64', 11, 'float', 64, 'doubleData', f64, (n) => new Float64Array(n)),
  u32: type('u32', 12, 'uint', 32, 'uint64Data', u32, (n) => new Uint32Array(n)),
  u64: type('u64', 13, 'uint', 64, 'uint64Data', undefined, (n) => new BigUint64Array(n)),
  c64: type('c64', 14, 'other', 64, 'floatData'),
  c128: type('c128', 15, 'other', 128, 'doubleData'),
  bf16: type('bf16', 16, 'float', 16, 'int32Data', bf16, F32),
  f8e4m3fn: type('f8e4m3fn', 17, 'other', 8, 'int32Data'),
  f8e4m3fnuz: type('f8e4m3fnuz', 18, 'other', 8, 'int32Data'),
  f8e5m2: type('f8e5m2', 19, 'other', 8, 'int32Data'),
  f8e5m2fnuz: type('f8e5m2fnuz', 20, 'other', 8, 'int32Data'),
  u4: type('u4', 21, 'uint', 4, 'int32Data', i32, U8),
  i4: type('i4', 22, 'int', 4, 'int32Data', i32, I8),
  f4e2m1: type('f4e2m1', 23, 'other', 4, 'int32Data'),
  f8e8m0: type('f8e8m0', 24, 'other', 8, 'int32Data'),
  u2: type('u2', 25, 'uint', 2, 'int32Data', i32, U8),
  i2: type('i2', 26, 'int', 2, 'int32Data', i32, I8),
  f6e2m3: type('f6e2m3', 27, 'other', 6, 'int32Data'),
  f6e3m2: type('f6e3m2', 28, 'other', 6, 'int32Data'),
};

const BY_CODE: ReadonlyMap<number, ElementType> = new Map(
  Object.values(ELEMENT_TYPES).map((record) => [record.code, record]),
);

/** @param what has the type, for the message @throws DTypeError for a number that stands for no type */
export function elementTypeOf(code: number, what: string): ElementType {
  const found = BY_CODE.get(code);
  if (!found)
    throw new DTypeError(
      `[onnx] ${what} has the element type ${code}, the types known are 1 to ${BY_CODE.size}. The file is damaged, or ` +
        'of a newer version of ONNX.',
    );
  return found;
}

/** The least and the largest value of an integer type. */
export function limitsOf({ kind, bits }: ElementType): readonly [least: bigint, most: bigint] {
  const values = 2n ** BigInt(bits);
  return kind === 'int' ? [-values / 2n, values / 2n - 1n] : [0n, values - 1n];
}

/** Whether values of a type are exactly those of its dtype: f32, but not i16, which i32 carries. */
export const isNative = (t: ElementType): boolean => t.dtype?.name === t.name;
