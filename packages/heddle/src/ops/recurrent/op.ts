/**
 * Recurrent networks: all steps of a layer in one direction, as one fused op. The gradient is another: the gates of all
 * steps are computed again, by one product, and only what goes from step to step is done step by step.
 */
import { backwardChoice, forwardChoice } from '#ops/gpu-kernels.js';
import { f32 } from '../../core/dtype.js';
import * as b from '../../graph/build.js';
import type { FusedOp, KernelChoice } from '../../graph/fused-op.js';
import type { GraphNode } from '../../graph/node.js';
import type { KernelIr } from '../../kernel/ir/ir.js';
import { matmul } from '../matmul/op.js';
import { stage } from '../stage.js';
import { at, cut, joined } from '../steps.js';
import { CELLS, type CellName } from './cells.js';
import { backwardSteps, forwardSteps } from './cpu.js';
import { problemOf, type RecurrentArg, type RecurrentProblem } from './problem.js';

export type { CellName } from './cells.js';

/** (N, blocks·H) as (N, H) each. */
const blocksOf = (x: GraphNode, blocks: number): GraphNode[] => {
  const size = x.shape.at(-1)! / blocks;
  return Array.from({ length: blocks }, (_, i) => cut(x, x.shape.length - 1, i * size, size));
};

const cpuChoice = (
  name: string,
  kernelOf: (problem: RecurrentProblem) => KernelIr,
): KernelChoice<RecurrentArg> => ({
  name,
  when: ({ model }, { dtype, size }) => model === 'blocks' && dtype === f32 && size > 0,
  finishes: false,
  plan: (io, arg) => {
    const problem = problemOf(io, arg);
    const sources = io.inputs.map((_, input) => ({ input }));
    return [stage({ kernel: kernelOf(problem), blocks: problem.rows }, ...sources, { output: true })];
  },
});

/**
 * x (T, N, gates·H), the product with the input; w (H, gates·H), bias (gates·H), of the product with the state; h0, c0
 * (N, H) → (T, N, states·H).
 */
export const recurrentOp: FusedOp<RecurrentArg> = {
  name: 'recurrent',
  infer: ([x, , , h0], { cell }) => ({
    shape: [x!.shape[0]!, x!.shape[1]!, CELLS[cell].states * h0!.shape[1]!],
    dtype: x!.dtype,
  }),
  compose: ([x, w, bias, h0, c0], { cell }) => {
    const { gates, states, step } = CELLS[cell];
    let state = [h0!, c0!].slice(0, states);
    const all = Array.from({ length: x!.shape[0]! }, (_, t) => {
      const own = b.add(matmul(state[0]!, w!), bias!);
      state = step(blocksOf(at(x!, t), gates), blocksOf(own, gates), state);
      return b.reshape(joined(state, 1), [1, h0!.shape[0]!, states * h0!.shape[1]!]);
    });
    return joined(all, 0);
  },
  grad: (node, g, { cell }) => {
    const [x, w, bias, h0, c0] = node.src as [GraphNode, GraphNode, GraphNode, GraphNode, GraphNode];
    const { gates, blocks, ofState, direct, states } = CELLS[cell];
    const size = h0.shape[1]!;
    const steps = x.shape[0]!;
    const first = b.reshape(h0, [1, ...h0.shape]);
    const before = steps > 1 ? joined([first, cut(cut(node, 2, 0, size), 0, 0, steps - 1)], 0) : first;
    const own = b.add(matmul(before, w), bias);
    const all = b.call(recurrentGradientOp, [g, node, x, own, b.transpose(w), h0, c0], { cell });
    const block = (i: number): GraphNode => cut(all, 2, i * size, size);
    const toState = joined(ofState.map(block), 2);
    const flat = (y: GraphNode): GraphNode => b.reshape(y, [steps * h0.shape[0]!, y.shape[2]!]);
    const through = matmul(at(toState, 0), b.transpose(w));
    return [
      cut(all, 2, 0, gates * size),
      matmul(b.transpose(flat(before)), flat(toState)),
      b.sumTo(toState, bias.shape),
      direct === undefined ? through : b.add(through, at(block(direct), 0)),
      states === 2 ? at(block(blocks - 1), 0) : undefined,
    ];
  },
  flops: ({ src: [x, w] }) => 2 * x!.shape[0]! * x!.shape[1]! * w!.size,
  kernels: [cpuChoice('recurrent-cpu', forwardSteps), forwardChoice],
};

/**
 * g, y (T, N, states·H), x, s (T, N, gates·H), the products with the input and with the state; w (gates·H, H), h0, c0
 * (N, H) → (T, N, blocks·H).
 */
export const recurrentGradientOp: FusedOp<RecurrentArg> = {
  name: 'recurrentGradient',
  infer: ([g, , , , , h0], { cell }) => ({
    shape: [g!.shape[0]!, g!.shape[1]!, CELLS[cell].blocks * h0!.shape[1]!],
    dtype: g!.dtype,
  }),
  compose: ([g, y, x, s, w, h0, c0], { cell }) => {
    const { gates, states, blocks, ofState, direct, back } = CELLS[cell];
    const steps = g!.shape[0]!;
    const all: GraphNode[] = [];
    let later: GraphNode[] | undefined;
    for (let t = steps - 1; t >= 0; t--) {
      const given = blocksOf(at(g!, t), states);
      if (later) {
        const through = matmul(
          joined(
            ofState.map((i) => later![i]!),
            1,
          ),
          w!,
        );
        given[0] = b.add(given[0]!, direct === undefined ? through : b.add(through, later[direct]!));
        if (states === 2) given[1] = b.add(given[1]!, later[blocks - 1]!);
      }
      const before = t === 0 ? [h0!, c0!] : blocksOf(at(y!, t - 1), states);
      const after = blocksOf(at(y!, t), states);
      later = back(blocksOf(at(x!, t), gates), blocksOf(at(s!, t), gates), before, after, given);
      all.unshift(b.reshape(joined(later, 1), [1, h0!.shape[0]!, blocks * h0!.shape[1]!]));
    }
    return joined(all, 0);
  },
  kernels: [cpuChoice('recurrentGradient-cpu', backwardSteps), backwardChoice],
};

/** All steps of a layer; see `recurrentOp`. */
export const recurrent = (cell: CellName, ...src: readonly GraphNode[]): GraphNode =>
  b.call(recurrentOp, src, { cell });
