/**
 * Convolution of each channel by itself (depthwise) with channels last, x (N, H, W, C), w (O, kH, kW, 1) and y (N, outH, outW,
 * O), and its gradients. As in cuda-depthwise.ts a thread goes down the lines of the source under a patch of results, by
 * the same tables. Here it has that patch of several channels that lie side by side, and neighbouring threads have the
 * channels after those: whatever the patch and the stride, a warp reads and writes whole lines of memory.
 *
 * A block has some of the channels and, one after the other in memory, some patches: what two patches read comes from the
 * cache of the multiprocessor the second time. The next lines are on their way while one is multiplied, and a row of results is
 * stored with the last line that it meets, so that few of them are in registers. The weights come by way of shared memory,
 * where those of a tap lie side by side.
 *
 * For the weight gradient the threads of a block have the sums of all taps in registers; those of the same channels become
 * one, and another launch adds the blocks' (addParts).
 */
import { f32 } from '../../core/dtype.js';
import { type IrFunction, irFunction } from '../../kernel/ir/ir-function.js';
import { GPU } from '../../kernel/ir/target.js';
import { buffer } from '../../kernel/ir/types.js';
import { asCast, defineKernel, type Intrinsics, type Memory } from '../../kernel/language/language.js';
import { finishEarly } from '../../kernel/passes/finish-early.js';
import { type Lanes, loadLanes, localLanes, splatLanes, storeLanes } from '../lanes.js';
import type { GridKernel } from '../tiled.js';
import { meetingsByResult, meetingsOf, type Patch, type PatchSides, sidesOf } from './depthwise-patch.js';
import type { Convolution } from './problem.js';

/** What is convolved. A group has one channel of x. */
export interface LastDepthwise extends Convolution {
  /** Where the second source begins, in elements. */
  readonly secondOffset: number;
  /** (value, image, row, column, channel) → the value to store; of the weight gradient as in WeightGradientProblem. */
  readonly finish: IrFunction;
}

/** What a thread computes: a patch of so many neighbouring channels. */
export interface LastPatch extends Patch {
  readonly lanes: Lanes;
  /** Threads of a block, about. */
  readonly threads: number;
  /** Lines of values that are on their way while one is multiplied. */
  readonly ahead: number;
}

/** With the blocks that share the sum of a channel. */
export interface LastWeightPatch extends LastPatch {
  readonly parts: number;
}

/** Channels of the result of `convolve`, or of dY. */
const channelsOf = ({ groups, outputs }: Convolution): number => groups * outputs;

/** Bytes of a sector, the least that memory writes. */
const SECTOR = 32;

/** How patches and channels are spread over blocks. */
export function lastLayout(
  p: LastDepthwise,
  { lanes, threads, ahead, ...patch }: LastPatch,
  isWeight: boolean,
  sides: PatchSides = sidesOf(p, patch),
) {
  const channels = channelsOf(p);
  const shares = Math.ceil(channels / lanes);
  const chunks = Math.ceil(shares / GPU.warp);
  /** Threads that store to one sector: those of two blocks would each write it in part, which takes longer. */
  const together = chunks === 1 || isWeight ? 1 : Math.max(1, SECTOR / (lanes * p.dtype.bytes));
  /** Threads side by side along the channels: a warp, or all channels in pieces about equal. */
  const across = together * Math.ceil(shares / chunks / together);
  const down = Math.max(1, Math.floor(threads / across));
  return {
    ...sides,
    lanes,
    ahead,
    channels,
    chunks,
    across,
    down,
    threads: across * down,
    /** Patches of a channel. */
    items: p.images * sides.perPlane,
    /** Channels of a block. */
    width: across * lanes,
  };
}

export type LastLayout = ReturnType<typeof lastLayout>;

/** Weights of a tap are so far from those of the next in shared memory that threads meet no bank twice. */
const GAP = 4;

/** What the device functions below find in the context. */
interface LastContext extends Intrinsics {
  readonly problem: LastDepthwise;
  readonly layout: LastLayout;
  readonly loadLanes: typeof loadLanes;
  readonly splatLanes: typeof splatLanes;
}

/**
 * Reads line `line` under the patch whose source begins at row `top` and column `left` of the image from `x[from]` on, whose
 * pixels are `pitch` apart, into `values[to]`; 0 around the image. For use in kernels.
 */
function readLastLine(
  x: Memory,
  from: number,
  pitch: number,
  top: number,
  left: number,
  line: number,
  values: Memory,
  to: number,
  context: LastContext,
): void {
  const { problem, layout, f32, loadLanes, splatLanes } = context;
  const { rows, columns, lanes } = layout;
  const { size } = problem;
  const v = top + rows.lines[line]!.at;
  const inside = (!rows.lines[line]!.before || v >= 0) && (!rows.lines[line]!.beyond || v < size[0]);
  const start = from + v * (size[1] * pitch);
  for (let k = 0; k < columns.lines.length; k++) {
    const u = left + columns.lines[k]!.at;
    const there =
      inside && (!columns.lines[k]!.before || u >= 0) && (!columns.lines[k]!.beyond || u < size[1]);
    values[to][k] = there
      ? f32(loadLanes(x, start + u * pitch, lanes, context))
      : splatLanes(f32(0), lanes, context);
  }
}

/** Weights that a thread has on their way at once, at most. */
const WEIGHTS = 8;

/** How the threads of a block read its weights: `beside` of them the taps of a channel, `down` channels at a time. */
function weightReaders({ taps, width, threads }: LastLayout) {
  const down = Math.max(1, Math.floor(threads / taps));
  return { beside: Math.min(taps, threads), down, each: Math.min(WEIGHTS, Math.ceil(width / down)) };
}

/** What `holdFactors` finds in the context. */
interface FactorContext extends LastContext {
  readonly PITCH: number;
  readonly readers: ReturnType<typeof weightReaders>;
}

/**
 * Copies the weights of a block's channels in a piece of taps to shared memory, those of a tap side by side. A thread has its tap of
 * several channels on their way before it stores the first: it waits for memory once for all of them. For use in kernels.
 */
function holdFactors(
  w: Memory,
  held: Memory,
  firstChannel: number,
  input: number,
  pieceRow: number,
  pieceColumn: number,
  { problem, layout, readers, PITCH, threadIdx, idiv, f32, local }: FactorContext,
): void {
  const { rows, columns, taps, chunks, channels, width } = layout;
  const { kernel, adjoint, inputs, secondOffset } = problem;
  const { beside, down, each } = readers;
  const read = local(f32, each);
  // Whether a channel is the block's: all are that end within it, which the compiler sees.
  const isIn = (first: number, member: number) => first + down <= width || first + member < width;
  const member = idiv(threadIdx.x, beside);
  for (let first = 0; first < taps; first += beside) {
    const t = first + (threadIdx.x % beside);
    const tapRow = pieceRow * rows.taps + idiv(t, columns.taps);
    const tapColumn = pieceColumn * columns.taps + (t % columns.taps);
    const isTap = (rows.whole || tapRow < kernel[0]) && (columns.whole || tapColumn < kernel[1]);
    if (member < down && t < taps)
      for (let from = 0; from < width; from += each * down) {
        for (let n = 0; n < each; n++) {
          const of = from + member + n * down;
          const filter = adjoint ? (firstChannel + of) * inputs + input : firstChannel + of;
          const there =
            isTap &&
            isIn(from + n * down, member) &&
            (chunks * width === channels || firstChannel + of < channels);
          const at = secondOffset + filter * layout.allTaps + tapRow * kernel[1] + tapColumn;
          read[n] = there ? f32(w[at]) : f32(0);
        }
        for (let n = 0; n < each; n++) {
          const of = from + member + n * down;
          if (isIn(from + n * down, member)) held[t * PITCH + of] = read[n];
        }
      }
  }
}

/** Of each row of the patch, how many before it end with the same line. */
const numbersOf = ({ rows: { ends } }: LastLayout): number[] =>
  ends.map((end, r) => ends.slice(0, r).filter((other) => other === end).length);

/**
 * The epilogue of some rows of results at once, from their numbers, values and places with the channel first: what it loads for
 * each result, what it loads for all of a row together, and the rest.
 */
function finishRows(original: IrFunction, results: number) {
  const byColumns = irFunction(([value, channel, ...place], ...into) =>
    original.build([value!, ...place, channel!], ...into),
  );
  const each = finishEarly(byColumns, results);
  const { early: together, finish } = finishEarly(each.finish, undefined, 2);
  return { early: each.early, together, finish };
}

/** Each channel convolved by its own weights; of an input gradient, the sum over the filters of the channel. */
export function convolveDepthwiseLast(p: LastDepthwise, patch: LastPatch): GridKernel {
  const layout = lastLayout(p, patch, false);
  const rounds = p.inputs * layout.pieces;
  const numbers = numbersOf(layout);
  const kernel = defineKernel(
    p.adjoint ? 'conv2dInputDepthwiseLast' : 'conv2dDepthwiseLast',
    { x: buffer(p.dtype), w: buffer(p.dtype), y: buffer(p.dtype) },
    ({ x, w, y }, context) => {
      const { blockIdx, threadIdx, idiv, f32, local, local2, local4, shared, barrier, fma } = context;
      const { problem, layout, meetings, rounds, PITCH, element } = context;
      const { early, together, finish, numbers } = context;
      const { holdFactors, readLastLine, loadLanes, localLanes, splatLanes, storeLanes } = context;
      const { groups, inputs, outputs, size, outSize, imageOffset } = problem;
      const { patch, rows, columns, lanes, ahead, taps, channels, width, items } = layout;
      const firstChannel = (blockIdx.x % layout.chunks) * width;
      const own = (threadIdx.x % layout.across) * lanes;
      const channel = Math.min(firstChannel + own, channels - lanes);
      const item = idiv(blockIdx.x, layout.chunks) * layout.down + idiv(threadIdx.x, layout.across);
      const isOwn = item < items && firstChannel + own < channels;
      const i = Math.min(item, items - 1);
      const across = i % columns.patches;
      const down = idiv(i, columns.patches) % rows.patches;
      const image = idiv(i, layout.perPlane);

      const held = shared(f32, taps * PITCH);
      const sums = localLanes(f32, patch.rows, patch.columns, lanes, context);
      const factors = lanes === 4 ? local4(f32, taps) : lanes === 2 ? local2(f32, taps) : local(f32, taps);
      const values = localLanes(f32, ahead + 1, columns.lines.length, lanes, context);
      for (let r = 0; r < patch.rows; r++)
        for (let c = 0; c < patch.columns; c++) sums[r][c] = splatLanes(f32(0), lanes, context);
      const none = element(splatLanes(f32(0), lanes, context));
      const isRow = (row: number) => outSize[0] % patch.rows === 0 || row < outSize[0];
      const isColumn = (column: number) => outSize[1] % patch.columns === 0 || column < outSize[1];
      // What the epilogue takes for the results of a row; for those beyond the edge, what it takes for the last.
      const loadRow = (r: number) => {
        const row = down * patch.rows + r;
        for (let c = 0; c < patch.columns; c++) {
          const column = across * patch.columns + c;
          const v = isRow(row) ? row : outSize[0] - 1;
          const u = isColumn(column) ? column : outSize[1] - 1;
          early(numbers[r]! * patch.columns + c, none, channel, image, v, u);
        }
      };
      const storeRow = (r: number) => {
        const row = down * patch.rows + r;
        together(0, none, channel, image, isRow(row) ? row : outSize[0] - 1, 0);
        for (let c = 0; c < patch.columns; c++) {
          const column = across * patch.columns + c;
          const number = numbers[r]! * patch.columns + c;
          const to = ((image * outSize[0] + row) * outSize[1] + column) * channels + channel;
          if (isRow(row) && isColumn(column))
            storeLanes(
              y,
              to,
              finish(number, element(sums[r][c]), channel, image, row, column),
              lanes,
              context,
            );
        }
      };

      for (let round = 0; round < rounds; round++) {
        const input = idiv(round, layout.pieces);
        const pieceRow = idiv(round, columns.pieces) % rows.pieces;
        const pieceColumn = round % columns.pieces;
        const source = outputs === 1 ? channel * inputs + input : idiv(channel, outputs);
        const from = imageOffset + image * (size[0] * size[1] * groups * inputs) + source;
        const top = down * rows.patchShift + pieceRow * rows.pieceShift;
        const left = across * columns.patchShift + pieceColumn * columns.pieceShift;
        for (let v = 0; v < ahead; v++)
          if (v < rows.lines.length) readLastLine(x, from, groups * inputs, top, left, v, values, v, context);
        if (round > 0) barrier();
        holdFactors(w, held, firstChannel, input, pieceRow, pieceColumn, context);
        barrier();
        if (isOwn) {
          for (let t = 0; t < taps; t++) factors[t] = loadLanes(held, t * PITCH + own, lanes, context);
          for (let v = 0; v < rows.lines.length; v++) {
            const met = rows.lines[v]!.taps;
            const next = v + ahead;
            if (next < rows.lines.length)
              readLastLine(x, from, groups * inputs, top, left, next, values, next % (ahead + 1), context);
            if (rounds === 1) for (let r = 0; r < patch.rows; r++) if (rows.ends[r] === v) loadRow(r);
            for (let r = 0; r < patch.rows; r++) {
              if (met[r]! >= 0)
                for (let n = 0; n < meetings.length; n++) {
                  const { line, result, tap } = meetings[n]!;
                  const t = met[r]! * columns.taps + tap;
                  sums[r][result] = fma(values[v % (ahead + 1)][line], factors[t], sums[r][result]);
                }
              if (rounds === 1 && rows.ends[r] === v) storeRow(r);
            }
          }
        }
      }
      if (rounds > 1 && isOwn)
        for (let r = 0; r < patch.rows; r++) {
          loadRow(r);
          storeRow(r);
        }
    },
    {
      ...{
        problem: p,
        element: asCast(p.dtype),
        layout,
        meetings: meetingsOf(layout.columns),
        rounds,
        numbers,
      },
      ...finishRows(p.finish, (Math.max(...numbers) + 1) * patch.columns),
      ...{
        PITCH: layout.width + GAP,
        readers: weightReaders(layout),
      },
      ...{ holdFactors, readLastLine, loadLanes, localLanes, splatLanes, storeLanes },
    },
  );
  const blocks = layout.chunks * Math.ceil(layout.items / layout.down);
  return { kernel, grid: [blocks, 1, 1], threads: layout.threads, sharedBytes: 0 };
}

/** Bytes of shared memory in which a block adds up the sums of some taps at a time. */
const SUMS = GPU.freeSharedBytes / 2;

/** Taps whose sums of all threads of a block are in shared memory at once. */
export const tapsAtOnce = ({ taps, down, width }: LastLayout): number =>
  Math.max(1, Math.min(taps, Math.floor(SUMS / (4 * down * (width + GAP)))));

/** Parts of the weight gradient of each channel: (part, channel, tap). */
export function convolveWeightDepthwiseLast(
  p: LastDepthwise,
  { parts, ...patch }: LastWeightPatch,
): GridKernel {
  const layout = lastLayout(p, patch, true);
  const kernel = defineKernel(
    'conv2dWeightDepthwiseLast',
    { x: buffer(p.dtype), dy: buffer(p.dtype), parts: buffer(f32) },
    ({ x, dy, parts }, context) => {
      const { blockIdx, threadIdx, idiv, f32, local, local2, local4, shared, barrier, fma } = context;
      const { problem, layout, meetings, share, TOGETHER, PITCH } = context;
      const { readLastLine, loadLanes, localLanes, splatLanes, storeLanes } = context;
      const { groups, outputs, kernel, size, outSize, imageOffset, secondOffset } = problem;
      const { patch, rows, columns, lanes, ahead, taps, channels, width, items, threads } = layout;
      const firstChannel = blockIdx.y * width;
      const own = (threadIdx.x % layout.across) * lanes;
      const channel = Math.min(firstChannel + own, channels - lanes);
      const member = idiv(threadIdx.x, layout.across);
      const pieceRow = idiv(blockIdx.z, columns.pieces);
      const pieceColumn = blockIdx.z % columns.pieces;
      const sums = lanes === 4 ? local4(f32, taps) : lanes === 2 ? local2(f32, taps) : local(f32, taps);
      const slopes = localLanes(f32, patch.rows, patch.columns, lanes, context);
      const values = localLanes(f32, ahead + 1, columns.lines.length, lanes, context);
      for (let t = 0; t < taps; t++) sums[t] = splatLanes(f32(0), lanes, context);

      const end = Math.min(items, (blockIdx.x + 1) * share);
      for (let i = blockIdx.x * share + member; i < end; i += layout.down) {
        const across = i % columns.patches;
        const down = idiv(i, columns.patches) % rows.patches;
        const image = idiv(i, layout.perPlane);
        const from = imageOffset + image * (size[0] * size[1] * groups) + idiv(channel, outputs);
        const top = down * rows.patchShift + pieceRow * rows.pieceShift;
        const left = across * columns.patchShift + pieceColumn * columns.pieceShift;
        // What line v needs that those before it did not.
        const fetch = (v: number) => {
          readLastLine(x, from, groups, top, left, v, values, v % (ahead + 1), context);
          for (let r = 0; r < patch.rows; r++)
            if (rows.starts[r] === v) {
              const row = down * patch.rows + r;
              for (let c = 0; c < patch.columns; c++) {
                const column = across * patch.columns + c;
                const there =
                  (outSize[0] % patch.rows === 0 || row < outSize[0]) &&
                  (outSize[1] % patch.columns === 0 || column < outSize[1]);
                const at = secondOffset + ((image * outSize[0] + row) * outSize[1] + column) * channels;
                slopes[r][c] = there
                  ? f32(loadLanes(dy, at + channel, lanes, context))
                  : splatLanes(f32(0), lanes, context);
              }
            }
        };
        for (let v = 0; v < ahead; v++) if (v < rows.lines.length) fetch(v);
        for (let v = 0; v < rows.lines.length; v++) {
          const met = rows.lines[v]!.taps;
          if (v + ahead < rows.lines.length) fetch(v + ahead);
          for (let r = 0; r < patch.rows; r++)
            if (met[r]! >= 0)
              for (let n = 0; n < meetings.length; n++) {
                const { line, result, tap } = meetings[n]!;
                const t = met[r]! * columns.taps + tap;
                sums[t] = fma(values[v % (ahead + 1)][line], slopes[r][result], sums[t]);
              }
        }
      }

      const held = shared(f32, layout.down * TOGETHER * PITCH);
      for (let first = 0; first < taps; first += TOGETHER) {
        if (first > 0) barrier();
        for (let t = 0; t < TOGETHER; t++)
          if (first + t < taps)
            storeLanes(held, (member * TOGETHER + t) * PITCH + own, sums[first + t], lanes, context);
        barrier();
        for (let k = threadIdx.x; k < width * TOGETHER; k += threads) {
          const t = k % TOGETHER;
          const of = firstChannel + idiv(k, TOGETHER);
          const tapRow = pieceRow * rows.taps + idiv(first + t, columns.taps);
          const tapColumn = pieceColumn * columns.taps + ((first + t) % columns.taps);
          if (of < channels && first + t < taps && tapRow < kernel[0] && tapColumn < kernel[1]) {
            let sum = f32(0);
            for (let m = 0; m < layout.down; m++) sum += held[(m * TOGETHER + t) * PITCH + idiv(k, TOGETHER)];
            const tap = tapRow * kernel[1] + tapColumn;
            parts[(blockIdx.x * channels + of) * layout.allTaps + tap] = sum;
          }
        }
      }
    },
    {
      ...{ problem: p, layout, meetings: meetingsByResult(layout.columns) },
      ...{ share: Math.ceil(layout.items / parts), TOGETHER: tapsAtOnce(layout) },
      ...{ PITCH: layout.width + GAP, readLastLine, loadLanes, localLanes, splatLanes, storeLanes },
    },
  );
  return {
    kernel,
    grid: [parts, layout.chunks, layout.pieces],
    threads: layout.threads,
    sharedBytes: 0,
  };
}
