/** Tensors that travel between the ranks of a group: each rank has the values of others in memory of its own. */
import { currentTrace } from '../engine/trace.js';
import * as b from '../graph/build.js';
import type { GraphNode } from '../graph/node.js';
import { arrivalsOf, PAGE_BYTES, ROUTE_BYTES } from '../runtime/cuda/peers/routes.js';
import {
  type CollectiveArg,
  gatherOthersOp,
  inOrder,
  isSmall,
  placed,
  withSmallTogether,
} from './collective-op.js';
import type { ProcessGroup } from './group.js';
import { membership } from './membership.js';

/** A tensor of this rank, and between which ranks it travels: places in the group, or `ANY`. */
export interface Traveller {
  /** Of the same shape and dtype on all ranks; its values matter on those that send it. */
  readonly values: GraphNode;
  readonly sender: number;
  readonly receiver: number;
}

/** The values that another rank has sent. */
export interface Arrived {
  readonly sender: number;
  readonly values: GraphNode;
}

/**
 * What arrives of each tensor, in the order of who has sent it. Small ones that travel between the same ranks do so together.
 * @param tensors of one dtype, with the same shapes and ranks in the same order on all ranks
 * @returns undefined, on all ranks, where they have no inboxes for it
 */
export function arrivedOf(
  { ranks, index }: ProcessGroup,
  tensors: readonly Traveller[],
): Arrived[][] | undefined {
  const { dtype } = tensors[0]!.values;
  const step = ROUTE_BYTES / dtype.bytes;
  const batches = batchesOf(tensors).map((batch) => {
    const nodes = batch.map((i) => tensors[i]!.values);
    const { sender, receiver } = tensors[batch[0]!]!;
    return { batch, nodes, sent: withSmallTogether(nodes), sender, receiver };
  });
  const routes = {
    counts: batches.flatMap(({ sent }) => sent.map(({ size }) => size)),
    senders: batches.flatMap(({ sent, sender }) => sent.map(() => sender)),
    receivers: batches.flatMap(({ sent, receiver }) => sent.map(() => receiver)),
  };
  const { arrivals, size } = arrivalsOf(routes, index, ranks.length, step);
  // Others map whole pages. And a rank that receives nothing has something to wait for, too.
  const page = PAGE_BYTES / dtype.bytes;
  const type = { shape: [Math.ceil(Math.max(size, 1) / page) * page], dtype };
  const inbox = membership().inboxes.next(type, JSON.stringify(routes));
  if (!inbox) return undefined;
  const flat = inOrder(
    gatherOthersOp,
    batches.flatMap(({ sent }) => sent),
    {
      ...{ kind: 'gatherOthers', ranks, op: 'sum', root: 0, beside: false, orders: 0 },
      ...{ ...routes, ...sideBySide(routes.counts, step), size: type.shape[0]! },
    },
  );
  // As it is: `Tensor.assign` would copy what the program reads, too.
  currentTrace()!.assign(inbox, flat);
  const arrived = tensors.map((): Arrived[] => []);
  let first = 0;
  for (const { batch, nodes, sent } of batches) {
    const { offsets } = placed(nodes);
    for (const { sender, source, at } of arrivals)
      if (source === first)
        batch.forEach((tensor, i) => {
          const { shape, size: count } = nodes[i]!;
          const values = b.reshape(b.slice(flat, [at + offsets[i]!], [count]), shape);
          arrived[tensor]!.push({ sender, values });
        });
    first += sent.length;
  }
  return arrived;
}

/** Tensors, by their numbers, that travel between the same ranks, the small ones first. */
function batchesOf(tensors: readonly Traveller[]): number[][] {
  const batches = new Map<string, number[]>();
  for (const small of [true, false])
    tensors.forEach(({ values, sender, receiver }, i) => {
      if (isSmall(values) !== small) return;
      const key = `${sender} ${receiver}`;
      const batch = batches.get(key);
      if (batch) batch.push(i);
      else batches.set(key, [i]);
    });
  return [...batches.values()];
}

/** Sources side by side, each at a multiple of `step`. */
function sideBySide(counts: readonly number[], step: number): Pick<CollectiveArg, 'offsets' | 'sent'> {
  let sent = 0;
  const offsets = counts.map((count) => {
    const at = sent;
    sent += Math.ceil(count / step) * step;
    return at;
  });
  return { offsets, sent };
}
