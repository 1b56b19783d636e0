/**
 * How threads share out the rows of a matrix that are reduced, and where a row stays until it is stored: in registers; one
 * that is too long for them in shared memory, if a multiprocessor has room for it; otherwise it is read again each time.
 */
import { sharedBytesOfEach } from '../../kernel/ir/machine.js';
import { GPU, type Target } from '../../kernel/ir/target.js';
import type { Lanes } from '../../kernel/ir/types.js';
import type { Structure } from '../group.js';
import type { ElementReads } from './kept-pieces.js';
import { powerOfTwo } from './lowering.js';

/** Elements of a row that a thread keeps in registers, if the threads of a block are enough for that: else twice as many. */
const KEPT = 16;
/** Of a row in shared memory, elements that a thread takes at a time, and registers that it has for them. */
const TURN = 16;
const REGISTERS = 64;

export interface RowShares {
  readonly lanes: Lanes;
  /** Threads of a row: a power of two. */
  readonly team: number;
  /** Vectors that a thread has at a time. */
  readonly each: number;
  readonly rowsPerBlock: number;
  /** Where a row stays. */
  readonly place: 'registers' | 'shared' | 'memory';
  /** Blocks of a multiprocessor, where that many keep their rows. */
  readonly resident?: number;
}

/** Blocks of a multiprocessor that keep a row each in shared memory: while one moves its row, another computes. */
const ROWS_AT_ONCE = [4, 3, 2, 1] as const;

/**
 * @param inner size of the innermost loop, which vectors lie along
 * @param resultBytes of one result of each reduction
 */
export function rowSharesOf(
  { rows, columns }: Structure,
  inner: number,
  { tensors, bytes, isUniform }: ElementReads,
  resultBytes: number,
  { units, limits }: Target,
): RowShares {
  const busy = rows >= 16 * units;
  const lanes = ([4, 2] as const).find((n) => inner % n === 0 && (busy || columns >= 32 * n)) ?? 1;
  const vectors = columns / lanes;
  if (columns > GPU.threadsPerBlock * KEPT && isUniform)
    for (const blocks of ROWS_AT_ONCE) {
      const team = 2 ** Math.floor(Math.log2(limits.registersPerMultiprocessor / REGISTERS / blocks));
      const kept = Math.ceil(columns / (team * lanes)) * team * lanes * bytes * tensors;
      if (kept + (team / GPU.warp) * resultBytes > sharedBytesOfEach(limits, blocks)) continue;
      return { lanes, team, each: TURN / lanes, rowsPerBlock: 1, place: 'shared', resident: blocks };
    }
  const most = (columns > GPU.threadsPerBlock * KEPT ? 2 * KEPT : KEPT) / lanes;
  const few = Math.min(4, most);
  const perThread = (n: number): number => powerOfTwo(vectors / n);
  // A warp needs no shared memory. Where rows are many, a thread has several vectors, for more bytes on their way and
  // fewer shuffles; where they are few, more threads finish sooner.
  const team =
    vectors <= 32 * (busy ? few : 1)
      ? Math.min(32, busy ? Math.max(Math.min(8, perThread(1)), perThread(few)) : perThread(1))
      : Math.min(GPU.threadsPerBlock, Math.max(64, perThread(few)));
  const each = Math.min(most, Math.ceil(vectors / team));
  const threads = rows * team >= 128 * units ? 128 : 32;
  const place = columns <= team * lanes * each ? 'registers' : 'memory';
  return { lanes, team, each, rowsPerBlock: team > 32 ? 1 : threads / team, place };
}
