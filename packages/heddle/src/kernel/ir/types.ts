/** Types of the kernel language: values (scalars and short vectors) and memory; and the schemas of parameters. */
import { aBoolean, integerFrom, listOf, type Rules, required, requireOptions } from '../../core/arguments.js';
import { type DType, requireDType } from '../../core/dtype.js';
import { ArgumentError } from '../../core/errors.js';

export type Lanes = 1 | 2 | 4;

/** A scalar (1 lane) or a vector of 2 or 4. */
export interface ValueType {
  readonly kind: 'value';
  readonly dtype: DType;
  readonly lanes: Lanes;
}

export type Space = 'global' | 'shared' | 'local';

/** Memory that is indexed: a buffer parameter (`dims` is empty, one flat index) or an array of fixed sizes. */
export interface MemoryType {
  readonly kind: 'memory';
  readonly dtype: DType;
  readonly space: Space;
  readonly dims: readonly number[];
}

/** The type of statements. */
export interface NoType {
  readonly kind: 'none';
}

export type KernelType = ValueType | MemoryType | NoType;

export const value = (dtype: DType, lanes: Lanes = 1): ValueType => ({ kind: 'value', dtype, lanes });
export const NONE: NoType = { kind: 'none' };
export const sameValueType = (a: ValueType, b: ValueType): boolean =>
  a.dtype === b.dtype && a.lanes === b.lanes;
export const formatType = (t: KernelType): string =>
  t.kind === 'none'
    ? 'nothing'
    : t.kind === 'value'
      ? `${t.dtype.name}${t.lanes > 1 ? `x${t.lanes}` : ''}`
      : `${t.space} ${t.dtype.name}[${t.dims.join('][')}]`;

/** Schema of a buffer parameter: a pointer to elements of `dtype`, `x[i]` in a kernel. */
export interface BufferSchema<D extends DType = DType> {
  /** Tells buffers from scalars. */
  readonly kind: 'buffer';
  /** The dtype of the elements. */
  readonly dtype: D;
  /** Of a tensor map: what it says of the buffer. It is copied in tiles, and has no elements to a kernel. */
  readonly map?: TensorMap;
}

/** How a buffer is copied in tiles by a GPU's copy engine (TMA). Dimensions from the outermost to the innermost. */
export interface TensorMap {
  /** Elements of each dimension: 1 to 5. What lies outside is read as 0 and not written. */
  readonly sizes: readonly number[];
  /** Elements from one index of a dimension to the next; of the innermost 1. */
  readonly strides: readonly number[];
  /** Elements of a tile along each dimension, 256 at most; of the innermost 16 to 128 bytes. */
  readonly box: readonly number[];
  /** The first element, in elements from the start of the buffer. */
  readonly offset: number;
  /** f32 is rounded to tf32 on its way to the tile. */
  readonly tf32: boolean;
}

/** What `tensorMap` takes. */
export interface TensorMapOptions {
  /** Elements of each dimension, outermost first. */
  readonly sizes: readonly number[];
  /** Elements of a tile along each dimension. */
  readonly box: readonly number[];
  /** Elements between neighbours along each dimension, the last 1. Default: those of a dense array. */
  readonly strides?: readonly number[];
  /** The first element. Default: 0. */
  readonly offset?: number;
  /** Of f32: whether it is rounded to tf32 on its way to a tile, as tensor cores take it. Default: false. */
  readonly tf32?: boolean;
}

const TENSOR_MAP: Rules<TensorMapOptions> = {
  sizes: required(listOf(integerFrom(1))),
  box: required(listOf(integerFrom(1))),
  strides: listOf(integerFrom(1)),
  offset: integerFrom(0),
  tf32: aBoolean,
};

/** The bytes of a row of a tile: 32, 64 and 128 lie swizzled in shared memory. */
export const TILE_ROWS = [32, 64, 128] as const;

/** What the copy engine takes (CUDA Driver API, cuTensorMapEncodeTiled). */
const ENGINE = { rank: 5, box: 256, bytes: 16 } as const;

/**
 * A parameter that `tmaLoad` and `tmaStore` copy in tiles: a buffer with its layout, which a kernel is compiled for.
 * @param dtype f16, bf16, f32 or a whole number; of a GPU of compute capability 9.0
 * @throws ArgumentError for a layout that the copy engine does not take
 * @example
 * kernel('add', { x: tensorMap(bf16, { sizes: [4096, 1024], box: [128, 64] }) }, …)
 */
export function tensorMap<D extends DType>(dtype: D, options: TensorMapOptions): BufferSchema<D> {
  requireDType('tensorMap', dtype);
  requireOptions('tensorMap', options, TENSOR_MAP);
  const { sizes, box, offset = 0, tf32 = false } = options;
  const dense = sizes.map((_, i) => sizes.slice(i + 1).reduce((n, d) => n * d, 1));
  const { strides = dense } = options;
  const refuse = (rule: string): never => {
    throw new ArgumentError(
      `[tensorMap] ${rule}; got sizes (${sizes}), strides (${strides}), box (${box}) of ${dtype.name}.`,
    );
  };
  const row = box.at(-1)! * dtype.bytes;
  if (
    sizes.length < 1 ||
    sizes.length > ENGINE.rank ||
    box.length !== sizes.length ||
    strides.length !== sizes.length
  )
    refuse(`sizes, strides and box have the same 1 to ${ENGINE.rank} dimensions`);
  if (strides.at(-1) !== 1) refuse('the innermost stride is 1');
  if (
    strides.slice(0, -1).some((n) => (n * dtype.bytes) % ENGINE.bytes !== 0) ||
    (offset * dtype.bytes) % ENGINE.bytes !== 0
  )
    refuse(`rows and the offset begin at multiples of ${ENGINE.bytes} bytes`);
  if (box.some((n) => n > ENGINE.box)) refuse(`a box has at most ${ENGINE.box} elements along a dimension`);
  if (!TILE_ROWS.includes(row as 32)) refuse(`a row of the box has ${TILE_ROWS.join(', ')} bytes`);
  return { kind: 'buffer', dtype, map: { sizes, strides, box, offset, tf32 } };
}

/** `x: buffer(f32)` declares a parameter that is indexed. */
export function buffer<D extends DType>(dtype: D): BufferSchema<D> {
  requireDType('buffer', dtype);
  return { kind: 'buffer', dtype };
}

/** A kernel's parameters: scalars by their dtype, buffers by `buffer(dtype)`. */
export type Schema = Readonly<Record<string, DType | BufferSchema>>;

export const isBuffer = (s: DType | BufferSchema): s is BufferSchema => s.kind === 'buffer';
