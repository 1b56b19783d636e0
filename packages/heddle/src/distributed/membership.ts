/** What this process is among those that train together, from `init` to `close`. */
import { ArgumentError } from '../core/errors.js';
import type { ProcessGroup } from './group.js';
import type { Inboxes } from './inboxes.js';

export interface Membership {
  /** All ranks. */
  readonly world: ProcessGroup;
  /** The number of this process among those of its host. */
  readonly localRank: number;
  /** Whether all ranks have GPUs that copy into each other's memory, which takes no kernel. */
  readonly copies: boolean;
  /** What all ranks copy into. */
  readonly inboxes: Inboxes;
  /** Resolves when all ranks of a group have called it. */
  barrier(group: ProcessGroup): Promise<void>;
  /** Connects the ranks of a group. */
  prepare(group: ProcessGroup): Promise<void>;
  close(): Promise<void>;
}

let current: Membership | undefined;

export const isMember = (): boolean => current !== undefined;

/** @throws ArgumentError before `init` */
export function membership(): Membership {
  if (current) return current;
  throw new ArgumentError('[distributed] this process has not joined the others: await init() first.');
}

export const setMembership = (membership: Membership | undefined): void => {
  current = membership;
};
