/**
 * How the matrix products of tensor cores keep A and B in shared memory, so that no two lanes that read together meet
 * in a bank: rows that ldmatrix reads are an odd number of 16 bytes apart; of f32 across K, the lanes of a warp read 8
 * neighbours of four steps. Matrices of 16-bit floats are kept, and copied, as words of two where a word never has elements of two
 * rows: 16 bytes at a time then.
 */
import { type DType, isHalf } from '../../core/dtype.js';
import type { MatmulProblem, OperandLayout } from './cpu.js';
import { type Cut, LEVEL, piecesOf, type TileLayout } from './cuda-block.js';
import { type Panel, type Pitch, panelOf, transposed } from './cuda-panel.js';
import type { TensorOperand } from './tensor-core-fragments.js';

/**
 * How the work is cut. Warps along K share the steps of a copy: its depth is for each of them a multiple of 16, and of 32
 * for products in 16 bits.
 */
export interface TensorTile extends Cut {
  /** What a warp sums, in pieces of 16 rows and of 8 columns: a multiple of 2, and of 4. */
  readonly each: readonly [number, number];
}

export interface TensorLayout extends TileLayout {
  /** Whether A and B are kept as words of two elements. */
  readonly words: boolean;
}

/** For ldmatrix of rows with so many elements. */
const byMatrix =
  (elements: number): Pitch =>
  (_kMajor, least) =>
    Math.ceil(least / (2 * elements)) * (2 * elements) + elements;

const PITCH: Pitch = (kMajor, least) =>
  kMajor ? byMatrix(4)(kMajor, least) : Math.ceil(least / 32) * 32 + 8;

/** An operand in words of `perRow · perStep` elements, see `Panel`. */
type Words = Pick<Panel, 'operand' | 'perRow' | 'perStep'>;

/** Elements of two bytes taken two at a time, along the rows or along K; undefined if they do not pair. */
function pairs(x: OperandLayout, size: number, inner: number): Words | undefined {
  const across = x.rowStride === 1 && size > 1;
  const [step, next, length] = across
    ? [x.rowStride, x.columnStride, size]
    : [x.columnStride, x.rowStride, inner];
  if (step !== 1 || [next, length, x.offset, ...x.batchStrides].some((n) => n % 2 !== 0)) return undefined;
  const operand: OperandLayout = {
    ...x,
    offset: x.offset / 2,
    batchStrides: x.batchStrides.map((n) => n / 2),
    ...(across ? { columnStride: next / 2 } : { rowStride: next / 2 }),
  };
  return { operand, perRow: across ? 2 : 1, perStep: across ? 1 : 2 };
}

export function tensorLayoutOf(
  p: MatmulProblem,
  tile: TensorTile,
  operand: TensorOperand,
  dtype: DType,
): TensorLayout {
  const { warps, each, depth, stages } = tile;
  const splits = tile.splits * piecesOf(p.K, tile, LEVEL[operand]);
  const [rows, columns] = [16 * each[0], 8 * each[1]];
  const [left, right] = [p.a, transposed(p.b)];
  const [leftPairs, rightPairs] = [pairs(left, p.M, p.K), pairs(right, p.N, p.K)];
  const words = isHalf(dtype) && leftPairs !== undefined && rightPairs !== undefined;
  const pitchOf = !isHalf(dtype) ? PITCH : byMatrix(words ? 4 : 8);
  // Past the first-level cache large products in tf32 are a tenth faster, in 16 bits a little slower.
  const once = !isHalf(dtype) && warps[0] * warps[1] === 8 && each[0] * each[1] === 32;
  const panel = (operand: OperandLayout, size: number, beside: number, lanes: number): Panel => {
    const kept = words ? pairs(operand, size, p.K)! : ({ operand, perRow: 1, perStep: 1 } as const);
    const { perRow, perStep } = kept;
    return panelOf({
      ...kept,
      size: size / perRow,
      inner: p.K / perStep,
      depth: depth / perStep,
      splits,
      share: { warps: beside, lanes: lanes / perRow, each: 1 },
      // Of words, K = 2 is a single step and two rows are a single one: the pairs say how they lie.
      ...(words && { rowsTogether: perRow === 2 }),
      pitchOf,
      bytes: words ? 4 : dtype.bytes,
      beyond: true,
      once,
    });
  };
  const a = panel(left, p.M, warps[0], rows);
  const b = panel(right, p.N, warps[1], columns);
  // Pairs of neighbours of 8 rows, in different banks.
  const sharePitch = warps[1] * columns + 8;
  const shares = warps[2] > 1 ? 4 * warps[2] * warps[0] * rows * sharePitch : 0;
  const sharedBytes = Math.max(a.bytes * stages * (a.elements + b.elements), shares);
  return { a, b, words, rows: warps[0] * rows, columns: warps[1] * columns, sharePitch, sharedBytes };
}
