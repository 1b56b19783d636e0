/**
 * Matrix product on tensor cores: of f32 matrices, rounded to tf32 or bf16, or of bf16 matrices. Sums are f32.
 *
 * The tiles of A and B come by asynchronous copies in a pipeline of several stages, as they lie in memory. A warp
 * reads the fragments of one step along K while it multiplies those of the step before, over the end of a tile too:
 * the wait for the next tile comes before the last step of this one.
 *
 * What lies along K is read by ldmatrix (f32 as matrices of 8 × 4), and so is bf16 across K, transposed. f32 across K
 * is read one by one: vectors of 4, for four pieces at once, would have to be moved into the pairs of registers that
 * mma takes. Which steps along K an mma sums does not matter as long as A and B agree.
 *
 * Measured on an H200, TFLOP/s at 4096³, A·B, tf32 and bf16 (mma.sync on registers alone 305 and 612; cuBLAS, which
 * uses wgmma, 376 and 738):
 *   140 349   fragments read where they are used; bf16 copied 8 bytes at a time
 *   189 425   fragments a step ahead, bf16 as words of two; tf32 rounded by one instruction instead of three
 *   219 428   copies without a branch, right after the barrier that frees their place; no moves between registers
 * Without the copies the last reaches 240 and 520: copies and fragments share the way to shared memory, which at the
 * full speed of mma would be busy four fifths of the time, and registers hold no larger tile than 64 × 64. Warps
 * that share K give small products more of them: 512³ in tf32 6.6 → 5.3 µs (cuBLAS 7.0).
 */
import { bf16, type DType, f32, u32 } from '../../core/dtype.js';
import { buffer } from '../../kernel/ir/types.js';
import { defineKernel } from '../../kernel/language/language.js';
import type { GridKernel } from '../tiled.js';
import type { MatmulProblem } from './cpu.js';
import { isInParts, LEVEL, piecesOf } from './cuda.js';
import { copyPanel, copyPiece, rowOfSlot, startOf } from './cuda-panel.js';
import { type TensorTile, tensorLayoutOf } from './tensor-core-panel.js';

/** Blocks that run side by side on a large GPU, about. */
const TOGETHER = 128;

/** Rows of tiles in a band, so that the blocks that run together read about as many rows of A as columns of B. */
const bandOf = (rows: number, columns: number): number =>
  2 ** Math.round(Math.log2(Math.sqrt((TOGETHER * columns) / rows)));

/** The product, or if `isInParts` its parts: (split, batch, row, column). */
export function matmulTensor(
  p: MatmulProblem,
  tile: TensorTile,
  precision: 'tf32' | 'bf16',
  dtype: DType = f32,
): GridKernel {
  const layout = tensorLayoutOf(p, tile, dtype);
  const { a: left, b: right, words, rows, columns, chunks, sumPitch, sharedBytes } = layout;
  const { warps, each, stages, splits, depth } = tile;
  const parts = isInParts(p.K, tile, LEVEL.tensor);
  const down = Math.ceil(p.M / rows);
  const across = Math.ceil(p.N / columns);
  const threads = 32 * warps[0] * warps[1] * warps[2];
  const half = dtype === bf16;
  const element = words ? u32 : dtype;
  const step = precision === 'tf32' ? 8 : 16;
  const kernel = defineKernel(
    `matmul${precision === 'tf32' ? 'Tf32' : 'Bf16'}${parts ? 'Parts' : ''}`,
    { a: buffer(element), b: buffer(element), c: buffer(parts ? f32 : dtype) },
    ({ a, b, c }, context) => {
      const { blockIdx, laneId, warpId, idiv, i32, f32, u32, bf16, bitcast, tf32, local2, local4, lane } =
        context;
      const { threadIdx, local, load2, dynamicShared, barrier, store2, vec2, vec4, splat4, mma, mmaBf16 } =
        context;
      const { loadMatrix4, loadMatrix4Transposed, commitCopies, waitCopies, copyPanel } = context;
      const { aStart, bStart, finish, A, B, M, N, DOWN, ACROSS, BAND, BATCHES, PARTS, PIECES, CHUNKS } =
        context;
      const { STAGES, STAGE, DEPTH, STEP, ROWS, COLUMNS, PITCH, THREADS, WM, WN, WK, TM, TN } = context;
      const { ELEMENT, SIXTEEN, HALF, TF32 } = context;
      // Bands of tiles, each column by column.
      const tile = BATCHES === 1 ? blockIdx.x : blockIdx.x % (DOWN * ACROSS);
      const band = idiv(tile, BAND * ACROSS) * BAND;
      const high = DOWN % BAND === 0 ? BAND : Math.min(BAND, DOWN - band);
      const place = tile % (BAND * ACROSS);
      const row = (band + (place % high)) * ROWS;
      const column = idiv(place, high) * COLUMNS;
      const split = blockIdx.y;
      const batch = BATCHES === 1 ? i32(0) : idiv(blockIdx.x, DOWN * ACROSS);
      const left = aStart(batch);
      const right = bStart(batch);
      const held = dynamicShared(ELEMENT);
      const share = WK === 1 ? 0 : idiv(warpId, WM * WN);
      const warpRow = idiv(WK === 1 ? warpId : warpId % (WM * WN), WN) * (16 * TM);
      const warpColumn = (warpId % WN) * (8 * TN);
      const g = idiv(laneId, 4);
      const t = laneId % 4;
      const sums = local4(f32, TM, TN);
      const clear = () => {
        for (let i = 0; i < TM; i++) for (let j = 0; j < TN; j++) sums[i][j] = splat4(0);
      };
      clear();

      const copy = (piece: number, chunk: number, stage: number) => {
        const step = ((PIECES === 1 ? split : split * PIECES + piece) * CHUNKS + chunk) * DEPTH;
        const to = stage * STAGE;
        const inside = chunk < CHUNKS;
        copyPanel(a, left, held, to, idiv(row, A.perRow), idiv(step, A.perStep), inside, A, context);
        const first = idiv(column, B.perRow);
        copyPanel(b, right, held, to + A.floats, first, idiv(step, B.perStep), inside, B, context);
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
          : t * A.pitch + warpRow + g;
      const bAt =
        A.floats +
        (B.kMajor
          ? (warpColumn + line + 8 * third) * B.pitch + SIXTEEN * second
          : HALF
            ? (line + 8 * second) * B.pitch + idiv(warpColumn + 8 * third, B.perRow)
            : t * B.pitch + warpColumn + g);

      // A warp's share of the steps of a copy.
      const own = idiv(DEPTH, WK);
      const aShare = share * (A.kMajor ? idiv(own, A.perStep) : own * A.pitch);
      const bShare = share * (B.kMajor ? idiv(own, B.perStep) : own * B.pitch);

      // Fragments, as bits: of the step in use and of the next; f32 that becomes bf16 passes through two more.
      const as = local4(u32, 4, TM);
      const bs = local2(u32, 4, TN);
      const readA = (to: number, stage: number, k: number) => {
        const at = stage * STAGE + aAt + aShare + (A.kMajor ? idiv(k, A.perStep) : k * A.pitch);
        if (A.kMajor) for (let i = 0; i < TM; i++) as[to][i] = loadMatrix4(held, at + i * (16 * A.pitch));
        else if (HALF)
          for (let i = 0; i < TM; i++) as[to][i] = loadMatrix4Transposed(held, at + idiv(i * 16, A.perRow));
        else {
          const bits = (i: number, k: number) => bitcast(u32, held[at + i + k * A.pitch]);
          for (let i = 0; i < TM; i++) {
            const r = i * 16;
            as[to][i] = vec4(bits(r, 0), bits(r + 8, 0), bits(r, 4), bits(r + 8, 4));
          }
        }
      };
      const readB = (to: number, stage: number, k: number) => {
        const at = stage * STAGE + bAt + bShare + (B.kMajor ? idiv(k, B.perStep) : k * B.pitch);
        if (B.kMajor || HALF) {
          for (let j = 0; j < TN; j += 2) {
            const v = B.kMajor
              ? loadMatrix4(held, at + j * (8 * B.pitch))
              : loadMatrix4Transposed(held, at + idiv(j * 8, B.perRow));
            bs[to][j] = vec2(lane(v, 0), lane(v, 1));
            bs[to][j + 1] = vec2(lane(v, 2), lane(v, 3));
          }
        } else {
          const bits = (j: number, k: number) => bitcast(u32, held[at + j + k * B.pitch]);
          for (let j = 0; j < TN; j++) bs[to][j] = vec2(bits(j * 8, 0), bits(j * 8, 4));
        }
      };
      const pair = (low: number, high: number) =>
        (bitcast(u32, f32(bf16(bitcast(f32, low)))) >> 16) | bitcast(u32, f32(bf16(bitcast(f32, high))));
      const read = (to: number, stage: number, k: number) => {
        if (HALF || TF32) {
          readA(to, stage, k);
          readB(to, stage, k);
          if (TF32) {
            const near = (v: number, n: number) => bitcast(u32, tf32(bitcast(f32, lane(v, n))));
            for (let i = 0; i < TM; i++) {
              const v = as[to][i];
              as[to][i] = vec4(near(v, 0), near(v, 1), near(v, 2), near(v, 3));
            }
            for (let j = 0; j < TN; j++) bs[to][j] = vec2(near(bs[to][j], 0), near(bs[to][j], 1));
          }
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
      const multiply = (from: number) => {
        for (let i = 0; i < TM; i++) {
          const v = as[from][i];
          for (let j = 0; j < TN; j++) {
            const w = bs[from][j];
            if (TF32) {
              const x = (k: number) => bitcast(f32, lane(v, k));
              const y = (k: number) => bitcast(f32, lane(w, k));
              sums[i][j] = mma(vec4(x(0), x(1), x(2), x(3)), vec2(y(0), y(1)), sums[i][j]);
            } else sums[i][j] = mmaBf16(v, w, sums[i][j]);
          }
        }
      };

      const part = PARTS ? split * BATCHES + batch : batch;
      const done = (v: number, r: number, n: number) => (PARTS ? v : finish(HALF ? bf16(v) : v, batch, r, n));
      /** Two neighbours, of which the second may be beyond the matrix. */
      const put2 = (piece: number, r: number, n: number, low: number, high: number) => {
        const at = (part * M + r) * N + n;
        if (r < M && n < N) {
          if (PIECES > 1 && piece > 0) {
            if (N % 2 === 0) store2(c, at, load2(c, at) + vec2(low, high));
            else {
              c[at] += low;
              if (n + 1 < N) c[at + 1] += high;
            }
          } else if (N % 2 === 0) store2(c, at, done(vec2(low, high), r, n));
          else {
            c[at] = done(low, r, n);
            if (n + 1 < N) c[at + 1] = done(high, r, n + 1);
          }
        }
      };
      /** The products of a piece of K. */
      const sum = (piece: number) => {
        for (let chunk = 0; chunk < STAGES; chunk++) copy(piece, chunk, chunk);
        waitCopies(STAGES - 1);
        barrier();
        read(0, 0, 0);
        let used = 0;
        let chunk = 0;
        while (chunk < CHUNKS) {
          for (let k = 0; k < own; k += STEP) {
            const next = idiv(k, STEP) % 2 === 0 ? 1 : 0;
            if (k + STEP < own) read(next, used, k + STEP);
            else {
              waitCopies(STAGES - 2);
              barrier();
              // All have read this tile: another takes its place. After the last come zeros, and are read: without a
              // branch, copies and products mix.
              const free = used;
              used = used === STAGES - 1 ? 0 : used + 1;
              read(next, used, 0);
              copy(piece, chunk + STAGES, free);
            }
            multiply(1 - next);
          }
          chunk += 1;
        }

        if (WK === 1) {
          for (let i = 0; i < TM; i++) {
            for (let j = 0; j < TN; j++) {
              const v = sums[i][j];
              const r = row + warpRow + i * 16 + g;
              const n = column + warpColumn + j * 8 + 2 * t;
              put2(piece, r, n, lane(v, 0), lane(v, 1));
              put2(piece, r + 8, n, lane(v, 2), lane(v, 3));
            }
          }
        } else {
          waitCopies(0);
          barrier();
          const kept = (v: number) => (HALF ? bitcast(u32, v) : v);
          for (let i = 0; i < TM; i++) {
            for (let j = 0; j < TN; j++) {
              const v = sums[i][j];
              const at = (share * ROWS + warpRow + i * 16 + g) * PITCH + warpColumn + j * 8 + 2 * t;
              store2(held, at, vec2(kept(lane(v, 0)), kept(lane(v, 1))));
              store2(held, at + 8 * PITCH, vec2(kept(lane(v, 2)), kept(lane(v, 3))));
            }
          }
          barrier();
          for (let first = 0; first < ROWS * COLUMNS; first += THREADS * 2) {
            const i = first + threadIdx.x * 2;
            const r = idiv(i, COLUMNS);
            const n = i % COLUMNS;
            const total = local(f32, 2);
            for (let w = 0; w < WK; w++) {
              const v = load2(held, (w * ROWS + r) * PITCH + n);
              for (let e = 0; e < 2; e++) {
                const x = bitcast(f32, lane(v, e));
                total[e] = w === 0 ? x : total[e] + x;
              }
            }
            put2(piece, row + r, column + n, total[0], total[1]);
          }
        }
      };
      if (PIECES === 1) sum(0);
      else {
        let piece = 0;
        while (piece < PIECES) {
          sum(piece);
          clear();
          // What comes after the last copy is still on its way.
          waitCopies(0);
          barrier();
          piece += 1;
        }
      }
    },
    {
      ...{ A: left, B: right, M: p.M, N: p.N, DOWN: down, ACROSS: across, BAND: bandOf(rows, columns) },
      ...{
        BATCHES: p.batches,
        PARTS: parts,
        PIECES: piecesOf(p.K, tile, LEVEL.tensor),
        CHUNKS: chunks,
        STAGES: stages,
        THREADS: threads,
      },
      ...{ STAGE: left.floats + right.floats, DEPTH: depth, STEP: step, ROWS: rows, COLUMNS: columns },
      ...{
        WM: warps[0],
        WN: warps[1],
        WK: warps[2],
        PITCH: sumPitch,
        TM: each[0],
        TN: each[1],
        ELEMENT: element,
        SIXTEEN: 16 / element.bytes,
      },
      ...{ HALF: half, TF32: precision === 'tf32', copyPanel, copyPiece, rowOfSlot, finish: p.finish },
      ...{ aStart: startOf(left.operand, p.batches), bStart: startOf(right.operand, p.batches) },
    },
  );
  return { kernel, grid: [down * across * p.batches, splits, 1], threads, sharedBytes };
}
