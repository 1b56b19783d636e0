/** Stands in for the passes that only a GPU gains by: in a browser launches stay as they are. */
import type { LaunchStep, PlacedLaunch } from '../launch.js';
import { type Arena, type Lifetime, planArena } from '../passes/memory.js';
import type { Partition } from '../passes/partition.js';
import type { Plan } from '../plan.js';

export const joinSums = ({ groups, stored }: Plan): Partition => ({ groups, stored });

export const placeParts = joinSums;

export const chainRows = joinSums;

export const joinSpreads = joinSums;

export const joinLists = (launches: readonly PlacedLaunch[]): readonly PlacedLaunch[] => launches;

export const mergeLaunches = joinLists;

export const tuneCalls = (): Partial<Plan> => ({});

export const claimOverwrites = tuneCalls;

export const arenaFor = (lifetimes: readonly Lifetime[]): Arena => planArena(lifetimes);

export const besideLongLaunches = (
  _order: readonly LaunchStep[],
  levels: Map<LaunchStep, number>,
): Map<LaunchStep, number> => levels;
