/** Types of the kernel language: values (scalars and short vectors) and memory; and the schemas of parameters. */
import {
  aBoolean,
  integerFrom,
  isPlainObject,
  listOf,
  type Rule,
  type Rules,
  required,
  requireOptions,
} from '../../core/arguments.js';
import { DTYPES, type DType, requireDType } from '../../core/dtype.js';
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

const typesOf = (dtype: DType): Record<Lanes, ValueType> => {
  const type = (lanes: Lanes): ValueType => ({ kind: 'value', dtype, lanes });
  return { 1: type(1), 2: type(2), 4: type(4) };
};
const VALUE_TYPES: ReadonlyMap<DType, Record<Lanes, ValueType>> = new Map(
  Object.values(DTYPES).map((dtype) => [dtype, typesOf(dtype)]),
);

/** One object for each type: every expression refers to it. */
export const value = (dtype: DType, lanes: Lanes = 1): ValueType => VALUE_TYPES.get(dtype)![lanes];
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
  /** Elements of a tile along each dimension, 256 at most; of the innermost 32 to 128 bytes. */
  readonly box: readonly number[];
  /** The first element, in elements from the start of the buffer. */
  readonly offset: number;
  /** f32 is rounded to tf32 on its way to the tile. */
  readonly tf32: boolean;
  /** Of images (image, …, channel): a tile is (pixels, channels), and its pixels are these, one after the other. */
  readonly walk?: PixelWalk;
}

/**
 * Pixels of images that one after the other are copied to the rows of a tile: row by row, then image by image. They are
 * those on which a convolution puts the first tap of its kernel. Numbers for each dimension between image and channel.
 */
export interface PixelWalk {
  /** Where the first pixel of an image is: negative if it is outside, in the padding. */
  readonly from: readonly number[];
  /** How many pixels there are. */
  readonly counts: readonly number[];
  /** From one pixel to the next, 1 to 8. Default: 1. */
  readonly steps?: readonly number[];
}

/** What `tensorMap` takes. */
export interface TensorMapOptions {
  /** Elements of each dimension, outermost first. */
  readonly sizes: readonly number[];
  /** Elements of a tile along each dimension. With `walk`: pixels, and channels. */
  readonly box: readonly number[];
  /** Elements between neighbours along each dimension, the last 1. Default: those of a dense array. */
  readonly strides?: readonly number[];
  /** The first element. Default: 0. */
  readonly offset?: number;
  /** Of f32: whether it is rounded to tf32 on its way to a tile, as tensor cores take it. Default: false. */
  readonly tf32?: boolean;
  /** The sizes are those of images, (image, column, channel) or with rows, or depth and rows, and tiles are of pixels. */
  readonly walk?: PixelWalk;
}

const WALK: Readonly<Record<keyof PixelWalk, Rule>> = {
  from: integerFrom(Number.MIN_SAFE_INTEGER),
  counts: integerFrom(1),
  steps: integerFrom(1, 8),
};

const TENSOR_MAP: Rules<TensorMapOptions> = {
  sizes: required(listOf(integerFrom(1))),
  box: required(listOf(integerFrom(1))),
  strides: listOf(integerFrom(1)),
  offset: integerFrom(0),
  tf32: aBoolean,
  walk: {
    must: 'an object of arrays of integers: from, counts (1 or more) and maybe steps (1 to 8)',
    holds: (v) =>
      isPlainObject(v) &&
      Object.keys(v).every((name) => name in WALK) &&
      Object.entries(WALK).every(([name, each]) =>
        listOf(each).holds(v[name] ?? (name === 'steps' ? [] : v)),
      ),
  },
};

/** The bytes of a row of a tile: 32, 64 and 128 lie swizzled in shared memory. */
export const TILE_ROWS = [32, 64, 128] as const;

/** What the copy engine takes (CUDA Driver API, cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col). */
const ENGINE = { rank: 5, box: 256, bytes: 16 } as const;

/** Bits of the numbers that say where a walk's pixels are, by the dimensions between image and channel. */
const WALK_BITS = [16, 8, 5] as const;

/** Of each dimension between image and channel, how far the last pixel of a walk is from the last of the image. */
export const walkEnd = ({ sizes, walk }: TensorMap): readonly number[] =>
  walk!.from.map((from, d) => from + (walk!.counts[d]! - 1) * (walk!.steps?.[d] ?? 1) - (sizes[d + 1]! - 1));

/** Offsets from a walk's pixels, along one of so many dimensions, are below this. */
export const walkReach = (dimensions: number): number => 2 ** WALK_BITS[dimensions - 1]!;

/** Whether the copy engine can walk so: the rule that is broken, if one is. */
export function walkFault(map: TensorMap): string | undefined {
  const { sizes, walk } = map;
  const { from, counts, steps = from } = walk!;
  const dimensions = sizes.length - 2;
  if (dimensions < 1 || [from, counts, steps].some(({ length }) => length !== dimensions))
    return 'a walk has numbers for the 1 to 3 dimensions between image and channel';
  const most = walkReach(dimensions) / 2;
  if ([...from, ...walkEnd(map)].some((n) => n < -most || n >= most))
    return `a walk begins and ends within ${most} of the edges of an image`;
  return undefined;
}

/**
 * A parameter that `tmaLoad` and `tmaStore` copy in tiles: a buffer with its layout, which a kernel is compiled for.
 * @param dtype f16, bf16, f32 or a whole number; of a GPU of compute capability 9.0
 * @throws ArgumentError for a layout that the copy engine does not take
 * @example
 * kernel('add', { x: tensorMap(bf16, { sizes: [4096, 1024], box: [128, 64] }) }, …)
 * @example
 * // Images (8, 32, 32, 64), in tiles of 128 pixels and 64 channels, as a 3 × 3 kernel with padding 1 sees them.
 * const walk = { from: [-1, -1], counts: [32, 32] };
 * kernel('conv', { x: tensorMap(bf16, { sizes: [8, 32, 32, 64], box: [128, 64], walk }) }, …)
 */
export function tensorMap<D extends DType>(dtype: D, options: TensorMapOptions): BufferSchema<D> {
  requireDType('tensorMap', dtype);
  requireOptions('tensorMap', options, TENSOR_MAP);
  const { sizes, box, offset = 0, tf32 = false, walk } = options;
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
    box.length !== (walk ? 2 : sizes.length) ||
    strides.length !== sizes.length
  )
    refuse(
      walk
        ? `sizes and strides have the same 3 to ${ENGINE.rank} dimensions, and a box has pixels and channels`
        : `sizes, strides and box have the same 1 to ${ENGINE.rank} dimensions`,
    );
  if (strides.at(-1) !== 1) refuse('the innermost stride is 1');
  if (
    strides.slice(0, -1).some((n) => (n * dtype.bytes) % ENGINE.bytes !== 0) ||
    (offset * dtype.bytes) % ENGINE.bytes !== 0
  )
    refuse(`rows and the offset begin at multiples of ${ENGINE.bytes} bytes`);
  if (box.some((n) => n > ENGINE.box)) refuse(`a box has at most ${ENGINE.box} elements along a dimension`);
  if (!TILE_ROWS.includes(row as 32)) refuse(`a row of the box has ${TILE_ROWS.join(', ')} bytes`);
  const map: TensorMap = { sizes, strides, box, offset, tf32, ...(walk && { walk }) };
  const fault = walk && walkFault(map);
  if (fault) refuse(fault);
  return { kind: 'buffer', dtype, map };
}

/** `x: buffer(f32)` declares a parameter that is indexed. */
export function buffer<D extends DType>(dtype: D): BufferSchema<D> {
  requireDType('buffer', dtype);
  return { kind: 'buffer', dtype };
}

/** A kernel's parameters: scalars by their dtype, buffers by `buffer(dtype)`. */
export type Schema = Readonly<Record<string, DType | BufferSchema>>;

export const isBuffer = (s: DType | BufferSchema): s is BufferSchema => s.kind === 'buffer';
