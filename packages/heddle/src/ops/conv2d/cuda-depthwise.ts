/**
 * Convolution of each channel by itself (depthwise, MobileNet's) on a GPU, and its gradients. There is nothing to multiply
 * as matrices: all is bound by memory, and by how few instructions a multiply-add takes besides itself.
 *
 * A thread has a patch of results in registers, some rows × columns of one plane (image, channel). It goes down the lines
 * of the source under the patch and reads each once, up to 16 bytes at a time. What it has read meets every tap of every
 * result that it belongs to, without a test: which these are is known when the kernel is compiled (depthwise-patch.ts).
 * Neighbouring threads have neighbouring patches, so that the pixels that two of them read come from memory once, and
 * from the cache of the multiprocessor after that. Of a strided input gradient the patch begins at a multiple of the
 * stride, which makes the taps of each result known there, too: nothing is multiplied by zeros in between.
 *
 * For the weight gradient a block has a channel and a share of its patches; a thread has the sums of all taps in
 * registers, the threads' sums become one, and another launch adds those of the blocks (addParts).
 */
import { f32 } from '../../core/dtype.js';
import { GPU } from '../../kernel/ir/target.js';
import { buffer } from '../../kernel/ir/types.js';
import { asCast, defineKernel } from '../../kernel/language/language.js';
import { loadLanes, storeLanes } from '../lanes.js';
import type { GridKernel } from '../tiled.js';
import { meetingsByResult, meetingsOf, type Patch, patchOf, readLine } from './depthwise-patch.js';
import type { Convolution, ConvolveProblem, WeightGradientProblem } from './problem.js';

/** Threads of a block. */
export const THREADS = 128;

/** Whether the outputs of a group have one input channel: each channel has filters of its own, one or several. */
export const isDepthwise = ({ inputs, outputs, groups, adjoint }: Convolution): boolean =>
  groups > 1 && (adjoint ? outputs : inputs) === 1;

/** Each channel convolved by its own weights; of an input gradient, the sum over the filters of the channel. */
export function convolveDepthwise(p: ConvolveProblem, patch: Patch): GridKernel {
  const layout = patchOf(p, patch);
  const items = p.images * p.groups * p.outputs * layout.perPlane;
  const kernel = defineKernel(
    p.adjoint ? 'conv2dInputDepthwise' : 'conv2dDepthwise',
    { x: buffer(p.dtype), w: buffer(p.dtype), y: buffer(p.dtype) },
    ({ x, w, y }, context) => {
      const { globalId, idiv, f32, local, fma, vec2, vec4, problem, layout, items } = context;
      const { element, finish, meetings, readLine, storeLanes } = context;
      const { groups, inputs, outputs, kernel, size, outSize, adjoint, imageOffset, weightOffset } = problem;
      const { patch, rows, columns, lanes } = layout;
      const i = globalId.x;
      if (i >= items) return;
      const across = i % columns.patches;
      const down = idiv(i, columns.patches) % rows.patches;
      const plane = idiv(i, layout.perPlane);
      const channel = plane % (groups * outputs);
      const group = idiv(channel, outputs);
      const image = idiv(plane, groups * outputs);

      const sums = local(f32, patch.rows, patch.columns);
      for (let r = 0; r < patch.rows; r++) for (let c = 0; c < patch.columns; c++) sums[r][c] = f32(0);
      for (let piece = 0; piece < inputs * layout.pieces; piece++) {
        const input = idiv(piece, layout.pieces);
        const pieceRow = idiv(piece, columns.pieces) % rows.pieces;
        const pieceColumn = piece % columns.pieces;
        const filter = weightOffset + (adjoint ? group * inputs + input : channel) * layout.allTaps;
        const factors = local(f32, layout.taps);
        for (let t = 0; t < layout.taps; t++) {
          const tapRow = pieceRow * rows.taps + idiv(t, columns.taps);
          const tapColumn = pieceColumn * columns.taps + (t % columns.taps);
          const there = (rows.whole || tapRow < kernel[0]) && (columns.whole || tapColumn < kernel[1]);
          factors[t] = there ? f32(w[filter + tapRow * kernel[1] + tapColumn]) : f32(0);
        }
        const from = imageOffset + ((image * groups + group) * inputs + input) * (size[0] * size[1]);
        const top = down * rows.patchShift + pieceRow * rows.pieceShift;
        const left = across * columns.patchShift + pieceColumn * columns.pieceShift;
        const values = local(f32, columns.lines.length);
        for (let v = 0; v < rows.lines.length; v++) {
          readLine(x, from, top, left, v, values, context);
          for (let r = 0; r < patch.rows; r++)
            if (rows.lines[v]!.taps[r]! >= 0)
              for (let n = 0; n < meetings.length; n++) {
                const { line, result, tap } = meetings[n]!;
                const t = rows.lines[v]!.taps[r]! * columns.taps + tap;
                sums[r][result] = fma(values[line], factors[t], sums[r][result]);
              }
        }
      }

      for (let r = 0; r < patch.rows; r++) {
        const row = down * patch.rows + r;
        for (let c = 0; c < patch.columns; c += lanes) {
          const column = across * patch.columns + c;
          if (row < outSize[0] && column < outSize[1]) {
            const sum =
              lanes === 4
                ? vec4(sums[r][c], sums[r][c + 1], sums[r][c + 2], sums[r][c + 3])
                : lanes === 2
                  ? vec2(sums[r][c], sums[r][c + 1])
                  : sums[r][c];
            const to = (plane * outSize[0] + row) * outSize[1] + column;
            storeLanes(y, to, finish(element(sum), image, channel, row, column), lanes, context);
          }
        }
      }
    },
    {
      ...{ problem: p, finish: p.finish, element: asCast(p.dtype), layout, items },
      ...{ meetings: meetingsOf(layout.columns), readLine, loadLanes, storeLanes },
    },
  );
  return { kernel, grid: [Math.ceil(items / THREADS), 1, 1], threads: THREADS, sharedBytes: 0 };
}

/** How the weight gradient is cut: the patch of a thread, and the blocks that share the sum of a channel. */
export interface WeightPatch extends Patch {
  readonly parts: number;
}

/** Patches of a channel, in rounds of a block. */
export const roundsOf = (p: WeightGradientProblem, patch: Patch): number =>
  Math.ceil((p.images * patchOf(p, patch).perPlane) / THREADS);

/** Parts of the weight gradient of each channel: (part, channel, tap). */
export function convolveWeightDepthwise(
  p: WeightGradientProblem,
  { parts, ...patch }: WeightPatch,
): GridKernel {
  const layout = patchOf(p, patch, p.gradientOffset);
  const kernel = defineKernel(
    'conv2dWeightDepthwise',
    { x: buffer(p.dtype), dy: buffer(p.dtype), parts: buffer(f32) },
    ({ x, dy, parts }, context) => {
      const { blockIdx, threadIdx, laneId, warpId, warpSum, shared, barrier, THREADS, WARP } = context;
      const { idiv, f32, local, fma, lane, splat2, splat4, problem, layout, items, share } = context;
      const { meetings, readLine, loadLanes } = context;
      const { groups, outputs, kernel, size, outSize, imageOffset, gradientOffset } = problem;
      const { patch, rows, columns, lanes, taps } = layout;
      const channel = blockIdx.y;
      const pieceRow = idiv(blockIdx.z, columns.pieces);
      const pieceColumn = blockIdx.z % columns.pieces;
      const sums = local(f32, taps);
      for (let t = 0; t < taps; t++) sums[t] = f32(0);
      const end = Math.min(items, (blockIdx.x + 1) * share);
      for (let i = blockIdx.x * share + threadIdx.x; i < end; i += THREADS) {
        const across = i % columns.patches;
        const down = idiv(i, columns.patches) % rows.patches;
        const image = idiv(i, layout.perPlane);
        const plane = image * (groups * outputs) + channel;
        const slopes = local(f32, patch.rows, patch.columns);
        for (let r = 0; r < patch.rows; r++) {
          const row = down * patch.rows + r;
          for (let c = 0; c < patch.columns; c += lanes) {
            const column = across * patch.columns + c;
            const at = gradientOffset + (plane * outSize[0] + row) * outSize[1] + column;
            const there =
              (outSize[0] % patch.rows === 0 || row < outSize[0]) &&
              (outSize[1] % patch.columns === 0 || column < outSize[1]);
            const none = lanes === 4 ? splat4(f32(0)) : lanes === 2 ? splat2(f32(0)) : f32(0);
            const read = there ? f32(loadLanes(dy, at, lanes, context)) : none;
            for (let l = 0; l < lanes; l++) slopes[r][c + l] = lanes === 1 ? read : lane(read, l);
          }
        }
        const from = imageOffset + (image * groups + idiv(channel, outputs)) * (size[0] * size[1]);
        const top = down * rows.patchShift + pieceRow * rows.pieceShift;
        const left = across * columns.patchShift + pieceColumn * columns.pieceShift;
        const values = local(f32, columns.lines.length);
        for (let v = 0; v < rows.lines.length; v++) {
          readLine(x, from, top, left, v, values, context);
          for (let r = 0; r < patch.rows; r++)
            if (rows.lines[v]!.taps[r]! >= 0)
              for (let n = 0; n < meetings.length; n++) {
                const { line, result, tap } = meetings[n]!;
                const t = rows.lines[v]!.taps[r]! * columns.taps + tap;
                sums[t] = fma(values[line], slopes[r][result], sums[t]);
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
        const tapRow = pieceRow * rows.taps + idiv(threadIdx.x, columns.taps);
        const tapColumn = pieceColumn * columns.taps + (threadIdx.x % columns.taps);
        const tap = tapRow * kernel[1] + tapColumn;
        if (tapRow < kernel[0] && tapColumn < kernel[1])
          parts[(blockIdx.x * (groups * outputs) + channel) * layout.allTaps + tap] = sum;
      }
    },
    {
      ...{ problem: p, layout, items: p.images * layout.perPlane, THREADS, WARP: GPU.warp },
      ...{
        share: Math.ceil(roundsOf(p, patch) / parts) * THREADS,
        meetings: meetingsByResult(layout.columns),
      },
      ...{ readLine, loadLanes },
    },
  );
  return {
    kernel,
    grid: [parts, p.groups * p.outputs, layout.pieces],
    threads: THREADS,
    sharedBytes: 0,
  };
}
