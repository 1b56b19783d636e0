/**
 * Convolution of 16-bit floats, or of bytes, with channels last, x (N, H, W, C) and w (O, kH, kW, C), as an implicit matrix
 * product on tensor cores, and its two gradients. What a tensor core multiplies lies side by side in memory then: copies are 16
 * bytes of 8 channels each, with nothing to decide but whether their pixel is inside, and fragments are read by ldmatrix.
 *
 *   forward          pixels × outputs, summed over (tap, input)      both operands along K
 *   input gradient   pixels × inputs, summed over (tap, output)      dY along K, the weights across it
 *   weight gradient  outputs × inputs of a tap, summed over pixels   both across K
 *
 * A block sums a tile in steps of 32 along K; several are on their way while one is multiplied (cuda-pipeline.ts). Of a
 * strided input gradient the pixels of a block are of one phase, those that the same taps meet, and the others are left
 * out. The weight gradient is split over blocks, whose parts another launch adds in order.
 *
 * Of bytes two lie where one float of 16 bits does: in memory, in the copies and in ldmatrix's rows alike. All but the instruction
 * that multiplies (m16n8k32 for m16n8k16, with sums in i32) counts pairs of them.
 */
import { bf16, type DType, f32, i8, i32, u32 } from '../../core/dtype.js';
import type { ColumnSums } from '../../graph/fused-op.js';
import type { IrFunction } from '../../kernel/ir/ir-function.js';
import { buffer } from '../../kernel/ir/types.js';
import { asCast, defineKernel, type Intrinsics, type Memory } from '../../kernel/language/language.js';
import { splitsOf } from '../launch-rule.js';
import { LEVEL } from '../matmul/cuda-block.js';
import { operandOf } from '../matmul/warpgroup-tiles.js';
import type { GridKernel } from '../tiled.js';
import { PIPELINE, stagesOf } from './cuda-pipeline.js';
import type { Convolution } from './problem.js';

/** How the work is cut. */
export interface LastTile {
  /** Warps along the rows and the columns of the tile. */
  readonly warps: readonly [number, number];
  /** Pieces of 16 rows and of 8 columns that a warp sums; those of columns in pairs. */
  readonly each: readonly [number, number];
  /** Steps of 32 that a block holds: that being multiplied, and those on their way. */
  readonly stages: number;
}

/**
 * A convolution with channels last: those of a group are multiples of 16 bytes. Kernels of warps take no groups. Of i8 there is no
 * gradient.
 */
export interface LastProblem extends Convolution {
  /** What is stored (default dtype). */
  readonly output?: DType;
  /** Where the second source begins, in elements. */
  readonly secondOffset: number;
  /** Elements from a row of pixels of the first source to the next, and from a pixel to the next. Default: those of dense ones. */
  readonly apart?: { readonly row: number; readonly pixel: number };
  /**
   * (value, image, row, column, channel) → the value to store; for warpgroups (value, group, pixel, channel), of the weight gradient
   * (value, group, output, tap and input).
   */
  readonly finish: IrFunction;
  /** `KernelIo.beside` */
  readonly beside?: number | undefined;
  /** `KernelIo.sums` */
  readonly sums?: ColumnSums | undefined;
}

/** Bytes that are copied at a time: the channels of a group are a multiple of them. */
export const COPY = 16;

/** Elements along K, of i8 pairs, that are multiplied at a time. */
export const DEPTH = 32;

/** As kernels of warps see it: of i8 `inputs` and offsets count pairs. */
export function inPairs(p: LastProblem): LastProblem {
  if (p.dtype !== i8) return p;
  const { inputs, imageOffset, secondOffset } = p;
  return { ...p, inputs: inputs / 2, imageOffset: imageOffset / 2, secondOffset: secondOffset / 2 };
}
/** A tile of one operand in shared memory, in words of two elements. Its rows are along K, or across it. */
interface LastPanel {
  readonly alongK: boolean;
  /** Rows of it, words of each that are in use, and from one to the next. */
  readonly rows: number;
  readonly words: number;
  readonly pitch: number;
}

/** `size` rows or columns of the tile. Rows are 4 banks apart modulo 8 so that those that ldmatrix reads meet no two. */
function panel(alongK: boolean, size: number): LastPanel {
  const words = (alongK ? DEPTH : size) / 2;
  return { alongK, rows: alongK ? size : DEPTH, words, pitch: words + 4 };
}

const rowsOf = ({ warps, each }: LastTile): number => warps[0] * each[0] * 16;
const columnsOf = ({ warps, each }: LastTile): number => warps[1] * each[1] * 8;

/** What all three directions have in common. */
function tileOf(p: LastProblem, tile: LastTile, aAlongK: boolean, bAlongK: boolean, steps: number) {
  const a = panel(aAlongK, rowsOf(tile));
  const b = panel(bAlongK, columnsOf(tile));
  const bAt = a.rows * a.pitch;
  const words = bAt + b.rows * b.pitch;
  return {
    ...{ a, b, bAt, tile, problem: p, DEPTH, isBf16: p.dtype === bf16, isBytes: p.dtype === i8 },
    /** What sums are, and what the epilogue takes. */
    ...{ sum: p.dtype === i8 ? i32 : f32, element: asCast(p.dtype === i8 ? i32 : p.dtype) },
    ...{ rows: rowsOf(tile), columns: columnsOf(tile), threads: 32 * tile.warps[0] * tile.warps[1] },
    stages: stagesOf(Math.min(tile.stages, Math.max(2, steps)), steps, words),
  };
}

interface TileContext extends Intrinsics, ReturnType<typeof tileOf> {
  readonly readPanel: typeof readPanel;
}

/** The matrices of ldmatrix for 16 rows (or columns) from `first` on and 16 steps from `k` on, of a panel at `at`. */
function readPanel(
  held: Memory,
  at: number,
  of: LastPanel,
  first: number,
  k: number,
  down: number,
  along: number,
  { laneId, idiv, loadMatrix4, loadMatrix4Transposed }: TileContext,
): number {
  const line = laneId % 8;
  return of.alongK
    ? loadMatrix4(held, at + (first + line + 8 * down) * of.pitch + idiv(k, 2) + 4 * along)
    : loadMatrix4Transposed(held, at + (k + line + 8 * along) * of.pitch + idiv(first, 2) + 4 * down);
}

/** Adds the products of the stage at `at`. */
function multiplyStage(held: Memory, at: number, sums: Memory, context: TileContext): void {
  const { warpId, laneId, idiv, u32, local4, local2, lane, vec2, mmaF16, mmaBf16, mmaI8 } = context;
  const { readPanel, tile, a, b, bAt, isBf16, isBytes, DEPTH } = context;
  const { warps, each } = tile;
  const firstRow = (warpId % warps[0]) * (each[0] * 16);
  const firstColumn = idiv(warpId, warps[0]) * (each[1] * 8);
  const low = idiv(laneId, 8) % 2;
  const high = idiv(laneId, 16);
  const as = local4(u32, each[0]);
  const bs = local2(u32, each[1]);
  for (let k = 0; k < DEPTH; k += 16) {
    for (let i = 0; i < each[0]; i++)
      as[i] = readPanel(held, at, a, firstRow + 16 * i, k, low, high, context);
    for (let j = 0; j < each[1]; j += 2) {
      const v = readPanel(held, at + bAt, b, firstColumn + 8 * j, k, high, low, context);
      bs[j] = vec2(lane(v, 0), lane(v, 1));
      bs[j + 1] = vec2(lane(v, 2), lane(v, 3));
    }
    for (let i = 0; i < each[0]; i++)
      for (let j = 0; j < each[1]; j++)
        if (isBytes) sums[i][j] = mmaI8(as[i], bs[j], sums[i][j]);
        else sums[i][j] = isBf16 ? mmaBf16(as[i], bs[j], sums[i][j]) : mmaF16(as[i], bs[j], sums[i][j]);
  }
}

/** Calls `store` with each pair of sums that the lane has: (value of 2, row, column) within the tile. */
function eachPair(
  sums: Memory,
  store: (both: number, row: number, column: number) => void,
  { warpId, laneId, idiv, lane, vec2, tile }: TileContext,
): void {
  const { warps, each } = tile;
  const row = (warpId % warps[0]) * (each[0] * 16) + idiv(laneId, 4);
  const column = idiv(warpId, warps[0]) * (each[1] * 8) + (laneId % 4) * 2;
  for (let i = 0; i < each[0]; i++)
    for (let j = 0; j < each[1]; j++) {
      const v = sums[i][j];
      store(vec2(lane(v, 0), lane(v, 1)), row + 16 * i, column + 8 * j);
      store(vec2(lane(v, 2), lane(v, 3)), row + 16 * i + 8, column + 8 * j);
    }
}

/** Copies of 16 bytes for each row of a panel, and how often all threads copy one each. */
const copiesOf = ({ rows, words }: LastPanel, threads: number) => ({
  perRow: words / 4,
  rounds: Math.ceil((rows * words) / 4 / threads),
  whole: ((rows * words) / 4) % threads === 0,
  all: (rows * words) / 4,
});

/** Along one axis, which taps meet the pixels of a phase: of each phase the first tap, how many, and from one to the next. */
export function phasesOf(p: Convolution, axis: 0 | 1) {
  const [stride, dilation, padding, kernel] = [
    p.stride[axis],
    p.dilation[axis],
    p.padding[axis],
    p.kernel[axis],
  ];
  if (!p.adjoint || stride === 1) return { phases: 1, first: [0], count: [kernel], step: 1 };
  const all = Array.from({ length: kernel }, (_, tap) => tap);
  const met = Array.from({ length: stride }, (_, phase) =>
    all.filter((tap) => (phase + padding - tap * dilation) % stride === 0),
  );
  const several = met.find((taps) => taps.length > 1);
  return {
    phases: stride,
    first: met.map((taps) => taps[0] ?? 0),
    count: met.map((taps) => taps.length),
    step: several ? several[1]! - several[0]! : 1,
  };
}

/** The element of a constant list. */
export function pick(list: readonly number[], at: number, { i32 }: Intrinsics): number {
  let value = i32(list[0]!);
  for (let n = 1; n < list.length; n++) if (at === n) value = list[n]!;
  return value;
}

const nameOf = ({ adjoint, dtype }: LastProblem): string =>
  adjoint ? 'conv2dInputLast' : dtype === i8 ? 'conv2dBytesLast' : 'conv2dLast';

/**
 * The convolution of x (N, H, W, C) with w (O, kH, kW, C), or with `adjoint` the input gradient from dY and w. If blocks share
 * sums, parts of it in f32, (split, pixel, output): not of bytes, and not of a strided input gradient.
 */
export function convolveLast(p: LastProblem, tile: LastTile, splits = 1): GridKernel {
  const inParts = splits > 1;
  const [vertical, horizontal] = [phasesOf(p, 0), phasesOf(p, 1)];
  const phases = vertical.phases * horizontal.phases;
  /** Rows and columns of the result of one phase, and channels along K, in steps. */
  const height = Math.ceil(p.outSize[0] / vertical.phases);
  const width = Math.ceil(p.outSize[1] / horizontal.phases);
  const chunks = Math.ceil(p.inputs / DEPTH);
  const steps = chunks * Math.max(...vertical.count) * Math.max(...horizontal.count);
  const share = Math.ceil(steps / splits);
  const constants = tileOf(p, tile, true, !p.adjoint, share);
  const { threads, stages } = constants;
  const kernel = defineKernel(
    `${nameOf(p)}${inParts ? 'Parts' : ''}`,
    { x: buffer(u32), w: buffer(u32), y: buffer(inParts ? f32 : (p.output ?? p.dtype)) },
    ({ x, w, y }, context) => {
      const { blockIdx, threadIdx, idiv, sum, i32, u32, local, local4, splat4, dynamicShared } = context;
      const { copyAsync4, store2, startCopies, multiplyPieces, multiplyStage, eachPair, pick } = context;
      const { problem, a, b, bAt, rows, columns, threads, stages, element, finish } = context;
      const { aCopies, bCopies, vertical, horizontal, height, width, chunks, inParts, share, DEPTH } =
        context;
      const { images, inputs, outputs, kernel, stride, dilation, padding, size, outSize, adjoint } = problem;
      const held = dynamicShared(u32);
      const firstRow = blockIdx.x * rows;
      const firstColumn = blockIdx.y * columns;
      const phase = inParts ? 0 : blockIdx.z;
      const down = idiv(phase, horizontal.phases);
      const across = phase % horizontal.phases;

      // The pixels whose sources the thread copies: where their window begins.
      const image = local(i32, aCopies.rounds);
      const top = local(i32, aCopies.rounds);
      const left = local(i32, aCopies.rounds);
      for (let q = 0; q < aCopies.rounds; q++) {
        const m = firstRow + idiv(threadIdx.x + q * threads, aCopies.perRow);
        image[q] = idiv(m, height * width);
        const r = idiv(m, width) % height;
        const c = m % width;
        top[q] = adjoint ? r : r * stride[0] - padding[0];
        left[q] = adjoint ? c : c * stride[1] - padding[1];
      }
      const firstDown = pick(vertical.first, down, context);
      const countDown = pick(vertical.count, down, context);
      const firstAcross = pick(horizontal.first, across, context);
      const countAcross = pick(horizontal.count, across, context);

      const fetch = (piece: number, to: number) => {
        const from = (piece % chunks) * DEPTH;
        const tap = idiv(piece, chunks);
        const i = firstDown + idiv(tap, countAcross) * vertical.step;
        const j = firstAcross + (tap % countAcross) * horizontal.step;
        const v = adjoint ? idiv(down + padding[0] - i * dilation[0], stride[0]) : i * dilation[0];
        const u = adjoint ? idiv(across + padding[1] - j * dilation[1], stride[1]) : j * dilation[1];
        for (let q = 0; q < aCopies.rounds; q++) {
          const at = threadIdx.x + q * threads;
          const channel = from + (at % aCopies.perRow) * 8;
          const line = top[q] + v;
          const column = left[q] + u;
          const inside = image[q] < images && line >= 0 && line < size[0] && column >= 0 && column < size[1];
          const source = ((image[q] * size[0] + line) * size[1] + column) * inputs + channel;
          if (aCopies.whole || at < aCopies.all)
            copyAsync4(
              held,
              to + idiv(at, aCopies.perRow) * a.pitch + (at % aCopies.perRow) * 4,
              x,
              idiv(problem.imageOffset, 2) + idiv(source, 2),
              inside && channel < inputs,
            );
        }
        const place = i * kernel[1] + j;
        for (let q = 0; q < bCopies.rounds; q++) {
          const at = threadIdx.x + q * threads;
          const r = idiv(at, bCopies.perRow);
          const part = (at % bCopies.perRow) * 8;
          // A row is an output of the forward direction, along K in the adjoint.
          const o = adjoint ? from + r : firstColumn + r;
          const channel = adjoint ? firstColumn + part : from + part;
          const all = adjoint ? inputs : outputs;
          const each = adjoint ? outputs : inputs;
          const source = (o * (kernel[0] * kernel[1]) + place) * each + channel;
          if (bCopies.whole || at < bCopies.all)
            copyAsync4(
              held,
              to + bAt + r * b.pitch + idiv(part, 2),
              w,
              idiv(problem.secondOffset, 2) + idiv(source, 2),
              o < all && channel < each,
            );
        }
      };
      const sums = local4(sum, context.tile.each[0], context.tile.each[1]);
      for (let i = 0; i < context.tile.each[0]; i++)
        for (let j = 0; j < context.tile.each[1]; j++) sums[i][j] = splat4(0);
      const pieces = countDown * countAcross * chunks;
      const first = inParts ? blockIdx.z * share : 0;
      const end = inParts ? Math.min(first + share, pieces) : pieces;
      startCopies(first, end, 1, fetch, stages, context);
      const multiply = (at: number) => multiplyStage(held, at, sums, context);
      multiplyPieces(first, end, 1, fetch, multiply, stages, context);

      const store = (both: number, row: number, column: number) => {
        const m = firstRow + row;
        const n = idiv(m, height * width);
        const r = (idiv(m, width) % height) * vertical.phases + down;
        const c = (m % width) * horizontal.phases + across;
        const channel = firstColumn + column;
        const pixel = (n * outSize[0] + r) * outSize[1] + c;
        if (n < images && r < outSize[0] && c < outSize[1] && channel < outputs) {
          if (inParts) store2(y, (blockIdx.z * images * height * width + pixel) * outputs + channel, both);
          else store2(y, pixel * outputs + channel, finish(element(both), n, r, c, channel));
        }
      };
      eachPair(sums, store, context);
    },
    {
      ...{ ...constants, ...PIPELINE, multiplyStage, readPanel, eachPair, pick },
      ...{ vertical, horizontal, height, width, chunks, inParts, share, finish: p.finish },
      ...{ aCopies: copiesOf(constants.a, threads), bCopies: copiesOf(constants.b, threads) },
    },
  );
  const pixels = p.images * height * width;
  return {
    kernel,
    grid: [Math.ceil(pixels / rowsOf(tile)), Math.ceil(p.outputs / columnsOf(tile)), phases * splits],
    threads,
    sharedBytes: 4 * stages.floats * stages.count,
  };
}

/** Blocks that share the weight gradient's sum over pixels, if about `wanted` are wanted. */
export function lastSplits(p: LastProblem, wanted: number): number {
  const pixels = p.images * p.outSize[0] * p.outSize[1];
  return splitsOf(Math.ceil(pixels / DEPTH), Math.max(wanted, Math.ceil(pixels / LEVEL[operandOf(p.dtype)])));
}

/** Parts of the weight gradient, (split, output, tap, input), from x and dY. */
export function convolveWeightLast(p: LastProblem, tile: LastTile, splits: number): GridKernel {
  const pixels = p.images * p.outSize[0] * p.outSize[1];
  const share = Math.ceil(Math.ceil(pixels / DEPTH) / splits);
  const constants = tileOf(p, tile, false, false, share);
  const { threads, stages, columns } = constants;
  const taps = p.kernel[0] * p.kernel[1];
  const across = Math.ceil(p.inputs / columns);
  const kernel = defineKernel(
    'conv2dWeightLast',
    { x: buffer(u32), dy: buffer(u32), parts: buffer(f32) },
    ({ x, dy, parts }, context) => {
      const { blockIdx, threadIdx, idiv, f32, u32, local4, splat4, dynamicShared } = context;
      const { copyAsync4, store2, startCopies, multiplyPieces, multiplyStage, eachPair } = context;
      const { problem, tile, a, b, bAt, rows, columns, threads, stages, aCopies, bCopies } = context;
      const { pixels, share, taps, across, DEPTH } = context;
      const { inputs, outputs, kernel, stride, dilation, padding, size, outSize } = problem;
      const held = dynamicShared(u32);
      const firstRow = idiv(blockIdx.y, across) * rows;
      const firstColumn = (blockIdx.y % across) * columns;
      const tap = blockIdx.z;
      const i = idiv(tap, kernel[1]) * dilation[0] - padding[0];
      const j = (tap % kernel[1]) * dilation[1] - padding[1];
      const fetch = (piece: number, to: number) => {
        for (let q = 0; q < aCopies.rounds; q++) {
          const at = threadIdx.x + q * threads;
          const r = idiv(at, aCopies.perRow);
          const output = firstRow + (at % aCopies.perRow) * 8;
          const pixel = piece * DEPTH + r;
          if (aCopies.whole || at < aCopies.all)
            copyAsync4(
              held,
              to + r * a.pitch + (at % aCopies.perRow) * 4,
              dy,
              idiv(problem.secondOffset, 2) + idiv(pixel * outputs + output, 2),
              pixel < pixels && output < outputs,
            );
        }
        for (let q = 0; q < bCopies.rounds; q++) {
          const at = threadIdx.x + q * threads;
          const r = idiv(at, bCopies.perRow);
          const channel = firstColumn + (at % bCopies.perRow) * 8;
          const pixel = piece * DEPTH + r;
          const n = idiv(pixel, outSize[0] * outSize[1]);
          const v = (idiv(pixel, outSize[1]) % outSize[0]) * stride[0] + i;
          const u = (pixel % outSize[1]) * stride[1] + j;
          const inside = pixel < pixels && v >= 0 && v < size[0] && u >= 0 && u < size[1];
          if (bCopies.whole || at < bCopies.all)
            copyAsync4(
              held,
              to + bAt + r * b.pitch + (at % bCopies.perRow) * 4,
              x,
              idiv(problem.imageOffset, 2) + idiv(((n * size[0] + v) * size[1] + u) * inputs + channel, 2),
              inside && channel < inputs,
            );
        }
      };
      const sums = local4(f32, tile.each[0], tile.each[1]);
      for (let i = 0; i < tile.each[0]; i++) for (let j = 0; j < tile.each[1]; j++) sums[i][j] = splat4(0);
      const first = blockIdx.x * share;
      const end = Math.min(first + share, idiv(pixels + DEPTH - 1, DEPTH));
      startCopies(first, end, 1, fetch, stages, context);
      const multiply = (at: number) => multiplyStage(held, at, sums, context);
      multiplyPieces(first, end, 1, fetch, multiply, stages, context);

      const store = (both: number, row: number, column: number) => {
        const output = firstRow + row;
        const channel = firstColumn + column;
        if (output < outputs && channel < inputs)
          store2(parts, ((blockIdx.x * outputs + output) * taps + tap) * inputs + channel, both);
      };
      eachPair(sums, store, context);
    },
    {
      ...{ ...constants, ...PIPELINE, multiplyStage, readPanel, eachPair, pixels, share, taps, across },
      ...{ aCopies: copiesOf(constants.a, threads), bCopies: copiesOf(constants.b, threads) },
    },
  );
  return {
    kernel,
    grid: [splits, Math.ceil(p.outputs / rowsOf(tile)) * across, taps],
    threads,
    sharedBytes: 4 * stages.floats * stages.count,
  };
}
