/** Attention, and what goes with it: rotary positions and gated activations. */
import { type AnyTensor, type DType, f32, scaledDotProductAttention, type Tensor } from 'heddle';
import { ELEMENT_TYPES, elementTypeOf } from '../file/element-types.js';
import { hostTensor } from '../values/host-ops.js';
import { listOf } from '../values/limits.js';
import { positionsOf, Value } from '../values/value.js';
import { float, int } from './attributes.js';
import { type Call, operator } from './operator.js';

const ATTENTION = {
  is_causal: int(0),
  kv_num_heads: int(undefined),
  left_window_size: int(-1, { from: 25 }),
  q_num_heads: int(undefined),
  qk_matmul_output_mode: int(0),
  right_window_size: int(-1, { from: 25 }),
  scale: float(undefined),
  softcap: float(0),
  softmax_precision: int(undefined),
};

/** (B, S, heads · d) → (B, heads, S, d); four dimensions stay as they are. */
export function headsOf(call: Call, x: Value, heads: number | undefined): Value {
  if (x.rank === 4) return x;
  const [b, s, width] = x.shape as [number, number, number];
  if (x.rank !== 3 || !heads || width % heads !== 0)
    throw call.shapeError(`(${x.shape}) cannot be divided in ${heads} heads.`);
  return x.reshape([b, s, heads, width / heads]).permute([0, 2, 1, 3]);
}

/** What is added to scores that are not to count. */
const MASKED = Number.NEGATIVE_INFINITY;

/** 0 where a score counts and −∞ where it does not. */
export const biasOf = (allowed: AnyTensor, like: AnyTensor): AnyTensor =>
  (allowed.where(0, MASKED) as AnyTensor).cast(like.dtype);

/** The mask of a node as what is added to the scores, as wide as there are keys. */
function maskBias(mask: Value, keys: number, like: AnyTensor): AnyTensor {
  const missing = keys - mask.shape.at(-1)!;
  const bias = mask.type.kind === 'bool' ? biasOf(mask.tensor, like) : mask.tensor;
  if (missing <= 0) return bias;
  return bias.pad(
    bias.shape.map((_, i) => (i === bias.ndim - 1 ? [0, missing] : [0, 0])),
    { value: MASKED },
  );
}

/** 0, 1, … in i32, as a column or a row. */
export const line = (count: number, shape: readonly number[]): AnyTensor =>
  Value.host(
    hostTensor(
      ELEMENT_TYPES.i32,
      shape,
      listOf(count, (_, i) => i),
    ),
  ).tensor;

/**
 * What is added to the scores (…, queries, keys): of the mask, of causality and windows, whose diagonal is shifted by the keys
 * that were there before, and of the keys that are padding. Undefined if all scores count.
 */
function scoreBias(
  call: Call<typeof ATTENTION>,
  like: AnyTensor,
  queries: number,
  keys: number,
): AnyTensor | undefined {
  const { is_causal, left_window_size: left, right_window_size: right } = call.attributes;
  const [mask, past, valid] = [call.optional(3), call.optional(4), call.optional(6)];
  const parts: AnyTensor[] = mask ? [maskBias(mask, keys, like)] : [];
  const lengths = valid && positionsOf(valid).reshape([-1, 1, 1, 1]);
  if (is_causal || left >= 0 || right >= 0) {
    const rows = line(queries, [queries, 1]);
    const at = lengths ? rows.add(lengths.sub(queries)) : rows.add(past?.shape[2] ?? 0);
    const ahead = line(keys, [1, keys]).sub(at);
    if (is_causal) parts.push(biasOf(ahead.le(0), like));
    if (left >= 0) parts.push(biasOf(ahead.ge(-left), like));
    if (right >= 0) parts.push(biasOf(ahead.le(right), like));
  }
  if (lengths) parts.push(biasOf(line(keys, [1, 1, 1, keys]).lt(lengths), like));
  return parts.length > 0 ? parts.reduce((a, b) => a.add(b)) : undefined;
}

/** How queries attend to keys. */
interface Attending {
  readonly scale: number;
  /** What is added to the scores. */
  readonly bias: AnyTensor | undefined;
  /** Scores s become softcap · tanh(s / softcap); 0: they stay. */
  readonly softcap: number;
  /** What the softmax is computed in; default: the dtype of the queries. */
  readonly precision?: DType | undefined;
}

/** softmax(q·kᵀ · scale + bias) · v for queries (B, heads, S, d), and keys and values of as many heads, or of a divisor of them. */
export function attended(q: AnyTensor, k: AnyTensor, v: AnyTensor, how: Attending): AnyTensor {
  if (how.bias || how.softcap > 0) return scored(q, k, v, how).output;
  const enableGqa = q.shape[1] !== k.shape[1];
  return scaledDotProductAttention(q as Tensor, k, v, { scale: how.scale, enableGqa });
}

/** The same, with the scores: as products, capped, with the bias, and as shares. */
function scored(
  q: AnyTensor,
  k: AnyTensor,
  v: AnyTensor,
  { scale, bias, softcap, precision }: Attending,
): { readonly output: AnyTensor; readonly stages: readonly [AnyTensor, AnyTensor, AnyTensor, AnyTensor] } {
  const repeated = (x: AnyTensor): Tensor => x.repeatInterleave(q.shape[1]! / x.shape[1]!, 1) as Tensor;
  const root = Math.sqrt(scale);
  const raw = (q.mul(root) as Tensor).matmul(repeated(k).mul(root).transpose() as Tensor) as AnyTensor;
  const capped = softcap > 0 ? raw.div(softcap).tanh().mul(softcap) : raw;
  const biased = bias ? capped.add(bias) : capped;
  const wide = (precision ? biased.cast(precision) : biased) as Tensor;
  // A query that no key counts for has no probabilities: its row is 0.
  const isMasked = bias?.max(-1, { keepdim: true }).eq(MASKED);
  const shares = wide.softmax(-1).cast(q.dtype);
  const clean = isMasked ? (isMasked.where(0, shares) as AnyTensor).cast(q.dtype) : shares;
  return { output: (clean as Tensor).matmul(repeated(v)) as AnyTensor, stages: [raw, capped, biased, clean] };
}

const Attention = operator({
  since: [23, 24, 25],
  inputs: [3, 7],
  attributes: ATTENTION,
  compute: (call) => {
    const a = call.attributes;
    const [given, past, pastValue] = [call.value(0), call.optional(4), call.optional(5)];
    const q = headsOf(call, given, a.q_num_heads);
    const ownKeys = headsOf(call, call.value(1), a.kv_num_heads);
    const ownValues = headsOf(call, call.value(2), a.kv_num_heads);
    if (!past !== !pastValue) throw call.shapeError('past_key and past_value must be given together.');
    const k = past ? Value.concat([past, ownKeys], 2) : ownKeys;
    const v = pastValue ? Value.concat([pastValue, ownValues], 2) : ownValues;
    const [heads, keyHeads] = [q.shape[1]!, k.shape[1]!];
    if (keyHeads === 0 || heads % keyHeads !== 0)
      throw call.shapeError(`${heads} heads of queries cannot share ${keyHeads} of keys.`);
    const [queries, keys] = [q.shape[2]!, k.shape[2]!];
    const scale = a.scale ?? 1 / Math.sqrt(q.shape[3]!);
    const bias = scoreBias(call, q.tensor, queries, keys);
    const joined = (y: AnyTensor): Value =>
      Value.of(given.rank === 4 ? y : y.transpose(1, 2).reshape([q.shape[0]!, queries, -1]));
    const wantsScores = call.outputs[3] === true;
    const precision =
      a.softmax_precision === undefined ? undefined : elementTypeOf(a.softmax_precision, call.where).dtype;
    if (!wantsScores && precision === undefined) {
      const output = attended(q.tensor, k.tensor, v.tensor, { scale, bias, softcap: a.softcap });
      return [joined(output), k, v];
    }
    const { output, stages } = scored(q.tensor, k.tensor, v.tensor, {
      ...{ scale, bias, precision, softcap: a.softcap },
    });
    return [joined(output), k, v, Value.of(stages[a.qk_matmul_output_mode] ?? stages[0])];
  },
});

/**
 * Pairs of features turned by angles that grow with the position. Su et al. 2021.
 * @param heads (B, heads, S, d) @param cos of the angles, (B or 1, 1, S, pairs); features beyond the pairs stay as they are
 */
export function rotated(heads: AnyTensor, cos: AnyTensor, sin: AnyTensor, isInterleaved: boolean): Value {
  const size = heads.shape[3]!;
  const turned = 2 * cos.shape.at(-1)!;
  const [first, second] = isInterleaved
    ? [heads.at('...', `0:${turned}:2`), heads.at('...', `1:${turned}:2`)]
    : [heads.at('...', `0:${turned / 2}`), heads.at('...', `${turned / 2}:${turned}`)];
  const real = Value.of(cos.mul(first!).sub(sin.mul(second!)));
  const imaginary = Value.of(sin.mul(first!).add(cos.mul(second!)));
  const both = isInterleaved
    ? Value.concat(
        [real, imaginary].map((x) => x.reshape([...x.shape, 1])),
        4,
      ).reshape([...real.shape.slice(0, 3), turned])
    : Value.concat([real, imaginary], 3);
  return turned < size ? Value.concat([both, Value.of(heads.at('...', `${turned}:`))], 3) : both;
}

const RotaryEmbedding = operator({
  since: [23],
  inputs: [3, 4],
  attributes: { interleaved: int(0), num_heads: int(undefined), rotary_embedding_dim: int(0) },
  compute: (call) => {
    const given = call.value(0);
    const heads = headsOf(call, given, call.attributes.num_heads).tensor;
    const turned = call.attributes.rotary_embedding_dim || heads.shape[3]!;
    const positions = call.optional(3);
    const angles = (i: number): AnyTensor => {
      const cache = call.value(i);
      const at = positions ? cache.take(positions, 0).tensor : cache.tensor;
      if (at.shape.at(-1) !== turned / 2)
        throw call.shapeError(`caches have ${at.shape.at(-1)} angles, must have ${turned / 2}.`);
      return at.unsqueeze(1);
    };
    const made = rotated(heads, angles(1), angles(2), call.attributes.interleaved === 1);
    return given.rank === 4 ? made : made.permute([0, 2, 1, 3]).reshape(given.shape);
  },
});

const SwiGLU = operator({
  since: [28],
  inputs: [2],
  attributes: { alpha: float(1) },
  compute: (call) => {
    const [gate, x] = [call.tensor(0), call.tensor(1)];
    const wide = gate.dtype.bytes < 4 ? gate.cast(f32) : gate;
    const swish = wide.mul(wide.mul(call.attributes.alpha).sigmoid()).cast(gate.dtype);
    return Value.of(swish.mul(x));
  },
});

export const ATTENTION_OPERATORS = { Attention, RotaryEmbedding, SwiGLU };
