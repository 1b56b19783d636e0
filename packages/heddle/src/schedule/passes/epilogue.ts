/** Bias and ReLU after a matrix product, where nothing else follows: what libraries compute within one call. */
import { knownValue } from '../../graph/build.js';
import type { Epilogue } from '../../graph/fused-op.js';
import { argOf, type GraphNode } from '../../graph/node.js';
import { viewOf } from './views.js';

export interface FoundEpilogue extends Epilogue {
  /** The memory of the bias. */
  readonly base: GraphNode | undefined;
}

/** What leads from `node` to `root`, if it is a bias along the last dimension, a ReLU, or both. */
export function epilogueOf(
  node: GraphNode,
  root: GraphNode,
  stored: ReadonlySet<GraphNode>,
): FoundEpilogue | undefined {
  if (root === node || root.dtype !== node.dtype) return undefined;
  const rectified = operandsOf(root, 'max');
  const relu = rectified?.some((s) => knownValue(s) === 0) ?? false;
  const sum = relu ? rectified!.find((s) => knownValue(s) !== 0)! : root;
  if (sum === node) return { relu, bias: false, base: undefined };
  const added = operandsOf(sum, 'add');
  const bias = added?.includes(node) ? added.find((s) => s !== node) : undefined;
  const view = bias && viewOf(bias, stored);
  if (!view || !(view.base.isLeaf || stored.has(view.base)) || view.dtype !== node.dtype) return undefined;
  const last = node.shape.length - 1;
  const along = view.strides.every((s, i) => node.shape[i] === 1 || s === (i === last ? 1 : 0));
  if (!along || view.offset !== 0) return undefined;
  return { relu, bias: true, base: view.base };
}

const operandsOf = (node: GraphNode, op: 'max' | 'add'): readonly GraphNode[] | undefined =>
  node.op === 'map' && argOf(node, 'map').op === op ? node.src : undefined;
