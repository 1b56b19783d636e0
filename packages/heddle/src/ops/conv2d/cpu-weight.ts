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
 * On a 3 GHz Xeon (bare micro-kernel 34 GFLOP/s) 16 × 26 × 26 → 32 ran at 11 with addresses computed from loop
 * variables, which the engine repeats in the innermost loop; at 23 with addresses carried through the loops; at 27
 * with taps of neighbouring channels, which share an address.
 *
 * A block is R output channels × a run of taps, long enough to read each image row for several of them and short
 * enough that all workers have something to do.
 */
import { f32 } from '../../core/dtype.js';
import { buffer } from '../../kernel/ir/types.js';
import { defineKernel } from '../../kernel/language/language.js';
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

/** The images, padded; place i of a row holds column i / PHASE + stride·(i % PHASE). */
export function padImages(problem: CpuWeightProblem): Tiled {
  const { images, groups, inputs, size, stride, padding, imageOffset } = problem;
  const { phase, height, pitch } = layoutOf(problem);
  const planes = images * groups * inputs;
  const kernel = defineKernel(
    'conv2dPad',
    { x: buffer(f32), padded: buffer(f32) },
    ({ x, padded }, context) => {
      const { blockIdx, idiv, H, W, HEIGHT, PITCH, PHASE, BY, PY, PX, X_AT } = context;
      for (let r = 0; r < HEIGHT; r++) {
        const to = (blockIdx.x * HEIGHT + r) * PITCH;
        const from = X_AT + (blockIdx.x * H + r - PY) * W;
        const there = r >= PY && r < H + PY;
        for (let i = 0; i < PITCH; i++) {
          const column = idiv(i, PHASE) + BY * (i % PHASE) - PX;
          padded[to + i] = there && column >= 0 && column < W ? x[from + column] : 0;
        }
      }
    },
    {
      ...{ H: size[0], W: size[1], HEIGHT: height, PITCH: pitch, PHASE: phase, BY: stride[1] },
      ...{ PY: padding[0], PX: padding[1], X_AT: imageOffset },
    },
  );
  return { kernel, blocks: planes };
}

/** dW from the images (padded, if a copy is needed) and the outputs' gradient. */
export function convolveWeight(problem: CpuWeightProblem): Tiled {
  const { images, groups, inputs, outputs, outSize, kernel, stride, dilation, leastBlocks } = problem;
  const { copied, phase, height, pitch } = layoutOf(problem);
  const taps = inputs * kernel[0] * kernel[1];
  // 8 accumulators: R channels × T taps.
  const R = outputs % 4 === 0 ? 4 : outputs % 2 === 0 ? 2 : outputs > 4 ? 4 : 1;
  const T = 8 / R;
  const down = Math.ceil(outputs / R);
  const wanted = Math.ceil(leastBlocks / (groups * down));
  const run = Math.max(T, T * Math.ceil(taps / (T * Math.min(wanted, 64))));
  const across = Math.ceil(taps / run);
  const ir = defineKernel(
    'conv2dWeight',
    { x: buffer(f32), dy: buffer(f32), dw: buffer(f32) },
    ({ x, dy, dw }, context) => {
      const { blockIdx, f32, i32, idiv, lane, local, local4, load4, splat4, vec4, select, fma, finish } =
        context;
      const { GROUPS, IMAGES, INPUTS, OUTPUTS, TAPS, RUN, R, T, DOWN, ACROSS, INSIDE, LINES } = context;
      const { OH, OW, KH, KW, SY, BY, DY, DX, HEIGHT, PITCH, PHASE, X_AT, DY_AT } = context;
      const first = (blockIdx.x % ACROSS) * RUN;
      const o = (idiv(blockIdx.x, ACROSS) % DOWN) * R;
      const g = GROUPS === 1 ? 0 : idiv(blockIdx.x, ACROSS * DOWN);
      const run = Math.min(RUN, TAPS - first);
      const sums = local4(f32, RUN * R);
      for (let i = 0; i < RUN * R; i++) sums[i] = splat4(0);
      const whole = OW - (OW % 4);
      const fresh = vec4(0, 1, 2, 3) >= splat4(4 - (OW % 4));

      // Tap t is kernel position `spot(t)` of input channel `plane(t)`; neighbours are neighbouring channels if
      // those come in T, so that one address serves them all.
      const spot = (t: number) => (INSIDE ? idiv(t, INPUTS) : t % (KH * KW));
      const plane = (t: number) => (INSIDE ? t % INPUTS : idiv(t, KH * KW));
      /** Where tap `t` begins, from an image's first element. */
      const place = (t: number) => {
        const kx = spot(t) % KW;
        return (
          (plane(t) * HEIGHT + idiv(spot(t), KW) * DY) * PITCH + idiv(kx * DX, BY) + ((kx * DX) % BY) * PHASE
        );
      };

      /** `rows` channels × `taps` taps from tap `t` on, of image n. */
      const tile = (n: number, t: number, rows: number, taps: number) => {
        const image = X_AT + (n * GROUPS + g) * INPUTS * HEIGHT * PITCH;
        const gradient = DY_AT + (n * (GROUPS * OUTPUTS) + g * OUTPUTS + o) * OH * OW;
        const acc = local4(f32, rows, taps);
        const clear = () => {
          for (let i = 0; i < rows; i++) for (let j = 0; j < taps; j++) acc[i][j] = splat4(0);
        };
        // Loop-carried, or the engine recomputes `place` in the innermost loop.
        const bases = INSIDE ? 1 : taps;
        const at = local(i32, bases);
        for (let j = 0; j < bases; j++) at[j] = image + place(t + j);
        let slopes = gradient;
        /** 4 pixels; `back` of them were there before. */
        const step = (back: number) => {
          const slope = local4(f32, rows);
          for (let i = 0; i < rows; i++) {
            const v = load4(dy, slopes - back + i * OH * OW);
            slope[i] = back > 0 ? select(fresh, v, splat4(0)) : v;
          }
          for (let j = 0; j < taps; j++) {
            const pixels = load4(x, INSIDE ? at[0] - back + j * HEIGHT * PITCH : at[j] - back);
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
          if (OW % 4 > 0) step(4 - (OW % 4));
          slopes += OW - whole;
          for (let j = 0; j < bases; j++) at[j] += SY * PITCH - whole;
          r += 1;
        };
        const add = () => {
          for (let i = 0; i < rows; i++)
            for (let j = 0; j < taps; j++) sums[(t - first + j) * R + i] += acc[i][j];
        };
        clear();
        if (OH <= LINES) {
          while (r < OH) line();
          add();
        } else {
          while (r < OH) {
            const end = Math.min(r + LINES, OH);
            while (r < end) line();
            add();
            clear();
          }
        }
      };

      const channels = (rows: number) => {
        let n = 0;
        while (n < IMAGES) {
          const even = run - (run % T);
          for (let t = 0; t < even; t += T) tile(n, first + t, rows, T);
          if (TAPS % T > 0 && even < run) tile(n, first + even, rows, TAPS % T);
          n += 1;
        }
        for (let i = 0; i < rows; i++) {
          for (let t = 0; t < run; t++) {
            const v = sums[t * R + i];
            const sum = lane(v, 0) + lane(v, 2) + (lane(v, 1) + lane(v, 3));
            const tap = first + t;
            const channel = g * OUTPUTS + o + i;
            const k = spot(tap);
            dw[channel * TAPS + plane(tap) * KH * KW + k] = finish(
              sum,
              channel,
              plane(tap),
              idiv(k, KW),
              k % KW,
            );
          }
        }
      };
      if (OUTPUTS % R === 0 || o + R <= OUTPUTS) channels(R);
      else channels(OUTPUTS % R);
    },
    {
      ...{ GROUPS: groups, IMAGES: images, INPUTS: inputs, OUTPUTS: outputs, TAPS: taps, RUN: run, R, T },
      ...{
        DOWN: down,
        ACROSS: across,
        INSIDE: inputs % T === 0,
        LINES: Math.ceil(LEVEL / Math.ceil(outSize[1] / 4)),
        OH: outSize[0],
        OW: outSize[1],
        KH: kernel[0],
        KW: kernel[1],
      },
      ...{ SY: stride[0], BY: stride[1], DY: dilation[0], DX: dilation[1], finish: problem.finish },
      ...{ HEIGHT: height, PITCH: pitch, PHASE: phase, X_AT: copied ? 0 : problem.imageOffset },
      DY_AT: problem.gradientOffset,
    },
  );
  return { kernel: ir, blocks: groups * down * across };
}
