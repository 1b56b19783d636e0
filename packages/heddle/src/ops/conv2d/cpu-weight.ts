/**
 * The weight gradient of a convolution on the CPU: dW[o][c][ky][kx] = Σ over images and pixels of dY · X, with X
 * shifted by the tap. f32, deterministic: every weight is summed by one worker, images in order.
 *
 * A weight is a dot product along the pixels of a row, so vectors lie along the row and nothing is copied: a tile
 * keeps 8 vectors of partial sums, R output channels × 8/R taps, and takes R + 8/R loads per 4 pixels. After an image, or
 * LEVEL vectors of a larger one, they are added to the totals of the block, in memory of the worker: 16 loads and stores
 * against hundreds of multiply-adds, and a weight is off by the roundings of a level and of the levels, not of all pixels.
 * The lanes of the totals are added up once, at the end.
 *
 *   padding, stride   the images are first copied, padded with zeros, each phase of the columns together
 *   the row's tail    a vector that ends at the last pixel, with the lanes that were there already set to zero
 *
 * Addresses are carried through the loops: computed from loop variables, the engine repeats their sums in the innermost
 * loop, which takes twice as long. Taps of neighbouring channels, which share an address, gain another fifth.
 *
 * A block is R output channels × a run of taps, long enough to read each image row for several of them and short
 * enough that all workers have something to do.
 */
import { f32 } from '../../core/dtype.js';
import { buffer } from '../../kernel/ir/types.js';
import { defineKernel, type Intrinsics, type Memory } from '../../kernel/language/language.js';
import type { Tiled } from '../tiled.js';
import type { WeightGradientProblem } from './problem.js';

/** The weight gradient, and how many blocks to aim for at least. */
export interface CpuWeightProblem extends WeightGradientProblem {
  readonly leastBlocks: number;
}

/** Vectors of pixels that an accumulator takes. */
const LEVEL = 256;

/** How the images lie in memory for the weight kernel; `copied` if not as they come. */
function layoutOf({ size, outSize, kernel, stride, dilation, padding }: CpuWeightProblem) {
  const copied = padding[0] > 0 || padding[1] > 0 || stride[1] > 1;
  const reach = [dilation[0] * (kernel[0] - 1), dilation[1] * (kernel[1] - 1)] as const;
  const phase = outSize[1] + Math.floor(reach[1] / stride[1]);
  return copied
    ? { copied, phase, height: (outSize[0] - 1) * stride[0] + reach[0] + 1, pitch: phase * stride[1] }
    : { copied, phase, height: size[0], pitch: size[1] };
}

/** Floats of scratch memory for the padded copy of the images; 0 if none is needed. */
export function paddedSize(problem: CpuWeightProblem): number {
  const { copied, height, pitch } = layoutOf(problem);
  return copied ? problem.images * problem.groups * problem.inputs * height * pitch : 0;
}

/** The images, padded; place i of a row holds column i / phase + stride·(i % phase). */
export function padImages(problem: CpuWeightProblem): Tiled {
  const { images, groups, inputs } = problem;
  const kernel = defineKernel(
    'conv2dPad',
    { x: buffer(f32), padded: buffer(f32) },
    ({ x, padded }, context) => {
      const { blockIdx, idiv, problem, layout } = context;
      const { size, stride, padding, imageOffset } = problem;
      const { height, pitch, phase } = layout;
      for (let r = 0; r < height; r++) {
        const to = (blockIdx.x * height + r) * pitch;
        const from = imageOffset + (blockIdx.x * size[0] + r - padding[0]) * size[1];
        const there = r >= padding[0] && r < size[0] + padding[0];
        for (let i = 0; i < pitch; i++) {
          const column = idiv(i, phase) + stride[1] * (i % phase) - padding[1];
          padded[to + i] = there && column >= 0 && column < size[1] ? x[from + column] : 0;
        }
      }
    },
    { problem, layout: layoutOf(problem) },
  );
  return { kernel, blocks: images * groups * inputs };
}

/** What the device functions below know when the kernel is compiled. */
function constantsOf(problem: CpuWeightProblem) {
  const { groups, inputs, outputs, outSize, kernel, leastBlocks } = problem;
  const layout = layoutOf(problem);
  const taps = inputs * kernel[0] * kernel[1];
  // 8 accumulators: some channels × some taps.
  const channels = outputs % 4 === 0 ? 4 : outputs % 2 === 0 ? 2 : outputs > 4 ? 4 : 1;
  const each = 8 / channels;
  const down = Math.ceil(outputs / channels);
  const wanted = Math.ceil(leastBlocks / (groups * down));
  const run = Math.max(each, each * Math.ceil(taps / (each * Math.min(wanted, 64))));
  return {
    problem,
    layout,
    taps,
    finish: problem.finish,
    /** Output channels and taps of a tile. */
    tile: { channels, taps: each },
    /** Taps of a block; blocks along the output channels and along the taps. */
    blocks: { run, down, across: Math.ceil(taps / run) },
    /** Where the images begin: in x, or in the padded copy. */
    imageAt: layout.copied ? 0 : problem.imageOffset,
    /** From an input channel to the next, and from an output channel of dY. */
    plane: layout.height * layout.pitch,
    gradientPlane: outSize[0] * outSize[1],
    /** The taps of a tile are neighbouring input channels at one position of the kernel: one address serves them all. */
    inside: inputs % each === 0,
    /** Rows after which a tile's sums are added to the totals. */
    lines: Math.ceil(LEVEL / Math.ceil(outSize[1] / 4)),
  };
}

interface Context extends Intrinsics, ReturnType<typeof constantsOf> {
  readonly positionOf: typeof positionOf;
  readonly inputOf: typeof inputOf;
  readonly placeOf: typeof placeOf;
  readonly addTile: typeof addTile;
}

/** What a block computes: the group, the first output channel (of the group), and a run of taps. */
function blockPlace({ problem, tile, blocks, taps, blockIdx, idiv }: Context) {
  const first = (blockIdx.x % blocks.across) * blocks.run;
  const channel = (idiv(blockIdx.x, blocks.across) % blocks.down) * tile.channels;
  const group = problem.groups === 1 ? 0 : idiv(blockIdx.x, blocks.across * blocks.down);
  const run = Math.min(blocks.run, taps - first);
  return { group, channel, first, run };
}

type RunPlace = ReturnType<typeof blockPlace>;

/** The kernel position of tap `t`. */
function positionOf(t: number, { problem: { inputs, kernel }, inside, idiv }: Context): number {
  return inside ? idiv(t, inputs) : t % (kernel[0] * kernel[1]);
}

/** The input channel of tap `t`. */
function inputOf(t: number, { problem: { inputs, kernel }, inside, idiv }: Context): number {
  return inside ? t % inputs : idiv(t, kernel[0] * kernel[1]);
}

/** Where tap `t` begins, from an image's first element. */
function placeOf(t: number, context: Context): number {
  const { problem, layout, positionOf, inputOf, idiv } = context;
  const { kernel, stride, dilation } = problem;
  const kx = positionOf(t, context) % kernel[1];
  const row = inputOf(t, context) * layout.height + idiv(positionOf(t, context), kernel[1]) * dilation[0];
  return (
    row * layout.pitch + idiv(kx * dilation[1], stride[1]) + ((kx * dilation[1]) % stride[1]) * layout.phase
  );
}

/** Adds image n's products to the totals of `rows` channels × `taps` taps from tap `t` on. */
function addTile(
  x: Memory,
  dy: Memory,
  totals: Memory,
  n: number,
  t: number,
  rows: number,
  taps: number,
  block: RunPlace,
  context: Context,
): void {
  const { f32, i32, local, local4, load4, splat4, vec4, select, fma, placeOf } = context;
  const { problem, layout, tile, imageAt, plane, gradientPlane, inside, lines } = context;
  const { groups, inputs, outputs, outSize, stride, gradientOffset } = problem;
  const width = outSize[1];
  const whole = width - (width % 4);
  const fresh = vec4(0, 1, 2, 3) >= splat4(4 - (width % 4));
  const image = imageAt + (n * groups + block.group) * inputs * plane;
  const channel = n * (groups * outputs) + block.group * outputs + block.channel;
  const acc = local4(f32, rows, taps);
  const clear = () => {
    for (let i = 0; i < rows; i++) for (let j = 0; j < taps; j++) acc[i][j] = splat4(0);
  };
  // Carried through the loops, or the engine recomputes them in the innermost one.
  const bases = inside ? 1 : taps;
  const at = local(i32, bases);
  for (let j = 0; j < bases; j++) at[j] = image + placeOf(t + j, context);
  let slopes = gradientOffset + channel * gradientPlane;
  /** 4 pixels; `back` of them were there before. */
  const step = (back: number) => {
    const slope = local4(f32, rows);
    for (let i = 0; i < rows; i++) {
      const v = load4(dy, slopes - back + i * gradientPlane);
      slope[i] = back > 0 ? select(fresh, v, splat4(0)) : v;
    }
    for (let j = 0; j < taps; j++) {
      const pixels = load4(x, inside ? at[0] - back + j * plane : at[j] - back);
      for (let i = 0; i < rows; i++) acc[i][j] = fma(slope[i], pixels, acc[i][j]);
    }
  };
  let r = 0;
  const line = () => {
    const end = slopes + whole;
    while (slopes < end) {
      step(0);
      slopes += 4;
      for (let j = 0; j < bases; j++) at[j] += 4;
    }
    if (width % 4 > 0) step(4 - (width % 4));
    slopes += width - whole;
    for (let j = 0; j < bases; j++) at[j] += stride[0] * layout.pitch - whole;
    r += 1;
  };
  const add = () => {
    for (let i = 0; i < rows; i++)
      for (let j = 0; j < taps; j++) totals[(t - block.first + j) * tile.channels + i] += acc[i][j];
  };
  clear();
  if (outSize[0] <= lines) {
    while (r < outSize[0]) line();
    add();
  } else {
    while (r < outSize[0]) {
      const end = Math.min(r + lines, outSize[0]);
      while (r < end) line();
      add();
      clear();
    }
  }
}

/** Sums all images into the totals of `rows` channels, tile by tile. */
function addImages(
  x: Memory,
  dy: Memory,
  totals: Memory,
  rows: number,
  block: RunPlace,
  context: Context,
): void {
  const { problem, tile, taps, addTile } = context;
  let n = 0;
  while (n < problem.images) {
    const even = block.run - (block.run % tile.taps);
    for (let t = 0; t < even; t += tile.taps)
      addTile(x, dy, totals, n, block.first + t, rows, tile.taps, block, context);
    if (taps % tile.taps > 0 && even < block.run)
      addTile(x, dy, totals, n, block.first + even, rows, taps % tile.taps, block, context);
    n += 1;
  }
}

/** Adds the lanes of the totals of `rows` channels, and stores them. */
function storeTotals(dw: Memory, totals: Memory, rows: number, block: RunPlace, context: Context): void {
  const { lane, idiv, finish, positionOf, inputOf, problem, tile, taps } = context;
  const { outputs, kernel } = problem;
  for (let i = 0; i < rows; i++) {
    for (let t = 0; t < block.run; t++) {
      const v = totals[t * tile.channels + i];
      const sum = lane(v, 0) + lane(v, 2) + (lane(v, 1) + lane(v, 3));
      const tap = block.first + t;
      const channel = block.group * outputs + block.channel + i;
      const input = inputOf(tap, context);
      const k = positionOf(tap, context);
      dw[channel * taps + input * kernel[0] * kernel[1] + k] = finish(
        sum,
        channel,
        input,
        idiv(k, kernel[1]),
        k % kernel[1],
      );
    }
  }
}

/** dW from the images (padded, if a copy is needed) and the outputs' gradient. */
export function convolveWeight(problem: CpuWeightProblem): Tiled {
  const constants = constantsOf(problem);
  const { blocks } = constants;
  const ir = defineKernel(
    'conv2dWeight',
    { x: buffer(f32), dy: buffer(f32), dw: buffer(f32) },
    ({ x, dy, dw }, context) => {
      const { f32, local4, splat4, blockPlace, addImages, storeTotals, problem, tile, blocks } = context;
      const { outputs } = problem;
      const block = blockPlace(context);
      const totals = local4(f32, blocks.run * tile.channels);
      for (let i = 0; i < blocks.run * tile.channels; i++) totals[i] = splat4(0);
      const compute = (rows: number) => {
        addImages(x, dy, totals, rows, block, context);
        storeTotals(dw, totals, rows, block, context);
      };
      if (outputs % tile.channels === 0 || block.channel + tile.channels <= outputs) compute(tile.channels);
      else compute(outputs % tile.channels);
    },
    {
      ...constants,
      blockPlace,
      positionOf,
      inputOf,
      placeOf,
      addTile,
      addImages,
      storeTotals,
    },
  );
  return { kernel: ir, blocks: problem.groups * blocks.down * blocks.across };
}
