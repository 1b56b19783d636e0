/**
 * Where the sums of warpgroups go: they are finished by the epilogue, and stored by way of tiles in shared memory, from which
 * the copy engine takes them. What the epilogue takes beside them may come the same way.
 */
import { type DType, f32, i32 } from '../../core/dtype.js';
import type { ColumnSums } from '../../graph/fused-op.js';
import { type IrFunction, irFunction, isSafeCall } from '../../kernel/ir/ir-function.js';
import { type BufferSchema, type Lanes, value } from '../../kernel/ir/types.js';
import type { Cast, Intrinsics, Memory } from '../../kernel/language/language.js';
import type { Views } from './warpgroup-layout.js';

/** All that the device functions of a result have to know: what they find as `work.c`. */
export interface ResultPlaces {
  /** Whether the copy engine stores. */
  readonly byEngine: boolean;
}

/** Where the sums go: device functions. */
export interface WarpgroupResult {
  /** Of C: a tensor map for the copy engine, a buffer if threads store. @param box rows and columns of a tile */
  schema(dtype: DType, box: readonly [number, number]): BufferSchema;
  readonly places: ResultPlaces;
  /**
   * Passes the finished value of neighbours in a row to `keep`, if they are in C: an epilogue may store more than that.
   * @param first what it takes beside them, if anything @param second and if there are two matrices
   * @param ofBias of the bias, if it is read before
   */
  finishAt(
    v: number,
    first: number,
    second: number,
    ofBias: number,
    batch: number,
    row: number,
    column: number,
    keep: (v: number) => void,
    context: ResultContext,
  ): void;
  /** Stores a tile of `cs` whose first element is this one: by one thread, or without the copy engine by all of a group. */
  storeTile(
    c: Memory,
    cs: Memory,
    tile: SumsTile,
    at: WarpgroupPlace,
    row: number,
    column: number,
    context: ResultContext,
  ): void;
  /** Starts to copy a tile that lies like that of C, by one thread: where absent, an epilogue reads memory itself. */
  loadTile?(
    to: Memory,
    tile: number,
    held: number,
    from: Memory,
    at: MatrixPlace,
    full: Memory,
    barrier: number,
    context: ResultContext,
  ): void;
}

/** An element of C. */
export interface MatrixPlace {
  readonly batch: number;
  readonly row: number;
  readonly column: number;
}

/** The part of the product that a block works on: where its tile of C begins, and its stages along K. */
export interface WarpgroupPlace extends MatrixPlace {
  readonly split: number;
  readonly from: number;
  readonly end: number;
}

/** One of the tiles that a warpgroup's sums go by way of, what is beside it, and the thread's number in the warpgroup. */
export interface SumsTile {
  readonly group: number;
  readonly held: number;
  readonly brought: number;
  readonly thread: number;
}

/** All that the device functions of a result have to know when the kernel is compiled. */
export interface ResultWork {
  readonly sizes: { readonly M: number; readonly N: number; readonly batches: number };
  /** Warpgroups that multiply, and blocks of 64 rows of each. */
  readonly groups: number;
  readonly each: number;
  /** Warpgroups that share a tile: all, or where they take them by turns one. */
  readonly together: number;
  /** The transpose of C is computed. Rows and columns below are those of what is computed, unless they say of C. */
  readonly exchanged: boolean;
  /** Of a computed tile, and of all of them. */
  readonly rows: number;
  readonly columns: number;
  /** Columns of a tile that are computed (`usedColumns`), and of these those of each view of B. */
  readonly used: number;
  readonly viewColumns: number;
  readonly views: Views;
  readonly down: number;
  readonly across: number;
  /** Whether no tile goes beyond C. */
  readonly isWhole: boolean;
  /** Whether the epilogue may be computed for what lies beyond C: that takes no branches, and their instructions overlap. */
  readonly isFree: boolean;
  /**
   * Of the tiles that C goes by way of: columns, bytes of a row, and how many make a block of 64 rows of a computed tile. If the
   * transpose is computed, they are several boxes below each other, which lie beside each other in C.
   */
  readonly width: number;
  readonly pitch: number;
  readonly panels: number;
  readonly boxes: number;
  /** Whether the tiles that C goes by way of share their code, in a loop: long code takes the compiler long. */
  readonly isLoop: boolean;
  readonly c: ResultPlaces;
  readonly inParts: boolean;
  /** Whether the two rows of sums that a thread has of each wgmma are neighbours. */
  readonly paired: boolean;
  /** Neighbours in a row of C that a thread has: two, as wgmma gives its sums, or four, if columns of B come as quads. */
  readonly lanes: Lanes;
  /** How many matrices the copy engine brings that the epilogue takes beside the sums, or that are summed, and a warpgroup's tiles of each. */
  readonly beside: number;
  readonly brought: number;
  /** Whether the elements of a bias are read before a tile is finished: where no tile goes beyond the matrix. */
  readonly biased: boolean;
  /** The numbers of the sums of columns, level by level: none if none are wanted. */
  readonly levels: ColumnSums['levels'];
  /** How many there are. */
  readonly columnSums: number;
}

export interface ResultContext extends Intrinsics {
  readonly work: ResultWork;
  /** Of sums to what the epilogue takes, and to what is stored. */
  readonly cast: Cast<'f32'>;
  readonly stored: Cast<'f32'>;
  /** `finish(value, batch, row, column, ofBias, first, second)` */
  readonly finish: IrFunction;
  readonly bias: IrFunction;
  readonly out: DType;
  /** Of the sums. */
  readonly summed: DType;
  readonly ROWS: number;
  readonly THREADS: number;
  readonly storeSums: typeof storeSums;
  readonly rowInTile: typeof rowInTile;
  readonly lanesInTile: typeof lanesInTile;
  readonly sumsOf: typeof sumsOf;
  readonly pickSums: typeof pickSums;
  readonly tilePlace: typeof tilePlace;
  readonly inBoxes: typeof inBoxes;
  readonly finished: typeof finished;
  readonly finishAt: WarpgroupResult['finishAt'];
  readonly storeTile: WarpgroupResult['storeTile'];
  readonly loadTile?: WarpgroupResult['loadTile'];
  readonly sumColumns: typeof sumColumns;
  readonly addTerms: typeof addTerms;
  readonly term: IrFunction;
  readonly storeColumnSums: IrFunction;
  readonly WARPS: number;
}

/** The row of a thread's sums among 64, of a computed tile. @param half of two rows that it has */
function rowInTile(thread: number, half: number, { idiv, work }: ResultContext): number {
  const warp = idiv(thread, 32);
  const g = idiv(thread % 32, 4);
  return work.paired
    ? 32 * idiv(warp, 2) + 8 * (warp % 2) + 16 * (g % 2) + 2 * idiv(g, 2) + half
    : 16 * warp + g + 8 * half;
}

/** Neighbours in a row of C among a thread's sums, in the tile that they go by way of. */
interface LanesPlace {
  readonly row: number;
  readonly column: number;
}

/** @param i of the blocks of 8 computed columns, or of quads 16 @param half of two rows that a thread has there */
function lanesInTile(thread: number, i: number, half: number, context: ResultContext): LanesPlace {
  const { rowInTile, work } = context;
  const across = 4 * work.lanes * i + work.lanes * (thread % 4);
  return work.exchanged
    ? { row: across + half, column: rowInTile(thread, 0, context) }
    : { row: rowInTile(thread, half, context), column: across };
}

/** Where such a tile begins in C. @param e of a warpgroup's blocks of 64 computed rows */
function tilePlace(
  at: WarpgroupPlace,
  sharer: number,
  e: number,
  panel: number,
  { work, ROWS }: ResultContext,
): MatrixPlace {
  const { each, exchanged, width } = work;
  const down = (sharer * each + e) * ROWS;
  const across = panel * width;
  const { batch, row, column } = at;
  // Of the transpose, a tile's first row is the first column in C.
  return exchanged
    ? { batch, row: column + across, column: row + down }
    : { batch, row: row + down, column: column + across };
}

/** Where boxes of a tile follow each other: of such neighbours, their row and column in shared memory. */
function inBoxes({ row, column }: LanesPlace, { idiv, work, ROWS }: ResultContext): LanesPlace {
  const { boxes, width } = work;
  return boxes === 1
    ? { row, column }
    : { row: row + idiv(column, width) * idiv(ROWS, boxes), column: column % width };
}

/** A thread's sums that are neighbours in C. @param i, half as of `lanesInTile` @param panel of the computed tile */
function sumsOf(
  sums: Memory,
  e: number,
  panel: number,
  i: number,
  half: number,
  { idiv, vec2, vec4, work }: ResultContext,
): number {
  const { exchanged, lanes, viewColumns, views, width } = work;
  const first = 2 * lanes * (panel * idiv(width, 4 * lanes) + i);
  const n = e * views.count + idiv(first, idiv(viewColumns, 2));
  const of = first % idiv(viewColumns, 2);
  if (exchanged) return vec2(sums[n][of + half], sums[n][of + half + 2]);
  const at = of + 2 * half;
  return lanes === 4
    ? vec4(sums[n][at], sums[n][at + 1], sums[n][at + 4], sums[n][at + 5])
    : vec2(sums[n][at], sums[n][at + 1]);
}

/**
 * Copies the sums of one tile of `cs`, whose number is known when the kernel runs: registers cannot be indexed, so each tile has a branch.
 * @param candidate the tile is this one or a later one: a constant
 */
function pickSums(
  picked: Memory,
  sums: Memory,
  tile: number,
  candidate: number,
  context: ResultContext,
): void {
  const { idiv, pickSums, sumsOf, work } = context;
  const { each, lanes, panels, width } = work;
  if (candidate + 1 === each * panels || tile === candidate) {
    for (let i = 0; i < idiv(width, 4 * lanes); i++)
      for (let half = 0; half < 2; half++)
        picked[2 * i + half] = sumsOf(sums, idiv(candidate, panels), candidate % panels, i, half, context);
  } else pickSums(picked, sums, tile, candidate + 1, context);
}

/** The epilogue's value for neighbours in a row. */
function finished(
  v: number,
  first: number,
  second: number,
  ofBias: number,
  batch: number,
  row: number,
  column: number,
  { cast, finish }: ResultContext,
): number {
  return finish(cast(v), batch, row, column, ofBias, first, second);
}

/** What follows at a store: `KernelIo.finish`, and where it takes a bias also `KernelIo.bias` with the function that takes its elements. */
export interface TileEpilogue {
  readonly finish: IrFunction;
  readonly bias?: { readonly at: IrFunction; readonly finish: IrFunction } | undefined;
}

/**
 * Whether an epilogue reads no memory but where columns say, and stores none. @param taken what it takes
 * @param out of what is brought @param columns whether all columns of tiles are in C
 */
export const isFreeEpilogue = (
  epilogue: TileEpilogue,
  of: Pick<ResultWork, 'beside' | 'biased' | 'lanes'>,
  { taken, out, columns }: { readonly taken: DType; readonly out: DType; readonly columns: boolean },
): boolean =>
  isSafeCall(
    epilogueOf(epilogue, of).finish,
    [
      value(taken, of.lanes),
      ...[1, 2, 3].map(() => value(i32)),
      ...[f32, out, out].map((t) => value(t, of.lanes)),
    ],
    columns ? [1, 3] : [1],
  );

/** What `storeSums` and `finished` call, the epilogue with those of the arguments that it takes. */
export function epilogueOf(
  { finish, bias }: TileEpilogue,
  { beside, biased }: Pick<ResultWork, 'beside' | 'biased'>,
): Pick<ResultContext, 'finish' | 'bias'> {
  const { build } = biased ? bias!.finish : finish;
  const taken = irFunction(([value, batch, row, column, ofBias, ...brought], ...into) =>
    build(
      [value!, batch!, row!, column!, ...(biased ? [ofBias!] : []), ...brought.slice(0, beside)],
      ...into,
    ),
  );
  return { finish: taken, bias: bias?.at ?? finish };
}

/**
 * What the epilogue takes beside the sums: for each warpgroup a ring of tiles of each matrix, with the mbarriers that say which
 * are full, and which are empty again.
 */
export interface Beside {
  readonly tiles: Memory;
  readonly full: Memory;
  readonly empty: Memory;
}

/** Starts to copy what lies beside a tile of C, as soon as there is room. @param taken tiles of C before this one */
function loadBeside(
  first: Memory,
  second: Memory,
  { tiles, full, empty }: Beside,
  taken: number,
  at: WarpgroupPlace,
  context: ResultContext,
): void {
  const { arriveExpect, idiv, loadTile, tilePlace, waitBarrier, work, ROWS } = context;
  const { each, groups, panels, together } = work;
  // Where warpgroups take tiles by turns, of the one whose it is.
  const turns = idiv(groups, together);
  for (let n = 0; n < each * panels; n++) {
    const number = idiv(taken, turns) * each * panels + n;
    const held = number % work.brought;
    for (let sharer = 0; sharer < together; sharer++) {
      const group = sharer + (taken % turns);
      const place = tilePlace(at, sharer, idiv(n, panels), n % panels, context);
      const barrier = work.brought * group + held;
      waitBarrier(empty, barrier, idiv(number, work.brought) + 1);
      arriveExpect(full, barrier, work.beside * ROWS * work.pitch);
      loadTile!(tiles, group, held, first, place, full, barrier, context);
      if (work.beside > 1) loadTile!(tiles, groups + group, held, second, place, full, barrier, context);
    }
  }
}

/**
 * Finishes the sums of a warpgroup, and stores them: two tiles of `cs` take turns. All values of a tile are finished before the
 * first is stored, so that their instructions overlap.
 * @param taken tiles of C before this one
 */
function storeSums(
  c: Memory,
  sums: Memory,
  cs: Memory,
  beside: Beside,
  group: number,
  taken: number,
  at: WarpgroupPlace,
  context: ResultContext,
): void {
  const { arrive, f32, fenceAsync, groupBarrier, idiv, load2, load4, local2, local4, store2, store4 } =
    context;
  const { splat2, splat4, threadIdx, tmaCommit, tmaWait, waitBarrier } = context;
  const { bias, finishAt, inBoxes, out, lanesInTile, pickSums, stored, storeTile, sumColumns } = context;
  const { summed, sumsOf, tilePlace, work, THREADS } = context;
  const { beside: matrices, columnSums, each, exchanged, groups, inParts, lanes, panels, together } = work;
  const inPanel = idiv(work.width, 4 * lanes);
  const inTile = idiv(work.used, 4 * lanes);
  const { byEngine } = work.c;
  const thread = threadIdx.x % THREADS;
  const picked = lanes === 4 ? local4(summed, 2 * inPanel) : local2(summed, 2 * inPanel);
  const values = lanes === 4 ? local4(out, 2 * inPanel) : local2(out, 2 * inPanel);
  const totals = local2(f32, Math.max(1, columnSums));
  const biases = lanes === 4 ? local4(f32, inPanel) : local2(f32, inPanel);
  for (let tile = 0; tile < each * panels; tile++) {
    const e = idiv(tile, panels);
    const panel = tile % panels;
    const number = taken * each * panels + tile;
    const held = number % 2;
    // A constant where all panels have as many, so that loops are unrolled.
    const across = inTile % inPanel === 0 ? inPanel : Math.min(inPanel, inTile - panel * inPanel);
    if (work.isLoop) pickSums(picked, sums, tile, 0, context);
    const place = tilePlace(at, group % together, e, panel, context);
    const brought = matrices > 0 ? number % work.brought : 0;
    if (matrices > 0) waitBarrier(beside.full, work.brought * group + brought, idiv(number, work.brought));
    // All neighbours of the transpose have one column in C.
    if (work.biased)
      for (let i = 0; i < (exchanged ? 1 : across); i++) {
        const column = place.column + lanesInTile(thread, i, 0, context).column;
        biases[i] = bias(lanes === 4 ? splat4(0) : splat2(0), column);
      }
    for (let i = 0; i < across; i++) {
      for (let half = 0; half < 2; half++) {
        const own = lanesInTile(thread, i, half, context);
        const row = place.row + own.row;
        const column = place.column + own.column;
        const v = work.isLoop ? picked[2 * i + half]! : sumsOf(sums, e, panel, i, half, context);
        const keep = (finished: number) => {
          values[2 * i + half] = finished;
        };
        if (inParts) keep(v);
        else {
          // What lies beyond C is not stored, as it is.
          if (!work.isFree) keep(stored(v));
          const ofBias = work.biased ? biases[exchanged ? 0 : i]! : v;
          if (matrices > 0) {
            const of = inBoxes(own, context);
            const read = (tile: number): number =>
              lanes === 4
                ? load4(beside.tiles, tile, brought, of.row, of.column)
                : load2(beside.tiles, tile, brought, of.row, of.column);
            const first = read(group);
            const second = matrices > 1 ? read(groups + group) : first;
            finishAt(v, first, second, ofBias, at.batch, row, column, keep, context);
          } else finishAt(v, v, v, ofBias, at.batch, row, column, keep, context);
        }
      }
    }
    // The copy engine has read the tile that comes now.
    if (byEngine && thread === 0) tmaWait(1);
    groupBarrier(1 + group, THREADS);
    if (matrices > 0 && columnSums === 0 && thread === 0)
      arrive(beside.empty, work.brought * group + brought);
    for (let i = 0; i < across; i++) {
      for (let half = 0; half < 2; half++) {
        const { row, column } = inBoxes(lanesInTile(thread, i, half, context), context);
        if (lanes === 4) store4(cs, group, held, row, column, values[2 * i + half]);
        else store2(cs, group, held, row, column, values[2 * i + half]);
      }
    }
    if (byEngine) fenceAsync();
    groupBarrier(1 + group, THREADS);
    const stores = { group, held, brought, thread };
    if (!byEngine) storeTile(c, cs, stores, at, place.row, place.column, context);
    else if (thread === 0) {
      storeTile(c, cs, stores, at, place.row, place.column, context);
      tmaCommit();
    }
    if (columnSums > 0) sumColumns(cs, values, totals, beside, stores, place, context);
  }
}

/**
 * The sums of columns over one of the tiles that a warpgroup's sums go by way of, whose values are all there: what is summed is
 * what is stored. A warp has a quarter of the columns, and a lane two neighbours of every fourth or eighth row. Lanes that read
 * at a time do so in different banks, as rows lie swizzled.
 */
function sumColumns(
  cs: Memory,
  values: Memory,
  totals: Memory,
  beside: Beside,
  tile: SumsTile,
  place: MatrixPlace,
  context: ResultContext,
): void {
  const { addTerms, arrive, groupBarrier, idiv, lane, laneId, load2, shuffleXor, splat2, vec2 } = context;
  const { storeColumnSums, warpId, work, ROWS, WARPS } = context;
  const { isWhole, levels, sizes, used, width } = work;
  const isFull = isWhole && used % width === 0;
  const { group, held, brought, thread } = tile;
  const pairs = idiv(width, 8);
  const sharers = idiv(32, pairs);
  const sharer = idiv(laneId, pairs);
  const inRow = 2 * (idiv(thread, 32) * pairs + (laneId % pairs));
  const part = idiv(place.row, ROWS);
  const column = place.column + inRow;
  // Of all batches, which lie beside each other.
  const ofAll = place.batch * sizes.N + column;
  // A warpgroup's last rows may lie beyond the matrix.
  if (place.row < sizes.M) {
    const first = 2 * (sharer % 4) + idiv(sharer, 4);
    const perEight = idiv(8, sharers);
    if (isFull || column < sizes.N)
      for (let i = 0; i < idiv(width, 4); i++)
        values[i] = load2(cs, group, held, first + 8 * idiv(i, perEight) + (i % perEight), inRow);
    for (let n = 0; n < work.columnSums; n++) totals[n] = splat2(0);
    for (let l = 0; l < levels.length; l++) {
      const numbers = levels[l]!;
      if (isFull || column < sizes.N)
        for (let i = 0; i < idiv(width, 4); i++) {
          const row = first + 8 * idiv(i, perEight) + (i % perEight);
          addTerms(numbers, values[i]!, totals, beside, tile, part, row, ofAll, inRow, context);
        }
      for (let n = 0; n < numbers.length; n++) {
        const number = numbers[n]!;
        for (let by = pairs; by < 32; by *= 2) {
          const others = vec2(
            shuffleXor(lane(totals[number]!, 0), by),
            shuffleXor(lane(totals[number]!, 1), by),
          );
          totals[number] = totals[number]! + others;
        }
      }
    }
    if (sharer === 0 && (isFull || column < sizes.N)) storeColumnSums(part, ofAll, totals);
  }
  if (work.beside > 0) {
    // One lane says for all that they have read.
    groupBarrier(WARPS + warpId, 32);
    if (laneId === 0) arrive(beside.empty, work.brought * group + brought);
  }
}

/** Adds what two neighbours in a row are to sums of their columns. */
function addTerms(
  numbers: readonly number[],
  v: number,
  totals: Memory,
  { tiles }: Beside,
  { group, brought }: SumsTile,
  part: number,
  row: number,
  column: number,
  inRow: number,
  { load2, term, work }: ResultContext,
): void {
  const { beside: matrices, groups } = work;
  for (let n = 0; n < numbers.length; n++) {
    const number = numbers[n]!;
    if (matrices > 1) {
      const first = load2(tiles, group, brought, row, inRow);
      const second = load2(tiles, groups + group, brought, row, inRow);
      totals[number] = totals[number]! + term(number, v, part, row, column, totals, first, second);
    } else if (matrices > 0) {
      const first = load2(tiles, group, brought, row, inRow);
      totals[number] = totals[number]! + term(number, v, part, row, column, totals, first);
    } else totals[number] = totals[number]! + term(number, v, part, row, column, totals);
  }
}

/** The device functions, as constants of a kernel. */
export const RESULT = {
  ...{
    loadBeside,
    storeSums,
    rowInTile,
    lanesInTile,
    sumsOf,
    pickSums,
    tilePlace,
    inBoxes,
    finished,
    sumColumns,
    addTerms,
  },
};
