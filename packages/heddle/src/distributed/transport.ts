/** How ranks exchange bytes that are in the memory of the host. */
import type { DTypeName } from '../core/dtype.js';

/** What becomes of the values that the ranks have at one place. A mean is a sum, divided afterwards. */
export type ReductionOp = 'sum' | 'prod' | 'min' | 'max';

/** Ranks that exchange values, the same object on every call. */
export interface Peers {
  /** Their ranks in the world, ascending. */
  readonly ranks: readonly number[];
  /** The place of this rank among them, from 0. */
  readonly index: number;
}

/** Values in memory of the CPU device, which is shared with its threads. */
export interface HostValues {
  readonly bytes: Uint8Array;
  readonly dtype: DTypeName;
  /** Identifies the orders of dimensions that its tensors are in, which ranks must have in common; default 0: as usual. */
  readonly orders?: number;
}

/**
 * Collectives of the host. Each call returns when the exchange is done. All ranks of `peers` make the same calls in the same
 * order; `from` and `to` do not overlap, unless they are the same. 16-bit floats are summed in f32 and rounded once, bool is a
 * byte of 0 or 1 (sum: any, prod: all). The result has the same bits on all ranks, and again with the same number of ranks.
 * @throws DistributedError naming the rank that is gone, or that did something else
 */
export interface Transport {
  readonly name: 'tcp' | 'mpi';
  /** to = the reduction of all `from`, of the same length. */
  allReduce(peers: Peers, op: ReductionOp, from: HostValues, to: HostValues): void;
  /** `values` of the rank at `root` (an index of peers) to all. */
  broadcast(peers: Peers, root: number, values: HostValues): void;
  /** to = all `from` one after the other, in the order of the ranks. */
  allGather(peers: Peers, from: HostValues, to: HostValues): void;
  /** to = this rank's share of the reduction of all `from`, which are as many times as long as there are ranks. */
  reduceScatter(peers: Peers, op: ReductionOp, from: HostValues, to: HostValues): void;
  /** Returns when all ranks have called it. */
  barrier(peers: Peers): void;
  /** Ends threads and connections. */
  close(): Promise<void>;
}

/** Where ranks leave each other what they need to find each other. */
export interface Rendezvous {
  readonly rank: number;
  readonly worldSize: number;
  /** Leave a value under a key that no rank has used. */
  set(key: string, value: string): Promise<void>;
  /** The value of a key, as soon as a rank has left it. @throws DistributedError after the time limit */
  get(key: string): Promise<string>;
}
