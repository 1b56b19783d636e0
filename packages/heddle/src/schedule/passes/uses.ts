/** Which launches use which memory, and when. */
import { awaitedExchanges, isExchange } from '#schedule/exchanges.js';
import type { GraphNode } from '../../graph/node.js';
import type { Target } from '../../kernel/ir/target.js';
import type { Region } from '../group.js';
import type { Work } from '../launch.js';
import type { Plan } from '../plan.js';

/** A launch that reads or writes a node. */
export interface MemoryUse {
  readonly work: Work;
  readonly stage: number;
  /** Its level, and the one at which it has ended. */
  readonly from: number;
  readonly to: number;
}

export interface MemoryUses {
  /** Of each node with memory of its own, by the levels. */
  readonly of: ReadonlyMap<GraphNode, readonly MemoryUse[]>;
  /** Results that are stored as parts of others. */
  readonly regions: ReadonlyMap<GraphNode, Region>;
  /** How many exchanges must have ended before each begins. */
  readonly awaited: ReadonlyMap<Work, number>;
  /** When a stage of a group has ended, by the levels. */
  endOf(work: Work, stage: number): number;
}

export function usesOf({ work, levels }: Plan, { model }: Target): MemoryUses {
  const levelOf = (w: Work, stage: number): number => levels.get(w)!.at(stage)!;
  const awaited: ReadonlyMap<Work, number> = awaitedExchanges(work);
  // On a CPU launches run one after the other.
  const exchanging = new Set(
    model === 'threads' ? work.filter((w) => w.stages.some((stage) => isExchange(stage.work))) : [],
  );
  const lastExchange = Math.max(-1, ...[...exchanging].map((w) => levelOf(w, -1)));
  // Exchanges, and what awaits them, may run until the last exchange.
  const endOf = (w: Work, stage: number): number =>
    Math.max(levelOf(w, stage), exchanging.has(w) || (awaited.get(w) ?? 0) > 0 ? lastExchange : -1);
  const regions = new Map<GraphNode, Region>(work.flatMap(({ group }) => [...(group.regions ?? [])]));
  const of = new Map<GraphNode, MemoryUse[]>();
  for (const w of work)
    w.stages.forEach(({ slots }, stage) => {
      const use: MemoryUse = { work: w, stage, from: levelOf(w, stage), to: endOf(w, stage) };
      const nodes = slots.flatMap((slot) =>
        'node' in slot ? (regions.get(slot.node)?.whole ?? slot.node) : [],
      );
      for (const node of new Set(nodes)) of.set(node, [...(of.get(node) ?? []), use]);
    });
  return { of, regions, awaited, endOf };
}
