/** The launches of a program as the driver takes them. */
import { DeviceError } from '../../../core/errors.js';
import type { Scalar } from '../../../kernel/ir/ops.js';
import { dynamicBytesOf } from '../../../kernel/ir/shared-layout.js';
import type { Target } from '../../../kernel/ir/target.js';
import { type KernelLaunch, type Launch, nameOfLaunch } from '../../device.js';
import { requireSizes } from '../../launch-rules.js';
import type { Kernels } from '../compile/kernels.js';
import { ClusterConfig } from '../driver/cluster.js';
import { ROUTINES } from '../vendor/libraries.js';
import type { LibraryContext, PreparedRoutine } from '../vendor/routine.js';
import { type LaunchBlocks, type LaunchOrder, sharedPercents } from './division.js';

export type PlannedLaunch = PlannedKernel | PlannedCall;

interface Planned extends LaunchOrder {
  readonly name: string;
}

export interface PlannedKernel extends Planned, LaunchBlocks {
  readonly clusters: ClusterConfig | undefined;
  /** What it asks for as shared memory in a graph, in percent of the most that a multiprocessor has. */
  readonly sharedPercent: number;
}

/** A kernel before all launches are known. */
type Undivided = Omit<PlannedKernel, 'sharedPercent'>;

export interface PlannedCall extends Planned {
  readonly routine: PlacedRoutine;
}

/** A routine with its workspace. */
export type PlacedRoutine = Pick<PreparedRoutine, 'dispose' | 'begins' | 'graphs'> & {
  enqueue(stream: number, args: readonly Scalar[]): void;
};

/** @throws KernelError if a kernel does not compile, DeviceError if a launch is more than the GPU can do */
export function planLaunches(
  launches: readonly Launch[],
  kernels: Kernels,
  target: Target,
  context: LibraryContext,
): PlannedLaunch[] {
  const own = launches.filter((l): l is KernelLaunch => 'kernel' in l);
  for (const launch of own) checkLaunch(launch, target);
  const functions = kernels.load(own);
  let next = 0;
  const calls = new Map<number, PreparedRoutine>();
  const planned = (launch: Launch, i: number): Undivided | Planned => {
    const name = nameOfLaunch(launch);
    const needs = launch.needs ?? Array.from({ length: i }, (_, before) => before);
    if ('library' in launch) {
      const routine = ROUTINES[name];
      if (!routine || !target.libraries.has(name))
        throw new DeviceError(`[${name}] is in none of the vendor libraries found here.`);
      calls.set(i, routine.prepare(launch.library, context));
      return { name, needs };
    }
    const { grid, block, cluster, kernel } = launch;
    const sharedBytes = dynamicBytesOf(kernel, launch.sharedBytes);
    const fn = functions[next++]!;
    kernels.allowShared(fn, sharedBytes);
    const clusters = cluster && new ClusterConfig(grid, block, sharedBytes, cluster);
    return { name, needs, fn, grid, block, sharedBytes, clusters };
  };
  try {
    const plan = withWorkspace(launches.map(planned), calls, context);
    const percents = sharedPercents(plan, target);
    return plan.map((launch, i) => ('fn' in launch ? { ...launch, sharedPercent: percents[i]! } : launch));
  } catch (error) {
    for (const routine of calls.values()) routine.dispose();
    throw error;
  }
}

/** All routines work in the same memory, and therefore one after the other. */
function withWorkspace(
  plan: readonly (Undivided | Planned)[],
  calls: ReadonlyMap<number, PreparedRoutine>,
  context: LibraryContext,
): (Undivided | PlannedCall)[] {
  const bytes = Math.max(0, ...[...calls.values()].map(({ workspaceBytes }) => workspaceBytes));
  const memory = bytes > 0 ? context.allocate(bytes, "libraries' workspace") : undefined;
  let placed = 0;
  let before: number | undefined;
  return plan.map((launch, i) => {
    const routine = calls.get(i);
    if (!routine) return launch as Undivided;
    const needs = [...launch.needs];
    if (routine.workspaceBytes > 0) {
      if (before !== undefined && !needs.includes(before)) needs.push(before);
      before = i;
    }
    const isFirst = placed++ === 0;
    return {
      name: launch.name,
      needs,
      routine: {
        ...routine,
        enqueue: (stream, args) => routine.enqueue(stream, args, memory?.address ?? 0),
        dispose() {
          routine.dispose();
          if (isFirst) memory?.free();
        },
      },
    };
  });
}

/** Compute capability × 10 that has thread-block clusters, the copy engine and products of warpgroups. */
const HOPPER = 90;

function checkLaunch({ kernel, grid, block, cluster }: KernelLaunch, target: Target): void {
  requireSizes(kernel.name, { grid, block, cluster });
  if (kernel.arrays.some((a) => a.form) && target.capability < HOPPER)
    throw new DeviceError(
      `[${kernel.name}] has tiles or mbarriers: this GPU has compute capability ${target.capability / 10}, they come with ${HOPPER / 10} (Hopper).`,
    );
  if (cluster && target.capability < HOPPER)
    throw new DeviceError(
      `[${kernel.name}] cluster (${cluster.join(', ')}): this GPU has compute capability ${target.capability / 10}, clusters come with ${HOPPER / 10} (Hopper). Launch without.`,
    );
}
