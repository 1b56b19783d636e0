/** What a pass of the scheduler has made, as text: for HEDDLE_DEBUG=3. */
import type { GraphNode } from '../graph/node.js';
import type { Group } from './group.js';
import type { Place, PlacedLaunch } from './launch.js';
import type { Plan } from './plan.js';

const lines = (head: string, list: readonly string[]): string =>
  [head, ...list.map((l) => `  ${l}`)].join('\n');

/** The changed parts of a plan. */
export function printPlan(
  plan: Plan,
  {
    choices,
    groups,
    calls,
    variants,
    work,
    before,
    updated,
    overwrites,
    levels,
    launches,
    needs,
  }: Partial<Plan>,
): string {
  if (launches) {
    const last = launches.at(-1)?.level ?? -1;
    const head = `${launches.length} launches on ${last + 1} levels, arena ${plan.arenaBytes} bytes`;
    return lines(head, launches.map(launchText));
  }
  if (groups)
    return lines(`${groups.length} groups, ${plan.stored.size} nodes with memory`, groups.map(groupText));
  if (choices) return `${choices.size} hand-written kernels, ${plan.leaves.length} leaves`;
  if (calls) return `${calls.size} calls`;
  if (variants)
    return lines(
      `${variants.size} chosen`,
      [...variants].map(([g, v]) => `${groupText(g)}: ${v.name}`),
    );
  if (before)
    return `${before.work.reduce((n, w) => n + w.stages.length, 0)} launches once, for ${before.roots.length} further leaves`;
  if (work) return `${work.reduce((n, w) => n + w.stages.length, 0)} launches of ${work.length} groups`;
  const over = updated ?? overwrites;
  if (over) return lines(`${over.size} in place`, [...over.keys()].map(nodeText));
  if (levels) return `${new Set([...levels.values()].flat()).size} levels`;
  return needs
    ? lines(
        `${needs.flat().length} edges`,
        needs.map((of, i) => `${i} ← ${of.join(' ') || '–'}`),
      )
    : '';
}

const nodeText = ({ op, dtype, shape }: GraphNode): string => `${op} ${dtype.name}(${shape.join(',')})`;

const groupText = ({ roots, call, reduction, chain }: Group): string => {
  const kind = call?.choice.name ?? (chain ? `chain of ${chain.links.length}` : reduction && 'reduction');
  return `${kind ? `${kind} → ` : ''}${roots.map(nodeText).join(', ')}`;
};

const placeText = (place: Place): string => Object.entries(place).flat().join(' ');

const launchText = ({ level, work, args }: PlacedLaunch): string =>
  `${level}: ${'kernel' in work ? work.kernel.name : work.library.name}(${args.map(placeText).join(', ')})`;
