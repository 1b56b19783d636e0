/**
 * A tile of an operand in shared memory, for the matrix products of GPUs: where its elements lie, and the copy.
 *
 * An operand is copied as it lies in memory, by asynchronous copies of 16 bytes where its strides allow them: along K
 * (a row of A or column of B after the other: "K-major") or across it. What is read of it together must lie in
 * different banks: K-major rows are an odd number of 16 bytes apart, and those that the lanes of a warp read at once
 * are neighbours, wherever they stand in the matrix.
 */
import type { Expr } from '../../kernel/ir/ir.js';
import { int } from '../../kernel/ir/ir.js';
import { type IrFunction, irFunction } from '../../kernel/ir/ir-function.js';
import type { Intrinsics, Memory } from '../../kernel/language/language.js';
import { batchOffset, type OperandLayout } from './cpu.js';

/** Which rows of A (or columns of B) the lanes of a warp have: `lanes` times `each`, in groups of neighbours. */
export interface Share {
  /** Warps side by side. */
  readonly warps: number;
  readonly lanes: number;
  readonly each: number;
}

/** A tile of an operand. Its sizes, strides and steps are in words of two elements, if it is kept so. */
export interface Panel {
  /** With its rows first: where its batches begin. */
  readonly operand: OperandLayout;
  /** Elements in a word whose neighbours are along the rows of the panel (A's, or B's columns), and along K. */
  readonly perRow: 1 | 2;
  readonly perStep: 1 | 2;
  readonly kMajor: boolean;
  /** Contiguous along K in memory, but not here: copied element by element, 8 lanes along K. */
  readonly turned: boolean;
  /** Of an element. */
  readonly bytes: number;
  /** Elements of one copy. */
  readonly vector: 1 | 2 | 4;
  /** Rows of A, or columns of B, of the tile and of the matrix. */
  readonly rows: number;
  readonly size: number;
  /** Steps along K of the tile. */
  readonly depth: number;
  readonly inner: number;
  /** Strides in memory. */
  readonly rowStep: number;
  readonly innerStep: number;
  /** Elements from one row (K-major), or step, to the next. */
  readonly pitch: number;
  /** That a tile takes. */
  readonly elements: number;
  readonly share: Share;
  /** Neighbouring rows that a lane has, 1, 2 or 4. */
  readonly group: 1 | 2 | 4;
  /** Tiles end where the matrix does, and so do the blocks' shares of K. */
  readonly whole: boolean;
  /** Copies may be asked for that are not `inside`. */
  readonly beyond: boolean;
  /** What is copied is not kept near the multiprocessor: a large tile's pipeline has it for itself. */
  readonly once: boolean;
}

export const rowsOf = ({ warps, lanes, each }: Share): number => warps * lanes * each;

/** Elements from one row of a K-major panel, or step of another, to the next: `least` are in use. */
export type Pitch = (kMajor: boolean, least: number) => number;

/** For reads of 4 along K by lanes with neighbouring rows, and of up to 4 across K by lanes side by side. */
const PITCH: Pitch = (kMajor, least) => (kMajor ? Math.ceil(least / 8) * 8 + 4 : Math.ceil(least / 4) * 4);

interface PanelRequest {
  /** With its rows first: A as it is, B with rows and columns exchanged. */
  readonly operand: OperandLayout;
  /** Rows, and steps along K, of the matrix. */
  readonly size: number;
  readonly inner: number;
  readonly depth: number;
  /** Blocks that share the steps along K. */
  readonly splits: number;
  readonly share: Share;
  /** Whether rows are neighbours in memory; by the strides if absent, which do not tell for a single step or row. */
  readonly rowsTogether?: boolean;
  /** Of words, if all this is in words; see `Panel`. */
  readonly perRow?: 1 | 2;
  readonly perStep?: 1 | 2;
  readonly pitchOf?: Pitch;
  /** Of an element. */
  readonly bytes?: number;
  /** Lay it across K whatever it is in memory; depth and rows are multiples of 8 then. */
  readonly turn?: boolean;
  readonly beyond?: boolean;
  readonly once?: boolean;
}

export function panelOf({
  operand,
  size,
  inner,
  depth,
  splits,
  share,
  rowsTogether,
  perRow = 1,
  perStep = 1,
  pitchOf = PITCH,
  bytes = 4,
  turn = false,
  beyond = false,
  once = false,
}: PanelRequest): Panel {
  const { rowStride, columnStride, offset, batchStrides } = operand;
  const rows = rowsOf(share);
  const lies = rowsTogether ?? (rowStride === 1 && (columnStride !== 1 || inner === 1) && size > 1);
  const turned = turn && !lies;
  const across = lies || turned;
  const fits = (v: number): boolean =>
    (across ? columnStride : rowStride) % v === 0 &&
    [offset, across ? size : inner, ...batchStrides].every((n) => n % v === 0) &&
    (across ? rows : depth) % v === 0;
  const isUnit = !turned && (across || columnStride === 1);
  const vector = isUnit && fits(4) ? 4 : isUnit && fits(2) ? 2 : 1;
  // 4 more, so that 8 steps of 4 rows are written to different banks.
  const pitch = pitchOf(!across, across ? rows : depth) + (turned ? 4 : 0);
  return {
    operand,
    perRow,
    perStep,
    kMajor: !across,
    turned,
    bytes,
    vector,
    rows,
    size,
    depth,
    inner,
    rowStep: rowStride,
    innerStep: columnStride,
    pitch,
    elements: pitch * (across ? depth : rows),
    share,
    group: share.each % 4 === 0 ? 4 : share.each % 2 === 0 ? 2 : 1,
    whole: size % rows === 0 && inner % (depth * splits) === 0,
    beyond,
    once,
  };
}

/** B as the rows of its transpose. */
export const transposed = (operand: OperandLayout): OperandLayout => ({
  ...operand,
  rowStride: operand.columnStride,
  columnStride: operand.rowStride,
});

/** Where a batch of an operand begins; a constant if there is one batch. */
export const startOf = (operand: OperandLayout, batches: number): IrFunction =>
  batches === 1 ? irFunction(() => int(operand.offset) as Expr) : batchOffset(operand);

/** What the device functions below take from the context. */
export interface PanelContext extends Intrinsics {
  readonly work: { readonly threads: number };
  readonly rowOfLane: typeof rowOfLane;
  readonly rowOfSlot: typeof rowOfSlot;
  readonly copyPiece: typeof copyPiece;
}

/** Which of its warp's rows is a lane's i-th. */
export function rowOfLane(i: number, lane: number, P: Panel, { idiv }: Intrinsics): number {
  return idiv(i, P.group) * (P.share.lanes * P.group) + lane * P.group + (i % P.group);
}

/** The row of the tile that lies in a slot of a K-major panel: slots that are read together are neighbours. */
export function rowOfSlot(slot: number, P: Panel, context: PanelContext): number {
  const { idiv, rowOfLane } = context;
  const { lanes, each } = P.share;
  const warp = idiv(slot, lanes * each);
  const inWarp = slot % (lanes * each);
  return warp * (lanes * each) + rowOfLane(idiv(inWarp, lanes), inWarp % lanes, P, context);
}

/** One copy; where there is no element, zeros. Two bytes are too few to be copied asynchronously. */
export function copyPiece(
  held: Memory,
  to: number,
  x: Memory,
  from: number,
  row: number,
  step: number,
  inside: boolean,
  P: Panel,
  { copyAsync, copyAsync2, copyAsync4, copyAsync4Once }: Intrinsics,
): void {
  const there = P.whole ? inside : inside && row < P.size && step < P.inner;
  if (P.bytes * P.vector < 4) held[to] = there ? x[from] : 0;
  else if (P.whole && !P.beyond) {
    if (P.vector === 4 && P.once) copyAsync4Once(held, to, x, from);
    else if (P.vector === 4) copyAsync4(held, to, x, from);
    else if (P.vector === 2) copyAsync2(held, to, x, from);
    else copyAsync(held, to, x, from);
  } else if (P.vector === 4 && P.once) copyAsync4Once(held, to, x, from, there);
  else if (P.vector === 4) copyAsync4(held, to, x, from, there);
  else if (P.vector === 2) copyAsync2(held, to, x, from, there);
  else copyAsync(held, to, x, from, there);
}

/**
 * Starts the copy of a tile, in the kernel: of rows from `atRow` and steps from `atStep` on, to `held` from `at` on.
 * Beyond the matrix there are zeros, and where the tile is not `inside` the block's share of K. Where a round of all
 * threads is a whole number of rows (or steps), the rounds differ by constants.
 */
export function copyPanel(
  x: Memory,
  start: number,
  held: Memory,
  at: number,
  atRow: number,
  atStep: number,
  inside: boolean,
  P: Panel,
  context: PanelContext,
): void {
  const { threadIdx, idiv, work, rowOfSlot, copyPiece } = context;
  const { threads } = work;
  const firstRow = P.perRow === 1 ? atRow : idiv(atRow, P.perRow);
  const firstStep = P.perStep === 1 ? atStep : idiv(atStep, P.perStep);
  /** The copy of the panel's element (row, step), which lies `to` here and `from` there. */
  const copy = (to: number, from: number, row: number, step: number) =>
    copyPiece(held, to, x, from, row, step, inside, P, context);
  if (P.turned) {
    const lane = threadIdx.x % 8;
    const row = firstRow + idiv(threadIdx.x, 8);
    const to = at + lane * P.pitch + idiv(threadIdx.x, 8);
    const from = start + row * P.rowStep + (firstStep + lane) * P.innerStep;
    for (let k = 0; k < P.depth; k += 8) {
      for (let down = 0; down < P.rows; down += threads / 8) {
        const place = to + k * P.pitch + down;
        const source = from + k * P.innerStep + down * P.rowStep;
        if (P.rows % (threads / 8) === 0 || down + idiv(threadIdx.x, 8) < P.rows)
          copy(place, source, row + down, firstStep + lane + k);
      }
    }
    return;
  }
  const count = P.kMajor ? P.depth / P.vector : P.rows / P.vector;
  const total = count * (P.kMajor ? P.rows : P.depth);
  const round = threads / count;
  const even =
    total % threads === 0 &&
    threads % count === 0 &&
    (!P.kMajor || P.share.each === 1 || round % (P.share.lanes * P.group) === 0);
  if (even) {
    const outer = idiv(threadIdx.x, count);
    const along = (threadIdx.x % count) * P.vector;
    const row = firstRow + (P.kMajor ? rowOfSlot(outer, P, context) : along);
    const step = firstStep + (P.kMajor ? along : outer);
    const to = at + outer * P.pitch + along;
    const from = start + row * P.rowStep + step * P.innerStep;
    for (let i = 0; i < total / threads; i++) {
      const down = i * round;
      if (P.kMajor) copy(to + down * P.pitch, from + down * P.rowStep, row + down, step);
      else copy(to + down * P.pitch, from + down * P.innerStep, row, step + down);
    }
  } else if (P.kMajor && threads % P.rows === 0) {
    // Neighbouring threads for each row.
    const beside = threads / P.rows;
    const slot = idiv(threadIdx.x, beside);
    const row = firstRow + rowOfSlot(slot, P, context);
    const to = at + slot * P.pitch;
    const from = start + row * P.rowStep + firstStep * P.innerStep;
    for (let i = 0; i < count; i += beside) {
      const along = ((threadIdx.x % beside) + i) * P.vector;
      if (i + beside <= count || along < P.depth)
        copy(to + along, from + along * P.innerStep, row, firstStep + along);
    }
  } else {
    for (let i = threadIdx.x; i < total; i += threads) {
      const outer = idiv(i, count);
      const along = (i % count) * P.vector;
      const row = firstRow + (P.kMajor ? rowOfSlot(outer, P, context) : along);
      const step = firstStep + (P.kMajor ? along : outer);
      const from = start + row * P.rowStep + step * P.innerStep;
      copy(at + outer * P.pitch + along, from, row, step);
    }
  }
}

/** The device functions, as constants of a kernel. */
export const PANEL = { rowOfLane, rowOfSlot, copyPiece, copyPanel };
