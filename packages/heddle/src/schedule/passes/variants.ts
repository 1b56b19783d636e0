/** Of the ways in which calls can be done, those that the tuner chooses. */
import type { Variant } from '../../graph/fused-op.js';
import type { GraphNode } from '../../graph/node.js';
import { type Group, writtenBy } from '../group.js';
import type { Schedule, StageWork, Work } from '../launch.js';
import type { Plan, PlanSetting } from '../plan.js';
import { minorCalls } from './minor-calls.js';
import { type Trial, type TuneRequest, tuningKey } from './tuning.js';

/**
 * The variants that `tune` takes for the calls that can be done in several ways. It is not asked for minor ones: these keep the
 * kernel's guess, and their launches wait for no choice.
 */
export function tuneCalls(
  plan: Plan,
  { tune, target }: PlanSetting,
  finish: (plan: Plan) => Schedule,
): { variants: Map<Group, Variant> } {
  const { calls, stored, workOf } = plan;
  const several = [...calls].flatMap(([group, open]) => {
    const variants = open.variants();
    return variants.length < 2 ? [] : [{ group, variants, key: tuningKey(group, open.inputs, variants) }];
  });
  const minor = minorCalls(several, stored, target);
  const asked = several.filter(({ key }) => !minor.has(key));
  const requests = asked.map(
    ({ group, variants, key }): TuneRequest => ({
      key,
      variants: variants.map((variant) => ({
        name: variant.name,
        leastUs: variant.leastUs ?? 0,
        make: () => trialOf(workOf(group, variant)),
      })),
    }),
  );
  const guesses = new Map(asked.map(({ group, variants }) => [group, variants[0]!]));
  const others = () => withoutCalls(finish({ ...plan, variants: guesses }), guesses, workOf);
  const names = requests.length > 0 ? tune!(requests, others) : [];
  const variants = new Map(
    asked.flatMap(({ group, variants }, i): [Group, Variant][] => {
      const variant = variants.find((v) => v.name === names[i]);
      return variant ? [[group, variant]] : [];
    }),
  );
  return { variants };
}

/** The launches of a schedule without those of these calls; small launches are part of others by now. */
function withoutCalls(
  { launches, before }: Schedule,
  calls: ReadonlyMap<Group, Variant>,
  workOf: Plan['workOf'],
): StageWork[] {
  const kernelOf = (work: StageWork): unknown => ('kernel' in work ? work.kernel : work);
  const theirs = new Set(
    [...calls].flatMap(([group, variant]) => workOf(group, variant).stages.map(({ work }) => kernelOf(work))),
  );
  return [...launches, ...(before?.launches ?? [])]
    .map(({ work }) => work)
    .filter((work) => !theirs.has(kernelOf(work)));
}

/** A group's launches alone, all their memory numbered. */
function trialOf({ group, stages, scratch }: Work): Trial {
  const nodes: GraphNode[] = [];
  const numberOf = (of: GraphNode): number => {
    const node = group.regions?.get(of)?.whole ?? of;
    const known = nodes.indexOf(node);
    return known >= 0 ? known : nodes.push(node) - 1;
  };
  const numbered = stages.map(({ work, slots }) => ({
    work,
    slots: slots.map((slot) => {
      if ('value' in slot) return slot;
      return { memory: 'node' in slot ? scratch.length + numberOf(slot.node) : slot.scratch };
    }),
  }));
  const memory = [...scratch.map((s) => s.bytes), ...nodes];
  return { stages: numbered, memory, results: writtenBy(group) };
}
