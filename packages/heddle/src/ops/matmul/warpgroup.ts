/**
 * Sums of products by warpgroups, for GPUs of compute capability 9.0: of 16-bit floats, and of f32 as tf32, in f32; of bytes, which
 * lie along K, in i32.
 * Matrix products (warpgroup-product.ts) and convolutions (ops/conv2d/warpgroup.ts) differ in how the copy engine finds
 * their operands' tiles, and where it puts the result's.
 *
 * Blocks stay on their multiprocessor and take one tile of C after the other. One thread, the producer, has the copy engine
 * bring tiles of A and B into a ring of stages; the warpgroups behind it multiply them where they lie (wgmma), 64 rows each at
 * a time. Whoever is done with a stage says so at its mbarrier, so that nobody waits for the block: copies run ahead over the
 * end of a tile of C, while its sums are still finished and stored. Those go by way of a tile for each warpgroup, from which
 * the copy engine takes them, so that a warpgroup goes on without waiting for memory.
 *
 * wgmma takes f32 along K only. What lies across it is turned: rows of A on their way to registers, from which wgmma takes a
 * left operand; B where it lies, by the producer's other warps while the stage before is multiplied. Shared memory is what
 * limits such a product, and this way it gives and takes each element of A once, and of B twice more than wgmma reads.
 */
import { type DType, f32, i8, i32 } from '../../core/dtype.js';
import type { ColumnSums, Stage } from '../../graph/fused-op.js';
import { wgmmaDepth } from '../../kernel/ir/asynchronous.js';
import type { IrFunction } from '../../kernel/ir/ir-function.js';
import type { BufferSchema } from '../../kernel/ir/types.js';
import { asCast, type Constants, defineKernel, type Memory } from '../../kernel/language/language.js';
import { gridStage } from '../stage.js';
import type { GridKernel } from '../tiled.js';
import {
  addTerms,
  type Beside,
  finished,
  loadBeside,
  type ResultContext,
  type ResultWork,
  rowInTile,
  storeSums,
  sumColumns,
  type WarpgroupPlace,
  type WarpgroupResult,
} from './warpgroup-result.js';

/** How the work is cut. */
export interface WarpgroupTile {
  /** Warpgroups that multiply, below each other. */
  readonly groups: 1 | 2;
  /** Blocks of 64 rows that one has sums of. */
  readonly each: 1 | 2;
  /**
   * Two warpgroups take the block's tiles by turns, instead of one tile together: while one finishes and stores its sums, the
   * other multiplies. Default: together.
   */
  readonly alternate?: boolean;
  /** Of C: a multiple of 64, 256 at most. */
  readonly columns: number;
  readonly stages: number;
  /** Blocks that share the sum over K: they give its parts, if there are several. */
  readonly splits: number;
  /**
   * How many of the matrices that an epilogue takes beside the sums the copy engine brings, at most 2; it reads the others itself.
   * Default: none.
   */
  readonly beside?: number;
}

/** Bytes of a row of a tile. */
const ROW = 128;
export const ROWS = 64;
const THREADS = 128;

/** Registers of a thread that copies, and of one that multiplies beside another warpgroup: as many as a block has. */
const REGISTERS = { producer: 40, consumer: 232 } as const;

/** The barrier of the first warp, after those of the warpgroups. */
const WARPS = 3;

/** What products of operands of that dtype are summed in. */
const sumOf = (dtype: DType): DType => (dtype === i8 ? i32 : f32);

/** Steps along K of a stage. */
export const depthOf = (dtype: DType): number => ROW / dtype.bytes;

type BlockRows = Pick<WarpgroupTile, 'groups' | 'each' | 'alternate'>;

/** Warpgroups that share a tile. */
const togetherOf = ({ groups, alternate }: BlockRows): number => (alternate ? 1 : groups);

export const rowsOf = (tile: BlockRows): number => ROWS * togetherOf(tile) * tile.each;

/** Which operands are turned. */
export interface Turned {
  readonly a: boolean;
  readonly b: boolean;
}

/**
 * Bytes of shared memory: the stages, and for each warpgroup two tiles of sums, and two of each matrix that the epilogue takes
 * beside them.
 */
export const warpgroupBytes = (tile: WarpgroupTile): number =>
  (tile.stages * (rowsOf(tile) + tile.columns) + tile.groups * 2 * (1 + (tile.beside ?? 0)) * ROWS) * ROW;

/** Where an operand's tile begins. */
export interface OperandStart {
  readonly batch: number;
  readonly term: number;
  /** Row of A, column of B. */
  readonly along: number;
  readonly k: number;
}

/** How an operand's tiles lie in shared memory, (stage, panel, row, column): all that device functions have to know. */
export interface OperandTiles {
  /** Whether a row is along K. Otherwise a panel has so many steps of it, and there is one for each row's length of `along`. */
  readonly k: boolean;
  readonly panels: number;
  readonly rows: number;
  /**
   * Lies across K, as wgmma does not take f32. Rows and columns of A are exchanged on their way to registers, those of B where
   * they lie: its panels are below each other.
   */
  readonly turned: boolean;
  /** Boxes that the copy engine brings, rows of each, and panels and rows from one to the next. */
  readonly boxes: number;
  readonly box: number;
  readonly apart: readonly [panels: number, rows: number];
}

/** A, or B with rows and columns exchanged. */
export interface WarpgroupOperand {
  readonly schema: BufferSchema;
  readonly tiles: OperandTiles;
  /** Starts to copy its tiles of one stage: a device function. */
  load(
    to: Memory,
    from: Memory,
    tiles: OperandTiles,
    at: OperandStart,
    full: Memory,
    stage: number,
    context: PipelineContext,
  ): void;
}

/** How so many rows of A, or columns of B, lie in a tile. */
export function tilesOf(k: boolean, along: number, dtype: DType): OperandTiles {
  const turned = !k && dtype === f32;
  const [boxes, box] = k ? [1, along] : [along / depthOf(dtype), depthOf(dtype)];
  const boxed = { k, turned, boxes, box };
  return turned
    ? { ...boxed, panels: 1, rows: along, apart: [0, box] }
    : { ...boxed, panels: boxes, rows: box, apart: [1, 0] };
}

/** C (batch, row, column) = sums over all terms and along K of A (row, k) · B (column, k). */
export interface WarpgroupProblem {
  readonly name: string;
  readonly batches: number;
  readonly M: number;
  readonly N: number;
  /** Of one term. */
  readonly K: number;
  /** Terms of each batch, or of all of them: products that are added up, as those of a convolution's taps. */
  readonly terms: readonly number[];
  readonly a: WarpgroupOperand;
  readonly b: WarpgroupOperand;
  readonly result: WarpgroupResult;
  /** What is stored (default: the operands' dtype). */
  readonly output?: DType | undefined;
  /** The result is parts even where blocks do not share K. Default: false. */
  readonly parts?: boolean;
  /** As `finishAt` calls it. */
  readonly finish: IrFunction;
  /** Sums of columns, of parts of 64 rows, that are wanted beside the one matrix. Default: none. */
  readonly sums?: ColumnSums | undefined;
  /** What the operands' and the result's device functions call. */
  readonly functions: Constants;
}

/** All that the device functions have to know when the kernel is compiled. */
interface WarpgroupWork extends ResultWork {
  readonly stages: number;
  /** Tiles are taken band by band, and in a band of so many rows of tiles column by column. */
  readonly band: number;
  readonly splits: number;
  readonly total: number;
  /** Along K: stages of a term, of each batch, and of a block that shares it; steps of a stage, and of one wgmma. */
  readonly chunks: number;
  readonly lengths: readonly number[];
  readonly oneTerm: boolean;
  readonly share: number;
  readonly depth: number;
  readonly step: number;
  /** Of a stage's steps those that a term has: it may be shorter than a stage, as one of few channels. */
  readonly filled: number;
  readonly a: OperandTiles;
  readonly b: OperandTiles;
  /** Warps that turn B: the last ones of those that the producer is of. */
  readonly turners: number;
}

export interface PipelineContext extends ResultContext {
  readonly work: WarpgroupWork;
  readonly initBarriers: typeof initBarriers;
  readonly eachTile: typeof eachTile;
  readonly lengthOf: typeof lengthOf;
  readonly load: typeof load;
  readonly loadA: WarpgroupOperand['load'];
  readonly loadB: WarpgroupOperand['load'];
  readonly turn: typeof turn;
  readonly readTurned: typeof readTurned;
  readonly multiply: typeof multiply;
}

/** Stages along K of a batch. */
function lengthOf(batch: number, { i32, work }: PipelineContext): number {
  const { lengths } = work;
  let length = i32(lengths[0]!);
  for (let n = 1; n < lengths.length; n++) if (batch === n) length = lengths[n]!;
  return length;
}

/** Calls `body` for each tile of C that the block takes. */
function eachTile(body: (at: WarpgroupPlace) => void, context: PipelineContext): void {
  const { blockIdx, gridDim, idiv, lengthOf, work } = context;
  const { across, band, columns, down, rows, share, sizes, total } = work;
  for (let number = blockIdx.x; number < total; number += gridDim.x) {
    const split = idiv(number, down * across * sizes.batches);
    const batch = idiv(number, down * across) % sizes.batches;
    const inBatch = number % (down * across);
    const first = idiv(inBatch, band * across) * band;
    const height = Math.min(band, down - first);
    const inBand = inBatch - first * across;
    const row = (first + (inBand % height)) * rows;
    const column = idiv(inBand, height) * columns;
    const from = split * share;
    body({ split, batch, row, column, from, end: Math.min(from + share, lengthOf(batch, context)) });
  }
}

/** Starts to copy the tiles of one stage along K. */
function load(
  a: Memory,
  b: Memory,
  ring: Ring,
  stage: number,
  chunk: number,
  at: WarpgroupPlace,
  context: PipelineContext,
): void {
  const { arriveExpect, idiv, loadA, loadB, work } = context;
  const { chunks, columns, depth, oneTerm, rows } = work;
  const { as, bs, full } = ring;
  const term = oneTerm ? 0 : idiv(chunk, chunks);
  const k = (oneTerm ? chunk : chunk % chunks) * depth;
  arriveExpect(full, stage, (rows + columns) * 128);
  loadA(as, a, work.a, { batch: at.batch, term, along: at.row, k }, full, stage, context);
  loadB(bs, b, work.b, { batch: at.batch, term, along: at.column, k }, full, stage, context);
}

/**
 * The stages in shared memory, and the mbarriers that say which are full, whose B is turned, and which are empty again; and
 * which warpgroup's turn it is to multiply, if they take tiles by turns.
 */
interface Ring {
  readonly as: Memory;
  readonly bs: Memory;
  readonly full: Memory;
  readonly turned: Memory;
  readonly empty: Memory;
  readonly order: Memory;
}

/** Says how many arrivals each mbarrier waits for. */
function initBarriers(
  { full, turned, empty, order }: Ring,
  beside: Beside,
  { initBarrier, work }: PipelineContext,
): void {
  const { b, columnSums, groups, stages, together, turners } = work;
  for (let s = 0; s < stages; s++) {
    initBarrier(full, s, 1);
    // Of each warp that multiplies them.
    initBarrier(empty, s, together * 4);
    if (b.turned) initBarrier(turned, s, turners);
  }
  if (together < groups) for (let g = 0; g < groups; g++) initBarrier(order, g, 4);
  if (work.beside > 0)
    for (let s = 0; s < 2 * groups; s++) {
      initBarrier(beside.full, s, 1);
      // Of each warp that sums columns of them, or of the warpgroup.
      initBarrier(beside.empty, s, columnSums > 0 ? 4 : 1);
    }
}

/**
 * Exchanges rows and columns of B's panels of 32 × 32 where they lie, by the warps that share them. A lane takes blocks of 4 × 4:
 * those that eight lanes read or write at a time lie in different banks, and those of half a panel change places with each
 * other.
 */
function turn(bs: Memory, stage: number, warp: number, context: PipelineContext): void {
  const { fenceAsync, groupBarrier, idiv, lane, laneId, load4, store4, vec4, warpId, work, WARPS } = context;
  const down = laneId % 8;
  for (let half = warp; half < 2 * work.b.boxes; half += work.turners) {
    const panel = 32 * idiv(half, 2);
    const across = down ^ (idiv(laneId, 8) + 4 * (half % 2));
    const v = load4(bs, stage, 0, panel + 4 * down, 4 * across);
    const w = load4(bs, stage, 0, panel + 4 * down + 1, 4 * across);
    const x = load4(bs, stage, 0, panel + 4 * down + 2, 4 * across);
    const y = load4(bs, stage, 0, panel + 4 * down + 3, 4 * across);
    groupBarrier(WARPS + warpId, 32);
    for (let i = 0; i < 4; i++) {
      const row = vec4(lane(v, i), lane(w, i), lane(x, i), lane(y, i));
      store4(bs, stage, 0, panel + 4 * across + i, 4 * down, row);
    }
  }
  fenceAsync();
  groupBarrier(WARPS + warpId, 32);
}

/**
 * Reads a warpgroup's rows of A that lie across K, as wgmma takes a left operand in registers. The products of the stage before
 * are awaited first, since they read the words: were others read meanwhile, ptxas (13.0) would give both the same registers.
 * A thread's two rows are neighbours in memory (`rowInTile`): the words that half a warp reads at a time lie in different banks.
 */
function readTurned(
  words: Memory,
  sums: Memory,
  as: Memory,
  stage: number,
  group: number,
  context: PipelineContext,
): void {
  const { bitcast, groupBarrier, idiv, lane, load2, rowInTile, threadIdx, u32, waitWgmma, warpId } = context;
  const { work, ROWS, THREADS, WARPS } = context;
  const { depth, each, step, together } = work;
  waitWgmma(sums, 0);
  waitWgmma(words, 0);
  const row = rowInTile(threadIdx.x % THREADS, 0, context);
  const line = threadIdx.x % 4;
  for (let e = 0; e < each; e++) {
    const panel = ((group % together) * each + e) * ROWS + idiv(row, 32) * 32;
    for (let k = 0; k < idiv(depth, 4); k++) {
      const v = load2(as, stage, 0, panel + 4 * k + line, row % 32);
      const n = e * idiv(depth, step) + idiv(k, 2);
      words[n][2 * (k % 2)] = bitcast(u32, lane(v, 0));
      words[n][2 * (k % 2) + 1] = bitcast(u32, lane(v, 1));
    }
  }
  // One lane will say for all that they have read.
  groupBarrier(WARPS + warpId, 32);
}

/**
 * Starts to add the products of one stage to the sums of a warpgroup.
 * @param words of its rows of A, if they are in registers
 */
function multiply(
  sums: Memory,
  words: Memory,
  ring: Ring,
  stage: number,
  group: number,
  context: PipelineContext,
): void {
  const { commitWgmma, fenceWgmma, idiv, wgmma, work, ROWS } = context;
  const { a, b, depth, each, filled, step, together } = work;
  const { as, bs } = ring;
  const bAlongK = b.k || b.turned;
  fenceWgmma(sums);
  if (a.turned) fenceWgmma(words);
  for (let k = 0; k < filled; k += step) {
    for (let e = 0; e < each; e++) {
      const part = ((group % together) * each + e) * ROWS;
      if (a.turned) wgmma(sums, e, words, idiv(e * depth + k, step), bs, stage, 0, 0, k);
      else if (a.k && bAlongK) wgmma(sums, e, as, stage, 0, part, k, bs, stage, 0, 0, k);
      else if (a.k) wgmma(sums, e, as, stage, 0, part, k, bs, stage, 0, k, 0, false, true);
      else if (bAlongK) wgmma(sums, e, as, stage, idiv(part, depth), k, 0, bs, stage, 0, 0, k, true);
      else wgmma(sums, e, as, stage, idiv(part, depth), k, 0, bs, stage, 0, k, 0, true, true);
    }
  }
  commitWgmma();
}

/** The device functions, as constants of a kernel. */
const FUNCTIONS = {
  ...{ initBarriers, eachTile, lengthOf, load, turn, readTurned, multiply },
  ...{ loadBeside, storeSums, rowInTile, finished, sumColumns, addTerms },
};

/** A kernel of warpgroups. Its parameters are A, B, C, and the matrices that the copy engine brings beside the sums. */
export interface WarpgroupKernel extends GridKernel {
  readonly beside: number;
}

/** The launch of a kernel that stores the result. */
export const finishedStage = (kernel: WarpgroupKernel): Stage =>
  gridStage(
    kernel,
    ...[{ input: 0 }, { input: 1 }, { output: true } as const],
    ...[0, 1].slice(0, kernel.beside).map((beside) => ({ beside })),
  );

/**
 * The sums, or if blocks share K their parts, in f32 or i32, for which `result` has a place by `split`.
 * @param dtype of the operands
 * @param units multiprocessors: so many blocks take all tiles
 */
export function byWarpgroups(
  p: WarpgroupProblem,
  tile: WarpgroupTile,
  dtype: DType,
  units: number,
): WarpgroupKernel {
  const { a, b, result } = p;
  const { groups } = tile;
  const inParts = tile.splits > 1 || p.parts === true;
  const summed = sumOf(dtype);
  const out = inParts ? summed : (p.output ?? dtype);
  const work = workOf(p, tile, { dtype, out, inParts, units });
  const kernel = defineKernel(
    `${p.name}${inParts ? 'Parts' : ''}`,
    {
      ...{ a: a.schema, b: b.schema, c: result.schema(out, [ROWS, work.width]) },
      ...(work.beside > 0 && { first: result.schema(out, [ROWS, work.width]) }),
      ...(work.beside > 1 && { second: result.schema(out, [ROWS, work.width]) }),
    } as Record<'a' | 'b' | 'c' | 'first' | 'second', BufferSchema>,
    (given, context) => {
      const { a, b, c } = given;
      const { arrive, barrier, idiv, initBarriers, local, mbarriers, sharedTile, threadIdx, u32 } = context;
      const { lowerRegisters, raiseRegisters, tmaWait, waitBarrier, waitWgmma } = context;
      const { dtype, eachTile, load, loadBeside, multiply, out, readTurned, storeSums, summed, turn } =
        context;
      const { work, REGISTERS, ROWS, THREADS } = context;
      const { columns, depth, each, groups, stages, step, together, turners, width } = work;
      const as = sharedTile(dtype, stages, work.a.panels, work.a.rows, depth);
      const bs = sharedTile(dtype, stages, work.b.panels, work.b.rows, depth);
      const cs = sharedTile(out, groups, 2, ROWS, width);
      const full = mbarriers(stages);
      const empty = mbarriers(stages);
      const turned = work.b.turned ? mbarriers(stages) : full;
      const alternate = together < groups;
      const order = alternate ? mbarriers(2) : full;
      const ring = { as, bs, full, turned, empty, order };
      const hasBeside = work.beside > 0;
      const beside = {
        tiles: hasBeside ? sharedTile(out, work.beside * groups, 2, ROWS, width) : cs,
        full: hasBeside ? mbarriers(2 * groups) : full,
        empty: hasBeside ? mbarriers(2 * groups) : empty,
      };
      if (threadIdx.x === 0) initBarriers(ring, beside, context);
      barrier();
      const group = idiv(threadIdx.x, THREADS);
      let stage = 0;
      let phase = 0;
      let taken = 0;
      const goOn = (count: number) => {
        phase += idiv(stage + count, stages);
        stage = (stage + count) % stages;
      };
      if (group === groups) {
        lowerRegisters(REGISTERS.producer);
        if (threadIdx.x === groups * THREADS) {
          eachTile((at) => {
            for (let chunk = at.from; chunk < at.end; chunk++) {
              waitBarrier(empty, stage, phase + 1);
              load(a, b, ring, stage, chunk, at, context);
              goOn(1);
            }
          }, context);
        }
        // Another warp, which may wait while the first one copies what comes after.
        if (hasBeside && threadIdx.x === groups * THREADS + 32) {
          const second = work.beside > 1 ? given.second : given.first;
          eachTile((at) => {
            loadBeside(given.first, second, beside, taken, at, context);
            taken += 1;
          }, context);
        }
        const turner = idiv(threadIdx.x, 32) - (groups + 1) * 4 + turners;
        if (work.b.turned && turner >= 0)
          eachTile((at) => {
            for (let chunk = at.from; chunk < at.end; chunk++) {
              waitBarrier(full, stage, phase);
              turn(bs, stage, turner, context);
              if (threadIdx.x % 32 === 0) arrive(turned, stage);
              goOn(1);
            }
          }, context);
      } else {
        // The compiler lets products overlap only where each warpgroup says how many registers it has.
        if (groups === 2) raiseRegisters(REGISTERS.consumer);
        else lowerRegisters(REGISTERS.consumer);
        const isFirstLane = threadIdx.x % 32 === 0;
        const sums = local(summed, each, idiv(columns, 2));
        const words = local(u32, each * idiv(depth, step), 4);
        const sum = (at: WarpgroupPlace) => {
          for (let e = 0; e < each; e++) for (let i = 0; i < idiv(columns, 2); i++) sums[e][i] = 0;
          // When the other has its last stage: nobody can wait for the phase after the next.
          if (alternate) waitBarrier(order, group, taken + group + 1);
          let before = 0;
          for (let chunk = at.from; chunk < at.end; chunk++) {
            waitBarrier(full, stage, phase);
            if (work.a.turned) readTurned(words, sums, as, stage, group, context);
            if (work.b.turned) waitBarrier(turned, stage, phase);
            multiply(sums, words, ring, stage, group, context);
            // The products of the stage before are done.
            if (!work.a.turned) waitWgmma(sums, 1);
            if (chunk > at.from && isFirstLane) arrive(empty, before);
            before = stage;
            goOn(1);
          }
          if (alternate && isFirstLane) arrive(order, 1 - group);
          waitWgmma(sums, 0);
          if (at.end > at.from && isFirstLane) arrive(empty, before);
          storeSums(c, sums, cs, beside, group, taken, at, context);
          taken += 1;
        };
        let number = 0;
        eachTile((at) => {
          // Stages of the other warpgroup's tiles are passed over.
          if (alternate && number % 2 !== group) goOn(Math.max(at.end - at.from, 0));
          else sum(at);
          number += 1;
        }, context);
        if (threadIdx.x % THREADS === 0) tmaWait(0);
      }
    },
    {
      ...{ ...FUNCTIONS, dtype, summed, out, work, REGISTERS, ROWS, THREADS, WARPS },
      ...{ cast: asCast(dtype === i8 ? summed : dtype), stored: asCast(out), finish: p.finish },
      ...{ term: p.sums?.term ?? p.finish, storeColumnSums: p.sums?.store ?? p.finish },
      ...{
        ...p.functions,
        loadA: a.load,
        loadB: b.load,
        finishAt: result.finishAt,
        storeTile: result.storeTile,
        ...(result.loadTile && { loadTile: result.loadTile }),
      },
    },
  );
  return {
    kernel,
    grid: [Math.min(work.total, units), 1, 1],
    threads: (groups + 1) * THREADS,
    sharedBytes: 0,
    beside: work.beside,
  };
}

/** Whether the copy engine stores rows of so many columns. */
export const isCopied = (out: DType, columns: number): boolean =>
  out.kind !== 'bool' && out.bytes <= 4 && (columns * out.bytes) % 16 === 0;

/** Columns of the tiles that C goes by way of: as many as a row of 128 bytes has, if they divide those of C's tile. */
const widthOf = (columns: number, out: DType): number =>
  columns % (ROW / out.bytes) === 0 ? ROW / out.bytes : ROWS;

interface Kept {
  readonly dtype: DType;
  readonly out: DType;
  readonly inParts: boolean;
  readonly units: number;
}

function workOf(p: WarpgroupProblem, tile: WarpgroupTile, kept: Kept): WarpgroupWork {
  const { dtype, out, inParts, units } = kept;
  const { M, N, batches } = p;
  const { columns, splits } = tile;
  const rows = rowsOf(tile);
  const depth = depthOf(dtype);
  const step = wgmmaDepth(dtype.bytes);
  const width = widthOf(columns, out);
  const down = Math.ceil(M / rows);
  const across = Math.ceil(N / columns);
  const chunks = Math.ceil(p.K / depth);
  const beside = inParts || !p.result.loadTile ? 0 : (tile.beside ?? 0);
  const lengths = p.terms.map((n) => n * chunks);
  const levels = inParts ? [] : (p.sums?.levels ?? []);
  return {
    ...tile,
    ...{ rows, down, across, chunks, lengths, depth, oneTerm: Math.max(...p.terms) === 1 },
    ...{ width, pitch: width * out.bytes },
    sizes: { M, N, batches },
    // Blocks that run together read about as many rows of A as columns of B.
    band: Math.min(down, 2 ** Math.round(Math.log2(Math.sqrt((units * columns) / rows)))),
    total: down * across * batches * splits,
    share: Math.ceil(Math.max(...lengths) / splits),
    ...{ step, filled: Math.min(depth, Math.ceil(p.K / step) * step) },
    panels: columns / width,
    a: p.a.tiles,
    b: p.b.tiles,
    c: p.result.places,
    inParts,
    beside,
    ...{ levels, columnSums: levels.flat().length },
    turners: beside > 0 ? 2 : 3,
    together: togetherOf(tile),
    paired: p.a.tiles.turned,
  };
}
