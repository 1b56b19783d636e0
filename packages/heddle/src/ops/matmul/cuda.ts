/**
 * Matrix product on a GPU: C (M×N) = A (M×K) · B (K×N), strict f32, for small, skinny and large matrices alike.
 *
 * A block computes a tile of C. Its warps lie along M, along N and, where C is small, along K: then each sums its
 * share of the products, and the shares are added in shared memory in a fixed order. Tiles of A and B come by
 * asynchronous copies in several stages (all of K at once where it fits: one wait for memory in the whole kernel). A
 * thread reads four steps along K at a time and sums 1 to 64 elements of C in registers.
 *
 * Operands are never transposed: what is contiguous along K is read in vectors along K, anything else across it
 * (matmul-cuda-panel.ts), so that A·B, A·Bᵀ and Aᵀ·B cost the same. Where even so there are too few blocks, K is split over
 * blocks as well, and a second kernel adds the parts. Large tiles turn what lies along K as it is copied, element by
 * element: across K, 64 products need two reads of 4 for each of A and B, one step at a time, and the sums, fragments
 * and addresses fit 128 registers, so that two blocks share a multiprocessor.
 *
 * An accumulator takes at most so many steps along K (LEVEL). Of more, a block sums one piece after the other and adds each to its
 * part in memory, so that a product is off by the roundings of a piece and of the pieces, not of K steps; totals in
 * registers would leave room for one block on a multiprocessor instead of two.
 *
 * Measured on an H200, TFLOP/s at 4096³ (cuBLAS 51.2), for A·B, A·Bᵀ, Aᵀ·B and AᵀBᵀ:
 *   33.5 37.8 37.2 31.6   128 × 128 × 16, fragments of four steps read before the first product, 128 to 190 registers
 *   40.6 38.6 51.0 41.3   what lies across K read a step at a time, loops unrolled, constant distances between copies
 *   47.5 43.2 50.9 47.8   what lies along K turned as it is copied
 *   47.2 45.2 51.9 47.1   128 × 128 × 32, two stages instead of three
 * Small, µs of a single launch, where an empty one takes 0.6 (cuBLAS as PyTorch calls it):
 *                          64×784·784×128   64×400·400×120   64×120·120×84   64×4608·4608×10, parts
 *                          (8.5)            (9.0)                            (9.5 with their sum)
 *   two to four stages     3.5              2.3              1.4             2.2
 *   K in a piece or two    3.3              2.3              1.3             1.9
 *   copied by way of L1    2.7              1.9              1.1             1.7
 */
import { bf16, type DType, f32 } from '../../core/dtype.js';
import { buffer } from '../../kernel/ir/types.js';
import { defineKernel, type Memory } from '../../kernel/language/language.js';
import { finishEarly } from '../../kernel/passes/finish-early.js';
import type { GridKernel } from '../tiled.js';
import { buffers, type MatmulProblem } from './cpu.js';
import { copyPanel, copyPiece, type Panel, panelOf, rowOfSlot, startOf, transposed } from './cuda-panel.js';

/**
 * Steps along K that an accumulator takes. Tensor cores round the operands to 11 bits or fewer: what 2^13 additions in
 * f32 lose is no more than that.
 */
export const LEVEL = { f32: 4096, tensor: 8192 } as const;

/** How a product's sum over K is cut: the part of a tile that says so. */
type Cut = Pick<MatmulTile, 'warps' | 'splits'>;

/** Pieces of K that a block of the tile sums one after the other. */
export const piecesOf = (K: number, { warps, splits }: Cut, level: number): number =>
  Math.ceil(K / (splits * warps[2] * level));

/** Whether the product comes in parts, in f32, which are still to be added, and finished. */
export const isInParts = (K: number, tile: Cut, level: number): boolean =>
  tile.splits > 1 || piecesOf(K, tile, level) > 1;

/** How the work is cut. */
export interface MatmulTile {
  /** Along M, N and K. */
  readonly warps: readonly [number, number, number];
  /** Of a warp, along M and N; 32 together. */
  readonly lanes: readonly [number, number];
  /** Elements of C that a thread sums, along M and N. */
  readonly each: readonly [number, number];
  /** Steps along K of one copy; a multiple of 4. */
  readonly depth: number;
  /** Copies that are on their way or in use at a time. */
  readonly stages: number;
  /** Blocks that share the sum over K. */
  readonly splits: number;
}

export interface TileLayout {
  readonly a: Panel;
  readonly b: Panel;
  readonly rows: number;
  readonly columns: number;
  readonly threads: number;
  /** Copies that one block makes of a piece of K. */
  readonly chunks: number;
  readonly sharedBytes: number;
}

export function layoutOf(p: MatmulProblem, tile: MatmulTile): TileLayout {
  const { warps, lanes, each, depth, stages } = tile;
  const splits = tile.splits * piecesOf(p.K, tile, LEVEL.f32);
  // What a large tile reads goes further across K: two vectors of 4 for every 64 products, one step at a time.
  const turn = each[0] * each[1] >= 64 && depth % 8 === 0;
  const cut = { inner: p.K, depth, splits, turn, once: each[0] * each[1] >= 64 };
  const a = panelOf({
    ...{ ...cut, operand: p.a, size: p.M, share: { warps: warps[0], lanes: lanes[0], each: each[0] } },
  });
  const b = panelOf({
    ...{ ...cut, operand: transposed(p.b), size: p.N },
    share: { warps: warps[1], lanes: lanes[1], each: each[1] },
  });
  const shares = warps[2] > 1 ? warps[2] * a.rows * b.rows : 0;
  return {
    ...{ a, b, rows: a.rows, columns: b.rows, threads: 32 * warps[0] * warps[1] * warps[2] },
    chunks: Math.ceil(Math.ceil(p.K / depth) / splits),
    sharedBytes: 4 * Math.max(stages * (a.floats + b.floats), shares),
  };
}

/** The product, or if `isInParts` its parts: (split, batch, row, column). */
export function matmulTile(p: MatmulProblem, tile: MatmulTile): GridKernel {
  const { a: left, b: right, rows, columns, threads, chunks, sharedBytes } = layoutOf(p, tile);
  const { warps, lanes, each, stages, splits } = tile;
  const parts = isInParts(p.K, tile, LEVEL.f32);
  const down = Math.ceil(p.M / rows);
  const across = Math.ceil(p.N / columns);
  // Of shares that are added, as few elements a thread as keep all threads busy with the epilogue.
  const most = warps[2] === 1 ? right.group : Math.max(1, (rows * columns) / threads);
  const lanesOut = most >= 4 && p.N % 4 === 0 ? 4 : most >= 2 && p.N % 2 === 0 ? 2 : 1;
  // One element of the tile for each thread, or a few neighbours: known from the start.
  const own =
    warps[2] > 1 && !parts && rows * columns <= threads * lanesOut && (lanesOut === 1 || p.N % columns === 0);
  const { early, finish } = finishEarly(p.finish);
  const kernel = defineKernel(
    parts ? 'matmulParts' : 'matmul',
    buffers,
    ({ a, b, c }, context) => {
      const { blockIdx, threadIdx, laneId, warpId, idiv, i32, f32, fma, lane, local } = context;
      const { dynamicShared, barrier, load2, load4, store2, store4, vec2, vec4 } = context;
      const { commitCopies, waitCopies, copyPanel, aStart, bStart, early, finish, splat2, splat4 } = context;
      const { OWN, A, B, M, N, DOWN, TILES, BATCHES, PARTS, PIECES, CHUNKS, STAGES, STAGE, THREADS, OUT } =
        context;
      const { WM, WN, WK, LM, LN, TM, TN, DEPTH, ROWS, COLUMNS } = context;
      const tile = BATCHES === 1 ? blockIdx.x : blockIdx.x % TILES;
      const row = (tile % DOWN) * ROWS;
      const column = idiv(tile, DOWN) * COLUMNS;
      const split = blockIdx.y;
      const batch = BATCHES === 1 ? i32(0) : idiv(blockIdx.x, TILES);
      const left = aStart(batch);
      const right = bStart(batch);
      const held = dynamicShared(f32);
      const share = WK === 1 ? 0 : idiv(warpId, WM * WN);
      const warpRow = idiv(WK === 1 ? warpId : warpId % (WM * WN), WN) * (LM * TM);
      const warpColumn = (warpId % WN) * (LN * TN);
      const laneRow = idiv(laneId, LN);
      const laneColumn = laneId % LN;
      const aAt = A.kMajor ? (warpRow + laneRow) * A.pitch : warpRow + laneRow * A.group;
      const bAt =
        A.floats + (B.kMajor ? (warpColumn + laneColumn) * B.pitch : warpColumn + laneColumn * B.group);
      const sums = local(f32, TM, TN);
      const clear = () => {
        for (let i = 0; i < TM; i++) for (let j = 0; j < TN; j++) sums[i][j] = 0;
      };
      clear();

      const copy = (piece: number, chunk: number, stage: number) => {
        const step = ((PIECES === 1 ? split : split * PIECES + piece) * CHUNKS + chunk) * DEPTH;
        copyPanel(a, left, held, stage * STAGE, row, step, true, A, context);
        copyPanel(b, right, held, stage * STAGE + A.floats, column, step, true, B, context);
        commitCopies();
      };

      const from = local(f32, TM, 4);
      const by = local(f32, TN, 4);
      /** Steps k to k + 3 of the lane's rows; of what lies across K only step k + l. */
      const read = (into: Memory, at: number, P: Panel, k: number, l: number) => {
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
      };
      /** Four steps along K. What lies along K is read for all four at once, else for one after the other. */
      const quad = (stage: number, k: number) => {
        const atA = stage * STAGE + aAt;
        const atB = stage * STAGE + bAt;
        if (A.kMajor) read(from, atA, A, k, 0);
        if (B.kMajor) read(by, atB, B, k, 0);
        for (let l = 0; l < 4; l++) {
          if (!A.kMajor) read(from, atA, A, k, l);
          if (!B.kMajor) read(by, atB, B, k, l);
          for (let i = 0; i < TM; i++)
            for (let j = 0; j < TN; j++) sums[i][j] = fma(from[i][l], by[j][l], sums[i][j]);
        }
      };
      const add = (stage: number) => {
        // Unrolled, the compiler would hold more of what lies along K than there are registers.
        if (DEPTH <= 32 * WK && (TM * TN < 64 || !A.kMajor || !B.kMajor)) {
          for (let k = 0; k < DEPTH; k += 4 * WK)
            if (k + 4 * WK <= DEPTH || share * 4 + k < DEPTH) quad(stage, share * 4 + k);
        } else {
          let k = share * 4;
          while (k < DEPTH) {
            quad(stage, k);
            k += 4 * WK;
          }
        }
      };

      // A thread's elements of the tile, the first of them; where it ends, the last that there are.
      const mine = threadIdx.x * OUT;
      const ownRow = Math.min(row + idiv(mine, COLUMNS), M - 1);
      const ownColumn =
        N % COLUMNS === 0 ? column + (mine % COLUMNS) : Math.min(column + (mine % COLUMNS), N - 1);
      const loadEarly = () => {
        if (OUT === 4) early(splat4(f32(0)), batch, ownRow, ownColumn);
        else if (OUT === 2) early(splat2(f32(0)), batch, ownRow, ownColumn);
        else early(f32(0), batch, ownRow, ownColumn);
      };

      const put = (at: number, v: number, lanes: number) => {
        if (lanes === 4) store4(c, at, v);
        else if (lanes === 2) store2(c, at, v);
        else c[at] = v;
      };
      const done = (piece: number, v: number, r: number, n: number, lanes: number) => {
        if (PARTS) {
          const at = ((split * BATCHES + batch) * M + r) * N + n;
          if (PIECES === 1 || piece === 0) put(at, v, lanes);
          else put(at, (lanes === 4 ? load4(c, at) : lanes === 2 ? load2(c, at) : c[at]) + v, lanes);
        } else put((batch * M + r) * N + n, finish(v, batch, r, n), lanes);
      };
      /** The products of a piece of K. */
      const sum = (piece: number) => {
        if (CHUNKS <= STAGES) {
          for (let chunk = 0; chunk < CHUNKS; chunk++) copy(piece, chunk, chunk);
          if (OWN) loadEarly();
          for (let chunk = 0; chunk < CHUNKS; chunk++) {
            waitCopies(CHUNKS - 1 - chunk);
            barrier();
            add(chunk);
          }
        } else {
          for (let chunk = 0; chunk < STAGES - 1; chunk++) copy(piece, chunk, chunk);
          if (OWN) loadEarly();
          let used = 0;
          let filled = STAGES - 1;
          let chunk = 0;
          while (chunk < CHUNKS) {
            waitCopies(STAGES - 2);
            barrier();
            // What all have used before the barrier is filled again.
            if (chunk + STAGES - 1 < CHUNKS) copy(piece, chunk + STAGES - 1, filled);
            else commitCopies();
            add(used);
            used = used === STAGES - 1 ? 0 : used + 1;
            filled = filled === STAGES - 1 ? 0 : filled + 1;
            chunk += 1;
          }
        }

        if (WK === 1) {
          for (let i = 0; i < TM; i++) {
            const r = row + warpRow + idiv(i, A.group) * (LM * A.group) + laneRow * A.group + (i % A.group);
            for (let j = 0; j < TN; j += OUT) {
              const n =
                column +
                warpColumn +
                idiv(j, B.group) * (LN * B.group) +
                laneColumn * B.group +
                (j % B.group);
              if (r < M && n < N) {
                if (OUT === 4)
                  done(piece, vec4(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]), r, n, 4);
                else if (OUT === 2) done(piece, vec2(sums[i][j], sums[i][j + 1]), r, n, 2);
                else done(piece, sums[i][j], r, n, 1);
              }
            }
          }
        } else {
          barrier();
          for (let i = 0; i < TM; i++) {
            const r = warpRow + idiv(i, A.group) * (LM * A.group) + laneRow * A.group + (i % A.group);
            for (let j = 0; j < TN; j += B.group) {
              const n = warpColumn + j * LN + laneColumn * B.group;
              const at = (share * ROWS + r) * COLUMNS + n;
              if (B.group === 4)
                store4(held, at, vec4(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]));
              else if (B.group === 2) store2(held, at, vec2(sums[i][j], sums[i][j + 1]));
              else held[at] = sums[i][j];
            }
          }
          barrier();
          for (let first = 0; first < ROWS * COLUMNS; first += THREADS * OUT) {
            const i = first + mine;
            const r = row + idiv(i, COLUMNS);
            const n = column + (i % COLUMNS);
            if ((first + THREADS * OUT <= ROWS * COLUMNS || i < ROWS * COLUMNS) && r < M && n < N) {
              const part = (w: number) => {
                const at = w * (ROWS * COLUMNS) + i;
                return OUT === 4 ? load4(held, at) : OUT === 2 ? load2(held, at) : held[at];
              };
              let total = part(0);
              for (let w = 1; w < WK; w++) total += part(w);
              if (OWN) done(piece, total, ownRow, ownColumn, OUT);
              else done(piece, total, r, n, OUT);
            }
          }
        }
      };
      if (PIECES === 1) sum(0);
      else {
        let piece = 0;
        while (piece < PIECES) {
          sum(piece);
          clear();
          barrier();
          piece += 1;
        }
      }
    },
    {
      ...{ A: left, B: right, M: p.M, N: p.N, DOWN: down, TILES: down * across },
      ...{ BATCHES: p.batches, PARTS: parts, PIECES: piecesOf(p.K, tile, LEVEL.f32) },
      ...{
        CHUNKS: chunks,
        STAGES: stages,
        STAGE: left.floats + right.floats,
        THREADS: threads,
        OUT: lanesOut,
      },
      ...{ WM: warps[0], WN: warps[1], WK: warps[2], LM: lanes[0], LN: lanes[1], TM: each[0], TN: each[1] },
      ...{
        DEPTH: tile.depth,
        ROWS: rows,
        COLUMNS: columns,
        copyPanel,
        copyPiece,
        rowOfSlot,
        ...{ OWN: own, early, finish },
      },
      ...{ aStart: startOf(p.a, p.batches), bStart: startOf(p.b, p.batches) },
    },
  );
  return { kernel, grid: [down * across * p.batches, splits, 1], threads, sharedBytes };
}

const SUM_THREADS = 128;

/** The product from its parts, added in the order of K. */
export function matmulSum(
  { batches, M, N, finish }: MatmulProblem,
  splits: number,
  dtype: DType = f32,
): GridKernel {
  const lanes = N % 4 === 0 ? 4 : N % 2 === 0 ? 2 : 1;
  const size = batches * M * N;
  const kernel = defineKernel(
    'matmulSum',
    { parts: buffer(f32), c: buffer(dtype) },
    ({ parts, c }, context) => {
      const { globalId, idiv, load2, load4, store2, store4, bf16, finish } = context;
      const { SIZE, SPLITS, M, N, LANES, HALF } = context;
      const i = globalId.x * LANES;
      if (i < SIZE) {
        let sum = LANES === 4 ? load4(parts, i) : LANES === 2 ? load2(parts, i) : parts[i];
        for (let s = 1; s < SPLITS; s++) {
          const at = s * SIZE + i;
          sum = sum + (LANES === 4 ? load4(parts, at) : LANES === 2 ? load2(parts, at) : parts[at]);
        }
        const row = idiv(i, N);
        const v = finish(HALF ? bf16(sum) : sum, idiv(row, M), row % M, i % N);
        if (LANES === 4) store4(c, i, v);
        else if (LANES === 2) store2(c, i, v);
        else c[i] = v;
      }
    },
    { SIZE: size, SPLITS: splits, M, N, LANES: lanes, HALF: dtype === bf16, finish },
  );
  return {
    kernel,
    grid: [Math.ceil(size / (lanes * SUM_THREADS)), 1, 1],
    threads: SUM_THREADS,
    sharedBytes: 0,
  };
}
