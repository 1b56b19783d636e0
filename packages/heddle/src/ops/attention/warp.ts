/**
 * What a warp does in the kernels of attention for tensor cores by mma: copies of tiles, products of 16 rows with a tile,
 * and scores. Device functions.
 *
 * Sums lie as mma leaves them: of 16 rows and pieces of 8 columns, lane (g, t) has (g, 2t), (g, 2t + 1), (g + 8, 2t) and
 * (g + 8, 2t + 1). Two such pieces, rounded, are the left operand of a product along their 16 columns, without a move
 * between lanes: weights never leave the registers.
 */
import { bool, type DType, u32 } from '../../core/dtype.js';
import { type BufferSchema, buffer } from '../../kernel/ir/types.js';
import { asCast, type Cast, type Memory } from '../../kernel/language/language.js';
import { DROP, type DropContext, type DropSources, type DropWork, dropWork } from './dropout.js';
import type { AttentionProblem, GradientProblem, MaskLayout, RowsLayout } from './problem.js';

/** Sizes of the tiles of a kernel. */
export interface WarpTile {
  /** Warps of a block, of 16 rows each. */
  readonly warps: number;
  /** Rows of a tile that the block's rows meet, one tile after the other. */
  readonly across: number;
  /** Tiles that there is room for. */
  readonly stages: number;
}

/** All that the device functions have to know when the kernel is compiled. Places of operands are in elements of tiles. */
export interface WarpWork {
  readonly dtype: DType;
  readonly cast: Cast<'f32'>;
  readonly isBf16: boolean;
  /** What tiles hold: words of two floats, copied 16 bytes at a time, or the floats, one by one. */
  readonly element: DType;
  readonly words: boolean;
  /** Floats of an element. */
  readonly per: number;
  readonly batch: number;
  readonly heads: number;
  /** Heads of queries for one of keys. */
  readonly sharing: number;
  readonly keyHeads: number;
  readonly queries: number;
  readonly keys: number;
  readonly width: number;
  /** Elements from a row of a tile to the next: 16 bytes more than the row, so that 8 rows lie in different banks. */
  readonly pitch: number;
  readonly isCausal: boolean;
  readonly scale: number;
  /** For powers of 2 instead of e. */
  readonly scale2: number;
  readonly q: RowsLayout;
  readonly k: RowsLayout;
  readonly v: RowsLayout;
  readonly g: RowsLayout;
  readonly mask: MaskLayout;
  readonly hasMask: boolean;
  /** The mask's floats are added to scores, to be multiplied by this. */
  readonly isAdded: boolean;
  readonly log2e: number;
  /** Whether weights are dropped. */
  readonly drops: boolean;
  readonly drop: DropWork;
  readonly tile: WarpTile;
  /** Of a block. */
  readonly rows: number;
  readonly threads: number;
}

/** What a device function takes from the context. */
export interface WarpContext extends DropContext {
  readonly work: WarpWork;
  readonly copyTile: typeof copyTile;
  readonly multiplyRows: typeof multiplyRows;
  readonly multiplyColumns: typeof multiplyColumns;
  readonly multiply: typeof multiply;
  readonly readRows: typeof readRows;
  readonly toOperand: typeof toOperand;
  readonly toScores: typeof toScores;
  readonly storeRow: typeof storeRow;
  readonly markDropped: typeof markDropped;
  readonly clear: typeof clear;
}

/** Floats of 16 bytes. */
const PIECE = 8;

const isWords = ({ offset, batch, head, row, column }: RowsLayout): boolean =>
  column === 1 && [offset, batch, head, row].every((n) => n % PIECE === 0);

const inElements = ({ offset, batch, head, row, column }: RowsLayout, per: number): RowsLayout => ({
  offset: offset / per,
  batch: batch / per,
  head: head / per,
  row: row / per,
  column,
});

export function warpWork(p: AttentionProblem & Partial<GradientProblem>, tile: WarpTile): WarpWork {
  const operands = [p.q, p.k, p.v, ...(p.g ? [p.g] : [])];
  const words = operands.every(isWords);
  const per = words ? 2 : 1;
  const [q, k, v, g] = operands.map((x) => inElements(x, per)) as [
    RowsLayout,
    RowsLayout,
    RowsLayout,
    RowsLayout?,
  ];
  return {
    dtype: p.dtype,
    cast: asCast(p.dtype),
    isBf16: p.dtype.name === 'bf16',
    element: words ? u32 : p.dtype,
    ...{ words, per, q, k, v, g: g ?? q, tile },
    ...{ batch: p.batch, heads: p.heads, keyHeads: p.keyHeads, sharing: p.heads / p.keyHeads },
    ...{ queries: p.queries, keys: p.keys, width: p.width, isCausal: p.isCausal, scale: p.scale },
    pitch: (p.width + PIECE) / per,
    scale2: p.scale * Math.LOG2E,
    log2e: Math.LOG2E,
    mask: p.mask ?? { ...q, dtype: bool },
    hasMask: p.mask !== undefined,
    isAdded: p.mask !== undefined && p.mask.dtype !== bool,
    drops: p.dropout !== undefined,
    drop: dropWork(p.dropout, p.queries, p.keys),
    rows: 16 * tile.warps,
    threads: 32 * tile.warps,
  };
}

/** The parameters of tensors in elements of tiles, of the mask, and of the words of dropout's counter. */
export const sources = (
  { drops, element, hasMask, mask }: WarpWork,
  ...names: readonly string[]
): Record<string, BufferSchema> => ({
  ...Object.fromEntries(names.map((name) => [name, buffer(element)])),
  ...(hasMask && { mask: buffer(mask.dtype) }),
  ...(drops && { counter: buffer(u32) }),
});

/** Copies rows of an operand from row `first` on to a tile of `rows`; zeros where they are `end` or beyond. */
function copyTile(
  tile: Memory,
  stage: number,
  rows: number,
  x: Memory,
  at: number,
  operand: RowsLayout,
  first: number,
  end: number,
  context: WarpContext,
): void {
  const { copyAsync4, idiv, threadIdx, work } = context;
  const { cast, threads, width, words } = work;
  if (words) {
    const pieces = idiv(width, 8);
    for (let n = threadIdx.x; n < rows * pieces; n += threads) {
      const row = idiv(n, pieces);
      const piece = 4 * (n % pieces);
      copyAsync4(tile, stage, row, piece, x, at + (first + row) * operand.row + piece, first + row < end);
    }
  } else {
    for (let n = threadIdx.x; n < rows * width; n += threads) {
      const row = idiv(n, width);
      const column = n % width;
      if (first + row < end)
        tile[stage][row][column] = x[at + (first + row) * operand.row + column * operand.column];
      else tile[stage][row][column] = cast(0);
    }
  }
}

/** a · b + c of 16 × 8 × 16. */
function multiply(a: number, b: number, c: number, { mmaBf16, mmaF16, work }: WarpContext): number {
  return work.isBf16 ? mmaBf16(a, b, c) : mmaF16(a, b, c);
}

/** Begins sums of pieces of 8 columns. */
function clear(sums: Memory, pieces: number, { splat4 }: WarpContext): void {
  for (let j = 0; j < pieces; j++) sums[j] = splat4(0);
}

/** Reads 16 rows of a tile, from `first` on, as the left operand of products along them. */
function readRows(as: Memory, tile: Memory, stage: number, first: number, context: WarpContext): void {
  const { idiv, laneId, loadMatrix4, work } = context;
  const row = first + (laneId % 16);
  const column = 8 * idiv(laneId, 16);
  for (let k = 0; k < idiv(work.width, 16); k++)
    as[k] = loadMatrix4(tile, stage, row, idiv(16 * k + column, work.per));
}

/** Adds the products of 16 rows with each of so many rows of a tile, along them. */
function multiplyRows(
  sums: Memory,
  as: Memory,
  tile: Memory,
  stage: number,
  count: number,
  context: WarpContext,
): void {
  const { idiv, lane, laneId, loadMatrix4, multiply, vec2, work } = context;
  const row = (laneId % 8) + 8 * idiv(laneId, 16);
  const column = 8 * (idiv(laneId, 8) % 2);
  for (let k = 0; k < idiv(work.width, 16); k++) {
    for (let j = 0; j < idiv(count, 16); j++) {
      const v = loadMatrix4(tile, stage, 16 * j + row, idiv(16 * k + column, work.per));
      sums[2 * j] = multiply(as[k], vec2(lane(v, 0), lane(v, 1)), sums[2 * j], context);
      sums[2 * j + 1] = multiply(as[k], vec2(lane(v, 2), lane(v, 3)), sums[2 * j + 1], context);
    }
  }
}

/** Adds the products of 16 rows with the columns of a tile of so many rows. */
function multiplyColumns(
  sums: Memory,
  as: Memory,
  tile: Memory,
  stage: number,
  count: number,
  context: WarpContext,
): void {
  const { idiv, lane, laneId, loadMatrix4Transposed, multiply, vec2, work } = context;
  const row = laneId % 16;
  const column = 8 * idiv(laneId, 16);
  for (let k = 0; k < idiv(count, 16); k++) {
    for (let j = 0; j < idiv(work.width, 16); j++) {
      const v = loadMatrix4Transposed(tile, stage, 16 * k + row, idiv(16 * j + column, work.per));
      sums[2 * j] = multiply(as[k], vec2(lane(v, 0), lane(v, 1)), sums[2 * j], context);
      sums[2 * j + 1] = multiply(as[k], vec2(lane(v, 2), lane(v, 3)), sums[2 * j + 1], context);
    }
  }
}

/**
 * Sums of so many columns, rounded, as a left operand along these.
 * @param marked whether they are weights that `markDropped` has met
 */
function toOperand(as: Memory, sums: Memory, count: number, marked: boolean, context: WarpContext): void {
  const { bitcast, idiv, keptWeight, lane, u32, vec2, vec4, work } = context;
  const value = (v: number, i: number) => (marked ? keptWeight(lane(v, i), context) : lane(v, i));
  const pair = (v: number, i: number) => bitcast(u32, work.cast(vec2(value(v, i), value(v, i + 1))));
  for (let k = 0; k < idiv(count, 16); k++) {
    const low = sums[2 * k];
    const high = sums[2 * k + 1];
    as[k] = vec4(pair(low, 0), pair(low, 2), pair(high, 0), pair(high, 2));
  }
}

/**
 * Scores to base 2 from products: scaled, the mask's numbers added, −Infinity where a query may not attend.
 * @param row of the first of the lane's sums, and `column` likewise: of the 16 rows and of the tile
 * @param isEdge whether some of the tile's keys are too late or beyond the end
 * @param transposed whether rows are keys
 */
function toScores(
  sums: Memory,
  count: number,
  row: number,
  column: number,
  maskAt: number,
  isEdge: boolean,
  transposed: boolean,
  mask: Memory,
  context: WarpContext,
): void {
  const { f32, idiv, lane, select, vec4, work } = context;
  const { hasMask, isAdded, isCausal, keys, log2e, queries, scale2 } = work;
  const open = (score: number, query: number, key: number) => {
    const isIn = transposed ? query < queries : key < keys;
    return select(isCausal ? isIn && key <= query : isIn, score, -Infinity);
  };
  const masked = (score: number, query: number, key: number) => {
    let s = score;
    if (query < queries && key < keys) {
      const at = maskAt + query * work.mask.row + key * work.mask.column;
      if (isAdded) s = s + f32(mask[at]) * log2e;
      else if (!mask[at]) s = -Infinity;
    }
    return s;
  };
  for (let j = 0; j < idiv(count, 8); j++) {
    const v = sums[j];
    const score = (i: number) => {
      const own = row + 8 * idiv(i, 2);
      const other = column + 8 * j + (i % 2);
      const query = transposed ? other : own;
      const key = transposed ? own : other;
      let s = lane(v, i) * scale2;
      if (hasMask) s = masked(s, query, key);
      if (isEdge) s = open(s, query, key);
      return s;
    };
    sums[j] = vec4(score(0), score(1), score(2), score(3));
  }
}

/** Stores one of a lane's two rows, each of its sums times `factor`, from element `at` on. */
function storeRow(
  to: Memory,
  at: number,
  sums: Memory,
  half: number,
  factor: number,
  context: WarpContext,
): void {
  const { idiv, lane, laneId, store2, vec2, work } = context;
  for (let j = 0; j < idiv(work.width, 8); j++) {
    const v = sums[j];
    const pair = vec2(lane(v, 2 * half) * factor, lane(v, 2 * half + 1) * factor);
    store2(to, at + 2 * (laneId % 4) + 8 * j, work.cast(pair));
  }
}

/**
 * Makes weights that are dropped negative, if some are to be dropped; see `markedWeight`.
 * @param head of all batches @param row of the warp's first, and `column` likewise
 */
function markDropped(
  weights: Memory,
  columns: number,
  { counter }: DropSources,
  head: number,
  row: number,
  column: number,
  transposed: boolean,
  context: WarpContext,
): void {
  const { drawPiece, idiv, lane, markedWeight, vec4, work } = context;
  if (work.drops)
    for (let k = 0; k < idiv(columns, 16); k++) {
      const words = drawPiece(counter, head, row, column + 16 * k, transposed, context);
      const marked = (v: number, i: number) => markedWeight(lane(v, i % 4), words, i, transposed, context);
      const low = weights[2 * k];
      const high = weights[2 * k + 1];
      weights[2 * k] = vec4(marked(low, 0), marked(low, 1), marked(low, 2), marked(low, 3));
      weights[2 * k + 1] = vec4(marked(high, 4), marked(high, 5), marked(high, 6), marked(high, 7));
    }
}

export const WARP = {
  ...DROP,
  ...{ storeRow, markDropped },
  copyTile,
  multiply,
  multiplyRows,
  multiplyColumns,
  readRows,
  toOperand,
  toScores,
  clear,
};
