/** Groups of ranks, and what this process is in them. */
import { ArgumentError } from '../core/errors.js';

/** Ranks that exchange values with each other: all of the world, or some, by `newGroup`. */
export class ProcessGroup {
  /** Their ranks in the world, ascending. */
  readonly ranks: readonly number[];
  /** The place of this process among them; −1 if it is not one of them. */
  readonly index: number;

  /** @internal @param rank of this process */
  constructor(ranks: readonly number[], rank: number) {
    this.ranks = ranks;
    this.index = ranks.indexOf(rank);
  }

  /** How many ranks there are in it. */
  get size(): number {
    return this.ranks.length;
  }
}

/** @throws ArgumentError unless this process belongs to the group */
export function requireMember(op: string, { ranks, index }: ProcessGroup): void {
  if (index < 0)
    throw new ArgumentError(
      `[${op}] this rank is not one of the group's (${ranks.join(', ')}): only those may call it.`,
    );
}
