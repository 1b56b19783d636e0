/** What the elements of a node cost to compute. */
import { argOf, type GraphNode } from '../graph/node.js';
import { OPS } from '../kernel/ir/ops.js';

/** The work of a node alone. */
export function ownWeight(node: GraphNode): number {
  if (node.op === 'map') {
    const { op } = argOf(node, 'map');
    return op === 'select' || op === 'cast' || op === 'bitcast' ? 1 : OPS[op].cost;
  }
  if (node.op === 'random') return 60;
  return node.op === 'gather' || node.op === 'pad' ? 2 : 0;
}
