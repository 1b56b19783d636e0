/**
 * The elements of a step on a GPU, for whatever kernel sums the product with the state. A thread has a few elements, each
 * a feature of a row; what a step reads of memory for them, it loads before the product, so that nothing waits for it
 * afterwards.
 */
import { f32 } from '../../core/dtype.js';
import { buffer } from '../../kernel/ir/types.js';
import type { Memory } from '../../kernel/language/language.js';
import { CELL_STEPS, type CellSteps, type Give, type PartOf } from './cell-steps.js';
import { CELLS } from './cells.js';
import type { RecurrentProblem } from './problem.js';

const f = buffer(f32);

/** The buffers of a step, and of its gradient, in the order of the op's sources, the result last. */
export const FORWARD = { x: f, w: f, bias: f, h0: f, c0: f, y: f } as const;
export const BACKWARD = { g: f, y: f, x: f, s: f, w: f, h0: f, c0: f, d: f } as const;

export interface ForwardMemory {
  readonly x: Memory;
  readonly w: Memory;
  readonly bias: Memory;
  readonly h0: Memory;
  readonly c0: Memory;
  readonly y: Memory;
}

export interface BackwardMemory {
  readonly g: Memory;
  readonly y: Memory;
  readonly x: Memory;
  readonly s: Memory;
  readonly w: Memory;
  readonly h0: Memory;
  readonly c0: Memory;
  readonly d: Memory;
}

/** A step's product with the state: (N, K) times (K, parts·H). */
export interface StepProduct {
  readonly K: number;
  /** Blocks of H features of the result: the gates; of the gradient one. */
  readonly parts: number;
  /** The blocks of a row's gradient that are multiplied, where that is a row; else all of h. */
  readonly blocks: readonly number[];
}

export const productOf = ({ cell, size }: RecurrentProblem, isBackward: boolean): StepProduct => {
  const { gates, ofState } = CELLS[cell];
  return isBackward ? { K: gates * size, parts: 1, blocks: ofState } : { K: size, parts: gates, blocks: [0] };
};

/** Numbers that a thread holds of an element. */
const heldOf = ({ cell }: RecurrentProblem, isBackward: boolean): number => {
  const { gates } = CELLS[cell];
  return isBackward ? (gates === 1 ? 2 : 4 + 2 * gates) : 1 + 2 * gates;
};

/** What the kernels of a problem know when they are compiled. */
export const elementConstants = (problem: RecurrentProblem, isBackward: boolean) => {
  const { cell, rows, size, steps } = problem;
  const { gates, states, blocks } = CELLS[cell];
  return {
    ...{ cell, rows, size, steps, gates, states, blocks, lanes: 1 as const },
    /** Numbers that a thread holds of an element. */
    numbers: heldOf(problem, isBackward),
    ...CELL_STEPS,
  };
};

export interface ElementContext extends CellSteps {
  readonly rows: number;
  readonly size: number;
  readonly steps: number;
  readonly gates: number;
  readonly states: number;
  readonly blocks: number;
}

export interface ForwardElementContext extends ElementContext {
  readonly xAt: number;
  readonly wAt: number;
  readonly biasAt: number;
  readonly h0At: number;
  readonly c0At: number;
}

/** Loads what step t needs of a thread's element e: the products with the input, the bias, the state before. */
const loadForward = (
  given: Memory,
  e: number,
  n: number,
  j: number,
  t: number,
  { x, bias, h0, c0, y }: ForwardMemory,
  context: ForwardElementContext,
) => {
  const { cell, rows, size, gates, states, xAt, biasAt, h0At, c0At } = context;
  for (let gate = 0; gate < gates; gate++) {
    given[e][gate] = x[xAt + (t * rows + n) * gates * size + gate * size + j];
    given[e][gates + gate] = bias[biasAt + gate * size + j];
  }
  const before = ((t - 1) * rows + n) * states * size + j;
  if (cell === 'gru') {
    if (t === 0) given[e][2 * gates] = h0[h0At + n * size + j];
    else given[e][2 * gates] = y[before];
  } else if (cell === 'lstm') {
    if (t === 0) given[e][2 * gates] = c0[c0At + n * size + j];
    else given[e][2 * gates] = y[before + size];
  }
};

/** Gives the states of a thread's element e after a step. */
const forwardElement = (
  given: Memory,
  e: number,
  product: PartOf,
  give: Give,
  context: ForwardElementContext,
) => {
  const { gates, forwardCell } = context;
  forwardCell(
    (gate) => given[e][gate],
    (gate) => given[e][gates + gate] + product(gate),
    () => given[e][2 * gates],
    give,
    context,
  );
};

export interface BackwardElementContext extends ElementContext {
  readonly gAt: number;
  readonly yAt: number;
  readonly xAt: number;
  readonly sAt: number;
  readonly wAt: number;
  readonly h0At: number;
  readonly c0At: number;
}

/**
 * Loads what step t of the gradient needs of a thread's element e: the gradients of the states after it, without that
 * through the product; the state after it and the one before; both products.
 */
const loadBackward = (
  given: Memory,
  e: number,
  n: number,
  j: number,
  t: number,
  { g, y, x, s, h0, c0, d }: BackwardMemory,
  context: BackwardElementContext,
) => {
  const { cell, rows, size, steps, gates, states, blocks } = context;
  const { gAt, yAt, xAt, sAt, h0At, c0At } = context;
  const row = t * rows + n;
  const after = row * states * size + j;
  given[e][0] = g[gAt + after];
  given[e][1] = y[yAt + after + (states - 1) * size];
  if (gates > 1) {
    const last = (row + rows) * blocks * size + (blocks - 1) * size + j;
    const before = yAt + after - rows * states * size;
    if (cell === 'gru') {
      if (t < steps - 1) given[e][0] = given[e][0] + d[last];
      if (t === 0) given[e][2] = h0[h0At + n * size + j];
      else given[e][2] = y[before];
    } else {
      given[e][3] = g[gAt + after + size];
      if (t < steps - 1) given[e][3] = given[e][3] + d[last];
      if (t === 0) given[e][2] = c0[c0At + n * size + j];
      else given[e][2] = y[before + size];
    }
    for (let gate = 0; gate < gates; gate++) {
      const at = row * gates * size + gate * size + j;
      given[e][4 + gate] = x[xAt + at];
      given[e][4 + gates + gate] = s[sAt + at];
    }
  }
};

/** Gives the blocks of the gradient of a thread's element e; `through` is the gradient through the product. */
const backwardElement = (
  given: Memory,
  e: number,
  through: number,
  give: Give,
  context: BackwardElementContext,
) => {
  const { gates, backwardCell } = context;
  backwardCell(
    given[e][0] + through,
    () => given[e][3],
    (gate) => given[e][4 + gate],
    (gate) => given[e][4 + gates + gate],
    () => given[e][1],
    () => given[e][2],
    give,
    context,
  );
};

export const FORWARD_ELEMENTS = { loadForward, forwardElement };
export const BACKWARD_ELEMENTS = { loadBackward, backwardElement };
export type ForwardElements = typeof FORWARD_ELEMENTS;
export type BackwardElements = typeof BACKWARD_ELEMENTS;

/** Offsets of the inputs by their names. */
export const forwardOffsets = ({ offsets }: RecurrentProblem) => {
  const [xAt, wAt, biasAt, h0At, c0At] = offsets as [number, number, number, number, number];
  return { xAt, wAt, biasAt, h0At, c0At };
};
export const backwardOffsets = ({ offsets }: RecurrentProblem) => {
  const [gAt, yAt, xAt, sAt, wAt, h0At, c0At] = offsets as [
    number,
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  return { gAt, yAt, xAt, sAt, wAt, h0At, c0At };
};
