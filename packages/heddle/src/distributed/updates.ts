/** Updates of parameters that each have an owner among the ranks: gradients travel there, and new values from there. */
import type { GraphNode } from '../graph/node.js';
import { ANY } from '../runtime/cuda/peers/routes.js';
import type { AnyTensor, Tensor } from '../tensor/tensor.js';
import { nodeOf, tensorOf } from '../tensor/tracing.js';
import type { ShardedStep } from '../tensor/world.js';
import { broadcast, byDtype, reducedOver, sumOf } from './collectives.js';
import { bucketsOf, orderOf, sumInBuckets, summedRows } from './data-parallel.js';
import { membership } from './membership.js';
import { type Arrived, arrivedOf, type Traveller } from './travelling.js';

/** A step, and the rank that updates each parameter; undefined: all ranks do. */
interface OwnedUpdate extends Required<ShardedStep> {
  readonly divisor: number | Tensor;
  readonly equalBatches: boolean;
  ownerOf(parameter: Tensor): number | undefined;
}

/**
 * Average gradients, update parameters and give all ranks their values, bucket by bucket. The values of a bucket travel after the gradients
 * of the next one: no exchange waits for an update that has just begun.
 */
export function updateByOwners(moving: readonly Tensor[], work: OwnedUpdate): void {
  const { world } = membership();
  const isOwned = (p: Tensor): boolean => work.ownerOf(p) !== undefined;
  const updatesHere = (p: Tensor): boolean => !isOwned(p) || work.ownerOf(p) === world.index;
  const mayBeRows = moving.filter((p) => work.equalBatches || !isOwned(p));
  const rows = new Map(summedRows(mayBeRows.map((p) => p.grad!)).map((one, i) => [mayBeRows[i]!, one]));
  const replicated = moving.filter((p) => !isOwned(p));
  const owned = moving.filter(isOwned);
  const ownedRows = owned.filter((p) => rows.get(p));
  let before: readonly Tensor[] = [];
  for (const bucket of inBuckets(
    owned.filter((p) => !rows.get(p)),
    [...ownedRows, ...replicated],
  )) {
    averageForOwners(bucket, work);
    give(before, work);
    for (const p of bucket) if (updatesHere(p)) work.update(p);
    before = bucket;
  }
  // Nothing hides these exchanges.
  for (const p of ownedRows) p.grad = meanOf(tensorOf(rows.get(p)!.sum()), work);
  const gradients = replicated.map((p) => p.grad!);
  const sums = sumInBuckets(gradients, { rows: replicated.map((p) => rows.get(p)) });
  for (const [i, p] of replicated.entries()) p.grad = meanOf(sums[i]!, work);
  give(before, work);
  for (const p of [...ownedRows, ...replicated]) if (updatesHere(p)) work.update(p);
  give(ownedRows, work);
}

/** Parameters in buckets, in the order in which their gradients are made. @param later parameters that come after them */
function inBuckets(parameters: readonly Tensor[], later: readonly Tensor[]): Tensor[][] {
  const bytesOf = ({ size, dtype }: Tensor): number => size * dtype.bytes;
  const ordered = orderOf(parameters.map((p) => p.grad!)).map((i) => parameters[i]!);
  const after = later.reduce((sum, p) => sum + bytesOf(p), 0);
  return bucketsOf(ordered.map(bytesOf), undefined, after).map((bucket) => bucket.map((i) => ordered[i]!));
}

const meanOf = (sum: AnyTensor, { divisor }: OwnedUpdate): Tensor =>
  sum.div(typeof divisor === 'number' ? divisor : divisor.cast(sum.dtype)) as unknown as Tensor;

/** Let the gradients of a bucket be the means over all ranks, each on the rank that updates the parameter. */
function averageForOwners(bucket: readonly Tensor[], work: OwnedUpdate): void {
  const { world } = membership();
  const gradients = bucket.map((p) => nodeOf(p.grad!));
  const sums = byDtype(gradients, (same, places) => {
    const arrived = arrivedByCopies(same, (i) => ({
      sender: ANY,
      receiver: work.ownerOf(bucket[places[i]!]!)!,
    }));
    if (arrived) return same.map((own, i) => sumOf(own, world.index, arrived[i]!));
    return reducedOver(world, same.map(tensorOf), { beside: true }).map(nodeOf);
  });
  for (const [i, p] of bucket.entries()) p.grad = meanOf(tensorOf(sums[i]!), work);
}

/** Give all ranks the values of parameters, each from the rank that has updated it. */
function give(bucket: readonly Tensor[], { ownerOf, assign }: OwnedUpdate): void {
  for (const dtype of new Set(bucket.map((p) => p.dtype))) {
    const same = bucket.filter((p) => p.dtype === dtype);
    const arrived = arrivedByCopies(same.map(nodeOf), (i) => ({
      sender: ownerOf(same[i]!)!,
      receiver: ANY,
    }));
    if (!arrived) broadcastByOwners(same, ownerOf, assign);
    arrived?.forEach(([from], i) => {
      if (from) assign(same[i]!, tensorOf(from.values) as unknown as Tensor);
    });
  }
}

function broadcastByOwners(
  parameters: readonly Tensor[],
  ownerOf: OwnedUpdate['ownerOf'],
  assign: OwnedUpdate['assign'],
): void {
  for (let root = 0; root < membership().world.size; root++) {
    const owned = parameters.filter((p) => ownerOf(p) === root);
    // The owner takes them as well: what nobody needs would not be sent.
    broadcast(owned, { root }).forEach((value, i) => {
      assign(owned[i]!, value as unknown as Tensor);
    });
  }
}

/** What other ranks have copied to this one; undefined where they do not copy. */
function arrivedByCopies(
  nodes: readonly GraphNode[],
  way: (index: number) => Omit<Traveller, 'values'>,
): readonly (readonly Arrived[])[] | undefined {
  const { world, copies } = membership();
  if (!copies) return undefined;
  const travellers = nodes.map((values, i) => ({ values, ...way(i) }));
  return arrivedOf(world, travellers);
}
