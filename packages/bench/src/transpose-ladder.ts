/**
 * Transposing a matrix on a GPU: a ladder of kernels, at the end of which generated transposes stand
 * (schedule/lower/elements.ts). After M. Harris, An Efficient Matrix Transpose in CUDA C/C++ (2013).
 *
 *   naive      a thread per element; reads are a row apart, so each fetches 32 bytes for 4: twice the time of a copy
 *   tiled      through a tile of 32 × 32 in shared memory: reads and writes are both of neighbours, but a column of the
 *              tile lies in one bank, and its 32 reads queue up: worse than none
 *   padded     a column more in the tile, and neighbours of a column lie in neighbouring banks: as fast as a copy
 *   squares16  no shared memory: each thread turns 4 × 4 elements in registers, by accesses of 16 bytes; 16, 8 or 4 of a
 *   squares8   warp's threads write side by side, the others read so. With 4, reads are of 128 bytes and writes of 64, and
 *   squares4   it is as fast as a copy; the others come close
 */
import { f32 } from 'heddle/internal/core/dtype.js';
import type { KernelIr } from 'heddle/internal/kernel/ir/ir.js';
import { buffer } from 'heddle/internal/kernel/ir/types.js';
import { defineKernel } from 'heddle/internal/kernel/language/language.js';

export interface Transpose {
  readonly kernel: KernelIr;
  readonly grid: readonly [number, number, number];
  readonly block: readonly [number, number, number];
}

const TILE = 32;
/** Rows of a tile that a block's threads take at once. */
const ROWS = 8;

const SCHEMA = { x: buffer(f32), y: buffer(f32) };

/** x (H, W) → y (W, H): y[c][r] = x[r][c], a thread for each element of y. */
const naive = (H: number, W: number): Transpose => ({
  kernel: defineKernel(
    'transposeNaive',
    SCHEMA,
    ({ x, y }, { blockIdx, threadIdx, H, W, TILE, ROWS }) => {
      const r = blockIdx.x * TILE + threadIdx.x;
      for (let j = 0; j < TILE; j += ROWS) {
        const c = blockIdx.y * TILE + threadIdx.y + j;
        if (r < H && c < W) y[c * H + r] = x[r * W + c];
      }
    },
    { H, W, TILE, ROWS },
  ),
  grid: [Math.ceil(H / TILE), Math.ceil(W / TILE), 1],
  block: [TILE, ROWS, 1],
});

/** The same through shared memory. @param PAD unused columns of the tile */
const tiled = (name: string, H: number, W: number, PAD: number): Transpose => ({
  kernel: defineKernel(
    name,
    SCHEMA,
    ({ x, y }, { blockIdx, threadIdx, shared, barrier, f32, H, W, TILE, ROWS, PAD }) => {
      const tile = shared(f32, TILE, TILE + PAD);
      for (let j = 0; j < TILE; j += ROWS) {
        const r = blockIdx.x * TILE + threadIdx.y + j;
        const c = blockIdx.y * TILE + threadIdx.x;
        if (r < H && c < W) tile[threadIdx.y + j][threadIdx.x] = x[r * W + c];
      }
      barrier();
      for (let j = 0; j < TILE; j += ROWS) {
        const r = blockIdx.x * TILE + threadIdx.x;
        const c = blockIdx.y * TILE + threadIdx.y + j;
        if (r < H && c < W) y[c * H + r] = tile[threadIdx.x][threadIdx.y + j];
      }
    },
    { H, W, TILE, ROWS, PAD },
  ),
  grid: [Math.ceil(H / TILE), Math.ceil(W / TILE), 1],
  block: [TILE, ROWS, 1],
});

/**
 * 4 × 4 elements a thread, turned in registers; H and W are multiples of 4. Of a warp's threads, ALONG lie side by
 * side along the rows of y, so that it writes ALONG · 16 bytes of each, and reads what is left of a warp · 16 bytes
 * of each row of x.
 */
const squares = (H: number, W: number, ALONG: number): Transpose => ({
  kernel: defineKernel(
    `transposeSquares${ALONG}`,
    SCHEMA,
    ({ x, y }, { blockIdx, laneId, warpId, load4, store4, vec4, lane, idiv, H, W, ALONG }) => {
      // A block of 8 warps takes 64 × 64 elements.
      const wide = idiv(16, ALONG);
      const r = blockIdx.x * 64 + ((warpId % wide) * ALONG + (laneId % ALONG)) * 4;
      const c = blockIdx.y * 64 + (idiv(warpId, wide) * idiv(32, ALONG) + idiv(laneId, ALONG)) * 4;
      if (r < H && c < W) {
        const a = load4(x, r * W + c);
        const b = load4(x, (r + 1) * W + c);
        const d = load4(x, (r + 2) * W + c);
        const e = load4(x, (r + 3) * W + c);
        store4(y, c * H + r, vec4(lane(a, 0), lane(b, 0), lane(d, 0), lane(e, 0)));
        store4(y, (c + 1) * H + r, vec4(lane(a, 1), lane(b, 1), lane(d, 1), lane(e, 1)));
        store4(y, (c + 2) * H + r, vec4(lane(a, 2), lane(b, 2), lane(d, 2), lane(e, 2)));
        store4(y, (c + 3) * H + r, vec4(lane(a, 3), lane(b, 3), lane(d, 3), lane(e, 3)));
      }
    },
    { H, W, ALONG },
  ),
  grid: [Math.ceil(H / 64), Math.ceil(W / 64), 1],
  block: [256, 1, 1],
});

/** The ladder: each kernel transposes x (rows, columns), sizes multiples of 4. */
export const TRANSPOSES: readonly {
  readonly name: string;
  readonly make: (rows: number, columns: number) => Transpose;
}[] = [
  { name: 'naive', make: naive },
  { name: 'tiled', make: (h, w) => tiled('transposeTiled', h, w, 0) },
  { name: 'padded', make: (h, w) => tiled('transposePadded', h, w, 1) },
  ...[16, 8, 4].map((along) => ({
    name: `squares${along}`,
    make: (h: number, w: number) => squares(h, w, along),
  })),
];
