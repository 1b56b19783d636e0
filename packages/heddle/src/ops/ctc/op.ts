/**
 * Connectionist temporal classification: the forward variables of A. Graves and others, Connectionist temporal
 * classification (2006), in logarithms. Their gradient is the adjoint of the recursion.
 */
import { f32 } from '../../core/dtype.js';
import * as b from '../../graph/build.js';
import type { FusedOp, KernelIo, Stage } from '../../graph/fused-op.js';
import type { GraphNode } from '../../graph/node.js';
import type { KernelIr } from '../../kernel/ir/ir.js';
import { at, joined } from '../steps.js';
import { backwardVariables, type CtcProblem, forwardVariables, LOWEST, threadsOf } from './kernels.js';

export { LOWEST } from './kernels.js';

/** x (N, L) moved by `by` places along L, `value` where there was nothing. */
function moved(x: GraphNode, by: number, value: number): GraphNode {
  const [rows, length] = x.shape as [number, number];
  const size = Math.max(0, length - Math.abs(by));
  const kept = b.slice(x, [0, Math.min(length - size, Math.max(0, -by))], [rows, size]);
  const gap = length - size;
  return by > 0 ? b.pad(kept, [0, gap], [0, 0], value) : b.pad(kept, [0, 0], [0, gap], value);
}

const exp = (x: GraphNode): GraphNode => b.map('exp', x);

const stages = (
  { inputs, output, target }: KernelIo,
  kernelOf: (problem: CtcProblem) => KernelIr,
): Stage[] => {
  const [steps, rows, length] = output.shape as [number, number, number];
  const isGpu = target.model === 'threads';
  const kernel = kernelOf({ steps, rows, length, isGpu, offsets: inputs.map(({ offset }) => offset) });
  const args = [...inputs.map((_, input) => ({ input })), { output: true } as const];
  return [{ kernel, args, grid: [rows, 1, 1], block: [isGpu ? threadsOf(length) : 1, 1, 1] }];
};

/**
 * e (T, N, L): the logarithms of the probabilities of the extended labels; skip (N, L): 0 where a label may follow the
 * one two before it, else LOWEST → (T, N, L): log Σ of the probabilities of all paths to a label at a time.
 */
export const ctcOp: FusedOp<null> = {
  name: 'ctc',
  infer: ([e]) => e!,
  compose: ([e, skip]) => {
    const [steps, rows, length] = e!.shape as [number, number, number];
    const isFirst = b.map('lt', b.iota([rows, length], 1), b.full([rows, length], b.iota([1], 0).dtype, 2));
    const first = at(e!, 0);
    let a = b.where(isFirst, first, b.like(first, LOWEST));
    const all = [a];
    for (let t = 1; t < steps; t++) {
      const ways = [a, moved(a, 1, LOWEST), b.add(moved(a, 2, LOWEST), skip!)] as const;
      const most = b.map('max', b.map('max', ways[0], ways[1]), ways[2]);
      const [p, q, r] = ways.map((way) => exp(b.sub(way, most))) as [GraphNode, GraphNode, GraphNode];
      a = b.add(at(e!, t), b.add(most, b.map('log', b.add(b.add(p, q), r))));
      all.push(a);
    }
    return joined(
      all.map((x) => b.reshape(x, [1, rows, length])),
      0,
    );
  },
  grad: (node, g) => [b.call(ctcGradientOp, [g, node, node.src[0]!, node.src[1]!], null), undefined],
  kernels: [
    {
      name: 'ctc-rows',
      when: (_, { dtype, size }) => dtype === f32 && size > 0,
      finishes: false,
      plan: (io) => stages(io, forwardVariables),
    },
  ],
};

/** g, a, e (T, N, L), skip (N, L) → (T, N, L): the gradient of e, and of a without what goes on. */
export const ctcGradientOp: FusedOp<null> = {
  name: 'ctcGradient',
  infer: ([g]) => g!,
  compose: ([g, a, e, skip]) => {
    const [steps, rows, length] = g!.shape as [number, number, number];
    const all: GraphNode[] = [];
    let d: GraphNode | undefined;
    for (let t = steps - 1; t >= 0; t--) {
      const own = at(g!, t);
      if (d) {
        const from = at(a!, t);
        const total = b.sub(at(a!, t + 1), at(e!, t + 1));
        const way = (by: number, more: GraphNode | undefined): GraphNode => {
          const start = more ? b.add(from, moved(more, -by, LOWEST)) : from;
          return b.mul(moved(d!, -by, 0), exp(b.sub(start, moved(total, -by, 0))));
        };
        const inside = (by: number, x: GraphNode): GraphNode => {
          const limit = b.full([rows, length], b.iota([1], 0).dtype, length - by);
          return b.where(b.map('lt', b.iota([rows, length], 1), limit), x, b.like(x, 0));
        };
        d = b.add(
          own,
          b.add(way(0, undefined), b.add(inside(1, way(1, undefined)), inside(2, way(2, skip!)))),
        );
      } else d = own;
      all.unshift(d);
    }
    return joined(
      all.map((x) => b.reshape(x, [1, rows, length])),
      0,
    );
  },
  kernels: [
    {
      name: 'ctcGradient-rows',
      when: (_, { dtype, size }) => dtype === f32 && size > 0,
      finishes: false,
      plan: (io) => stages(io, backwardVariables),
    },
  ],
};
