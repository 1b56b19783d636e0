/**
 * Convolution with 3 × 3 kernels by Winograd's F(2 × 2, 3 × 3) on a GPU: 16 products for 4 outputs instead of 36. f32.
 * S. Winograd, Arithmetic Complexity of Computations, 1980; A. Lavin, S. Gray, Fast Algorithms for Convolutional
 * Neural Networks, 2016.
 *
 *   Y = Aᵀ [ (G g Gᵀ) ⊙ (Bᵀ d B) ] A    for a patch d of 4 × 4 pixels and a kernel g
 *
 * A first kernel transforms the weights. Then a block has 32 output channels × 32 patches, and sums over input
 * channels, 8 at a time: each thread transforms one patch of one channel on its way to shared memory; each warp does
 * two of the 16 products, which are matrix products over channels. The sums are exchanged through shared memory,
 * transformed back and finished.
 *
 * The adjoint in the image is the same with the kernel turned by half a turn and the channels exchanged.
 *
 * H200, µs: 256 × 64 × 32² with 64 kernels 336 (conv2d-cuda.ts 607), 256 × 256 × 8² with 256 kernels 323 (583); adjoint
 * 334 and 314.
 */
import { f32 } from '../../core/dtype.js';
import { buffer } from '../../kernel/ir/types.js';
import { defineKernel } from '../../kernel/language/language.js';
import type { GridKernel } from '../tiled.js';
import type { ConvolveProblem } from './problem.js';

/** Output channels and patches of a block, input channels at a time. */
const CHANNELS = 32;
const PATCHES = 32;
const CHUNK = 8;
const THREADS = 256;

/** Whether the algorithm is for this. */
export const suitsWinograd = ({ kernel, stride, dilation, inputs, outputs }: ConvolveProblem): boolean =>
  [...kernel, 3].every((k) => k === 3) &&
  [...stride, ...dilation].every((s) => s === 1) &&
  inputs >= CHUNK &&
  outputs >= CHANNELS / 2;

const padded = (channels: number): number => Math.ceil(channels / CHANNELS) * CHANNELS;

/** Floats of the transformed weights: (group, 16, input, output padded to 32). */
export const winogradFloats = ({ groups, inputs, outputs }: ConvolveProblem): number =>
  groups * 16 * inputs * padded(outputs);

/** G g Gᵀ of every kernel. */
export function winogradWeights(p: ConvolveProblem): GridKernel {
  const count = p.groups * p.inputs * padded(p.outputs);
  const kernel = defineKernel(
    'winogradWeights',
    { w: buffer(f32), u: buffer(f32) },
    ({ w, u }, context) => {
      const { globalId, idiv, local, f32, COUNT, INPUTS, OUTPUTS, PADDED, ADJOINT, W_AT } = context;
      const i = globalId.x;
      if (i >= COUNT) return;
      const o = i % PADDED;
      const c = idiv(i, PADDED) % INPUTS;
      const g = idiv(i, PADDED * INPUTS);
      const from = W_AT + (ADJOINT ? (g * INPUTS + c) * OUTPUTS + o : (g * OUTPUTS + o) * INPUTS + c) * 9;
      const rows = local(f32, 4, 3);
      for (let x = 0; x < 3; x++) {
        const k = local(f32, 3);
        for (let y = 0; y < 3; y++) k[y] = o < OUTPUTS ? w[from + (ADJOINT ? 8 - y * 3 - x : y * 3 + x)] : 0;
        rows[0][x] = k[0];
        rows[1][x] = (k[0] + k[1] + k[2]) * 0.5;
        rows[2][x] = (k[0] - k[1] + k[2]) * 0.5;
        rows[3][x] = k[2];
      }
      for (let y = 0; y < 4; y++) {
        const to = ((g * 16 + y * 4) * INPUTS + c) * PADDED + o;
        const step = INPUTS * PADDED;
        u[to] = rows[y][0];
        u[to + step] = (rows[y][0] + rows[y][1] + rows[y][2]) * 0.5;
        u[to + 2 * step] = (rows[y][0] - rows[y][1] + rows[y][2]) * 0.5;
        u[to + 3 * step] = rows[y][2];
      }
    },
    {
      ...{ COUNT: count, INPUTS: p.inputs, OUTPUTS: p.outputs, PADDED: padded(p.outputs) },
      ...{ ADJOINT: p.adjoint, W_AT: p.weightOffset },
    },
  );
  return { kernel, grid: [Math.ceil(count / THREADS), 1, 1], threads: THREADS, sharedBytes: 0 };
}

/** The images convolved with transformed weights. */
export function winograd(p: ConvolveProblem): GridKernel {
  const down = Math.ceil(p.outSize[0] / 2);
  const across = Math.ceil(p.outSize[1] / 2);
  const patches = p.images * down * across;
  const blocks = Math.ceil(p.outputs / CHANNELS);
  const kernel = defineKernel(
    p.adjoint ? 'winogradInput' : 'winograd',
    { x: buffer(f32), u: buffer(f32), y: buffer(f32) },
    ({ x, u, y }, context) => {
      const { threadIdx, blockIdx, warpId, laneId, idiv, f32 } = context;
      const { local, local4, load4, splat4, lane, fma, dynamicShared, barrier, finish } = context;
      const { GROUPS, INPUTS, OUTPUTS, PADDED, H, W, OH, OW, PY, PX, DOWN, ACROSS, PATCH_COUNT } = context;
      const { BLOCKS, CHANNELS, PATCHES, CHUNK, THREADS, X_AT } = context;
      const held = dynamicShared(f32);
      const g = GROUPS === 1 ? 0 : idiv(blockIdx.y, BLOCKS);
      const firstChannel = (blockIdx.y % BLOCKS) * CHANNELS;
      const patch = blockIdx.x * PATCHES + laneId;
      const n = idiv(patch, ACROSS * DOWN);
      const row = 2 * (idiv(patch, ACROSS) % DOWN);
      const column = 2 * (patch % ACROSS);
      const IMAGE_AT = 16 * CHUNK * CHANNELS;
      const quad = (laneId % 8) * 4;
      const eight = idiv(laneId, 8) * 8;
      const sums = local4(f32, 2, 8);
      for (let f = 0; f < 2; f++) for (let j = 0; j < 8; j++) sums[f][j] = splat4(0);

      let first = 0;
      while (first < INPUTS) {
        if (first > 0) barrier();
        // Warp w has channel w of the 8, a lane one patch of it.
        const channel = first + warpId;
        const image = X_AT + ((n * GROUPS + g) * INPUTS + channel) * H * W;
        const d = local(f32, 4, 4);
        for (let j = 0; j < 4; j++) {
          for (let i = 0; i < 4; i++) {
            const iy = row - PY + j;
            const ix = column - PX + i;
            const inside = patch < PATCH_COUNT && channel < INPUTS;
            const there = inside && iy >= 0 && iy < H && ix >= 0 && ix < W;
            d[j][i] = there ? x[image + iy * W + ix] : 0;
          }
        }
        const factors = local(f32, 16);
        for (let b = 0; b < 16; b++) {
          const input = first + idiv(threadIdx.x, CHANNELS);
          const from = ((g * 16 + b) * INPUTS + input) * PADDED + firstChannel + (threadIdx.x % CHANNELS);
          factors[b] = input < INPUTS ? u[from] : 0;
        }
        for (let b = 0; b < 16; b++) held[b * CHUNK * CHANNELS + threadIdx.x] = factors[b];
        for (let i = 0; i < 4; i++) {
          const a = d[0][i] - d[2][i];
          const b = d[1][i] + d[2][i];
          const c = d[2][i] - d[1][i];
          const e = d[1][i] - d[3][i];
          d[0][i] = a;
          d[1][i] = b;
          d[2][i] = c;
          d[3][i] = e;
        }
        for (let j = 0; j < 4; j++) {
          const to = IMAGE_AT + (j * 4 * CHUNK + warpId) * PATCHES + laneId;
          held[to] = d[j][0] - d[j][2];
          held[to + CHUNK * PATCHES] = d[j][1] + d[j][2];
          held[to + 2 * CHUNK * PATCHES] = d[j][2] - d[j][1];
          held[to + 3 * CHUNK * PATCHES] = d[j][1] - d[j][3];
        }
        barrier();
        for (let f = 0; f < 2; f++) {
          let c = 0;
          while (c < CHUNK) {
            const at = (warpId * 2 + f) * CHUNK + c;
            const factor = load4(held, at * CHANNELS + quad);
            for (let q = 0; q < 2; q++) {
              const v = load4(held, IMAGE_AT + at * PATCHES + eight + 4 * q);
              for (let l = 0; l < 4; l++)
                sums[f][4 * q + l] = fma(factor, splat4(lane(v, l)), sums[f][4 * q + l]);
            }
            c += 1;
          }
        }
        first += CHUNK;
      }

      barrier();
      for (let f = 0; f < 2; f++) {
        for (let j = 0; j < 8; j++) {
          const to = ((warpId * 2 + f) * PATCHES + eight + j) * (CHANNELS + 1) + quad;
          for (let l = 0; l < 4; l++) held[to + l] = lane(sums[f][j], l);
        }
      }
      barrier();
      let mine = warpId;
      while (mine < CHANNELS) {
        const o = firstChannel + mine;
        const m = local(f32, 4, 4);
        for (let f = 0; f < 16; f++)
          m[idiv(f, 4)][f % 4] = held[(f * PATCHES + laneId) * (CHANNELS + 1) + mine];
        const half = local(f32, 2, 4);
        for (let i = 0; i < 4; i++) {
          half[0][i] = m[0][i] + m[1][i] + m[2][i];
          half[1][i] = m[1][i] - m[2][i] - m[3][i];
        }
        for (let j = 0; j < 2; j++) {
          const r = row + j;
          const channel = g * OUTPUTS + o;
          const to = ((n * (GROUPS * OUTPUTS) + channel) * OH + r) * OW + column;
          const left = half[j][0] + half[j][1] + half[j][2];
          const right = half[j][1] - half[j][2] - half[j][3];
          if (patch < PATCH_COUNT && o < OUTPUTS && r < OH) {
            y[to] = finish(left, n, channel, r, column);
            if (column + 1 < OW) y[to + 1] = finish(right, n, channel, r, column + 1);
          }
        }
        mine += THREADS / 32;
      }
    },
    {
      ...{ GROUPS: p.groups, INPUTS: p.inputs, OUTPUTS: p.outputs, PADDED: padded(p.outputs) },
      ...{ H: p.size[0], W: p.size[1], OH: p.outSize[0], OW: p.outSize[1] },
      PY: p.adjoint ? 2 - p.padding[0] : p.padding[0],
      PX: p.adjoint ? 2 - p.padding[1] : p.padding[1],
      ...{ DOWN: down, ACROSS: across, PATCH_COUNT: patches, BLOCKS: blocks },
      ...{ CHANNELS, PATCHES, CHUNK, THREADS, X_AT: p.imageOffset, finish: p.finish },
    },
  );
  return {
    kernel,
    grid: [Math.ceil(patches / PATCHES), p.groups * blocks, 1],
    threads: THREADS,
    sharedBytes: 4 * 16 * PATCHES * (CHANNELS + 1),
  };
}
