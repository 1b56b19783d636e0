/**
 * Collectives over the connections between ranks. Each begins with a header that all ranks of the group send each other:
 * what they compare has arrived before any of them returns.
 *
 * Each rank reduces a part of the values: it gets what all others have there, reduces it in the order of the ranks, and sends the
 * result to the others. Each byte is sent as often as in a ring of ranks, but every element is summed in the same
 * order, wherever it stands, and 16-bit floats travel as such and are still rounded once.
 */

import { blocksOf, cut, piecesOf } from '../blocks.js';
import { type CollectiveCall, HEADER_BYTES, headerOf, requireSameCall } from '../call.js';
import { reduceInOrder } from '../reduction.js';
import type { Links } from './links.js';

/** Bytes that a rank reduces, or passes on, while the next are on their way. */
const PART = 512 * 1024;

/** @throws DistributedError */
export async function exchange(links: Links, call: CollectiveCall): Promise<void> {
  const others = call.ranks.filter((_, i) => i !== call.index);
  const header = headerOf(call);
  for (const rank of others) links.hold(rank);
  const sent = others.map((rank) => links.send(rank, header));
  const agreed = Promise.all(
    others.map(async (rank) => {
      const theirs = new Uint8Array(HEADER_BYTES);
      await links.receive(rank, theirs);
      requireSameCall(call, header, rank, theirs);
    }),
  );
  const values = BODIES[call.kind](links, call, agreed);
  for (const rank of others) links.release(rank);
  await Promise.all([agreed, values, ...sent]);
}

/** What follows the header. The bytes to other ranks are on their way when it is first waited for. */
type CallBody = (links: Links, call: CollectiveCall, agreed: Promise<unknown>) => Promise<unknown>;

const BODIES: Readonly<Record<CollectiveCall['kind'], CallBody>> = {
  barrier: async () => {},
  broadcast,
  allGather,
  allReduce: reduce,
  reduceScatter: reduce,
};

/** The parts of a block are on their way while the block before is reduced. */
async function reduce(links: Links, call: CollectiveCall, agreed: Promise<unknown>): Promise<void> {
  const { kind, ranks, index, op, dtype, from, to } = call;
  const blocks = blocksOf(call, PART);
  const room = Math.max(0, ...blocks.map(({ result }) => result.end - result.begin));
  /** What the others have at this rank's part of a block, of two blocks. */
  const scratch = [0, 1].map(() => ranks.map((_, r) => new Uint8Array(r === index ? 0 : room)));
  const others = [...ranks.entries()].filter(([r]) => r !== index);
  const moving: Promise<unknown>[] = [];
  const arrivals: Promise<unknown>[] = [];
  for (let k = 0; k <= blocks.length; k++) {
    const block = blocks[k];
    if (block) {
      const bytes = block.result.end - block.result.begin;
      for (const [r, rank] of others) moving.push(links.send(rank, cut(from, block.parts[r]!)));
      arrivals.push(
        Promise.all(others.map(([r, rank]) => links.receive(rank, scratch[k % 2]![r]!.subarray(0, bytes)))),
      );
    }
    const arrived = blocks[k - 1];
    if (arrived) {
      await agreed;
      await arrivals[k - 1];
      const result = cut(to, arrived.result);
      const sources = ranks.map((_, r) =>
        r === index ? cut(from, arrived.parts[r]!) : scratch[(k - 1) % 2]![r]!.subarray(0, result.length),
      );
      reduceInOrder(op, dtype, sources, result);
      if (kind === 'allReduce')
        for (const [r, rank] of others)
          moving.push(links.send(rank, result), links.receive(rank, cut(to, arrived.parts[r]!)));
    }
  }
  await Promise.all(moving);
}

/** Along a ring that begins at the root: each rank passes on what has arrived. */
async function broadcast(links: Links, { ranks, index, root, from }: CollectiveCall): Promise<void> {
  const n = ranks.length;
  const before = ranks[(index + n - 1) % n]!;
  const after = (index + 1) % n;
  const pieces = piecesOf(from.length, PART).map((piece) => cut(from, piece));
  const arrivals = index === root ? [] : pieces.map((piece) => links.receive(before, piece));
  const moving: Promise<unknown>[] = [];
  for (const [k, piece] of pieces.entries()) {
    if (index !== root) await arrivals[k];
    if (after !== root) moving.push(links.send(ranks[after]!, piece));
  }
  await Promise.all(moving);
}

async function allGather(links: Links, { ranks, index, from, to }: CollectiveCall): Promise<void> {
  const bytes = from.length;
  const moving = ranks.flatMap((rank, r) => {
    if (r === index) return [];
    return [links.send(rank, from), links.receive(rank, to.subarray(r * bytes, (r + 1) * bytes))];
  });
  to.set(from, index * bytes);
  await Promise.all(moving);
}
