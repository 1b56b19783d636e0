/**
 * Matrix product on tensor cores: of f32 matrices, rounded to tf32 or bf16 or split into two parts of tf32 (tensor-core-split.ts), or of
 * matrices of 16-bit floats. Sums are f32.
 *
 * The tiles of A and B come by asynchronous copies in a pipeline of several stages, as they lie in memory. A warp
 * reads the fragments of one step along K while it multiplies those of the step before, over the end of a tile too:
 * the wait for the next tile comes before the last step of this one.
 *
 * What lies along K is read by ldmatrix (f32 as matrices of 8 × 4), and so are 16-bit floats across K, transposed. f32 across K
 * is read one by one: vectors of 4, for four pieces at once, would have to be moved into the pairs of registers that
 * mma takes. Which steps along K an mma sums does not matter as long as A and B agree.
 *
 * What large products gained, one after the other, in tf32 and bf16: fragments read a step ahead, 16-bit floats copied as words of two
 * and tf32 rounded by one instruction instead of three (a third and a fifth); copies without a branch, right after the barrier
 * that frees their place, and no moves between registers (a sixth; nothing for bf16). That is three quarters of what mma.sync does
 * on registers alone, and somewhat more than half of what cuBLAS reaches by wgmma: copies and fragments share the way to shared
 * memory, which at the full speed of mma would be busy four fifths of the time, and registers hold no larger tile than
 * 64 × 64. Warps that share K give small products more of them.
 */
import { type DType, f32, i32, isHalf, u32 } from '../../core/dtype.js';
import { buffer } from '../../kernel/ir/types.js';
import { defineKernel, type Memory } from '../../kernel/language/language.js';
import type { GridKernel } from '../tiled.js';
import type { MatmulProblem } from './cpu.js';
import { blockConstants, LEVEL, type TilePlace, workOf } from './cuda-block.js';
import { STORE, type StoreContext } from './cuda-store.js';
import { FRAGMENTS, type FragmentContext, stepOf, type TensorOperand } from './tensor-core-fragments.js';
import { type TensorTile, tensorLayoutOf } from './tensor-core-panel.js';
import { SPLIT } from './tensor-core-split.js';

/** Blocks that run side by side on a large GPU, about. */
const TOGETHER = 128;

/** Rows of tiles in a band, so that the blocks that run together read about as many rows of A as columns of B. */
const bandOf = (rows: number, columns: number): number =>
  2 ** Math.round(Math.log2(Math.sqrt((TOGETHER * columns) / rows)));

interface Context extends FragmentContext, StoreContext {
  readonly storePair: typeof storePair;
}

/** Stores two neighbours, of which the second may be beyond the matrix. */
function storePair(
  c: Memory,
  low: number,
  high: number,
  piece: number,
  row: number,
  column: number,
  at: TilePlace,
  context: Context,
): void {
  const { storeSums, vec2, work } = context;
  if (work.sizes.N % 2 === 0) storeSums(c, vec2(low, high), 2, piece, row, column, at, context);
  else {
    storeSums(c, low, 1, piece, row, column, at, context);
    storeSums(c, high, 1, piece, row, column + 1, at, context);
  }
}

/** Stores the sums of a warp that has them all. */
function storeTile(c: Memory, sums: Memory, piece: number, at: TilePlace, context: Context): void {
  const { fragments, idiv, lane, laneId, storePair } = context;
  const { each } = fragments;
  const firstRow = at.row + at.warpRow + idiv(laneId, 4);
  const firstColumn = at.column + at.warpColumn + 2 * (laneId % 4);
  for (let i = 0; i < each[0]; i++) {
    for (let j = 0; j < each[1]; j++) {
      const v = sums[i][j];
      const row = firstRow + i * 16;
      const column = firstColumn + j * 8;
      storePair(c, lane(v, 0), lane(v, 1), piece, row, column, at, context);
      storePair(c, lane(v, 2), lane(v, 3), piece, row + 8, column, at, context);
    }
  }
}

/** Puts the sums of a warp that shares K into shared memory. */
function putShare(held: Memory, sums: Memory, at: TilePlace, context: Context): void {
  const { bitcast, fragments, idiv, lane, laneId, store2, vec2, work } = context;
  const { each, element } = fragments;
  const { sharePitch, tiles } = work;
  const firstRow = at.share * tiles.rows + at.warpRow + idiv(laneId, 4);
  const firstColumn = at.warpColumn + 2 * (laneId % 4);
  const kept = (v: number) => bitcast(element, v);
  for (let i = 0; i < each[0]; i++) {
    for (let j = 0; j < each[1]; j++) {
      const v = sums[i][j];
      const to = (firstRow + i * 16) * sharePitch + firstColumn + j * 8;
      store2(held, to, vec2(kept(lane(v, 0)), kept(lane(v, 1))));
      store2(held, to + 8 * sharePitch, vec2(kept(lane(v, 2)), kept(lane(v, 3))));
    }
  }
}

const NAMES: Readonly<Record<TensorOperand, string>> = {
  tf32: 'Tf32',
  tf32x3: 'Tf32x3',
  bf16: 'Bf16',
  f16: 'F16',
  i8: 'I8',
};

const WARP = { storePair, storeTile, putShare };

/**
 * The product, or if `isInParts` its parts: (split, batch, row, column). Of i8 the matrices come as words of four along K, which is
 * contiguous in both and counts words; sums are i32, and there are no parts.
 * @param dtype of the matrices
 * @param output what is stored, if not that
 */
export function matmulTensor(
  p: MatmulProblem,
  tile: TensorTile,
  operand: TensorOperand,
  dtype: DType = f32,
  output: DType = dtype,
): GridKernel {
  const layout = tensorLayoutOf(p, tile, operand, dtype);
  const sum = operand === 'i8' ? i32 : f32;
  const work = workOf(p, tile, layout, LEVEL[operand], {
    lanes: p.N % 2 === 0 ? 2 : 1,
    dtype: operand === 'i8' ? i32 : dtype,
    band: bandOf(layout.rows, layout.columns),
  });
  const { inParts, threads, tiles } = work;
  const element = layout.words || operand === 'i8' ? u32 : dtype;
  const fragments = { each: tile.each, step: stepOf(operand), element, operand, half: isHalf(dtype) };
  const kernel = defineKernel(
    `matmul${NAMES[operand]}${inParts ? 'Parts' : ''}`,
    { a: buffer(element), b: buffer(element), c: buffer(inParts ? f32 : output) },
    ({ a, b, c }, context) => {
      const { barrier, dynamicShared, idiv, laneId, local2, local4, sum, u32, waitCopies } = context;
      const { copyChunk, eachPiece, placeOf, storeShares, storeSums } = context;
      const { clear, multiplyStep, putShare, readStep, startOfLane, storeTile } = context;
      const { areFinite, multiplySplit, sumPlainly } = context;
      const { fragments, work } = context;
      const { chunks, depth, lanes, stages, warps } = work;
      const { each, element, operand, step } = fragments;
      const at = placeOf(context);
      const held = dynamicShared(element);
      const sums = local4(sum, each[0], each[1]);
      const as = local4(u32, 4, each[0]);
      const bs = local2(u32, 4, each[1]);
      const second = idiv(laneId, 8) % 2;
      const third = idiv(laneId, 16);
      // Of ldmatrix's 2 × 2 matrices A's go down first, B's along K first.
      const aAt = startOfLane(work.a, at.warpRow, second, third, at, context);
      const bAt = work.a.elements + startOfLane(work.b, at.warpColumn, third, second, at, context);
      const own = { sums, as, bs, aAt, bAt };

      eachPiece((piece) => {
        const fetch = (chunk: number, stage: number) =>
          copyChunk(a, b, held, stage, piece, chunk, at, context);
        clear(sums, context);
        for (let chunk = 0; chunk < stages.count; chunk++) fetch(chunk, chunk);
        waitCopies(stages.count - 1);
        barrier();
        readStep(own, 0, held, 0, 0, context);
        let used = 0;
        let chunk = 0;
        while (chunk < chunks) {
          for (let k = 0; k < depth / warps.K; k += step) {
            const next = idiv(k, step) % 2 === 0 ? 1 : 0;
            if (k + step < depth / warps.K) readStep(own, next, held, used, k + step, context);
            else {
              waitCopies(stages.count - 2);
              barrier();
              // All have read this tile: another takes its place. After the last come zeros, and are read: without a
              // branch, copies and products mix.
              const free = used;
              used = used === stages.count - 1 ? 0 : used + 1;
              readStep(own, next, held, used, 0, context);
              fetch(chunk + stages.count, free);
            }
            if (operand === 'tf32x3') multiplySplit(own, 1 - next, context);
            else multiplyStep(own, 1 - next, context);
          }
          chunk += 1;
        }

        if (operand === 'tf32x3' && !areFinite(sums, context)) sumPlainly(a, b, sums, piece, at, context);
        if (warps.K === 1) storeTile(c, sums, piece, at, context);
        else {
          waitCopies(0);
          barrier();
          putShare(held, sums, at, context);
          barrier();
          const store = (v: number, row: number, column: number) =>
            storeSums(c, v, lanes, piece, row, column, at, context);
          storeShares(held, at, store, context);
        }
      }, context);
    },
    {
      ...blockConstants(work, p.batches),
      ...STORE,
      ...FRAGMENTS,
      ...SPLIT,
      ...WARP,
      fragments,
      sum,
      finish: p.finish,
    },
  );
  const grid = [tiles.down * tiles.across * p.batches, tile.splits, 1] as const;
  return { kernel, grid, threads, sharedBytes: layout.sharedBytes };
}
