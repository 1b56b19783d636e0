/**
 * What the convolution kernels for GPUs share: how a block sees the images. A block has a tile of the output, some
 * rows × columns of some images, and keeps the pixels that the tile reads in shared memory, a few channels at a time:
 * each pixel comes from memory once and serves all taps and all output channels of the block.
 *
 * Padding is zeros in that copy, and so are the gaps of an adjoint's stride: the loops that compute know neither.
 * Rows are copied by teams of 8, 16 or 32 threads; a thread asks for several elements before it waits for the first. A
 * team goes down the rows of a plane, so that indices are sums: with a division for each element, copying took longer
 * than the multiplications.
 */
import type { Intrinsics, Memory } from '../kernel/language.js';

/** What is convolved: sizes, and where the arrays begin. */
export interface CudaConvolution {
  readonly images: number;
  readonly groups: number;
  /** Channels per group. */
  readonly inputs: number;
  readonly outputs: number;
  /** Height × width of the image read, and of the image written (of x and of dY, for the weight gradient). */
  readonly size: readonly [number, number];
  readonly outSize: readonly [number, number];
  readonly kernel: readonly [number, number];
  readonly stride: readonly [number, number];
  readonly dilation: readonly [number, number];
  readonly padding: readonly [number, number];
  /** Where the images begin, in elements. */
  readonly imageOffset: number;
  /**
   * false: image → output, stride skips. true: the adjoint; `size` is that of the gradient given, `outSize` that of
   * the one wanted.
   */
  readonly adjoint: boolean;
  /** Products of operands rounded to tf32, on tensor cores; else in f32. */
  readonly tensorCores: boolean;
}

/** Pixels of the output that a block computes, and channels of the image that it holds at a time. */
export interface ImageTile {
  readonly images: number;
  readonly rows: number;
  readonly columns: number;
  readonly channels: number;
}

/** The smallest number ≥ n that is `phase` modulo 32, if there is one asked for. */
export const inPhase = (n: number, phase?: number): number =>
  phase === undefined ? n : n + ((((phase - n) % 32) + 32) % 32);

/** Lanes that have nothing to do when `lanes` copy rows of `width`. */
const wasted = (width: number, lanes: number): number => Math.ceil(width / lanes) * lanes - width;

/** Elements that a thread asks for at once while it copies. */
export const IN_FLIGHT = 16;

/** Fours that a thread asks for at once, of a plane and of how many planes. */
function quadBatch(perPlane: number, planes: number) {
  const quadsAtOnce = Math.min(perPlane, 8);
  return { quadsAtOnce, planesAtOnce: Math.min(planes, Math.max(1, Math.floor(8 / quadsAtOnce))) };
}

const APART: readonly [number, number] = [1, 1];

/**
 * The pixels that a tile reads, and how many such tiles there are: all that the search for a good tile asks for.
 * `phase`: distance of channels modulo the 32 banks of shared memory, so that the lanes of a warp, which differ in
 * channel and pixel, meet different banks.
 */
export function imageSpan(p: CudaConvolution, tile: ImageTile, phase?: number) {
  const step = p.adjoint ? APART : p.stride;
  const height = (tile.rows - 1) * step[0] + p.dilation[0] * (p.kernel[0] - 1) + 1;
  const width = (tile.columns - 1) * step[1] + p.dilation[1] * (p.kernel[1] - 1) + 1;
  const plane = inPhase(height * width, phase);
  return {
    tile,
    images: p.images,
    height,
    width,
    plane,
    floats: tile.images * tile.channels * plane,
    /** Tiles along the rows and columns of the output. */
    down: Math.ceil(p.outSize[0] / tile.rows),
    across: Math.ceil(p.outSize[1] / tile.columns),
  };
}

/** What kernels know of a tile: its span, and how `threads` copy it. */
export function imageLayout(p: CudaConvolution, tile: ImageTile, threads: number, phase?: number) {
  const span = imageSpan(p, tile, phase);
  const { height, width, plane } = span;
  const step = p.adjoint ? APART : p.stride;
  const spread = p.adjoint ? p.stride : APART;
  const reach = [p.dilation[0] * (p.kernel[0] - 1), p.dilation[1] * (p.kernel[1] - 1)] as const;
  const planes = tile.images * tile.channels;
  const flat =
    threads % 32 === 0 &&
    width === p.size[1] &&
    [...spread, ...step].every((n) => n === 1) &&
    p.padding.every((n) => n === 0) &&
    !p.adjoint &&
    [plane, p.size[0] * p.size[1], tile.rows * p.size[1], p.imageOffset].every((n) => n % 4 === 0);
  const quads = Math.ceil((height * width) / 4);
  const lanes = (flat ? [32] : [32, 16, 8, 1])
    .filter((n) => n <= threads && (n > 1 || threads < 8))
    .reduce((best, n) => (wasted(width, n) < wasted(width, best) ? n : best));
  const teams = Math.max(1, Math.floor(threads / lanes));
  const planeTeams = Math.min(planes, teams);
  const rowTeams = Math.floor(teams / planeTeams);
  const perRow = Math.ceil(width / lanes);
  const batch = Math.max(1, Math.min(Math.floor(IN_FLIGHT / perRow), Math.ceil(height / rowTeams)));
  return {
    ...span,
    ...{ groups: p.groups, channels: p.inputs, at: p.imageOffset, size: p.size },
    rounded: p.tensorCores,
    ...{ step, spread, dilation: p.dilation, kernel: p.kernel },
    before: p.adjoint
      ? ([reach[0] - p.padding[0], reach[1] - p.padding[1]] as const)
      : ([p.padding[0], p.padding[1]] as const),
    ...{ planes, lanes, planeTeams, rowTeams, perRow, batch, flat, quads },
    ...quadBatch(Math.ceil(quads / (32 * rowTeams)), Math.ceil(planes / planeTeams)),
  };
}

export type ImageLayout = ReturnType<typeof imageLayout>;

/** Tiles that cover the output's pixels. */
export const tilesOf = ({ images, tile, down, across }: ReturnType<typeof imageSpan>): number =>
  Math.ceil(images / tile.images) * down * across;

/**
 * Copies channels `first` … of group `g` to `to[at…]`, for the tile whose first pixel is (row, column) of image n.
 * The block's barrier comes after. For use in kernels.
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
  context: Intrinsics,
): void {
  const { threadIdx, idiv, local, local4, load4, store4, splat4, vec4, lane, f32, tf32 } = context;
  const { images, groups, channels, size, tile, step, spread, before } = layout;
  const { height, width, plane, planes, lanes, planeTeams, rowTeams, perRow, batch, rounded } = layout;
  const { flat, quads, quadsAtOnce, planesAtOnce } = layout;
  const team = idiv(threadIdx.x, lanes);
  const member = threadIdx.x % lanes;
  const firstRow = idiv(team, planeTeams);
  const top = row * step[0] - before[0];
  const left = column * step[1] - before[1] + member;
  let p = team % planeTeams;
  if (flat) {
    // The tile's rows are whole, and one run of memory: 4 elements at a time.
    const end = (size[0] - top) * size[1];
    while (p < planes && firstRow < rowTeams) {
      let q = firstRow * 32 + member;
      while (q < quads) {
        const held = local4(f32, planesAtOnce, quadsAtOnce);
        for (let a = 0; a < planesAtOnce; a++) {
          const own = p + a * planeTeams;
          const image = n + idiv(own, tile.channels);
          const channel = first + (own % tile.channels);
          const inside = own < planes && image < images && channel < channels;
          const from = layout.at + ((image * groups + g) * channels + channel) * size[0] * size[1];
          for (let b = 0; b < quadsAtOnce; b++) {
            const e = (q + b * rowTeams * 32) * 4;
            const there = inside && e < quads * 4 && e < end;
            held[a][b] = there ? load4(x, from + top * size[1] + e) : splat4(f32(0));
          }
        }
        for (let a = 0; a < planesAtOnce; a++) {
          const own = p + a * planeTeams;
          for (let b = 0; b < quadsAtOnce; b++) {
            const e = (q + b * rowTeams * 32) * 4;
            const v = held[a][b];
            const exact = rounded
              ? vec4(tf32(lane(v, 0)), tf32(lane(v, 1)), tf32(lane(v, 2)), tf32(lane(v, 3)))
              : v;
            if (own < planes && e < quads * 4) store4(to, at + own * plane + e, exact);
          }
        }
        q += quadsAtOnce * rowTeams * 32;
      }
      p += planesAtOnce * planeTeams;
    }
  } else {
    while (p < planes && firstRow < rowTeams) {
      const image = n + idiv(p, tile.channels);
      const channel = first + (p % tile.channels);
      const inside = image < images && channel < channels;
      const from = layout.at + ((image * groups + g) * channels + channel) * size[0] * size[1];
      const place = at + p * plane + member;
      let done = 0;
      while (done < height) {
        const held = local(f32, batch, perRow);
        for (let b = 0; b < batch; b++) {
          const r = done + firstRow + b * rowTeams;
          const v = top + r;
          const y = idiv(v, spread[0]);
          const there = inside && r < height && v >= 0 && y < size[0] && v % spread[0] === 0;
          for (let q = 0; q < perRow; q++) {
            const u = left + q * lanes;
            const c = idiv(u, spread[1]);
            const hit = there && u >= 0 && c < size[1] && u % spread[1] === 0;
            held[b][q] = hit ? x[from + y * size[1] + c] : 0;
          }
        }
        for (let b = 0; b < batch; b++) {
          const r = done + firstRow + b * rowTeams;
          for (let q = 0; q < perRow; q++) {
            const spot = place + r * width + q * lanes;
            if (r < height && member + q * lanes < width) to[spot] = rounded ? tf32(held[b][q]) : held[b][q];
          }
        }
        done += batch * rowTeams;
      }
      p += planeTeams;
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
  const { tile, step, width, plane } = layout;
  const image = idiv(p, tile.rows * tile.columns) * tile.channels * plane;
  const row = idiv(p, tile.columns) % tile.rows;
  return image + row * step[0] * width + (p % tile.columns) * step[1];
}
