/** In which order a kernel computes what it does around its reductions. */
import type { GraphNode } from '../../graph/node.js';
import type { Expr, Statement } from '../../kernel/ir/ir.js';
import * as k from '../../kernel/ir/ir.js';
import type { MatrixReduction } from '../group.js';

/** What there is one of for a row: reductions that do not depend on each other, what is computed from them, and so on. */
export function levelsOf({ members }: MatrixReduction): GraphNode[][] {
  const levels: GraphNode[][] = [];
  const levelOf = new Map<GraphNode, number>();
  for (const { node, per } of members) {
    const below = node.src.reduce((n, s) => Math.max(n, levelOf.get(s) ?? -1), -1);
    const level = node.op === 'reduce' ? below + 1 : below;
    levelOf.set(node, level);
    if (per === 'row') levels[level] = [...(levels[level] ?? []), node];
  }
  return levels;
}

/** The reductions of each level. */
export const reductionLevels = (reduction: MatrixReduction): GraphNode[][] =>
  levelsOf(reduction).map((level) => level.filter(({ op }) => op === 'reduce'));

/** What is computed once for a row, because every element of it needs it. */
export function neededInside({ members }: MatrixReduction): Set<GraphNode> {
  const isRow = new Map(members.map(({ node, per }) => [node, per === 'row']));
  const needed = new Set<GraphNode>();
  for (const { node, per } of [...members].reverse()) {
    if (per === 'row' && !needed.has(node)) continue;
    for (const s of node.src) if (isRow.get(s) && s.op !== 'reduce') needed.add(s);
  }
  return needed;
}

export const guarded = (conditions: readonly Expr[], body: readonly Statement[]): Statement =>
  conditions.length === 0
    ? k.block(body)
    : k.when(
        conditions.reduce((a, b) => k.alu('and', [a, b])),
        k.block(body),
      );
