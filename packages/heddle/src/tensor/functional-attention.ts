/** Attention, as a function. Source: PyTorch's torch.nn.functional.scaled_dot_product_attention. */
import { aBoolean, aFinite, type Rules, requireOptions, within } from '../core/arguments.js';
import { bool, type DTypeName, isHalf } from '../core/dtype.js';
import { DTypeError, ShapeError } from '../core/errors.js';
import { broadcastShapes, formatShape, type Shape, sizeOf } from '../core/shape.js';
import * as b from '../graph/build.js';
import type { GraphNode } from '../graph/node.js';
import type { AttentionArg } from '../ops/attention/arg.js';
import { attentionWeights, weightedValues } from '../ops/attention/composition.js';
import { drawnBlocks } from '../ops/attention/dropout.js';
import { attentionOp, headsInside } from '../ops/attention/op.js';
import { forProduct } from './autocast.js';
import { type AnyTensor, aTensor, requireFloat, requireSameDtype } from './checks.js';
import { getPrecision } from './precision.js';
import { defaultGenerator } from './random.js';
import { MATMUL, type MatmulOptions, Tensor } from './tensor.js';

/** Options of `scaledDotProductAttention`. */
export interface AttentionOptions extends MatmulOptions {
  /**
   * (…, L, S), broadcast. Of bools: whether a query may attend to a key. Of floats: added to the scores, −Infinity
   * where a query may not.
   */
  readonly mask?: AnyTensor | undefined;
  /** Whether query i attends to keys 0 … i only, beside what `mask` says; default false. */
  readonly isCausal?: boolean;
  /** The probability that a weight becomes 0, as in `dropout`, rounded to a multiple of 2⁻¹⁶; default 0. */
  readonly dropout?: number;
  /** The factor of the products; default 1 / √E. */
  readonly scale?: number | undefined;
  /** Whether keys and values may have fewer heads than queries, of which as many in a row share one; default false. */
  readonly enableGqa?: boolean;
}

const ATTENTION: Rules<AttentionOptions> = {
  ...MATMUL,
  mask: aTensor,
  isCausal: aBoolean,
  dropout: within(0, 1),
  scale: aFinite,
  enableGqa: aBoolean,
};

const OP = 'scaledDotProductAttention';

/** The sizes before the last `count`. */
const lead = (x: AnyTensor, count: number): Shape => x.shape.slice(0, x.ndim - count);

/** @throws ShapeError */
function requireSharing(q: AnyTensor, k: AnyTensor, v: AnyTensor): void {
  const [heads, keyHeads, valueHeads] = [q, k, v].map((x) => x.shape.at(-3) ?? 0) as [number, number, number];
  if (q.ndim < 3 || keyHeads !== valueHeads || keyHeads === 0 || heads % keyHeads !== 0)
    throw new ShapeError(
      `[${OP}] with enableGqa the heads of keys and values must divide those of queries, got queries ` +
        `${formatShape(q.shape)}, keys ${formatShape(k.shape)}, values ${formatShape(v.shape)}. Heads are the third dimension from the end.`,
    );
}

/** @throws ShapeError, DTypeError */
function requireAttention(q: AnyTensor, k: AnyTensor, v: AnyTensor, mask: AnyTensor | undefined): void {
  requireFloat(OP, 'query', q);
  requireSameDtype(OP, 'query', q, 'key', k);
  requireSameDtype(OP, 'query', q, 'value', v);
  if (
    [q, k, v].some((x) => x.ndim < 2) ||
    q.shape.at(-1) !== k.shape.at(-1) ||
    k.shape.at(-2) !== v.shape.at(-2)
  )
    throw new ShapeError(
      `[${OP}] takes queries (…,L,E), keys (…,S,E) and values (…,S,V), got ${[q, k, v].map((x) => formatShape(x.shape)).join(', ')}.`,
    );
  if (mask && mask.dtype !== bool && mask.dtype.kind !== 'float')
    throw new DTypeError(
      `[${OP}] mask must be bool, or floats that are added to the scores, got ${mask.dtype.name}. Compare first, as in mask.ne(0).`,
    );
}

/** The output of attention, and how much of each value is in it. */
export interface Attention<D extends DTypeName = DTypeName> {
  /** (…, L, V) */
  readonly output: Tensor<Shape, D>;
  /** (…, L, S), f32 for queries of 16-bit floats. */
  readonly weights: AnyTensor;
}

/** Tensors as `attentionOp` takes them, and what its output is to be. */
interface Prepared {
  /** (B, H, L, E), (B, G, S, E), (B, G, S, V) */
  readonly sources: readonly [q: GraphNode, k: GraphNode, v: GraphNode];
  /** (B, H, L, S) */
  readonly mask: GraphNode | undefined;
  /** Of the generator that dropout draws from. */
  readonly counter: GraphNode | undefined;
  readonly arg: AttentionArg;
  /** The dimensions before the last two. */
  readonly lead: Shape;
}

/** @throws ShapeError, DTypeError */
function prepared(
  query: AnyTensor,
  key: AnyTensor,
  value: AnyTensor,
  { mask, isCausal = false, enableGqa = false, dropout = 0, ...options }: AttentionOptions,
): Prepared {
  requireAttention(query, key, value, mask);
  if (enableGqa) requireSharing(query, key, value);
  // tf32 has all digits of 16-bit floats, and tensor cores.
  const precision = options.precision ?? (isHalf(query.dtype) ? 'tf32' : getPrecision().matmul);
  const { scale = 1 / Math.sqrt(query.shape.at(-1)!) } = options;
  const apart = enableGqa ? 3 : 2;
  const outer = broadcastShapes(OP, ...[query, key, value].map((x) => lead(x, apart)));
  const heads = (x: AnyTensor): Shape => (enableGqa ? [...outer, x.shape.at(-3)!] : outer);
  /** Repeated where it is, the dimensions before the last two as a batch and heads. */
  const inFour = (x: GraphNode, lead: Shape): GraphNode => {
    const [rows, columns] = x.shape.slice(-2) as [number, number];
    const own = lead.at(-1) ?? 1;
    return b.reshape(b.expand(x, [...lead, rows, columns]), [sizeOf(lead.slice(0, -1)), own, rows, columns]);
  };
  const sources = [query, key, value].map((x) => inFour(forProduct(x.node), heads(x)));
  const scores = [...heads(query), query.shape.at(-2)!, key.shape.at(-2)!];
  const shape = broadcastShapes(OP, scores, mask?.shape ?? []);
  if (formatShape(shape) !== formatShape(scores))
    throw new ShapeError(
      `[${OP}] mask is ${formatShape(mask!.shape)}, must broadcast to the scores' ${formatShape(scores)}.`,
    );
  const taken = dropout > 0 ? defaultGenerator().take(drawnBlocks(scores)) : undefined;
  return {
    sources: sources as [GraphNode, GraphNode, GraphNode],
    mask: mask && inFour(b.expand(mask.node, scores), heads(query)),
    counter: taken?.counter,
    arg: { isCausal, scale, precision, dropout: taken && { p: dropout, seed: taken.seed } },
    lead: heads(query),
  };
}

/** @internal What `scaledDotProductAttention` computes, with its weights. */
export function attend<D extends DTypeName>(
  query: Tensor<Shape, D>,
  key: AnyTensor,
  value: AnyTensor,
  options: AttentionOptions = {},
): Attention<D> {
  const { sources, arg, lead, ...optional } = prepared(query, key, value, options);
  const [q, k, v] = sources.map(b.wide) as [GraphNode, GraphNode, GraphNode];
  const weights = attentionWeights(q, k, optional, arg);
  const output = b.cast(weightedValues(weights, v, arg.precision), sources[0].dtype);
  const shaped = (x: GraphNode): GraphNode => b.reshape(x, [...lead, ...x.shape.slice(-2)]);
  return { output: new Tensor(shaped(output)), weights: new Tensor(shaped(weights)) };
}

/**
 * softmax(query · keyᵀ · scale + mask) · value: for each query the mean of the values, weighted by how well their keys
 * fit (Vaswani and others, Attention is all you need, 2017). A query that may attend to no key gives 0. Of 16-bit
 * floats all is f32 until the end. On a GPU with tensor cores heads of up to 128 features, a multiple of 16, never have all
 * scores in memory: weights are then rounded to 16 bits before they are multiplied with values. Others have products in tf32.
 * @example
 * ```ts
 * import { randn, scaledDotProductAttention } from 'heddle';
 *
 * const [q, k, v] = [randn([2, 4, 10, 16]), randn([2, 4, 10, 16]), randn([2, 4, 10, 16])];
 * console.log(scaledDotProductAttention(q, k, v, { isCausal: true }).shape); // → [ 2, 4, 10, 16 ]
 * ```
 * @param query floats (…, L, E)
 * @param key (…, S, E)
 * @param value (…, S, V)
 * @returns (…, L, V); leading dimensions broadcast
 * @throws ShapeError, DTypeError, ArgumentError
 */
export function scaledDotProductAttention<D extends DTypeName>(
  query: Tensor<Shape, D>,
  key: AnyTensor,
  value: AnyTensor,
  options: AttentionOptions = {},
): Tensor<Shape, D> {
  requireOptions(OP, options, ATTENTION);
  // The kernels have no gradient of a mask.
  if (options.mask?.requiresGrad) return attend(query, key, value, options).output;
  const { sources, mask, counter, arg, lead } = prepared(query, key, value, options);
  const last = [mask, counter].filter((x) => x !== undefined);
  const output = headsInside(b.call(attentionOp, [...sources, ...last], arg));
  return new Tensor(b.reshape(output, [...lead, ...output.shape.slice(-2)]));
}
