/**
 * The ladder of the convolution on a GPU: 3 × 3 with padding 1 on square images, each rung with one idea more than the one
 * before. `heddle bench conv` climbs it by name, then goes on to what the launch rule and the autotuner make of it, and to
 * the vendor's library. docs/kernels/conv.md explains it rung by rung.
 *
 *   naive              a thread for each output, which reads all that it needs from memory
 *   im2col + product   the pixels under each output written out as a matrix, and a matrix product
 *   implicit product   the product's tiles fetched from the image itself: the matrix is never in memory
 *   image tile         a block keeps the image's tile, not the matrix's: a pixel is fetched once for all nine taps
 *   winograd           2 × 2 outputs by 16 products of transformed tiles instead of 36
 *   tensor cores       the implicit product in tf32, by mma
 *
 * The fourth and the fifth are kernels that Heddle itself uses (ops/conv2d).
 */
import { f32 } from 'heddle/internal/core/dtype.js';
import { irFunction } from 'heddle/internal/kernel/ir/ir-function.js';
import type { Target } from 'heddle/internal/kernel/ir/target.js';
import { buffer } from 'heddle/internal/kernel/ir/types.js';
import { defineKernel, type Intrinsics, type Memory } from 'heddle/internal/kernel/language/language.js';
import { convolve } from 'heddle/internal/ops/conv2d/cuda.js';
import { convolveTiles } from 'heddle/internal/ops/conv2d/cuda-tiles.js';
import type { ConvolveProblem } from 'heddle/internal/ops/conv2d/problem.js';
import { winograd, winogradFloats, winogradWeights } from 'heddle/internal/ops/conv2d/winograd.js';
import { matmulTile } from 'heddle/internal/ops/matmul/cuda.js';
import type { GridKernel } from 'heddle/internal/ops/tiled.js';

/** x (images, channels, side, side) and w (outputs, channels, 3, 3) → y (images, outputs, side, side), 1 pixel of padding. */
export interface ConvSizes {
  readonly images: number;
  readonly channels: number;
  readonly outputs: number;
  readonly side: number;
}

/** What a launch is given. */
type Argument = 'x' | 'w' | 'y' | 'scratch';

export interface ConvRung {
  /** Floats of memory besides x, w and y. */
  readonly scratch: number;
  readonly launches: readonly { readonly kernel: GridKernel; readonly args: readonly Argument[] }[];
}

const SCHEMA = { x: buffer(f32), w: buffer(f32), y: buffer(f32) };
const ALL = ['x', 'w', 'y'] as const;
const TAPS = 9;

const area = ({ side }: ConvSizes): number => side * side;

/** A rung of one kernel. */
const alone = (kernel: GridKernel): ConvRung => ({ scratch: 0, launches: [{ kernel, args: ALL }] });

/** A thread for each output; the lanes of a warp lie along the rows of the image. */
function naive(sizes: ConvSizes): ConvRung {
  const outputs = sizes.images * sizes.outputs * area(sizes);
  const kernel = defineKernel(
    'convNaive',
    SCHEMA,
    ({ x, w, y }, { globalId, idiv, f32, fma, images, channels, outputs, side }) => {
      const i = globalId.x;
      if (i >= images * outputs * side * side) return;
      const column = i % side;
      const row = idiv(i, side) % side;
      const output = idiv(i, side * side) % outputs;
      const image = idiv(i, side * side * outputs);
      let sum = f32(0);
      for (let channel = 0; channel < channels; channel++)
        for (let tap = 0; tap < 9; tap++) {
          const v = row + idiv(tap, 3) - 1;
          const u = column + (tap % 3) - 1;
          if (v >= 0 && v < side && u >= 0 && u < side)
            sum = fma(
              x[((image * channels + channel) * side + v) * side + u],
              w[(output * channels + channel) * 9 + tap],
              sum,
            );
        }
      y[i] = sum;
    },
    { ...sizes },
  );
  return alone({ kernel, grid: [Math.ceil(outputs / 256), 1, 1], threads: 256, sharedBytes: 0 });
}

/** For each image a matrix (channel and tap, pixel), and W (output, channel and tap) times it. */
function unrolled(sizes: ConvSizes): ConvRung {
  const { images, channels, outputs } = sizes;
  const K = channels * TAPS;
  const floats = images * K * area(sizes);
  const im2col = defineKernel(
    'im2col',
    { x: buffer(f32), columns: buffer(f32) },
    ({ x, columns }, { globalId, idiv, f32, images, channels, side }) => {
      const i = globalId.x;
      if (i >= images * channels * 9 * side * side) return;
      const tap = idiv(i, side * side) % 9;
      const v = (idiv(i, side) % side) + idiv(tap, 3) - 1;
      const u = (i % side) + (tap % 3) - 1;
      const plane = idiv(i, 9 * side * side);
      const inside = v >= 0 && v < side && u >= 0 && u < side;
      columns[i] = inside ? x[(plane * side + v) * side + u] : f32(0);
    },
    { ...sizes },
  );
  const matrix = (columns: number, batchStride: number) => ({
    ...{ offset: 0, batch: [images], batchStrides: [batchStride], rowStride: columns, columnStride: 1 },
  });
  const product = matmulTile(
    {
      ...{ batches: images, M: outputs, N: area(sizes), K, finish: irFunction(([value]) => value!) },
      ...{ a: matrix(K, 0), b: matrix(area(sizes), K * area(sizes)) },
    },
    { warps: [2, 2, 1], lanes: [8, 4], each: [4, 8], depth: 16, stages: 3, splits: 1 },
  );
  const grid = [Math.ceil(floats / 256), 1, 1] as const;
  return {
    scratch: floats,
    launches: [
      { kernel: { kernel: im2col, grid, threads: 256, sharedBytes: 0 }, args: ['x', 'scratch'] },
      { kernel: product, args: ['w', 'scratch', 'y'] },
    ],
  };
}

/** Outputs × pixels of a block of 256 threads, and steps along K (channel and tap) at a time. */
const TILE = { rows: 64, pixels: 128, depth: 8 } as const;
/** Between the rows of the tiles in shared memory: so that the lanes of an mma meet different banks. */
const PITCH = { left: 12, right: 136 } as const;

interface TileContext extends Intrinsics, ConvSizes {
  readonly TILE: typeof TILE;
  readonly PITCH: typeof PITCH;
}

/** Fetches the tiles of W and of the matrix that im2col would write, whose elements are pixels of the image. */
function fetchTiles(
  x: Memory,
  w: Memory,
  left: Memory,
  right: Memory,
  step: number,
  row: number,
  pixel: number,
  { threadIdx, idiv, f32, images, channels, outputs, side, TILE, PITCH }: TileContext,
): void {
  for (let i = threadIdx.x; i < TILE.rows * TILE.depth; i += 256) {
    const r = idiv(i, TILE.depth);
    const k = i % TILE.depth;
    const there = row + r < outputs && step + k < channels * 9;
    left[r * PITCH.left + k] = there ? w[(row + r) * (channels * 9) + step + k] : f32(0);
  }
  // A thread has the same pixel at every step, and every second element along K.
  const p = pixel + (threadIdx.x % TILE.pixels);
  const image = idiv(p, side * side);
  for (let k = idiv(threadIdx.x, TILE.pixels); k < TILE.depth; k += 2) {
    const channel = idiv(step + k, 9);
    const tap = (step + k) % 9;
    const v = (idiv(p, side) % side) + idiv(tap, 3) - 1;
    const u = (p % side) + (tap % 3) - 1;
    const inside = image < images && channel < channels && v >= 0 && v < side && u >= 0 && u < side;
    right[k * PITCH.right + (threadIdx.x % TILE.pixels)] = inside
      ? x[((image * channels + channel) * side + v) * side + u]
      : f32(0);
  }
}

/** Stores a sum at (output, pixel). */
function storeSum(
  y: Memory,
  sum: number,
  output: number,
  p: number,
  { idiv, images, outputs, side }: TileContext,
): void {
  const image = idiv(p, side * side);
  if (output < outputs && image < images)
    y[(image * outputs + output) * (side * side) + (p % (side * side))] = sum;
}

/** Outputs and pixels are tiled as the rows and columns of a matrix product. */
const gridOf = (sizes: ConvSizes): readonly [number, number, number] => [
  Math.ceil((sizes.images * area(sizes)) / TILE.pixels),
  Math.ceil(sizes.outputs / TILE.rows),
  1,
];

/** A warp sums 8 outputs × 128 pixels: of each lane four pixels, 32 apart. */
function implicit(sizes: ConvSizes): ConvRung {
  const kernel = defineKernel(
    'convImplicit',
    SCHEMA,
    ({ x, w, y }, context) => {
      const { blockIdx, warpId, laneId, f32, fma, local, shared, barrier, channels } = context;
      const { TILE, PITCH, fetchTiles, storeSum } = context;
      const row = blockIdx.y * TILE.rows;
      const pixel = blockIdx.x * TILE.pixels;
      const left = shared(f32, TILE.rows * PITCH.left);
      const right = shared(f32, TILE.depth * PITCH.right);
      const sums = local(f32, 8, 4);
      for (let i = 0; i < 8; i++) for (let j = 0; j < 4; j++) sums[i][j] = 0;
      let step = 0;
      while (step < channels * 9) {
        fetchTiles(x, w, left, right, step, row, pixel, context);
        barrier(); // the tiles are complete
        for (let k = 0; k < TILE.depth; k++)
          for (let j = 0; j < 4; j++) {
            const v = right[k * PITCH.right + laneId + 32 * j];
            for (let i = 0; i < 8; i++)
              sums[i][j] = fma(left[(warpId * 8 + i) * PITCH.left + k], v, sums[i][j]);
          }
        barrier(); // all threads are done with them
        step += TILE.depth;
      }
      for (let i = 0; i < 8; i++)
        for (let j = 0; j < 4; j++)
          storeSum(y, sums[i][j], row + warpId * 8 + i, pixel + laneId + 32 * j, context);
    },
    { ...sizes, TILE, PITCH, fetchTiles, storeSum },
  );
  return alone({ kernel, grid: gridOf(sizes), threads: 256, sharedBytes: 0 });
}

/** The same tiles, multiplied by tensor cores: a warp sums 32 outputs × 32 pixels. */
function tensorCores(sizes: ConvSizes): ConvRung {
  const kernel = defineKernel(
    'convTensor',
    SCHEMA,
    ({ x, w, y }, context) => {
      const { blockIdx, warpId, laneId, idiv, f32, local4, lane, shared, barrier, channels } = context;
      const { mma, tf32, splat4, vec2, vec4, TILE, PITCH, fetchTiles, storeSum } = context;
      const row = blockIdx.y * TILE.rows;
      const pixel = blockIdx.x * TILE.pixels;
      const left = shared(f32, TILE.rows * PITCH.left);
      const right = shared(f32, TILE.depth * PITCH.right);
      // Which rows and columns of a fragment the lane holds.
      const g = idiv(laneId, 4);
      const t = laneId % 4;
      const firstRow = (warpId % 2) * 32;
      const firstPixel = idiv(warpId, 2) * 32;
      const sums = local4(f32, 2, 4);
      for (let i = 0; i < 2; i++) for (let j = 0; j < 4; j++) sums[i][j] = splat4(f32(0));
      let step = 0;
      while (step < channels * 9) {
        fetchTiles(x, w, left, right, step, row, pixel, context);
        barrier();
        for (let i = 0; i < 2; i++) {
          const from = (firstRow + 16 * i + g) * PITCH.left + t;
          const a = vec4(
            tf32(left[from]),
            tf32(left[from + 8 * PITCH.left]),
            tf32(left[from + 4]),
            tf32(left[from + 8 * PITCH.left + 4]),
          );
          for (let j = 0; j < 4; j++) {
            const at = t * PITCH.right + firstPixel + 8 * j + g;
            sums[i][j] = mma(a, vec2(tf32(right[at]), tf32(right[at + 4 * PITCH.right])), sums[i][j]);
          }
        }
        barrier();
        step += TILE.depth;
      }
      for (let i = 0; i < 2; i++)
        for (let j = 0; j < 4; j++)
          for (let l = 0; l < 4; l++) {
            const output = row + firstRow + 16 * i + g + 8 * idiv(l, 2);
            storeSum(y, lane(sums[i][j], l), output, pixel + firstPixel + 8 * j + 2 * t + (l % 2), context);
          }
    },
    { ...sizes, TILE, PITCH, fetchTiles, storeSum },
  );
  return alone({ kernel, grid: gridOf(sizes), threads: 256, sharedBytes: 0 });
}

/** As Heddle's own kernels are given it. */
const problemOf = ({ images, channels, outputs, side }: ConvSizes): ConvolveProblem => ({
  ...{ images, groups: 1, dtype: f32, inputs: channels, outputs, imageOffset: 0, weightOffset: 0 },
  ...{ kernel: [3, 3], stride: [1, 1], dilation: [1, 1], padding: [1, 1], adjoint: false },
  ...{ size: [side, side], outSize: [side, side], finish: irFunction(([value]) => value!) },
});

function transformed(sizes: ConvSizes): ConvRung {
  const problem = problemOf(sizes);
  return {
    scratch: winogradFloats(problem),
    launches: [
      { kernel: winogradWeights(problem), args: ['w', 'scratch'] },
      { kernel: winograd(problem), args: ['x', 'scratch', 'y'] },
    ],
  };
}

export const CONV_LADDER: Readonly<Record<string, (sizes: ConvSizes, target: Target) => ConvRung>> = {
  naive,
  'im2col + product': unrolled,
  'implicit product': implicit,
  'image tile': (sizes, target) => {
    const problem = problemOf(sizes);
    return alone(convolve(problem, convolveTiles(problem, target)[0]!));
  },
  winograd: transformed,
  'tensor cores': tensorCores,
};
