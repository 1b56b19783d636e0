/**
 * Matrix product on tensor cores: of f32 matrices, rounded to tf32 or bf16, or of bf16 matrices. Sums are f32.
 *
 * The tiles of A and B come by asynchronous copies in a pipeline of several stages, as they lie in memory. A warp
 * reads the fragments of one step along K while it multiplies those of the step before, over the end of a tile too:
 * the wait for the next tile comes before the last step of this one.
 *
 * What lies along K is read by ldmatrix (f32 as matrices of 8 × 4), and so is bf16 across K, transposed. f32 across K
 * is read in vectors of 4, for four pieces at once: then a piece of 8 columns has every fourth of 32 neighbours
 * (columns; rows in the same way), and the sums of four pieces are vectors of C. Which steps along K an mma sums does
 * not matter as long as A and B agree.
 */
import { bf16, type DType, f32, u32 } from '../core/dtype.js';
import { defineKernel } from '../kernel/language.js';
import { buffer } from '../kernel/types.js';
import type { MatmulProblem } from './matmul-cpu.js';
import { copyPanel, copyPiece, rowOfSlot, startOf } from './matmul-cuda-panel.js';
import { type TensorTile, tensorLayoutOf } from './matmul-tensor-panel.js';
import type { GridKernel } from './tiled.js';

/** Blocks that run side by side on a large GPU, about. */
const TOGETHER = 128;

/** Rows of tiles in a band, so that the blocks that run together read about as many rows of A as columns of B. */
const bandOf = (rows: number, columns: number): number =>
  2 ** Math.round(Math.log2(Math.sqrt((TOGETHER * columns) / rows)));

/** The product, or with splits its parts: (split, batch, row, column). */
export function matmulTensor(
  p: MatmulProblem,
  tile: TensorTile,
  precision: 'tf32' | 'bf16',
  dtype: DType = f32,
): GridKernel {
  const { a: left, b: right, words, rows, columns, chunks, sharedBytes } = tensorLayoutOf(p, tile, dtype);
  const { warps, each, stages, splits, depth } = tile;
  const down = Math.ceil(p.M / rows);
  const across = Math.ceil(p.N / columns);
  const threads = 32 * warps[0] * warps[1];
  const half = dtype === bf16;
  const element = words ? u32 : dtype;
  const step = precision === 'tf32' ? 8 : 16;
  const kernel = defineKernel(
    `matmul${precision === 'tf32' ? 'Tf32' : 'Bf16'}${splits > 1 ? 'Parts' : ''}`,
    { a: buffer(element), b: buffer(element), c: buffer(splits > 1 ? f32 : dtype) },
    ({ a, b, c }, context) => {
      const { blockIdx, laneId, warpId, idiv, f32, u32, bf16, bitcast, tf32, local2, local4, lane } = context;
      const { dynamicShared, barrier, load4, store2, store4, vec2, vec4, splat4, mma, mmaBf16 } = context;
      const { loadMatrix4, loadMatrix4Transposed, commitCopies, waitCopies, copyPanel } = context;
      const { aStart, bStart, finish, A, B, M, N, DOWN, ACROSS, BAND, BATCHES, SPLITS, CHUNKS } = context;
      const { STAGES, STAGE, DEPTH, STEP, ROWS, COLUMNS, WN, TM, TN } = context;
      const { ELEMENT, SIXTEEN, HALF, TF32 } = context;
      // Bands of tiles, each column by column.
      const band = idiv(blockIdx.x, BAND * ACROSS) * BAND;
      const high = DOWN % BAND === 0 ? BAND : Math.min(BAND, DOWN - band);
      const place = blockIdx.x % (BAND * ACROSS);
      const row = (band + (place % high)) * ROWS;
      const column = idiv(place, high) * COLUMNS;
      const split = blockIdx.y;
      const batch = blockIdx.z;
      const left = aStart(batch);
      const right = bStart(batch);
      const held = dynamicShared(ELEMENT);
      const warpRow = idiv(warpId, WN) * (16 * TM);
      const warpColumn = (warpId % WN) * (8 * TN);
      const g = idiv(laneId, 4);
      const t = laneId % 4;
      const sums = local4(f32, TM, TN);
      for (let i = 0; i < TM; i++) for (let j = 0; j < TN; j++) sums[i][j] = splat4(0);

      const copy = (chunk: number, stage: number) => {
        const step = (split * CHUNKS + chunk) * DEPTH;
        const to = stage * STAGE;
        copyPanel(a, left, held, to, idiv(row, A.perRow), idiv(step, A.perStep), A, context);
        copyPanel(b, right, held, to + A.floats, idiv(column, B.perRow), idiv(step, B.perStep), B, context);
        commitCopies();
      };

      // Of ldmatrix, this lane's row of one of four matrices: 2 × 2 of them, A's down first, B's along K first.
      const line = laneId % 8;
      const second = idiv(laneId, 8) % 2;
      const third = idiv(laneId, 16);
      const aAt = A.kMajor
        ? (warpRow + line + 8 * second) * A.pitch + SIXTEEN * third
        : HALF
          ? (line + 8 * third) * A.pitch + idiv(warpRow + 8 * second, A.perRow)
          : t * A.pitch + warpRow + 4 * g;
      const bAt =
        A.floats +
        (B.kMajor
          ? (warpColumn + line + 8 * third) * B.pitch + SIXTEEN * second
          : HALF
            ? (line + 8 * second) * B.pitch + idiv(warpColumn + 8 * third, B.perRow)
            : t * B.pitch + warpColumn + 4 * g);

      // Fragments, as bits: of the step in use and of the next; f32 that becomes bf16 passes through two more.
      const as = local4(u32, 4, TM);
      const bs = local2(u32, 4, TN);
      const readA = (to: number, stage: number, k: number) => {
        const at = stage * STAGE + aAt + (A.kMajor ? idiv(k, A.perStep) : k * A.pitch);
        if (A.kMajor) for (let i = 0; i < TM; i++) as[to][i] = loadMatrix4(held, at + i * (16 * A.pitch));
        else if (HALF)
          for (let i = 0; i < TM; i++) as[to][i] = loadMatrix4Transposed(held, at + idiv(i * 16, A.perRow));
        else {
          for (let i = 0; i < TM; i += 2) {
            const v = load4(held, at + i * 16);
            const w = load4(held, at + i * 16 + 4 * A.pitch);
            const bits = (m: number, n: number) => bitcast(u32, lane(m, n));
            as[to][i] = vec4(bits(v, 0), bits(v, 1), bits(w, 0), bits(w, 1));
            as[to][i + 1] = vec4(bits(v, 2), bits(v, 3), bits(w, 2), bits(w, 3));
          }
        }
      };
      const readB = (to: number, stage: number, k: number) => {
        const at = stage * STAGE + bAt + (B.kMajor ? idiv(k, B.perStep) : k * B.pitch);
        if (B.kMajor || HALF) {
          for (let j = 0; j < TN; j += 2) {
            const v = B.kMajor
              ? loadMatrix4(held, at + j * (8 * B.pitch))
              : loadMatrix4Transposed(held, at + idiv(j * 8, B.perRow));
            bs[to][j] = vec2(lane(v, 0), lane(v, 1));
            bs[to][j + 1] = vec2(lane(v, 2), lane(v, 3));
          }
        } else {
          for (let j = 0; j < TN; j += 4) {
            const v = load4(held, at + j * 8);
            const w = load4(held, at + j * 8 + 4 * B.pitch);
            for (let e = 0; e < 4; e++)
              bs[to][j + e] = vec2(bitcast(u32, lane(v, e)), bitcast(u32, lane(w, e)));
          }
        }
      };
      const pair = (low: number, high: number) =>
        (bitcast(u32, f32(bf16(bitcast(f32, low)))) >> 16) | bitcast(u32, f32(bf16(bitcast(f32, high))));
      const read = (to: number, stage: number, k: number) => {
        if (HALF || TF32) {
          readA(to, stage, k);
          readB(to, stage, k);
        } else {
          for (let s = 0; s < 2; s++) {
            readA(2 + s, stage, k + 8 * s);
            readB(2 + s, stage, k + 8 * s);
          }
          for (let i = 0; i < TM; i++) {
            const v = as[2][i];
            const w = as[3][i];
            as[to][i] = vec4(
              pair(lane(v, 0), lane(v, 2)),
              pair(lane(v, 1), lane(v, 3)),
              pair(lane(w, 0), lane(w, 2)),
              pair(lane(w, 1), lane(w, 3)),
            );
          }
          for (let j = 0; j < TN; j++)
            bs[to][j] = vec2(
              pair(lane(bs[2][j], 0), lane(bs[2][j], 1)),
              pair(lane(bs[3][j], 0), lane(bs[3][j], 1)),
            );
        }
      };
      const near = (v: number) => tf32(bitcast(f32, v));
      const multiply = (from: number) => {
        if (TF32) {
          const right = local2(f32, TN);
          for (let j = 0; j < TN; j++)
            right[j] = vec2(near(lane(bs[from][j], 0)), near(lane(bs[from][j], 1)));
          for (let i = 0; i < TM; i++) {
            const v = as[from][i];
            const left = vec4(near(lane(v, 0)), near(lane(v, 1)), near(lane(v, 2)), near(lane(v, 3)));
            for (let j = 0; j < TN; j++) sums[i][j] = mma(left, right[j], sums[i][j]);
          }
        } else {
          for (let i = 0; i < TM; i++)
            for (let j = 0; j < TN; j++) sums[i][j] = mmaBf16(as[from][i], bs[from][j], sums[i][j]);
        }
      };

      for (let chunk = 0; chunk < STAGES - 1; chunk++) copy(chunk, chunk);
      waitCopies(STAGES - 2);
      barrier();
      read(0, 0, 0);
      let used = 0;
      let filled = STAGES - 1;
      let chunk = 0;
      while (chunk < CHUNKS) {
        for (let k = 0; k < DEPTH; k += STEP) {
          const next = idiv(k, STEP) % 2 === 0 ? 1 : 0;
          if (k + STEP < DEPTH) read(next, used, k + STEP);
          else {
            waitCopies(STAGES - 2);
            barrier();
            // After the last tile this one is read again, for nothing: a branch here would cost more.
            if (chunk + 1 < CHUNKS) used = used === STAGES - 1 ? 0 : used + 1;
            read(next, used, 0);
          }
          // All have read before the last barrier what is filled again.
          if (k === 0) {
            if (chunk + STAGES - 1 < CHUNKS) copy(chunk + STAGES - 1, filled);
            else commitCopies();
            filled = filled === STAGES - 1 ? 0 : filled + 1;
          }
          multiply(1 - next);
        }
        chunk += 1;
      }

      const part = SPLITS > 1 ? split * BATCHES + batch : batch;
      const put = (r: number, n: number, v: number, lanes: number) => {
        const value = SPLITS > 1 ? v : finish(HALF ? bf16(v) : v, batch, r, n);
        const at = (part * M + r) * N + n;
        if (lanes === 4) store4(c, at, value);
        else if (lanes === 2) store2(c, at, value);
        else c[at] = value;
      };
      /** Two neighbours, of which the second may be beyond the matrix. */
      const put2 = (r: number, n: number, low: number, high: number) => {
        if (r < M && n < N) {
          if (N % 2 === 0) put(r, n, vec2(low, high), 2);
          else {
            put(r, n, low, 1);
            if (n + 1 < N) put(r, n + 1, high, 1);
          }
        }
      };
      for (let i = 0; i < TM; i++) {
        for (let h = 0; h < 2; h++) {
          const below = A.kMajor || HALF ? i * 16 + h * 8 + g : idiv(i, 2) * 32 + 4 * g + 2 * (i % 2) + h;
          const r = row + warpRow + below;
          if (B.kMajor || HALF) {
            for (let j = 0; j < TN; j++) {
              const v = sums[i][j];
              put2(r, column + warpColumn + j * 8 + 2 * t, lane(v, 2 * h), lane(v, 2 * h + 1));
            }
          } else {
            for (let j = 0; j < TN; j += 4) {
              for (let q = 0; q < 2; q++) {
                const n = column + warpColumn + j * 8 + 8 * t + 4 * q;
                const of = (e: number) => lane(sums[i][j + e], 2 * h + q);
                if (N % 4 === 0) {
                  if (r < M && n < N) put(r, n, vec4(of(0), of(1), of(2), of(3)), 4);
                } else {
                  put2(r, n, of(0), of(1));
                  put2(r, n + 2, of(2), of(3));
                }
              }
            }
          }
        }
      }
    },
    {
      ...{ A: left, B: right, M: p.M, N: p.N, DOWN: down, ACROSS: across, BAND: bandOf(rows, columns) },
      ...{ BATCHES: p.batches, SPLITS: splits, CHUNKS: chunks, STAGES: stages, THREADS: threads },
      ...{ STAGE: left.floats + right.floats, DEPTH: depth, STEP: step, ROWS: rows, COLUMNS: columns },
      ...{ WN: warps[1], TM: each[0], TN: each[1], ELEMENT: element, SIXTEEN: 16 / element.bytes },
      ...{ HALF: half, TF32: precision === 'tf32', copyPanel, copyPiece, rowOfSlot, finish: p.finish },
      ...{ aStart: startOf(left.operand, p.batches), bStart: startOf(right.operand, p.batches) },
    },
  );
  return { kernel, grid: [down * across, splits, p.batches], threads, sharedBytes };
}
