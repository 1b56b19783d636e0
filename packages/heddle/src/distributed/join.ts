/** This process as one of several: what collectives and trainings know of it. */
import { currentDevice } from '../engine/storage.js';
import { setWorld } from '../tensor/world.js';
import { setOwnRank } from './collective-op.js';
import { allGather, broadcast } from './collectives.js';
import { sumInBuckets } from './data-parallel.js';
import { ProcessGroup } from './group.js';
import { registerCollectives } from './host-collectives.js';
import { type Membership, setMembership } from './membership.js';
import type { Rendezvous, Transport } from './transport.js';

/** The ways to the other ranks. There are none where this process is alone. */
export interface Ways {
  readonly rendezvous: Rendezvous;
  readonly transport: Transport;
  /** Says good-bye. */
  close(): Promise<void>;
}

/** From now on this process is the rank of that number. */
export function join(rank: number, worldSize: number, localRank: number, ways: Ways | undefined): void {
  const world = new ProcessGroup(
    Array.from({ length: worldSize }, (_, i) => i),
    rank,
  );
  let texts = 0;
  const membership: Membership = {
    world,
    localRank,
    async barrier(group) {
      await currentDevice().synchronize();
      if (group.size > 1) ways?.transport.barrier(group);
    },
    async prepare() {},
    async close() {
      leave();
      await ways?.transport.close();
      await ways?.close();
    },
  };
  setOwnRank(rank);
  setMembership(membership);
  if (!ways) return;
  registerCollectives(() => ways.transport, rank);
  setWorld({
    rank,
    size: worldSize,
    sum: (tensors) => sumInBuckets(tensors),
    gather: (x) => allGather(x),
    tensorsOf: (root, tensors) => broadcast(tensors, { root }),
    async textOfFirst(text) {
      const key = `text ${texts++}`;
      if (rank === 0) await ways.rendezvous.set(key, text);
      return ways.rendezvous.get(key);
    },
  });
}

function leave(): void {
  setMembership(undefined);
  setWorld(undefined);
}
