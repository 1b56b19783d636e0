/**
 * Sums of products by warpgroups, for GPUs of compute capability 9.0: of 16-bit floats, and of f32 as tf32. Sums are f32.
 * Matrix products (warpgroup-product.ts) and convolutions (ops/conv2d/warpgroup.ts) differ in how the copy engine finds
 * their operands' tiles, and where it puts the result's.
 *
 * Blocks stay on their multiprocessor and take one tile of C after the other. One thread, the producer, has the copy engine
 * bring tiles of A and B into a ring of stages; the warpgroups behind it multiply them where they lie (wgmma), 64 rows each at a
 * time. Whoever is done with a stage says so at its mbarrier, so that nobody waits for the block: copies run ahead over the
 * end of a tile of C, while its sums are still finished and stored. Those go by way of a tile for each warpgroup, from which
 * the copy engine takes them, so that a warpgroup goes on without waiting for memory.
 */
import { type DType, f32 } from '../../core/dtype.js';
import type { Stage } from '../../graph/fused-op.js';
import { wgmmaDepth } from '../../kernel/ir/asynchronous.js';
import type { IrFunction } from '../../kernel/ir/ir-function.js';
import type { BufferSchema } from '../../kernel/ir/types.js';
import { asCast, type Constants, defineKernel, type Memory } from '../../kernel/language/language.js';
import { gridStage } from '../stage.js';
import type { GridKernel } from '../tiled.js';
import {
  finished,
  loadBeside,
  type ResultContext,
  type ResultWork,
  storeSums,
  type WarpgroupPlace,
  type WarpgroupResult,
} from './warpgroup-result.js';

/** How the work is cut. */
export interface WarpgroupTile {
  /** Warpgroups that multiply, below each other. */
  readonly groups: 1 | 2;
  /** Blocks of 64 rows that one has sums of. */
  readonly each: 1 | 2;
  /** Of C: a multiple of the elements in 128 bytes, 256 at most. */
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
const ROWS = 64;
const THREADS = 128;

/** Registers of a thread that copies, and of one that multiplies beside another warpgroup: as many as a block has. */
const REGISTERS = { producer: 40, consumer: 232 } as const;

/** Steps along K of a stage. */
export const depthOf = (dtype: DType): number => ROW / dtype.bytes;

export const rowsOf = ({ groups, each }: Pick<WarpgroupTile, 'groups' | 'each'>): number =>
  ROWS * groups * each;

/** Which operands are turned in shared memory. */
export interface Turned {
  readonly a: boolean;
  readonly b: boolean;
}

/** Rows of a tile's operands that are turned. */
export const turnedRows = (tile: WarpgroupTile, { a, b }: Turned): number =>
  (a ? rowsOf(tile) : 0) + (b ? tile.columns : 0);

/**
 * Bytes of shared memory: the stages, two steps of what is turned, and for each warpgroup two tiles of sums, and two of
 * each matrix that the epilogue takes beside them.
 */
export const warpgroupBytes = (tile: WarpgroupTile, turned: Turned): number =>
  (tile.stages * (rowsOf(tile) + tile.columns) +
    2 * turnedRows(tile, turned) +
    tile.groups * 2 * (1 + (tile.beside ?? 0)) * ROWS) *
  ROW;

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
  /** Lies across K, as wgmma does not take f32: warpgroups exchange rows and columns before they multiply. */
  readonly turned: boolean;
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
export const tilesOf = (k: boolean, along: number, dtype: DType): OperandTiles => ({
  ...(k ? { k, panels: 1, rows: along } : { k, panels: along / depthOf(dtype), rows: depthOf(dtype) }),
  turned: !k && dtype === f32,
});

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
  /** The result is parts in f32 even where blocks do not share K. Default: false. */
  readonly parts?: boolean;
  /** As `finishAt` calls it. */
  readonly finish: IrFunction;
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
  readonly a: OperandTiles;
  readonly b: OperandTiles;
  /** Whether an operand is turned. */
  readonly turns: boolean;
}

export interface PipelineContext extends ResultContext {
  readonly work: WarpgroupWork;
  readonly eachTile: typeof eachTile;
  readonly lengthOf: typeof lengthOf;
  readonly load: typeof load;
  readonly loadA: WarpgroupOperand['load'];
  readonly loadB: WarpgroupOperand['load'];
  readonly turn: typeof turn;
  readonly turnPanel: typeof turnPanel;
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
 * The stages in shared memory, and the mbarriers that say which are full, and which are empty again; and what is turned of the
 * stage that is multiplied, and of that before.
 */
interface Ring {
  readonly as: Memory;
  readonly bs: Memory;
  readonly turnedA: Memory;
  readonly turnedB: Memory;
  readonly full: Memory;
  readonly empty: Memory;
}

/**
 * Exchanges rows and columns of a panel of 32 × 32. A lane takes blocks of 4 × 4; those that eight lanes take at a time lie in
 * different banks, in both tiles.
 */
function turnPanel(
  from: Memory,
  to: Memory,
  stage: number,
  half: number,
  panel: number,
  { idiv, lane, laneId, load4, store4, vec4 }: PipelineContext,
): void {
  const down = laneId % 8;
  for (let round = 0; round < 2; round++) {
    const across = idiv(down, 2) ^ (idiv(laneId, 8) + 4 * round);
    const v = load4(from, stage, panel, 4 * down, 4 * across);
    const w = load4(from, stage, panel, 4 * down + 1, 4 * across);
    const x = load4(from, stage, panel, 4 * down + 2, 4 * across);
    const y = load4(from, stage, panel, 4 * down + 3, 4 * across);
    for (let i = 0; i < 4; i++) {
      const row = vec4(lane(v, i), lane(w, i), lane(x, i), lane(y, i));
      store4(to, half, 0, panel * 32 + 4 * across + i, 4 * down, row);
    }
  }
}

/** Turns the tiles of a stage that lie across K: all warpgroups share the panels. */
function turn(ring: Ring, stage: number, half: number, context: PipelineContext): void {
  const { fenceAsync, idiv, threadIdx, turnPanel, work } = context;
  const { as, bs, turnedA, turnedB } = ring;
  const { a, b, groups } = work;
  const ofA = a.turned ? a.panels : 0;
  const ofBoth = ofA + (b.turned ? b.panels : 0);
  for (let panel = idiv(threadIdx.x, 32); panel < ofBoth; panel += groups * 4) {
    if (a.turned && panel < ofA) turnPanel(as, turnedA, stage, half, panel, context);
    if (b.turned && panel >= ofA) turnPanel(bs, turnedB, stage, half, panel - ofA, context);
  }
  fenceAsync();
}

/** Starts to add the products of one stage to the sums of a warpgroup. @param half of what is turned */
function multiply(
  sums: Memory,
  ring: Ring,
  stage: number,
  half: number,
  group: number,
  context: PipelineContext,
): void {
  const { commitWgmma, idiv, wgmma, work, ROWS } = context;
  const { a, b, depth, each, step } = work;
  const { as, bs, turnedA, turnedB } = ring;
  for (let k = 0; k < depth; k += step) {
    for (let e = 0; e < each; e++) {
      const part = (group * each + e) * ROWS;
      if (a.turned && b.turned) wgmma(sums, e, turnedA, half, 0, part, k, turnedB, half, 0, 0, k);
      else if (a.turned) wgmma(sums, e, turnedA, half, 0, part, k, bs, stage, 0, 0, k);
      else if (b.turned) wgmma(sums, e, as, stage, 0, part, k, turnedB, half, 0, 0, k);
      else if (a.k && b.k) wgmma(sums, e, as, stage, 0, part, k, bs, stage, 0, 0, k);
      else if (a.k) wgmma(sums, e, as, stage, 0, part, k, bs, stage, 0, k, 0, false, true);
      else if (b.k) wgmma(sums, e, as, stage, idiv(part, depth), k, 0, bs, stage, 0, 0, k, true);
      else wgmma(sums, e, as, stage, idiv(part, depth), k, 0, bs, stage, 0, k, 0, true, true);
    }
  }
  commitWgmma();
}

/** The device functions, as constants of a kernel. */
const FUNCTIONS = { eachTile, lengthOf, load, turn, turnPanel, multiply, loadBeside, storeSums, finished };

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
 * The sums, or if blocks share K their parts in f32, for which `result` has a place by `split`.
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
  const out = inParts ? f32 : dtype;
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
      const { arrive, barrier, f32, idiv, initBarrier, local, mbarriers, sharedTile, threadIdx } = context;
      const { fenceWgmma, groupBarrier, lowerRegisters, raiseRegisters, tmaWait, waitBarrier, waitWgmma } =
        context;
      const { dtype, eachTile, load, loadBeside, multiply, out, storeSums, turn, work } = context;
      const { REGISTERS, ROWS, THREADS } = context;
      const { columns, depth, each, groups, stages, turns, width } = work;
      const as = sharedTile(dtype, stages, work.a.panels, work.a.rows, depth);
      const bs = sharedTile(dtype, stages, work.b.panels, work.b.rows, depth);
      const cs = sharedTile(out, groups, 2, ROWS, width);
      const full = mbarriers(stages);
      const empty = mbarriers(stages);
      const turnedA = work.a.turned ? sharedTile(dtype, 2, 1, work.rows, depth) : as;
      const turnedB = work.b.turned ? sharedTile(dtype, 2, 1, columns, depth) : bs;
      const ring = { as, bs, turnedA, turnedB, full, empty };
      const hasBeside = work.beside > 0;
      const beside = {
        tiles: hasBeside ? sharedTile(out, work.beside * groups, 2, ROWS, width) : cs,
        full: hasBeside ? mbarriers(2 * groups) : full,
        empty: hasBeside ? mbarriers(2 * groups) : empty,
      };
      if (threadIdx.x === 0) {
        for (let s = 0; s < stages; s++) {
          initBarrier(full, s, 1);
          // Of each warp that multiplies.
          initBarrier(empty, s, groups * 4);
        }
        if (hasBeside)
          for (let s = 0; s < 2 * groups; s++) {
            initBarrier(beside.full, s, 1);
            initBarrier(beside.empty, s, 1);
          }
      }
      barrier();
      const group = idiv(threadIdx.x, THREADS);
      let stage = 0;
      let phase = 0;
      let half = 0;
      let taken = 0;
      if (group === groups) {
        lowerRegisters(REGISTERS.producer);
        if (threadIdx.x === groups * THREADS) {
          eachTile((at) => {
            for (let chunk = at.from; chunk < at.end; chunk++) {
              waitBarrier(empty, stage, phase + 1);
              load(a, b, ring, stage, chunk, at, context);
              stage += 1;
              if (stage === stages) {
                stage = 0;
                phase += 1;
              }
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
      } else {
        // The compiler lets products overlap only where each warpgroup says how many registers it has.
        if (groups === 2) raiseRegisters(REGISTERS.consumer);
        else lowerRegisters(REGISTERS.consumer);
        const isFirstLane = threadIdx.x % 32 === 0;
        const sums = local(f32, each, idiv(columns, 2));
        eachTile((at) => {
          for (let e = 0; e < each; e++) for (let i = 0; i < idiv(columns, 2); i++) sums[e][i] = 0;
          fenceWgmma(sums);
          let before = 0;
          for (let chunk = at.from; chunk < at.end; chunk++) {
            waitBarrier(full, stage, phase);
            if (turns) {
              // While the products of the stage before are summed. When all have done so, nobody needs its tiles.
              half = 1 - half;
              turn(ring, stage, half, context);
              waitWgmma(sums, 0);
              groupBarrier(3, groups * THREADS);
            }
            multiply(sums, ring, stage, half, group, context);
            // The products of the stage before are done.
            waitWgmma(sums, 1);
            if (chunk > at.from && isFirstLane) arrive(empty, before);
            before = stage;
            stage += 1;
            if (stage === stages) {
              stage = 0;
              phase += 1;
            }
          }
          waitWgmma(sums, 0);
          if (at.end > at.from && isFirstLane) arrive(empty, before);
          storeSums(c, sums, cs, beside, group, taken, at, context);
          taken += 1;
        }, context);
        if (threadIdx.x % THREADS === 0) tmaWait(0);
      }
    },
    {
      ...{ ...FUNCTIONS, dtype, out, work, REGISTERS, ROWS, THREADS, cast: asCast(dtype), finish: p.finish },
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
  const width = ROW / out.bytes;
  const down = Math.ceil(M / rows);
  const across = Math.ceil(N / columns);
  const chunks = Math.ceil(p.K / depth);
  const lengths = p.terms.map((n) => n * chunks);
  return {
    ...tile,
    ...{ rows, down, across, chunks, lengths, depth, width, oneTerm: Math.max(...p.terms) === 1 },
    sizes: { M, N, batches },
    // Blocks that run together read about as many rows of A as columns of B.
    band: Math.min(down, 2 ** Math.round(Math.log2(Math.sqrt((units * columns) / rows)))),
    total: down * across * batches * splits,
    share: Math.ceil(Math.max(...lengths) / splits),
    step: wgmmaDepth(dtype.bytes),
    panels: columns / width,
    a: p.a.tiles,
    b: p.b.tiles,
    c: p.result.places,
    turns: p.a.tiles.turned || p.b.tiles.turned,
    inParts,
    beside: inParts || !p.result.loadTile ? 0 : (tile.beside ?? 0),
  };
}
