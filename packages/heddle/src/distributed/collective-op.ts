/**
 * Collectives as nodes of the graph: a routine of the device (NCCL, or the host's transport) makes the values. A node takes
 * tensors of one dtype and gives one flat tensor, in which each result has its own place: many gradients are one call. Large
 * ones are not copied together before; small ones are, since NCCL sums many tensors of a call one after the other.
 *
 * All ranks must make the same calls in the same order. So within a traced function each node also has the one made before it
 * as a source, in whose values nobody is interested: whatever else the scheduler does, it keeps this order.
 */
import { ArgumentError, DeviceError } from '../core/errors.js';
import { sizeOf } from '../core/shape.js';
import { realize } from '../engine/realize.js';
import { currentTrace, type Trace } from '../engine/trace.js';
import * as b from '../graph/build.js';
import type { FusedOp, KernelChoice } from '../graph/fused-op.js';
import type { GraphNode } from '../graph/node.js';
import { EXCHANGE_UNITS } from '../kernel/ir/library-call.js';
import { ANY, ROUTE_BYTES } from '../runtime/cuda/peers/routes.js';
import { digest } from './call.js';
import type { ReductionOp } from './transport.js';

export type CollectiveKind = 'allReduce' | 'broadcast' | 'allGather' | 'gatherOthers' | 'reduceScatter';

/** What the routine `collective.<kind>` is told, as the options of its call. */
export interface CollectiveArg {
  readonly kind: CollectiveKind;
  /** Who takes part, by their ranks in the world, ascending. */
  readonly ranks: readonly number[];
  /** How values become one, where they do. */
  readonly op: ReductionOp;
  /** Whose values all get, where one has them: a place in `ranks`. */
  readonly root: number;
  /** Whether other launches of the program run meanwhile: it then leaves most of the GPU to them, and takes longer. */
  readonly beside: boolean;
  /** Elements of each source. */
  readonly counts: readonly number[];
  /** Where the result of each begins in the flat one, in elements. */
  readonly offsets: readonly number[];
  /** Elements of the result. */
  readonly size: number;
  /** Identifies the orders of dimensions in which the elements of the sources come; 0: they come as usual. */
  readonly orders: number;
  /** Of `gatherOthers`: which sources travel between which ranks, by their places in `ranks`. */
  readonly senders?: readonly number[];
  readonly receivers?: readonly number[];
  /** Of `gatherOthers`: elements of a rank's sources side by side, each at its offset. */
  readonly sent?: number;
}

/** Each result begins at a multiple of so many bytes. */
const ALIGNMENT = ROUTE_BYTES;

/**
 * Bytes up to which a source is small: copying it takes less than the microseconds of a sum of its own among those that one block
 * of NCCL makes, one after the other.
 */
const SMALL = 256 * 1024;

/** The last collective of each trace. */
const lastOf = new WeakMap<Trace, GraphNode>();

/**
 * In a traced function the node that must come after the one before. Outside, where ranks may ask for different values, it is
 * computed at once, and once only.
 */
export function inOrder(
  op: FusedOp<CollectiveArg>,
  src: readonly GraphNode[],
  arg: CollectiveArg,
): GraphNode {
  const trace = currentTrace();
  const before = trace && lastOf.get(trace);
  const node = b.call(op, before ? [...src, b.detach(before)] : src, arg);
  if (trace) lastOf.set(trace, node);
  else realize([node]);
  return node;
}

const routine = (kind: CollectiveKind): KernelChoice<CollectiveArg> => ({
  name: kind,
  when: ({ libraries }) => libraries.has(`collective.${kind}`),
  finishes: false,
  plan: ({ node, target }, { kind: _, ...options }) => {
    const { counts, ranks } = options;
    const sources = counts.map((__, input) => ({ input }));
    const before = node.src.slice(counts.length).map((__, i) => ({ input: counts.length + i }));
    const library = { name: `collective.${kind}`, options: { ...options, dtype: node.dtype.name } };
    // Transports of the host know no gathering without the own values: these are put together there, and all beside them.
    const own = kind === 'gatherOthers' && target.model !== 'threads' ? (options.sent ?? 0) : 0;
    const bytes = own * (ranks.length + 1) * node.dtype.bytes;
    const space = bytes > 0 ? [{ scratch: 'all', bytes }] : [];
    return [{ library, args: [...sources, { output: true }, ...space, ...before] }];
  },
});

/** The gradients of sources from that of the flat result. */
type CollectiveGradient = (
  src: readonly GraphNode[],
  g: GraphNode,
  arg: CollectiveArg,
) => readonly GraphNode[];

/** @param orders see `FlatExchange` */
function ordersOf(orders: readonly (readonly number[])[]): number {
  const others = orders.flatMap((order, i) => (order.length > 0 ? [i, ...order] : []));
  return others.length > 0 ? digest(others) : 0;
}

/** Whether all ranks have all results: what only some have, others cannot know the order of. */
const isForAll = ({ senders = [], receivers = [] }: CollectiveArg): boolean =>
  [...senders, ...receivers].every((rank) => rank === ANY);

/** Where each source begins in a result that has those of all other ranks. */
const placesOf = ({ offsets, ranks, sent = 0 }: CollectiveArg): number[][] =>
  offsets.map((at) => Array.from({ length: ranks.length - 1 }, (_, sender) => sender * sent + at));

const collective = (kind: CollectiveKind, grad: CollectiveGradient): FusedOp<CollectiveArg> => ({
  name: kind,
  exchanges: (arg) => ({
    sent: arg.counts.length,
    ...(kind !== 'allGather' &&
      kind !== 'reduceScatter' &&
      isForAll(arg) && {
        flat: {
          places: kind === 'gatherOthers' ? placesOf(arg) : arg.offsets.map((at) => [at]),
          isReadOutside: kind !== 'gatherOthers',
          inOrders: (orders) => ({ ...arg, orders: ordersOf(orders) }),
        },
      }),
  }),
  occupies: ({ beside }) => (beside ? EXCHANGE_UNITS : 0),
  infer: ([first], { size }) => ({ shape: [size], dtype: first!.dtype }),
  compose: () => {
    throw new DeviceError(`[${kind}] this device does not communicate: use the CPU, or a GPU with NCCL.`);
  },
  grad: ({ src }, g, arg) => grad(src.slice(0, arg.counts.length), g, arg),
  kernels: [routine(kind)],
});

const requireSum = (name: CollectiveKind, op: ReductionOp): void => {
  if (op !== 'sum')
    throw new ArgumentError(
      `[${name}] has no gradient with op '${op}', only with 'sum' and 'mean'. Reduce x.detach() if none is needed.`,
    );
};

/** A gradient of the flat result summed over the ranks, in the shapes of the sources. */
const summed: CollectiveGradient = (src, g, { ranks, counts, offsets }) => {
  const pieces = counts.map((count, i) => b.slice(g, [offsets[i]!], [count]));
  return unpacked(allReduceOf(pieces, { ranks, op: 'sum' }), src);
};

const allReduceOp = collective('allReduce', (src, g, arg) => {
  requireSum('allReduce', arg.op);
  return summed(src, g, arg);
});

/** The rank whose values those were gets the sum of all gradients. */
const broadcastOp = collective('broadcast', (src, g, arg) => {
  const isRoot = arg.ranks[arg.root] === ownRank;
  return summed(src, g, arg).map((sum) => (isRoot ? sum : b.like(sum, 0)));
});

const allGatherOp = collective('allGather', ([x], g, { ranks }) => [
  b.reshape(reduceScatterOf(g, { ranks, op: 'sum' }), x!.shape),
]);

export const gatherOthersOp: FusedOp<CollectiveArg> = collective('gatherOthers', () => {
  throw new ArgumentError('[gatherOthers] has no gradient.');
});

const reduceScatterOp = collective('reduceScatter', ([x], g, { ranks, op }) => {
  requireSum('reduceScatter', op);
  return [b.reshape(allGatherOf(g, { ranks }), x!.shape)];
});

let ownRank = 0;

/** Say which rank this process is. */
export const setOwnRank = (rank: number): void => {
  ownRank = rank;
};

interface Together {
  readonly ranks: readonly number[];
  readonly op: ReductionOp;
  /** See `CollectiveArg`; default: false. */
  readonly beside?: boolean;
}

export const isSmall = ({ shape, dtype }: GraphNode): boolean => sizeOf(shape) * dtype.bytes <= SMALL;

/** Places of tensors side by side in a flat one, the small ones first. */
export function placed(
  src: readonly GraphNode[],
): Pick<CollectiveArg, 'counts' | 'offsets' | 'size' | 'orders'> {
  const step = ALIGNMENT / src[0]!.dtype.bytes;
  const counts = src.map(({ shape }) => sizeOf(shape));
  const offsets = src.map(() => 0);
  let size = 0;
  for (const small of [true, false])
    src.forEach((node, i) => {
      if (isSmall(node) !== small) return;
      offsets[i] = size;
      size += Math.ceil(counts[i]! / step) * step;
    });
  return { counts, offsets, size, orders: 0 };
}

/** Tensors copied together, at their places in a flat one. */
function packed(src: readonly GraphNode[]): GraphNode {
  const { counts, offsets, size } = placed(src);
  const position = b.iota([size], 0);
  const spread = src.map((x, i) =>
    b.pad(b.reshape(x, [counts[i]!]), [offsets[i]!], [size - offsets[i]! - counts[i]!]),
  );
  return spread.reduce((before, x, i) =>
    b.where(b.map('lt', position, b.like(position, offsets[i]!)), before, x),
  );
}

/** What is sent of tensors: small ones together. Their places in a flat tensor are the same. */
export function withSmallTogether(src: readonly GraphNode[]): readonly GraphNode[] {
  const small = src.filter(isSmall);
  return small.length > 1 ? [packed(small), ...src.filter((x) => !isSmall(x))] : src;
}

/** Each source reduced over the ranks, one after the other in a flat tensor: see `unpacked`. The sources have one dtype. */
export function allReduceOf(src: readonly GraphNode[], { ranks, op, beside = false }: Together): GraphNode {
  const sent = withSmallTogether(src);
  return inOrder(allReduceOp, sent, { kind: 'allReduce', ranks, op, root: 0, beside, ...placed(sent) });
}

/** The values of the rank at `root`, one after the other in a flat tensor. The sources have one dtype. */
export const broadcastOf = (
  src: readonly GraphNode[],
  { ranks, root }: { readonly ranks: readonly number[]; readonly root: number },
): GraphNode =>
  inOrder(broadcastOp, src, { kind: 'broadcast', ranks, op: 'sum', root, beside: false, ...placed(src) });

/** What an all-reduce or a broadcast of `src` gives, in their shapes. */
export const unpacked = (flat: GraphNode, src: readonly GraphNode[]): GraphNode[] => {
  const { offsets, counts } = placed(src);
  return src.map(({ shape }, i) => b.reshape(b.slice(flat, [offsets[i]!], [counts[i]!]), shape));
};

/** x of all ranks, (n) each, one after the other: (ranks · n). */
export const allGatherOf = (x: GraphNode, { ranks }: { readonly ranks: readonly number[] }): GraphNode =>
  inOrder(allGatherOp, [x], {
    ...{ kind: 'allGather', ranks, op: 'sum', root: 0, beside: false, counts: [x.size], offsets: [0] },
    ...{ size: x.size * ranks.length, orders: 0 },
  });

/** x of all ranks, (ranks · n) each, reduced: every rank has its part (n). */
export const reduceScatterOf = (x: GraphNode, { ranks, op }: Together): GraphNode =>
  inOrder(reduceScatterOp, [x], {
    ...{ kind: 'reduceScatter', ranks, op, root: 0, beside: false, counts: [x.size], offsets: [0] },
    ...{ size: x.size / ranks.length, orders: 0 },
  });
