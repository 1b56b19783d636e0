/** Joining the other processes, and leaving them. */
import { ArgumentError } from '../core/errors.js';
import { join } from './join.js';
import { isMember, membership } from './membership.js';

/** Options of `init`. */
export interface InitOptions {
  /** How long to wait for the other ranks, in seconds (default 60). */
  readonly timeout?: number;
}

/** Join. */
export async function init(_options: InitOptions = {}): Promise<void> {
  if (isMember())
    throw new ArgumentError('[init] this process has joined already. Call init() once, at the start.');
  join(0, 1, 0, undefined);
}

/** Whether `init` has been called. */
export const isInitialized = isMember;

/** The number of this process among all, from 0. */
export function rank(): number {
  const { world } = membership();
  return world.ranks[world.index]!;
}

/** How many processes train together. */
export const worldSize = (): number => membership().world.size;

/** The number of this process among those of its host, from 0. */
export const localRank = (): number => membership().localRank;

/** Leave. */
export const close = (): Promise<void> => membership().close();
