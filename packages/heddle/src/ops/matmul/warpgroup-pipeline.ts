/**
 * The pipeline of products by warpgroups (warpgroup.ts): the ring of stages that the copy engine fills, how operands across K are
 * turned in it, and how warpgroups multiply what is there. A tile of A that serves several stages is in a ring of its own. Device
 * functions.
 */
import type { DType } from '../../core/dtype.js';
import type { BufferSchema } from '../../kernel/ir/types.js';
import type { Memory } from '../../kernel/language/language.js';
import { loadQuads, type OperandTiles, type Views } from './warpgroup-layout.js';
import type { Beside, ResultContext, ResultWork, WarpgroupPlace } from './warpgroup-result.js';

/** Where an operand's tile begins. */
export interface OperandStart {
  readonly batch: number;
  readonly term: number;
  /** Row of A, column of B. */
  readonly along: number;
  readonly k: number;
}

/** How a tile of A serves several stages along K one after the other, of which each multiplies other rows of its panels. */
export interface Served {
  /** So many stages. If it is one, A has no ring of its own. */
  readonly steps: number;
  /** Stages of the ring of A. */
  readonly ring: number;
  /** Of a panel: rows that are multiplied at a time, the first of the first stage, and from a stage's to the next. */
  readonly rows: number;
  readonly from: number;
  readonly by: number;
}

/** A, or B with rows and columns exchanged. */
export interface WarpgroupOperand {
  readonly schema: BufferSchema;
  readonly tiles: OperandTiles;
  /** Of A. Default: a tile serves one stage. */
  readonly served?: Served;
  /** Of B: whether its columns come as quads (`asQuads`). Default: in their order. */
  readonly quads?: boolean;
  /** Of B: columns of a tile are those of one view after the other. Default: it serves one product. */
  readonly views?: Views;
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

/** All that the device functions have to know when the kernel is compiled. */
export interface WarpgroupWork extends ResultWork {
  readonly stages: number;
  /** Tiles are taken band by band, and in a band of so many rows of tiles column by column. */
  readonly band: number;
  readonly splits: number;
  readonly total: number;
  /** `WarpgroupProblem.abreast` */
  readonly abreast: number;
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
  readonly served: Served;
  /** All tiles of C have the same B, of which each stage of the ring always has the same: it is copied once. */
  readonly stays: boolean;
  /** Warps that turn or split B: the last ones of those that the producer is of. */
  readonly turners: number;
  /** Halves of panels that such a warp turns at a time, as many as it has registers for. */
  readonly halvesAtOnce: number;
  /** f32 is multiplied in two parts of tf32 (warpgroup-split.ts): so many steps along K at a time, of so many that a term has. */
  readonly split: boolean;
  readonly level: number;
  readonly inner: number;
}

export interface PipelineContext extends ResultContext {
  readonly work: WarpgroupWork;
  readonly initBarriers: typeof initBarriers;
  readonly eachTile: typeof eachTile;
  readonly lengthOf: typeof lengthOf;
  readonly startOf: typeof startOf;
  readonly load: typeof load;
  readonly loadServed: typeof loadServed;
  readonly loadA: WarpgroupOperand['load'];
  readonly loadB: WarpgroupOperand['load'];
  readonly dtype: DType;
  readonly eachStage: typeof eachStage;
  readonly loadQuads: typeof loadQuads;
  readonly turn: typeof turn;
  /** Of warpgroup-split.ts: makes the low parts of B. */
  splitB(ring: Ring, stage: number, warp: number, context: PipelineContext): void;
  readonly readTurned: typeof readTurned;
  readonly multiply: typeof multiply;
}

/** Stages along K of a batch. */
function lengthOf(batch: number, { i32, idiv, work }: PipelineContext): number {
  const { abreast, lengths } = work;
  let length = i32(lengths[0]!);
  for (let n = 1; n < lengths.length; n++) if (idiv(batch, abreast) === n) length = lengths[n]!;
  return length;
}

/** Calls `body` for each tile of C that the block takes. */
function eachTile(body: (at: WarpgroupPlace) => void, context: PipelineContext): void {
  const { blockIdx, gridDim, idiv, lengthOf, work } = context;
  const { abreast, across, band, columns, down, rows, share, sizes, total } = work;
  // All batches that lie beside each other are one matrix here.
  const breadth = abreast * across;
  for (let number = blockIdx.x; number < total; number += gridDim.x) {
    const split = idiv(number, down * across * sizes.batches);
    const matrix = idiv(number, down * breadth) % idiv(sizes.batches, abreast);
    const inMatrix = number % (down * breadth);
    const first = idiv(inMatrix, band * breadth) * band;
    const height = Math.min(band, down - first);
    const inBand = inMatrix - first * breadth;
    const row = (first + (inBand % height)) * rows;
    const tile = idiv(inBand, height);
    const batch = matrix * abreast + (abreast > 1 ? idiv(tile, across) : 0);
    const column = (abreast > 1 ? tile % across : tile) * columns;
    const from = split * share;
    body({ split, batch, row, column, from, end: Math.min(from + share, lengthOf(batch, context)) });
  }
}

/** Calls `body` for each stage along K of each tile of C, with the phase of its mbarriers. */
function eachStage(
  body: (stage: number, phase: number, chunk: number, at: WarpgroupPlace) => void,
  context: PipelineContext,
): void {
  const { eachTile, idiv, work } = context;
  const { stages } = work;
  let stage = 0;
  let phase = 0;
  eachTile((at) => {
    for (let chunk = at.from; chunk < at.end; chunk++) {
      body(stage, phase, chunk, at);
      phase += idiv(stage + 1, stages);
      stage = (stage + 1) % stages;
    }
  }, context);
}

/** Has all tiles copied, one stage after the other as they are empty: by one thread. */
function copyStages(a: Memory, b: Memory, ring: Ring, context: PipelineContext): void {
  const { eachStage, load, loadServed, waitBarrier, work } = context;
  const { steps } = work.served;
  let count = 0;
  eachStage((stage, phase, chunk, at) => {
    if (steps > 1 && chunk % steps === 0) {
      loadServed(a, ring, count, chunk, at, context);
      count += 1;
    }
    waitBarrier(ring.empty, stage, phase + 1);
    load(a, b, ring, stage, phase, chunk, at, context);
  }, context);
}

/** The term of a stage along K, and where in it the stage begins. */
function startOf(
  chunk: number,
  { idiv, work }: PipelineContext,
): { readonly term: number; readonly k: number } {
  const { chunks, depth, oneTerm, served } = work;
  const { steps } = served;
  return {
    term: oneTerm ? 0 : idiv(chunk, steps * chunks) * steps + (chunk % steps),
    k: (oneTerm ? chunk : idiv(chunk, steps) % chunks) * depth,
  };
}

/** Starts to copy a tile of A that serves several stages, as soon as there is room. @param count such tiles before */
function loadServed(
  a: Memory,
  { as, fullA, emptyA }: Ring,
  count: number,
  chunk: number,
  at: WarpgroupPlace,
  context: PipelineContext,
): void {
  const { arriveExpect, idiv, loadA, startOf, waitBarrier, work } = context;
  const { ring } = work.served;
  const { term, k } = startOf(chunk, context);
  const stage = count % ring;
  waitBarrier(emptyA, stage, idiv(count, ring) + 1);
  arriveExpect(fullA, stage, work.a.panels * work.a.rows * 128);
  loadA(as, a, work.a, { batch: at.batch, term, along: at.row, k }, fullA, stage, context);
}

/** Starts to copy the tiles of one stage along K. */
function load(
  a: Memory,
  b: Memory,
  ring: Ring,
  stage: number,
  phase: number,
  chunk: number,
  at: WarpgroupPlace,
  context: PipelineContext,
): void {
  const { arriveExpect, loadA, loadB, startOf, work } = context;
  const { rows, served, stays } = work;
  const { as, bs, full } = ring;
  const { term, k } = startOf(chunk, context);
  const ofA = served.steps > 1 ? 0 : rows;
  const ofB = work.b.panels * work.b.rows;
  const copyB = () =>
    loadB(bs, b, work.b, { batch: at.batch, term, along: at.column, k }, full, stage, context);
  if (stays) arriveExpect(full, stage, (ofA + (phase === 0 ? ofB : 0)) * 128);
  else arriveExpect(full, stage, (ofA + ofB) * 128);
  if (served.steps === 1)
    loadA(as, a, work.a, { batch: at.batch, term, along: at.row, k }, full, stage, context);
  if (!stays) copyB();
  else if (phase === 0) copyB();
}

/**
 * The stages in shared memory, and the mbarriers that say which are full, whose B is turned or split, and which are empty again;
 * and which warpgroup's turn it is to multiply, if they take tiles by turns, or batches.
 */
export interface Ring {
  readonly as: Memory;
  readonly bs: Memory;
  /** The low parts of B, if it is split. */
  readonly lows: Memory;
  readonly full: Memory;
  readonly turned: Memory;
  readonly empty: Memory;
  readonly order: Memory;
  /** Of the ring of A, if its tiles serve several stages: else they are with those of B. */
  readonly fullA: Memory;
  readonly emptyA: Memory;
}

/** The ring, in shared memory. */
function makeRing({ dtype, mbarriers, sharedTile, work }: PipelineContext): Ring {
  const { a, b, columns, depth, groups, served, split, stages, together } = work;
  const as = sharedTile(dtype, served.steps > 1 ? served.ring : stages, a.panels, a.rows, depth);
  const bs = sharedTile(dtype, stages, b.panels, b.rows, depth);
  const lows = split ? sharedTile(dtype, stages, 1, columns, depth) : bs;
  const full = mbarriers(stages);
  const empty = mbarriers(stages);
  const turned = b.turned || split ? mbarriers(stages) : full;
  const order = together < groups || (split && groups > 1) ? mbarriers(2) : full;
  const fullA = served.steps > 1 ? mbarriers(served.ring) : full;
  const emptyA = served.steps > 1 ? mbarriers(served.ring) : empty;
  return { as, bs, lows, full, turned, empty, order, fullA, emptyA };
}

/** Says how many arrivals each mbarrier waits for. */
function initBarriers(
  { full, turned, empty, order, fullA, emptyA }: Ring,
  beside: Beside,
  { initBarrier, work }: PipelineContext,
): void {
  const { b, columnSums, groups, served, split, stages, together, turners } = work;
  for (let s = 0; s < stages; s++) {
    initBarrier(full, s, 1);
    // Of each warp that multiplies them.
    initBarrier(empty, s, together * 4);
    if (b.turned || split) initBarrier(turned, s, turners);
  }
  if (served.steps > 1)
    for (let s = 0; s < served.ring; s++) {
      initBarrier(fullA, s, 1);
      initBarrier(emptyA, s, together * 4);
    }
  if (together < groups || (split && groups > 1)) for (let g = 0; g < groups; g++) initBarrier(order, g, 4);
  if (work.beside > 0)
    for (let s = 0; s < work.brought * groups; s++) {
      initBarrier(beside.full, s, 1);
      // Of each warp that sums columns of them, or of the warpgroup.
      initBarrier(beside.empty, s, columnSums > 0 ? 4 : 1);
    }
}

/**
 * Exchanges rows and columns of B's panels of 32 × 32 where they lie, by the warps that share them. A lane takes blocks of 4 × 4:
 * those that eight lanes read or write at a time lie in different banks, and those of half a panel change places with each
 * other. A warp reads several halves before it stores the first.
 */
function turn(
  bs: Memory,
  stage: number,
  warp: number,
  keep: (column: number, k: number, v: number) => void,
  context: PipelineContext,
): void {
  const { f32, groupBarrier, idiv, lane, laneId, load4, local4, vec4, warpId, work, WARPS } = context;
  const { halvesAtOnce, turners } = work;
  const halves = 2 * work.b.boxes;
  const down = laneId % 8;
  const held = local4(f32, 4 * halvesAtOnce);
  for (let first = warp; first < halves; first += halvesAtOnce * turners) {
    for (let n = 0; n < halvesAtOnce; n++) {
      const half = first + n * turners;
      const across = down ^ (idiv(laneId, 8) + 4 * (half % 2));
      if (halvesAtOnce === 1 || half < halves)
        for (let i = 0; i < 4; i++)
          held[4 * n + i] = load4(bs, stage, 0, 32 * idiv(half, 2) + 4 * down + i, 4 * across);
    }
    groupBarrier(WARPS + warpId, 32);
    for (let n = 0; n < halvesAtOnce; n++) {
      const half = first + n * turners;
      const across = down ^ (idiv(laneId, 8) + 4 * (half % 2));
      if (halvesAtOnce === 1 || half < halves) {
        const v = held[4 * n]!;
        const w = held[4 * n + 1]!;
        const x = held[4 * n + 2]!;
        const y = held[4 * n + 3]!;
        for (let i = 0; i < 4; i++) {
          const turned = vec4(lane(v, i), lane(w, i), lane(x, i), lane(y, i));
          keep(32 * idiv(half, 2) + 4 * across + i, 4 * down, turned);
        }
      }
    }
  }
}

/** Turns B, or splits it, stage by stage: by the last warps of the producer's, which others of them pass over. */
function prepareStages(ring: Ring, context: PipelineContext): void {
  const { arrive, eachStage, fenceAsync, groupBarrier, idiv, splitB, store4, threadIdx, turn } = context;
  const { waitBarrier, warpId, work, THREADS, WARPS } = context;
  const { b, groups, split, turners } = work;
  const { bs, full, turned } = ring;
  const warp = idiv(threadIdx.x - groups * THREADS, 32) - (4 - turners);
  if ((b.turned || split) && warp >= 0)
    eachStage((stage, phase, _chunk, _at) => {
      waitBarrier(full, stage, phase);
      const keep = (column: number, k: number, v: number) => store4(bs, stage, 0, column, k, v);
      if (split) splitB(ring, stage, warp, context);
      else turn(bs, stage, warp, keep, context);
      fenceAsync();
      groupBarrier(WARPS + warpId, 32);
      if (threadIdx.x % 32 === 0) arrive(turned, stage);
    }, context);
}

/**
 * Reads a warpgroup's rows of A that lie across K, as wgmma takes a left operand in registers. The products of the stage before
 * are awaited first, since they read the words: were others read meanwhile, ptxas (13.0) would give both the same registers.
 * A thread's two rows are neighbours in memory (`rowInTile`): the words that half a warp reads at a time lie in different banks.
 */
function readTurned(words: Memory, as: Memory, stage: number, group: number, context: PipelineContext): void {
  const { bitcast, groupBarrier, idiv, lane, load2, rowInTile, threadIdx, u32, waitWgmma, warpId } = context;
  const { work, ROWS, THREADS, WARPS } = context;
  const { depth, each, step, together } = work;
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
 * @param of the stage of A @param first of its rows
 */
function multiply(
  sums: Memory,
  words: Memory,
  ring: Ring,
  of: number,
  first: number,
  stage: number,
  group: number,
  context: PipelineContext,
): void {
  const { commitWgmma, fenceWgmma, idiv, wgmma, work, ROWS } = context;
  const { a, b, depth, each, filled, served, step, together, viewColumns, views } = work;
  const { as, bs } = ring;
  const bAlongK = b.k || b.turned;
  fenceWgmma(sums);
  if (a.turned) fenceWgmma(words);
  for (let k = 0; k < filled; k += step) {
    for (let e = 0; e < each; e++) {
      const part = ((group % together) * each + e) * ROWS;
      const panel = a.panels > 1 ? idiv(part, served.rows) : 0;
      const row = first + (a.panels > 1 ? part % served.rows : part);
      for (let v = 0; v < views.count; v++) {
        const to = e * views.count + v;
        const behind = v * views.by + k;
        // What is turned has the columns of so many steps along K, and below them those of the next.
        const turnedRow = idiv(behind, depth) * viewColumns;
        const inTurned = behind % depth;
        if (a.turned) wgmma(sums, to, words, idiv(e * depth + k, step), bs, stage, 0, turnedRow, inTurned);
        else if (a.k && bAlongK) wgmma(sums, to, as, of, panel, row, k, bs, stage, 0, 0, k);
        else if (a.k) wgmma(sums, to, as, of, panel, row, k, bs, stage, 0, k, 0, false, true);
        else if (bAlongK) wgmma(sums, to, as, of, idiv(part, depth), k, 0, bs, stage, 0, 0, k, true);
        else wgmma(sums, to, as, of, idiv(part, depth), k, 0, bs, stage, 0, behind, 0, true, true);
      }
    }
  }
  commitWgmma();
}

/** The device functions, as constants of a kernel. */
export const PIPELINE = {
  ...{
    makeRing,
    initBarriers,
    eachTile,
    eachStage,
    lengthOf,
    copyStages,
    startOf,
    load,
    loadServed,
    loadQuads,
    prepareStages,
    turn,
  },
  ...{ readTurned, multiply },
};
