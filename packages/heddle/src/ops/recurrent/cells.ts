/** The cells of recurrent networks: what a step computes, and its gradient, as graphs. Formulas as PyTorch's. */
import * as b from '../../graph/build.js';
import type { GraphNode } from '../../graph/node.js';
import { sigmoid } from '../activation/op.js';

export type CellName = 'tanh' | 'relu' | 'gru' | 'lstm';

export interface Cell {
  /** Blocks of features that the products with the input and with the state have. */
  readonly gates: number;
  /** Tensors that go from step to step: h, of an LSTM h and c. */
  readonly states: number;
  /** Blocks that the gradient of a step has: those of the product with the input, then what `back` says. */
  readonly blocks: number;
  /** Which of these blocks are the gradient of the product with the state. */
  readonly ofState: readonly number[];
  /** Which block is a part of the gradient of h before the step, apart from that through the product; none if undefined. */
  readonly direct: number | undefined;
  /** The states after a step, from the blocks of both products and the states before it. */
  step(x: Blocks, s: Blocks, before: readonly GraphNode[]): GraphNode[];
  /** The blocks of the gradient, from that of the states after the step; the last of an LSTM is that of c before it. */
  back(
    x: Blocks,
    s: Blocks,
    before: readonly GraphNode[],
    after: readonly GraphNode[],
    grad: readonly GraphNode[],
  ): GraphNode[];
}

/** (N, H) each. */
type Blocks = readonly GraphNode[];

const { add, mul, sub } = b;
const oneMinus = (x: GraphNode): GraphNode => sub(b.like(x, 1), x);
const tanh = (x: GraphNode): GraphNode => b.map('tanh', x);
const gate = (x: Blocks, s: Blocks, i: number): GraphNode => sigmoid(add(x[i]!, s[i]!));
/** g · y·(1 − y): through a sigmoid whose value is y. */
const throughSigmoid = (g: GraphNode, y: GraphNode): GraphNode => mul(g, mul(y, oneMinus(y)));
/** g · (1 − y²): through a tanh whose value is y. */
const throughTanh = (g: GraphNode, y: GraphNode): GraphNode => mul(g, oneMinus(mul(y, y)));

const simple = (rectified: boolean): Cell => ({
  ...{ gates: 1, states: 1, blocks: 1, ofState: [0], direct: undefined },
  step: ([x], [s]) => {
    const sum = add(x!, s!);
    return [rectified ? b.map('max', sum, b.like(sum, 0)) : tanh(sum)];
  },
  back: (_x, _s, _before, [h], [dh]) => [
    rectified ? b.where(b.map('gt', h!, b.like(h!, 0)), dh!, b.like(dh!, 0)) : throughTanh(dh!, h!),
  ],
});

export const CELLS: Readonly<Record<CellName, Cell>> = {
  tanh: simple(false),
  relu: simple(true),
  gru: {
    ...{ gates: 3, states: 1, blocks: 5, ofState: [0, 1, 3], direct: 4 },
    step: (x, s, [h]) => {
      const [r, z] = [gate(x, s, 0), gate(x, s, 1)];
      const n = tanh(add(x[2]!, mul(r, s[2]!)));
      return [add(mul(oneMinus(z), n), mul(z, h!))];
    },
    back: (x, s, [h], _after, [dh]) => {
      const [r, z] = [gate(x, s, 0), gate(x, s, 1)];
      const n = tanh(add(x[2]!, mul(r, s[2]!)));
      const dn = throughTanh(mul(dh!, oneMinus(z)), n);
      const dr = throughSigmoid(mul(dn, s[2]!), r);
      const dz = throughSigmoid(mul(dh!, sub(h!, n)), z);
      return [dr, dz, dn, mul(dn, r), mul(dh!, z)];
    },
  },
  lstm: {
    ...{ gates: 4, states: 2, blocks: 5, ofState: [0, 1, 2, 3], direct: undefined },
    step: (x, s, [, c]) => {
      const [i, f, o] = [gate(x, s, 0), gate(x, s, 1), gate(x, s, 3)];
      const next = add(mul(f, c!), mul(i, tanh(add(x[2]!, s[2]!))));
      return [mul(o, tanh(next)), next];
    },
    back: (x, s, [, c], [, next], [dh, dc]) => {
      const [i, f, o] = [gate(x, s, 0), gate(x, s, 1), gate(x, s, 3)];
      const g = tanh(add(x[2]!, s[2]!));
      const t = tanh(next!);
      const d = add(dc!, throughTanh(mul(dh!, o), t));
      return [
        throughSigmoid(mul(d, g), i),
        throughSigmoid(mul(d, c!), f),
        throughTanh(mul(d, i), g),
        throughSigmoid(mul(dh!, t), o),
        mul(d, f),
      ];
    },
  },
};
