/** Graphs of traced functions, on the tensors that they captured. */
import { topological } from '../../src/core/node.js';
import { realize } from '../../src/engine/realize.js';
import { Trace } from '../../src/engine/trace.js';
import { GraphNode } from '../../src/graph/node.js';
import type { AnyTensor } from '../../src/index.js';

const sources = (node: GraphNode): readonly GraphNode[] => (node.isLeaf ? [] : node.src);

/** What a function gives, not computed yet: its collectives are nodes of one graph, as in `jit`. */
export function traced(body: () => readonly AnyTensor[]): GraphNode[] {
  const trace = new Trace((node) => realize([node]));
  const roots = trace.run(() => body().map(({ node }) => node));
  const own = new Map<GraphNode, GraphNode>();
  for (const [{ ownNode }, stand] of trace.captured) own.set(stand, ownNode);
  for (const node of topological(roots, sources)) {
    if (own.has(node) || node.isLeaf) continue;
    const src = node.src.map((s) => own.get(s) ?? s);
    own.set(node, new GraphNode(node.op, node.type, src, node.arg, false));
  }
  return roots.map((root) => own.get(root) ?? root);
}
