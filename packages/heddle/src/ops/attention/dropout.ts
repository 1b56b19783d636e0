/**
 * Dropout of attention's weights. Whether a weight is kept depends on its place alone: on 16 bits of a block of the generator. So
 * every kernel draws the same again, piece by piece.
 */
import type { PhiloxKey } from '../../core/philox.js';
import { type Shape, sizeOf } from '../../core/shape.js';
import * as b from '../../graph/build.js';
import type { GraphNode } from '../../graph/node.js';
import type { Intrinsics, Memory } from '../../kernel/language/language.js';
import { philoxBlock } from '../philox.js';

/** Each weight becomes 0 with probability `p`, a multiple of 2⁻¹⁶ or rounded to one; the others are divided by 1 − p. */
export interface AttentionDropout {
  readonly p: number;
  /** Of the generator, whose next block is a source of the op: i64 of shape (1). */
  readonly seed: PhiloxKey;
}

/**
 * Weights are drawn in pieces of 16 queries × 16 keys, by 32 blocks of random words. A block decides on 8 weights, with 16 bits for
 * each: those of queries r and r + 8 and of keys 2c, 2c + 1, 2c + 8 and 2c + 9. They are what a lane of a warp has of the piece where
 * tensor cores multiply queries by keys.
 */
const PIECE = 16;
const BLOCKS = 32;

const piecesOf = (length: number): number => Math.ceil(length / PIECE);

/** Blocks that are drawn for weights (B, H, L, S). */
export const drawnBlocks = (weights: Shape): number =>
  sizeOf(weights.slice(0, -2)) * piecesOf(weights.at(-2)!) * piecesOf(weights.at(-1)!) * BLOCKS;

/** A weight becomes 0 where its 16 bits are below. With `p` 1 all do: the factor of the others is 0. */
const limitOf = (p: number): number => Math.min(Math.round(p * 2 ** 16), 2 ** 16 - 1);

/** What is left of the weights, 1 − p as it is drawn. */
const shareOf = (p: number): number => (p === 1 ? 0 : 1 - limitOf(p) / 2 ** 16);

/** Of the weights that are kept. */
const factorOf = (p: number): number => (p === 1 ? 0 : 1 / shareOf(p));

/** Weights (B, H, L, S), or their gradients. */
export function dropped(x: GraphNode, counter: GraphNode, { p, seed }: AttentionDropout): GraphNode {
  const [batch, heads, queries, keys] = x.shape as readonly [number, number, number, number];
  const [down, across] = [piecesOf(queries), piecesOf(keys)];
  const lead = batch * heads;
  // [..., r, c, o, a], and h which half of a word: query r + 8a of a piece, and key 2c + o + 8h.
  const words = b.random([lead, down, across, 8, 4, 2, 2], counter, seed);
  const both = b.expand(b.reshape(words, [...words.shape, 1]), [...words.shape, 2]);
  const which = b.iota(both.shape, 7);
  const isLow = b.map('eq', which, b.like(which, 0));
  const halves = b.where(isLow, b.map('shl', both, b.like(both, 16)), both);
  const inPlace = b.permute(halves, [0, 1, 6, 3, 2, 7, 4, 5]);
  const all = b.reshape(inPlace, [batch, heads, PIECE * down, PIECE * across]);
  const own = b.slice(
    all,
    x.shape.map(() => 0),
    x.shape,
  );
  const isKept = b.map('ge', own, b.like(own, limitOf(p) * 2 ** 16));
  return b.where(isKept, b.mul(x, b.like(x, factorOf(p))), b.like(x, 0));
}

/** Dropout by a kernel. */
export interface DropoutProblem extends AttentionDropout {
  /** Where the counter is, in elements. */
  readonly offset: number;
}

/** What a kernel has to know of it when it is compiled. */
export interface DropWork {
  /** The first of the counter's two words. */
  readonly at: number;
  /** In the upper half of a word. */
  readonly limit: number;
  readonly share: number;
  readonly factor: number;
  readonly key0: number;
  readonly key1: number;
  /** Pieces of weights, along queries and along keys. */
  readonly down: number;
  readonly beside: number;
}

/** @param problem undefined where nothing is dropped */
export function dropWork(problem: DropoutProblem | undefined, queries: number, keys: number): DropWork {
  const { p, seed, offset } = problem ?? { p: 0, seed: [0, 0], offset: 0 };
  const [key0, key1] = seed as PhiloxKey;
  return {
    ...{ at: 2 * offset, limit: limitOf(p) * 2 ** 16, share: shareOf(p), factor: factorOf(p), key0, key1 },
    ...{ down: piecesOf(queries), beside: piecesOf(keys) },
  };
}

/** The words of the counter, where there is dropout. */
export interface DropSources {
  readonly counter: Memory;
}

/** What a device function takes from the context. */
export interface DropContext extends Intrinsics {
  readonly work: { readonly drops: boolean; readonly drop: DropWork };
  readonly drawPiece: typeof drawPiece;
  readonly markedWeight: typeof markedWeight;
  readonly keptWeight: typeof keptWeight;
  readonly slope: typeof slope;
  readonly philoxBlock: typeof philoxBlock;
}

/**
 * Draws for the 8 weights that a lane has of a piece; `markedWeight` reads the four words.
 *
 * Where rows are keys, the queries of a lane are of two blocks, of which the lane of the next key needs the other halves: each draws
 * one of them, and they exchange what the other needs.
 * @param head of all batches
 * @param row of the piece, and `column` likewise
 * @param transposed whether rows are keys
 */
function drawPiece(
  counter: Memory,
  head: number,
  row: number,
  column: number,
  transposed: boolean,
  context: DropContext,
): number {
  const { idiv, lane, laneId, philoxBlock, select, shuffleXor, u32, vec4, work } = context;
  const { at, beside, down, key0, key1 } = work.drop;
  const isOdd = idiv(laneId, 4) % 2;
  const query = transposed ? column : row;
  const key = transposed ? row : column;
  const within = transposed ? 4 * (2 * (laneId % 4) + isOdd) + idiv(laneId, 8) : laneId;
  const block = u32(((head * down + idiv(query, 16)) * beside + idiv(key, 16)) * 32 + within);
  const first = counter[at] + block;
  const words = philoxBlock(
    first,
    select(first < block, counter[at + 1] + 1, counter[at + 1]),
    u32(0),
    u32(key0),
    u32(key1),
    context,
  );
  if (!transposed) return words;
  const near = select(isOdd === 1, lane(words, 2), lane(words, 0));
  const far = select(isOdd === 1, lane(words, 3), lane(words, 1));
  const otherNear = shuffleXor(select(isOdd === 1, lane(words, 0), lane(words, 2)), 4);
  const otherFar = shuffleXor(select(isOdd === 1, lane(words, 1), lane(words, 3)), 4);
  return vec4(
    select(isOdd === 1, otherNear, near),
    select(isOdd === 1, otherFar, far),
    select(isOdd === 1, near, otherNear),
    select(isOdd === 1, far, otherFar),
  );
}

/**
 * A weight, negative if it is dropped; `keptWeight` and `slope` read it.
 * @param words of the piece, by `drawPiece`
 * @param i of the 8 weights that a lane has of it, those of the first 8 columns before the others
 */
function markedWeight(
  weight: number,
  words: number,
  i: number,
  transposed: boolean,
  context: DropContext,
): number {
  const { idiv, lane, select, u32, work } = context;
  // A word is of one query and of keys 8 apart.
  const word = lane(words, 2 * (i % 2) + (transposed ? idiv(i, 4) : idiv(i, 2) % 2));
  const bits = word << u32(16 - 16 * (transposed ? idiv(i, 2) % 2 : idiv(i, 4)));
  return select(bits >= u32(work.drop.limit), weight, -weight);
}

/** What is left of a marked weight, but for the factor. */
const keptWeight = (weight: number, { work }: DropContext): number =>
  work.drops ? Math.max(weight, 0) : weight;

/**
 * The gradient of a score, but for the factor.
 * @param weight marked
 * @param toWeight the gradient of what is left of the weight
 * @param mean of its row, times what is left of the weights
 */
function slope(weight: number, toWeight: number, mean: number, context: DropContext): number {
  const { fma, keptWeight, work } = context;
  if (work.drops) return fma(keptWeight(weight, context), toWeight, -(Math.abs(weight) * mean));
  return weight * (toWeight - mean);
}

export const DROP = { drawPiece, markedWeight, keptWeight, slope, philoxBlock };
