/** How products by warpgroups are cut, and how the tiles of their operands lie in shared memory. */
import { type DType, f32, i8 } from '../../core/dtype.js';
import { type BufferSchema, tensorMap } from '../../kernel/ir/types.js';
import type { Intrinsics, Memory } from '../../kernel/language/language.js';

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
  /** Tiles of each of these that a warpgroup has, or has on their way. Default: 2. */
  readonly held?: number;
  /**
   * The transpose of C is computed: the rows of a tile are columns of C. So a B that lies across K becomes the left operand, which is
   * turned on its way to registers, not in shared memory. Default: C is.
   */
  readonly exchanged?: boolean;
  /** Steps along K that tensor cores sum of products of split f32 (warpgroup-split.ts). Default: those of a stage. */
  readonly level?: number;
  /** Of a convolution: the rows of A are patches of pixels. Default: they are copied for each tap of the kernel. */
  readonly patch?: PixelPatch | undefined;
}

/**
 * Pixels of an image in a rectangle, which come with those above or below them that all taps of a column of the kernel meet: a tap
 * meets what begins at a row of its own.
 */
export interface PixelPatch {
  /** Pixels of the result. Their number is a multiple of 64, of which the width is a divisor and a multiple of 8. */
  readonly height: number;
  readonly width: number;
  /** Taps of a column, and rows of pixels from one to the next. */
  readonly taps: number;
  readonly dilation: number;
  /** Of the images that patches cover, row by row. */
  readonly down: number;
  readonly across: number;
  /** Whether the pixels of one patch after the other lie so in memory. */
  readonly inOrder: boolean;
  /** Stages of the ring of patches: other stages are of B only. */
  readonly stages: number;
}

/** Pixels of a patch that are copied: rows of a tile. */
export const copiedRows = ({ height, width, taps, dilation }: PixelPatch): number =>
  (height + (taps - 1) * dilation) * width;

/** Patches of a tile. */
export const patchesOf = (tile: BlockRows, { height, width }: PixelPatch): number =>
  rowsOf(tile) / (height * width);

/** Bytes of a row of a tile. */
export const ROW = 128;
export const ROWS = 64;
export const THREADS = 128;

/** Steps along K of a stage. */
export const depthOf = (dtype: DType): number => ROW / dtype.bytes;

/**
 * Columns of the tiles that C goes by way of: as many as a row of 128 bytes has, if they divide those of C's tile, else 64. If 32
 * columns or fewer are computed, 32 at most.
 */
export function widthOf(columns: number, out: DType, used = columns): number {
  const width = columns % (ROW / out.bytes) === 0 ? ROW / out.bytes : ROWS;
  return used <= ROWS / 2 ? Math.min(width, ROWS / 2) : width;
}

/**
 * Columns of a tile that are computed. Where C has fewer columns than a tile, these are the columns of C, rounded up to what wgmma,
 * or a quad, takes at a time.
 * @param all columns of C
 */
export function usedColumns(columns: number, all: number, dtype: DType): number {
  const step = dtype === i8 ? QUADS : 8;
  return Math.min(columns, Math.ceil(all / step) * step);
}

type BlockRows = Pick<WarpgroupTile, 'groups' | 'each' | 'alternate'>;

/** Warpgroups that share a tile. */
export const togetherOf = ({ groups, alternate }: BlockRows): number => (alternate ? 1 : groups);

export const rowsOf = (tile: BlockRows): number => ROWS * togetherOf(tile) * tile.each;

/** Which operands are turned. */
export interface Turned {
  readonly a: boolean;
  readonly b: boolean;
}

/**
 * Bytes of shared memory: the stages, and for each warpgroup two tiles of sums, and those of each matrix that the epilogue takes
 * beside them.
 */
export function warpgroupBytes(tile: WarpgroupTile, split = false): number {
  const { beside = 0, columns, groups, held = 2, patch, stages } = tile;
  const ofA = patch ? patch.stages * patchesOf(tile, patch) * copiedRows(patch) : stages * rowsOf(tile);
  return (ofA + stages * (split ? 2 : 1) * columns + groups * (2 + beside * held) * ROWS) * ROW;
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

/** How a stage of B that lies across K serves several products: each begins `by` steps along K behind the one before. */
export interface Views {
  readonly count: number;
  readonly by: number;
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

/** Columns of B that wgmma gives a thread four sums of in a row: in two blocks of 8, two of each. */
const QUADS = 16;

/**
 * Whether columns of B come in such an order that the four are neighbours in C. Of bytes they are one word, on its way to shared
 * memory and from there, where two of them would be half of one.
 */
export const asQuads = (dtype: DType, out: DType, { splits }: Pick<WarpgroupTile, 'splits'>): boolean =>
  dtype === i8 && out.bytes === 1 && splits === 1;

/** B along K, a row for each column of C: which is whose. */
interface ColumnRows {
  readonly size: number;
  readonly inner: number;
  readonly pitch: number;
  readonly offset: number;
}

/** Such a B as a tensor map whose tiles have the rows of 16 columns as (block of 8, thread, one of two). */
export const quadMap = (
  dtype: DType,
  { size, inner, pitch, offset }: ColumnRows,
  columns: number,
): BufferSchema =>
  tensorMap(dtype, {
    sizes: [size / QUADS, 2, 4, 2, inner],
    strides: [QUADS * pitch, 2 * pitch, 4 * pitch, pitch, 1],
    box: [columns / QUADS, 2, 4, 2, depthOf(dtype)],
    offset,
  });

/** Starts to copy such a tile of one stage. */
export function loadQuads(
  to: Memory,
  from: Memory,
  along: number,
  k: number,
  full: Memory,
  stage: number,
  { idiv, tmaLoad }: Intrinsics,
): void {
  tmaLoad(to, stage, 0, 0, 0, from, idiv(along, 16), 0, 0, 0, k, full, stage);
}
