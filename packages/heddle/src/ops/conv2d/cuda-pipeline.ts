/**
 * How a block overlaps copies with products: shared memory has places for several pieces of its work, and while one piece
 * is multiplied the next ones are on their way.
 */
import type { Intrinsics } from '../../kernel/language/language.js';

/** Places for pieces in shared memory. */
export interface Stages {
  readonly count: number;
  /** Pieces whose copies are started before the first is multiplied. */
  readonly ahead: number;
  /** From one place to the next. */
  readonly floats: number;
}

/**
 * `count` places for the pieces that a block copies, `pieces` in all. Where a place must be filled again, the one that is
 * being read is not on its way.
 */
export const stagesOf = (count: number, pieces: number, floats: number): Stages => ({
  count,
  floats,
  ahead: count >= pieces ? count : Math.max(1, count - 1),
});

/** Starts to copy piece `piece` to shared memory from `to` on. */
type Fetch = (piece: number, to: number) => void;

/** Starts the copies of the pieces `first`, `first + step` … below `end` that come before the first product. For use in kernels. */
export function startCopies(
  first: number,
  end: number,
  step: number,
  fetch: Fetch,
  stages: Stages,
  { commitCopies }: Intrinsics,
): void {
  for (let started = 0; started < stages.ahead; started++) {
    const piece = first + started * step;
    if (piece < end) fetch(piece, started * stages.floats);
    commitCopies();
  }
}

/**
 * Multiplies the pieces `first`, `first + step` … below `end`, each from where it lies in shared memory, and starts the
 * copies that `startCopies` has left. For use in kernels.
 */
export function multiplyPieces(
  first: number,
  end: number,
  step: number,
  fetch: Fetch,
  multiply: (at: number) => void,
  stages: Stages,
  { barrier, commitCopies, waitCopies }: Intrinsics,
): void {
  const last = (stages.count - 1) * stages.floats;
  let piece = first;
  let used = 0;
  let filled = stages.ahead === stages.count ? 0 : stages.ahead * stages.floats;
  while (piece < end) {
    waitCopies(stages.ahead - 1);
    barrier();
    // All threads are done with what they used before the barrier: its place is filled again.
    if (stages.ahead < stages.count && piece + stages.ahead * step < end)
      fetch(piece + stages.ahead * step, filled);
    commitCopies();
    multiply(used);
    used = used === last ? 0 : used + stages.floats;
    filled = filled === last ? 0 : filled + stages.floats;
    piece += step;
  }
}

export const PIPELINE = { startCopies, multiplyPieces };
