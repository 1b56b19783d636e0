/**
 * Convolution of each channel by itself (MobileNet's, depthwise) on a GPU, and its gradients. There is nothing to multiply
 * as matrices: all is bound by memory. A thread has some rows of one column of a channel; it goes down the rows under
 * them, and what it reads serves all rows of the kernel. Neighbouring threads read neighbouring columns, which the cache
 * serves for the columns of the kernel.
 *
 * For the weight gradient a block has a channel and a share of its columns; its threads' sums become one, and another
 * launch adds those of the blocks (addParts).
 */
import { f32 } from '../../core/dtype.js';
import { GPU, type Target } from '../../kernel/ir/target.js';
import { buffer } from '../../kernel/ir/types.js';
import { defineKernel, type Intrinsics, type Memory } from '../../kernel/language/language.js';
import type { GridKernel } from '../tiled.js';
import { beforeOf } from './cuda-image.js';
import { storing } from './cuda-store.js';
import type { Convolution, ConvolveProblem, WeightGradientProblem } from './problem.js';

const THREADS = 256;
/** Rows of a thread, and taps whose products it can have in registers. */
const ROWS = 8;
const MOST_TAPS = 49;
/** Blocks of the weight gradient for each multiprocessor. */
const BLOCKS = 8;

/** Whether each channel is convolved by itself with few taps; of an input gradient, with stride 1. */
export const isDepthwise = ({ inputs, outputs, groups, kernel, stride, adjoint }: Convolution): boolean =>
  inputs === 1 &&
  outputs === 1 &&
  groups > 1 &&
  kernel[0] * kernel[1] <= MOST_TAPS &&
  (!adjoint || (stride[0] === 1 && stride[1] === 1));

/** How the pixels of a plane are shared out: rows of a thread, strips of so many rows, lines of the image under one. */
function stripsOf(p: Convolution) {
  const rows = Math.min(ROWS, p.outSize[0]);
  const step = p.adjoint ? ([1, 1] as const) : p.stride;
  return {
    rows,
    step,
    before: [beforeOf(p, 0), beforeOf(p, 1)] as const,
    strips: Math.ceil(p.outSize[0] / rows),
    span: (rows - 1) * step[0] + (p.kernel[0] - 1) * p.dilation[0] + 1,
    taps: p.kernel[0] * p.kernel[1],
  };
}

/** Which tap's row meets line `line` of those under a strip in its row `r`; none: −1. For use in kernels. */
function tapRow(
  line: number,
  r: number,
  {
    problem,
    step,
    idiv,
  }: Intrinsics & { readonly problem: Convolution; readonly step: readonly [number, number] },
): number {
  const { kernel, dilation } = problem;
  const below = line - r * step[0];
  const met = below >= 0 && below <= (kernel[0] - 1) * dilation[0] && below % dilation[0] === 0;
  return met ? idiv(below, dilation[0]) : -1;
}

/** What stands at row v and column u of the plane from `x[from]` on, 0 around it. For use in kernels. */
function pixelAt(
  x: Memory,
  from: number,
  v: number,
  u: number,
  { problem, f32 }: Intrinsics & { readonly problem: Convolution },
): number {
  const { size } = problem;
  const there = v >= 0 && v < size[0] && u >= 0 && u < size[1];
  return there ? f32(x[from + v * size[1] + u]) : f32(0);
}

/** Each channel convolved by its own weights. */
export function convolveDepthwise(p: ConvolveProblem): GridKernel {
  const strips = stripsOf(p);
  const items = p.images * p.groups * strips.strips * p.outSize[1];
  const kernel = defineKernel(
    p.adjoint ? 'conv2dInputDepthwise' : 'conv2dDepthwise',
    { x: buffer(p.dtype), w: buffer(p.dtype), y: buffer(p.dtype) },
    ({ x, w, y }, context) => {
      const { globalId, idiv, f32, local, fma, problem, items, rows, strips, span, taps, step } = context;
      const { before, tapRow, pixelAt, storePixel } = context;
      const { groups, kernel, dilation, size, outSize, adjoint, imageOffset, weightOffset } = problem;
      const i = globalId.x;
      if (i >= items) return;
      const column = i % outSize[1];
      const row = (idiv(i, outSize[1]) % strips) * rows;
      const plane = idiv(i, outSize[1] * strips);
      const channel = plane % groups;
      const from = imageOffset + plane * (size[0] * size[1]);
      const factors = local(f32, taps);
      for (let t = 0; t < taps; t++)
        factors[t] = f32(w[weightOffset + channel * taps + (adjoint ? taps - 1 - t : t)]);
      const sums = local(f32, rows);
      for (let r = 0; r < rows; r++) sums[r] = f32(0);
      for (let line = 0; line < span; line++) {
        for (let j = 0; j < kernel[1]; j++) {
          const v = row * step[0] - before[0] + line;
          const u = column * step[1] - before[1] + j * dilation[1];
          const value = pixelAt(x, from, v, u, context);
          for (let r = 0; r < rows; r++) {
            const tap = tapRow(line, r, context);
            if (tap >= 0) sums[r] = fma(value, factors[tap * kernel[1] + j], sums[r]);
          }
        }
      }
      for (let r = 0; r < rows; r++)
        if (row + r < outSize[0])
          storePixel(y, sums[r], idiv(plane, groups), channel, row + r, column, context);
    },
    { ...storing(p), ...strips, items, tapRow, pixelAt },
  );
  return { kernel, grid: [Math.ceil(items / THREADS), 1, 1], threads: THREADS, sharedBytes: 0 };
}

/** Blocks that share the sum of a channel. */
export const depthwiseParts = (p: WeightGradientProblem, { units }: Target): number => {
  const rounds = Math.ceil((p.images * stripsOf(p).strips * p.outSize[1]) / THREADS);
  return Math.min(rounds, Math.max(1, Math.ceil((BLOCKS * units) / p.groups)));
};

/** Parts of the weight gradient of each channel: (part, channel, tap). */
export function convolveWeightDepthwise(p: WeightGradientProblem, parts: number): GridKernel {
  const strips = stripsOf(p);
  const items = p.images * strips.strips * p.outSize[1];
  const share = Math.ceil(items / parts / THREADS) * THREADS;
  const kernel = defineKernel(
    'conv2dWeightDepthwise',
    { x: buffer(p.dtype), dy: buffer(p.dtype), parts: buffer(f32) },
    ({ x, dy, parts }, context) => {
      const { blockIdx, threadIdx, laneId, warpId, warpSum, shared, barrier, THREADS, WARP } = context;
      const { idiv, f32, local, fma, problem, items, share, rows, strips, span, taps, step } = context;
      const { before, tapRow, pixelAt } = context;
      const { groups, kernel, dilation, size, outSize, imageOffset, gradientOffset } = problem;
      const channel = blockIdx.y;
      const sums = local(f32, taps);
      for (let t = 0; t < taps; t++) sums[t] = f32(0);
      const end = Math.min(items, (blockIdx.x + 1) * share);
      for (let i = blockIdx.x * share + threadIdx.x; i < end; i += THREADS) {
        const column = i % outSize[1];
        const row = (idiv(i, outSize[1]) % strips) * rows;
        const plane = idiv(i, outSize[1] * strips) * groups + channel;
        const from = imageOffset + plane * (size[0] * size[1]);
        const to = gradientOffset + plane * (outSize[0] * outSize[1]) + row * outSize[1] + column;
        const slopes = local(f32, rows);
        for (let r = 0; r < rows; r++)
          slopes[r] = row + r < outSize[0] ? f32(dy[to + r * outSize[1]]) : f32(0);
        for (let line = 0; line < span; line++) {
          for (let j = 0; j < kernel[1]; j++) {
            const v = row * step[0] - before[0] + line;
            const u = column * step[1] - before[1] + j * dilation[1];
            const value = pixelAt(x, from, v, u, context);
            for (let r = 0; r < rows; r++) {
              const tap = tapRow(line, r, context);
              if (tap >= 0) sums[tap * kernel[1] + j] = fma(value, slopes[r], sums[tap * kernel[1] + j]);
            }
          }
        }
      }
      const held = shared(f32, idiv(THREADS, WARP), taps);
      for (let t = 0; t < taps; t++) {
        const sum = warpSum(sums[t]);
        if (laneId === 0) held[warpId][t] = sum;
      }
      barrier();
      if (threadIdx.x < taps) {
        let sum = f32(0);
        for (let warp = 0; warp < idiv(THREADS, WARP); warp++) sum += held[warp][threadIdx.x];
        parts[(blockIdx.x * groups + channel) * taps + threadIdx.x] = sum;
      }
    },
    { problem: p, ...strips, items, share, THREADS, WARP: GPU.warp, tapRow, pixelAt },
  );
  return { kernel, grid: [parts, p.groups, 1], threads: THREADS, sharedBytes: 0 };
}
