/**
 * Matrix product on a GPU: C (M×N) = A (M×K) · B (K×N), strict f32, for small, skinny and large matrices alike.
 *
 * A block computes a tile of C. Its warps lie along M, along N and, where C is small, along K: then each sums its
 * share of the products, and the shares are added in shared memory in a fixed order. Tiles of A and B come by
 * asynchronous copies in several stages (all of K at once where it fits: one wait for memory in the whole kernel). A
 * thread reads four steps along K at a time and sums 1 to 64 elements of C in registers.
 *
 * Operands are never transposed: what is contiguous along K is read in vectors along K, anything else across it
 * (cuda-panel.ts), so that A·B, A·Bᵀ and Aᵀ·B cost the same. Where even so there are too few blocks, K is split over
 * blocks as well, and a second kernel adds the parts. Large tiles turn what lies along K as it is copied, element by
 * element: across K, 64 products need two reads of 4 for each of A and B, one step at a time, and the sums, fragments
 * and addresses fit 128 registers, so that two blocks share a multiprocessor.
 *
 * An accumulator takes at most so many steps along K (LEVEL). Of more, a block sums one piece after the other and adds each to its
 * part in memory, so that a product is off by the roundings of a piece and of the pieces, not of K steps; totals in
 * registers would leave room for one block on a multiprocessor instead of two.
 *
 * What large products gained, one after the other: reading what lies across K one step at a time, with loops unrolled and
 * constant distances between copies (a fifth for A·B, a third for Aᵀ·B); turning what lies along K as it is copied (another
 * sixth for A·B and AᵀBᵀ); tiles of 32 steps in two stages instead of 16 in three (a twentieth for A·Bᵀ). Small ones: all of K in
 * one or two copies instead of a pipeline (up to a seventh), copies by way of the first-level cache (a sixth).
 */
import { f32 } from '../../core/dtype.js';
import type { IrFunction } from '../../kernel/ir/ir-function.js';
import { defineKernel, type Intrinsics, type Memory } from '../../kernel/language/language.js';
import { finishEarly } from '../../kernel/passes/finish-early.js';
import type { Lanes } from '../lanes.js';
import type { GridKernel } from '../tiled.js';
import { buffers, type MatmulProblem } from './cpu.js';
import {
  type BlockContext,
  type BlockWork,
  blockConstants,
  LEVEL,
  type TilePlace,
  workOf,
} from './cuda-block.js';
import { lanesOf, layoutOf, type MatmulTile } from './cuda-layout.js';
import type { Panel } from './cuda-panel.js';
import { STORE, type StoreContext } from './cuda-store.js';

/** What a thread has of the tile: its sums, and the fragments of A and B that it multiplies. */
interface Thread {
  readonly sums: Memory;
  readonly from: Memory;
  readonly by: Memory;
  /** Where its lane is along the rows and columns of its warp. */
  readonly row: number;
  readonly column: number;
  /** Where its rows of A and columns of B begin in a stage. */
  readonly fromAt: number;
  readonly byAt: number;
}

/** A place in C. */
interface Element {
  readonly row: number;
  readonly column: number;
}

interface Context extends BlockContext, StoreContext {
  readonly tile: MatmulTile;
  readonly readFragment: typeof readFragment;
  readonly multiplyQuad: typeof multiplyQuad;
  readonly lanesFrom: typeof lanesFrom;
  /** See `finishEarly`. */
  readonly early: IrFunction;
}

/** Where the rows of a lane begin in a panel, if those of its warp begin at `first`. */
function startOfLane(first: number, lane: number, P: Panel): number {
  return P.kMajor ? (first + lane) * P.pitch : first + lane * P.group;
}

/** Begins the sums of a thread. */
function clear(sums: Memory, { tile }: Context): void {
  for (let i = 0; i < tile.each[0]; i++) for (let j = 0; j < tile.each[1]; j++) sums[i][j] = 0;
}

/** Reads steps k to k + 3 of a lane's rows, from `at` on; of what lies across K only step k + l. */
function readFragment(
  into: Memory,
  held: Memory,
  at: number,
  P: Panel,
  k: number,
  l: number,
  { load2, load4, lane }: Intrinsics,
): void {
  for (let i = 0; i < P.share.each; i++) {
    if (P.kMajor) {
      const v = load4(held, at + i * (P.share.lanes * P.pitch) + k);
      for (let s = 0; s < 4; s++) into[i][s] = lane(v, s);
    } else if (i % P.group === 0) {
      const place = at + i * P.share.lanes + (k + l) * P.pitch;
      if (P.group === 4) {
        const v = load4(held, place);
        for (let g = 0; g < 4; g++) into[i + g][l] = lane(v, g);
      } else if (P.group === 2) {
        const v = load2(held, place);
        for (let g = 0; g < 2; g++) into[i + g][l] = lane(v, g);
      } else into[i][l] = held[place];
    }
  }
}

/** Adds the products of steps k to k + 3. What lies along K is read for all four at once, else for one after the other. */
function multiplyQuad(thread: Thread, held: Memory, stage: number, k: number, context: Context): void {
  const { fma, readFragment, tile, work } = context;
  const { sums, from, by } = thread;
  const { a, b, stages } = work;
  const fromAt = stage * stages.elements + thread.fromAt;
  const byAt = stage * stages.elements + thread.byAt;
  if (a.kMajor) readFragment(from, held, fromAt, a, k, 0, context);
  if (b.kMajor) readFragment(by, held, byAt, b, k, 0, context);
  for (let l = 0; l < 4; l++) {
    if (!a.kMajor) readFragment(from, held, fromAt, a, k, l, context);
    if (!b.kMajor) readFragment(by, held, byAt, b, k, l, context);
    for (let i = 0; i < tile.each[0]; i++)
      for (let j = 0; j < tile.each[1]; j++) sums[i][j] = fma(from[i][l], by[j][l], sums[i][j]);
  }
}

/** Adds the products of a chunk: of the warp's share of its steps. */
function multiplyChunk(thread: Thread, held: Memory, stage: number, share: number, context: Context): void {
  const { multiplyQuad, tile, work } = context;
  const { depth, a, b } = work;
  const next = 4 * work.warps.K;
  // Unrolled, the compiler would hold more of what lies along K than there are registers.
  const isSmall = tile.each[0] * tile.each[1] < 64;
  if (depth <= 8 * next && (isSmall || !a.kMajor || !b.kMajor)) {
    for (let k = 0; k < depth; k += next)
      if (k + next <= depth || share * 4 + k < depth)
        multiplyQuad(thread, held, stage, share * 4 + k, context);
  } else {
    let k = share * 4;
    while (k < depth) {
      multiplyQuad(thread, held, stage, k, context);
      k += next;
    }
  }
}

/** Neighbours of a thread's sums, as a number or vector. */
function lanesFrom(sums: Memory, i: number, j: number, lanes: Lanes, { vec2, vec4 }: Intrinsics): number {
  return lanes === 4
    ? vec4(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3])
    : lanes === 2
      ? vec2(sums[i][j], sums[i][j + 1])
      : sums[i][j];
}

/** Stores the sums of a thread that has them all. */
function storeTile(c: Memory, thread: Thread, piece: number, at: TilePlace, context: Context): void {
  const { lanesFrom, rowOfLane, storeSums, tile, work } = context;
  const { lanes } = work;
  for (let i = 0; i < tile.each[0]; i++) {
    const row = at.row + at.warpRow + rowOfLane(i, thread.row, work.a, context);
    for (let j = 0; j < tile.each[1]; j += lanes) {
      const column = at.column + at.warpColumn + rowOfLane(j, thread.column, work.b, context);
      storeSums(c, lanesFrom(thread.sums, i, j, lanes, context), lanes, piece, row, column, at, context);
    }
  }
}

/** Puts the sums of a thread that shares K into shared memory. */
function putShare(held: Memory, thread: Thread, at: TilePlace, context: Context): void {
  const { lanesFrom, rowOfLane, storeLanes, tile, work } = context;
  const { tiles, a, b } = work;
  for (let i = 0; i < tile.each[0]; i++) {
    const row = at.share * tiles.rows + at.warpRow + rowOfLane(i, thread.row, a, context);
    for (let j = 0; j < tile.each[1]; j += b.group) {
      const column = at.warpColumn + rowOfLane(j, thread.column, b, context);
      const v = lanesFrom(thread.sums, i, j, b.group, context);
      storeLanes(held, row * tiles.columns + column, v, b.group, context);
    }
  }
}

/**
 * The first of the elements of C that a thread stores of added shares; where the tile or the matrix ends, one of the last that there
 * are: those of another tile may be stored meanwhile.
 */
function ownElement(at: TilePlace, { idiv, threadIdx, work }: Context): Element {
  const { sizes, tiles, threads, lanes } = work;
  const mine = threadIdx.x * lanes;
  const down = idiv(mine, tiles.columns);
  const inTile = threads * lanes > tiles.rows * tiles.columns ? Math.min(down, tiles.rows - 1) : down;
  const row = Math.min(at.row + inTile, sizes.M - 1);
  const inside = at.column + (mine % tiles.columns);
  const column = sizes.N % tiles.columns === 0 ? inside : Math.min(inside, sizes.N - 1);
  return { row, column };
}

/** Has the epilogue load what it takes for a thread's elements. */
function loadEarly(own: Element, { batch }: TilePlace, context: Context): void {
  const { early, f32, splat2, splat4, work } = context;
  if (work.lanes === 4) early(splat4(f32(0)), batch, own.row, own.column);
  else if (work.lanes === 2) early(splat2(f32(0)), batch, own.row, own.column);
  else early(f32(0), batch, own.row, own.column);
}

const MULTIPLY = { startOfLane, clear, readFragment, multiplyQuad, multiplyChunk };
const THREAD = { lanesFrom, storeTile, putShare, ownElement, loadEarly };

/** The product, or if `isInParts` its parts: (split, batch, row, column). */
export function matmulTile(p: MatmulProblem, tile: MatmulTile): GridKernel {
  const layout = layoutOf(p, tile);
  const work = workOf(p, tile, layout, LEVEL.f32, { lanes: lanesOf(p, tile, layout), dtype: f32 });
  const isOne = isOneEach(p, work);
  const { early, finish } = isOne ? finishEarly(p.finish) : { early: p.finish, finish: p.finish };
  const kernel = defineKernel(
    work.inParts ? 'matmulParts' : 'matmul',
    buffers,
    ({ a, b, c }, context) => {
      const { barrier, commitCopies, dynamicShared, f32, idiv, laneId, local, waitCopies } = context;
      const { copyChunk, eachPiece, placeOf, storeShares, storeSums } = context;
      const { clear, loadEarly, multiplyChunk, ownElement, putShare, startOfLane, storeTile } = context;
      const { isOneEach, tile, work } = context;
      const { chunks, lanes, stages, warps } = work;
      const at = placeOf(context);
      const held = dynamicShared(f32);
      const sums = local(f32, tile.each[0], tile.each[1]);
      const from = local(f32, tile.each[0], 4);
      const by = local(f32, tile.each[1], 4);
      const row = idiv(laneId, tile.lanes[1]);
      const column = laneId % tile.lanes[1];
      const fromAt = startOfLane(at.warpRow, row, work.a);
      const byAt = work.a.elements + startOfLane(at.warpColumn, column, work.b);
      const thread = { sums, from, by, row, column, fromAt, byAt };
      const own = ownElement(at, context);

      eachPiece((piece) => {
        const fetch = (chunk: number, stage: number) =>
          copyChunk(a, b, held, stage, piece, chunk, at, context);
        clear(sums, context);
        if (chunks <= stages.count) {
          for (let chunk = 0; chunk < chunks; chunk++) fetch(chunk, chunk);
          if (isOneEach) loadEarly(own, at, context);
          for (let chunk = 0; chunk < chunks; chunk++) {
            waitCopies(chunks - 1 - chunk);
            barrier();
            multiplyChunk(thread, held, chunk, at.share, context);
          }
        } else {
          for (let chunk = 0; chunk < stages.count - 1; chunk++) fetch(chunk, chunk);
          if (isOneEach) loadEarly(own, at, context);
          let used = 0;
          let filled = stages.count - 1;
          let chunk = 0;
          while (chunk < chunks) {
            waitCopies(stages.count - 2);
            barrier();
            // What all have used before the barrier is filled again.
            if (chunk + stages.count - 1 < chunks) fetch(chunk + stages.count - 1, filled);
            else commitCopies();
            multiplyChunk(thread, held, used, at.share, context);
            used = used === stages.count - 1 ? 0 : used + 1;
            filled = filled === stages.count - 1 ? 0 : filled + 1;
            chunk += 1;
          }
        }

        if (warps.K === 1) storeTile(c, thread, piece, at, context);
        else {
          barrier();
          putShare(held, thread, at, context);
          barrier();
          const store = (v: number, row: number, column: number) => {
            if (isOneEach) storeSums(c, v, lanes, piece, own.row, own.column, at, context);
            else storeSums(c, v, lanes, piece, row, column, at, context);
          };
          storeShares(held, at, store, context);
        }
      }, context);
    },
    {
      ...blockConstants(work, p.batches),
      ...STORE,
      ...MULTIPLY,
      ...THREAD,
      tile,
      early,
      finish,
      isOneEach: isOne,
    },
  );
  const { tiles, threads } = work;
  const grid = [tiles.down * tiles.across * p.batches, tile.splits, 1] as const;
  return { kernel, grid, threads, sharedBytes: layout.sharedBytes };
}

/**
 * Whether a thread adds the shares of one element of the tile, or of a few neighbours: what the epilogue loads is known
 * from the start.
 */
const isOneEach = ({ N }: MatmulProblem, { inParts, lanes, threads, tiles, warps }: BlockWork): boolean =>
  warps.K > 1 &&
  !inParts &&
  tiles.rows * tiles.columns <= threads * lanes &&
  (lanes === 1 || N % tiles.columns === 0);
