/** The parts of batches that ranks take which train together. */

/** One rank of several. */
export interface Shard {
  readonly rank: number;
  readonly count: number;
}

/** All of it. */
export const WHOLE: Shard = { rank: 0, count: 1 };

/** How many rows a shard has. */
export interface BatchRows {
  /** Of a full batch. */
  readonly full: number;
  /** Of the last batch of an epoch, if it is smaller; 0 if there is none. */
  readonly rest: number;
  /** False where the rest is one row of another rank's: there are fewer examples than ranks, and this one gets none. */
  readonly restCounts: boolean;
  /** All ranks have as many of each batch. */
  readonly isEven: boolean;
}

/**
 * Where the part of a rank begins in n rows; that of the next one begins where it ends. The first ranks have one row more where
 * n does not divide: so no part grows when n gets smaller, and a smaller batch fits where a full one does.
 */
const startOf = (n: number, rank: number, count: number): number =>
  rank * Math.floor(n / count) + Math.min(rank, n % count);

const partOf = ({ rank, count }: Shard, n: number): readonly [from: number, to: number] => [
  startOf(n, rank, count),
  startOf(n, rank + 1, count),
];

/** @param examples of an epoch */
export function rowsOf(shard: Shard, batchSize: number, examples: number): BatchRows {
  const [from, to] = partOf(shard, batchSize);
  const left = examples % batchSize;
  const [first, end] = partOf(shard, left);
  const rest = left === 0 ? 0 : Math.max(1, end - first);
  const isEven = batchSize % shard.count === 0 && left % shard.count === 0;
  return { full: to - from, rest, restCounts: end > first, isEven };
}

/** The examples of an epoch that a shard has, batch after batch. */
export function orderOfShard(
  shard: Shard,
  order: Uint32Array,
  batchSize: number,
  examples: number,
): Uint32Array {
  if (shard.count === 1) return order;
  const { full, rest } = rowsOf(shard, batchSize, examples);
  const batches = Math.floor(examples / batchSize);
  const own = new Uint32Array(batches * full + rest);
  const [from, to] = partOf(shard, batchSize);
  for (let i = 0; i < batches; i++)
    own.set(order.subarray(i * batchSize + from, i * batchSize + to), i * full);
  if (rest > 0) {
    const left = examples % batchSize;
    const first = batches * batchSize + Math.min(startOf(left, shard.rank, shard.count), left - rest);
    own.set(order.subarray(first, first + rest), batches * full);
  }
  return own;
}
