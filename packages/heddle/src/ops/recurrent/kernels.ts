/**
 * All steps of a recurrent network, and of its gradient, as one launch each: rows of the batch need nothing of each other, so
 * that a block takes a row through all steps. On the CPU it takes four features at a time; on a GPU a thread takes a
 * feature, and the block waits for all of its threads after each step. The products with the state have their matrices
 * laid out so that neighbouring features are neighbours in memory. f32.
 *
 * A launch per step would spread over a GPU by features as well, but to plan and compile hundreds of launches takes
 * seconds, and so does a graph with a product for each step.
 */
import { f32 } from '../../core/dtype.js';
import type { KernelIr } from '../../kernel/ir/ir.js';
import { buffer, type Lanes } from '../../kernel/ir/types.js';
import { defineKernel, type Intrinsics, type Memory } from '../../kernel/language/language.js';
import { loadLanes, storeLanes } from '../lanes.js';
import type { CellName } from './cells.js';

export interface RecurrentProblem {
  readonly cell: CellName;
  /** Rows of the batch. */
  readonly rows: number;
  /** Features of the state. */
  readonly size: number;
  readonly steps: number;
  /** Offsets of the inputs, in elements. */
  readonly offsets: readonly number[];
  /** Whether a thread is a feature; else a block is a row. */
  readonly isGpu: boolean;
}

/** Threads of a block on a GPU. */
export const threadsOf = (size: number): number => Math.min(512, Math.ceil(size / 32) * 32);

const lanesOf = ({ isGpu, size, offsets }: RecurrentProblem): Lanes =>
  !isGpu && size % 4 === 0 && offsets.every((o) => o % 4 === 0) ? 4 : 1;

const spread = (v: number, lanes: Lanes, { splat4 }: Intrinsics) => (lanes === 4 ? splat4(v) : v);

/** Σ v[r] · m[r·columns + at], r < n: of one feature, or of neighbours. */
const product = (
  v: Memory,
  from: number,
  m: Memory,
  at: number,
  n: number,
  columns: number,
  lanes: Lanes,
  context: Intrinsics & { readonly loadLanes: typeof loadLanes; readonly spread: typeof spread },
) => {
  const { fma, f32, loadLanes, spread } = context;
  let sum = spread(f32(0), lanes, context);
  for (let r = 0; r < n; r++)
    sum = fma(spread(v[from + r], lanes, context), loadLanes(m, at + r * columns, lanes, context), sum);
  return sum;
};

const sigmoid = (x: number) => 1 / (1 + Math.exp(-x));

const FUNCTIONS = { loadLanes, storeLanes, spread, product, sigmoid };

/** Features j… of row n after step t. y (T, N, states·H) is read at t − 1. */
const forwardAt = (
  n: number,
  j: number,
  t: number,
  x: Memory,
  w: Memory,
  bias: Memory,
  h0: Memory,
  c0: Memory,
  y: Memory,
  context: Intrinsics & typeof FUNCTIONS & ForwardConstants,
) => {
  const { cell, rows, size, lanes, gates, states, xAt, wAt, biasAt, h0At, c0At } = context;
  const { fma, f32, loadLanes, storeLanes, spread, product, sigmoid } = context;
  const from = ((t - 1) * rows + n) * states * size;
  const at = xAt + (t * rows + n) * gates * size + j;
  const to = (t * rows + n) * states * size + j;
  const columns = gates * size;
  let s0 = loadLanes(bias, biasAt + j, lanes, context);
  if (t === 0) s0 = s0 + product(h0, h0At + n * size, w, wAt + j, size, columns, lanes, context);
  else s0 = s0 + product(y, from, w, wAt + j, size, columns, lanes, context);
  const a0 = loadLanes(x, at, lanes, context) + s0;
  if (gates === 1) {
    storeLanes(
      y,
      to,
      cell === 'relu' ? Math.max(a0, spread(f32(0), lanes, context)) : Math.tanh(a0),
      lanes,
      context,
    );
  } else {
    let s1 = loadLanes(bias, biasAt + size + j, lanes, context);
    let s2 = loadLanes(bias, biasAt + 2 * size + j, lanes, context);
    if (t === 0) {
      s1 = s1 + product(h0, h0At + n * size, w, wAt + size + j, size, columns, lanes, context);
      s2 = s2 + product(h0, h0At + n * size, w, wAt + 2 * size + j, size, columns, lanes, context);
    } else {
      s1 = s1 + product(y, from, w, wAt + size + j, size, columns, lanes, context);
      s2 = s2 + product(y, from, w, wAt + 2 * size + j, size, columns, lanes, context);
    }
    const x1 = loadLanes(x, at + size, lanes, context);
    const x2 = loadLanes(x, at + 2 * size, lanes, context);
    if (cell === 'gru') {
      let h = spread(f32(0), lanes, context);
      if (t === 0) h = loadLanes(h0, h0At + n * size + j, lanes, context);
      else h = loadLanes(y, from + j, lanes, context);
      const z = sigmoid(x1 + s1);
      const c = Math.tanh(fma(sigmoid(a0), s2, x2));
      storeLanes(y, to, (1 - z) * c + z * h, lanes, context);
    } else {
      let s3 = loadLanes(bias, biasAt + 3 * size + j, lanes, context);
      let c = spread(f32(0), lanes, context);
      if (t === 0) {
        s3 = s3 + product(h0, h0At + n * size, w, wAt + 3 * size + j, size, columns, lanes, context);
        c = loadLanes(c0, c0At + n * size + j, lanes, context);
      } else {
        s3 = s3 + product(y, from, w, wAt + 3 * size + j, size, columns, lanes, context);
        c = loadLanes(y, from + size + j, lanes, context);
      }
      const o = sigmoid(loadLanes(x, at + 3 * size, lanes, context) + s3);
      const next = sigmoid(x1 + s1) * c + sigmoid(a0) * Math.tanh(x2 + s2);
      storeLanes(y, to, o * Math.tanh(next), lanes, context);
      storeLanes(y, to + size, next, lanes, context);
    }
  }
};

interface ForwardConstants {
  readonly cell: CellName;
  readonly rows: number;
  readonly size: number;
  readonly lanes: Lanes;
  readonly gates: number;
  readonly states: number;
  readonly xAt: number;
  readonly wAt: number;
  readonly biasAt: number;
  readonly h0At: number;
  readonly c0At: number;
}

/** x (T, N, gates·H), w (H, gates·H), bias (gates·H), h0, c0 (N, H) → y (T, N, states·H). */
export function forwardSteps(problem: RecurrentProblem): KernelIr {
  const { cell, rows, size, steps, offsets, isGpu } = problem;
  const [xAt, wAt, biasAt, h0At, c0At] = offsets as [number, number, number, number, number];
  const gates = cell === 'lstm' ? 4 : cell === 'gru' ? 3 : 1;
  const f = buffer(f32);
  return defineKernel(
    cell,
    { x: f, w: f, bias: f, h0: f, c0: f, y: f },
    ({ x, w, bias, h0, c0, y }, context) => {
      const { blockIdx, threadIdx, barrier, isGpu, size, steps, lanes, threads, forwardAt } = context;
      const n = blockIdx.x;
      for (let i = 0; i < steps; i++) {
        const t = i;
        if (isGpu) {
          for (let j = threadIdx.x; j < size; j += threads)
            forwardAt(n, j, t, x, w, bias, h0, c0, y, context);
          barrier();
        } else {
          for (let j = 0; j < size; j += lanes) forwardAt(n, j, t, x, w, bias, h0, c0, y, context);
        }
      }
    },
    {
      ...{ cell, rows, size, steps, gates, states: cell === 'lstm' ? 2 : 1, lanes: lanesOf(problem), isGpu },
      threads: threadsOf(size),
      ...{ xAt, wAt, biasAt, h0At, c0At, forwardAt, ...FUNCTIONS },
    },
  );
}

interface BackwardConstants {
  readonly cell: CellName;
  readonly rows: number;
  readonly size: number;
  readonly steps: number;
  readonly lanes: Lanes;
  readonly gates: number;
  readonly states: number;
  readonly blocks: number;
  readonly gAt: number;
  readonly yAt: number;
  readonly xAt: number;
  readonly sAt: number;
  readonly wAt: number;
  readonly h0At: number;
  readonly c0At: number;
}

/** Features j… of row n of the gradient's step t. d (T, N, blocks·H) is read at t + 1. */
const backwardAt = (
  n: number,
  j: number,
  t: number,
  g: Memory,
  y: Memory,
  x: Memory,
  s: Memory,
  w: Memory,
  h0: Memory,
  c0: Memory,
  d: Memory,
  context: Intrinsics & typeof FUNCTIONS & BackwardConstants,
) => {
  const { cell, rows, size, steps, lanes, gates, states, blocks } = context;
  const { gAt, yAt, xAt, sAt, wAt, h0At, c0At } = context;
  const { f32, loadLanes, storeLanes, spread, product, sigmoid } = context;
  const row = t * rows + n;
  const later = (row + rows) * blocks * size;
  const to = row * blocks * size + j;
  const at = row * gates * size + j;
  const y0 = yAt + row * states * size + j;
  const before = yAt + (row - rows) * states * size + j;
  let dh = loadLanes(g, gAt + row * states * size + j, lanes, context);
  if (t < steps - 1) {
    if (cell === 'gru') {
      dh = dh + product(d, later, w, wAt + j, 2 * size, size, lanes, context);
      const third = wAt + 2 * size * size + j;
      dh = dh + product(d, later + 3 * size, w, third, size, size, lanes, context);
      dh = dh + loadLanes(d, later + 4 * size + j, lanes, context);
    } else {
      dh = dh + product(d, later, w, wAt + j, gates * size, size, lanes, context);
    }
  }
  if (gates === 1) {
    const h = loadLanes(y, y0, lanes, context);
    const zero = spread(f32(0), lanes, context);
    storeLanes(
      d,
      to,
      cell === 'relu' ? context.select(h > zero, dh, zero) : dh * (1 - h * h),
      lanes,
      context,
    );
  } else {
    const a0 = loadLanes(x, xAt + at, lanes, context) + loadLanes(s, sAt + at, lanes, context);
    const a1 = loadLanes(x, xAt + at + size, lanes, context) + loadLanes(s, sAt + at + size, lanes, context);
    const x2 = loadLanes(x, xAt + at + 2 * size, lanes, context);
    const s2 = loadLanes(s, sAt + at + 2 * size, lanes, context);
    if (cell === 'gru') {
      let h = spread(f32(0), lanes, context);
      if (t === 0) h = loadLanes(h0, h0At + n * size + j, lanes, context);
      else h = loadLanes(y, before, lanes, context);
      const r = sigmoid(a0);
      const z = sigmoid(a1);
      const c = Math.tanh(x2 + r * s2);
      const dn = dh * (1 - z) * (1 - c * c);
      storeLanes(d, to, dn * s2 * (r * (1 - r)), lanes, context);
      storeLanes(d, to + size, dh * (h - c) * (z * (1 - z)), lanes, context);
      storeLanes(d, to + 2 * size, dn, lanes, context);
      storeLanes(d, to + 3 * size, dn * r, lanes, context);
      storeLanes(d, to + 4 * size, dh * z, lanes, context);
    } else {
      const x3 = loadLanes(x, xAt + at + 3 * size, lanes, context);
      const o = sigmoid(x3 + loadLanes(s, sAt + at + 3 * size, lanes, context));
      const i = sigmoid(a0);
      const f = sigmoid(a1);
      const c = Math.tanh(x2 + s2);
      const next = Math.tanh(loadLanes(y, y0 + size, lanes, context));
      let dc = loadLanes(g, gAt + row * states * size + size + j, lanes, context);
      if (t < steps - 1) dc = dc + loadLanes(d, later + 4 * size + j, lanes, context);
      dc = dc + dh * o * (1 - next * next);
      let old = spread(f32(0), lanes, context);
      if (t === 0) old = loadLanes(c0, c0At + n * size + j, lanes, context);
      else old = loadLanes(y, before + size, lanes, context);
      storeLanes(d, to, dc * c * (i * (1 - i)), lanes, context);
      storeLanes(d, to + size, dc * old * (f * (1 - f)), lanes, context);
      storeLanes(d, to + 2 * size, dc * i * (1 - c * c), lanes, context);
      storeLanes(d, to + 3 * size, dh * next * (o * (1 - o)), lanes, context);
      storeLanes(d, to + 4 * size, dc * f, lanes, context);
    }
  }
};

/** g, y (T, N, states·H), x, s (T, N, gates·H), w (gates·H, H), h0, c0 (N, H) → d (T, N, blocks·H). */
export function backwardSteps(problem: RecurrentProblem): KernelIr {
  const { cell, rows, size, steps, offsets, isGpu } = problem;
  const [gAt, yAt, xAt, sAt, wAt, h0At, c0At] = offsets as [
    number,
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  const gates = cell === 'lstm' ? 4 : cell === 'gru' ? 3 : 1;
  const f = buffer(f32);
  return defineKernel(
    `${cell}Gradient`,
    { g: f, y: f, x: f, s: f, w: f, h0: f, c0: f, d: f },
    ({ g, y, x, s, w, h0, c0, d }, context) => {
      const { blockIdx, threadIdx, barrier, isGpu, size, steps, lanes, threads, backwardAt } = context;
      const n = blockIdx.x;
      for (let i = 0; i < steps; i++) {
        const t = steps - 1 - i;
        if (isGpu) {
          for (let j = threadIdx.x; j < size; j += threads)
            backwardAt(n, j, t, g, y, x, s, w, h0, c0, d, context);
          barrier();
        } else {
          for (let j = 0; j < size; j += lanes) backwardAt(n, j, t, g, y, x, s, w, h0, c0, d, context);
        }
      }
    },
    {
      ...{ cell, rows, size, steps, gates, states: cell === 'lstm' ? 2 : 1, blocks: gates === 1 ? 1 : 5 },
      threads: threadsOf(size),
      ...{ lanes: lanesOf(problem), isGpu, gAt, yAt, xAt, sAt, wAt, h0At, c0At, backwardAt, ...FUNCTIONS },
    },
  );
}
