/** Matrix products by warpgroups: batches, every layout that the copy engine takes. */
import { type DType, f32 } from '../../core/dtype.js';
import { tensorMap } from '../../kernel/ir/types.js';
import type { Memory } from '../../kernel/language/language.js';
import type { MatmulProblem, OperandLayout } from './cpu.js';
import { startOf } from './cuda-panel.js';
import { byWarpgroups, isCopied, type WarpgroupKernel, type WarpgroupProblem } from './warpgroup.js';
import {
  asQuads,
  depthOf,
  type OperandTiles,
  quadMap,
  rowsOf,
  type Turned,
  tilesOf,
  type WarpgroupTile,
} from './warpgroup-layout.js';
import type { OperandStart, PipelineContext, WarpgroupOperand } from './warpgroup-pipeline.js';
import type { MatrixPlace, SumsTile, WarpgroupPlace, WarpgroupResult } from './warpgroup-result.js';

/** Batches along one dimension, and elements from one to the next: 0 if all are the same. */
interface BatchAxis {
  readonly size: number;
  readonly stride: number;
}

/** How an operand lies for the copy engine: along K, or along its rows; undefined if it does not take it. */
interface Along {
  readonly k: boolean;
  readonly pitch: number;
  readonly batches: readonly BatchAxis[];
}

/** Dimensions of batches that the copy engine takes beside a matrix: those of a batch's heads are two. */
const BATCH_AXES = 2;

/** @param size rows of the operand: of A, or columns of B */
function alongOf(x: OperandLayout, inner: number, size: number, dtype: DType): Along | undefined {
  const batches = collapsed(x);
  const aligned = (n: number): boolean => (n * dtype.bytes) % 16 === 0;
  if (batches.length > BATCH_AXES || !batches.every(({ stride }) => aligned(stride)) || !aligned(x.offset))
    return undefined;
  const lies = (step: number, pitch: number, along: number): boolean =>
    (step === 1 || along === 1) && pitch > 0 && aligned(pitch);
  if (lies(x.columnStride, x.rowStride, inner)) return { k: true, pitch: x.rowStride, batches };
  if (lies(x.rowStride, x.columnStride, size)) return { k: false, pitch: x.columnStride, batches };
  return undefined;
}

/** The leading dimensions, as few as their strides allow. */
function collapsed({ batch, batchStrides }: OperandLayout): readonly BatchAxis[] {
  const axes: BatchAxis[] = [];
  for (const [d, size] of batch.entries()) {
    if (size === 1) continue;
    const stride = batchStrides[d]!;
    const before = axes.at(-1);
    if (before?.stride === stride * size) axes[axes.length - 1] = { size: before.size * size, stride };
    else axes.push({ size, stride });
  }
  return axes;
}

/** B with rows and columns exchanged. */
const transposed = (x: OperandLayout): OperandLayout => ({
  ...x,
  rowStride: x.columnStride,
  columnStride: x.rowStride,
});

/** Whether warpgroups can multiply it. @param output what is stored */
export const suitsWarpgroups = (p: MatmulProblem, dtype: DType, output = dtype): boolean =>
  isCopied(output, p.N) &&
  alongOf(p.a, p.K, p.M, dtype) !== undefined &&
  alongOf(transposed(p.b), p.K, p.N, dtype) !== undefined;

/** Which operands are turned in shared memory, of a product that suits warpgroups. */
export const turnedOf = (p: MatmulProblem, dtype: DType): Turned => ({
  a: dtype === f32 && !alongOf(p.a, p.K, p.M, dtype)!.k,
  b: dtype === f32 && !alongOf(transposed(p.b), p.K, p.N, dtype)!.k,
});

/** A matrix of each batch. */
interface MatrixTiles extends OperandTiles {
  /** Batches along the inner one of two dimensions, if there are two. */
  readonly inner: number;
  /** Whether batches along the outer dimension, and the inner one, have a matrix of their own. */
  readonly own: readonly [outer: boolean, inner: boolean];
  /** Whether it is a B whose columns come as quads. */
  readonly quads: boolean;
}

/** Starts to copy the tiles of one stage of a matrix, (batch, row, column). */
export function loadMatrix(
  to: Memory,
  from: Memory,
  { apart, boxes, inner, k: alongK, own, quads }: MatrixTiles,
  { batch, along, k }: OperandStart,
  full: Memory,
  stage: number,
  context: PipelineContext,
): void {
  const { idiv, loadQuads, tmaLoad, work } = context;
  if (quads) {
    loadQuads(to, from, along, k, full, stage, context);
    return;
  }
  const of = own[0] ? idiv(batch, inner) : 0;
  const within = own[1] ? batch % inner : 0;
  for (let i = 0; i < boxes; i++) {
    const panel = i * apart[0];
    const row = i * apart[1];
    const y = alongK ? along : k;
    const x = alongK ? k : along + i * work.depth;
    if (inner > 1) tmaLoad(to, stage, panel, row, 0, from, of, within, y, x, full, stage);
    else tmaLoad(to, stage, panel, row, 0, from, of, y, x, full, stage);
  }
}

interface OperandSizes {
  /** Rows of A, columns of B. */
  readonly size: number;
  readonly inner: number;
  /** Of a tile. */
  readonly along: number;
  readonly dtype: DType;
  /** f32 is split, not rounded. */
  readonly split?: boolean;
  /** Of B: its columns come as quads, if there is one matrix that lies along K. */
  readonly quads?: boolean;
}

/** A matrix of each batch, or one of all, that lies so. */
export function matrixOperand(x: OperandLayout, sizes: OperandSizes): WarpgroupOperand {
  const { size, inner, along, dtype, split = false } = sizes;
  const { k, pitch, batches } = alongOf(x, inner, size, dtype)!;
  const [first = { size: 1, stride: 0 }, second] = batches;
  const own = [first.stride > 0, second !== undefined && second.stride > 0] as const;
  const [outer, row] = k ? [size, inner] : [inner, size];
  const quads = sizes.quads === true && k && batches.length === 0;
  const tiles: MatrixTiles = { ...tilesOf(k, along, dtype), inner: second?.size ?? 1, own, quads };
  if (quads)
    return {
      schema: quadMap(dtype, { size, inner, pitch, offset: x.offset }, along),
      tiles,
      quads,
      load: loadMatrix,
    };
  const leading = second ? [first, second] : [first];
  const schema = tensorMap(dtype, {
    sizes: [...leading.map(({ size }, n) => (own[n] ? size : 1)), outer, row],
    strides: [...leading.map(({ stride }) => stride || pitch), pitch, 1],
    box: [...leading.map(() => 1), tiles.box, depthOf(dtype)],
    offset: x.offset,
    tf32: dtype === f32 && !split,
  });
  return { schema, tiles, load: loadMatrix };
}

/** Passes the finished value of neighbours in a row to `keep`: without a branch where no tile goes beyond the matrix, or nothing would come of it. */
export function finishInMatrix(
  v: number,
  first: number,
  second: number,
  ofBias: number,
  batch: number,
  row: number,
  column: number,
  keep: (v: number) => void,
  context: PipelineContext,
): void {
  const { finished, work } = context;
  const { isFree, isWhole, sizes } = work;
  if (isFree || isWhole) keep(finished(v, first, second, ofBias, batch, row, column, context));
  else if (row < sizes.M && column < sizes.N)
    keep(finished(v, first, second, ofBias, batch, row, column, context));
}

function storeInMatrix(
  c: Memory,
  cs: Memory,
  { group, held }: SumsTile,
  { split, batch }: WarpgroupPlace,
  row: number,
  column: number,
  { idiv, tmaStore, work, ROWS }: PipelineContext,
): void {
  const { boxes, width } = work;
  const to = work.inParts ? split * work.sizes.batches + batch : batch;
  for (let i = 0; i < boxes; i++)
    tmaStore(c, to, row, column + i * width, cs, group, held, i * idiv(ROWS, boxes), 0);
}

function loadInMatrix(
  to: Memory,
  tile: number,
  held: number,
  from: Memory,
  { batch, row, column }: MatrixPlace,
  full: Memory,
  barrier: number,
  { idiv, tmaLoad, work, ROWS }: PipelineContext,
): void {
  const { boxes, width } = work;
  for (let i = 0; i < boxes; i++)
    tmaLoad(to, tile, held, i * idiv(ROWS, boxes), 0, from, batch, row, column + i * width, full, barrier);
}

/** A matrix of each batch, or of each part of each batch. @param abreast 1, or all batches: they lie beside each other */
export const matrixResult = (batches: number, M: number, N: number, abreast = 1): WarpgroupResult => ({
  schema: (dtype, [rows, columns]) =>
    tensorMap(dtype, {
      sizes: [batches, M, N],
      strides: [abreast > 1 ? N : M * N, abreast * N, 1],
      box: [1, rows, columns],
    }),
  places: { byEngine: true },
  finishAt: finishInMatrix,
  storeTile: storeInMatrix,
  loadTile: loadInMatrix,
});

/**
 * The product, or if blocks share K its parts: (split, batch, row, column).
 * @param dtype of the matrices
 * @param units multiprocessors: so many blocks take all tiles
 */
export function matmulWarpgroups(
  p: MatmulProblem & Pick<WarpgroupProblem, 'bias'>,
  tile: WarpgroupTile,
  dtype: DType,
  units: number,
  { output, split = false }: { readonly output?: DType; readonly split?: boolean } = {},
): WarpgroupKernel {
  const { M, N, K, batches, bias, finish, sums } = p;
  const both = { inner: K, dtype, split };
  const [rows, columns] = tile.exchanged ? [tile.columns, rowsOf(tile)] : [rowsOf(tile), tile.columns];
  const ofA = matrixOperand(p.a, { ...both, size: M, along: rows });
  const quads = asQuads(dtype, output ?? dtype, tile);
  const ofB = matrixOperand(transposed(p.b), { ...both, size: N, along: columns, quads });
  const [a, b] = tile.exchanged ? [ofB, ofA] : [ofA, ofB];
  const result = matrixResult(tile.splits * batches, M, N);
  const problem = { batches, M, N, K, terms: [1], a, b, result, output, finish, bias, sums, functions: {} };
  if (!split) return byWarpgroups({ name: 'matmulWarpgroups', ...problem }, tile, dtype, units);
  const plain = {
    a: { along: p.a.rowStride, inner: p.a.columnStride },
    b: { along: p.b.columnStride, inner: p.b.rowStride },
  };
  const operands = { aStart: startOf(p.a, batches), bStart: startOf(p.b, batches), plain };
  return byWarpgroups({ name: 'matmulWarpgroupsTf32x3', ...problem, split: operands }, tile, dtype, units);
}
