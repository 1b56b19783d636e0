/** ONNX Runtime's own attention: what its optimizer and its builder of language models write. */
import type { AnyTensor } from 'heddle';
import { ELEMENT_TYPES } from '../file/element-types.js';
import { positionsOf, Value } from '../values/value.js';
import { attended, biasOf, headsOf, line, rotated } from './attention.js';
import { float, int, ints } from './attributes.js';
import { multiply } from './matrices.js';
import { type Call, operator } from './operator.js';

/** (B, heads, S, d) → (B, S, heads · d) */
const joined = (x: AnyTensor): Value => Value.of(x.transpose(1, 2).reshape([x.shape[0]!, x.shape[2]!, -1]));

/** 0 where `allowed` and a large negative number elsewhere. */
const filtered = (allowed: AnyTensor, filter: number, like: AnyTensor): AnyTensor =>
  (allowed.where(0, filter) as AnyTensor).cast(like.dtype);

/**
 * A mask as what is added to the scores (B, heads, S, T): of the number of keys of each row (B), of each key (B, T), or of each
 * pair (B, S, T).
 */
function maskBias(call: Call, mask: Value, keys: number, filter: number, like: AnyTensor): AnyTensor {
  const [b, queries] = [like.shape[0]!, like.shape[2]!];
  const [rows, ...rest] = mask.shape;
  if (mask.rank === 1 && rows === b)
    return filtered(line(keys, [1, 1, 1, keys]).lt(positionsOf(mask).reshape([b, 1, 1, 1])), filter, like);
  const isOfKeys = mask.rank === 2 && rest[0] === keys;
  const isOfPairs = mask.rank === 3 && rest[0] === queries && rest[1] === keys;
  if (rows !== b || !(isOfKeys || isOfPairs))
    throw call.shapeError(
      `a mask of (${mask.shape}) is not supported: (${b}), (${b},${keys}) and (${b},${queries},${keys}) are.`,
    );
  return filtered(mask.tensor.ne(0).reshape([b, 1, isOfPairs ? queries : 1, keys]), filter, like);
}

/** −∞ for keys behind a query, whose first has `before` keys before it. */
const causalBias = (like: AnyTensor, keys: number, before: number): AnyTensor =>
  biasOf(line(keys, [1, keys]).le(line(like.shape[2]!, [like.shape[2]!, 1]).add(before)), like);

/** Their sum; undefined of none. */
const total = (parts: readonly (AnyTensor | undefined)[]): AnyTensor | undefined =>
  parts.reduce((sum, part) => (sum && part ? sum.add(part) : (sum ?? part)), undefined);

const Attention = operator({
  since: [1],
  inputs: [2, 7],
  attributes: {
    do_rotary: int(0),
    mask_filter_value: float(-10000),
    num_heads: int(undefined),
    past_present_share_buffer: int(0),
    qkv_hidden_sizes: ints(undefined),
    rotary_embedding_dim: int(0),
    scale: float(0),
    unidirectional: int(0),
  },
  compute: (call) => {
    const a = call.attributes;
    if (a.do_rotary || a.past_present_share_buffer)
      throw call.typeError('do_rotary and past_present_share_buffer are not supported.');
    const product = multiply(call.tensor(0), call.tensor(1));
    const bias = call.optional(2)?.tensor;
    const all = bias ? product.add(bias) : product;
    const width = all.shape.at(-1)!;
    const [own, , values] = a.qkv_hidden_sizes ?? [width / 3, width / 3, width / 3];
    const part = (from: number, to: number): Value =>
      headsOf(call, Value.of(all.at('...', `${from}:${to}`)), a.num_heads);
    const q = part(0, own!).tensor;
    const past = call.optional(4);
    const after = (x: Value, i: 0 | 1): Value =>
      past ? Value.concat([Value.of(past.tensor.at(i)), x], 2) : x;
    const k = after(part(own!, 2 * own!), 0);
    const v = after(part(2 * own!, 2 * own! + values!), 1);
    const keys = k.shape[2]!;
    const mask = call.optional(3);
    const scores = total([
      mask && maskBias(call, mask, keys, a.mask_filter_value, q),
      a.unidirectional ? causalBias(q, keys, keys - q.shape[2]!) : undefined,
      call.optional(5)?.tensor,
    ]);
    const scale = a.scale || 1 / Math.sqrt(q.shape[3]!);
    const output = joined(attended(q, k.tensor, v.tensor, { scale, bias: scores, softcap: 0 }));
    if (!call.outputs[1]) return output;
    const present = [k, v].map((x) => x.reshape([1, ...x.shape]));
    return [output, Value.concat(present, 0)];
  },
});

/** Queries, keys and values (B, heads, S, d) of a node that has them apart, or packed as (B, S, heads, 3, d). */
function parts(call: Call, heads: number): readonly [Value, Value, Value] {
  const [first, second, third] = [call.value(0), call.optional(1), call.optional(2)];
  const of = (x: Value, i: number): Value => Value.of(x.tensor.at(':', ':', ':', i)).permute([0, 2, 1, 3]);
  const given: readonly Value[] =
    first.rank === 5
      ? [of(first, 0), of(first, 1), of(first, 2)]
      : second?.rank === 5
        ? [headsOf(call, first, heads), of(second, 0), of(second, 1)]
        : [first, second ?? first, third ?? second ?? first].map((x) => headsOf(call, x, heads));
  const bias = call.optional(3)?.tensor;
  if (!bias) return given as [Value, Value, Value];
  let at = 0;
  return given.map((x) => {
    const [, n, , d] = x.shape as [number, number, number, number];
    at += n * d;
    return Value.of(x.tensor.add(bias.at(`${at - n * d}:${at}`).reshape([1, n, 1, d])));
  }) as unknown as [Value, Value, Value];
}

const MultiHeadAttention = operator({
  since: [1],
  inputs: [1, 10],
  attributes: {
    mask_filter_value: float(-10000),
    num_heads: int(undefined),
    scale: float(0),
    unidirectional: int(0),
  },
  compute: (call) => {
    const a = call.attributes;
    if (call.optional(8) || call.optional(9))
      throw call.typeError('past_sequence_length and cache_indirection are not supported.');
    const [q, ownKeys, ownValues] = parts(call, a.num_heads ?? 1);
    const [past, pastValue] = [call.optional(6), call.optional(7)];
    const k = past ? Value.concat([past, ownKeys], 2) : ownKeys;
    const v = pastValue ? Value.concat([pastValue, ownValues], 2) : ownValues;
    const keys = k.shape[2]!;
    const mask = call.optional(4);
    const bias = total([
      mask && maskBias(call, mask, keys, a.mask_filter_value, q.tensor),
      a.unidirectional ? causalBias(q.tensor, keys, keys - q.shape[2]!) : undefined,
      call.optional(5)?.tensor,
    ]);
    const scale = a.scale || 1 / Math.sqrt(q.shape[3]!);
    return [joined(attended(q.tensor, k.tensor, v.tensor, { scale, bias, softcap: 0 })), k, v];
  },
});

/** Cosines or sines of a cache (positions, pairs) at positions (B, S), as (B, 1, S, pairs). */
const anglesAt = (cache: Value, positions: AnyTensor): AnyTensor =>
  cache.take(Value.of(positions), 0).tensor.unsqueeze(1);

const RotaryEmbedding = operator({
  since: [1],
  inputs: [4],
  attributes: {
    interleaved: int(0),
    is_packed_batching: int(0),
    num_heads: int(0),
    rotary_embedding_dim: int(0),
    scale: float(1),
  },
  compute: (call) => {
    const { interleaved, is_packed_batching, num_heads, scale } = call.attributes;
    if (is_packed_batching || scale !== 1)
      throw call.typeError('is_packed_batching and scale are not supported.');
    const [x, cos, sin] = [call.value(0), call.value(2), call.value(3)];
    const heads = headsOf(call, x, num_heads || x.shape.at(-1)! / (2 * cos.shape[1]!)).tensor;
    const steps = heads.shape[2]!;
    const given = positionsOf(call.value(1));
    const positions = given.size === 1 ? line(steps, [1, steps]).add(given.reshape([1, 1])) : given;
    const made = rotated(heads, anglesAt(cos, positions), anglesAt(sin, positions), interleaved === 1);
    return x.rank === 4 ? made : made.permute([0, 2, 1, 3]).reshape(x.shape);
  },
});

/**
 * Keys or values with those of a step put where they belong: behind those that were there before.
 * @param past (B, heads, P, d), of which those before `at` count @param own (B, heads, S, d) @param at (B, 1, 1, 1)
 */
function continued(past: Value, own: Value, at: AnyTensor, length: number): Value {
  const [b, heads, steps, d] = own.shape as [number, number, number, number];
  const before = past.shape[2]!;
  const t = line(length, [1, 1, length, 1]);
  const step = t.sub(at);
  const isOwn = step.ge(0).and(step.lt(steps));
  const from = isOwn.where(step.add(before), t.clamp(0, before)) as AnyTensor;
  const all = Value.concat([past, own], 2).tensor;
  return Value.of(
    all.gather(2, from.cast(ELEMENT_TYPES.i32.dtype!).expand([b, heads, length, d])) as AnyTensor,
  );
}

const GroupQueryAttention = operator({
  since: [1],
  inputs: [7, 14],
  known: [6],
  attributes: {
    do_rotary: int(0),
    kv_num_heads: int(undefined),
    local_window_size: int(-1),
    num_heads: int(undefined),
    rotary_interleaved: int(0),
    scale: float(0),
    smooth_softmax: int(0),
    softcap: float(0),
  },
  compute: (call) => {
    const a = call.attributes;
    const [heads, keyHeads] = [a.num_heads ?? 1, a.kv_num_heads ?? 1];
    if (a.smooth_softmax > 0 || call.optional(11))
      throw call.typeError('smooth_softmax and head_sink are not supported.');
    const [packed, key, value] = [call.value(0), call.optional(1), call.optional(2)];
    const size = packed.shape.at(-1)! / (key ? heads : heads + 2 * keyHeads);
    const slice = (from: number, count: number): Value =>
      headsOf(call, Value.of(packed.tensor.at('...', `${from * size}:${(from + count) * size}`)), count);
    const given =
      key && value
        ? [headsOf(call, packed, heads), headsOf(call, key, keyHeads), headsOf(call, value, keyHeads)]
        : [slice(0, heads), slice(heads, keyHeads), slice(heads + keyHeads, keyHeads)];
    const [q, k, v] = given as [Value, Value, Value];
    const steps = q.shape[2]!;
    const allKeys = call.number(6)!;
    // How many keys were there before: of a prompt none.
    const lengths = positionsOf(call.value(5)).reshape([-1, 1, 1, 1]).add(1);
    const before = steps === allKeys ? lengths.mul(0) : lengths.sub(steps);
    const positions =
      (call.optional(9) && positionsOf(call.value(9))) ??
      before.reshape([-1, 1]).add(line(steps, [1, steps]));
    const turn = (x: Value): Value =>
      a.do_rotary
        ? rotated(
            x.tensor,
            anglesAt(call.value(7), positions),
            anglesAt(call.value(8), positions),
            a.rotary_interleaved === 1,
          )
        : x;
    const [past, pastValue] = [call.optional(3), call.optional(4)];
    const length = Math.max(allKeys, past?.shape[2] ?? 0);
    const isPrompt = (past?.shape[2] ?? 0) === 0 && steps === length;
    const put = (x: Value, old: Value | undefined): Value =>
      old && !isPrompt ? continued(old, x, before, length) : x;
    const [keys, values] = [put(turn(k), past), put(v, pastValue)];
    const ahead = line(length, [1, 1, 1, length]).sub(line(steps, [1, 1, steps, 1]).add(before));
    const allowed = a.local_window_size > 0 ? ahead.le(0).and(ahead.gt(-a.local_window_size)) : ahead.le(0);
    const queries = turn(q).tensor;
    const bias = total([biasOf(allowed, queries), call.optional(10)?.tensor]);
    const scale = a.scale || 1 / Math.sqrt(size);
    const output = attended(queries, keys.tensor, values.tensor, { scale, bias, softcap: a.softcap });
    return [joined(output), keys, values];
  },
});

export const CONTRIB_ATTENTION = {
  'com.microsoft.Attention': Attention,
  'com.microsoft.MultiHeadAttention': MultiHeadAttention,
  'com.microsoft.GroupQueryAttention': GroupQueryAttention,
  'com.microsoft.RotaryEmbedding': RotaryEmbedding,
};
