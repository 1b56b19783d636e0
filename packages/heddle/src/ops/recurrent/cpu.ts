/**
 * All steps of a recurrent network, and of its gradient, as one launch each: rows of the batch need nothing of each other, so
 * that a block takes a row through all steps, four features at a time. The products with the state have their matrices
 * laid out so that neighbouring features are neighbours in memory. f32.
 */
import { f32 } from '../../core/dtype.js';
import type { KernelIr } from '../../kernel/ir/ir.js';
import { buffer, type Lanes } from '../../kernel/ir/types.js';
import { defineKernel, type Intrinsics, type Memory } from '../../kernel/language/language.js';
import { loadLanes, storeLanes } from '../lanes.js';
import { CELL_STEPS, type CellSteps } from './cell-steps.js';
import { CELLS } from './cells.js';
import type { RecurrentProblem } from './problem.js';

const lanesOf = ({ size, offsets }: RecurrentProblem): Lanes =>
  size % 4 === 0 && offsets.every((o) => o % 4 === 0) ? 4 : 1;

interface Context extends CellSteps {
  readonly loadLanes: typeof loadLanes;
  readonly storeLanes: typeof storeLanes;
  readonly product: typeof product;
  readonly rows: number;
  readonly size: number;
  readonly steps: number;
  readonly gates: number;
  readonly states: number;
  /** Of a step's gradient. */
  readonly blocks: number;
}

/** Σ v[r] · m[r·columns + at], r < n: of one feature, or of neighbours. */
const product = (
  v: Memory,
  from: number,
  m: Memory,
  at: number,
  n: number,
  columns: number,
  context: Pick<Context, 'lanes' | 'loadLanes' | 'spread'> & Intrinsics,
) => {
  const { fma, f32, lanes, loadLanes, spread } = context;
  let sum = spread(f32(0), lanes, context);
  for (let r = 0; r < n; r++)
    sum = fma(spread(v[from + r], lanes, context), loadLanes(m, at + r * columns, lanes, context), sum);
  return sum;
};

interface ForwardRowContext extends Context {
  readonly ownProduct: typeof ownProduct;
  readonly xAt: number;
  readonly wAt: number;
  readonly biasAt: number;
  readonly h0At: number;
  readonly c0At: number;
}

/** A gate's product with the state before step t, with its bias. */
const ownProduct = (
  gate: number,
  n: number,
  j: number,
  t: number,
  w: Memory,
  bias: Memory,
  h0: Memory,
  y: Memory,
  context: ForwardRowContext,
) => {
  const { rows, size, lanes, gates, states, wAt, biasAt, h0At, loadLanes, product } = context;
  const column = gate * size + j;
  let s = loadLanes(bias, biasAt + column, lanes, context);
  if (t === 0) s = s + product(h0, h0At + n * size, w, wAt + column, size, gates * size, context);
  else s = s + product(y, ((t - 1) * rows + n) * states * size, w, wAt + column, size, gates * size, context);
  return s;
};

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
  context: ForwardRowContext,
) => {
  const { cell, rows, size, lanes, gates, states, xAt, h0At, c0At } = context;
  const { f32, forwardCell, loadLanes, ownProduct, spread, storeLanes } = context;
  const at = xAt + (t * rows + n) * gates * size + j;
  const to = (t * rows + n) * states * size + j;
  const before = () => {
    let v = spread(f32(0), lanes, context);
    if (cell === 'gru') {
      if (t === 0) v = loadLanes(h0, h0At + n * size + j, lanes, context);
      else v = loadLanes(y, to - rows * states * size, lanes, context);
    } else {
      if (t === 0) v = loadLanes(c0, c0At + n * size + j, lanes, context);
      else v = loadLanes(y, to - rows * states * size + size, lanes, context);
    }
    return v;
  };
  forwardCell(
    (gate) => loadLanes(x, at + gate * size, lanes, context),
    (gate) => ownProduct(gate, n, j, t, w, bias, h0, y, context),
    before,
    (state, v) => storeLanes(y, to + state * size, v, lanes, context),
    context,
  );
};

/** What the kernels of a problem know when they are compiled. */
const constantsOf = (problem: RecurrentProblem) => {
  const { cell, rows, size, steps } = problem;
  const { gates, states, blocks } = CELLS[cell];
  return {
    ...{ cell, rows, size, steps, gates, states, blocks, lanes: lanesOf(problem) },
    ...{ ...CELL_STEPS, loadLanes, storeLanes, product },
  };
};

/** x (T, N, gates·H), w (H, gates·H), bias (gates·H), h0, c0 (N, H) → y (T, N, states·H). */
export function forwardSteps(problem: RecurrentProblem): KernelIr {
  const [xAt, wAt, biasAt, h0At, c0At] = problem.offsets as [number, number, number, number, number];
  const f = buffer(f32);
  return defineKernel(
    problem.cell,
    { x: f, w: f, bias: f, h0: f, c0: f, y: f },
    ({ x, w, bias, h0, c0, y }, context) => {
      const { blockIdx, size, steps, lanes, forwardAt } = context;
      const n = blockIdx.x;
      for (let t = 0; t < steps; t++)
        for (let j = 0; j < size; j += lanes) forwardAt(n, j, t, x, w, bias, h0, c0, y, context);
    },
    { ...constantsOf(problem), xAt, wAt, biasAt, h0At, c0At, forwardAt, ownProduct },
  );
}

interface BackwardRowContext extends Context {
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
  context: BackwardRowContext,
) => {
  const { cell, rows, size, steps, lanes, gates, states, blocks } = context;
  const { gAt, yAt, xAt, sAt, wAt, h0At, c0At } = context;
  const { f32, backwardCell, loadLanes, product, spread, storeLanes } = context;
  const row = t * rows + n;
  const later = (row + rows) * blocks * size;
  const at = row * gates * size + j;
  const own = yAt + row * states * size + j;
  let dh = loadLanes(g, gAt + row * states * size + j, lanes, context);
  if (t < steps - 1) {
    if (cell === 'gru') {
      dh = dh + product(d, later, w, wAt + j, 2 * size, size, context);
      dh = dh + product(d, later + 3 * size, w, wAt + 2 * size * size + j, size, size, context);
      dh = dh + loadLanes(d, later + 4 * size + j, lanes, context);
    } else {
      dh = dh + product(d, later, w, wAt + j, gates * size, size, context);
    }
  }
  const dc = () => {
    let v = loadLanes(g, gAt + row * states * size + size + j, lanes, context);
    if (t < steps - 1) v = v + loadLanes(d, later + 4 * size + j, lanes, context);
    return v;
  };
  const before = () => {
    let v = spread(f32(0), lanes, context);
    if (cell === 'gru') {
      if (t === 0) v = loadLanes(h0, h0At + n * size + j, lanes, context);
      else v = loadLanes(y, own - rows * states * size, lanes, context);
    } else {
      if (t === 0) v = loadLanes(c0, c0At + n * size + j, lanes, context);
      else v = loadLanes(y, own - rows * states * size + size, lanes, context);
    }
    return v;
  };
  backwardCell(
    dh,
    dc,
    (gate) => loadLanes(x, xAt + at + gate * size, lanes, context),
    (gate) => loadLanes(s, sAt + at + gate * size, lanes, context),
    () => loadLanes(y, own + (states - 1) * size, lanes, context),
    before,
    (block, v) => storeLanes(d, row * blocks * size + block * size + j, v, lanes, context),
    context,
  );
};

/** g, y (T, N, states·H), x, s (T, N, gates·H), w (gates·H, H), h0, c0 (N, H) → d (T, N, blocks·H). */
export function backwardSteps(problem: RecurrentProblem): KernelIr {
  const [gAt, yAt, xAt, sAt, wAt, h0At, c0At] = problem.offsets as [
    number,
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  const f = buffer(f32);
  return defineKernel(
    `${problem.cell}Gradient`,
    { g: f, y: f, x: f, s: f, w: f, h0: f, c0: f, d: f },
    ({ g, y, x, s, w, h0, c0, d }, context) => {
      const { blockIdx, size, steps, lanes, backwardAt } = context;
      const n = blockIdx.x;
      for (let i = 0; i < steps; i++) {
        const t = steps - 1 - i;
        for (let j = 0; j < size; j += lanes) backwardAt(n, j, t, g, y, x, s, w, h0, c0, d, context);
      }
    },
    { ...constantsOf(problem), gAt, yAt, xAt, sAt, wAt, h0At, c0At, backwardAt },
  );
}
