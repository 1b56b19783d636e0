/**
 * Dropout of attention's weights. Whether a weight is kept depends on its place alone: on a word of the generator, of which each
 * query has as many as there are keys, rounded up to whole blocks. So every kernel draws the same again, tile by tile.
 */
import type { PhiloxKey } from '../../core/philox.js';
import { type Shape, sizeOf } from '../../core/shape.js';
import * as b from '../../graph/build.js';
import type { GraphNode } from '../../graph/node.js';
import type { Intrinsics, Memory } from '../../kernel/language/language.js';
import { philoxBlock } from '../philox.js';

/** Each weight becomes 0 with probability `p`, the others are divided by 1 − p. */
export interface AttentionDropout {
  readonly p: number;
  /** Of the generator, whose next block is a source of the op: i64 of shape (1). */
  readonly seed: PhiloxKey;
}

/** Words of a block of Philox. */
const WORDS = 4;

const blocksOf = (keys: number): number => Math.ceil(keys / WORDS);

/** Blocks that are drawn for weights (B, H, L, S). */
export const drawnBlocks = (weights: Shape): number =>
  sizeOf(weights.slice(0, -1)) * blocksOf(weights.at(-1)!);

/** Words below are those of weights that become 0. */
const limitOf = (p: number): number => Math.min(Math.round(p * 2 ** 32), 2 ** 32 - 1);

/** Of the weights that are kept. */
const factorOf = (p: number): number => (p === 1 ? 0 : 1 / (1 - p));

/** Weights (B, H, L, S), or their gradients. */
export function dropped(x: GraphNode, counter: GraphNode, { p, seed }: AttentionDropout): GraphNode {
  const rows = x.shape.slice(0, -1);
  const words = b.random([...rows, WORDS * blocksOf(x.shape.at(-1)!)], counter, seed);
  const own = b.slice(
    words,
    x.shape.map(() => 0),
    x.shape,
  );
  const isKept = b.map('ge', own, b.like(own, limitOf(p)));
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
  readonly limit: number;
  readonly factor: number;
  readonly key0: number;
  readonly key1: number;
  /** Of a query. */
  readonly blocks: number;
}

export function dropWork(problem: DropoutProblem | undefined, keys: number): DropWork {
  const { p, seed, offset } = problem ?? { p: 0, seed: [0, 0], offset: 0 };
  const [key0, key1] = seed as PhiloxKey;
  return { at: 2 * offset, limit: limitOf(p), factor: factorOf(p), key0, key1, blocks: blocksOf(keys) };
}

/** The words of the counter, where there is dropout. */
export interface DropSources {
  readonly counter: Memory;
}

/** What a device function takes from the context. */
export interface DropContext extends Intrinsics {
  readonly work: { readonly drops: boolean; readonly drop: DropWork };
  readonly drawKept: typeof drawKept;
  readonly drawPieces: typeof drawPieces;
  readonly dropFactor: typeof dropFactor;
  readonly philoxBlock: typeof philoxBlock;
}

/**
 * A bit for each of the four weights that a lane has of a piece of 16 rows and 8 columns, set where it is kept; `dropFactor` reads
 * them. Lanes that share blocks draw one each, and show each other what they drew.
 * @param counter the number of the generator's next block, in two words
 * @param before rows of scores before those of the head
 * @param row of the piece, a multiple of 16, and `column` likewise, of 8
 * @param transposed whether rows are keys
 */
function drawKept(
  counter: Memory,
  before: number,
  row: number,
  column: number,
  transposed: boolean,
  context: DropContext,
): number {
  const { idiv, lane, laneId, philoxBlock, select, shuffleXor, u32, work } = context;
  const { at, blocks, key0, key1, limit } = work.drop;
  // Which of the blocks that it shares with others a lane draws: those of 2 queries, or of 2 queries and twice 4 keys.
  const own = transposed ? idiv(laneId, 4) % 4 : laneId % 2;
  const query = transposed ? column + 2 * (laneId % 4) + (own % 2) : row + idiv(laneId, 4) + 8 * own;
  const key = transposed ? row + 8 * idiv(own, 2) + 4 * idiv(laneId, 16) : column + 4 * (idiv(laneId, 2) % 2);
  const block = u32((before + query) * blocks + idiv(key, 4));
  const first = counter[at] + block;
  const words = philoxBlock(
    first,
    select(first < block, counter[at + 1] + 1, counter[at + 1]),
    u32(0),
    u32(key0),
    u32(key1),
    context,
  );
  let bits = 0;
  for (let i = 0; i < 4; i++) bits = bits | select(lane(words, i) >= u32(limit), 1 << (4 * own + i), 0);
  if (transposed) {
    bits = bits | shuffleXor(bits, 4);
    bits = bits | shuffleXor(bits, 8);
    return bits >> own;
  }
  return (bits | shuffleXor(bits, 1)) >> (2 * own);
}

/**
 * Draws which weights of 16 rows are kept, if some are to be dropped: bits for each piece of so many columns.
 * @param row of the first piece, and `column` likewise; see `drawKept`
 */
function drawPieces(
  bits: Memory,
  columns: number,
  given: DropSources,
  before: number,
  row: number,
  column: number,
  transposed: boolean,
  context: DropContext,
): void {
  const { drawKept, idiv, work } = context;
  if (work.drops)
    for (let j = 0; j < idiv(columns, 8); j++)
      bits[j] = drawKept(given.counter, before, row, column + 8 * j, transposed, context);
}

/** What weight `i` of the four is multiplied by, from the bits of `drawKept`. */
function dropFactor(bits: number, i: number, transposed: boolean, context: DropContext): number {
  const { idiv, select, work } = context;
  const at = transposed ? 4 * i : 4 * idiv(i, 2) + (i % 2);
  return select(((bits >> at) & 1) === 1, work.drop.factor, 0);
}

export const DROP = { drawKept, drawPieces, dropFactor, philoxBlock };
