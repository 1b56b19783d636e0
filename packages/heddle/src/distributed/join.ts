/** This process as one of several: what collectives and trainings know of it. */
import { currentDevice } from '../engine/storage.js';
import { noGrad, realize } from '../tensor/modes.js';
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
  let values = 0;
  const membership: Membership = {
    world,
    localRank,
    async barrier(group) {
      await currentDevice().synchronize();
      if (group.size > 1) ways?.transport.barrier(group);
    },
    async prepare() {},
    async fromFirst(value) {
      if (!ways) return value;
      const key = `value ${values++}`;
      // undefined is no JSON.
      if (rank === 0) await ways.rendezvous.set(key, JSON.stringify({ value }));
      return (JSON.parse(await ways.rendezvous.get(key)) as { readonly value: typeof value }).value;
    },
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
    copyFromFirst: (tensors) =>
      noGrad(() => {
        for (const [i, value] of broadcast(tensors).entries()) tensors[i]!.assign(value);
        realize(...tensors);
      }),
    fromFirst: (value) => membership.fromFirst(value),
  });
}

function leave(): void {
  setMembership(undefined);
  setWorld(undefined);
}
