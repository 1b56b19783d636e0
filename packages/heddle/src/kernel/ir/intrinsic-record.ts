/** What is known of an operation that involves more than one value. */
import { type DType, type DTypeName, f32, i32, u32 } from '../../core/dtype.js';
import type { Scalar } from './ops.js';
import { value } from './types.js';

/**
 * What stands at a place: one mbarrier of an array of them, an element of a shared array, or of a tile, one of a tensor map's buffer that is read
 * from or written from there on, a row of sums (all but the last index of a local array), a left operand (an element of a
 * tile, or a row of 4 words of a local array), a whole local array.
 */
export type PlaceKind = 'barrier' | 'shared' | 'tile' | 'source' | 'target' | 'sums' | 'left' | 'array';

/** The threads that take part: one, the 32 of a warp in lockstep, the 128 of a warpgroup, as many as are named, or all of a block. */
export type ThreadScope = 'thread' | 'warp' | 'warpgroup' | 'group' | 'block';

/** A scalar, or a vector. */
export type LaneValue = Scalar | readonly Scalar[];

/** Vectors, by dtype and lanes. */
export const VECTORS = {
  f32x2: value(f32, 2),
  f32x4: value(f32, 4),
  i32x4: value(i32, 4),
  u32x2: value(u32, 2),
  u32x4: value(u32, 4),
} as const;
type VectorName = keyof typeof VECTORS;

export interface IntrinsicRecord {
  readonly scope: ThreadScope;
  /** Dtypes of the arguments: `T` is any number (all Ts equal); for atomics the memory comes before these. */
  readonly params: readonly ('T' | 'i32' | 'u32' | 'bool' | VectorName)[];
  readonly result: 'T' | 'u32' | 'bool' | VectorName | 'none';
  /** Its first argument is a place in memory, `x[i]`; the result is what stood there. */
  readonly atomic?: true;
  /**
   * Its argument is a place in a shared array of one of these dtypes: of each lane a row of 16 bytes, given to `warp`
   * as 8 numbers of 16 bits.
   */
  readonly rows?: readonly DTypeName[];
  /** Its first argument is a place in a shared array, of which another block of the cluster has its own: that is read. */
  readonly remote?: true;
  /** Memory that it works on, before its arguments. It has no result. */
  readonly places?: readonly PlaceKind[];
  /** How many of the last arguments may be left out: they are false. */
  readonly optional?: number;
  /** It involves other blocks of the cluster. */
  readonly cluster?: true;
  /** A thread alone may have to wait in it. */
  readonly waits?: true;
  readonly doc: string;
  /** Passes put it into kernels; authors have no name for it. */
  readonly internal?: true;
  /**
   * warp: results of all lanes from the arguments of all lanes (`undefined` where a lane does not take part: it has
   * returned, or the block ends before it).
   */
  readonly warp?: (t: DType, lanes: WarpArguments) => (LaneValue | undefined)[];
  /** The lane whose value `lane` gets; outside of 0 to 31, its own. That of a lane that does not take part is undefined. */
  readonly source?: (lane: number, by: number) => number;
  /** All 32 lanes must take part. */
  readonly whole?: true;
  /** atomic: the new value from the old one and the arguments. */
  readonly update?: (t: DType, old: Scalar, args: readonly Scalar[]) => Scalar;
}

/** Per lane its arguments, vectors as arrays; undefined where a lane does not take part. */
export type WarpArguments = readonly (readonly LaneValue[] | undefined)[];
