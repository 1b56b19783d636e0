/**
 * Products may read matrices from wider ones, whose rows are aligned (ops/matmul/aligned.ts). This rewrite has all others that read
 * these matrices do so as well: they are in memory once, and whoever makes them can store them there (passes/regions.ts).
 */
import { topological } from '../core/node.js';
import { callOf } from '../graph/fused-op.js';
import type { GraphNode } from '../graph/node.js';
import { asPartOf } from '../graph/origin.js';
import { withSources } from '../graph/rewrites.js';
import { inAlignedRows } from '../graph/rows.js';
import type { Target } from '../kernel/ir/target.js';

/** `roots` with such matrices in wider ones, but for leaves and the roots themselves, which lie as they are. */
export function withAlignedRows(roots: readonly GraphNode[], target: Target): readonly GraphNode[] {
  const nodes = topological(roots, (n) => (n.isLeaf ? [] : n.src));
  const unaligned = new Set(nodes.flatMap((node) => unalignedOf(node, target)));
  for (const node of [...roots, ...nodes.filter(({ isLeaf }) => isLeaf)]) unaligned.delete(node);
  if (unaligned.size === 0) return roots;
  const made = new Map<GraphNode, GraphNode>();
  for (const node of nodes) {
    const src = node.isLeaf ? node.src : node.src.map((s) => made.get(s)!);
    const own = src.every((s, i) => s === node.src[i]) ? node : withSources(node, src);
    made.set(node, unaligned.has(node) ? asPartOf(node.origin, () => inAlignedRows(own)) : own);
  }
  return roots.map((root) => made.get(root)!);
}

function unalignedOf(node: GraphNode, target: Target): readonly GraphNode[] {
  if (node.isLeaf || node.op !== 'call' || node.size === 0) return [];
  const { op, arg } = callOf(node);
  return op.unaligned?.(node.src, arg, target) ?? [];
}
