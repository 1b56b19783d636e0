/** Which exchange with other processes waits for what: the kernels before it compute nothing that only later ones need. */
import { topological } from '../../core/node.js';
import { callOf } from '../../graph/fused-op.js';
import type { GraphNode } from '../../graph/node.js';

/**
 * The number of the first exchange that needs a node, in their order; of a node that none needs, their count.
 * @param order all nodes, sources first
 */
export function firstExchange(order: readonly GraphNode[]): (node: GraphNode) => number {
  const exchanges = order.filter((node) => node.op === 'call' && callOf(node).op.exchanges);
  const first = new Map<GraphNode, number>();
  exchanges.forEach((exchange, i) => {
    const sources = ({ src }: GraphNode): readonly GraphNode[] => src.filter((s) => !first.has(s));
    for (const node of topological([exchange], sources)) first.set(node, i);
  });
  return (node) => first.get(node) ?? exchanges.length;
}
