/**
 * What the convolution kernels for GPUs share: how a block sees the images. A block has a tile of the output, some
 * rows × columns of some images, and keeps the pixels that the tile reads in shared memory, a few channels at a time:
 * each pixel comes from memory once and serves all taps and all output channels of the block.
 *
 * Padding is zeros in that copy, and so are the gaps of an adjoint's stride: the loops that compute know neither.
 * Copies are asynchronous, of 4, 2 or 1 pixels (of 16-bit floats they pass through registers, and become f32 there): where the image's rows allow it, those of the copy begin a few pixels
 * further left, so that both are aligned. Teams of 4 to 32 threads go down the rows of a plane, so that indices are
 * sums: with a division for each element, copying took longer than the multiplications.
 */
import { isHalf } from '../../core/dtype.js';
import type { Intrinsics, Memory } from '../../kernel/language/language.js';
import type { Convolution } from './problem.js';

/** Pixels of the output that a block computes, and channels of the image that it holds at a time. */
export interface ImageTile {
  readonly images: number;
  readonly rows: number;
  readonly columns: number;
  readonly channels: number;
}

/** The smallest number ≥ n that is `phase` modulo `by`, if there is one asked for. */
export const inPhase = (n: number, phase?: number, by = 32): number =>
  phase === undefined ? n : n + ((((phase - n) % by) + by) % by);

/** Copies of a row by `lanes` threads, those that have nothing to do included. */
const taken = (copies: number, lanes: number): number => Math.ceil(copies / lanes) * lanes;

/**
 * mma cuts its operands to 11 bits. Multiplied by this they are rounded instead: by at most 0.71 of the last bit, up as
 * often as down, and what has 11 bits stays. It is one fast instruction, where `tf32` is a slow one.
 */
export const ROUNDING = 1 + 2 ** -11.5;

const APART: readonly [number, number] = [1, 1];

const stepOf = (p: Convolution) => (p.adjoint ? APART : p.stride);
const spreadOf = (p: Convolution) => (p.adjoint ? p.stride : APART);
const reachOf = ({ dilation, kernel }: Convolution, i: 0 | 1): number => dilation[i] * (kernel[i] - 1);
/** Rows or columns of padding above and left of the image. */
export const beforeOf = (p: Convolution, i: 0 | 1): number =>
  p.adjoint ? reachOf(p, i) - p.padding[i] : p.padding[i];

/** Pixels of one copy, and how many the rows of the copy begin further left for it. */
function vectorOf(p: Convolution, tile: ImageTile) {
  const pitch = tile.columns >= p.outSize[1] ? 0 : tile.columns * stepOf(p)[1];
  const vector = spreadOf(p)[1] === 1 ? commonVector(pitch, p.size[1], p.imageOffset) : 1;
  return { vector, lead: (vector - (beforeOf(p, 1) % vector)) % vector };
}

/** 4, 2 or 1: the most elements of a copy that divide these. */
export const commonVector = (a: number, b: number, c: number): number =>
  (a | b | c) % 4 === 0 ? 4 : (a | b | c) % 2 === 0 ? 2 : 1;

/**
 * The pixels that a tile reads, and how many such tiles there are: all that the search for a good tile asks for.
 * `phase`: distance of channels modulo the 32 banks of shared memory, so that the lanes of a warp, which differ in
 * channel and pixel, meet different banks; a multiple of 4.
 */
export function imageSpan(p: Convolution, tile: ImageTile, phase?: number) {
  const step = stepOf(p);
  const reach = (tile.columns - 1) * step[1] + reachOf(p, 1) + 1;
  const height = (tile.rows - 1) * step[0] + reachOf(p, 0) + 1;
  // Rows that are whole in image and tile are one run of memory.
  const flat =
    reach === p.size[1] &&
    p.stride[0] === 1 &&
    p.stride[1] === 1 &&
    beforeOf(p, 0) === 0 &&
    beforeOf(p, 1) === 0 &&
    commonVector(p.size[0] * p.size[1], tile.rows * p.size[1], p.imageOffset) === 4;
  const { vector, lead } = flat ? { vector: 4, lead: 0 } : vectorOf(p, tile);
  const width = flat ? reach : Math.ceil((lead + reach) / vector) * vector;
  const plane = inPhase(Math.ceil((height * width) / vector) * vector, phase);
  return {
    tile,
    images: p.images,
    height,
    width,
    plane,
    flat,
    vector,
    lead,
    floats: Math.ceil((tile.images * tile.channels * plane) / 4) * 4,
    /** Tiles along the rows and columns of the output. */
    down: Math.ceil(p.outSize[0] / tile.rows),
    across: Math.ceil(p.outSize[1] / tile.columns),
  };
}

/** What kernels know of a tile: its span, and how `threads` copy it. */
export function imageLayout(p: Convolution, tile: ImageTile, threads: number, phase?: number) {
  const span = imageSpan(p, tile, phase);
  const { height, width, flat, vector } = span;
  const planes = tile.images * tile.channels;
  // Lines of a plane, and copies of each.
  const lines = flat ? 1 : height;
  const copies = Math.ceil((flat ? height * width : width) / vector);
  const warps = Math.floor(threads / 32);
  const lanes = (
    flat && warps > planes ? [32 * Math.floor(warps / planes)] : threads < 32 ? [1] : [32, 16, 8, 4]
  )
    .filter((n) => n <= threads)
    .reduce((best, n) => (taken(copies, n) < taken(copies, best) ? n : best));
  const teams = Math.max(1, Math.floor(threads / lanes));
  const planeTeams = Math.min(planes, teams);
  const lineTeams = Math.min(Math.floor(teams / planeTeams), lines);
  return {
    ...span,
    groups: p.groups,
    channels: p.inputs,
    at: p.imageOffset,
    size: p.size,
    widened: isHalf(p.dtype),
    step: stepOf(p),
    spread: spreadOf(p),
    folded: p.folded === true,
    dilation: p.dilation,
    kernel: p.kernel,
    before: [beforeOf(p, 0), beforeOf(p, 1)] as const,
    planes,
    lines,
    copies,
    lanes,
    planeTeams,
    lineTeams,
    perLine: Math.ceil(copies / lanes),
    /** No thread is left over. */
    allCopy: planeTeams * lineTeams * lanes === threads,
  };
}

export type ImageLayout = ReturnType<typeof imageLayout>;

/** Tiles that cover the output's pixels. */
export const tilesOf = ({ images, tile, down, across }: ReturnType<typeof imageSpan>): number =>
  Math.ceil(images / tile.images) * down * across;

/**
 * Starts to copy `length` neighbours, 1, 2 or 4, from `x[source…]` to a shared array of f32; zeros if they are not `there`.
 * 16-bit floats are widened on their way: they pass through registers. For use in kernels.
 */
export function copyRun(
  to: Memory,
  spot: number,
  x: Memory,
  source: number,
  there: boolean,
  length: number,
  widened: boolean,
  context: Intrinsics,
): void {
  const { f32, load2, load4, store2, store4, splat2, splat4, copyAsync, copyAsync2, copyAsync4 } = context;
  if (widened) {
    if (length === 4) store4(to, spot, there ? f32(load4(x, source)) : splat4(0));
    else if (length === 2) store2(to, spot, there ? f32(load2(x, source)) : splat2(0));
    else to[spot] = there ? f32(x[source]) : 0;
  } else if (length === 4) copyAsync4(to, spot, x, source, there);
  else if (length === 2) copyAsync2(to, spot, x, source, there);
  else copyAsync(to, spot, x, source, there);
}

/** What the device functions that copy find among a kernel's constants. */
export interface Copying extends Intrinsics {
  readonly copyRun: typeof copyRun;
}

/**
 * Starts to copy channels `first` … of group `g` to `to[at…]`, for the tile whose first pixel is (row, column) of image
 * n. For use in kernels.
 */
export function copyImage(
  x: Memory,
  to: Memory,
  at: number,
  g: number,
  first: number,
  n: number,
  row: number,
  column: number,
  layout: ImageLayout,
  context: Copying,
): void {
  const { threadIdx, idiv, copyRun } = context;
  const { images, groups, channels, size, tile, step, spread, before, flat, vector, lead } = layout;
  const { width, plane, planes, lines, copies, lanes, allCopy, planeTeams, lineTeams, perLine, folded } =
    layout;
  const team = idiv(threadIdx.x, lanes);
  const member = threadIdx.x % lanes;
  const firstLine = idiv(team, planeTeams);
  const top = row * step[0] - before[0];
  const left = column * step[1] - before[1] - lead + member * vector;
  // Of a run, what the image has below the tile's top.
  const end = (size[0] - top) * size[1];
  for (let m = 0; m < Math.ceil(planes / planeTeams); m++) {
    const p = (team % planeTeams) + m * planeTeams;
    if ((planes % planeTeams === 0 || p < planes) && (allCopy || firstLine < lineTeams)) {
      const image = n + idiv(p, tile.channels);
      const channel = first + (p % tile.channels);
      const inside = image < images && channel < channels;
      const from = layout.at + ((image * groups + g) * channels + channel) * size[0] * size[1];
      const place = at + p * plane + member * vector;
      for (let l = 0; l < Math.ceil(lines / lineTeams); l++) {
        const line = firstLine + l * lineTeams;
        const v = top + line;
        const y = idiv(v, spread[0]);
        const there = inside && (flat || (v >= 0 && y < size[0] && v % spread[0] === 0));
        for (let q = 0; q < perLine; q++) {
          const u = left + q * lanes * vector;
          const c = idiv(u, spread[1]);
          const hit = folded
            ? there && y * size[1] + c >= 0 && y * size[1] + c < size[0] * size[1]
            : there && u >= 0 && (flat ? u < end : c < size[1] && u % spread[1] === 0);
          const spot = place + line * width + q * lanes * vector;
          const source = from + y * size[1] + c;
          if (
            (lines % lineTeams === 0 || line < lines) &&
            (copies % lanes === 0 || member + q * lanes < copies)
          )
            copyRun(to, spot, x, source, hit, vector, layout.widened, context);
        }
      }
    }
  }
}

/** From a pixel in the copy to what tap `t` of channel `c` meets. For use in kernels. */
export function tapOffset(t: number, c: number, layout: ImageLayout, { idiv }: Intrinsics): number {
  const { kernel, dilation, width, plane } = layout;
  return c * plane + idiv(t, kernel[1]) * dilation[0] * width + (t % kernel[1]) * dilation[1];
}

/** Where pixel `p` of the tile, counted through its images, rows and columns, lies in the copy. For use in kernels. */
export function pixelOffset(p: number, layout: ImageLayout, { idiv }: Intrinsics): number {
  const { tile, step, width, plane, lead } = layout;
  const image = idiv(p, tile.rows * tile.columns) * tile.channels * plane;
  const row = idiv(p, tile.columns) % tile.rows;
  return image + row * step[0] * width + (p % tile.columns) * step[1] + lead;
}

/** The functions above, as the constants of a kernel. */
export const IMAGE = { copyRun, copyImage, tapOffset, pixelOffset };
