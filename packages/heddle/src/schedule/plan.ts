/** What the passes of the scheduler hand on, each with what it has added or changed. */
import { InternalError } from '../core/errors.js';
import type { KernelChoice, Variant } from '../graph/fused-op.js';
import type { GraphNode } from '../graph/node.js';
import type { Target } from '../kernel/ir/target.js';
import type { Group } from './group.js';
import type { PlacedLaunch, Schedule, Work } from './launch.js';
import type { OpenCall } from './passes/hand-written.js';
import type { Tune } from './passes/tuning.js';

/** A graph on its way to launches. What no pass has made yet is empty. */
export interface Plan {
  readonly roots: readonly GraphNode[];
  /** The stand-ins of the leaves, in the order of `fingerprint`. */
  readonly leaves: readonly GraphNode[];
  /** The hand-written kernels of calls. */
  readonly choices: ReadonlyMap<GraphNode, KernelChoice>;
  /** What one kernel computes each, in an order in which they can run. */
  readonly groups: readonly Group[];
  /** Nodes with memory. */
  readonly stored: ReadonlySet<GraphNode>;
  /** Of the groups with a hand-written kernel. */
  readonly calls: ReadonlyMap<Group, OpenCall>;
  /** How calls are done that can be done in several ways; without one, as the kernel guesses. */
  readonly variants: ReadonlyMap<Group, Variant>;
  /** The launches of a group: of a call by one of its variants, or as the kernel guesses. */
  readonly workOf: (group: Group, variant?: Variant) => Work;
  /** The launches of each group. */
  readonly work: readonly Work[];
  /** What runs once before, for leaves that come after the graph's own. */
  readonly before: Pick<Plan, 'work' | 'leaves' | 'roots'> | undefined;
  /** Roots that are written over a leaf. */
  readonly updated: ReadonlyMap<GraphNode, GraphNode>;
  /** Results that are written over something else that lives inside the program. */
  readonly overwrites: ReadonlyMap<GraphNode, GraphNode>;
  /** For each stage of a group the level that it runs on. */
  readonly levels: ReadonlyMap<Work, readonly number[]>;
  /** With their memory. */
  readonly launches: readonly PlacedLaunch[];
  readonly arenaBytes: number;
  /** Where the roots' values are. */
  readonly results: Schedule['roots'];
  /** For each launch those that it needs. */
  readonly needs: readonly (readonly number[])[];
}

/** What a graph is scheduled for. */
export interface PlanSetting {
  readonly target: Target;
  /** For a root, the leaf (by its number) whose memory it may take over when nothing needs the old values. */
  readonly updates: ReadonlyMap<number, number>;
  /** Leaves, by their numbers, whose values are the same at every run: what depends on them alone is computed once. */
  readonly constants: ReadonlySet<number>;
  /** false: compositions only, no hand-written kernels. */
  readonly kernels: boolean;
  /** Chooses among the ways of a hand-written kernel; without it, each takes its best guess. */
  readonly tune: Tune | undefined;
}

export interface PlanPass {
  readonly name: string;
  /** Whether it is for this setting; always if absent. */
  readonly when?: (setting: PlanSetting) => boolean;
  /** What it adds or changes. `finish` says what the passes after it would make of a plan. */
  readonly run: (plan: Plan, setting: PlanSetting, finish: (plan: Plan) => Schedule) => Partial<Plan>;
}

export const planOf = (roots: readonly GraphNode[]): Plan => ({
  ...{ roots, leaves: [], choices: new Map(), groups: [], stored: new Set<GraphNode>(), calls: new Map() },
  ...{
    variants: new Map(),
    workOf: () => unopened(),
    work: [],
    before: undefined,
    updated: new Map(),
    overwrites: new Map(),
    levels: new Map(),
  },
  ...{ launches: [], arenaBytes: 0, results: [], needs: [] },
});

function unopened(): never {
  throw new InternalError('groups have no launches before their calls are open');
}
