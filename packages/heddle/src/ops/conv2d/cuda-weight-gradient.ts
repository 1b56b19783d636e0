/**
 * The weight gradient of a convolution on a GPU: dW[o][c][tap] = Σ over images and pixels of dY · X, with X shifted
 * by the tap. f32, deterministic.
 *
 * A block keeps a tile of dY and the image under it in shared memory and sums output channels × (input channel, tap)
 * in registers, so that a pixel comes from memory once for all taps. The sum over tiles is long and its result small:
 * it is split over blocks, each of which takes every S-th tile and writes its part; a second kernel adds the parts in
 * order. A block that takes more than LEVEL pixels adds its sums to its part every LEVEL pixels and starts again, so that
 * a weight is off by the roundings of a level and of the levels, not by one for each pixel.
 */
import { f32 } from '../../core/dtype.js';
import type { IrFunction } from '../../kernel/ir/ir-function.js';
import { buffer } from '../../kernel/ir/types.js';
import { defineKernel } from '../../kernel/language/language.js';
import type { GridKernel } from '../tiled.js';
import {
  type CudaConvolution,
  copyImage,
  type ImageTile,
  imageLayout,
  imageSpan,
  pixelOffset,
  tapOffset,
  tilesOf,
} from './cuda-image.js';

/** `size` is that of x, `outSize` that of dY. */
export interface CudaConvolveWeight extends CudaConvolution {
  /** Where dY begins. */
  readonly gradientOffset: number;
  /** (value, output channel, input channel of the group, row, column) → the value to store. */
  readonly finish: IrFunction;
}

/** How the work is cut. The tile's columns are a multiple of 4; `channels` are those of x. */
export interface WeightTile extends ImageTile {
  /** Threads along the output channels and along (input channel, tap). */
  readonly threads: readonly [number, number];
  /** What a thread sums: output channels × (input channel, tap). */
  readonly each: readonly [number, number];
  /** Blocks that share the sum over tiles. */
  readonly splits: number;
}

/** Pixels that an accumulator takes. */
const LEVEL = 4096;

function layoutOf(p: CudaConvolveWeight, tile: WeightTile) {
  const threads = tile.threads[0] * tile.threads[1];
  const outputs = tile.threads[0] * tile.each[0];
  const image = imageLayout(p, tile, threads);
  const gradient = imageLayout(gradientOf(p), { ...tile, channels: outputs }, threads);
  return { threads, outputs, image, gradient, tiles: tilesOf(image) };
}

/** The gradient as an image that is read where it is written. */
export const gradientOf = (p: CudaConvolveWeight): CudaConvolution => ({
  ...{ ...p, inputs: p.outputs, size: p.outSize, imageOffset: p.gradientOffset },
  ...{ kernel: [1, 1], stride: [1, 1], dilation: [1, 1], padding: [0, 0] },
});

/** Floats of the gradient that a tile reads, of `outputs` channels. */
export const gradientFloats = (
  p: CudaConvolveWeight,
  tile: ImageTile,
  outputs: number,
  phase?: number,
): number => imageSpan(gradientOf(p), { ...tile, channels: outputs }, phase).floats;

/** Bytes of shared memory that a block takes. */
export const weightSharedBytes = (p: CudaConvolveWeight, tile: WeightTile): number =>
  4 * (imageSpan(p, tile).floats + gradientFloats(p, tile, tile.threads[0] * tile.each[0]));

/** How a part of dW lies in memory: a row for each output channel, of `columns`; those of `chunk` inputs together. */
export interface PartLayout {
  readonly chunk: number;
  /** Columns of a chunk, and of all. */
  readonly width: number;
  readonly columns: number;
  /** Whether the order within a chunk is (tap, input) instead of (input, tap). */
  readonly inside: boolean;
}

/** As dW itself. */
const plainParts = ({ inputs, kernel }: CudaConvolution): PartLayout => {
  const width = inputs * kernel[0] * kernel[1];
  return { chunk: inputs, width, columns: width, inside: false };
};

/** Floats of `count` parts. */
export const partsOf = (p: CudaConvolution, count: number, { columns } = plainParts(p)): number =>
  count * p.groups * p.outputs * columns;

/** The parts of dW: (split, output channel, input channel, tap). */
export function convolveWeight(p: CudaConvolveWeight, tile: WeightTile): GridKernel {
  const { threads, outputs, image, gradient, tiles } = layoutOf(p, tile);
  const blocks = [Math.ceil(p.outputs / outputs), Math.ceil(p.inputs / tile.channels)] as const;
  const pixels = tile.images * tile.rows * tile.columns;
  const kernel = defineKernel(
    'conv2dWeight',
    { x: buffer(f32), dy: buffer(f32), parts: buffer(f32) },
    ({ x, dy, parts }, context) => {
      const { threadIdx, blockIdx, idiv, lane, local, load4, fma, f32, i32 } = context;
      const { dynamicShared, barrier, commitCopies, waitCopies, copyImage, tapOffset, pixelOffset } = context;
      const { IMAGE, GRADIENT, GROUPS, INPUTS, OUTPUTS, TAPS, DOWN, ACROSS } = context;
      const { O_BLOCKS, C_BLOCKS, SPLITS, TILES } = context;
      const { ROWS, COLUMNS, O_EACH, T_EACH, CHANNELS, CHUNK, TN, TH, TW, SX, EVERY } = context;
      const g = GROUPS === 1 ? 0 : idiv(blockIdx.y, O_BLOCKS * C_BLOCKS);
      const firstOutput = (idiv(blockIdx.y, C_BLOCKS) % O_BLOCKS) * CHANNELS;
      const firstInput = (blockIdx.y % C_BLOCKS) * CHUNK;
      const held = dynamicShared(f32);
      const myOutput = idiv(threadIdx.x, COLUMNS);
      const myTap = threadIdx.x % COLUMNS;
      const place = local(i32, T_EACH);
      for (let j = 0; j < T_EACH; j++) {
        const t = myTap + j * COLUMNS;
        place[j] = t < CHUNK * TAPS ? tapOffset(t % TAPS, idiv(t, TAPS), IMAGE, context) : 0;
      }
      const sums = local(f32, O_EACH, T_EACH);
      const clear = () => {
        for (let i = 0; i < O_EACH; i++) for (let j = 0; j < T_EACH; j++) sums[i][j] = 0;
      };
      clear();

      const put = (isFirst: boolean) => {
        for (let i = 0; i < O_EACH; i++) {
          const o = firstOutput + myOutput + i * ROWS;
          for (let j = 0; j < T_EACH; j++) {
            const t = myTap + j * COLUMNS;
            const tap = firstInput * TAPS + t;
            const to = ((blockIdx.x * GROUPS + g) * OUTPUTS + o) * INPUTS * TAPS + tap;
            if (o < OUTPUTS && t < CHUNK * TAPS && tap < INPUTS * TAPS) {
              if (isFirst) parts[to] = sums[i][j];
              else parts[to] += sums[i][j];
            }
          }
        }
      };

      let tile = blockIdx.x;
      let taken = 0;
      while (tile < TILES) {
        const column = (tile % ACROSS) * TW;
        const row = (idiv(tile, ACROSS) % DOWN) * TH;
        const n = idiv(tile, ACROSS * DOWN) * TN;
        if (tile > blockIdx.x) barrier();
        copyImage(dy, held, 0, g, firstOutput, n, row, column, GRADIENT, context);
        copyImage(x, held, GRADIENT.floats, g, firstInput, n, row, column, IMAGE, context);
        commitCopies();
        waitCopies(0);
        barrier();
        // 4 pixels of a row at a time
        let p = 0;
        while (p < TN * TH * TW) {
          const pixel = GRADIENT.floats + pixelOffset(p, IMAGE, context);
          const slope = pixelOffset(p, GRADIENT, context) + myOutput * GRADIENT.plane;
          const slopes = local(f32, O_EACH, 4);
          for (let i = 0; i < O_EACH; i++) {
            const v = load4(held, slope + i * ROWS * GRADIENT.plane);
            for (let l = 0; l < 4; l++) slopes[i][l] = lane(v, l);
          }
          for (let l = 0; l < 4; l++) {
            for (let j = 0; j < T_EACH; j++) {
              const v = held[pixel + l * SX + place[j]];
              for (let i = 0; i < O_EACH; i++) sums[i][j] = fma(slopes[i][l], v, sums[i][j]);
            }
          }
          p += 4;
        }
        tile += SPLITS;
        if (EVERY > 0) {
          taken += 1;
          if (taken % EVERY === 0 || tile >= TILES) {
            if (taken <= EVERY) put(true);
            else put(false);
            clear();
          }
        }
      }
      if (EVERY === 0) put(true);
    },
    {
      ...{ IMAGE: image, GRADIENT: gradient, copyImage, tapOffset, pixelOffset },
      ...{ GROUPS: p.groups, INPUTS: p.inputs, OUTPUTS: p.outputs, TAPS: p.kernel[0] * p.kernel[1] },
      ...{ DOWN: image.down, ACROSS: image.across, O_BLOCKS: blocks[0], C_BLOCKS: blocks[1] },
      ...{ SPLITS: tile.splits, TILES: tiles, ROWS: tile.threads[0], COLUMNS: tile.threads[1] },
      ...{ O_EACH: tile.each[0], T_EACH: tile.each[1], CHANNELS: outputs, CHUNK: tile.channels },
      ...{ TN: tile.images, TH: tile.rows, TW: tile.columns, SX: p.stride[1] },
      EVERY: Math.ceil(tiles / tile.splits) * pixels > LEVEL ? Math.max(1, Math.floor(LEVEL / pixels)) : 0,
    },
  );
  return {
    kernel,
    grid: [tile.splits, p.groups * blocks[0] * blocks[1], 1],
    threads,
    sharedBytes: weightSharedBytes(p, tile),
  };
}

/**
 * dW from its parts. The threads of a block have some weights side by side, few if there are few weights, and share
 * their parts: each adds every so many-th, all of which it asks for at once, then one adds their sums.
 */
export function addParts(p: CudaConvolveWeight, count: number, layout = plainParts(p)): GridKernel {
  const size = partsOf(p, 1, layout);
  const lanes = size >= 4096 ? 32 : 8;
  const adders = Math.min(512 / lanes, 2 ** Math.ceil(Math.log2(count)));
  const kernel = defineKernel(
    'conv2dWeightSum',
    { parts: buffer(f32), dw: buffer(f32) },
    ({ parts, dw }, context) => {
      const { threadIdx, blockIdx, idiv, f32, shared, barrier, finish } = context;
      const { SIZE, COUNT, ROUNDS, INPUTS, KH, KW, ADDERS, LANES } = context;
      const { CHUNK, WIDTH, COLUMNS, INSIDE } = context;
      const member = threadIdx.x % LANES;
      const at = blockIdx.x * LANES + member;
      const adder = idiv(threadIdx.x, LANES);
      const held = shared(f32, ADDERS, LANES);
      let sum = f32(0);
      for (let k = 0; k < ROUNDS; k++) {
        const s = adder + k * ADDERS;
        // Without a branch, so that no addition comes between the loads.
        const there = at < SIZE && s < COUNT;
        const v = parts[there ? s * SIZE + at : 0];
        sum += there ? v : 0;
      }
      held[adder][member] = sum;
      barrier();
      if (adder === 0 && at < SIZE) {
        for (let s = 1; s < ADDERS; s++) sum += held[s][member];
        const output = idiv(at, COLUMNS);
        const column = (at % COLUMNS) % WIDTH;
        const tap = INSIDE ? idiv(column, CHUNK) : column % (KH * KW);
        const own = INSIDE ? column % CHUNK : idiv(column, KH * KW);
        const input = idiv(at % COLUMNS, WIDTH) * CHUNK + own;
        const to = (output * INPUTS + input) * KH * KW + tap;
        if (column < CHUNK * KH * KW && input < INPUTS)
          dw[to] = finish(sum, output, input, idiv(tap, KW), tap % KW);
      }
    },
    {
      ...{ SIZE: size, COUNT: count, INPUTS: p.inputs, KH: p.kernel[0], KW: p.kernel[1] },
      ...{ CHUNK: layout.chunk, WIDTH: layout.width, COLUMNS: layout.columns, INSIDE: layout.inside },
      ...{ ADDERS: adders, LANES: lanes, ROUNDS: Math.ceil(count / adders), finish: p.finish },
    },
  );
  return { kernel, grid: [Math.ceil(size / lanes), 1, 1], threads: lanes * adders, sharedBytes: 0 };
}
