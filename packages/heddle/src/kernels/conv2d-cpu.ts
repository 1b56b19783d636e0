/**
 * Convolution on the CPU without im2col: vectors lie along the output's rows, weights are splat loads. f32.
 *
 * A tile is 4 output channels × 8 pixels of a row: 8 accumulators of 4 lanes. For every tap it takes 2 wide loads
 * of the image (at any alignment, so a tap to the right is the same load one element on), 4 splat loads of weights
 * and 8 multiply-adds: the arithmetic of a packed matmul without the copies. The last columns of a row, fewer than
 * 5, are done by 8 channels × 4 pixels instead. Tiles overlap at the right edge; only new pixels are stored.
 *
 *   rows above and below the image   their taps are skipped, so vertical padding costs nothing
 *   horizontal padding               the rows a block reads are copied, with zeros around them, into memory of the
 *                                    worker; such a copy also brings
 *   horizontal stride                each phase of the columns together, so that taps stay wide loads
 *   input gradient                   the same kernel on the outputs' gradient: weights flipped, channels exchanged,
 *                                    and for strides zeros put between the columns of the copy
 *
 * Loops take one tap per turn, never unrolled, as matmul-cpu.ts explains.
 *
 * A block is a band of rows of one image and group; it loops over channels outside, rows inside, so that the image
 * rows and the weights of a tile stay in the first-level cache.
 */
import { f32 } from '../core/dtype.js';
import type { IrFunction } from '../kernel/ir-function.js';
import { defineKernel } from '../kernel/language.js';
import { buffer } from '../kernel/types.js';
import type { Tiled } from './matmul-cpu.js';

export interface ConvolveProblem {
  readonly images: number;
  readonly groups: number;
  /** Channels per group. */
  readonly inputs: number;
  readonly outputs: number;
  /** Height × width of the image read and the image written. */
  readonly size: readonly [number, number];
  readonly outSize: readonly [number, number];
  readonly kernel: readonly [number, number];
  readonly stride: readonly [number, number];
  readonly dilation: readonly [number, number];
  readonly padding: readonly [number, number];
  /** Where each source begins, in elements. */
  readonly imageOffset: number;
  readonly weightOffset: number;
  /**
   * false: image → output, stride skips. true: the adjoint; `size` is that of the gradient given, `outSize` that of
   * the one wanted, and the weights are those of the forward direction.
   */
  readonly adjoint: boolean;
  /** Blocks to aim for at least, if the rows suffice. */
  readonly leastBlocks: number;
  /** (value, image, channel, row, column) → the value to store. */
  readonly finish: IrFunction;
}

/** Columns of a row that one kind of tile covers: `vectors` wide from `start` to `end`, the first `skip` known. */
interface Strip {
  readonly start: number;
  readonly end: number;
  readonly vectors: number;
  readonly skip: number;
}

/** A row of `width` ≥ 4 as strips. */
export function stripsOf(width: number): Strip[] {
  const whole = width - (width % 8);
  const rest = width % 8;
  const strips: Strip[] = whole > 0 ? [{ start: 0, end: whole, vectors: 2, skip: 0 }] : [];
  if (rest > 4 && whole > 0) strips.push({ start: width - 8, end: width, vectors: 2, skip: 8 - rest });
  else {
    if (rest >= 4) strips.push({ start: whole, end: whole + 4, vectors: 1, skip: 0 });
    if (rest % 4 > 0) strips.push({ start: width - 4, end: width, vectors: 1, skip: 4 - (rest % 4) });
  }
  return strips;
}

/** A row as the kernel reads it: how wide a copy, and where pixel x and tap k of the image stand in it. */
function rowLayout({ size, kernel, stride, dilation, padding, outSize, adjoint }: ConvolveProblem) {
  const reach = dilation[1] * (kernel[1] - 1);
  const by = adjoint ? 1 : stride[1];
  const spread = adjoint ? stride[1] : 1;
  const left = adjoint ? reach - padding[1] : padding[1];
  const phase = outSize[1] + Math.floor(reach / by);
  const copied = left !== 0 || by > 1 || spread > 1 || outSize[1] + reach > size[1];
  return { by, spread, left, phase, copied, pitch: copied ? phase * by : size[1] };
}

/** Bytes of the worker's copy of the rows, beyond which a band is cut shorter: half a second-level cache. */
const COPY_BYTES = 2 ** 18;

/** Most rows of the image that `rows` rows of the output read. */
const rowsRead = ({ size, kernel, stride, dilation, adjoint }: ConvolveProblem, rows: number): number => {
  const reach = dilation[0] * (kernel[0] - 1);
  const span = adjoint ? Math.ceil((rows + reach) / stride[0]) + 1 : (rows - 1) * stride[0] + reach + 1;
  return Math.min(size[0], span);
};

function bandOf(problem: ConvolveProblem, pitch: number, copied: boolean): number {
  const { images, groups, inputs, outSize, leastBlocks } = problem;
  const bands = Math.ceil(leastBlocks / (images * groups));
  let rows = Math.max(1, Math.ceil(outSize[0] / bands));
  while (copied && rows > 1 && 4 * inputs * pitch * rowsRead(problem, rows) > COPY_BYTES)
    rows = Math.ceil(rows / 2);
  return rows;
}

/** The image convolved with the weights; images and weights are contiguous. */
export function convolve(problem: ConvolveProblem): Tiled {
  const { images, groups, inputs, outputs, size, outSize, kernel, stride, dilation, padding } = problem;
  const row = rowLayout(problem);
  const band = bandOf(problem, row.pitch, row.copied);
  const bands = Math.ceil(outSize[0] / band);
  const held = rowsRead(problem, band);
  const taps = kernel[0] * kernel[1];
  const ir = defineKernel(
    problem.adjoint ? 'conv2dInput' : 'conv2d',
    { x: buffer(f32), w: buffer(f32), y: buffer(f32) },
    ({ x, w, y }, context) => {
      const { blockIdx, f32, idiv, lane, local, local4, load4, store4, splat4, fma, finish } = context;
      const { GROUPS, BANDS, BAND, INPUTS, OUTPUTS, H, W, OH, OW, KH, KW, SY, DY, DX, PY, ADJOINT } = context;
      const { COPIED, HELD, PITCH, PHASE, BY, SPREAD, LEFT, STRIPS, W_IN, W_OUT, TAP, X_AT, W_AT } = context;
      const band = blockIdx.x % BANDS;
      const n = idiv(blockIdx.x, BANDS * GROUPS);
      const g = GROUPS === 1 ? 0 : idiv(blockIdx.x, BANDS) % GROUPS;
      const top = band * BAND;
      const bottom = Math.min(top + BAND, OH);

      /** The first image row that output row `r` reads, for the kernel's first (adjoint: last) row. */
      const firstRow = ADJOINT
        ? Math.max(0, idiv(top + PY - DY * (KH - 1) + SY - 1, SY))
        : Math.max(0, top * SY - PY);
      const image = X_AT + (n * GROUPS + g) * INPUTS * H * W;
      const copy = local(f32, COPIED ? INPUTS * HELD * PITCH : 1);
      if (COPIED) {
        const rows = Math.min(HELD, H - firstRow);
        for (let c = 0; c < INPUTS; c++) {
          for (let r = 0; r < rows; r++) {
            const to = (c * HELD + r) * PITCH;
            const from = image + (c * H + firstRow + r) * W;
            if (BY === 1 && SPREAD === 1) {
              for (let i = 0; i < Math.min(LEFT, PITCH); i++) copy[to + i] = 0;
              const start = Math.max(LEFT, 0);
              const count = Math.min(W, PITCH - LEFT) - (start - LEFT);
              const whole = count - (count % 4);
              const first = from + start - LEFT;
              for (let i = 0; i < whole; i += 4) store4(copy, to + start + i, load4(x, first + i));
              for (let i = whole; i < count; i++) copy[to + start + i] = x[first + i];
              for (let i = start + count; i < PITCH; i++) copy[to + i] = 0;
            } else {
              for (let i = 0; i < PITCH; i++) {
                // Place i holds column i / PHASE + BY·(i % PHASE) of the padded row.
                const column = idiv(i, PHASE) + BY * (i % PHASE) - LEFT;
                const at = idiv(column, SPREAD);
                const inside = column >= 0 && column % SPREAD === 0 && at < W;
                copy[to + i] = inside ? x[from + at] : 0;
              }
            }
          }
        }
      }
      const plane = COPIED ? HELD * PITCH : H * W;
      const pixels = (at: number) => (COPIED ? load4(copy, at) : load4(x, image + at));

      const tile = (o: number, r: number, c: number, rows: number, vectors: number, skip: number) => {
        const acc = local4(f32, rows, vectors);
        for (let i = 0; i < rows; i++) {
          for (let j = 0; j < vectors; j++) acc[i][j] = splat4(0);
        }
        const step = (pixel: number, weight: number) => {
          const row = local4(f32, vectors);
          for (let j = 0; j < vectors; j++) row[j] = pixels(pixel + 4 * j);
          for (let i = 0; i < rows; i++) {
            const factor = splat4(w[weight + i * W_OUT]);
            for (let j = 0; j < vectors; j++) acc[i][j] = fma(factor, row[j], acc[i][j]);
          }
        };
        for (let ky = 0; ky < KH; ky++) {
          const t = ADJOINT ? r + PY - DY * ky : r * SY - PY + DY * ky;
          const source = ADJOINT ? idiv(t, SY) : t;
          if (t >= 0 && source < H && (!ADJOINT || SY === 1 || t % SY === 0)) {
            const from = (source - (COPIED ? firstRow : 0)) * PITCH + c;
            const by = W_AT + g * INPUTS * OUTPUTS * TAP + o * W_OUT + ky * KW;
            // The longer of the two loops inside.
            if (INPUTS >= KW) {
              for (let kx = 0; kx < KW; kx++) {
                let pixel = from + idiv(kx * DX, BY) + ((kx * DX) % BY) * PHASE;
                let weight = by + (ADJOINT ? KW - 1 - kx : kx);
                let k = 0;
                while (k < INPUTS) {
                  step(pixel, weight);
                  pixel += plane;
                  weight += W_IN;
                  k += 1;
                }
              }
            } else {
              for (let k = 0; k < INPUTS; k++) {
                let kx = 0;
                while (kx < KW) {
                  const pixel = from + k * plane + idiv(kx * DX, BY) + ((kx * DX) % BY) * PHASE;
                  step(pixel, by + k * W_IN + (ADJOINT ? KW - 1 - kx : kx));
                  kx += 1;
                }
              }
            }
          }
        }
        for (let i = 0; i < rows; i++) {
          const channel = g * OUTPUTS + o + i;
          const to = ((n * (GROUPS * OUTPUTS) + channel) * OH + r) * OW + c;
          for (let j = 0; j < vectors; j++) {
            if (j > 0 || skip === 0) {
              store4(y, to + 4 * j, finish(acc[i][j], n, channel, r, c + 4 * j));
            } else {
              for (let l = skip; l < 4; l++) y[to + l] = finish(lane(acc[i][0], l), n, channel, r, c + l);
            }
          }
        }
      };

      for (let s = 0; s < STRIPS.length; s++) {
        const strip = STRIPS[s]!;
        const R = strip.vectors === 2 ? 4 : 8;
        const channels = (o: number, rows: number) => {
          for (let r = top; r < bottom; r++) {
            for (let c = strip.start; c < strip.end; c += 4 * strip.vectors)
              tile(o, r, c, rows, strip.vectors, strip.skip);
          }
        };
        const whole = OUTPUTS - (OUTPUTS % R);
        for (let o = 0; o < whole; o += R) channels(o, R);
        if (OUTPUTS % R > 0) channels(whole, OUTPUTS % R);
      }
    },
    {
      ...{
        GROUPS: groups,
        BANDS: bands,
        BAND: band,
        INPUTS: inputs,
        OUTPUTS: outputs,
        finish: problem.finish,
      },
      ...{ H: size[0], W: size[1], OH: outSize[0], OW: outSize[1], KH: kernel[0], KW: kernel[1] },
      ...{ SY: stride[0], DY: dilation[0], DX: dilation[1], PY: padding[0], ADJOINT: problem.adjoint },
      ...{
        COPIED: row.copied,
        HELD: held,
        PITCH: row.pitch,
        PHASE: row.phase,
        BY: row.by,
        SPREAD: row.spread,
      },
      ...{ LEFT: row.left, STRIPS: stripsOf(outSize[1]), TAP: taps },
      ...{ W_IN: problem.adjoint ? outputs * taps : taps, W_OUT: problem.adjoint ? taps : inputs * taps },
      ...{ X_AT: problem.imageOffset, W_AT: problem.weightOffset },
    },
  );
  return { kernel: ir, blocks: images * groups * bands };
}
