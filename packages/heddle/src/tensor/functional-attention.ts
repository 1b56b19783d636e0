/** Attention, as a function. Source: PyTorch's torch.nn.functional.scaled_dot_product_attention. */
import { aBoolean, aFinite, type Rules, requireOptions, within } from '../core/arguments.js';
import { bool, type DTypeName, isHalf } from '../core/dtype.js';
import { DTypeError, ShapeError } from '../core/errors.js';
import { broadcastShapes, formatShape, type Shape } from '../core/shape.js';
import * as b from '../graph/build.js';
import { type AnyTensor, aTensor, requireFloat, requireSameDtype } from './checks.js';
import { dropout as drop } from './functional-layers.js';
import { MATMUL, type MatmulOptions, Tensor, widely } from './tensor.js';

/** Options of `scaledDotProductAttention`. */
export interface AttentionOptions extends MatmulOptions {
  /**
   * (…, L, S), broadcast. Of bools: whether a query may attend to a key. Of floats: added to the scores, −Infinity
   * where a query may not.
   */
  readonly mask?: AnyTensor | undefined;
  /** Whether query i attends to keys 0 … i only, beside what `mask` says; default false. */
  readonly isCausal?: boolean;
  /** The probability that a weight becomes 0, as in `dropout`; default 0. */
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

/** Stands for −Infinity: a row that may attend to nothing then has weights instead of NaN, which are cleared. */
const LOWEST = -1e38;

/** (L, S): whether key j is not after query i. */
const causal = (queries: number, keys: number): Tensor<Shape, 'bool'> => {
  const shape = [queries, keys];
  return new Tensor<Shape, 'i32'>(b.iota(shape, 1)).le(new Tensor(b.iota(shape, 0)));
};

/** Softmax of the scores (…, L, S) where a query may attend, 0 elsewhere. */
function weightsOf(scores: AnyTensor, mask: AnyTensor | undefined, isCausal: boolean): AnyTensor {
  const before = isCausal ? causal(scores.shape.at(-2)!, scores.shape.at(-1)!) : undefined;
  if (!mask) return (before ? before.where(scores, LOWEST) : scores).softmax(-1);
  const open = (mask.dtype === bool ? mask : mask.ne(-Infinity)) as Tensor<Shape, 'bool'>;
  const allowed = before ? open.and(before) : open;
  const moved = mask.dtype === bool ? scores : scores.add(mask);
  return allowed.where(allowed.where(moved, LOWEST).softmax(-1), 0);
}

const OP = 'scaledDotProductAttention';

/** The sizes before the last `count`. */
const lead = (x: AnyTensor, count: number): Shape => x.shape.slice(0, x.ndim - count);

/** How many heads of queries share one of keys and values. @throws ShapeError */
function sharing(q: AnyTensor, k: AnyTensor, v: AnyTensor): number {
  const [heads, keyHeads, valueHeads] = [q, k, v].map((x) => x.shape.at(-3) ?? 0) as [number, number, number];
  if (q.ndim < 3 || keyHeads !== valueHeads || keyHeads === 0 || heads % keyHeads !== 0)
    throw new ShapeError(
      `[${OP}] with enableGqa the heads of keys and values must divide those of queries, got queries ` +
        `${formatShape(q.shape)}, keys ${formatShape(k.shape)}, values ${formatShape(v.shape)}. Heads are the third dimension from the end.`,
    );
  return heads / keyHeads;
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

/** @internal What `scaledDotProductAttention` computes, with its weights. */
export function attend<D extends DTypeName>(
  query: Tensor<Shape, D>,
  key: AnyTensor,
  value: AnyTensor,
  options: AttentionOptions = {},
): Attention<D> {
  requireAttention(query, key, value, options.mask);
  const { mask, isCausal = false, dropout = 0, enableGqa = false } = options;
  // tf32 has all digits of 16-bit floats, and tensor cores.
  const precision = options.precision ?? (isHalf(query.dtype) ? 'tf32' : undefined);
  const { scale = 1 / Math.sqrt(query.shape.at(-1)!) } = options;
  const shared = enableGqa ? sharing(query, key, value) : 1;
  /** (…, H, L, X) as (…, H / shared, shared · L, X), and back. */
  const joined = (x: AnyTensor): AnyTensor =>
    shared === 1
      ? x
      : x.reshape([...lead(x, 3), x.shape.at(-3)! / shared, shared * x.shape.at(-2)!, x.shape.at(-1)!]);
  const apart = (x: AnyTensor): AnyTensor =>
    shared === 1
      ? x
      : x.reshape([...lead(x, 3), x.shape.at(-3)! * shared, x.shape.at(-2)! / shared, x.shape.at(-1)!]);
  let weights: AnyTensor | undefined;
  const output = widely(
    (q, k, v, mask) => {
      const rows = joined(q);
      broadcastShapes(OP, lead(rows, 2), lead(k, 2));
      const scores = apart(rows.matmul(k.transpose(), { precision }).mul(scale));
      const shape = broadcastShapes(OP, scores.shape, mask?.shape ?? []);
      if (formatShape(shape) !== formatShape(scores.shape))
        throw new ShapeError(
          `[${OP}] mask is ${formatShape(mask!.shape)}, must broadcast to the scores' ${formatShape(scores.shape)}.`,
        );
      const all = weightsOf(scores, mask, isCausal);
      weights = dropout > 0 ? drop(all, { p: dropout }) : all;
      return apart(joined(weights).matmul(v, { precision }));
    },
    query,
    key,
    value,
    mask,
  );
  return { output, weights: weights! };
}

/**
 * softmax(query · keyᵀ · scale + mask) · value: for each query the mean of the values, weighted by how well their keys
 * fit (Vaswani and others, Attention is all you need, 2017). A query that may attend to no key gives 0. Of 16-bit
 * floats all is f32 until the end, with products in tf32 where there are tensor cores.
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
  return attend(query, key, value, options).output;
}
