/**
 * Convolutions with channels last and their two gradients by warpgroups, on the pipeline of ops/matmul/warpgroup.ts. The
 * copy engine walks over the pixels that a tap of the kernel meets (a tensor map's `walk`): the matrix of an implicit product
 * is never in memory.
 *
 *   forward          pixels × outputs: a term for each tap, summed over inputs
 *   input gradient   pixels × inputs: the same of dY, the weights across K; where the stride is more than 1, a batch for each
 *                    phase of the pixels, with those taps that meet it
 *   weight gradient  outputs × (tap, input), summed over pixels, both operands across K
 *
 * A group is a batch of such a product, whose channels lie beside those of the others.
 *
 * A kernel of one tap that meets every pixel is a matrix product, whose operands are copied as matrices. Where the copies take
 * longer than the products, pixels come as patches (warpgroup-patch.ts), once for each column of taps.
 */
import { f32 } from '../../core/dtype.js';
import { tensorMap, walkFault, walkReach } from '../../kernel/ir/types.js';
import type { Memory } from '../../kernel/language/language.js';
import type { OperandLayout } from '../matmul/cpu.js';
import { LEVEL } from '../matmul/cuda-block.js';
import { byWarpgroups, isCopied, type WarpgroupKernel } from '../matmul/warpgroup.js';
import {
  asQuads,
  depthOf,
  type OperandTiles,
  quadMap,
  rowsOf,
  tilesOf,
  type WarpgroupTile,
} from '../matmul/warpgroup-layout.js';
import type { OperandStart, WarpgroupOperand } from '../matmul/warpgroup-pipeline.js';
import { matrixOperand, matrixResult } from '../matmul/warpgroup-product.js';
import { heightOf, operandOf, type PatchImages, type WarpgroupSizes } from '../matmul/warpgroup-tiles.js';
import type { GridKernel } from '../tiled.js';
import type { LastProblem } from './last-product.js';
import { PATCHES, patchOperand, patchResult } from './warpgroup-patch.js';
import { areEven, PHASES, phaseResult, tapResult } from './warpgroup-places.js';
import {
  type Geometry,
  imagesOf,
  type KernelTaps,
  TAPS,
  type Tap,
  type TapContext,
  tapsOf,
} from './warpgroup-taps.js';

/**
 * Few channels: where there is no padding beside the images, a row of taps meets neighbours in memory, and is one tap with the
 * channels of all of them. So it is copied as one, and a step along K has fewer zeros.
 */
export function joined<P extends Geometry>(p: P): P {
  const { inputs, kernel, size } = p;
  const channels = kernel[1] * inputs;
  const steps = (n: number): number => Math.ceil(n / depthOf(p.dtype));
  const isPadded = p.padding[1] !== 0 || p.dilation[1] !== 1;
  if (p.adjoint || p.groups > 1 || isPadded || steps(channels) >= kernel[1] * steps(inputs)) return p;
  return {
    ...{ ...p, inputs: channels, kernel: [kernel[0], 1], size: [size[0], size[1] - kernel[1] + 1] },
    apart: { row: size[1] * inputs, pixel: inputs },
  };
}

/** One tap that meets every pixel in its own place. */
const isPointwise = ({ apart, kernel, stride, padding }: Geometry): boolean =>
  apart === undefined && [...kernel, ...stride].every((n) => n === 1) && padding.every((n) => n === 0);

const pixelMap = (p: Geometry, { from, counts, steps }: KernelTaps, box: readonly [number, number]) => ({
  ...imagesOf(p),
  ...{ box, walk: { from, counts, steps } },
});

/** Whether warpgroups can do it. */
export function suitsConvolution(p: Geometry): boolean {
  const aligned = (n: number): boolean => (n * p.dtype.bytes) % 16 === 0;
  if (![p.inputs, p.imageOffset, p.secondOffset].every(aligned)) return false;
  if (!isCopied(p.output ?? p.dtype, p.outputs)) return false;
  const taps = tapsOf(p);
  const { sizes, walk } = pixelMap(p, taps, [1, 1]);
  return (
    walkFault({ sizes, strides: [], box: [], offset: 0, tf32: false, walk }) === undefined &&
    taps.steps.every((n) => n <= 8) &&
    taps.reach.every((n) => n < walkReach(2)) &&
    (taps.phases === 1 || asProduct(p, false).K <= LEVEL[operandOf(p.dtype)])
  );
}

// ── The pixels of images ─────────────────────────────────────────────────────────────────────────────────────────

interface PixelTiles extends OperandTiles {
  readonly taps: KernelTaps;
  /** Of the weight gradient: columns from a tap to the next. */
  readonly pitch: number;
}

/** Starts to copy pixels, rows of A, as the term's tap meets them: channels are along K. */
function loadPixels(
  to: Memory,
  from: Memory,
  { taps }: PixelTiles,
  { batch, term, along, k }: OperandStart,
  full: Memory,
  stage: number,
  context: TapContext,
): void {
  const { eachTap, groupOf, idiv, tmaLoad } = context;
  const { counts, problem, steps } = taps;
  const channel = groupOf(batch, taps) * problem.inputs + k;
  const image = idiv(along, counts[0] * counts[1]);
  const row = taps.from[0] + (idiv(along, counts[1]) % counts[0]) * steps[0];
  const column = taps.from[1] + (along % counts[1]) * steps[1];
  const copy = ({ down, across }: Tap) =>
    tmaLoad(to, stage, 0, 0, 0, from, image, row, column, channel, down, across, full, stage);
  eachTap(batch, term, taps, copy, context);
}

/** Starts to copy pixels along K, as the taps of B's columns meet them. */
function loadTaps(
  to: Memory,
  from: Memory,
  { apart, boxes, pitch, taps }: PixelTiles,
  { batch, along, k }: OperandStart,
  full: Memory,
  stage: number,
  { groupOf, idiv, tmaLoad, work }: TapContext,
): void {
  const { counts, problem, steps } = taps;
  const { kernel, dilation, inputs } = problem;
  const image = idiv(k, counts[0] * counts[1]);
  const row = taps.from[0] + (idiv(k, counts[1]) % counts[0]) * steps[0];
  const column = taps.from[1] + (k % counts[1]) * steps[1];
  for (let i = 0; i < boxes; i++) {
    // Columns beyond the last tap are not stored.
    const tap = Math.min(idiv(along + i * work.depth, pitch), kernel[0] * kernel[1] - 1);
    const channel = groupOf(batch, taps) * inputs + ((along + i * work.depth) % pitch);
    const down = idiv(tap, kernel[1]) * dilation[0];
    const across = (tap % kernel[1]) * dilation[1];
    const panel = i * apart[0];
    tmaLoad(to, stage, panel, i * apart[1], 0, from, image, row, column, channel, down, across, full, stage);
  }
}

/** Pixels with these channels of each group as matrices: pixels are rows, or along K. */
function pixelMatrix(rows: boolean, groups: number, channels: number, offset: number): OperandLayout {
  const [rowStride, columnStride] = rows ? [groups * channels, 1] : [1, groups * channels];
  return { offset, batch: [groups], batchStrides: [channels], rowStride, columnStride };
}

/** The pixels of the first source as the taps meet them: along the rows of a tile, or along K. */
function pixelOperand(
  p: LastProblem,
  taps: KernelTaps,
  k: boolean,
  along: number,
  pitch = 0,
): WarpgroupOperand {
  const { dtype, groups, inputs } = p;
  if (isPointwise(p)) {
    const pixels = p.images * p.size[0] * p.size[1];
    const [size, inner] = k ? [pixels, inputs] : [inputs, pixels];
    return matrixOperand(pixelMatrix(k, groups, inputs, p.imageOffset), { size, inner, along, dtype });
  }
  const tiles: PixelTiles = { ...tilesOf(k, along, dtype), taps, pitch };
  const schema = tensorMap(dtype, pixelMap(p, taps, [tiles.box, depthOf(dtype)]));
  return { schema, tiles, load: k ? loadPixels : loadTaps };
}

// ── The weights ──────────────────────────────────────────────────────────────────────────────────────────────────

interface WeightTiles extends OperandTiles {
  readonly taps: KernelTaps;
  /** Whether outputs come as quads. */
  readonly quads: boolean;
}

/** Starts to copy the weights of the term's tap, (tap, group, row, column). */
function loadWeights(
  to: Memory,
  from: Memory,
  { k: alongK, panels, quads, taps }: WeightTiles,
  { batch, term, along, k }: OperandStart,
  full: Memory,
  stage: number,
  context: TapContext,
): void {
  const { eachTap, groupOf, loadQuads, tmaLoad, work } = context;
  const group = groupOf(batch, taps);
  const copy = ({ number }: Tap) => {
    // Behind the channels of a tap lie those of the next: beside them pixels have zeros.
    if (quads) loadQuads(to, from, along, number * taps.problem.inputs + k, full, stage, context);
    else if (alongK) tmaLoad(to, stage, 0, 0, 0, from, number, group, along, k, full, stage);
    else
      for (let i = 0; i < panels; i++)
        tmaLoad(to, stage, i, 0, 0, from, number, group, k, along + i * work.depth, full, stage);
  };
  eachTap(batch, term, taps, copy, context);
}

/**
 * The weights (group, O, kH, kW, C), along K. Of an input gradient they lie across it; in f32, which wgmma takes along K only, they
 * come as (group, C, kH, kW, O).
 */
function weightOperand(p: LastProblem, taps: KernelTaps, tile: WarpgroupTile): WarpgroupOperand {
  const { dtype, groups, inputs, outputs, kernel, adjoint } = p;
  const along = tile.columns;
  const k = !adjoint || dtype === f32;
  const [rows, columns] = k ? [outputs, inputs] : [inputs, outputs];
  const count = kernel[0] * kernel[1];
  // Beside the channels of a group pixels have those of the next.
  const quads = groups === 1 && asQuads(dtype, p.output ?? dtype, tile);
  const tiles: WeightTiles = { ...tilesOf(k, along, dtype), taps, quads };
  const pitch = count * columns;
  if (quads) {
    const all = { size: rows, inner: pitch, pitch, offset: p.secondOffset };
    return { schema: quadMap(dtype, all, along), tiles, quads, load: loadWeights };
  }
  const schema = tensorMap(dtype, {
    sizes: [count, groups, rows, columns],
    strides: [columns, rows * pitch, pitch, 1],
    box: [1, 1, tiles.box, depthOf(dtype)],
    offset: p.secondOffset,
    tf32: dtype === f32,
  });
  return { schema, tiles, load: loadWeights };
}

// ── The kernels ──────────────────────────────────────────────────────────────────────────────────────────────────

/** As matrix products, whose launch rule is asked for tiles: one for each group. A phase has its share of the taps. */
export function asProduct(p: Geometry, weight: boolean): WarpgroupSizes {
  const { dtype } = p;
  const pixels = p.images * p.outSize[0] * p.outSize[1];
  const depth = depthOf(dtype);
  const rounded = (n: number): number => Math.ceil(n / depth) * depth;
  const count = p.kernel[0] * p.kernel[1];
  const ofImages = p.images * p.size[0] * p.size[1] * p.inputs;
  const others = p.outputs * (weight ? pixels : count * p.inputs);
  const bytes = p.groups * (ofImages + others) * dtype.bytes;
  if (weight) {
    const sizes = { batches: p.groups, M: p.outputs, N: count * rounded(p.inputs), K: pixels };
    return { ...sizes, dtype, bytes, turned: { a: dtype === f32, b: dtype === f32 } };
  }
  const taps = tapsOf(p);
  const { counts, phases } = taps;
  const K = Math.ceil(count / phases) * rounded(p.inputs);
  const batches = phases * p.groups;
  const sizes = { batches, M: p.images * counts[0] * counts[1], N: p.outputs, K };
  // Blocks do not share the sums of phases, nor of groups.
  return {
    ...sizes,
    ...{ dtype, bytes },
    whole: batches > 1,
    beside: areEven(p, taps) ? p.beside : 0,
    sums: phases === 1 ? p.sums : undefined,
    turned: { a: false, b: false },
    images: patchImages(p),
  };
}

/** What patches are cut from, if columns of the kernel have several taps, and the pixels that these meet lie below each other. */
function patchImages({
  dilation,
  dtype,
  images,
  inputs,
  kernel,
  outSize,
  stride,
}: Geometry): PatchImages | undefined {
  const [taps] = kernel;
  if (taps === 1 || stride.some((n) => n > 1)) return undefined;
  const filled = Math.min(1, inputs / depthOf(dtype));
  return { count: images, size: outSize, taps, dilation: dilation[0], filled };
}

/**
 * The convolution of x (N, H, W, C) with w (O, kH, kW, C), or with `adjoint` the input gradient from dY and w. If blocks share
 * sums, parts of it, (split, pixel, output).
 */
export function convolveWarpgroups(p: LastProblem, tile: WarpgroupTile, units: number): WarpgroupKernel {
  const taps = tapsOf(p);
  const { phases, vertical, horizontal } = taps;
  const sizes = asProduct(p, false);
  const { batches, N } = sizes;
  const M = heightOf(sizes, tile);
  const { groups } = p;
  const plain = tile.patch
    ? patchResult(p, tile, tile.patch)
    : matrixResult(tile.splits * groups, M, N, groups);
  const problem = {
    ...{ name: p.adjoint ? 'conv2dInputWarpgroups' : 'conv2dWarpgroups', batches, M, N, K: p.inputs },
    abreast: groups,
    terms: vertical.count.flatMap((down) => horizontal.count.map((across) => down * across)).reverse(),
    a: tile.patch ? patchOperand(p, taps, tile, tile.patch) : pixelOperand(p, taps, true, rowsOf(tile)),
    b: weightOperand(p, taps, tile),
    result: phases > 1 ? phaseResult(p, taps, tile) : plain,
    output: p.output,
    finish: p.finish,
    sums: p.sums,
    functions: { ...TAPS, ...PATCHES, ...PHASES },
  };
  return byWarpgroups(problem, tile, p.dtype, units);
}

/** Whether a kernel stores the weight gradient itself: where blocks share no sums, and no tap has columns that are not its inputs. */
export const isWholeGradient = ({ inputs, dtype }: LastProblem, { splits }: WarpgroupTile): boolean =>
  splits === 1 && inputs % depthOf(dtype) === 0;

/** The weight gradient (output, tap, input) from x and dY, or unless it is whole its parts, (split, output, tap, input). */
export function convolveWeightWarpgroups(p: LastProblem, tile: WarpgroupTile, units: number): GridKernel {
  const { dtype, groups, outputs, secondOffset } = p;
  const { batches, M, N, K } = asProduct(p, true);
  const pitch = N / (p.kernel[0] * p.kernel[1]);
  const layout = pixelMatrix(false, groups, outputs, secondOffset);
  const problem = {
    ...{ name: 'conv2dWeightWarpgroups', batches, M, N, K, terms: [1] },
    parts: !isWholeGradient(p, tile),
    a: matrixOperand(layout, { size: M, inner: K, along: rowsOf(tile), dtype }),
    b: pixelOperand(p, tapsOf(p), false, tile.columns, pitch),
    result: tapResult(p, tile.splits, pitch),
    output: p.output,
    finish: p.finish,
    functions: TAPS,
  };
  return byWarpgroups(problem, tile, dtype, units);
}
