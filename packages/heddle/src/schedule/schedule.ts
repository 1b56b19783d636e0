/** The graph compiler: from a graph to launches. `PASSES` is the list, in the order they run. */
import { printPlan, verifyPlan } from '#schedule/checks.js';
import { isExchange } from '#schedule/exchanges.js';
import {
  chainRows,
  claimOverwrites,
  joinLists,
  joinSpreads,
  joinSums,
  mergeLaunches,
  placeParts,
  tuneCalls,
} from '#schedule/gpu-passes.js';
import { env } from '../core/env.js';
import { debug } from '../core/log.js';
import type { GraphNode } from '../graph/node.js';
import type { Target } from '../kernel/ir/target.js';
import type { Schedule } from './launch.js';
import { canonicalize } from './passes/canonical.js';
import { splitConstants } from './passes/constants.js';
import { joinFollowers } from './passes/followers.js';
import { assignLevels } from './passes/levels.js';
import { mergeGroups } from './passes/merge.js';
import { launchNeeds } from './passes/needs.js';
import { partition } from './passes/partition.js';
import { place } from './passes/place.js';
import { claimUpdates } from './passes/updates.js';
import { lowerGroups, openCalls } from './passes/work.js';
import { type Plan, type PlanPass, type PlanSetting, planOf } from './plan.js';

const gpu = ({ target }: PlanSetting): boolean => target.model === 'threads';

/** What happens to a graph, in this order. */
export const PASSES: readonly PlanPass[] = [
  {
    name: 'canonicalize',
    why: 'equal nodes are computed once; a fused op becomes a hand-written kernel or its composition',
    run: ({ roots }, { target, kernels, constants }) => canonicalize(roots, target, kernels, constants),
  },
  {
    name: 'partition',
    why: 'a node gets memory only where computing it again would cost more than reading it',
    run: (plan, { target }) => partition(plan, target),
  },
  { name: 'merge', why: 'elementwise groups on the same elements share their loads', run: mergeGroups },
  {
    name: 'join',
    why: 'elementwise ops after a kernel are computed where it stores the value',
    run: joinFollowers,
  },
  {
    name: 'sums',
    why: 'a kernel that has rows of what it stores at hand sums their columns: nobody reads them for that',
    when: gpu,
    run: joinSums,
  },
  {
    name: 'parts',
    why: 'what only puts others together is stored by those who make its parts: nothing is copied',
    when: gpu,
    run: placeParts,
  },
  {
    name: 'chains',
    why: 'small products, and what is computed of their rows, are one launch where a block can take a row through all',
    when: gpu,
    run: chainRows,
  },
  {
    name: 'spread',
    why: 'a kernel that makes the elements which windows come from stores the windows too: nobody reads them for that',
    when: gpu,
    run: joinSpreads,
  },
  {
    name: 'open',
    why: 'a hand-written kernel reads views of its sources where it can: nothing is copied for it',
    run: openCalls,
  },
  {
    name: 'tune',
    why: 'which tile is fastest depends on the GPU, the sizes and the epilogue: it is measured',
    when: ({ tune }) => tune !== undefined,
    run: tuneCalls,
  },
  { name: 'lower', why: 'a device runs launches: kernels in IR with their grids', run: lowerGroups },
  {
    name: 'constants',
    why: 'weights that are packed, converted or reordered for a kernel are so once, not at every run',
    when: ({ constants }) => constants.size > 0,
    run: splitConstants,
  },
  {
    name: 'updates',
    why: 'a parameter after its update takes the memory of the one before: no copy, no second buffer',
    when: ({ updates }) => updates.size > 0,
    run: claimUpdates,
  },
  {
    name: 'levels',
    why: 'launches of a level run side by side, and what nobody waits for where it costs least',
    run: assignLevels,
  },
  {
    name: 'overwrites',
    why: 'what is read for the last time, element by element, may give its memory to what is made of it',
    run: claimOverwrites,
  },
  { name: 'place', why: 'what does not live at the same time shares the memory of one arena', run: place },
  {
    name: 'lists',
    why: 'the updates of all parameters, of any sizes, are one launch',
    when: gpu,
    run: ({ launches }, { target }) => ({ launches: joinLists(launches, target) }),
  },
  {
    name: 'side by side',
    why: 'a launch with next to nothing to do costs less as a few blocks of another',
    when: gpu,
    run: ({ launches }, { target }) => ({ launches: mergeLaunches(launches, target) }),
  },
  {
    name: 'needs',
    why: 'a launch waits for those whose memory it touches, not for a whole level',
    run: ({ launches }) => ({
      needs: launchNeeds(
        launches.map(({ work, ...launch }) => ({ ...launch, isExchange: isExchange(work) })),
      ),
    }),
  },
];

/** As in `PlanSetting`, all of it optional. */
export type ScheduleOptions = {
  readonly [K in Exclude<keyof PlanSetting, 'target'>]?: NonNullable<PlanSetting[K]>;
};

/**
 * The launches that compute `roots` on a device. HEDDLE_CHECK=1 verifies what each pass makes, HEDDLE_DEBUG=3 prints it.
 * @throws InternalError under HEDDLE_CHECK=1, if a pass breaks a rule
 */
export function schedule(
  roots: readonly GraphNode[],
  target: Target,
  { updates = new Map(), constants = new Set(), kernels = true, tune }: ScheduleOptions = {},
  passes: readonly PlanPass[] = PASSES,
): Schedule {
  const setting: PlanSetting = { target, updates, constants, kernels, tune };
  return finished(planOf(roots), setting, passes);
}

/** What these passes make of a plan, and of what runs once before it. */
function finished(from: Plan, setting: PlanSetting, passes: readonly PlanPass[], isGuess = false): Schedule {
  const plan = planned(from, setting, passes, isGuess);
  const { before } = plan;
  if (!before) return scheduleOf(plan);
  const later = passes.slice(passes.findIndex(({ name }) => name === 'constants') + 1);
  const first = planned({ ...planOf([]), ...before }, { ...setting, updates: new Map() }, later, isGuess);
  return { ...scheduleOf(plan), before: scheduleOf(first) };
}

/** A plan after these passes. What they make of a guess is neither verified nor printed. */
function planned(from: Plan, setting: PlanSetting, passes: readonly PlanPass[], isGuess: boolean): Plan {
  const check = env('HEDDLE_CHECK') === 1;
  let plan = from;
  for (const [i, pass] of passes.entries()) {
    if (pass.when && !pass.when(setting)) continue;
    const finish = (guess: Plan): Schedule => finished(guess, setting, passes.slice(i + 1), true);
    const made = pass.run(plan, setting, finish);
    plan = { ...plan, ...made };
    if (isGuess) continue;
    if (check) verifyPlan(plan, made, pass.name);
    debug(3, () => `schedule after ${pass.name}: ${printPlan(plan, made)}`);
  }
  return plan;
}

const scheduleOf = ({ launches, arenaBytes, results, needs }: Plan): Schedule => ({
  launches: launches.map(({ touches: _, anySize: __, awaits: ___, ...launch }, i) => ({
    ...launch,
    needs: needs[i]!,
  })),
  arenaBytes,
  roots: results,
});
