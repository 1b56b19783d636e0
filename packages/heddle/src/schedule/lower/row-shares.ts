/**
 * How threads share out the rows of a matrix that are reduced, and where a row stays until it is stored: in registers; one
 * that is too long for them in shared memory, if a multiprocessor has room for it; otherwise it is read again each time.
 */
import { type SharedRows, sharedRowsOf } from '#schedule/kept-rows.js';
import { FITTED } from '../../kernel/ir/machine.js';
import { GPU, type Target } from '../../kernel/ir/target.js';
import type { Structure } from '../group.js';
import type { ElementReads } from './kept-pieces.js';
import { powerOfTwo } from './lowering.js';
import type { RowShares } from './shared-rows.js';

/** Elements of a row that a thread keeps in registers, if the threads of a block are enough for that: else twice as many. */
const KEPT = 16;

/** What is known of a row's elements. */
export interface RowElements extends ElementReads {
  /** Whether they are needed again when the first reductions are known. */
  readonly again: boolean;
  /** Bytes of the value that can take the place of each, if there is one (carried.ts). */
  readonly carriedBytes?: number | undefined;
}

/**
 * @param inner size of the innermost loop, which vectors lie along
 * @param resultBytes of one result of each reduction
 */
export function rowSharesOf(
  { rows, columns }: Structure,
  inner: number,
  { again, tensors, bytes, isUniform, carriedBytes }: RowElements,
  resultBytes: number,
  target: Target,
): RowShares {
  const { units } = target;
  const busy = rows >= 16 * units;
  const lanes = ([4, 2] as const).find((n) => inner % n === 0 && (busy || columns >= 32 * n)) ?? 1;
  const vectors = columns / lanes;
  const shared = again && isUniform && columns > GPU.threadsPerBlock * KEPT;
  const keptIn = (bytes: number): SharedRows | undefined =>
    shared ? sharedRowsOf(columns, lanes, bytes, resultBytes, target) : undefined;
  const kept = keptIn(bytes * tensors);
  const carrying = carriedBytes === undefined ? undefined : keptIn(Math.max(bytes * tensors, carriedBytes));
  if (kept && carrying && carrying.cost < kept.cost * FITTED.rows.again)
    return { ...carrying.shares, carries: true };
  if (kept) return kept.shares;
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
  return { lanes, team, blocks: 1, each, rowsPerBlock: team > 32 ? 1 : threads / team, place };
}
