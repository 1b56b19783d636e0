/**
 * Collectives on tensors: what all ranks of a group make of the values that each of them has. Outside of `jit` a collective
 * happens where it is called; within it, when the program runs.
 */
import {
  instance,
  integerFrom,
  oneOf,
  type Rules,
  requireArgument,
  requireOptions,
} from '../core/arguments.js';
import { type DType, type DTypeName, isFloat } from '../core/dtype.js';
import { ArgumentError, DTypeError, ShapeError } from '../core/errors.js';
import { formatShape, type Shape } from '../core/shape.js';
import * as b from '../graph/build.js';
import type { GraphNode } from '../graph/node.js';
import { ANY } from '../runtime/cuda/peers/routes.js';
import { type AnyTensor, requireTensor, requireTensors } from '../tensor/checks.js';
import type { Tensor } from '../tensor/tensor.js';
import { nodeOf, tensorOf } from '../tensor/tracing.js';
import { allGatherOf, allReduceOf, broadcastOf, reduceScatterOf, unpacked } from './collective-op.js';
import { ProcessGroup, requireMember } from './group.js';
import { membership } from './membership.js';
import type { ReductionOp } from './transport.js';
import { type Arrived, arrivedOf } from './travelling.js';

/** Options of all collectives. */
export interface CollectiveOptions {
  /** Who takes part; all of them call it. Default: all ranks. */
  readonly group?: ProcessGroup;
}

/** Options of collectives that reduce. */
export interface ReductionOptions extends CollectiveOptions {
  /** What becomes of the ranks' values (default sum). The mean is of floats only; any and all of bools are max and min. */
  readonly op?: ReductionOp | 'mean';
}

/** Options of `broadcast`. */
export interface BroadcastOptions extends CollectiveOptions {
  /** The rank in the world whose values all get (default: the group's first). */
  readonly root?: number;
}

const aGroup = instance(ProcessGroup, 'a group made by newGroup');
const ALL: Rules<CollectiveOptions> = { group: aGroup };
const REDUCE: Rules<ReductionOptions> = { ...ALL, op: oneOf('sum', 'mean', 'prod', 'min', 'max') };
const BROADCAST: Rules<BroadcastOptions> = { ...ALL, root: integerFrom(0) };

/** The group that takes part. @throws ArgumentError for options that are not its, and ranks that are not in it */
function groupOf<O extends CollectiveOptions>(op: string, options: O, rules: Rules<O>): ProcessGroup {
  requireOptions(op, options, rules);
  const { group = membership().world } = options;
  requireMember(op, group);
  return group;
}

/**
 * Tensors of one dtype together: one exchange for each dtype, in the order of their first tensors.
 * @param exchange returns the result of each tensor, in the shape of that tensor; `places` are those of the tensors in `nodes`
 */
export function byDtype(
  nodes: readonly GraphNode[],
  exchange: (same: readonly GraphNode[], places: readonly number[]) => readonly GraphNode[],
): GraphNode[] {
  const results = [...nodes];
  for (const dtype of new Set(nodes.map((node) => node.dtype))) {
    const places = nodes.flatMap((node, i) => (node.dtype === dtype && node.size > 0 ? [i] : []));
    if (places.length === 0) continue;
    const same = places.map((i) => nodes[i]!);
    exchange(same, places).forEach((result, i) => {
      results[places[i]!] = result;
    });
  }
  return results;
}

function requireReducible(
  op: string,
  { dtype }: { readonly dtype: DType },
  by: ReductionOptions['op'],
): void {
  if (by === 'mean' && !isFloat(dtype))
    throw new DTypeError(`[${op}] the mean is of floats, got ${dtype.name}. Use 'sum', or .cast(f32).`);
}

/** The sum (or product, least, largest, mean) over all ranks of a group, element by element; every rank gets it. */
export function allReduce<S extends Shape, D extends DTypeName>(
  x: Tensor<S, D>,
  options?: ReductionOptions,
): Tensor<S, D>;
/** Of several tensors, of any shapes, in one exchange for each dtype. */
export function allReduce(x: readonly AnyTensor[], options?: ReductionOptions): AnyTensor[];
/**
 * The sum (or product, least, largest, mean) over all ranks of a group, element by element; every rank gets it, with the same
 * bits. Shapes and dtypes are the same on all ranks. Gradients of sums and means flow through it.
 * @param x a tensor of any shape and dtype, or several, which takes one exchange for each dtype
 * @throws ArgumentError, DTypeError for the mean of integers, DistributedError if a rank is gone or does something else
 */
export function allReduce(x: AnyTensor | readonly AnyTensor[], options: ReductionOptions = {}): unknown {
  const list = Array.isArray(x) ? (x as readonly AnyTensor[]) : [x as AnyTensor];
  if (Array.isArray(x)) requireTensors('allReduce', 'x', x);
  else requireTensor('allReduce', 'x', x);
  const group = groupOf('allReduce', options, REDUCE);
  const { op = 'sum' } = options;
  for (const one of list) requireReducible('allReduce', one, op);
  const reduced = reducedOver(group, list, { op: op === 'mean' ? 'sum' : op });
  const tensors = reduced.map((sum) => (op === 'mean' ? sum.div(group.size) : sum));
  return Array.isArray(x) ? tensors : tensors[0];
}

/** What an all-reduce of tensors gives. @param beside see `CollectiveArg` */
export function reducedOver(
  { ranks, size }: ProcessGroup,
  tensors: readonly AnyTensor[],
  { op = 'sum', beside = false }: { readonly op?: ReductionOp; readonly beside?: boolean },
): AnyTensor[] {
  const nodes = tensors.map(nodeOf);
  if (size === 1) return nodes.map(tensorOf);
  return byDtype(nodes, (same) => unpacked(allReduceOf(same, { ranks, op, beside }), same)).map(tensorOf);
}

/** The sums over the ranks, of copies that each rank has of the others' tensors, added in the order of the ranks. */
export function sumsOfCopies(group: ProcessGroup, tensors: readonly AnyTensor[]): AnyTensor[] {
  const sums = byDtype(tensors.map(nodeOf), (same) => {
    const travellers = same.map((values) => ({ values, sender: ANY, receiver: ANY }));
    const arrived = arrivedOf(group, travellers);
    if (!arrived) {
      const { ranks } = group;
      return unpacked(allReduceOf(same, { ranks, op: 'sum', beside: true }), same);
    }
    return same.map((own, i) => sumOf(own, group.index, arrived[i]!));
  });
  return sums.map(tensorOf);
}

/** The sum of what this rank has and what has arrived, in the order of the ranks: it has the same bits on all of them. */
export function sumOf(own: GraphNode, index: number, arrived: readonly Arrived[]): GraphNode {
  const all = [...arrived, { sender: index, values: own }].sort((x, y) => x.sender - y.sender);
  return all.map(({ values }) => values).reduce((sum, values) => b.map('add', sum, values));
}

/** The values that one rank of a group has, for all of them. */
export function broadcast<S extends Shape, D extends DTypeName>(
  x: Tensor<S, D>,
  options?: BroadcastOptions,
): Tensor<S, D>;
/** Of several tensors, of any shapes, in one exchange for each dtype. */
export function broadcast(x: readonly AnyTensor[], options?: BroadcastOptions): AnyTensor[];
/**
 * The values that one rank of a group has, for all of them. Gradients flow to that rank.
 * @param x a tensor of any shape and dtype, the same on all ranks, or several
 * @throws ArgumentError if the root is not in the group, DistributedError if a rank is gone or does something else
 */
export function broadcast(x: AnyTensor | readonly AnyTensor[], options: BroadcastOptions = {}): unknown {
  const list = Array.isArray(x) ? (x as readonly AnyTensor[]) : [x as AnyTensor];
  if (Array.isArray(x)) requireTensors('broadcast', 'x', x);
  else requireTensor('broadcast', 'x', x);
  const { ranks, size } = groupOf('broadcast', options, BROADCAST);
  const root = ranks.indexOf(options.root ?? ranks[0]!);
  if (root < 0)
    throw new ArgumentError(
      `[broadcast] root is ${options.root}, must be a rank of the group (${ranks.join(', ')}).`,
    );
  const nodes = list.map(nodeOf);
  const sent =
    size === 1 ? nodes : byDtype(nodes, (same) => unpacked(broadcastOf(same, { ranks, root }), same));
  const tensors = sent.map(tensorOf);
  return Array.isArray(x) ? tensors : tensors[0];
}

/**
 * The values of all ranks of a group one after the other along the first dimension, in the order of the ranks.
 * Gradients flow through it.
 * @param x (n, …), or a scalar, of the same shape and dtype on all ranks
 * @returns (size · n, …)
 */
export function allGather<D extends DTypeName>(
  x: Tensor<Shape, D>,
  options: CollectiveOptions = {},
): Tensor<Shape, D> {
  requireTensor('allGather', 'x', x);
  const { ranks, size } = groupOf('allGather', options, ALL);
  const [first = 1, ...rest] = x.shape;
  const node = nodeOf(x);
  const flat = size === 1 || x.size === 0 ? node : allGatherOf(node, { ranks });
  return tensorOf(flat).reshape([size * first, ...rest]) as unknown as Tensor<Shape, D>;
}

/**
 * The reduction over all ranks of a group, of which each rank gets its part along the first dimension: rank i of the group
 * the i-th. Gradients of sums and means flow through it.
 * @param x (size · n, …), of the same shape and dtype on all ranks
 * @returns (n, …)
 * @throws ShapeError unless the first dimension is divisible by the number of ranks
 */
export function reduceScatter<D extends DTypeName>(
  x: Tensor<Shape, D>,
  options: ReductionOptions = {},
): Tensor<Shape, D> {
  requireTensor('reduceScatter', 'x', x);
  const { ranks, size } = groupOf('reduceScatter', options, REDUCE);
  const { op = 'sum' } = options;
  requireReducible('reduceScatter', x, op);
  const [first, ...rest] = x.shape;
  if (first === undefined || first % size !== 0)
    throw new ShapeError(
      `[reduceScatter] x is ${formatShape(x.shape)}: its first dimension must be divisible by the ${size} ranks. Pad it.`,
    );
  const node = nodeOf(x);
  const by = op === 'mean' ? 'sum' : op;
  const flat = size === 1 || x.size === 0 ? node : reduceScatterOf(node, { ranks, op: by });
  const mine = tensorOf(flat).reshape([first / size, ...rest]);
  return (op === 'mean' ? mine.div(size) : mine) as unknown as Tensor<Shape, D>;
}

/** Resolves when all ranks of a group have called it, and their devices have done what was started before. */
export async function barrier(options: CollectiveOptions = {}): Promise<void> {
  const group = groupOf('barrier', options, ALL);
  await membership().barrier(group);
}

/**
 * A group of some ranks, for collectives of their own. All ranks of the world call it, in the same order.
 * @param ranks in the world, each once
 * @throws ArgumentError for ranks that do not exist or are named twice
 */
export async function newGroup(ranks: readonly number[]): Promise<ProcessGroup> {
  const { world } = membership();
  requireArgument('newGroup', 'ranks', ranks, {
    must: `a list of different ranks from 0 to ${world.size - 1}`,
    holds: (v) =>
      Array.isArray(v) &&
      v.length > 0 &&
      new Set(v).size === v.length &&
      v.every((r) => Number.isInteger(r) && r >= 0 && r < world.size),
  });
  const group = new ProcessGroup(
    [...ranks].sort((a, b) => a - b),
    world.ranks[world.index]!,
  );
  await membership().prepare(group);
  return group;
}
