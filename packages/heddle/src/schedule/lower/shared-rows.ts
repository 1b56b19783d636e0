/** How threads share out long rows that stay in the shared memory of a block, or of a cluster of blocks. */
import { clusterSizes, FITTED, sharedBytesOfEach } from '../../kernel/ir/machine.js';
import { GPU, type Target } from '../../kernel/ir/target.js';
import type { Lanes } from '../../kernel/ir/types.js';

/** Elements that a thread takes at a time, and registers that it has for them. */
const TURN = 16;
const REGISTERS = 64;

/** Blocks that a multiprocessor may hold, in the order in which they are tried. */
const RESIDENT = [8, 4, 2, 1] as const;

export interface RowShares {
  readonly lanes: Lanes;
  /** Threads of a row: a power of two. */
  readonly team: number;
  /** Blocks that share a row: a cluster, if more than one. */
  readonly blocks: number;
  /** Vectors that a thread has at a time. */
  readonly each: number;
  readonly rowsPerBlock: number;
  /** Where a row stays. */
  readonly place: 'registers' | 'shared' | 'memory';
  /** Blocks of a multiprocessor, where that many keep their rows. */
  readonly resident?: number;
  /** A value takes the place of each element. */
  readonly carries?: boolean;
}

/** Rows in shared memory, and how long they take in comparison. */
export interface SharedRows {
  readonly shares: RowShares;
  readonly cost: number;
}

/**
 * Rows in shared memory. Several blocks of a multiprocessor keep a row each, or a part of one, so that one moves while
 * another computes.
 */
export function sharedRowsOf(
  columns: number,
  lanes: Lanes,
  bytes: number,
  resultBytes: number,
  { limits, capability }: Target,
): SharedRows | undefined {
  const { alone, together } = FITTED.rows;
  let best: SharedRows | undefined;
  for (const blocks of clusterSizes(capability))
    for (const resident of RESIDENT) {
      const threads = Math.min(
        GPU.threadsPerBlock / blocks,
        2 ** Math.floor(Math.log2(limits.registersPerMultiprocessor / REGISTERS / resident)),
      );
      const pieces = Math.ceil(columns / (threads * blocks * lanes));
      const kept = pieces * threads * lanes * bytes;
      if (kept + (threads / GPU.warp) * resultBytes > sharedBytesOfEach(limits, resident)) continue;
      const cost =
        (1 + alone / resident) *
        (1 + together * (blocks - 1)) *
        ((pieces * threads * blocks * lanes) / columns);
      if (best && cost >= best.cost) continue;
      const team = threads * blocks;
      const each = TURN / lanes;
      best = { shares: { lanes, team, blocks, each, rowsPerBlock: 1, place: 'shared', resident }, cost };
    }
  return best;
}
