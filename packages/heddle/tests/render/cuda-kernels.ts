/** A dozen kernels that between them use the whole kernel language, as their authors would write them. */
import { bf16, f16, f32, i32, i64, u8, u32 } from '../../src/core/dtype.js';
import type { KernelIr } from '../../src/kernel/ir/ir.js';
import { buffer } from '../../src/kernel/ir/types.js';
import { defineKernel } from '../../src/kernel/language/language.js';

const saxpy = defineKernel(
  'saxpy',
  { a: f32, x: buffer(f32), y: buffer(f32), n: i32 },
  ({ a, x, y, n }, { globalId }) => {
    const i = globalId.x;
    if (i < n) y[i] = a * x[i] + y[i];
  },
);

const matmulTiled = defineKernel(
  'matmul_tiled',
  { a: buffer(f32), b: buffer(f32), c: buffer(f32), m: i32, n: i32, k: i32 },
  ({ a, b, c, m, n, k }, { threadIdx, blockIdx, shared, barrier, fma, f32, TILE }) => {
    const tileA = shared(f32, TILE, TILE);
    const tileB = shared(f32, TILE, TILE + 1);
    const row = blockIdx.y * TILE + threadIdx.y;
    const column = blockIdx.x * TILE + threadIdx.x;
    let sum = f32(0);
    for (let start = 0; start < k; start += TILE) {
      const across = start + threadIdx.x;
      const down = start + threadIdx.y;
      tileA[threadIdx.y][threadIdx.x] = row < m && across < k ? a[row * k + across] : 0;
      tileB[threadIdx.y][threadIdx.x] = down < k && column < n ? b[down * n + column] : 0;
      barrier();
      for (let i = 0; i < TILE; i++) {
        sum = fma(tileA[threadIdx.y][i], tileB[i][threadIdx.x], sum);
      }
      barrier();
    }
    if (row < m && column < n) c[row * n + column] = sum;
  },
  { TILE: 16 },
);

const blockSum = defineKernel(
  'block_sum',
  { x: buffer(f32), sums: buffer(f32), n: i32 },
  (
    { x, sums, n },
    {
      globalId,
      blockDim,
      gridDim,
      blockIdx,
      laneId,
      warpId,
      warpSum,
      shuffleDown,
      shared,
      barrier,
      idiv,
      f32,
    },
  ) => {
    const partial = shared(f32, 32);
    let sum = f32(0);
    for (let i = globalId.x; i < n; i += blockDim.x * gridDim.x) sum += x[i];
    sum = warpSum(sum);
    if (laneId === 0) partial[warpId] = sum;
    barrier();
    if (warpId === 0) {
      sum = laneId < idiv(blockDim.x, 32) ? partial[laneId] : 0;
      for (let by = 16; by > 0; by >>= 1) sum += shuffleDown(sum, by);
      if (laneId === 0) sums[blockIdx.x] = sum;
    }
  },
);

const transpose = defineKernel(
  'transpose',
  { x: buffer(f32), y: buffer(f32), rows: i32, columns: i32 },
  ({ x, y, rows, columns }, { threadIdx, blockIdx, shared, barrier, f32 }) => {
    const tile = shared(f32, 32, 33);
    const column = blockIdx.x * 32 + threadIdx.x;
    for (let j = threadIdx.y; j < 32; j += 8) {
      const row = blockIdx.y * 32 + j;
      if (row < rows && column < columns) tile[j][threadIdx.x] = x[row * columns + column];
    }
    barrier();
    const across = blockIdx.y * 32 + threadIdx.x;
    for (let j = threadIdx.y; j < 32; j += 8) {
      const down = blockIdx.x * 32 + j;
      if (down < columns && across < rows) y[down * rows + across] = tile[threadIdx.x][j];
    }
  },
);

const scaleBy4 = defineKernel(
  'scale_by_4',
  { x: buffer(f32), h: buffer(f16), y: buffer(f32), n: i32 },
  ({ x, h, y, n }, { globalId, load4, store4, splat4, lane, fma }) => {
    const i = globalId.x * 4;
    if (i + 3 < n) {
      const v = load4(x, i);
      const w = fma(v * splat4(2), v, splat4(1));
      store4(y, i, w);
      store4(h, i, load4(h, i) + splat4(0.5));
    } else {
      for (let j = i; j < n; j++) y[j] = lane(splat4(0.5), 0) * x[j];
    }
  },
);

const histogram = defineKernel(
  'histogram',
  { x: buffer(u8), counts: buffer(u32), n: i32 },
  ({ x, counts, n }, { threadIdx, globalId, blockDim, gridDim, shared, barrier, atomicAdd, i32, u32 }) => {
    const bins = shared(u32, 256);
    for (let b = threadIdx.x; b < 256; b += blockDim.x) bins[b] = 0;
    barrier();
    for (let i = globalId.x; i < n; i += blockDim.x * gridDim.x) atomicAdd(bins, i32(x[i]), 1);
    barrier();
    for (let b = threadIdx.x; b < 256; b += blockDim.x) atomicAdd(counts, b, bins[b]);
  },
);

const toBf16 = defineKernel(
  'to_bf16',
  { x: buffer(f32), scale: bf16, y: buffer(bf16), z: buffer(bf16), n: i32 },
  ({ x, scale, y, z, n }, { globalId, bf16 }) => {
    const i = globalId.x;
    if (i >= n) return;
    y[i] = bf16(x[i]);
    const product = y[i] * scale;
    z[i] = product + y[i];
  },
);

const checked = defineKernel(
  'checked',
  { labels: buffer(i32), losses: buffer(f32), classes: i32, n: i32 },
  ({ labels, losses, classes, n }, { globalId, assert, print }) => {
    const i = globalId.x;
    if (i < n) {
      const label = labels[i];
      assert(label >= 0 && label < classes, 'label is one of the classes');
      const loss = losses[i];
      if (!(loss < 100)) print('100% too high at {}: label {}, loss {}, "{}"', i, label, loss, loss > 0);
    }
  },
);

const rowMax = defineKernel(
  'row_max',
  { x: buffer(f32), y: buffer(f32), columns: i32 },
  ({ x, y, columns }, { threadIdx, blockIdx, blockDim, dynamicShared, barrier, f32 }) => {
    const scratch = dynamicShared(f32);
    let best = f32(-Infinity);
    for (let j = threadIdx.x; j < columns; j += blockDim.x)
      best = Math.max(best, x[blockIdx.x * columns + j]);
    scratch[threadIdx.x] = best;
    barrier();
    let width = blockDim.x >> 1;
    while (width > 0) {
      if (threadIdx.x < width) {
        scratch[threadIdx.x] = Math.max(scratch[threadIdx.x], scratch[threadIdx.x + width]);
      }
      barrier();
      width = width >> 1;
    }
    if (threadIdx.x === 0) y[blockIdx.x] = scratch[0];
  },
);

const collatz = defineKernel(
  'collatz',
  { x: buffer(i32), steps: buffer(i32), n: i32, limit: i32 },
  ({ x, steps, n, limit }, { globalId, idiv }) => {
    const i = globalId.x;
    if (i >= n) return;
    let value = x[i];
    let count = 0;
    while (true) {
      if (value <= 1) break;
      if (count === limit) {
        count = -1;
        break;
      } else if ((value & 1) === 0) {
        value = idiv(value, 2);
        count++;
        continue;
      } else {
        value = 3 * value + 1;
      }
      for (let skip = 0; skip < 2; skip++) {
        if (value % 2 !== 0) break;
        value = idiv(value, 2);
        count += 1;
      }
      count++;
    }
    steps[i] = count;
  },
);

const hash = defineKernel(
  'hash',
  { table: buffer(i32), keys: buffer(i32), big: buffer(i64), n: i32, size: i32 },
  ({ table, keys, big, n, size }, { globalId, i64, u32, mulhi, i32 }) => {
    const i = globalId.x;
    if (i < n) {
      const mixed = keys[i] * 747796405 + 12345;
      const slot = (mixed ^ (mixed >> 16)) & (size - 1);
      table[slot] = i;
      big[i] = i64(mixed) * i64(slot) - i64(1);
      keys[i] = i32(mulhi(u32(mixed), 3528531795)) % (slot + 1);
    }
  },
);

const registerTile = defineKernel(
  'register_tile',
  { a: buffer(f32), b: buffer(f32), c: buffer(f32), n: i32, k: i32 },
  ({ a, b, c, n, k }, { globalId, local4, load4, store4, splat4, f32, ROWS }) => {
    const acc = local4(f32, ROWS);
    const column = globalId.x * 4;
    const row = globalId.y * ROWS;
    for (let r = 0; r < ROWS; r++) acc[r] = splat4(0);
    for (let i = 0; i < k; i++) {
      const right = load4(b, i * n + column);
      for (let r = 0; r < ROWS; r++) acc[r] = acc[r] + splat4(a[(row + r) * k + i]) * right;
    }
    for (let r = 0; r < ROWS; r++) store4(c, (row + r) * n + column, acc[r]);
  },
  { ROWS: 4 },
);

export const KERNELS: readonly KernelIr[] = [
  saxpy,
  matmulTiled,
  blockSum,
  transpose,
  scaleBy4,
  histogram,
  toBf16,
  checked,
  rowMax,
  collatz,
  hash,
  registerTile,
];
