/** Attention in primitives: what the kernels compute, on every device and for every shape. */
import { bool } from '../../core/dtype.js';
import type { Precision } from '../../core/precision.js';
import type { Shape } from '../../core/shape.js';
import * as b from '../../graph/build.js';
import type { GraphNode } from '../../graph/node.js';
import { matmul } from '../matmul/op.js';
import { softmax } from '../softmax/op.js';
import type { AttentionArg, OptionalSources } from './arg.js';
import { dropped } from './dropout.js';

/** Stands for −Infinity: a row that may attend to nothing then has weights instead of NaN, which are cleared. */
const LOWEST = -1e38;

/** (B, H, L, X) as (B, keyHeads, H / keyHeads · L, X): the queries of the heads that share one of keys, one after the other. */
export function joined(x: GraphNode, keyHeads: number): GraphNode {
  const [batch, heads, length, width] = x.shape as readonly [number, number, number, number];
  return b.reshape(x, [batch, keyHeads, (heads / keyHeads) * length, width]);
}

/** Undoes `joined`. */
export const apart = (x: GraphNode, heads: number): GraphNode => {
  const [batch, keyHeads, length, width] = x.shape as readonly [number, number, number, number];
  return b.reshape(x, [batch, heads, length / (heads / keyHeads), width]);
};

/** (L, S): whether key j is not after query i. */
const causal = (scores: GraphNode): GraphNode => {
  const shape: Shape = scores.shape.slice(-2);
  return b.map('le', b.iota(shape, 1), b.iota(shape, 0));
};

/** Softmax of scores where a query may attend. */
interface Weights {
  /** (B, H, L, S): the scores before softmax, very low where a query may not attend. */
  readonly scores: GraphNode;
  readonly softmax: GraphNode;
  /** Where a query may attend; undefined: everywhere. */
  readonly allowed: GraphNode | undefined;
  /** Whether a query may attend to nothing: its weights are then 0. */
  readonly isCleared: boolean;
}

function weighted(
  q: GraphNode,
  k: GraphNode,
  mask: GraphNode | undefined,
  { isCausal, scale, precision }: AttentionArg,
): Weights {
  const products = matmul(joined(q, k.shape[1]!), b.transpose(k), precision);
  const all = apart(products, q.shape[1]!);
  const scaled = b.mul(all, b.like(all, scale));
  const before = isCausal ? causal(scaled) : undefined;
  const lowest = b.like(scaled, LOWEST);
  if (!mask) {
    const scores = before ? b.where(before, scaled, lowest) : scaled;
    return { scores, softmax: softmax(scores, -1, false), allowed: before, isCleared: false };
  }
  const wide = b.wide(mask);
  const open = mask.dtype === bool ? mask : b.map('ne', wide, b.like(wide, -Infinity));
  const allowed = before ? b.map('and', open, before) : open;
  const moved = mask.dtype === bool ? scaled : b.map('add', scaled, wide);
  const scores = b.where(allowed, moved, lowest);
  return { scores, softmax: softmax(scores, -1, false), allowed, isCleared: true };
}

const zeros = (x: GraphNode): GraphNode => b.like(x, 0);

/** Of which some are dropped, if they are to be. */
const kept = (x: GraphNode, counter: GraphNode | undefined, { dropout }: AttentionArg): GraphNode =>
  dropout ? dropped(x, counter!, dropout) : x;

/** (B, H, L, E), (B, G, S, E) → (B, H, L, S), G dividing H: how much of each value is in the output. Floats of f32 or more. */
export function attentionWeights(
  q: GraphNode,
  k: GraphNode,
  { mask, counter }: OptionalSources<GraphNode>,
  arg: AttentionArg,
): GraphNode {
  const { softmax, allowed, isCleared } = weighted(q, k, mask, arg);
  return kept(isCleared ? b.where(allowed!, softmax, zeros(softmax)) : softmax, counter, arg);
}

/** Weights (B, H, L, S) of values (B, G, S, V) → (B, H, L, V). */
export const weightedValues = (weights: GraphNode, v: GraphNode, precision: Precision): GraphNode =>
  apart(matmul(joined(weights, v.shape[1]!), v, precision), weights.shape[1]!);

/** (B, H, L): the logarithm to base 2 of Σ exp(scores); Infinity where a query may attend to nothing. */
export function logSumExp2(
  q: GraphNode,
  k: GraphNode,
  mask: GraphNode | undefined,
  arg: AttentionArg,
): GraphNode {
  const { scores, allowed, isCleared } = weighted(q, k, mask, arg);
  const inBase2 = b.mul(scores, b.like(scores, Math.LOG2E));
  const most = b.reduce('max', inBase2, [3]);
  const powers = b.map('exp2', b.sub(inBase2, most));
  const total = b.map('add', most, b.map('log2', b.sum(powers, [3])));
  const isOpen = isCleared && b.reduce('max', b.cast(b.expand(allowed!, scores.shape), q.dtype), [3]);
  const shown = isOpen ? b.where(b.map('gt', isOpen, zeros(isOpen)), total, b.like(total, Infinity)) : total;
  return b.reshape(shown, scores.shape.slice(0, 3));
}

/** What gradients are made of. */
export interface Gradients {
  readonly q: GraphNode;
  readonly k: GraphNode;
  readonly v: GraphNode;
}

/** @param g of the output, (B, H, L, V) */
export function attentionGradients(
  g: GraphNode,
  [q, k, v]: readonly [GraphNode, GraphNode, GraphNode],
  { mask, counter }: OptionalSources<GraphNode>,
  arg: AttentionArg,
): Gradients {
  const { precision, scale } = arg;
  const [heads, keyHeads] = [q.shape[1]!, k.shape[1]!];
  const { softmax, allowed, isCleared } = weighted(q, k, mask, arg);
  const weights = isCleared ? b.where(allowed!, softmax, zeros(softmax)) : softmax;
  const rows = joined(g, keyHeads);
  const toWeights = kept(apart(matmul(rows, b.transpose(v), precision), heads), counter, arg);
  const toSoftmax = isCleared ? b.where(allowed!, toWeights, zeros(toWeights)) : toWeights;
  const centered = b.sub(toSoftmax, b.sum(b.mul(toSoftmax, softmax), [3]));
  const toScores = b.mul(softmax, centered);
  const open = allowed ? b.where(allowed, toScores, zeros(toScores)) : toScores;
  const toProducts = joined(b.mul(open, b.like(open, scale)), keyHeads);
  return {
    q: apart(matmul(toProducts, k, precision), heads),
    k: matmul(b.transpose(toProducts), joined(q, keyHeads), precision),
    v: matmul(b.transpose(joined(kept(weights, counter, arg), keyHeads)), rows, precision),
  };
}
