/**
 * The kernel language, as its authors see it.
 *
 * A kernel is a function of two parameters: its arguments, typed by the schema, and the context, which holds the
 * intrinsics below and the constants passed in. It is never run as JavaScript: its source is parsed and compiled.
 *
 * - Every number is a `number` to TypeScript; its dtype comes from the schema, from casts, or, for a literal, from
 *   the value it meets. Where nothing says more, a whole literal is i32 and any other f32.
 * - `let acc = 0` takes the dtype (and lanes) of the first typed value assigned to it; `let acc = f32(0)` says it.
 * - `i32` and `f32` never mix by themselves: write `f32(i)`. `/` is for floats; integers have `idiv`.
 * - Constants are known when the kernel is compiled: branches on them are pruned before they are typed, array sizes
 *   and `lane(v, k)` need them, and a loop whose variable is needed as one is unrolled.
 * - Warp operations (shuffles, warpSum, votes, mma, loadMatrix4) are taken by all lanes of the warp together that have
 *   not returned: by `return`, or because the kernel ends with the `if` that they skip. A lane that goes on past the
 *   operation instead makes it undefined. Lanes that have returned, or that a last warp of fewer than 32 threads does
 *   not have, do not count in warpSum, warpMax, warpMin and votes; a shuffle must not read them, and mma and
 *   loadMatrix4 need all 32. The simulator finds what is undefined.
 * - A function among the constants is inlined where it is called. What it needs of the context is passed on to it
 *   like any other argument: `gelu(x, { exp2 })`, or `gelu(x, context)` where the context is one identifier.
 */
import { aString, type Rule, recordOf, requireArgument } from '../../core/arguments.js';
import type { DType, DTypeName } from '../../core/dtype.js';
import type { KernelIr } from '../ir/ir.js';
import type { BufferSchema, Schema } from '../ir/types.js';
import { type AnyFunction, parseKernel } from '../parse/parse.js';

/**
 * Memory: `x[i]` of a buffer, `tile[r][c]` of an array. Elements are numbers (booleans for dtype bool).
 *
 * They are declared as `any` so that `noUncheckedIndexedAccess` does not ask for `x[i]!` at every access; the kernel
 * compiler checks their types itself.
 */
export interface Memory {
  // biome-ignore lint/suspicious/noExplicitAny: see above
  [index: number]: any;
}

/** What a kernel's function receives for each entry of its schema. */
export type ValuesOf<S extends Schema> = {
  readonly [K in keyof S]: S[K] extends BufferSchema ? Memory : S[K] extends DType<'bool'> ? boolean : number;
};

/** A dtype that is called to convert: `f32(i)`; or passed on: `shared(f32, 32)`. */
export type Cast<N extends DTypeName> = DType<N> &
  ((value: number | boolean) => N extends 'bool' ? boolean : number);

/** A float dtype as a constant of a kernel, where it is called to convert. */
export const asCast = (dtype: DType): Cast<'f32'> => dtype as Cast<'f32'>;

/** Three dimensions. */
export interface Vector3 {
  /** The fastest dimension: neighbouring threads of a warp differ in it. */
  readonly x: number;
  /** The second dimension. */
  readonly y: number;
  /** The slowest dimension. */
  readonly z: number;
}

/** What `copyAsync` takes after its target: indices, the source, its index, and a condition. */
export type CopyArgument = number | boolean | Memory;
/** Sizes or indices, one for each dimension. */
export type Sizes = readonly [number, ...number[]];

/** What the second parameter of a kernel offers. Vectors are `number` to TypeScript. */
export interface Intrinsics {
  /** The thread within its block, i32. */
  readonly threadIdx: Vector3;
  /** The block within the grid, i32. */
  readonly blockIdx: Vector3;
  /** Threads per block, i32. */
  readonly blockDim: Vector3;
  /** Blocks in the grid, i32. */
  readonly gridDim: Vector3;
  /** `blockIdx * blockDim + threadIdx`, i32. */
  readonly globalId: Vector3;
  /** The thread within its warp, 0 to 31, i32. */
  readonly laneId: number;
  /** The warp within its block, i32. */
  readonly warpId: number;
  /** The block within its cluster, i32, x fastest; 0 where a launch has no clusters. */
  readonly clusterRank: number;
  /** Blocks of a cluster, i32; 1 where a launch has no clusters. */
  readonly clusterSize: number;

  /** Waits for all threads of the block; shared and global writes before it are seen after it. */
  barrier(): void;
  /** An array that the threads of a block share. Its contents are undefined until written. */
  shared(dtype: DType, ...sizes: Sizes): Memory;
  /** An array of one thread, in registers where its indices are constant. Undefined until written. */
  local(dtype: DType, ...sizes: Sizes): Memory;
  /** A local array whose elements are vectors of 2. */
  local2(dtype: DType, ...sizes: Sizes): Memory;
  /** A local array whose elements are vectors of 4. */
  local4(dtype: DType, ...sizes: Sizes): Memory;
  /** A shared array whose size is given at launch, by `sharedBytes`. */
  dynamicShared(dtype: DType): Memory;

  /** The 2 elements from `x[i]` on, as a vector; i a multiple of 2. */
  load2(x: Memory, ...index: Sizes): number;
  /** The 4 elements from `x[i]` on, as a vector; i a multiple of 4. */
  load4(x: Memory, ...index: Sizes): number;
  /** Writes a vector of 2 to `x[i]` and the element after it: `store2(x, i, v)`. */
  store2(x: Memory, ...indexAndValue: readonly [number, number, ...number[]]): void;
  /** Writes a vector of 4 to the 4 elements from `x[i]` on: `store4(x, i, v)`. */
  store4(x: Memory, ...indexAndValue: readonly [number, number, ...number[]]): void;
  /** A vector of 2. */
  vec2(a: number, b: number): number;
  /** A vector of 4. */
  vec4(a: number, b: number, c: number, d: number): number;
  /** `v` in both lanes of a vector of 2. */
  splat2(v: number): number;
  /** `v` in all lanes of a vector of 4. */
  splat4(v: number): number;
  /** Lane `k` of a vector; k is a constant. */
  lane(v: number, k: number): number;

  /** Convert to f16, rounding to nearest even. */
  readonly f16: Cast<'f16'>;
  /** Convert to bf16, rounding to nearest even. */
  readonly bf16: Cast<'bf16'>;
  /** Convert to f32, rounding to nearest even. */
  readonly f32: Cast<'f32'>;
  /** Convert to f64. */
  readonly f64: Cast<'f64'>;
  /** Convert to i8; floats towards zero, saturating. */
  readonly i8: Cast<'i8'>;
  /** Convert to u8; floats towards zero, saturating. */
  readonly u8: Cast<'u8'>;
  /** Convert to i32; floats towards zero, saturating. */
  readonly i32: Cast<'i32'>;
  /** Convert to u32; floats towards zero, saturating. */
  readonly u32: Cast<'u32'>;
  /** Convert to i64; floats towards zero, saturating. */
  readonly i64: Cast<'i64'>;
  /** Whether a number is not 0. */
  readonly bool: Cast<'bool'>;
  /**
   * The bits of `value` read as another dtype of the same size; those of a vector of 2 f16 or bf16 as one u32, the first in
   * its lower half, as tensor cores take them.
   */
  bitcast(dtype: DType, value: number): number;

  /** Quotient of integers, rounded to zero; 0 for b = 0. */
  idiv(a: number, b: number): number;
  /** The upper half of the product of integers. */
  mulhi(a: number, b: number): number;
  /** i32: c and the sum of the products of four signed bytes, those of the words a and b. */
  dp4a(a: number, b: number, c: number): number;
  /** As `dp4a`, where no byte of b is negative: what others give is not defined. A CPU has an instruction for it. */
  dp4aPositive(a: number, b: number, c: number): number;
  /** `a * b + c`, rounded once where the device can. */
  fma(a: number, b: number, c: number): number;
  /** 2 to the power of `x`. */
  exp2(x: number): number;
  /** 2 to the power of `x`, f32; 0 for `x` below −126. On a GPU it is a single instruction, `exp2` is four. */
  exp2Normal(x: number): number;
  /** `Math.exp(x)`, f32, with the digits that a 16-bit float has. On a GPU it is three instructions. */
  exp16(x: number): number;
  /** The error function 2/√π ∫₀ˣ e^−t² dt. */
  erf(x: number): number;
  /** The normal distribution's cumulative function. */
  normcdf(x: number): number;
  /** The normal distribution's density e^(−x²/2)/√(2π), f32, with the digits that a 16-bit float has. */
  normpdf16(x: number): number;
  /** As `normcdf`, f32, with the digits that a 16-bit float has: beside `normpdf16` of the same it costs half as much. */
  normcdf16(x: number): number;
  /** The nearest whole number; halves go to the even one. */
  rint(x: number): number;
  /** Rounded to 10 bits of fraction (ties to even), as tensor cores take it. */
  tf32(x: number): number;
  /** `1 / Math.sqrt(x)`. */
  rsqrt(x: number): number;
  /** `c ? a : b`; on vectors, lane by lane. */
  select<T extends number | boolean>(c: boolean, a: T, b: T): T;

  /** The value of lane `lane` (modulo 32) of the warp, which must take part. */
  shuffle(value: number, lane: number): number;
  /** The value of the lane `by` below, which must take part; the own value where that would be below lane 0. */
  shuffleUp(value: number, by: number): number;
  /** The value of the lane `by` above, which must take part; the own value where that would be above lane 31. */
  shuffleDown(value: number, by: number): number;
  /** The value of the lane whose number is this one's xor `by`, which must take part. */
  shuffleXor(value: number, by: number): number;
  /** The sum over the lanes of the warp that have not returned, in each of them. */
  warpSum(value: number): number;
  /** The largest value of the lanes that have not returned, in each of them. */
  warpMax(value: number): number;
  /** The smallest value of the lanes that have not returned, in each of them. */
  warpMin(value: number): number;
  /** Whether any lane that has not returned says true. */
  any(vote: boolean): boolean;
  /** Whether every lane that has not returned says true. */
  all(vote: boolean): boolean;
  /** A bit per lane that says true, u32. */
  ballot(vote: boolean): number;

  /**
   * a · b + c on a tensor core, 16 × 8 × 8 in tf32 by all 32 lanes of a warp: f32 vectors of 4, 2 and 4. With
   * g = laneId / 4 and t = laneId % 4, a lane holds a at (g, t) (g + 8, t) (g, t + 4) (g + 8, t + 4), b at (t, g)
   * (t + 4, g), c and the result at (g, 2t) (g, 2t + 1) (g + 8, 2t) (g + 8, 2t + 1), as (row, column). Operands that
   * are not rounded by `tf32` are cut.
   */
  mma(a: number, b: number, c: number): number;
  /**
   * As `mma`, 16 × 8 × 16 in f16: u32 vectors of 4 and 2, each number a pair, the lower half first: a at (g, 2t)
   * (g + 8, 2t) (g, 2t + 8) (g + 8, 2t + 8), each with the next column; b at (2t, g) (2t + 8, g), each with the next
   * row. c and the result are f32, as there.
   */
  mmaF16(a: number, b: number, c: number): number;
  /** As `mmaF16`, in bf16. */
  mmaBf16(a: number, b: number, c: number): number;
  /**
   * As `mma`, 16 × 8 × 32 in i8: u32 vectors of 4 and 2, each number four bytes, the lowest first: a at (g, 4t) (g + 8, 4t)
   * (g, 4t + 16) (g + 8, 4t + 16), each with the next three columns; b at (4t, g) (4t + 16, g), each with the next three rows.
   * c and the result are i32, at the same places, and wrap.
   */
  mmaI8(a: number, b: number, c: number): number;

  /**
   * Fragments for `mmaF16` and `mmaBf16` of four matrices of 8 × 8 in a shared array of f16 or bf16, a u32 vector of 4. Lane 8i + r
   * says where row r of matrix i begins, 8 neighbours from an index that is a multiple of 8; lane (g, t) gets (g, 2t)
   * and (g, 2t + 1) of each. Of f32 the matrices are 8 × 4, for `mma`: indices are multiples of 4, lane (g, t) gets
   * the bits of (g, t).
   */
  loadMatrix4(x: Memory, ...index: Sizes): number;
  /** As `loadMatrix4` of f16 or bf16; lane (g, t) gets (2t, g) and (2t + 1, g) of each. */
  loadMatrix4Transposed(x: Memory, ...index: Sizes): number;

  /**
   * Starts to copy `x[j]` to a shared array, without passing through registers: `copyAsync(tile, i, x, j)`. The
   * element is there after `waitCopies`, for other threads after a `barrier` too. With a condition at the end,
   * zero is written where it is false, and x is not read.
   */
  copyAsync(to: Memory, ...indexFromIndex: readonly CopyArgument[]): void;
  /** As `copyAsync`, 2 elements (of 4 bytes); both indices multiples of 2. */
  copyAsync2(to: Memory, ...indexFromIndex: readonly CopyArgument[]): void;
  /** As `copyAsync`, 4 elements; both indices multiples of 4. */
  copyAsync4(to: Memory, ...indexFromIndex: readonly CopyArgument[]): void;
  /** As `copyAsync4`, past the cache that the threads of a multiprocessor share: for what is copied only once there. */
  copyAsync4Once(to: Memory, ...indexFromIndex: readonly CopyArgument[]): void;
  /** Makes a group of the copies that this thread has started since the last. */
  commitCopies(): void;
  /** Waits until at most the `n` groups committed last may still be on their way; n is a constant. */
  waitCopies(n: number): void;

  /**
   * Shared memory for the copy engine (TMA) and for `wgmma`, of compute capability 9.0. Rows (the last size) have 32, 64
   * or 128 bytes, and lie swizzled; `t[i][j]` finds its element wherever it lies.
   */
  sharedTile(dtype: DType, ...sizes: Sizes): Memory;
  /** `n` mbarriers. Each counts the arrivals, and the bytes of tiles and of `storeRemote`, that complete its current phase. */
  mbarriers(n: number): Memory;
  /**
   * Begins phase 0 of an mbarrier, each of `arrivals`: `initBarrier(full, i, 1)`. One thread does so, and a `barrier()`
   * comes before anybody uses it.
   */
  initBarrier(barriers: Memory, i: number, arrivals: number): void;
  /** Arrives at an mbarrier: those that wait for its phase see what this thread has done before. */
  arrive(barriers: Memory, i: number): void;
  /** Arrives at an mbarrier whose phase waits for that many bytes of `tmaLoad` and `storeRemote` as well. */
  arriveExpect(barriers: Memory, i: number, bytes: number): void;
  /**
   * Arrives at an mbarrier once all `copyAsync` that this thread has started are made; it may go on. Those that wait for the
   * phase see what has been copied. Before `wgmma` and `tmaStore` they call `fenceAsync`, since the copies are those of a thread.
   */
  arriveCopies(barriers: Memory, i: number): void;
  /**
   * Arrives at the same mbarrier of block `rank` of the cluster: `arriveRemote(empty, i, 0)`. All blocks have met at the
   * barrier of the cluster after `initBarrier`, and none ends before others have arrived for the last time.
   */
  arriveRemote(barriers: Memory, i: number, rank: number): void;
  /**
   * Waits until phase number `phase` is complete, which must be the current one or the one before: mbarriers know only
   * whether its number is even. Phase −1, or 1 before any is complete, is.
   */
  waitBarrier(barriers: Memory, i: number, phase: number): void;
  /**
   * Starts to copy a box of a `tensorMap` parameter to a tile: `tmaLoad(as, stage, 0, 0, a, row, k, full, stage)`, by the
   * copy engine, zeros where the box is outside of the buffer. It is there when the mbarrier's phase, which counts its
   * bytes, is complete. One thread does so for the block.
   *
   * Of a map with a `walk` the place is a pixel of it, and offsets follow that are added to the position of this pixel and
   * of all that come after it, as of a convolution's tap: `tmaLoad(as, stage, 0, 0, x, image, row, column, channel, i, j,
   * full, stage)`.
   */
  tmaLoad(tile: Memory, ...indexMapIndexBarrierIndex: readonly (number | Memory)[]): void;
  /**
   * As `tmaLoad`, to the same tile of all blocks of the cluster whose bit is set in `mask`, a last argument:
   * `tmaLoadMulticast(as, stage, 0, 0, a, row, k, full, stage, 3)`. The mbarrier of each of them, the same one, counts the
   * bytes that come to its block. What is multicast is read from memory once.
   */
  tmaLoadMulticast(tile: Memory, ...indexMapIndexBarrierIndexMask: readonly (number | Memory)[]): void;
  /**
   * Starts to copy a box from a tile to a `tensorMap` parameter: `tmaStore(c, row, column, cs, 0, 0)`. What is outside
   * of the buffer is not written. Of a map with a `walk`, over all pixels, the place is one of them, without offsets. What threads have written
   * to the tile needs `fenceAsync` by them and a barrier before.
   */
  tmaStore(map: Memory, ...indexTileIndex: readonly (number | Memory)[]): void;
  /** Makes a group of the `tmaStore` of this thread since the last. */
  tmaCommit(): void;
  /** Waits until at most the `n` groups of `tmaStore` committed last still read their tiles; n is a constant. */
  tmaWait(n: number): void;
  /** Lets the copy engine and `wgmma` see what this thread has written to shared memory; a barrier comes after it. */
  fenceAsync(): void;

  /**
   * Starts to add a product of 64 × N to the sums of a warpgroup, 128 neighbouring threads from a multiple of 128 on:
   * `wgmma(sums, as, stage, row, k, bs, stage, column, k)`. N is twice the size of `sums`, a local array of f32, or of i32
   * where the tiles are of 8-bit integers; those sums wrap. The tiles hold (row, k) and (column, k), from the places given
   * on: 64 rows, N columns, 32 bytes along k: 16 of f16 and bf16, 8 of f32 (as tf32), 32 of 8-bit integers. With
   * `transposedA` a is (k, row), with `transposedB` b is (k, column), 16-bit floats only, where the index before k is that
   * of a panel of the tile's row. Element i of `sums` is row 16w + g + 8·(⌊i / 2⌋ mod 2), column 8⌊i / 4⌋ + 2t + i mod 2 of
   * warp w of the warpgroup, with g = ⌊laneId / 4⌋ and t = laneId mod 4. They are there after `commitWgmma` and `waitWgmma`.
   *
   * Instead of a tile, a may be a local array of u32, (…, 4), of which the indices but the last are given: word j has the
   * elements of row 16w + g + 8·(j mod 2) from byte 16⌊j / 2⌋ + 4t of the 32 along k on, the first in its lowest bits. They
   * may be changed after the wait. With `fresh`, a last argument, the sums begin at 0.
   */
  wgmma(
    sums: Memory,
    ...indexTileIndexTileIndexTransposedFresh: readonly (number | Memory | boolean)[]
  ): void;
  /**
   * Sets `sums` to 0, and leaves them to `wgmma`: nothing else changes them, and they may be read after `waitWgmma(sums, 0)`. The
   * compiler has less work with them than with sums that the thread sets to 0 one by one.
   */
  clearSums(sums: Memory): void;
  /** Lets `wgmma` see what this thread has put into `sums`, or into its words of a. */
  fenceWgmma(sums: Memory): void;
  /** Makes a group of the `wgmma` of this warpgroup since the last. */
  commitWgmma(): void;
  /**
   * Waits until at most the `n` groups of `wgmma` committed last still work; n is a constant. `sums` may be read after it. Cast them
   * to f16 two at a time, `f16(vec2(a, b))`: ptxas 13.0 has moved casts of single ones in front of the wait.
   */
  waitWgmma(sums: Memory, n: number): void;
  /** Waits at barrier `id`, 1 to 15, until `threads` of the block have come, a multiple of 32. */
  groupBarrier(id: number, threads: number): void;
  /** Arrives at the barrier of the cluster, and goes on: what this thread has done is seen by those that wait. */
  arriveCluster(): void;
  /** Waits until all threads of all blocks of the cluster have arrived. Each thread arrives, then waits. */
  waitCluster(): void;
  /**
   * `x[i]` of block `rank` of the cluster, of a shared array: `loadRemote(sums, i, rank)`. What it has written is there after
   * the barrier of the cluster, and until it ends.
   */
  loadRemote(x: Memory, ...indexAndRank: readonly [number, number, ...number[]]): number;
  /**
   * Starts to store a value in `x[i]` of block `rank` of the cluster, of a shared array of numbers of 4 or 8 bytes, and tells the
   * same mbarrier there of its bytes: `storeRemote(sums, i, full, 0, sum, rank)`. All blocks have met at the barrier of the cluster
   * after `initBarrier`. Whoever waits for the phase of that mbarrier sees the value; nothing else orders the two.
   */
  storeRemote(x: Memory, ...indexBarrierIndexValueRank: readonly (number | Memory)[]): void;
  /** Gives each thread of the warpgroup `n` registers, a multiple of 8 up to 256, once others have lowered theirs. */
  raiseRegisters(n: number): void;
  /** Leaves each thread of the warpgroup `n` registers, a multiple of 8 from 24 on. */
  lowerRegisters(n: number): void;

  /** `x[i] += v`; returns the old value. Arrays take one index per dimension. */
  atomicAdd(x: Memory, ...indexAndValue: readonly [number, number, ...number[]]): number;
  /** `x[i] -= v`; returns the old value. */
  atomicSub(x: Memory, ...indexAndValue: readonly [number, number, ...number[]]): number;
  /** `x[i] = min(x[i], v)`; returns the old value. */
  atomicMin(x: Memory, ...indexAndValue: readonly [number, number, ...number[]]): number;
  /** `x[i] = max(x[i], v)`; returns the old value. */
  atomicMax(x: Memory, ...indexAndValue: readonly [number, number, ...number[]]): number;
  /** `x[i] &= v`; returns the old value. */
  atomicAnd(x: Memory, ...indexAndValue: readonly [number, number, ...number[]]): number;
  /** `x[i] |= v`; returns the old value. */
  atomicOr(x: Memory, ...indexAndValue: readonly [number, number, ...number[]]): number;
  /** `x[i] ^= v`; returns the old value. */
  atomicXor(x: Memory, ...indexAndValue: readonly [number, number, ...number[]]): number;
  /** `x[i] = v`; returns the old value. */
  atomicExchange(x: Memory, ...indexAndValue: readonly [number, number, ...number[]]): number;
  /** `if (x[i] === expected) x[i] = v`; returns the old value: `atomicCompareExchange(x, i, expected, v)`. */
  atomicCompareExchange(x: Memory, ...indexAndValues: readonly [number, number, number, ...number[]]): number;

  /**
   * Fails with the message where the condition is false: at once in the simulator, with the block and the thread; on other
   * devices when a result is waited for.
   */
  assert(condition: boolean, message?: string): void;
  /** Prints a line, each `{}` replaced by the next value: `print('x = {}', x)`. */
  print(text: string, ...values: readonly (number | boolean)[]): void;
}

/** Compile-time values of a kernel: numbers, booleans, strings, dtypes, arrays of them, and functions to inline. */
export type Constants = Readonly<Record<string, unknown>>;

/** The function of a kernel. */
export type KernelFunction<S extends Schema, C extends Constants> = (
  params: ValuesOf<S>,
  context: Intrinsics & Readonly<C>,
) => void;

const ANYTHING: Rule = { must: 'anything', holds: () => true };

/**
 * Compile a function's source to the kernel IR.
 * @param schema the parameters, in the order a launch passes them
 * @param constants what the kernel knows at compile time; the function takes them from its second parameter
 * @throws KernelError with file, line and column of the author's source
 * @example
 * defineKernel('scale', { a: f32, x: buffer(f32), n: i32 }, ({ a, x, n }, { globalId }) => {
 *   const i = globalId.x;
 *   if (i < n) x[i] = a * x[i];
 * });
 */
export function defineKernel<const S extends Schema, C extends Constants = Record<never, never>>(
  name: string,
  schema: S,
  fn: KernelFunction<S, C>,
  constants?: C,
): KernelIr {
  requireArgument('kernel', 'name', name, aString);
  if (constants !== undefined)
    requireArgument('kernel', 'constants', constants, recordOf(ANYTHING, 'an object of values by name'));
  return parseKernel(name, schema, fn as AnyFunction, constants ?? {});
}
