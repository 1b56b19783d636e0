/**
 * Attention of several heads, and its gradients. Kernels on a GPU compute it tile by tile (Dao, FlashAttention-2, 2023): no
 * (L, S) matrix is ever in memory. What they keep for the gradients is one number for each query.
 *
 * Queries are (B, H, L, E), keys (B, G, S, E) and values (B, G, S, V), G dividing H: H / G heads in a row share one of
 * keys and values. A mask is (B, H, L, S), mostly a repeated smaller one: of bools, whether a query may attend to a key; of
 * floats, added to the scores. Outputs are (B, L, H, V): the projection that follows
 * reads the features of all heads as one row.
 */
import {
  attentionChoice,
  keyGradientChoice,
  logSumExpChoice,
  queryGradientChoice,
  valueGradientChoice,
} from '#ops/gpu-kernels.js';
import { f32 } from '../../core/dtype.js';
import * as b from '../../graph/build.js';
import type { FusedOp, KernelChoice } from '../../graph/fused-op.js';
import type { GraphNode, TensorType } from '../../graph/node.js';
import { type AttentionArg, optionalSources } from './arg.js';
import {
  attentionGradients,
  attentionWeights,
  type Gradients,
  logSumExp2,
  weightedValues,
} from './composition.js';

/** (B, H, L, X) as (B, L, H, X), and back. */
export const headsInside = (x: GraphNode): GraphNode => b.permute(x, [0, 2, 1, 3]);

/** Sources: queries, keys, values, and perhaps a mask, and a generator's counter for dropout → (B, L, H, V). */
export const attentionOp: FusedOp<AttentionArg> = {
  name: 'attention',
  infer: ([q, , v]) => ({
    shape: [q!.shape[0]!, q!.shape[2]!, q!.shape[1]!, v!.shape[3]!],
    dtype: q!.dtype,
  }),
  compose: ([q, k, v, ...last], arg) =>
    b.widened(
      (q, k, v) => {
        const weights = attentionWeights(q!, k!, optionalSources(last, arg), arg);
        return headsInside(weightedValues(weights, v!, arg.precision));
      },
      q!,
      k!,
      v!,
    ),
  grad: (node, g, arg) => {
    const [q, k, v, ...last] = node.src as readonly [GraphNode, GraphNode, GraphNode, ...GraphNode[]];
    // Σ weights · their gradients, for each query.
    const mean = b.sum(b.mul(b.wide(g), b.wide(node)), [3]);
    const sources = [g, q, k, v, b.call(attentionLogSumExpOp, node.src, arg), mean, ...last];
    const of = (op: FusedOp<AttentionArg>, x: GraphNode): GraphNode | undefined =>
      x.requiresGrad ? headsInside(b.call(op, sources, arg)) : undefined;
    return [of(queryGradientOp, q), of(keyGradientOp, k), of(valueGradientOp, v)];
  },
  flops: ({ src: [q, , v] }, arg) => productFlops(q!.type, v!.type, arg, [q!.shape[3]!, v!.shape[3]!]),
  kernels: [attentionChoice],
};

/** The sources of `attentionOp` → (B, H, L) f32, the logarithm to base 2 of Σ exp(scores). */
export const attentionLogSumExpOp: FusedOp<AttentionArg> = {
  name: 'attentionLogSumExp',
  infer: ([q]) => ({ shape: q!.shape.slice(0, 3), dtype: q!.dtype.name === 'f64' ? q!.dtype : f32 }),
  compose: ([q, k, , ...last], arg) =>
    logSumExp2(b.wide(q!), b.wide(k!), optionalSources(last, arg).mask, arg),
  kernels: [logSumExpChoice],
};

/** Operations of products of L × S each, of these depths. */
function productFlops(
  q: TensorType,
  v: TensorType,
  { isCausal }: AttentionArg,
  depths: readonly number[],
): number {
  const [batch, heads, queries] = q.shape as readonly [number, number, number];
  const keys = v.shape[2]!;
  // Of the first queries, one key more each.
  const growing = isCausal ? Math.min(queries, keys) : 0;
  const pairs = (growing * (growing + 1)) / 2 + (queries - growing) * keys;
  return depths.reduce((sum, depth) => sum + 2 * batch * heads * pairs * depth, 0);
}

/** The gradient of one of the sources: g (B, L, H, V), q, k, v, log-sum-exp, the mean of weights' gradients (B, L, H, 1), and what else attention has. */
const gradientOp = (
  name: string,
  of: keyof Gradients,
  kernel: KernelChoice<AttentionArg>,
  products: number,
): FusedOp<AttentionArg> => ({
  name,
  infer: ([, q, k, v]) => {
    const [batch, heads, length, width] = { q: q!, k: k!, v: v! }[of].shape as readonly number[];
    return { shape: [batch!, length!, heads!, width!], dtype: q!.dtype };
  },
  compose: ([g, q, k, v, , , ...last], arg) =>
    b.widened(
      (g, q, k, v) =>
        headsInside(attentionGradients(headsInside(g!), [q!, k!, v!], optionalSources(last, arg), arg)[of]),
      g!,
      q!,
      k!,
      v!,
    ),
  flops: ({ src: [, q, , v] }, arg) =>
    productFlops(q!.type, v!.type, arg, new Array<number>(products).fill(v!.shape[3]!)),
  kernels: [kernel],
});

export const queryGradientOp: FusedOp<AttentionArg> = gradientOp(
  'attentionQueryGradient',
  'q',
  queryGradientChoice,
  3,
);
export const keyGradientOp: FusedOp<AttentionArg> = gradientOp(
  'attentionKeyGradient',
  'k',
  keyGradientChoice,
  4,
);
export const valueGradientOp: FusedOp<AttentionArg> = gradientOp(
  'attentionValueGradient',
  'v',
  valueGradientChoice,
  2,
);
