/**
 * How the matrix products of tensor cores keep A and B in shared memory, so that no two lanes that read together meet
 * in a bank: rows that ldmatrix reads are an odd number of 16 bytes apart; of f32 across K, the lanes of a warp read 8
 * neighbours of four steps. Matrices of bf16 are kept, and copied, as words of two where a word never has elements of two
 * rows: 16 bytes at a time then.
 */
import { bf16, type DType } from '../../core/dtype.js';
import type { MatmulProblem, Operand } from './cpu.js';
import { LEVEL, piecesOf } from './cuda.js';
import { type Panel, type Pitch, panelOf, transposed } from './cuda-panel.js';

/** How the work is cut. */
export interface TensorTile {
  /** Along M, N and K: those along K share the steps of a copy. */
  readonly warps: readonly [number, number, number];
  /** What a warp sums, in pieces of 16 rows and of 8 columns: a multiple of 2, and of 4. */
  readonly each: readonly [number, number];
  /** Steps along K of one copy; for each warp along K a multiple of 16, and of 32 for products in bf16. */
  readonly depth: number;
  readonly stages: number;
  /** Blocks that share the sum over K. */
  readonly splits: number;
}

/** A tile of an operand. Its sizes, strides and steps are in words, if bf16 is kept so. */
export interface TensorPanel extends Panel {
  /** Where the operand's batches begin. */
  readonly operand: Operand;
  /** Elements in a word, if its neighbours are along the rows of the panel (A's, or B's columns); else 1. */
  readonly perRow: number;
  /** The same along K. */
  readonly perStep: number;
}

export interface TensorLayout {
  readonly a: TensorPanel;
  readonly b: TensorPanel;
  readonly words: boolean;
  /** Of C. */
  readonly rows: number;
  readonly columns: number;
  /** Copies that one block makes. */
  readonly chunks: number;
  /** Elements of 4 bytes from one row of a share of the sums to the next, where warps along K have shares. */
  readonly sumPitch: number;
  readonly sharedBytes: number;
}

/** For ldmatrix of rows with so many elements. */
const byMatrix =
  (elements: number): Pitch =>
  (_kMajor, least) =>
    Math.ceil(least / (2 * elements)) * (2 * elements) + elements;

const PITCH: Pitch = (kMajor, least) =>
  kMajor ? byMatrix(4)(kMajor, least) : Math.ceil(least / 32) * 32 + 8;

/** Elements of two bytes taken two at a time, along the rows or along K; undefined if they do not pair. */
function pairs(x: Operand, size: number, inner: number): Omit<TensorPanel, keyof Panel> | undefined {
  const across = x.rowStride === 1 && size > 1;
  const [step, next, length] = across
    ? [x.rowStride, x.columnStride, size]
    : [x.columnStride, x.rowStride, inner];
  if (step !== 1 || [next, length, x.offset, ...x.batchStrides].some((n) => n % 2 !== 0)) return undefined;
  const operand: Operand = {
    ...x,
    ...{ offset: x.offset / 2, batchStrides: x.batchStrides.map((n) => n / 2) },
    ...(across ? { columnStride: next / 2 } : { rowStride: next / 2 }),
  };
  return { operand, perRow: across ? 2 : 1, perStep: across ? 1 : 2 };
}

export function tensorLayoutOf(p: MatmulProblem, tile: TensorTile, dtype: DType): TensorLayout {
  const { warps, each, depth, stages } = tile;
  const splits = tile.splits * piecesOf(p.K, tile, LEVEL.tensor);
  const [rows, columns] = [16 * each[0], 8 * each[1]];
  const [left, right] = [p.a, transposed(p.b)];
  const [leftPairs, rightPairs] = [pairs(left, p.M, p.K), pairs(right, p.N, p.K)];
  const words = dtype === bf16 && leftPairs !== undefined && rightPairs !== undefined;
  const pitchOf = dtype !== bf16 ? PITCH : byMatrix(words ? 4 : 8);
  // On an H200 at 4096³ tf32 reaches 215 TFLOP/s so, 197 by way of L1 (copies of 16 steps); bf16 428 and 435.
  const once = dtype !== bf16 && warps[0] * warps[1] === 8 && each[0] * each[1] === 32;
  const panel = (operand: Operand, size: number, beside: number, lanes: number): TensorPanel => {
    const kept = words ? pairs(operand, size, p.K)! : { operand, perRow: 1, perStep: 1 };
    const { perRow, perStep } = kept;
    const bytes = words ? 4 : dtype.bytes;
    const cut = { splits, pitchOf, bytes, operand: kept.operand, beyond: true, once };
    const of = { size: size / perRow, inner: p.K / perStep, depth: depth / perStep };
    const share = { warps: beside, lanes: lanes / perRow, each: 1 };
    // Of words, K = 2 is a single step and two rows are a single one: the pairs say how they lie.
    const lies = words ? { rowsTogether: perRow === 2 } : {};
    return { ...panelOf({ ...cut, ...of, ...lies, share }), ...kept };
  };
  const a = panel(left, p.M, warps[0], rows);
  const b = panel(right, p.N, warps[1], columns);
  // Pairs of neighbours of 8 rows, in different banks.
  const sumPitch = warps[1] * columns + 8;
  const shares = warps[2] > 1 ? 4 * warps[2] * warps[0] * rows * sumPitch : 0;
  return {
    ...{ a, b, words, rows: warps[0] * rows, columns: warps[1] * columns, sumPitch },
    chunks: Math.ceil(Math.ceil(p.K / depth) / splits),
    sharedBytes: Math.max(a.bytes * stages * (a.floats + b.floats), shares),
  };
}
