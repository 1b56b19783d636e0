/** What becomes of a graph: launches, and where their arguments are. */
import type { KernelStage, LibraryStage } from '../graph/fused-op.js';
import type { GraphNode } from '../graph/node.js';
import type { Scalar } from '../kernel/ir/ops.js';
import type { Group } from './group.js';
import type { AnySizeForm } from './lower/lowering.js';
import type { Touch } from './passes/needs.js';

/** Where an argument's memory is: a leaf, a result, or the arena at an offset. */
export type Place =
  | { readonly leaf: number }
  | { readonly result: number }
  | { readonly arena: number }
  | { readonly value: Scalar };

/** A stage without its arguments. */
export type StageWork = Omit<KernelStage, 'args'> | Omit<LibraryStage, 'args'>;

export interface ScheduledLaunch {
  readonly work: StageWork;
  readonly args: readonly Place[];
  /** Launches of one level do not need each other. */
  readonly level: number;
  /** The launches that must run before, by their numbers, without those that these need. */
  readonly needs: readonly number[];
  /** Of the nodes and the scratch memory it is given, each once: what it must move at least, if it uses all of it. */
  readonly bytes: number;
  /** The fused op that it is a stage of: the same object in all its stages. */
  readonly call?: FusedCall | undefined;
  /** Who asked for its results, where that was recorded (graph/origin.ts). */
  readonly origins?: readonly string[] | undefined;
}

/** A launch before it is known which others it needs. */
export interface PlacedLaunch extends Omit<ScheduledLaunch, 'needs'> {
  readonly touches: readonly Touch[];
  /** How many exchanges with other processes must have ended before it begins: see passes/exchanges.ts. */
  readonly awaits: number;
  /** Its kernel for any number of elements, if it has one. */
  readonly anySize?: AnySizeForm | undefined;
}

/** The fused op that a launch computes. */
export interface FusedCall {
  /** Its name. */
  readonly op: string;
  /** Floating-point operations of all stages together, where the op says. */
  readonly flops: number | undefined;
}

export interface Schedule {
  readonly launches: readonly ScheduledLaunch[];
  readonly arenaBytes: number;
  /** What runs once before, on the same leaves: its roots are further leaves of these launches. */
  readonly before?: Schedule | undefined;
  /** Per root: a leaf it simply is, a leaf whose memory it overwrites, or a result with its own memory. */
  readonly roots: readonly (
    | { readonly leaf: number; readonly updated: boolean }
    | { readonly result: number; readonly bytes: number }
  )[];
}

/** An argument before it is placed: of a node's memory, or of a stage's scratch. */
export type UnplacedArgument =
  | { readonly node: GraphNode }
  | { readonly scratch: number }
  | { readonly value: Scalar };

/** A group with its launches. */
export interface Work {
  readonly group: Group;
  readonly reads: ReadonlySet<GraphNode>;
  readonly stages: readonly {
    readonly work: StageWork;
    readonly slots: readonly UnplacedArgument[];
    readonly anySize?: AnySizeForm | undefined;
  }[];
  readonly scratch: readonly { bytes: number; from: number; to: number }[];
  readonly call?: FusedCall;
  /** As in `LoweredGroup`. */
  readonly readsFirst?: boolean | undefined;
}

/** A stage of a group: one launch. */
export interface LaunchStep {
  readonly work: Work;
  readonly stage: number;
  /** What must have run before. */
  readonly needs: Set<LaunchStep>;
}
