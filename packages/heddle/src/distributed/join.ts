/** This process as one of several: what collectives and trainings know of it. */
import { currentDevice } from '../engine/storage.js';
import { tensor } from '../tensor/create.js';
import { setWorld, type World } from '../tensor/world.js';
import { setOwnRank } from './collective-op.js';
import { allGather, allReduce, broadcast } from './collectives.js';
import { sumInBuckets } from './data-parallel.js';
import { ProcessGroup } from './group.js';
import { Inboxes, type Show } from './inboxes.js';
import { type Membership, setMembership } from './membership.js';
import { OwnedParameters } from './owned-parameters.js';
import type { Rendezvous } from './transport.js';

/** The ways to the other ranks. There are none where this process is alone. */
export interface Ways {
  readonly rendezvous: Rendezvous;
  /** Called by all ranks of a group, once, before they use it. */
  connect(group: ProcessGroup): Promise<void>;
  /** See `Membership.copies`: asked when the world is connected. Default: false. */
  readonly copies?: () => boolean;
  /** Shows memory of this rank to all others, where they copy into it. */
  readonly show?: Show;
  /** Ends connections, and says good-bye. */
  close(): Promise<void>;
}

/** From now on this process is the rank of that number. */
export async function join(
  rank: number,
  worldSize: number,
  localRank: number,
  ways: Ways | undefined,
): Promise<void> {
  const world = new ProcessGroup(
    Array.from({ length: worldSize }, (_, i) => i),
    rank,
  );
  let texts = 0;
  const membership: Membership = {
    world,
    localRank,
    get copies() {
      return ways?.copies?.() ?? false;
    },
    inboxes: new Inboxes(ways?.show ?? ((buffer) => buffer !== undefined)),
    async barrier(group) {
      await currentDevice().synchronize();
      // All have come when there is a sum.
      await allReduce(tensor([1]), { group }).data();
    },
    async prepare(group) {
      if (group.size > 1 && group.index >= 0) await ways?.connect(group);
    },
    async close() {
      leave();
      await ways?.close();
      membership.inboxes.dispose();
    },
  };
  setOwnRank(rank);
  setMembership(membership);
  if (!ways) return;
  await ways.connect(world);
  const own: World = {
    rank,
    size: worldSize,
    sum: (tensors, equalBatches = false) => sumInBuckets(tensors, { equalBatches }),
    gather: (x) => allGather(x),
    shard: (parameters, options) => new OwnedParameters(own, parameters, options),
    tensorsOf: (root, tensors) => broadcast(tensors, { root }),
    async textOfFirst(text) {
      const key = `text ${texts++}`;
      if (rank === 0) await ways.rendezvous.set(key, text);
      return ways.rendezvous.get(key);
    },
  };
  setWorld(own);
}

function leave(): void {
  setMembership(undefined);
  setWorld(undefined);
}
