/**
 * What a step computes for one feature of a row, or for neighbours: the states after it, and the blocks of its gradient.
 * Device functions, whoever sums the product with the state. Formulas as in cells.ts.
 */
import type { Lanes } from '../../kernel/ir/types.js';
import type { Intrinsics } from '../../kernel/language/language.js';
import type { CellName } from './cells.js';

/** One of several values by its number, which is a constant. */
export type PartOf = (i: number) => number;
/** Takes a value. */
export type Give = (i: number, v: number) => void;

/** What the device functions below take from the context. */
export interface CellContext extends Intrinsics {
  readonly cell: CellName;
  readonly lanes: Lanes;
  readonly spread: typeof spread;
  readonly sigmoid: typeof sigmoid;
}

const spread = (v: number, lanes: Lanes, { splat4 }: Intrinsics) => (lanes === 4 ? splat4(v) : v);

const sigmoid = (x: number) => 1 / (1 + Math.exp(-x));

/**
 * Gives the states after a step.
 * @param x the product with the input, gate by gate
 * @param s the product with the state, with its bias
 * @param before of a GRU h, of an LSTM c before the step
 */
const forwardCell = (x: PartOf, s: PartOf, before: () => number, give: Give, context: CellContext) => {
  const { cell, lanes, fma, f32, spread, sigmoid } = context;
  if (cell === 'tanh') give(0, Math.tanh(x(0) + s(0)));
  else if (cell === 'relu') give(0, Math.max(x(0) + s(0), spread(f32(0), lanes, context)));
  else {
    const a0 = x(0) + s(0);
    const a1 = x(1) + s(1);
    const s2 = s(2);
    if (cell === 'gru') {
      const z = sigmoid(a1);
      const n = Math.tanh(fma(sigmoid(a0), s2, x(2)));
      give(0, (1 - z) * n + z * before());
    } else {
      const o = sigmoid(x(3) + s(3));
      const c = sigmoid(a1) * before() + sigmoid(a0) * Math.tanh(x(2) + s2);
      give(0, o * Math.tanh(c));
      give(1, c);
    }
  }
};

/**
 * Gives the blocks of a step's gradient.
 * @param dh, dc the gradients of the states after it
 * @param after h after the step, of an LSTM c
 * @param before of a GRU h, of an LSTM c before the step
 */
const backwardCell = (
  dh: number,
  dc: () => number,
  x: PartOf,
  s: PartOf,
  after: () => number,
  before: () => number,
  give: Give,
  context: CellContext,
) => {
  const { cell, lanes, f32, select, spread, sigmoid } = context;
  if (cell === 'tanh') {
    const h = after();
    give(0, dh * (1 - h * h));
  } else if (cell === 'relu') {
    const zero = spread(f32(0), lanes, context);
    give(0, select(after() > zero, dh, zero));
  } else {
    const a0 = x(0) + s(0);
    const a1 = x(1) + s(1);
    const x2 = x(2);
    const s2 = s(2);
    if (cell === 'gru') {
      const h = before();
      const r = sigmoid(a0);
      const z = sigmoid(a1);
      const n = Math.tanh(x2 + r * s2);
      const dn = dh * (1 - z) * (1 - n * n);
      give(0, dn * s2 * (r * (1 - r)));
      give(1, dh * (h - n) * (z * (1 - z)));
      give(2, dn);
      give(3, dn * r);
      give(4, dh * z);
    } else {
      const o = sigmoid(x(3) + s(3));
      const i = sigmoid(a0);
      const f = sigmoid(a1);
      const g = Math.tanh(x2 + s2);
      const next = Math.tanh(after());
      const d = dc() + dh * o * (1 - next * next);
      give(0, d * g * (i * (1 - i)));
      give(1, d * before() * (f * (1 - f)));
      give(2, d * i * (1 - g * g));
      give(3, dh * next * (o * (1 - o)));
      give(4, d * f);
    }
  }
};

/** The device functions, as constants of a kernel. */
export const CELL_STEPS = { spread, sigmoid, forwardCell, backwardCell };
export interface CellSteps extends CellContext {
  readonly forwardCell: typeof forwardCell;
  readonly backwardCell: typeof backwardCell;
}
