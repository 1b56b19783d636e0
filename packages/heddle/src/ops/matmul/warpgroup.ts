/**
 * Matrix product by warpgroups, for GPUs of compute capability 9.0: 16-bit floats, and f32 as tf32. Sums are f32.
 *
 * Blocks stay on their multiprocessor and take one tile of C after the other. One thread, the producer, has the copy engine
 * bring tiles of A and B into a ring of stages; the warpgroups behind it multiply them where they lie (wgmma), 64 rows each at a
 * time. Whoever is done with a stage says so at its mbarrier, so that nobody waits for the block: copies run ahead over the
 * end of a tile of C, while its sums are still finished and stored. Those go by way of a tile for each warpgroup, from which
 * the copy engine takes them, so that a warpgroup goes on without waiting for memory.
 */
import { type DType, f32, isHalf } from '../../core/dtype.js';
import { wgmmaDepth } from '../../kernel/ir/asynchronous.js';
import type { IrFunction } from '../../kernel/ir/ir-function.js';
import { type BufferSchema, tensorMap } from '../../kernel/ir/types.js';
import {
  asCast,
  type Cast,
  defineKernel,
  type Intrinsics,
  type Memory,
} from '../../kernel/language/language.js';
import type { GridKernel } from '../tiled.js';
import type { MatmulProblem, OperandLayout } from './cpu.js';

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
}

/** Bytes of a row of a tile. */
const ROW = 128;
const ROWS = 64;
const THREADS = 128;

/** Registers of a thread that copies, and of one that multiplies beside another warpgroup: as many as a block has. */
const REGISTERS = { producer: 40, consumer: 232 } as const;

/** How an operand lies for the copy engine: along K, or along its rows; undefined if it does not take it. */
interface Along {
  readonly k: boolean;
  readonly pitch: number;
  /** Elements from a batch to the next, 0 if all are the same. */
  readonly batchStride: number;
}

/** @param size rows of the operand: of A, or columns of B */
function alongOf(x: OperandLayout, inner: number, size: number, dtype: DType): Along | undefined {
  const batches = collapsed(x);
  if (batches === undefined) return undefined;
  const aligned = (n: number): boolean => (n * dtype.bytes) % 16 === 0;
  if (!aligned(batches) || !aligned(x.offset)) return undefined;
  const lies = (step: number, pitch: number, along: number): boolean =>
    (step === 1 || along === 1) && pitch > 0 && aligned(pitch);
  if (lies(x.columnStride, x.rowStride, inner)) return { k: true, pitch: x.rowStride, batchStride: batches };
  if (isHalf(dtype) && lies(x.rowStride, x.columnStride, size))
    return { k: false, pitch: x.columnStride, batchStride: batches };
  return undefined;
}

/** The stride of all leading dimensions as one; undefined if they are not one. */
function collapsed({ batch, batchStrides }: OperandLayout): number | undefined {
  let [stride, next] = [0, 0];
  for (let d = batch.length - 1; d >= 0; d--) {
    if (batch[d] === 1) continue;
    if (next === 0) stride = batchStrides[d]!;
    else if (batchStrides[d] !== next) return undefined;
    next = batchStrides[d]! * batch[d]!;
    if (stride === 0 && next !== 0) return undefined;
  }
  return stride;
}

/** B with rows and columns exchanged. */
const transposed = (x: OperandLayout): OperandLayout => ({
  ...x,
  rowStride: x.columnStride,
  columnStride: x.rowStride,
});

/** Whether warpgroups can multiply it. */
export const suitsWarpgroups = (p: MatmulProblem, dtype: DType): boolean =>
  alongOf(p.a, p.K, p.M, dtype) !== undefined &&
  alongOf(transposed(p.b), p.K, p.N, dtype) !== undefined &&
  (p.N * dtype.bytes) % 16 === 0;

/** Steps along K of a stage. */
export const depthOf = (dtype: DType): number => ROW / dtype.bytes;

export const rowsOf = ({ groups, each }: Pick<WarpgroupTile, 'groups' | 'each'>): number =>
  ROWS * groups * each;

/** Bytes of shared memory: the stages, and two tiles of sums for each warpgroup. */
export const warpgroupBytes = (tile: WarpgroupTile): number =>
  tile.stages * (rowsOf(tile) + tile.columns) * ROW + tile.groups * 2 * ROWS * ROW;

/** An operand's tiles in shared memory, (stage, panel, row, column), and its map, (batch, row, column). */
interface OperandTiles {
  readonly schema: BufferSchema;
  readonly panels: number;
  readonly rows: number;
  /** Whether a row is along K. */
  readonly k: boolean;
  readonly batched: boolean;
}

interface OperandSizes {
  readonly batches: number;
  /** Rows of A, columns of B. */
  readonly size: number;
  readonly inner: number;
  /** Of a tile. */
  readonly along: number;
  readonly dtype: DType;
}

function tilesOf(x: OperandLayout, { batches, size, inner, along, dtype }: OperandSizes): OperandTiles {
  const { k, pitch, batchStride } = alongOf(x, inner, size, dtype)!;
  const depth = depthOf(dtype);
  const batched = batchStride > 0 && batches > 1;
  const [outer, row] = k ? [size, inner] : [inner, size];
  const sizes = [batched ? batches : 1, outer, row];
  const strides = [batched ? batchStride : pitch, pitch, 1];
  const box = [1, k ? along : depth, depth];
  return {
    schema: tensorMap(dtype, { sizes, strides, box, offset: x.offset, tf32: dtype === f32 }),
    panels: k ? 1 : along / depth,
    rows: k ? along : depth,
    k,
    batched,
  };
}

/** All that the device functions have to know when the kernel is compiled. */
interface WarpgroupWork {
  readonly sizes: { readonly M: number; readonly N: number; readonly batches: number };
  readonly groups: number;
  readonly each: number;
  readonly stages: number;
  /** Of a tile of C, and of all of them. */
  readonly rows: number;
  readonly columns: number;
  readonly down: number;
  readonly across: number;
  /** Tiles are taken band by band, and in a band of so many rows of tiles column by column. */
  readonly band: number;
  readonly splits: number;
  readonly total: number;
  /** Along K: stages of the product, and of a block that shares it; steps of a stage, and of one wgmma. */
  readonly chunks: number;
  readonly share: number;
  readonly depth: number;
  readonly step: number;
  /** Of the tiles that C goes by way of: columns, and how many make a tile of C. */
  readonly width: number;
  readonly panels: number;
  readonly a: Omit<OperandTiles, 'schema'>;
  readonly b: Omit<OperandTiles, 'schema'>;
  readonly inParts: boolean;
}

interface Context extends Intrinsics {
  readonly work: WarpgroupWork;
  readonly cast: Cast<'f32'>;
  readonly finish: IrFunction;
  readonly out: DType;
  readonly ROWS: number;
  readonly THREADS: number;
  readonly eachTile: typeof eachTile;
  readonly load: typeof load;
  readonly multiply: typeof multiply;
  readonly storeSums: typeof storeSums;
}

/** The part of the product that a block works on: where its tile of C begins, and its stages along K. */
interface WarpgroupPlace {
  readonly split: number;
  readonly batch: number;
  readonly row: number;
  readonly column: number;
  readonly from: number;
  readonly end: number;
}

/** Calls `body` for each tile of C that the block takes. */
function eachTile(body: (at: WarpgroupPlace) => void, context: Context): void {
  const { blockIdx, gridDim, idiv, work } = context;
  const { across, band, chunks, columns, down, rows, share, sizes, total } = work;
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
    body({ split, batch, row, column, from, end: Math.min(from + share, chunks) });
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
  context: Context,
): void {
  const { arriveExpect, tmaLoad, work } = context;
  const { columns, depth, rows } = work;
  const { as, bs, full } = ring;
  const k = chunk * depth;
  const inA = work.a.batched ? at.batch : 0;
  const inB = work.b.batched ? at.batch : 0;
  arriveExpect(full, stage, (rows + columns) * 128);
  if (work.a.k) tmaLoad(as, stage, 0, 0, 0, a, inA, at.row, k, full, stage);
  else
    for (let i = 0; i < work.a.panels; i++)
      tmaLoad(as, stage, i, 0, 0, a, inA, k, at.row + i * depth, full, stage);
  if (work.b.k) tmaLoad(bs, stage, 0, 0, 0, b, inB, at.column, k, full, stage);
  else
    for (let i = 0; i < work.b.panels; i++)
      tmaLoad(bs, stage, i, 0, 0, b, inB, k, at.column + i * depth, full, stage);
}

/** The stages in shared memory, and the mbarriers that say which are full, and which are empty again. */
interface Ring {
  readonly as: Memory;
  readonly bs: Memory;
  readonly full: Memory;
  readonly empty: Memory;
}

/** Starts to add the products of one stage to the sums of a warpgroup. */
function multiply(sums: Memory, ring: Ring, stage: number, group: number, context: Context): void {
  const { commitWgmma, idiv, wgmma, work, ROWS } = context;
  const { a, b, depth, each, step } = work;
  const { as, bs } = ring;
  for (let k = 0; k < depth; k += step) {
    for (let e = 0; e < each; e++) {
      const part = (group * each + e) * ROWS;
      if (a.k && b.k) wgmma(sums, e, as, stage, 0, part, k, bs, stage, 0, 0, k);
      else if (a.k) wgmma(sums, e, as, stage, 0, part, k, bs, stage, 0, k, 0, false, true);
      else if (b.k) wgmma(sums, e, as, stage, idiv(part, depth), k, 0, bs, stage, 0, 0, k, true);
      else wgmma(sums, e, as, stage, idiv(part, depth), k, 0, bs, stage, 0, k, 0, true, true);
    }
  }
  commitWgmma();
}

/**
 * Finishes the sums of a warpgroup, and lets the copy engine store them: two tiles of `cs` take turns. All values of a tile
 * are finished before the first is stored, without branches, so that their instructions overlap.
 */
function storeSums(
  c: Memory,
  sums: Memory,
  cs: Memory,
  group: number,
  at: WarpgroupPlace,
  context: Context,
): void {
  const { fenceAsync, groupBarrier, idiv, lane, local, store2, threadIdx, vec2 } = context;
  const { tmaCommit, tmaStore, tmaWait } = context;
  const { cast, finish, out, work, ROWS, THREADS } = context;
  const { across, columns, down, each, inParts, panels, rows, sizes, width } = work;
  const thread = threadIdx.x % THREADS;
  const inTile = 16 * idiv(thread, 32) + idiv(thread % 32, 4);
  const top = at.row + group * each * ROWS;
  const values = local(out, idiv(width, 2));
  for (let e = 0; e < each; e++) {
    for (let panel = 0; panel < panels; panel++) {
      for (let i = 0; i < idiv(width, 8); i++) {
        const of = 4 * (panel * idiv(width, 8) + i);
        const column = at.column + panel * width + 8 * i + 2 * (thread % 4);
        for (let half = 0; half < 2; half++) {
          const row = top + e * ROWS + inTile + 8 * half;
          const v = vec2(sums[e][of + 2 * half], sums[e][of + 2 * half + 1]);
          if (inParts) {
            values[4 * i + 2 * half] = lane(v, 0);
            values[4 * i + 2 * half + 1] = lane(v, 1);
          } else {
            // What lies beyond the matrix is not stored; the last row and columns stand for it.
            const y = down * rows > sizes.M ? Math.min(row, sizes.M - 1) : row;
            const x = across * columns > sizes.N ? Math.min(column, sizes.N - 2) : column;
            const finished = finish(cast(v), at.batch, y, x);
            values[4 * i + 2 * half] = lane(finished, 0);
            values[4 * i + 2 * half + 1] = lane(finished, 1);
          }
        }
      }
      const held = (e * panels + panel) % 2;
      // The copy engine has read the tile that comes now.
      if (thread === 0) {
        if ((each * panels) % 2 === 0) tmaWait(1);
        else tmaWait(0);
      }
      groupBarrier(1 + group, THREADS);
      for (let i = 0; i < idiv(width, 8); i++) {
        for (let half = 0; half < 2; half++) {
          const v = vec2(values[4 * i + 2 * half], values[4 * i + 2 * half + 1]);
          store2(cs, group, held, inTile + 8 * half, 8 * i + 2 * (thread % 4), v);
        }
      }
      fenceAsync();
      groupBarrier(1 + group, THREADS);
      if (thread === 0) {
        const to = inParts ? at.split * sizes.batches + at.batch : at.batch;
        tmaStore(c, to, top + e * ROWS, at.column + panel * width, cs, group, held, 0, 0);
        tmaCommit();
      }
    }
  }
}

/** The device functions, as constants of a kernel. */
const FUNCTIONS = { eachTile, load, multiply, storeSums };

/**
 * The product, or if blocks share K its parts in f32: (split, batch, row, column).
 * @param dtype of the matrices
 * @param units multiprocessors: so many blocks take all tiles
 */
export function matmulWarpgroups(
  p: MatmulProblem,
  tile: WarpgroupTile,
  dtype: DType,
  units: number,
): GridKernel {
  const { M, N, K, batches } = p;
  const { groups, splits } = tile;
  const a = tilesOf(p.a, { batches, size: M, inner: K, along: rowsOf(tile), dtype });
  const b = tilesOf(transposed(p.b), { batches, size: N, inner: K, along: tile.columns, dtype });
  const inParts = splits > 1;
  const out = inParts ? f32 : dtype;
  const work = workOf(p, tile, { a, b, dtype, out, units });
  const kernel = defineKernel(
    `matmulWarpgroups${inParts ? 'Parts' : ''}`,
    {
      a: a.schema,
      b: b.schema,
      c: tensorMap(out, { sizes: [splits * batches, M, N], box: [1, ROWS, work.width] }),
    },
    ({ a, b, c }, context) => {
      const { arrive, barrier, f32, idiv, initBarrier, local, mbarriers, sharedTile, threadIdx } = context;
      const { fenceWgmma, lowerRegisters, raiseRegisters, tmaWait, waitBarrier, waitWgmma } = context;
      const { dtype, eachTile, load, multiply, out, storeSums, work, REGISTERS, ROWS, THREADS } = context;
      const { columns, depth, each, groups, stages, width } = work;
      const as = sharedTile(dtype, stages, work.a.panels, work.a.rows, depth);
      const bs = sharedTile(dtype, stages, work.b.panels, work.b.rows, depth);
      const cs = sharedTile(out, groups, 2, ROWS, width);
      const full = mbarriers(stages);
      const empty = mbarriers(stages);
      const ring = { as, bs, full, empty };
      if (threadIdx.x === 0) {
        for (let s = 0; s < stages; s++) {
          initBarrier(full, s, 1);
          // Of each warp that multiplies.
          initBarrier(empty, s, groups * 4);
        }
      }
      barrier();
      const group = idiv(threadIdx.x, THREADS);
      let stage = 0;
      let phase = 0;
      if (group === groups) {
        if (groups === 2) lowerRegisters(REGISTERS.producer);
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
      } else {
        if (groups === 2) raiseRegisters(REGISTERS.consumer);
        const isFirstLane = threadIdx.x % 32 === 0;
        const sums = local(f32, each, idiv(columns, 2));
        eachTile((at) => {
          for (let e = 0; e < each; e++) for (let i = 0; i < idiv(columns, 2); i++) sums[e][i] = 0;
          fenceWgmma(sums);
          let before = 0;
          for (let chunk = at.from; chunk < at.end; chunk++) {
            waitBarrier(full, stage, phase);
            multiply(sums, ring, stage, group, context);
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
          storeSums(c, sums, cs, group, at, context);
        }, context);
        if (threadIdx.x % THREADS === 0) tmaWait(0);
      }
    },
    { ...FUNCTIONS, dtype, out, work, REGISTERS, ROWS, THREADS, cast: asCast(dtype), finish: p.finish },
  );
  return {
    kernel,
    grid: [Math.min(work.total, units), 1, 1],
    threads: (groups + 1) * THREADS,
    sharedBytes: 0,
  };
}

interface Kept {
  readonly a: OperandTiles;
  readonly b: OperandTiles;
  readonly dtype: DType;
  readonly out: DType;
  readonly units: number;
}

function workOf({ M, N, K, batches }: MatmulProblem, tile: WarpgroupTile, kept: Kept): WarpgroupWork {
  const { columns, splits } = tile;
  const { a, b, dtype, out, units } = kept;
  const rows = rowsOf(tile);
  const depth = depthOf(dtype);
  const width = ROW / out.bytes;
  const down = Math.ceil(M / rows);
  const across = Math.ceil(N / columns);
  const chunks = Math.ceil(K / depth);
  return {
    ...tile,
    ...{ rows, down, across, chunks, depth, width },
    sizes: { M, N, batches },
    // Blocks that run together read about as many rows of A as columns of B.
    band: Math.min(down, 2 ** Math.round(Math.log2(Math.sqrt((units * columns) / rows)))),
    total: down * across * batches * splits,
    share: Math.ceil(chunks / splits),
    step: wgmmaDepth(dtype.bytes),
    panels: columns / width,
    a: { panels: a.panels, rows: a.rows, k: a.k, batched: a.batched },
    b: { panels: b.panels, rows: b.rows, k: b.k, batched: b.batched },
    inParts: splits > 1,
  };
}
