/** Stands in for schedule/passes/parts.ts in a browser, where each reduction is computed in one. */
import type { GraphNode } from '../../graph/node.js';

export const inTwo = (): undefined => undefined;

export const spreadNodes = (): ReadonlyMap<GraphNode, number> => new Map();
