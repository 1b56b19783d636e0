/** Products of dequantized bytes as products of the bytes, where the target has a kernel for them. */
import { topological } from '../core/node.js';
import { callOf } from '../graph/fused-op.js';
import { GraphNode } from '../graph/node.js';
import type { Target } from '../kernel/ir/target.js';
import { kernelOf } from './kernel-choice.js';

/** The graph of `roots` with such products. Nodes that stay the same are the same. */
export function inIntegers(roots: readonly GraphNode[], target: Target): GraphNode[] {
  const made = new Map<GraphNode, GraphNode>();
  for (const node of topological(roots, (n) => (n.isLeaf ? [] : n.src))) {
    if (node.isLeaf) {
      made.set(node, node);
      continue;
    }
    const src = node.src.map((s) => made.get(s)!);
    const own = src.every((s, i) => s === node.src[i])
      ? node
      : new GraphNode(node.op, node.type, src, node.arg, node.requiresGrad);
    made.set(node, ofIntegers(own, target) ?? own);
  }
  return roots.map((root) => made.get(root)!);
}

function ofIntegers(node: GraphNode, target: Target): GraphNode | undefined {
  if (node.op !== 'call') return undefined;
  const { op, arg } = callOf(node);
  const integers = op.ofIntegers?.(node.src, arg);
  if (!integers) return undefined;
  return !integers.sums || isFast(integers.sums, target) ? integers.values : undefined;
}

/** Whether there is a kernel for a call, with its dimensions in this order or in another. */
const isFast = (call: GraphNode, target: Target): boolean => {
  const { op, arg } = callOf(call);
  return kernelOf(call, target) !== undefined || op.reordered?.(target, call, arg) !== undefined;
};
