/**
 * What of the elements of a line is worth keeping in their place: a value that a reduction computes of them, and that everything
 * later is made of. Of a softmax these are the exponentials: the sum has them, and so have the results.
 */
import { some, topological } from '../../core/node.js';
import type { GraphNode } from '../../graph/node.js';
import { ownWeight } from '../own-weight.js';
import type { MatrixWork } from './matrix-kernel.js';
import { reductionLevels } from './members.js';

/** Work of a value (`OpRecord.cost`) from which it is kept. */
const WORTH_KEEPING = 10;

/** A value, and the reductions that compute it, of which there may be others beside them. */
export interface CarriedValue {
  readonly node: GraphNode;
  /** Their level, counted from 0: what is reduced later finds the value. */
  readonly level: number;
}

/** @param inputs what a kernel reads of each element */
export function carriedOf(
  { roots, reduction }: MatrixWork,
  inputs: readonly GraphNode[],
): CarriedValue | undefined {
  const [input, another] = inputs;
  if (!input || another) return undefined;
  const { rows, columns } = reduction.structure;
  const reductions = reductionLevels(reduction);
  const results = roots.filter(({ size }) => size === rows * columns);
  const terms = reductions.map((level) => level.map(({ src }) => src[0]!));
  for (const [level, own] of terms.entries()) {
    const later = [...terms.slice(level + 1).flat(), ...results];
    const node = own.find((term) => isWorth(term, input) && later.length > 0 && isCut(term, later, input));
    if (node) return { node, level };
  }
  return undefined;
}

/** What a node is computed of, element by element. */
const elementwise = ({ op, src, size, isLeaf }: GraphNode): readonly GraphNode[] =>
  !isLeaf && (op === 'map' || op === 'reshape' || op === 'detach') ? src.filter((s) => s.size === size) : [];

/** Whether it pays to keep a value instead of an element, and both fit into the places of the values. */
function isWorth(node: GraphNode, input: GraphNode): boolean {
  const ratio = node.dtype.bytes / input.dtype.bytes;
  const computed = topological([node], (n) => elementwise(n).filter((s) => s !== input));
  const weight = computed.reduce((sum, n) => sum + ownWeight(n), 0);
  return (ratio === 1 || ratio === 2) && node !== input && weight >= WORTH_KEEPING;
}

/** Whether all of `later` that is made of the element is made of `node`. */
const isCut = (node: GraphNode, later: readonly GraphNode[], input: GraphNode): boolean => {
  const around = (n: GraphNode): readonly GraphNode[] => (n === node ? [] : elementwise(n));
  return some(later, (n) => n === node, around) && !some(later, (n) => n === input, around);
};
