/**
 * Matrix product on tensor cores: of f32 matrices, rounded to tf32 or bf16, or of bf16 matrices. Sums are f32.
 *
 * The tiles of A and B come as in matmul-cuda.ts, by asynchronous copies in a pipeline of several stages, f32 as they
 * lie in memory. A warp reads its fragments, rounds them and multiplies 16 × 8 pieces of C by mma. Which steps along K
 * a piece of an mma sums does not matter as long as A and B agree: a lane takes two neighbours where the instruction
 * would have two four apart, so that K-major operands are read in pairs. Rows are 8 banks apart then (4, across K), and no
 * two lanes meet in a bank.
 *
 * bf16 matrices are read by ldmatrix, transposed where they lie across K. Measured on an H200 at 4096³, bf16 matrices:
 * 343 TFLOP/s for A·B, 352 for A·Bᵀ (cuBLAS, which uses wgmma, 798).
 */
import { bf16, type DType, f32 } from '../core/dtype.js';
import { defineKernel } from '../kernel/language.js';
import { buffer } from '../kernel/types.js';
import type { MatmulProblem } from './matmul-cpu.js';
import {
  copyPanel,
  copyPiece,
  type Panel,
  type Pitch,
  panelOf,
  rowOfSlot,
  startOf,
  transposed,
} from './matmul-cuda-panel.js';
import type { GridKernel } from './tiled.js';

/** How the work is cut. */
export interface TensorTile {
  /** Along M and N. */
  readonly warps: readonly [number, number];
  /** What a warp sums, in pieces of 16 rows and of 8 columns. */
  readonly each: readonly [number, number];
  /** Steps along K of one copy; a multiple of 16. */
  readonly depth: number;
  readonly stages: number;
  /** Blocks that share the sum over K. */
  readonly splits: number;
}

const PITCH: Pitch = (kMajor, least) =>
  kMajor ? Math.ceil(least / 16) * 16 + 8 : Math.ceil(least / 32) * 32 + 4;

/** For bf16: rows of 8 elements that lie 16 bytes further, modulo all banks, than the one before. */
const HALF_PITCH: Pitch = (_kMajor, least) => Math.ceil(least / 64) * 64 + 8;

interface TensorLayout {
  readonly a: Panel;
  readonly b: Panel;
  readonly chunks: number;
  readonly sharedBytes: number;
}

export function tensorLayoutOf(p: MatmulProblem, tile: TensorTile, dtype: DType): TensorLayout {
  const { warps, each, depth, stages, splits } = tile;
  const { bytes } = dtype;
  const pitchOf = dtype === bf16 ? HALF_PITCH : PITCH;
  const cut = { inner: p.K, depth, splits, pitchOf, bytes };
  const a = panelOf({
    ...{ ...cut, operand: p.a, size: p.M, share: { warps: warps[0], lanes: 16 * each[0], each: 1 } },
  });
  const b = panelOf({
    ...{ ...cut, operand: transposed(p.b), size: p.N },
    share: { warps: warps[1], lanes: 8 * each[1], each: 1 },
  });
  return {
    ...{ a, b, chunks: Math.ceil(Math.ceil(p.K / depth) / splits) },
    sharedBytes: bytes * stages * (a.floats + b.floats),
  };
}

/** Rows of tiles that blocks beside each other work on, so that they share columns of B in the cache. */
const BAND = 8;

/** The product, or with splits its parts: (split, batch, row, column). */
export function matmulTensor(
  p: MatmulProblem,
  tile: TensorTile,
  precision: 'tf32' | 'bf16',
  dtype: DType = f32,
): GridKernel {
  const { a: left, b: right, chunks, sharedBytes } = tensorLayoutOf(p, tile, dtype);
  const { warps, each, stages, splits, depth } = tile;
  const down = Math.ceil(p.M / left.rows);
  const across = Math.ceil(p.N / right.rows);
  const threads = 32 * warps[0] * warps[1];
  const kernel = defineKernel(
    `matmul${precision === 'tf32' ? 'Tf32' : 'Bf16'}${splits > 1 ? 'Parts' : ''}`,
    { a: buffer(dtype), b: buffer(dtype), c: buffer(splits > 1 ? f32 : dtype) },
    ({ a, b, c }, context) => {
      const { blockIdx, laneId, warpId, idiv, f32, u32, bf16, bitcast, select, local2, local4 } = context;
      const { dynamicShared, barrier, load2, store2, lane, vec2, vec4, splat4, mma, mmaBf16 } = context;
      const { loadMatrix4, loadMatrix4Transposed, HALF } = context;
      const { commitCopies, waitCopies, copyPanel, aStart, bStart, finish } = context;
      const { A, B, M, N, DOWN, BAND, BATCHES, SPLITS, CHUNKS, STAGES, STAGE, TF32 } = context;
      const { WN, TM, TN, DEPTH, ACROSS } = context;
      // Bands of tiles, each column by column.
      const band = idiv(blockIdx.x, BAND * ACROSS) * BAND;
      const high = DOWN % BAND === 0 ? BAND : Math.min(BAND, DOWN - band);
      const place = blockIdx.x % (BAND * ACROSS);
      const row = (band + (place % high)) * A.rows;
      const column = idiv(place, high) * B.rows;
      const split = blockIdx.y;
      const batch = blockIdx.z;
      const left = aStart(batch);
      const right = bStart(batch);
      const held = dynamicShared(HALF ? bf16 : f32);
      const warpRow = idiv(warpId, WN) * (16 * TM);
      const warpColumn = (warpId % WN) * (8 * TN);
      const g = idiv(laneId, 4);
      const t = laneId % 4;
      const aAt = A.kMajor ? (warpRow + g) * A.pitch + 2 * t : warpRow + g + 2 * t * A.pitch;
      const bAt =
        A.floats + (B.kMajor ? (warpColumn + g) * B.pitch + 2 * t : warpColumn + g + 2 * t * B.pitch);
      const sums = local4(f32, TM, TN);
      for (let i = 0; i < TM; i++) for (let j = 0; j < TN; j++) sums[i][j] = splat4(0);

      const copy = (chunk: number, stage: number) => {
        const step = (split * CHUNKS + chunk) * DEPTH;
        copyPanel(a, left, held, stage * STAGE, row, step, A, context);
        copyPanel(b, right, held, stage * STAGE + A.floats, column, step, B, context);
        commitCopies();
      };

      /** Steps k + 2t and k + 2t + 1 of the row that lies `rows` below the lane's. */
      const pairOfA = (at: number, rows: number, k: number) =>
        A.kMajor
          ? load2(held, at + rows * A.pitch + k)
          : vec2(held[at + rows + k * A.pitch], held[at + rows + (k + 1) * A.pitch]);
      const pairOfB = (at: number, columns: number, k: number) =>
        B.kMajor
          ? load2(held, at + columns * B.pitch + k)
          : vec2(held[at + columns + k * B.pitch], held[at + columns + (k + 1) * B.pitch]);
      // mma cuts what is beyond tf32: half a unit more rounds it, as `tf32` does, whose instruction is slower.
      const near = (v: number) => select(Math.abs(v) < Infinity, bitcast(f32, bitcast(u32, v) + 0x1000), v);
      const packed = (v: number) =>
        (bitcast(u32, f32(bf16(lane(v, 0)))) >> 16) | bitcast(u32, f32(bf16(lane(v, 1))));

      // Of bf16, where this lane's row of a matrix of 8 × 8 is, in the first piece of A and first two of B.
      const eighth = idiv(laneId, 8);
      const rowA = (laneId % 8) + (eighth % 2) * 8;
      const stepA = idiv(eighth, 2) * 8;
      const halfA = A.kMajor
        ? (warpRow + rowA) * A.pitch + stepA
        : ((laneId % 8) + stepA) * A.pitch + warpRow + (eighth % 2) * 8;
      const columnB = (laneId % 8) + idiv(eighth, 2) * 8;
      const stepB = (eighth % 2) * 8;
      const halfB =
        A.floats +
        (B.kMajor
          ? (warpColumn + columnB) * B.pitch + stepB
          : ((laneId % 8) + stepB) * B.pitch + warpColumn + idiv(eighth, 2) * 8);
      const addHalf = (stage: number) => {
        for (let k = 0; k < DEPTH; k += 16) {
          const as = local4(u32, TM);
          const bs = local2(u32, TN);
          for (let i = 0; i < TM; i++) {
            if (A.kMajor) as[i] = loadMatrix4(held, stage * STAGE + halfA + i * (16 * A.pitch) + k);
            else as[i] = loadMatrix4Transposed(held, stage * STAGE + halfA + i * 16 + k * A.pitch);
          }
          for (let j = 0; j < TN; j += 2) {
            const v = B.kMajor
              ? loadMatrix4(held, stage * STAGE + halfB + j * (8 * B.pitch) + k)
              : loadMatrix4Transposed(held, stage * STAGE + halfB + j * 8 + k * B.pitch);
            bs[j] = vec2(lane(v, 0), lane(v, 1));
            bs[j + 1] = vec2(lane(v, 2), lane(v, 3));
          }
          for (let i = 0; i < TM; i++)
            for (let j = 0; j < TN; j++) sums[i][j] = mmaBf16(as[i], bs[j], sums[i][j]);
        }
      };

      const add = (stage: number) => {
        const atA = stage * STAGE + aAt;
        const atB = stage * STAGE + bAt;
        for (let k = 0; k < DEPTH; k += TF32 ? 8 : 16) {
          if (TF32) {
            const as = local4(f32, TM);
            const bs = local2(f32, TN);
            for (let i = 0; i < TM; i++) {
              const upper = pairOfA(atA, i * 16, k);
              const lower = pairOfA(atA, i * 16 + 8, k);
              as[i] = vec4(
                near(lane(upper, 0)),
                near(lane(lower, 0)),
                near(lane(upper, 1)),
                near(lane(lower, 1)),
              );
            }
            for (let j = 0; j < TN; j++) {
              const v = pairOfB(atB, j * 8, k);
              bs[j] = vec2(near(lane(v, 0)), near(lane(v, 1)));
            }
            for (let i = 0; i < TM; i++)
              for (let j = 0; j < TN; j++) sums[i][j] = mma(as[i], bs[j], sums[i][j]);
          } else {
            const as = local4(u32, TM);
            const bs = local2(u32, TN);
            for (let i = 0; i < TM; i++) {
              as[i] = vec4(
                packed(pairOfA(atA, i * 16, k)),
                packed(pairOfA(atA, i * 16 + 8, k)),
                packed(pairOfA(atA, i * 16, k + 8)),
                packed(pairOfA(atA, i * 16 + 8, k + 8)),
              );
            }
            for (let j = 0; j < TN; j++)
              bs[j] = vec2(packed(pairOfB(atB, j * 8, k)), packed(pairOfB(atB, j * 8, k + 8)));
            for (let i = 0; i < TM; i++)
              for (let j = 0; j < TN; j++) sums[i][j] = mmaBf16(as[i], bs[j], sums[i][j]);
          }
        }
      };

      for (let chunk = 0; chunk < STAGES - 1; chunk++) copy(chunk, chunk);
      let used = 0;
      let filled = STAGES - 1;
      let chunk = 0;
      while (chunk < CHUNKS) {
        waitCopies(STAGES - 2);
        barrier();
        // What all have used before the barrier is filled again.
        if (chunk + STAGES - 1 < CHUNKS) copy(chunk + STAGES - 1, filled);
        else commitCopies();
        if (HALF) addHalf(used);
        else add(used);
        used = used === STAGES - 1 ? 0 : used + 1;
        filled = filled === STAGES - 1 ? 0 : filled + 1;
        chunk += 1;
      }

      const part = SPLITS > 1 ? split * BATCHES + batch : batch;
      const rounded = (v: number) => (HALF ? bf16(v) : v);
      const put = (r: number, n: number, low: number, high: number) => {
        const at = (part * M + r) * N + n;
        if (r < M && n < N) {
          if (N % 2 === 0) {
            const both = vec2(low, high);
            store2(c, at, SPLITS > 1 ? both : finish(rounded(both), batch, r, n));
          } else {
            c[at] = SPLITS > 1 ? low : finish(rounded(low), batch, r, n);
            if (n + 1 < N) c[at + 1] = SPLITS > 1 ? high : finish(rounded(high), batch, r, n + 1);
          }
        }
      };
      for (let i = 0; i < TM; i++) {
        for (let j = 0; j < TN; j++) {
          const r = row + warpRow + i * 16 + g;
          const n = column + warpColumn + j * 8 + 2 * t;
          put(r, n, lane(sums[i][j], 0), lane(sums[i][j], 1));
          put(r + 8, n, lane(sums[i][j], 2), lane(sums[i][j], 3));
        }
      }
    },
    {
      ...{ A: left, B: right, M: p.M, N: p.N, DOWN: down, ACROSS: across, BAND, BATCHES: p.batches },
      ...{
        SPLITS: splits,
        CHUNKS: chunks,
        STAGES: stages,
        STAGE: left.floats + right.floats,
        THREADS: threads,
      },
      ...{
        WN: warps[1],
        TM: each[0],
        TN: each[1],
        DEPTH: depth,
        TF32: precision === 'tf32',
        HALF: dtype === bf16,
      },
      ...{ copyPanel, copyPiece, rowOfSlot, finish: p.finish },
      ...{ aStart: startOf(p.a, p.batches), bStart: startOf(p.b, p.batches) },
    },
  );
  return { kernel, grid: [down * across, splits, p.batches], threads, sharedBytes };
}
