/**
 * What a block of a matrix product does on a GPU, whatever multiplies: which part of C it sums, its copies of A and B,
 * and the pieces of K that it takes one after the other. Device functions, for cuda.ts and tensor-core.ts.
 */
import type { DType } from '../../core/dtype.js';
import type { IrFunction } from '../../kernel/ir/ir-function.js';
import { asCast, type Cast, type Memory } from '../../kernel/language/language.js';
import type { Lanes } from '../lanes.js';
import type { MatmulProblem } from './cpu.js';
import { type copyPanel, PANEL, type Panel, type PanelContext, startOf } from './cuda-panel.js';

/**
 * Steps along K that an accumulator takes, by what is multiplied. What 2^n additions in f32 may lose is what rounding to 24 − n bits
 * does: tf32 and f16 have 11 bits, bf16 has 8. CUDA cores round no operands, and take as many as cost nothing. So does f32 that is
 * split, whose steps are added up by eight or more at a time before they come to an accumulator. Integers lose nothing.
 */
export const LEVEL = {
  f32: 2 ** 12,
  tf32x3: 2 ** 15,
  tf32: 2 ** 13,
  f16: 2 ** 13,
  bf16: 2 ** 16,
  i8: 2 ** 31,
} as const;

/** How a product is cut, as far as it does not matter what multiplies. */
export interface Cut {
  /** Along M, N and K. */
  readonly warps: readonly [number, number, number];
  /** Steps along K of one copy. */
  readonly depth: number;
  /** Copies that are on their way or in use at a time. */
  readonly stages: number;
  /** Blocks that share the sum over K. */
  readonly splits: number;
}

/** Pieces of K that a block of the tile sums one after the other. */
export const piecesOf = (
  K: number,
  { warps, splits }: Pick<Cut, 'warps' | 'splits'>,
  level: number,
): number => Math.ceil(K / (splits * warps[2] * level));

/** Whether the product comes in parts, in f32, which are still to be added, and finished. */
export const isInParts = (K: number, tile: Pick<Cut, 'warps' | 'splits'>, level: number): boolean =>
  tile.splits > 1 || piecesOf(K, tile, level) > 1;

/** The tiles of A and B in shared memory, and of C. */
export interface TileLayout {
  readonly a: Panel;
  readonly b: Panel;
  /** Of C. */
  readonly rows: number;
  readonly columns: number;
  /** Elements of 4 bytes from one row of a share of the sums to the next, where warps along K have shares. */
  readonly sharePitch: number;
  readonly sharedBytes: number;
}

/** The work of a block: one record for all that the device functions have to know when the kernel is compiled. */
export interface BlockWork {
  readonly sizes: { readonly M: number; readonly N: number; readonly batches: number };
  /** Of C. They are taken band by band, and in a band of so many rows of tiles column by column. */
  readonly tiles: {
    readonly down: number;
    readonly across: number;
    readonly rows: number;
    readonly columns: number;
    readonly band: number;
  };
  readonly warps: { readonly M: number; readonly N: number; readonly K: number };
  readonly threads: number;
  /** Along K: pieces of a block, copies of a piece, steps of a copy. */
  readonly pieces: number;
  readonly chunks: number;
  readonly depth: number;
  /** Copies that there is room for, each of so many elements. */
  readonly stages: { readonly count: number; readonly elements: number };
  readonly a: Panel;
  readonly b: Panel;
  /** The sums are parts that another kernel adds: stored as they are. */
  readonly inParts: boolean;
  /** Of the product. */
  readonly cast: Cast<'f32'>;
  /** Neighbours that a thread stores together. */
  readonly lanes: Lanes;
  readonly sharePitch: number;
}

/**
 * The work of the blocks of a product, and the constants of a kernel that does it.
 * @param band rows of tiles, if not all
 */
export function workOf(
  p: MatmulProblem,
  tile: Cut,
  layout: TileLayout,
  level: number,
  { lanes, dtype, band }: { readonly lanes: Lanes; readonly dtype: DType; readonly band?: number },
): BlockWork {
  const { a, b, rows, columns, sharePitch } = layout;
  const { warps, depth, splits } = tile;
  const pieces = piecesOf(p.K, tile, level);
  const down = Math.ceil(p.M / rows);
  const across = Math.ceil(p.N / columns);
  return {
    sizes: { M: p.M, N: p.N, batches: p.batches },
    tiles: { down, across, rows, columns, band: Math.min(band ?? down, down) },
    warps: { M: warps[0], N: warps[1], K: warps[2] },
    threads: 32 * warps[0] * warps[1] * warps[2],
    pieces,
    chunks: Math.ceil(Math.ceil(p.K / depth) / (splits * pieces)),
    depth,
    stages: { count: tile.stages, elements: a.elements + b.elements },
    a,
    b,
    inParts: isInParts(p.K, tile, level),
    lanes,
    sharePitch,
    cast: asCast(dtype),
  };
}

/** What the device functions below take from the context. */
export interface BlockContext extends PanelContext {
  readonly work: BlockWork;
  /** Where a batch begins in A and in B. */
  readonly aStart: IrFunction;
  readonly bStart: IrFunction;
  readonly copyPanel: typeof copyPanel;
}

/** Where a block is, and a warp in it. */
export interface TilePlace {
  /** The first of C's rows and columns in the block's tile. */
  readonly row: number;
  readonly column: number;
  /** Of the blocks that share the sum over K. */
  readonly split: number;
  readonly batch: number;
  /** Where the batch begins in A and in B. */
  readonly left: number;
  readonly right: number;
  /** Of the warps that share the steps of a copy. */
  readonly share: number;
  /** The first of the tile's rows and columns that the warp sums. */
  readonly warpRow: number;
  readonly warpColumn: number;
}

/** Finds a warp's part of the product. */
export function placeOf(context: BlockContext): TilePlace {
  const { blockIdx, warpId, idiv, i32, work, aStart, bStart } = context;
  const { sizes, tiles, warps } = work;
  const { down, across, rows, columns } = tiles;
  const tile = sizes.batches === 1 ? blockIdx.x : blockIdx.x % (down * across);
  const band = tiles.band === down ? 0 : idiv(tile, tiles.band * across) * tiles.band;
  const high = down % tiles.band === 0 ? tiles.band : Math.min(tiles.band, down - band);
  const inBand = tiles.band === down ? tile : tile % (tiles.band * across);
  const row = (band + (inBand % high)) * rows;
  const column = idiv(inBand, high) * columns;
  const split = blockIdx.y;
  const batch = sizes.batches === 1 ? i32(0) : idiv(blockIdx.x, down * across);
  const left = aStart(batch);
  const right = bStart(batch);
  const share = warps.K === 1 ? 0 : idiv(warpId, warps.M * warps.N);
  const warpRow = idiv(warps.K === 1 ? warpId : warpId % (warps.M * warps.N), warps.N) * (rows / warps.M);
  const warpColumn = (warpId % warps.N) * (columns / warps.N);
  return { row, column, split, batch, left, right, share, warpRow, warpColumn };
}

/** Starts the copies of one chunk of A and B, a piece's, to a stage: a group of copies. */
export function copyChunk(
  a: Memory,
  b: Memory,
  held: Memory,
  stage: number,
  piece: number,
  chunk: number,
  at: TilePlace,
  context: BlockContext,
): void {
  const { commitCopies, copyPanel, work } = context;
  const { pieces, chunks, depth, stages } = work;
  const step = ((pieces === 1 ? at.split : at.split * pieces + piece) * chunks + chunk) * depth;
  const to = stage * stages.elements;
  const inside = !work.a.beyond || chunk < chunks;
  copyPanel(a, at.left, held, to, at.row, step, inside, work.a, context);
  copyPanel(b, at.right, held, to + work.a.elements, at.column, step, inside, work.b, context);
  commitCopies();
}

/** Sums K piece by piece. */
export function eachPiece(sum: (piece: number) => void, context: BlockContext): void {
  const { waitCopies, barrier, work } = context;
  if (work.pieces === 1) sum(0);
  else {
    let piece = 0;
    while (piece < work.pieces) {
      sum(piece);
      // Copies from beyond the piece may still be on their way to what the next piece fills.
      waitCopies(0);
      barrier();
      piece += 1;
    }
  }
}

/** The device functions, and what they know when the kernel is compiled, as constants of a kernel. */
export const blockConstants = (work: BlockWork, batches: number) => ({
  ...PANEL,
  placeOf,
  copyChunk,
  eachPiece,
  work,
  aStart: startOf(work.a.operand, batches),
  bStart: startOf(work.b.operand, batches),
});
