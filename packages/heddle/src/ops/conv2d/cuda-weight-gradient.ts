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
import { buffer } from '../../kernel/ir/types.js';
import { type Cast, defineKernel, type Intrinsics, type Memory } from '../../kernel/language/language.js';
import { finishEarly } from '../../kernel/passes/finish-early.js';
import type { GridKernel } from '../tiled.js';
import { IMAGE, type ImageTile, imageLayout, imageSpan, type pixelOffset, tilesOf } from './cuda-image.js';
import type { Convolution, WeightGradientProblem } from './problem.js';

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

/** The gradient as an image that is read where it is written. */
export const gradientOf = (p: WeightGradientProblem): Convolution => ({
  ...p,
  inputs: p.outputs,
  size: p.outSize,
  imageOffset: p.gradientOffset,
  kernel: [1, 1],
  stride: [1, 1],
  dilation: [1, 1],
  padding: [0, 0],
});

/** Floats of the gradient that a tile reads, of `outputs` channels. */
export const gradientFloats = (
  p: WeightGradientProblem,
  tile: ImageTile,
  outputs: number,
  phase?: number,
): number => imageSpan(gradientOf(p), { ...tile, channels: outputs }, phase).floats;

/** Bytes of shared memory that a block takes. */
export const weightSharedBytes = (p: WeightGradientProblem, tile: WeightTile): number =>
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
const plainParts = ({ inputs, kernel }: Convolution): PartLayout => {
  const width = inputs * kernel[0] * kernel[1];
  return { chunk: inputs, width, columns: width, inside: false };
};

/** Floats of `count` parts. */
export const partsOf = (p: Convolution, count: number, { columns } = plainParts(p)): number =>
  count * p.groups * p.outputs * columns;

/** What the device functions below know when the kernel is compiled. */
function constantsOf(p: WeightGradientProblem, tile: WeightTile) {
  const threads = tile.threads[0] * tile.threads[1];
  const outputs = tile.threads[0] * tile.each[0];
  const image = imageLayout(p, tile, threads);
  const pixels = tile.images * tile.rows * tile.columns;
  const tiles = tilesOf(image);
  const isLong = Math.ceil(tiles / tile.splits) * pixels > LEVEL;
  return {
    problem: p,
    tile,
    threads,
    image,
    pixels,
    tiles,
    gradient: imageLayout(gradientOf(p), { ...tile, channels: outputs }, threads),
    taps: p.kernel[0] * p.kernel[1],
    /** Output channels of a block. */
    outputs,
    /** Blocks along the output channels and along the input channels. */
    blocks: [Math.ceil(p.outputs / outputs), Math.ceil(p.inputs / tile.channels)] as const,
    /** Tiles after which the sums are added to the part; 0: only at the end. */
    every: isLong ? Math.max(1, Math.floor(LEVEL / pixels)) : 0,
  };
}

interface Context extends Intrinsics, ReturnType<typeof constantsOf> {
  readonly pixelOffset: typeof pixelOffset;
}

/** What a block sums: the group, and the first of its output and input channels. */
function blockPlace({ problem, tile, outputs, blocks, blockIdx, idiv }: Context) {
  const group = problem.groups === 1 ? 0 : idiv(blockIdx.y, blocks[0] * blocks[1]);
  const output = (idiv(blockIdx.y, blocks[1]) % blocks[0]) * outputs;
  const input = (blockIdx.y % blocks[1]) * tile.channels;
  return { group, output, input };
}

type WeightBlock = ReturnType<typeof blockPlace>;

/**
 * Adds the products of the tile in shared memory, 4 pixels of a row at a time.
 * @param output the thread's first output channel; the others are as many further as there are threads along them
 * @param places where the thread's (input channel, tap)s are, from a pixel
 */
function addPixels(held: Memory, output: number, places: Memory, sums: Memory, context: Context): void {
  const { f32, local, load4, lane, fma, pixelOffset, problem, tile, image, gradient, pixels } = context;
  let p = 0;
  while (p < pixels) {
    const pixel = gradient.floats + pixelOffset(p, image, context);
    const slope = pixelOffset(p, gradient, context) + output * gradient.plane;
    const slopes = local(f32, tile.each[0], 4);
    for (let i = 0; i < tile.each[0]; i++) {
      const v = load4(held, slope + i * tile.threads[0] * gradient.plane);
      for (let l = 0; l < 4; l++) slopes[i][l] = lane(v, l);
    }
    for (let l = 0; l < 4; l++) {
      for (let j = 0; j < tile.each[1]; j++) {
        const v = held[pixel + l * problem.stride[1] + places[j]];
        for (let i = 0; i < tile.each[0]; i++) sums[i][j] = fma(slopes[i][l], v, sums[i][j]);
      }
    }
    p += 4;
  }
}

/** Writes the sums to the block's part of dW, or adds them to it if they are not the first. */
function storeSums(
  parts: Memory,
  sums: Memory,
  isFirst: boolean,
  block: WeightBlock,
  myOutput: number,
  myTap: number,
  { problem, tile, taps, blockIdx }: Context,
): void {
  const { groups, inputs, outputs } = problem;
  for (let i = 0; i < tile.each[0]; i++) {
    const o = block.output + myOutput + i * tile.threads[0];
    for (let j = 0; j < tile.each[1]; j++) {
      const t = myTap + j * tile.threads[1];
      const tap = block.input * taps + t;
      const to = ((blockIdx.x * groups + block.group) * outputs + o) * inputs * taps + tap;
      if (o < outputs && t < tile.channels * taps && tap < inputs * taps) {
        if (isFirst) parts[to] = sums[i][j];
        else parts[to] += sums[i][j];
      }
    }
  }
}

/** The parts of dW: (split, output channel, input channel, tap). */
export function convolveWeight(p: WeightGradientProblem, tile: WeightTile): GridKernel {
  const constants = constantsOf(p, tile);
  const { blocks, threads } = constants;
  const kernel = defineKernel(
    'conv2dWeight',
    { x: buffer(p.dtype), dy: buffer(p.dtype), parts: buffer(f32) },
    ({ x, dy, parts }, context) => {
      const { threadIdx, blockIdx, idiv, local, f32, i32, dynamicShared, barrier } = context;
      const { commitCopies, waitCopies, copyImage, tapOffset, blockPlace, addPixels, storeSums } = context;
      const { tile, taps, tiles, image, gradient, every } = context;
      const block = blockPlace(context);
      const held = dynamicShared(f32);
      const myOutput = idiv(threadIdx.x, tile.threads[1]);
      const myTap = threadIdx.x % tile.threads[1];
      const places = local(i32, tile.each[1]);
      for (let j = 0; j < tile.each[1]; j++) {
        const t = myTap + j * tile.threads[1];
        places[j] = t < tile.channels * taps ? tapOffset(t % taps, idiv(t, taps), image, context) : 0;
      }
      const sums = local(f32, tile.each[0], tile.each[1]);
      const clear = () => {
        for (let i = 0; i < tile.each[0]; i++) for (let j = 0; j < tile.each[1]; j++) sums[i][j] = 0;
      };
      const store = (isFirst: boolean) => storeSums(parts, sums, isFirst, block, myOutput, myTap, context);
      clear();

      let at = blockIdx.x;
      let taken = 0;
      while (at < tiles) {
        const column = (at % image.across) * tile.columns;
        const row = (idiv(at, image.across) % image.down) * tile.rows;
        const n = idiv(at, image.across * image.down) * tile.images;
        if (at > blockIdx.x) barrier();
        copyImage(dy, held, 0, block.group, block.output, n, row, column, gradient, context);
        copyImage(x, held, gradient.floats, block.group, block.input, n, row, column, image, context);
        commitCopies();
        waitCopies(0);
        barrier();
        addPixels(held, myOutput, places, sums, context);
        at += tile.splits;
        if (every > 0) {
          taken += 1;
          if (taken % every === 0 || at >= tiles) {
            if (taken <= every) store(true);
            else store(false);
            clear();
          }
        }
      }
      if (every === 0) store(true);
    },
    { ...constants, ...IMAGE, blockPlace, addPixels, storeSums },
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
 * their parts: each adds every so many-th, all of which it asks for at once, then one adds their sums. What the epilogue takes comes
 * meanwhile.
 */
export function addParts(
  p: Omit<WeightGradientProblem, 'gradientOffset'>,
  count: number,
  layout = plainParts(p),
): GridKernel {
  const size = partsOf(p, 1, layout);
  const lanes = size >= 4096 ? 32 : 8;
  const adders = Math.min(512 / lanes, 2 ** Math.ceil(Math.log2(count)));
  const rounds = Math.ceil(count / adders);
  const kernel = defineKernel(
    'conv2dWeightSum',
    { parts: buffer(f32), dw: buffer(p.dtype) },
    ({ parts, dw }, context) => {
      const { threadIdx, blockIdx, idiv, f32, shared, barrier, element, early, finish } = context;
      const { size, count, rounds, adders, lanes, layout, problem } = context;
      const { inputs, kernel } = problem;
      const taps = kernel[0] * kernel[1];
      const member = threadIdx.x % lanes;
      const at = blockIdx.x * lanes + member;
      const adder = idiv(threadIdx.x, lanes);
      const held = shared(f32, adders, lanes);
      const output = idiv(at, layout.columns);
      const column = (at % layout.columns) % layout.width;
      const tap = layout.inside ? idiv(column, layout.chunk) : column % taps;
      const own = layout.inside ? column % layout.chunk : idiv(column, taps);
      const input = idiv(at % layout.columns, layout.width) * layout.chunk + own;
      const row = idiv(tap, kernel[1]);
      const across = tap % kernel[1];
      const stores = adder === 0 && at < size && column < layout.chunk * taps && input < inputs;
      if (stores) early(element(f32(0)), output, input, row, across);
      let sum = f32(0);
      for (let k = 0; k < rounds; k++) {
        const s = adder + k * adders;
        // Without a branch, so that no addition comes between the loads.
        const there = at < size && s < count;
        const v = parts[there ? s * size + at : 0];
        sum += there ? v : 0;
      }
      if (adders > 1) {
        held[adder][member] = sum;
        barrier();
      }
      if (stores) {
        for (let s = 1; s < adders; s++) sum += held[s][member];
        const to = (output * inputs + input) * taps + tap;
        dw[to] = finish(element(sum), output, input, row, across);
      }
    },
    {
      size,
      count,
      rounds,
      adders,
      lanes,
      layout,
      problem: p,
      element: p.dtype as Cast<'f32'>,
      ...finishEarly(p.finish),
    },
  );
  return { kernel, grid: [Math.ceil(size / lanes), 1, 1], threads: lanes * adders, sharedBytes: 0 };
}
