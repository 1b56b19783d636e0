/**
 * One step of a recurrent network on a GPU, or of its gradient, for a launch per step: all launches are of one kernel, which is
 * told the step's number, and one CUDA graph holds them. f32.
 *
 * A block computes some features of some rows, with all gates of them, so that the cell is computed where the product with
 * the state is summed. Warps share K, and their sums are added in shared memory; both operands come by asynchronous
 * copies, all of K at once where there is room.
 *
 * Why so: the product of a step is small, (64 × 256) · (256 × 1024) for 256 features of an LSTM, and depends on the step
 * before. A block that takes a row through all steps reads the whole matrix of weights at each, from the second-level
 * cache: 1 MiB at about 64 bytes a cycle are 9 µs, and were measured as 60. Cut into 128 tiles of 16 rows and 8 features,
 * a block reads 48 KiB (0.5 µs) and multiplies 131,000 times (0.6 µs); to start a launch behind another takes 0.6 µs, and
 * to wait for memory once or twice as long. A kernel that keeps the weights and meets all its blocks at each step would
 * save the 48 KiB, but not the waits: it writes and reads the state, and the arrivals, through the same cache.
 */
import { i32 } from '../../core/dtype.js';
import type { KernelIr } from '../../kernel/ir/ir.js';
import { defineKernel, type Intrinsics, type Memory } from '../../kernel/language/language.js';
import type { GridKernel } from '../tiled.js';
import {
  BACKWARD,
  BACKWARD_ELEMENTS,
  backwardOffsets,
  elementConstants,
  FORWARD,
  FORWARD_ELEMENTS,
  forwardOffsets,
  productOf,
  type StepProduct,
} from './cuda-elements.js';
import type { RecurrentProblem } from './problem.js';

/** How the product of a step is cut. */
export interface StepTile {
  /** Of the batch, of a block. */
  readonly rows: number;
  /** Features of a block, a multiple of 4, with all gates of each. */
  readonly features: number;
  /** Rows of a thread, which sums four columns of each. */
  readonly each: number;
  /** Threads that share K. */
  readonly shares: number;
  /** Steps along K of one copy, a multiple of 8. */
  readonly depth: number;
  /** Copies that are on their way or in use at a time. */
  readonly stages: number;
}

/** A step's product and its tiles, as the kernel needs them. */
interface StepWork extends StepTile {
  readonly K: number;
  /** Columns of the matrix from one feature block to the next, and of a tile. */
  readonly parts: number;
  readonly columns: number;
  readonly chunks: number;
  readonly threads: number;
  /** Lanes of a thread's four columns, and of its rows. */
  readonly quads: number;
  readonly down: number;
  /** Blocks across the features. */
  readonly across: number;
  /** Elements of shared memory from one row of the state to the next, and of a stage. */
  readonly pitch: number;
  readonly stage: number;
  /** Elements of one copy. */
  readonly vector: 1 | 4;
  /** Where in the state's row the blocks of features that are multiplied have a gap, which is as long as one; none if 0. */
  readonly gap: number;
  /** Elements of a thread. */
  readonly own: number;
  readonly sharedBytes: number;
}

/** What a tile takes of a multiprocessor. */
export const needsOf = (tile: StepTile, { parts }: StepProduct) => {
  const columns = parts * tile.features;
  const quads = columns / 4;
  const down = tile.rows / tile.each;
  const threads = Math.ceil((quads * down * tile.shares) / 32) * 32;
  const pitch = tile.depth + 4;
  const stage = tile.rows * pitch + tile.depth * columns;
  const elements = Math.max(tile.stages * stage, tile.shares * tile.rows * columns);
  return { columns, quads, down, threads, pitch, stage, sharedBytes: 4 * elements };
};

function workOf(p: RecurrentProblem, tile: StepTile, isBackward: boolean): StepWork {
  const product = productOf(p, isBackward);
  const { K, parts, blocks } = product;
  const needs = needsOf(tile, product);
  const gap = blocks.findIndex((block, i) => block !== i);
  return {
    ...{ ...tile, ...needs, K, parts },
    chunks: Math.ceil(K / tile.depth),
    across: Math.ceil(p.size / tile.features),
    vector: p.size % 4 === 0 && p.offsets.every((o) => o % 4 === 0) ? 4 : 1,
    gap: Math.max(0, gap) * p.size,
    own: Math.ceil((tile.rows * tile.features) / needs.threads),
  };
}

interface StepContext extends Intrinsics {
  readonly work: StepWork;
  readonly size: number;
  readonly rows: number;
  readonly numbers: number;
  readonly copyState: typeof copyState;
  readonly copyWeights: typeof copyWeights;
  readonly multiplyChunk: typeof multiplyChunk;
  readonly sumProduct: typeof sumProduct;
  readonly elementSum: typeof elementSum;
  readonly eachElement: typeof eachElement;
}

/** An element of a block: its number among the thread's, its place in the tile and in the state. */
type Take = (e: number, row: number, feature: number, n: number, j: number) => void;

/** Starts the copies of steps along K from `k0` on of the block's rows: `x` has the first row at `from`. */
const copyState = (
  held: Memory,
  to: number,
  x: Memory,
  from: number,
  step: number,
  k0: number,
  isThere: boolean,
  context: StepContext,
) => {
  const { blockIdx, copyAsync, copyAsync4, idiv, rows, size, threadIdx, work } = context;
  const { K, gap, depth, pitch, threads, vector } = work;
  const first = idiv(blockIdx.x, work.across) * work.rows;
  const along = depth / vector;
  const total = work.rows * along;
  for (let before = 0; before < total; before += threads) {
    const i = before + threadIdx.x;
    if (total % threads === 0 || i < total) {
      const row = idiv(i, along);
      const k = (i % along) * vector;
      const there = isThere && first + row < rows && k0 + k < K;
      const skipped = gap > 0 && k0 + k >= gap ? size : 0;
      const place = to + row * pitch + k;
      if (vector === 4) copyAsync4(held, place, x, from + (first + row) * step + k0 + k + skipped, there);
      else copyAsync(held, place, x, from + (first + row) * step + k0 + k + skipped, there);
    }
  }
};

/** Starts the copies of steps along K from `k0` on of the block's columns of the weights. */
const copyWeights = (
  held: Memory,
  to: number,
  w: Memory,
  from: number,
  k0: number,
  isThere: boolean,
  context: StepContext,
) => {
  const { blockIdx, copyAsync, copyAsync4, idiv, size, threadIdx, work } = context;
  const { K, columns, depth, features, parts, threads, vector } = work;
  const first = (blockIdx.x % work.across) * features;
  const along = columns / vector;
  const total = depth * along;
  for (let before = 0; before < total; before += threads) {
    const i = before + threadIdx.x;
    if (total % threads === 0 || i < total) {
      const k = idiv(i, along);
      const column = (i % along) * vector;
      const part = idiv(column, features);
      const j = first + (column % features);
      const there = isThere && k0 + k < K && j < size;
      const at = from + ((k0 + k) * parts + part) * size + j;
      if (vector === 4) copyAsync4(held, to + k * columns + column, w, at, there);
      else copyAsync(held, to + k * columns + column, w, at, there);
    }
  }
};

/** Adds the products of a chunk, of the thread's share of its steps, four at a time. */
const multiplyChunk = (sums: Memory, held: Memory, at: number, context: StepContext) => {
  const { fma, idiv, lane, load4, local4, f32, splat4, threadIdx, work } = context;
  const { columns, depth, down, each, pitch, quads, rows, shares } = work;
  const place = threadIdx.x % (quads * down);
  const share = idiv(threadIdx.x, quads * down);
  const row = idiv(place, quads);
  const column = 4 * (place % quads);
  const from = local4(f32, each);
  for (let before = 0; before < depth; before += 4 * shares) {
    const k = before + 4 * share;
    if (depth % (4 * shares) === 0 || k < depth) {
      for (let i = 0; i < each; i++) from[i] = load4(held, at + (row + i * down) * pitch + k);
      for (let l = 0; l < 4; l++) {
        const by = load4(held, at + rows * pitch + (k + l) * columns + column);
        for (let i = 0; i < each; i++) sums[i] = fma(splat4(lane(from[i], l)), by, sums[i]);
      }
    }
  }
};

/**
 * The product of the block's rows and columns, in shared memory: a part for each share of K.
 * @param fetch starts the copies of a chunk to a stage
 * @param beside what is done while they are on their way
 */
const sumProduct = (
  held: Memory,
  fetch: (chunk: number, to: number) => void,
  beside: () => void,
  context: StepContext,
) => {
  const { barrier, commitCopies, idiv, local4, f32, multiplyChunk, splat4, store4, threadIdx } = context;
  const { waitCopies, work } = context;
  const { chunks, columns, down, each, quads, rows, shares, stage, stages, threads } = work;
  const sums = local4(f32, each);
  for (let i = 0; i < each; i++) sums[i] = splat4(f32(0));
  const busy = threads === quads * down * shares || threadIdx.x < quads * down * shares;
  if (chunks <= stages) {
    for (let chunk = 0; chunk < chunks; chunk++) {
      fetch(chunk, chunk * stage);
      commitCopies();
    }
    beside();
    for (let chunk = 0; chunk < chunks; chunk++) {
      waitCopies(chunks - 1 - chunk);
      barrier();
      if (busy) multiplyChunk(sums, held, chunk * stage, context);
    }
  } else {
    for (let chunk = 0; chunk < stages - 1; chunk++) {
      fetch(chunk, chunk * stage);
      commitCopies();
    }
    beside();
    let used = 0;
    let filled = stages - 1;
    let chunk = 0;
    while (chunk < chunks) {
      waitCopies(stages - 2);
      barrier();
      // What all have used before the barrier is filled again.
      fetch(chunk + stages - 1, filled * stage);
      commitCopies();
      if (busy) multiplyChunk(sums, held, used * stage, context);
      used = used === stages - 1 ? 0 : used + 1;
      filled = filled === stages - 1 ? 0 : filled + 1;
      chunk += 1;
    }
    waitCopies(0);
  }
  barrier();
  const place = threadIdx.x % (quads * down);
  const first = idiv(threadIdx.x, quads * down) * rows + idiv(place, quads);
  if (busy)
    for (let i = 0; i < each; i++) store4(held, (first + i * down) * columns + 4 * (place % quads), sums[i]);
  barrier();
};

/** The product of the block's element (row, feature) with a part of the columns: all shares together. */
const elementSum = (held: Memory, row: number, feature: number, part: number, { f32, work }: StepContext) => {
  const { columns, features, rows, shares } = work;
  let sum = f32(0);
  for (let share = 0; share < shares; share++)
    sum = sum + held[(share * rows + row) * columns + part * features + feature];
  return sum;
};

/** Does something for each of the thread's elements. */
const eachElement = (take: Take, { blockIdx, idiv, rows, size, threadIdx, work }: StepContext) => {
  const { across, features, own, threads } = work;
  for (let e = 0; e < own; e++) {
    const i = e * threads + threadIdx.x;
    const row = idiv(i, features);
    const feature = i % features;
    const n = idiv(blockIdx.x, across) * work.rows + row;
    const j = (blockIdx.x % across) * features + feature;
    if (i < work.rows * features && n < rows && j < size) take(e, row, feature, n, j);
  }
};

const STEP = { copyState, copyWeights, multiplyChunk, sumProduct, elementSum, eachElement };

/** The launch of a step: the buffers of the op, then the step's number. */
export function forwardStep(p: RecurrentProblem, tile: StepTile): GridKernel {
  const work = workOf(p, tile, false);
  const kernel = defineKernel(
    `${p.cell}Step`,
    { ...FORWARD, t: i32 },
    ({ x, w, bias, h0, c0, y, t }, context) => {
      const { dynamicShared, f32, local } = context;
      const { copyState, copyWeights, eachElement, elementSum, forwardElement, loadForward, sumProduct } =
        context;
      const { h0At, numbers, rows, size, states, wAt, work } = context;
      const held = dynamicShared(f32);
      const given = local(f32, work.own, numbers);
      const memory = { x, w, bias, h0, c0, y };
      const fetch = (chunk: number, to: number) => {
        const k0 = chunk * work.depth;
        const there = chunk < work.chunks;
        if (t === 0) copyState(held, to, h0, h0At, size, k0, there, context);
        else copyState(held, to, y, (t - 1) * rows * states * size, states * size, k0, there, context);
        copyWeights(held, to + work.rows * work.pitch, w, wAt, k0, there, context);
      };
      const load = () =>
        eachElement((e, _row, _feature, n, j) => loadForward(given, e, n, j, t, memory, context), context);
      sumProduct(held, fetch, load, context);
      eachElement((e, row, feature, n, j) => {
        const product = (gate: number) => elementSum(held, row, feature, gate, context);
        const give = (state: number, v: number) => {
          y[((t * rows + n) * states + state) * size + j] = v;
        };
        forwardElement(given, e, product, give, context);
      }, context);
    },
    { ...elementConstants(p, false), ...forwardOffsets(p), ...FORWARD_ELEMENTS, ...STEP, work },
  );
  return launchOf(p, kernel, work);
}

/** The launch of a step of the gradient: the buffers of the op, then the step's number. */
export function backwardStep(p: RecurrentProblem, tile: StepTile): GridKernel {
  const work = workOf(p, tile, true);
  const kernel = defineKernel(
    `${p.cell}GradientStep`,
    { ...BACKWARD, t: i32 },
    ({ g, y, x, s, w, h0, c0, d, t }, context) => {
      const { dynamicShared, f32, local } = context;
      const { backwardElement, copyState, copyWeights, eachElement, elementSum, loadBackward, sumProduct } =
        context;
      const { blocks, numbers, rows, size, steps, wAt, work } = context;
      const held = dynamicShared(f32);
      const given = local(f32, work.own, numbers);
      const memory = { g, y, x, s, w, h0, c0, d };
      const fetch = (chunk: number, to: number) => {
        const k0 = chunk * work.depth;
        const there = chunk < work.chunks && t < steps - 1;
        copyState(held, to, d, (t + 1) * rows * blocks * size, blocks * size, k0, there, context);
        copyWeights(held, to + work.rows * work.pitch, w, wAt, k0, there, context);
      };
      const load = () =>
        eachElement((e, _row, _feature, n, j) => loadBackward(given, e, n, j, t, memory, context), context);
      sumProduct(held, fetch, load, context);
      eachElement((e, row, feature, n, j) => {
        const through = elementSum(held, row, feature, 0, context);
        const give = (block: number, v: number) => {
          d[((t * rows + n) * blocks + block) * size + j] = v;
        };
        backwardElement(given, e, through, give, context);
      }, context);
    },
    { ...elementConstants(p, true), ...backwardOffsets(p), ...BACKWARD_ELEMENTS, ...STEP, work },
  );
  return launchOf(p, kernel, work);
}

const launchOf = (p: RecurrentProblem, kernel: KernelIr, work: StepWork): GridKernel => {
  const { across, rows, sharedBytes, threads } = work;
  return { kernel, grid: [across * Math.ceil(p.rows / rows), 1, 1], threads, sharedBytes };
};
