/**
 * Convolution on the CPU without im2col: vectors lie along the output's rows, weights are splat loads. f32.
 *
 * A tile is 4 output channels × 8 pixels of a row: 8 accumulators of 4 lanes. For every tap it takes 2 wide loads
 * of the image (at any alignment, so a tap to the right is the same load one element on), 4 splat loads of weights
 * and 8 multiply-adds: the arithmetic of a packed matmul. What 8 does not divide at the end of a row is done by
 * 8 channels × 4 pixels, or, one or two columns of many channels, by vectors along the channels. Tiles may overlap at
 * the right edge; only new pixels are stored.
 *
 * A block is a band of rows of one image and group. It first copies the rows it reads into memory of the worker,
 * row by row with the channels of a row together. All rows and channels of a kernel's column are then one run at
 * one distance, and the innermost loop is kernel height × channels long (taken from the image where it lies, loops
 * of channels only: 29 GFLOP/s instead of 33 of the micro-kernel's 34). The copy also brings
 *   horizontal padding   zeros around the rows
 *   horizontal stride    the columns of each phase together, so that taps stay wide loads
 * and rows above and below the image are left out of the run, so vertical padding costs nothing.
 *
 * `while` stands where a loop of few turns must stay one: unrolled, the code grows and the engine spills.
 *
 * The input gradient is the same kernel on the outputs' gradient: weights flipped and channels exchanged as they
 * are packed, and for strides zeros put between the columns of the copy.
 *
 * Measured in GFLOP/s with 2 threads of a 4th-generation Xeon (bare micro-kernel 2 × 55), 64 images of 16 × 26 × 26,
 * 32 kernels of 3 × 3: forward 106, input gradient 97.
 */
import { f32 } from '../../core/dtype.js';
import { buffer } from '../../kernel/ir/types.js';
import { defineKernel } from '../../kernel/language/language.js';
import type { Tiled } from '../tiled.js';
import type { ConvolveProblem } from './problem.js';

/** A convolution, and how many blocks to aim for at least, if the rows suffice. */
export interface CpuConvolveProblem extends ConvolveProblem {
  readonly leastBlocks: number;
}

/**
 * Columns of a row, from `start` to `end`, that one kind of tile covers: `vectors` of 4 pixels, the first `skip` of
 * which others have stored; or, if `vectors` is 0, all its columns for `quads` times 4 channels.
 */
interface Strip {
  readonly start: number;
  readonly end: number;
  readonly vectors: number;
  readonly skip: number;
  readonly quads: number;
}

/** A row of `width` ≥ 4 as strips. */
export function stripsOf(width: number, channels: number): Strip[] {
  const whole = width - (width % 8);
  const rest = width % 8;
  const few = rest % 4;
  const wide = (start: number, end: number, vectors: number, skip = 0): Strip => ({
    ...{ start, end, vectors, skip, quads: 0 },
  });
  const strips = whole > 0 ? [wide(0, whole, 2)] : [];
  if ((few === 1 || few === 2) && few * channels >= 32) {
    if (rest > 4) strips.push(wide(whole, whole + 4, 1));
    strips.push({ ...wide(width - few, width, 0), quads: 8 / few });
  } else if (rest > 4 && whole > 0) {
    strips.push(wide(width - 8, width, 2, 8 - rest));
  } else {
    if (rest >= 4) strips.push(wide(whole, whole + 4, 1));
    if (few > 0) strips.push(wide(width - 4, width, 1, 4 - few));
  }
  return strips;
}

/** A row as the kernel copies it: `by` phases of `phase` columns, zeros on the left, and between columns. */
function rowLayout({ kernel, stride, dilation, padding, outSize, adjoint }: CpuConvolveProblem) {
  const reach = dilation[1] * (kernel[1] - 1);
  const by = adjoint ? 1 : stride[1];
  const spread = adjoint ? stride[1] : 1;
  const left = adjoint ? reach - padding[1] : padding[1];
  const phase = outSize[1] + Math.floor(reach / by);
  return { by, spread, left, phase, pitch: phase * by };
}

/** Bytes of the worker's copy of the rows, beyond which a band is cut shorter: half a second-level cache. */
const COPY_BYTES = 2 ** 18;

/** Most rows of the image that `rows` rows of the output read. */
const rowsRead = ({ size, kernel, stride, dilation, adjoint }: CpuConvolveProblem, rows: number): number => {
  const reach = dilation[0] * (kernel[0] - 1);
  const span = adjoint ? Math.ceil((rows + reach) / stride[0]) + 1 : (rows - 1) * stride[0] + reach + 1;
  return Math.min(size[0], span);
};

function bandOf(problem: CpuConvolveProblem, pitch: number): number {
  const { images, groups, inputs, outSize, leastBlocks } = problem;
  const bands = Math.ceil(leastBlocks / (images * groups));
  let rows = Math.max(1, Math.ceil(outSize[0] / bands));
  while (rows > 1 && 4 * inputs * pitch * rowsRead(problem, rows) > COPY_BYTES) rows = Math.ceil(rows / 2);
  return rows;
}

/** Weights of 4 output channels side by side, in the order in which a tile reads them: column, row, channel. */
export function packWeights(problem: CpuConvolveProblem): Tiled {
  const { groups, inputs, outputs, kernel, weightOffset, adjoint } = problem;
  const quads = Math.ceil(outputs / 4);
  const ir = defineKernel(
    'conv2dPack',
    { w: buffer(f32), packed: buffer(f32) },
    ({ w, packed }, context) => {
      const { blockIdx, idiv, INPUTS, OUTPUTS, KH, KW, QUADS, ADJOINT, W_IN, W_OUT, W_AT } = context;
      const o = (blockIdx.x % QUADS) * 4;
      const group = W_AT + idiv(blockIdx.x, QUADS) * INPUTS * OUTPUTS * KH * KW;
      let t = 0;
      while (t < KW * KH * INPUTS) {
        const k = t % INPUTS;
        const ky = idiv(t, INPUTS) % KH;
        const kx = idiv(t, KH * INPUTS);
        const from = group + o * W_OUT + k * W_IN + (ADJOINT ? (KH - ky) * KW - 1 - kx : ky * KW + kx);
        const to = (blockIdx.x * KW * KH * INPUTS + t) * 4;
        for (let i = 0; i < 4; i++) packed[to + i] = o + i < OUTPUTS ? w[from + i * W_OUT] : 0;
        t += 1;
      }
    },
    {
      ...{ INPUTS: inputs, OUTPUTS: outputs, KH: kernel[0], KW: kernel[1], QUADS: quads, ADJOINT: adjoint },
      W_IN: (adjoint ? outputs : 1) * kernel[0] * kernel[1],
      W_OUT: (adjoint ? 1 : inputs) * kernel[0] * kernel[1],
      W_AT: weightOffset,
    },
  );
  return { kernel: ir, blocks: groups * quads };
}

/** Floats of scratch memory for the packed weights. */
export const packedWeights = ({ groups, inputs, outputs, kernel }: CpuConvolveProblem): number =>
  groups * Math.ceil(outputs / 4) * 4 * inputs * kernel[0] * kernel[1];

/** The image, contiguous, convolved with packed weights. */
export function convolve(problem: CpuConvolveProblem): Tiled {
  const { images, groups, inputs, outputs, size, outSize, kernel, stride, dilation, padding } = problem;
  const row = rowLayout(problem);
  const band = bandOf(problem, row.pitch);
  const bands = Math.ceil(outSize[0] / band);
  const ir = defineKernel(
    problem.adjoint ? 'conv2dInput' : 'conv2d',
    { x: buffer(f32), w: buffer(f32), y: buffer(f32) },
    ({ x, w, y }, context) => {
      const { blockIdx, f32, idiv, lane, local, local4, load4, store4, splat4, fma, finish } = context;
      const { GROUPS, BANDS, BAND, INPUTS, OUTPUTS, H, W, OH, OW, KH, KW, SY, DY, DX, PY, ADJOINT } = context;
      const { HELD, PITCH, PHASE, BY, SPREAD, LEFT, STRIPS, X_AT } = context;
      const band = blockIdx.x % BANDS;
      const n = idiv(blockIdx.x, BANDS * GROUPS);
      const g = GROUPS === 1 ? 0 : idiv(blockIdx.x, BANDS) % GROUPS;
      const top = band * BAND;
      const bottom = Math.min(top + BAND, OH);

      /** Image row (times the stride, if adjoint) that the kernel's first row meets at output row `r`. */
      const meets = (r: number) => (ADJOINT ? r + PY - DY * (KH - 1) : r * SY - PY);
      const firstRow = Math.max(0, ADJOINT ? idiv(meets(top) + SY - 1, SY) : meets(top));
      const copy = local(f32, HELD * INPUTS * PITCH);
      const image = X_AT + (n * GROUPS + g) * INPUTS * H * W;
      const rowsHeld = Math.min(HELD, H - firstRow);
      for (let r = 0; r < rowsHeld; r++) {
        let k = 0;
        while (k < INPUTS) {
          const to = (r * INPUTS + k) * PITCH;
          const from = image + (k * H + firstRow + r) * W;
          if (BY === 1 && SPREAD === 1) {
            const start = Math.max(LEFT, 0);
            const count = Math.min(W, PITCH - LEFT) - (start - LEFT);
            const first = from + start - LEFT;
            for (let i = 0; i < start; i++) copy[to + i] = 0;
            for (let i = 0; i < count - (count % 4); i += 4)
              store4(copy, to + start + i, load4(x, first + i));
            if (count >= 4 && count % 4 > 0)
              store4(copy, to + start + count - 4, load4(x, first + count - 4));
            else for (let i = 0; i < count % 4; i++) copy[to + start + i] = x[first + i];
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
          k += 1;
        }
      }

      /** `step` for every tap of row r, with the place in the copy of column c, of the weights, and of the next 4. */
      const taps = (
        o: number,
        r: number,
        c: number,
        step: (pixel: number, weight: number, quad: number) => void,
      ) => {
        const quad = KW * KH * INPUTS * 4;
        const weights = (g * idiv(OUTPUTS + 3, 4) + idiv(o, 4)) * quad;
        /** Rows ky to ky + count of the kernel on as many rows of the image from `source` on. */
        const run = (source: number, ky: number, count: number) => {
          let kx = 0;
          while (kx < KW) {
            const place = idiv(kx * DX, BY) + ((kx * DX) % BY) * PHASE;
            let pixel = (source - firstRow) * INPUTS * PITCH + c + place;
            let weight = weights + (kx * KH + ky) * INPUTS * 4;
            const last = weight + count * INPUTS * 4;
            while (weight < last) {
              step(pixel, weight, quad);
              pixel += PITCH;
              weight += 4;
            }
            kx += 1;
          }
        };
        const t = meets(r);
        if (DY === 1 && (SY === 1 || !ADJOINT)) {
          const ky = Math.max(0, 0 - t);
          run(t + ky, ky, Math.min(KH, H - t) - ky);
        } else {
          let ky = 0;
          while (ky < KH) {
            const at = t + DY * ky;
            const source = ADJOINT ? idiv(at, SY) : at;
            if (at >= 0 && source < H && (!ADJOINT || at % SY === 0)) run(source, ky, 1);
            ky += 1;
          }
        }
      };

      const tile = (o: number, r: number, c: number, rows: number, vectors: number, skip: number) => {
        const acc = local4(f32, rows, vectors);
        for (let i = 0; i < rows; i++) {
          for (let j = 0; j < vectors; j++) acc[i][j] = splat4(0);
        }
        taps(o, r, c, (pixel, weight, quad) => {
          const row = local4(f32, vectors);
          for (let j = 0; j < vectors; j++) row[j] = load4(copy, pixel + 4 * j);
          for (let i = 0; i < rows; i++) {
            const factor = splat4(w[weight + (i < 4 ? i : quad + i - 4)]);
            for (let j = 0; j < vectors; j++) acc[i][j] = fma(factor, row[j], acc[i][j]);
          }
        });
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

      /** Lanes are channels here. */
      const columnTile = (o: number, r: number, c: number, quads: number, columns: number) => {
        const acc = local4(f32, quads, columns);
        for (let q = 0; q < quads; q++) {
          for (let j = 0; j < columns; j++) acc[q][j] = splat4(0);
        }
        taps(o, r, c, (pixel, weight, quad) => {
          const column = local4(f32, columns);
          for (let j = 0; j < columns; j++) column[j] = splat4(copy[pixel + j]);
          for (let q = 0; q < quads; q++) {
            const factors = load4(w, weight + q * quad);
            for (let j = 0; j < columns; j++) acc[q][j] = fma(factors, column[j], acc[q][j]);
          }
        });
        for (let q = 0; q < quads; q++) {
          for (let l = 0; l < 4; l++) {
            const channel = g * OUTPUTS + o + 4 * q + l;
            const to = ((n * (GROUPS * OUTPUTS) + channel) * OH + r) * OW + c;
            if (OUTPUTS % 4 === 0 || o + 4 * q + l < OUTPUTS) {
              for (let j = 0; j < columns; j++) y[to + j] = finish(lane(acc[q][j], l), n, channel, r, c + j);
            }
          }
        }
      };

      for (let s = 0; s < STRIPS.length; s++) {
        const strip = STRIPS[s]!;
        const R = strip.quads > 0 ? 4 * strip.quads : strip.vectors === 2 ? 4 : 8;
        const channels = (o: number, rows: number) => {
          for (let r = top; r < bottom; r++) {
            if (strip.quads > 0) {
              columnTile(o, r, strip.start, idiv(rows + 3, 4), strip.end - strip.start);
            } else {
              let c = strip.start;
              while (c < strip.end) {
                tile(o, r, c, rows, strip.vectors, strip.skip);
                c += 4 * strip.vectors;
              }
            }
          }
        };
        const whole = OUTPUTS - (OUTPUTS % R);
        let o = 0;
        while (o < whole) {
          channels(o, R);
          o += R;
        }
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
        HELD: rowsRead(problem, band),
        PITCH: row.pitch,
        PHASE: row.phase,
        BY: row.by,
        SPREAD: row.spread,
      },
      ...{ LEFT: row.left, STRIPS: stripsOf(outSize[1], outputs), X_AT: problem.imageOffset },
    },
  );
  return { kernel: ir, blocks: images * groups * bands };
}
