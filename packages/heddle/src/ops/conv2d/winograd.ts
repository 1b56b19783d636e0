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
 * Where it suits, it takes a little more than half of the time of cuda.ts.
 */
import { f32 } from '../../core/dtype.js';
import { buffer } from '../../kernel/ir/types.js';
import { type Cast, defineKernel, type Intrinsics, type Memory } from '../../kernel/language/language.js';
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
  const outputs = padded(p.outputs);
  const count = p.groups * p.inputs * outputs;
  const kernel = defineKernel(
    'winogradWeights',
    { w: buffer(p.dtype), u: buffer(f32) },
    ({ w, u }, context) => {
      const { globalId, idiv, local, f32, problem, count, padded } = context;
      const { inputs, outputs, adjoint, weightOffset } = problem;
      const i = globalId.x;
      if (i >= count) return;
      const o = i % padded;
      const c = idiv(i, padded) % inputs;
      const g = idiv(i, padded * inputs);
      const from =
        weightOffset + (adjoint ? (g * inputs + c) * outputs + o : (g * outputs + o) * inputs + c) * 9;
      const rows = local(f32, 4, 3);
      for (let x = 0; x < 3; x++) {
        const k = local(f32, 3);
        for (let y = 0; y < 3; y++)
          k[y] = o < outputs ? f32(w[from + (adjoint ? 8 - y * 3 - x : y * 3 + x)]) : 0;
        rows[0][x] = k[0];
        rows[1][x] = (k[0] + k[1] + k[2]) * 0.5;
        rows[2][x] = (k[0] - k[1] + k[2]) * 0.5;
        rows[3][x] = k[2];
      }
      for (let y = 0; y < 4; y++) {
        const to = ((g * 16 + y * 4) * inputs + c) * padded + o;
        const step = inputs * padded;
        u[to] = rows[y][0];
        u[to + step] = (rows[y][0] + rows[y][1] + rows[y][2]) * 0.5;
        u[to + 2 * step] = (rows[y][0] - rows[y][1] + rows[y][2]) * 0.5;
        u[to + 3 * step] = rows[y][2];
      }
    },
    { problem: p, count, padded: outputs },
  );
  return { kernel, grid: [Math.ceil(count / THREADS), 1, 1], threads: THREADS, sharedBytes: 0 };
}

/** What the device functions below know when the kernel is compiled. */
function constantsOf(p: ConvolveProblem) {
  const down = Math.ceil(p.outSize[0] / 2);
  const across = Math.ceil(p.outSize[1] / 2);
  return {
    problem: p,
    /** What a block computes, and input channels at a time. */
    tile: { channels: CHANNELS, patches: PATCHES, chunk: CHUNK, threads: THREADS },
    /** Blocks that share the output channels of a group, and output channels of all of them. */
    blocks: Math.ceil(p.outputs / CHANNELS),
    padded: padded(p.outputs),
    /** Patches of the output, of a column and of a row of an image, and of all. */
    patches: { down, across, count: p.images * down * across },
    /** Rows and columns of zeros above and left of the image. */
    before: p.adjoint ? ([2 - p.padding[0], 2 - p.padding[1]] as const) : p.padding,
    /** Where the image begins in shared memory, after the weights. */
    imageAt: 16 * CHUNK * CHANNELS,
    element: p.dtype as Cast<'f32'>,
    finish: p.finish,
  };
}

type Context = Intrinsics & ReturnType<typeof constantsOf>;

/** What a thread works on: the group, the block's first output channel, and the patch that its lane has. */
function threadPlace({ problem, tile, blocks, patches, blockIdx, laneId, idiv }: Context) {
  const group = problem.groups === 1 ? 0 : idiv(blockIdx.y, blocks);
  const channel = (blockIdx.y % blocks) * tile.channels;
  const patch = blockIdx.x * tile.patches + laneId;
  const image = idiv(patch, patches.across * patches.down);
  const row = 2 * (idiv(patch, patches.across) % patches.down);
  const column = 2 * (patch % patches.across);
  return { group, channel, patch, image, row, column };
}

type ThreadPlace = ReturnType<typeof threadPlace>;

/** Loads the 4 × 4 pixels under the thread's patch, of its warp's channel of those from `first` on. */
function loadPatch(x: Memory, d: Memory, first: number, place: ThreadPlace, context: Context): void {
  const { warpId, f32, problem, patches, before } = context;
  const { groups, inputs, size } = problem;
  const channel = first + warpId;
  const image =
    problem.imageOffset + ((place.image * groups + place.group) * inputs + channel) * size[0] * size[1];
  for (let j = 0; j < 4; j++) {
    for (let i = 0; i < 4; i++) {
      const iy = place.row - before[0] + j;
      const ix = place.column - before[1] + i;
      const inside = place.patch < patches.count && channel < inputs;
      const there = inside && iy >= 0 && iy < size[0] && ix >= 0 && ix < size[1];
      d[j][i] = there ? f32(x[image + iy * size[1] + ix]) : 0;
    }
  }
}

/** Copies the weights of the channels from `first` on to shared memory, all loads before all stores. */
function copyWeights(u: Memory, held: Memory, first: number, place: ThreadPlace, context: Context): void {
  const { threadIdx, idiv, f32, local, problem, tile, padded } = context;
  const factors = local(f32, 16);
  for (let b = 0; b < 16; b++) {
    const input = first + idiv(threadIdx.x, tile.channels);
    const row = (place.group * 16 + b) * problem.inputs + input;
    const from = row * padded + place.channel + (threadIdx.x % tile.channels);
    factors[b] = input < problem.inputs ? u[from] : 0;
  }
  for (let b = 0; b < 16; b++) held[b * tile.chunk * tile.channels + threadIdx.x] = factors[b];
}

/** Bᵀ d B, to shared memory. */
function transformPatch(d: Memory, held: Memory, { warpId, laneId, tile, imageAt }: Context): void {
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
  const step = tile.chunk * tile.patches;
  for (let j = 0; j < 4; j++) {
    const to = imageAt + (j * 4 * tile.chunk + warpId) * tile.patches + laneId;
    held[to] = d[j][0] - d[j][2];
    held[to + step] = d[j][1] + d[j][2];
    held[to + 2 * step] = d[j][2] - d[j][1];
    held[to + 3 * step] = d[j][1] - d[j][3];
  }
}

/** Adds the products of the chunk in shared memory: a warp does 2 of the 16, a lane 4 channels × 8 patches of each. */
function addProducts(held: Memory, sums: Memory, quad: number, eight: number, context: Context): void {
  const { warpId, load4, lane, splat4, fma, tile, imageAt } = context;
  for (let f = 0; f < 2; f++) {
    let c = 0;
    while (c < tile.chunk) {
      const at = (warpId * 2 + f) * tile.chunk + c;
      const factor = load4(held, at * tile.channels + quad);
      for (let q = 0; q < 2; q++) {
        const v = load4(held, imageAt + at * tile.patches + eight + 4 * q);
        for (let l = 0; l < 4; l++) sums[f][4 * q + l] = fma(factor, splat4(lane(v, l)), sums[f][4 * q + l]);
      }
      c += 1;
    }
  }
}

/** Hands the sums to the threads that transform them back, through shared memory. */
function exchangeSums(held: Memory, sums: Memory, quad: number, eight: number, context: Context): void {
  const { warpId, lane, barrier, tile } = context;
  barrier();
  for (let f = 0; f < 2; f++) {
    for (let j = 0; j < 8; j++) {
      const to = ((warpId * 2 + f) * tile.patches + eight + j) * (tile.channels + 1) + quad;
      for (let l = 0; l < 4; l++) held[to + l] = lane(sums[f][j], l);
    }
  }
  barrier();
}

/** Aᵀ m A of the thread's patch, for every so many-th output channel of the block, stored. */
function storePatches(y: Memory, held: Memory, place: ThreadPlace, context: Context): void {
  const { warpId, laneId, idiv, f32, local, element, finish, problem, tile, patches } = context;
  const { groups, outputs, outSize } = problem;
  let mine = warpId;
  while (mine < tile.channels) {
    const o = place.channel + mine;
    const m = local(f32, 4, 4);
    for (let f = 0; f < 16; f++)
      m[idiv(f, 4)][f % 4] = held[(f * tile.patches + laneId) * (tile.channels + 1) + mine];
    const half = local(f32, 2, 4);
    for (let i = 0; i < 4; i++) {
      half[0][i] = m[0][i] + m[1][i] + m[2][i];
      half[1][i] = m[1][i] - m[2][i] - m[3][i];
    }
    for (let j = 0; j < 2; j++) {
      const r = place.row + j;
      const channel = place.group * outputs + o;
      const to = ((place.image * (groups * outputs) + channel) * outSize[0] + r) * outSize[1] + place.column;
      const left = half[j][0] + half[j][1] + half[j][2];
      const right = half[j][1] - half[j][2] - half[j][3];
      if (place.patch < patches.count && o < outputs && r < outSize[0]) {
        y[to] = finish(element(left), place.image, channel, r, place.column);
        if (place.column + 1 < outSize[1])
          y[to + 1] = finish(element(right), place.image, channel, r, place.column + 1);
      }
    }
    mine += tile.threads / 32;
  }
}

/** The images convolved with transformed weights. */
export function winograd(p: ConvolveProblem): GridKernel {
  const constants = constantsOf(p);
  const { patches, blocks } = constants;
  const kernel = defineKernel(
    p.adjoint ? 'winogradInput' : 'winograd',
    { x: buffer(p.dtype), u: buffer(f32), y: buffer(p.dtype) },
    ({ x, u, y }, context) => {
      const { laneId, idiv, f32, local, local4, splat4, dynamicShared, barrier } = context;
      const { threadPlace, loadPatch, copyWeights, transformPatch, addProducts } = context;
      const { exchangeSums, storePatches, problem, tile } = context;
      const held = dynamicShared(f32);
      const place = threadPlace(context);
      const quad = (laneId % 8) * 4;
      const eight = idiv(laneId, 8) * 8;
      const sums = local4(f32, 2, 8);
      for (let f = 0; f < 2; f++) for (let j = 0; j < 8; j++) sums[f][j] = splat4(0);

      let first = 0;
      while (first < problem.inputs) {
        if (first > 0) barrier();
        const d = local(f32, 4, 4);
        loadPatch(x, d, first, place, context);
        copyWeights(u, held, first, place, context);
        transformPatch(d, held, context);
        barrier();
        addProducts(held, sums, quad, eight, context);
        first += tile.chunk;
      }
      exchangeSums(held, sums, quad, eight, context);
      storePatches(y, held, place, context);
    },
    {
      ...constants,
      threadPlace,
      loadPatch,
      copyWeights,
      transformPatch,
      addProducts,
      exchangeSums,
      storePatches,
    },
  );
  return {
    kernel,
    grid: [Math.ceil(patches.count / PATCHES), p.groups * blocks, 1],
    threads: THREADS,
    sharedBytes: 4 * 16 * PATCHES * (CHANNELS + 1),
  };
}
