/**
 * Exchanges with other processes: which of them waits for what, and who waits for them. Kernels before an exchange compute nothing
 * that only later ones need, and what needs no exchange waits for none: it shares no kernel and no memory with what does.
 */
import { topological } from '../../core/node.js';
import { callOf } from '../../graph/fused-op.js';
import type { GraphNode } from '../../graph/node.js';
import { isCollective } from '../../kernel/ir/library-call.js';
import type { Target } from '../../kernel/ir/target.js';
import { writtenBy } from '../group.js';
import type { StageWork, Work } from '../launch.js';

export const isExchange = (work: StageWork): boolean => 'library' in work && isCollective(work.library);

/**
 * The number of the first exchange that needs a node, in their order; of a node that none needs, their count. Values that are kept
 * besides, as the momentum of an update whose parameter is sent, come with those that they are: they are only stored.
 * @param order all nodes, sources first
 */
export function firstExchange(order: readonly GraphNode[]): (node: GraphNode) => number {
  const exchanges = order.filter((node) => node.op === 'call' && callOf(node).op.exchanges);
  const first = new Map<GraphNode, number>();
  exchanges.forEach((exchange, i) => {
    const sources = ({ src }: GraphNode): readonly GraphNode[] => src.filter((s) => !first.has(s));
    for (const node of topological([exchange], sources)) first.set(node, i);
  });
  const valuesOf = (node: GraphNode): GraphNode =>
    node.op === 'detach' && !first.has(node) ? valuesOf(node.src[0]!) : node;
  return (node) => first.get(valuesOf(node)) ?? exchanges.length;
}

/** How many exchanges must have ended before each begins. They are one after the other. @param work each after what it reads */
export function awaitedExchanges(work: readonly Work[]): ReadonlyMap<Work, number> {
  const awaited = new Map<Work, number>();
  /** By the values that they make. */
  const after = new Map<GraphNode, number>();
  for (const w of work) {
    const before = Math.max(0, ...[...w.reads].map((node) => after.get(node) ?? 0));
    awaited.set(w, before);
    const own = w.stages.some((stage) => isExchange(stage.work)) ? 1 : 0;
    for (const node of writtenBy(w.group)) after.set(node, Math.max(after.get(node) ?? 0, before + own));
  }
  return awaited;
}

/**
 * The target that each node is computed for: without the multiprocessors that exchanges below `roots` occupy, but for what the first
 * of these exchanges waits for.
 */
export function besideExchanges(roots: readonly GraphNode[], target: Target): (node: GraphNode) => Target {
  const occupiedBy = (node: GraphNode): number => {
    if (node.op !== 'call') return 0;
    const { op, arg } = callOf(node);
    return op.occupies?.(arg) ?? 0;
  };
  const exchanges =
    target.model === 'threads' ? topological(roots).filter((node) => occupiedBy(node) > 0) : [];
  if (exchanges.length === 0) return () => target;
  const beside = { ...target, units: Math.max(1, target.units - Math.max(...exchanges.map(occupiedBy))) };
  // They are one after the other.
  const before = new Set(topological([exchanges[0]!]));
  return (node) => (before.has(node) ? target : beside);
}
