/** Stands in for schedule/orders.ts in a browser, where no op is faster in another order of dimensions. */
import type { GraphNode } from '../../graph/node.js';

export const reordered = (roots: readonly GraphNode[]): readonly GraphNode[] => roots;
