/**
 * What the kernels of attention by warpgroups have in common: sources for the copy engine, products of 64 rows with a tile
 * along them and down its columns, and the rows that a block takes.
 */
import { type BufferSchema, tensorMap } from '../../kernel/ir/types.js';
import { asCast, type Cast, type Memory } from '../../kernel/language/language.js';
import { DROP, type DropContext, type DropSources, type DropWork, dropWork } from './dropout.js';
import type { AttentionProblem, RowsLayout } from './problem.js';

/** How the work is cut. */
export interface GroupTile {
  /** Warpgroups that multiply, of 64 rows each. */
  readonly groups: 2 | 3;
  /** Rows of a tile that the block's rows meet, one tile after the other. */
  readonly across: number;
  readonly stages: number;
  /** For fewer registers the second product with a tile's rows begins when the first is done. Default: beside it. */
  readonly inTurn?: true;
}

/** Of a warpgroup: rows that it multiplies, and threads. */
export const ROWS = 64;
export const THREADS = 128;

/** Registers of a thread that copies, and of one that multiplies, by the number of warpgroups that do. */
export const REGISTERS = { 2: { producer: 40, consumer: 232 }, 3: { producer: 32, consumer: 160 } } as const;

/** The same for tiles that are multiplied so, by two warpgroups. */
export const IN_TURN = { producer: 24, consumer: 240 } as const;

/** Bytes of keys and values of heads that are worked on side by side: they stay in the cache that all multiprocessors share. */
const CACHED = 32 * 2 ** 20;

/** Elements of a row of a tile: panels of 128 bytes, or of what divides a head's features. */
export const panelOf = (width: number): number => (width % 64 === 0 ? 64 : width % 32 === 0 ? 32 : 16);

/** 0 where all batches, or heads, are the same, else 1. */
interface Repeats {
  readonly batch: 0 | 1;
  readonly head: 0 | 1;
}

/** A source for the copy engine: what is repeated has one index. */
export interface MappedRows extends Repeats {
  readonly schema: BufferSchema;
}

/** Whether the copy engine takes rows that lie so. */
export const suitsCopies = ({ offset, batch, head, row, column }: RowsLayout): boolean =>
  column === 1 && row > 0 && [offset, batch, head, row].every((n) => n >= 0 && n % 8 === 0);

/** @param sizes batches, heads and rows */
export function mappedRows(
  x: RowsLayout,
  p: AttentionProblem,
  [batches, heads, rows]: readonly [number, number, number],
  along: number,
): MappedRows {
  const batch = x.batch > 0 ? 1 : 0;
  const head = x.head > 0 ? 1 : 0;
  const panel = panelOf(p.width);
  const schema = tensorMap(p.dtype, {
    sizes: [batch ? batches : 1, head ? heads : 1, rows, p.width],
    strides: [x.batch || x.row, x.head || x.row, x.row, 1],
    box: [1, 1, along, panel],
    offset: x.offset,
  });
  return { schema, batch, head };
}

/** All that the device functions have to know when the kernel is compiled. */
export interface GroupWork {
  readonly groups: number;
  readonly across: number;
  readonly stages: number;
  /** Of a block. */
  readonly rows: number;
  readonly width: number;
  readonly panel: number;
  readonly panels: number;
  readonly batch: number;
  readonly heads: number;
  readonly keyHeads: number;
  /** Heads of queries for one of keys. */
  readonly sharing: number;
  readonly queries: number;
  readonly keys: number;
  readonly isCausal: boolean;
  readonly scale: number;
  /** For powers of 2 instead of e. */
  readonly scale2: number;
  /** Whether weights are dropped. */
  readonly drops: boolean;
  readonly drop: DropWork;
  /** Blocks of rows of a head, and heads of all batches that are worked on side by side. */
  readonly down: number;
  readonly together: number;
  readonly q: Repeats;
  readonly k: Repeats;
  readonly v: Repeats;
  readonly g: Repeats;
  readonly cast: Cast<'f32'>;
}

/** The sources as the copy engine takes them. */
export type MappedSources = Readonly<Record<'q' | 'k' | 'v', MappedRows>> & { readonly g?: MappedRows };

/** @param length rows of a head that blocks take @param heads of all batches @param units blocks at once */
export function groupWork(
  p: AttentionProblem,
  tile: GroupTile,
  { q, k, v, g = q }: MappedSources,
  { length, heads, units }: { readonly length: number; readonly heads: number; readonly units: number },
): GroupWork {
  const { batch, keyHeads, keys, width } = p;
  const rows = ROWS * tile.groups;
  const panel = panelOf(width);
  const sharing = p.heads / keyHeads;
  // Rows of a quarter of the blocks' number of heads fill whole rounds, and four blocks at once read what a head has.
  const quarter = Math.max(1, Math.floor(units / 4));
  const cached = Math.floor((CACHED * heads) / (4 * keys * width * keyHeads * batch));
  const most = Math.max(cached, quarter);
  const repeats = ({ batch, head }: MappedRows): Repeats => ({ batch, head });
  return {
    ...tile,
    ...{ rows, width, panel, batch, sharing, keys, keyHeads },
    ...{ heads: p.heads, queries: p.queries, isCausal: p.isCausal },
    panels: width / panel,
    scale: p.scale,
    scale2: p.scale * Math.LOG2E,
    drops: p.dropout !== undefined,
    drop: dropWork(p.dropout, p.queries, keys),
    down: Math.ceil(length / rows),
    together: heads <= most ? heads : most - (most % quarter),
    ...{ q: repeats(q), k: repeats(k), v: repeats(v), g: repeats(g) },
    cast: asCast(p.dtype),
  };
}

/** What a device function takes from the context. */
export interface GroupContext extends DropContext {
  readonly work: GroupWork;
  readonly ROWS: number;
  readonly THREADS: number;
  readonly groupOf: typeof groupOf;
  readonly eachBlock: typeof eachBlock;
  readonly eachTurn: typeof eachTurn;
  readonly startRows: typeof startRows;
  readonly startColumns: typeof startColumns;
  readonly maskScores: typeof maskScores;
  readonly toOperand: typeof toOperand;
  readonly markDropped: typeof markDropped;
}

/** The warpgroup of a thread. By the shuffle the compiler knows that all lanes of a warp have the same. */
function groupOf({ idiv, shuffle, threadIdx, THREADS }: GroupContext): number {
  return shuffle(idiv(threadIdx.x, THREADS), 0);
}

/** The rows of queries that a block works on, and how many tiles of keys they meet. */
export interface QueriesPlace {
  readonly batch: number;
  readonly head: number;
  readonly first: number;
  readonly tiles: number;
}

/** Calls `body` for each block of rows that this one takes: of some heads side by side the last rows first. */
function eachBlock(body: (at: QueriesPlace) => void, context: GroupContext): void {
  const { eachTurn, idiv, work } = context;
  const { across, batch, down, heads, isCausal, keys, rows } = work;
  eachTurn(
    batch * heads,
    (index, turn) => {
      const first = (down - 1 - turn) * rows;
      const end = isCausal ? Math.min(keys, first + rows) : keys;
      body({ batch: idiv(index, heads), head: index % heads, first, tiles: idiv(end + across - 1, across) });
    },
    context,
  );
}

/**
 * Calls `body` with the heads and the blocks of rows that this block takes, the longest first. Every other round goes backwards:
 * who had the longest has the shortest then, and all end at about the same time.
 */
function eachTurn(
  heads: number,
  body: (index: number, turn: number) => void,
  { blockIdx, gridDim, idiv, work }: GroupContext,
): void {
  const { down, together } = work;
  for (let begin = 0; begin < heads * down; begin += gridDim.x) {
    const isForward = idiv(begin, gridDim.x) % 2 === 0;
    const number = begin + (isForward ? blockIdx.x : gridDim.x - 1 - blockIdx.x);
    if (number < heads * down) {
      const from = idiv(number, together * down) * together;
      const beside = Math.min(together, heads - from);
      const inside = number - from * down;
      body(from + (inside % beside), idiv(inside, beside));
    }
  }
}

/** −Infinity for keys that are too late, or beyond the end. @param row of the first of the thread's sums */
function maskScores(scores: Memory, row: number, column: number, context: GroupContext): void {
  const { idiv, work } = context;
  const { across, isCausal, keys } = work;
  for (let i = 0; i < idiv(across, 2); i++) {
    const key = column + 8 * idiv(i, 4) + (i % 2);
    const query = row + 8 * (idiv(i, 2) % 2);
    if (isCausal) {
      if (key > query || key >= keys) scores[i] = -Infinity;
    } else if (key >= keys) scores[i] = -Infinity;
  }
}

/** Starts the products of a warpgroup's rows with each row of a tile. */
function startRows(
  sums: Memory,
  own: Memory,
  tile: Memory,
  stage: number,
  group: number,
  context: GroupContext,
): void {
  const { commitWgmma, fenceWgmma, idiv, wgmma, work, ROWS } = context;
  const { panel, width } = work;
  fenceWgmma(sums);
  for (let k = 0; k < width; k += 16) {
    const p = idiv(k, panel);
    if (k === 0)
      wgmma(sums, own, p, group * ROWS, k % panel, tile, stage, p, 0, k % panel, false, false, true);
    else wgmma(sums, own, p, group * ROWS, k % panel, tile, stage, p, 0, k % panel);
  }
  commitWgmma();
}

/** Starts to add the products of rows in registers with the columns of a tile. */
function startColumns(sums: Memory, words: Memory, tile: Memory, stage: number, context: GroupContext): void {
  const { commitWgmma, fenceWgmma, idiv, wgmma, work } = context;
  fenceWgmma(sums);
  fenceWgmma(words);
  for (let k = 0; k < idiv(work.across, 16); k++)
    wgmma(sums, words, k, tile, stage, 0, 16 * k, 0, false, true);
  commitWgmma();
}

/**
 * Sums, rounded, as the left operand of a product along their columns.
 * @param marked whether they are weights that `markDropped` has met
 */
function toOperand(words: Memory, sums: Memory, marked: boolean, context: GroupContext): void {
  const { bitcast, idiv, keptWeight, u32, vec2, work } = context;
  const value = (i: number) => (marked ? keptWeight(sums[i], context) : sums[i]);
  for (let k = 0; k < idiv(work.across, 16); k++)
    for (let j = 0; j < 4; j++)
      words[k][j] = bitcast(u32, work.cast(vec2(value(8 * k + 2 * j), value(8 * k + 2 * j + 1))));
}

/**
 * Makes weights that are dropped negative, if some are to be dropped; see `markedWeight`.
 * @param head of all batches @param row of the warp's first, and `column` likewise
 */
function markDropped(
  weights: Memory,
  { counter }: DropSources,
  head: number,
  row: number,
  column: number,
  transposed: boolean,
  context: GroupContext,
): void {
  const { drawPiece, idiv, markedWeight, work } = context;
  if (work.drops)
    for (let j = 0; j < idiv(work.across, 16); j++) {
      const words = drawPiece(counter, head, row, column + 16 * j, transposed, context);
      for (let i = 0; i < 8; i++)
        weights[8 * j + i] = markedWeight(weights[8 * j + i], words, i, transposed, context);
    }
}

export const GROUP = {
  ...DROP,
  markDropped,
  groupOf,
  eachBlock,
  eachTurn,
  startRows,
  startColumns,
  maskScores,
  toOperand,
};
