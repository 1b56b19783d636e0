/**
 * Groups that compute the same of other memory, as the layers of a network do: their launches are planned once, and are
 * the same kernels for all of them.
 */
import { topological } from '../../core/node.js';
import type { GraphNode } from '../../graph/node.js';
import type { Group } from '../group.js';
import type { Work } from '../launch.js';
import { describe, jsonOf } from './canonical.js';

/** What a group computes. */
export interface Form {
  /** Equal for groups that are alike. */
  readonly text: string;
  /** All nodes that it computes or reads, in the order in which the text describes them. */
  readonly nodes: readonly GraphNode[];
}

export function formOf(
  { roots, call, reduction, chain, spreads, regions }: Group,
  stored: ReadonlySet<GraphNode>,
): Form {
  const isRead = (n: GraphNode): boolean => stored.has(n) && !roots.includes(n);
  const nodes = topological(roots, (n) => (isRead(n) ? [] : n.src));
  const ids = new Map(nodes.map((n, i) => [n, i]));
  const numbers = (of: readonly GraphNode[]): number[] => of.map((n) => ids.get(n)!);
  const lines = nodes.map((n) =>
    isRead(n) ? `memory ${n.dtype.name}(${n.shape.join(',')})` : describe(n, numbers(n.src)),
  );
  const { windows } = call ?? {};
  const group = [
    numbers(roots),
    call && [call.choice.name, ...numbers([call.node, call.made, ...call.also])],
    windows && [windows.sizes, numbers(windows.functions), numbers(windows.between)],
    reduction && [reduction.structure, reduction.members.map(({ node, per }) => [ids.get(node), per])],
    chain && [chain.rows, chain.links.map((link) => numbers(link.roots))],
    spreads && numbers(spreads),
    regions && [...regions].map(([root, { strides, offset }]) => [ids.get(root), strides, offset]),
  ];
  return { text: [...lines, jsonOf(group)].join('\n'), nodes };
}

/** The launches of `from`, with the memory of another group that is alike. */
export function ofOther(work: Work, from: Form, group: Group, to: Form): Work {
  const counterparts = new Map(from.nodes.map((node, i) => [node, to.nodes[i]!]));
  const of = (node: GraphNode): GraphNode => counterparts.get(node)!;
  return {
    ...work,
    group,
    reads: new Set([...work.reads].map(of)),
    scratch: work.scratch.map((piece) => ({ ...piece })),
    stages: work.stages.map((stage) => ({
      ...stage,
      slots: stage.slots.map((slot) => ('node' in slot ? { node: of(slot.node) } : slot)),
    })),
    ...(work.call && { call: { ...work.call } }),
  };
}
