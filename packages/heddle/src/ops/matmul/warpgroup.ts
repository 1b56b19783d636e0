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
 * limits such a product, and this way it gives and takes each element of A once, and of B twice more than wgmma reads. So where
 * B alone lies across K, the transpose of C is computed, whose left operand it is. f32 at the accuracy of f32 goes the same ways
 * and is split on them (warpgroup-split.ts).
 */
import { type DType, f32, i8, i32 } from '../../core/dtype.js';
import type { ColumnSums, Stage, StageArgument } from '../../graph/fused-op.js';
import { wgmmaDepth } from '../../kernel/ir/asynchronous.js';
import { type BufferSchema, buffer } from '../../kernel/ir/types.js';
import { asCast, type Constants, defineKernel } from '../../kernel/language/language.js';
import { gridStage } from '../stage.js';
import type { GridKernel } from '../tiled.js';
import {
  depthOf,
  ROWS,
  rowsOf,
  THREADS,
  togetherOf,
  usedColumns,
  type WarpgroupTile,
  widthOf,
} from './warpgroup-layout.js';
import { PIPELINE, type WarpgroupOperand, type WarpgroupWork } from './warpgroup-pipeline.js';
import {
  epilogueOf,
  isFreeEpilogue,
  RESULT,
  type TileEpilogue,
  type WarpgroupPlace,
  type WarpgroupResult,
} from './warpgroup-result.js';
import { type PlainOperands, SPLIT_PRODUCTS } from './warpgroup-split.js';

/** Registers of a thread that copies, turns or splits B, and of one that multiplies. */
interface Registers {
  readonly producer: number;
  readonly consumer: number;
}

/**
 * What three warpgroups have at the start, 168 each, is shared anew: `raiseRegisters` waits until others have left as many as it
 * takes.
 */
const SHARED_REGISTERS = 3 * 168;
const SPLIT_REGISTERS: Registers = { producer: 56, consumer: 224 };
/** Of a thread that multiplies, beside sums and words of A. */
const BESIDE_SUMS = 72;

/** Those of threads that turn so many halves of panels at a time: 16 numbers of each. */
function registersFor(halves: number): Registers {
  const producer = halves > 1 ? 32 + 16 * halves : 40;
  return { producer, consumer: Math.min(232, 8 * Math.floor((SHARED_REGISTERS - producer) / 16)) };
}

/** More halves than this are turned one by one: their numbers would be more registers than a thread that turns may have. */
const MOST_HALVES = 3;

/**
 * All halves that a warp has of a stage, if there are few and those that multiply keep enough registers; else one. On an H200
 * (2026-11-27) three at once make a weight gradient 4 to 8 % faster, but three and then one slower than four one by one.
 */
function halvesAtOnce(halves: number, turners: number, multiplying: number, groups: number): number {
  const each = Math.ceil(halves / turners);
  const fits = groups === 1 || registersFor(each).consumer >= multiplying + BESIDE_SUMS;
  return each <= MOST_HALVES && fits ? each : 1;
}

/** The barrier of the first warp, after those of the warpgroups. */
const WARPS = 3;

/** What products of operands of that dtype are summed in. */
const sumOf = (dtype: DType): DType => (dtype === i8 ? i32 : f32);

/** What the epilogue takes of them. */
const takenOf = (dtype: DType): DType => (dtype === i8 ? i32 : dtype);

/** C (batch, row, column) = sums over all terms and along K of A (row, k) · B (column, k). */
export interface WarpgroupProblem extends TileEpilogue {
  readonly name: string;
  readonly batches: number;
  /**
   * So many batches, one after the other, lie beside each other, in A as in C, as the groups of a convolution: their tiles are taken
   * as those of one matrix, whose lines of memory they share. Default: 1.
   */
  readonly abreast?: number;
  readonly M: number;
  readonly N: number;
  /** Of one term. */
  readonly K: number;
  /** Terms of each batch, or of each `abreast`, or of all of them: products that are added up, as those of a convolution's taps. */
  readonly terms: readonly number[];
  readonly a: WarpgroupOperand;
  readonly b: WarpgroupOperand;
  readonly result: WarpgroupResult;
  /** f32 is multiplied at the accuracy of f32 (warpgroup-split.ts): how elements are read one by one. Default: as tf32. */
  readonly split?: PlainOperands | undefined;
  /** What is stored (default: the operands' dtype). */
  readonly output?: DType | undefined;
  /** The result is parts even where blocks do not share K. Default: false. */
  readonly parts?: boolean;
  /** Sums of columns, of parts of 64 rows, that are wanted beside the one matrix, or all `abreast`. Default: none. */
  readonly sums?: ColumnSums | undefined;
  /** What the operands' and the result's device functions call. */
  readonly functions: Constants;
}

/** A kernel of warpgroups. Its parameters are A, B, C, and the matrices that the copy engine brings beside the sums. */
export interface WarpgroupKernel extends GridKernel {
  readonly beside: number;
  /** Its A is the second input. */
  readonly exchanged: boolean;
  /** It may also read A and B one by one: they are its last two parameters once more. */
  readonly split: boolean;
}

/** The launch of a kernel. @param to where it stores the result, or its parts */
export const warpgroupStage = (kernel: WarpgroupKernel, to: StageArgument = { output: true }): Stage =>
  gridStage(
    kernel,
    ...(kernel.exchanged ? [{ input: 1 }, { input: 0 }] : [{ input: 0 }, { input: 1 }]),
    to,
    ...[0, 1].slice(0, kernel.beside).map((beside) => ({ beside })),
    ...(kernel.split ? [{ input: 0 }, { input: 1 }] : []),
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
  const out = inParts ? sumOf(dtype) : (p.output ?? dtype);
  const work = workOf(p, tile, { dtype, out, inParts, units });
  const box = [ROWS / work.boxes, work.width] as const;
  const kernel = defineKernel(
    `${p.name}${inParts ? 'Parts' : ''}`,
    {
      ...{ a: a.schema, b: b.schema, c: result.schema(out, box) },
      ...(work.beside > 0 && { first: result.schema(out, box) }),
      ...(work.beside > 1 && { second: result.schema(out, box) }),
      ...(work.split && { x: buffer(f32), y: buffer(f32) }),
    } as Record<'a' | 'b' | 'c' | 'first' | 'second' | 'x' | 'y', BufferSchema>,
    (given, context) => {
      const { a, b, c } = given;
      const { arrive, barrier, clearSums, f32, idiv, initBarriers, local, mbarriers } = context;
      const { sharedTile, threadIdx, u32 } = context;
      const { lowerRegisters, raiseRegisters, tmaWait, waitBarrier, waitWgmma } = context;
      const { areFinite, copyStages, eachTile, loadBeside, makeRing, multiply, multiplySplit, out } = context;
      const { prepareStages, readTurned, storeSums, summed, sumPlainly } = context;
      const { work, REGISTERS, ROWS, THREADS } = context;
      const { depth, each, groups, level, served, split, stages, step, together, used, width } = work;
      const { viewColumns, views } = work;
      const ring = makeRing(context);
      const { as, full, turned, empty, order, fullA, emptyA } = ring;
      const isServed = served.steps > 1;
      const alternate = together < groups;
      const cs = sharedTile(out, groups, 2, ROWS, width);
      const hasBeside = work.beside > 0;
      const beside = {
        tiles: hasBeside ? sharedTile(out, work.beside * groups, work.brought, ROWS, width) : cs,
        full: hasBeside ? mbarriers(work.brought * groups) : full,
        empty: hasBeside ? mbarriers(work.brought * groups) : empty,
      };
      if (threadIdx.x === 0) initBarriers(ring, beside, context);
      barrier();
      const group = idiv(threadIdx.x, THREADS);
      let stage = 0;
      let phase = 0;
      let taken = 0;
      // Tiles of A that have served all of their stages, if these are several.
      let done = 0;
      const goOn = (count: number) => {
        phase += idiv(stage + count, stages);
        stage = (stage + count) % stages;
      };
      if (group === groups) {
        lowerRegisters(REGISTERS.producer);
        if (threadIdx.x === groups * THREADS) copyStages(a, b, ring, context);
        // Another warp, which may wait while the first one copies what comes after.
        if (hasBeside && threadIdx.x === groups * THREADS + 32) {
          const second = work.beside > 1 ? given.second : given.first;
          eachTile((at) => {
            loadBeside(given.first, second, beside, taken, at, context);
            taken += 1;
          }, context);
        }
        prepareStages(ring, context);
      } else {
        // The compiler lets products overlap only where each warpgroup says how many registers it has.
        if (groups === 2) raiseRegisters(REGISTERS.consumer);
        else lowerRegisters(REGISTERS.consumer);
        const isFirstLane = threadIdx.x % 32 === 0;
        const sums = local(summed, each * views.count, idiv(viewColumns, 2));
        const words = split ? sums : local(u32, each * idiv(depth, step), 4);
        const own = {
          batch: split ? local(f32, 1, idiv(used, 2)) : sums,
          high: split ? local(u32, idiv(level, step), 4) : words,
          low: split ? local(u32, idiv(level, step), 4) : words,
        };
        const sum = (at: WarpgroupPlace) => {
          if (split) {
            for (let n = 0; n < each * views.count; n++)
              for (let i = 0; i < idiv(viewColumns, 2); i++) sums[n][i] = 0;
            for (let chunk = at.from; chunk < at.end; chunk++) {
              multiplySplit(sums, own, ring, stage, phase, group, context);
              goOn(1);
            }
            if (!areFinite(sums, context)) sumPlainly(given.x, given.y, sums, group, at, context);
          } else {
            clearSums(sums);
            // When the other has its last stage: nobody can wait for the phase after the next.
            if (alternate) waitBarrier(order, group, taken + group + 1);
            let before = 0;
            let beforeOfA = 0;
            for (let chunk = at.from; chunk < at.end; chunk++) {
              const turn = chunk % served.steps;
              const of = isServed ? done % served.ring : stage;
              if (isServed && turn === 0) waitBarrier(fullA, of, idiv(done, served.ring));
              waitBarrier(full, stage, phase);
              if (work.a.turned) readTurned(words, as, stage, group, context);
              if (work.b.turned) waitBarrier(turned, stage, phase);
              multiply(sums, words, ring, of, served.from + turn * served.by, stage, group, context);
              // The products of the stage before are done.
              if (!work.a.turned) waitWgmma(sums, 1);
              if (chunk > at.from && isFirstLane) {
                arrive(empty, before);
                if (isServed && turn === 0) arrive(emptyA, beforeOfA);
              }
              before = stage;
              beforeOfA = of;
              goOn(1);
              if (isServed && turn === served.steps - 1) done += 1;
            }
            if (alternate && isFirstLane) arrive(order, 1 - group);
            waitWgmma(sums, 0);
            if (at.end > at.from && isFirstLane) {
              arrive(empty, before);
              if (isServed) arrive(emptyA, beforeOfA);
            }
          }
          storeSums(c, sums, cs, beside, group, taken, at, context);
          taken += 1;
        };
        let number = 0;
        eachTile((at) => {
          // Stages of the other warpgroup's tiles are passed over.
          if (alternate && number % 2 !== group) {
            const passed = Math.max(at.end - at.from, 0);
            goOn(passed);
            if (isServed) done += idiv(passed, served.steps);
          } else sum(at);
          number += 1;
        }, context);
        if (threadIdx.x % THREADS === 0) tmaWait(0);
      }
    },
    constantsOf(p, work, { dtype, out }),
  );
  return {
    kernel,
    grid: [Math.min(work.total, units), 1, 1],
    threads: (groups + 1) * THREADS,
    sharedBytes: 0,
    beside: work.beside,
    exchanged: work.exchanged,
    split: work.split,
  };
}

/** What the kernel is compiled with: sizes, and the device functions of all its parts. */
function constantsOf(p: WarpgroupProblem, work: WarpgroupWork, { dtype, out }: Pick<Kept, 'dtype' | 'out'>) {
  const { a, b, finish, functions, result, split, sums } = p;
  const summed = sumOf(dtype);
  return {
    ...{ ...PIPELINE, ...RESULT, ...SPLIT_PRODUCTS },
    ...{ dtype, summed, out, work, ROWS, THREADS, WARPS },
    REGISTERS: split ? SPLIT_REGISTERS : registersFor(work.halvesAtOnce),
    ...{ cast: asCast(takenOf(dtype)), stored: asCast(out), ...epilogueOf(p, work) },
    ...{ term: sums?.term ?? finish, storeColumnSums: sums?.store ?? finish },
    ...functions,
    ...split,
    ...{ loadA: a.load, loadB: b.load, finishAt: result.finishAt, storeTile: result.storeTile },
    ...(result.loadTile && { loadTile: result.loadTile }),
  };
}

/** Whether the copy engine stores rows of so many columns. */
export const isCopied = (out: DType, columns: number): boolean =>
  out.kind !== 'bool' && out.bytes <= 4 && (columns * out.bytes) % 16 === 0;

interface Kept {
  readonly dtype: DType;
  readonly out: DType;
  readonly inParts: boolean;
  readonly units: number;
}

function workOf(p: WarpgroupProblem, tile: WarpgroupTile, kept: Kept): WarpgroupWork {
  const { dtype, out, inParts, units } = kept;
  const { M, N, abreast = 1, batches } = p;
  const { columns, exchanged = false, splits } = tile;
  const rows = rowsOf(tile);
  const [height, breadth] = exchanged ? [N, M] : [M, N];
  const depth = depthOf(dtype);
  const step = wgmmaDepth(dtype.bytes);
  const used = p.split ? columns : usedColumns(columns, breadth, dtype);
  const width = exchanged ? widthOf(ROWS, out) : widthOf(columns, out, used);
  const down = Math.ceil(height / rows);
  const across = Math.ceil(breadth / columns);
  const chunks = Math.ceil(p.K / depth);
  const beside = inParts || !p.result.loadTile ? 0 : (tile.beside ?? 0);
  const lengths = p.terms.map((n) => n * chunks);
  const { served = { steps: 1, ring: 0, rows, from: 0, by: 0 } } = p.a;
  const { views = { count: 1, by: 0 } } = p.b;
  const isOneB = across === 1 && batches === 1 && splits === 1;
  const filled = Math.min(depth, Math.ceil(p.K / step) * step);
  const levels = inParts ? [] : (p.sums?.levels ?? []);
  const panels = Math.ceil(used / width);
  // Columns of all tiles across that are computed.
  const computed = across === 1 ? used : across * columns;
  const hasAllColumns = (exchanged ? down * rows : computed) === N;
  const biased = !inParts && p.bias !== undefined && hasAllColumns;
  const lanes = p.b.quads ? 4 : 2;
  const turners = beside > 0 ? 2 : 3;
  const words = p.a.tiles.turned ? (depth / step) * 4 : 0;
  const multiplying = tile.each * (used / 2 + words);
  const halves = p.b.tiles.turned && !p.split ? 2 * p.b.tiles.boxes : 1;
  return {
    ...tile,
    ...{ rows, down, across, abreast, chunks, lengths, depth, oneTerm: Math.max(...p.terms) === 1 },
    ...{ width, pitch: width * out.bytes, boxes: exchanged ? ROWS / width : 1 },
    sizes: { M, N, batches },
    exchanged,
    isWhole: down * rows === height && computed === breadth,
    isFree:
      !inParts &&
      isFreeEpilogue(p, { beside, biased, lanes }, { taken: takenOf(dtype), out, columns: hasAllColumns }),
    // Blocks that run together read about as many rows of A as columns of B.
    band: Math.min(down, 2 ** Math.round(Math.log2(Math.sqrt((units * columns) / rows)))),
    total: down * across * batches * splits,
    share: Math.ceil(Math.max(...lengths) / served.steps / splits) * served.steps,
    ...{ step, filled, served },
    stays: isOneB && !p.b.tiles.turned && p.split === undefined && tile.stages % lengths[0]! === 0,
    ...{ used, panels, views, viewColumns: used / views.count },
    a: p.a.tiles,
    b: p.b.tiles,
    // The code of other kernels is short enough without a loop, and instructions of one tile overlap with those of the next.
    isLoop: (levels.length > 0 || p.split !== undefined) && used % width === 0 && tile.each * panels > 1,
    c: p.result.places,
    inParts,
    beside,
    brought: tile.held ?? 2,
    biased,
    ...{ levels, columnSums: levels.flat().length },
    ...{ turners, halvesAtOnce: halvesAtOnce(halves, turners, multiplying, tile.groups) },
    ...{ split: p.split !== undefined, level: Math.min(tile.level ?? depth, filled), inner: p.K },
    together: togetherOf(tile),
    paired: p.a.tiles.turned,
    lanes,
  };
}
