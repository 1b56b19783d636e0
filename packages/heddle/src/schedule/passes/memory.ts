/** One arena for everything that lives inside a program: places by lifetime, largest first. */

export interface Lifetime {
  readonly bytes: number;
  /** The first and the last level of the schedule at which the memory is in use. */
  readonly from: number;
  readonly to: number;
  /** The number of another of as many bytes, at whose last level this one begins, and whose memory it may take over then. */
  readonly over?: number | undefined;
}

/** A line of a GPU's caches: kernels that read a tensor row by row read twice as many lines of one that begins in the middle. */
const ALIGNMENT = 128;

/** `Touch.memory` of it. */
export const ARENA = 'arena';

export interface Arena {
  /** Of each lifetime. */
  readonly offsets: readonly number[];
  readonly bytes: number;
}

/**
 * Offsets such that memories in use at the same time never overlap.
 * @param mayShare whether two lifetimes (by their numbers) at different times may have the same memory
 */
export function planArena(
  lifetimes: readonly Lifetime[],
  mayShare: (i: number, j: number) => boolean = () => true,
): Arena {
  const offsets = new Array<number>(lifetimes.length).fill(0);
  const placed: number[] = [];
  const bySize = lifetimes
    .map((_, i) => i)
    .sort((a, b) => lifetimes[b]!.bytes - lifetimes[a]!.bytes || a - b);
  let total = 0;
  for (const i of bySize) {
    const mine = lifetimes[i]!;
    const bytes = Math.ceil(mine.bytes / ALIGNMENT) * ALIGNMENT;
    const busy = placed
      .filter((j) => (lifetimes[j]!.from <= mine.to && mine.from <= lifetimes[j]!.to) || !mayShare(i, j))
      .map((j) => ({
        j,
        start: offsets[j]!,
        end: offsets[j]! + Math.ceil(lifetimes[j]!.bytes / ALIGNMENT) * ALIGNMENT,
      }))
      .sort((a, b) => a.start - b.start);
    let at = 0;
    let shared = 0;
    for (const { j, start, end } of busy) {
      if (at + bytes <= start) break;
      // In the place of the other one, unless a third is there later.
      if (at <= start && (mine.over === j || lifetimes[j]!.over === i)) [at, shared] = [start, end];
      else at = Math.max(at, shared, end);
    }
    offsets[i] = at;
    placed.push(i);
    total = Math.max(total, at + bytes);
  }
  return { offsets, bytes: total };
}
