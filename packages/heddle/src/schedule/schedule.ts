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
  // Equal nodes are computed once; a fused op becomes a hand-written kernel or its composition.
  {
    name: 'canonicalize',
    run: ({ roots }, { target, kernels, constants }) => canonicalize(roots, target, kernels, constants),
  },
  // A node gets memory only where computing it again would cost more than reading it.
  { name: 'partition', run: (plan, { target }) => partition(plan, target) },
  // Elementwise groups on the same elements share their loads.
  { name: 'merge', run: mergeGroups },
  // Elementwise ops after a kernel are computed where it stores the value.
  { name: 'join', run: joinFollowers },
  // A kernel that has rows of what it stores at hand sums their columns: nobody reads them for that.
  { name: 'sums', when: gpu, run: joinSums },
  // What only puts others together is stored by those who make its parts: nothing is copied.
  { name: 'parts', when: gpu, run: placeParts },
  // Small products, and what is computed of their rows, are one launch where a block can take a row through all.
  { name: 'chains', when: gpu, run: chainRows },
  // A kernel that makes the elements which windows come from stores the windows too: nobody reads them for that.
  { name: 'spread', when: gpu, run: joinSpreads },
  // A hand-written kernel reads views of its sources where it can: nothing is copied for it.
  { name: 'open', run: openCalls },
  // Which tile is fastest depends on the GPU, the sizes and the epilogue: it is measured.
  { name: 'tune', when: ({ tune }) => tune !== undefined, run: tuneCalls },
  // A device runs launches: kernels in IR with their grids.
  { name: 'lower', run: lowerGroups },
  // Weights that are packed, converted or reordered for a kernel are so once, not at every run.
  { name: 'constants', when: ({ constants }) => constants.size > 0, run: splitConstants },
  // A parameter after its update takes the memory of the one before: no copy, no second buffer.
  { name: 'updates', when: ({ updates }) => updates.size > 0, run: claimUpdates },
  // Launches of a level run side by side, and what nobody waits for where it costs least.
  { name: 'levels', run: assignLevels },
  // What is read for the last time, element by element, may give its memory to what is made of it.
  { name: 'overwrites', run: claimOverwrites },
  // What does not live at the same time shares the memory of one arena.
  { name: 'place', run: place },
  // The updates of all parameters, of any sizes, are one launch.
  {
    name: 'lists',
    when: gpu,
    run: ({ launches }, { target }) => ({ launches: joinLists(launches, target) }),
  },
  // A launch with next to nothing to do costs less as a few blocks of another.
  {
    name: 'side by side',
    when: gpu,
    run: ({ launches }, { target }) => ({ launches: mergeLaunches(launches, target) }),
  },
  // A launch waits for those whose memory it touches, not for a whole level.
  {
    name: 'needs',
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
