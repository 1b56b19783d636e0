/** The launch rule of the products by warpgroups. */
import { type DType, f32 } from '../../core/dtype.js';
import type { ColumnSums, Variant } from '../../graph/fused-op.js';
import { FITTED } from '../../kernel/ir/machine.js';
import type { GpuLimits, Target } from '../../kernel/ir/target.js';
import { WARPGROUP_TIMES } from '../../kernel/ir/warpgroup-times.js';
import { fastestTiles, type LaunchRule, leastCycles } from '../launch-rule.js';
import type { MatmulProblem } from './cpu.js';
import { LEVEL } from './cuda-block.js';
import { MARGIN } from './cuda-tiles.js';
import type { TensorOperand } from './tensor-core-fragments.js';
import {
  copiedRows,
  depthOf,
  type PixelPatch,
  patchesOf,
  ROW,
  ROWS,
  rowsOf,
  type Turned,
  usedColumns,
  type WarpgroupTile,
  warpgroupBytes,
  widthOf,
} from './warpgroup-layout.js';

type BlockShape = Pick<WarpgroupTile, 'groups' | 'each' | 'columns' | 'alternate' | 'level'>;

/** Warpgroups, blocks of 64 rows of each, and columns. */
const SHAPES: readonly BlockShape[] = [
  { groups: 2, each: 1, columns: 256 },
  { groups: 2, each: 2, columns: 128 },
  { groups: 2, each: 1, columns: 192 },
  { groups: 2, each: 2, columns: 128, alternate: true },
  { groups: 2, each: 1, columns: 128 },
  { groups: 1, each: 1, columns: 256 },
  { groups: 2, each: 2, columns: 64 },
  { groups: 1, each: 1, columns: 192 },
  { groups: 2, each: 2, columns: 64, alternate: true },
  { groups: 2, each: 1, columns: 64 },
  { groups: 1, each: 1, columns: 128 },
  { groups: 1, each: 1, columns: 64 },
];

/**
 * Tiles for split f32, and what share of the tensor cores' rate they reach: estimates. The sums of a batch and both parts of A also need
 * registers, so the larger tiles sum fewer steps in a batch.
 */
const SPLIT_SHAPES: readonly (readonly [BlockShape, speed: number])[] = [
  [{ groups: 2, each: 2, columns: 128, level: 16 }, 1],
  [{ groups: 2, each: 1, columns: 192, level: 16 }, 0.97],
  [{ groups: 2, each: 1, columns: 128 }, 0.97],
  [{ groups: 2, each: 2, columns: 64 }, 0.92],
  [{ groups: 2, each: 1, columns: 64 }, 0.9],
  [{ groups: 1, each: 1, columns: 128 }, 0.7],
  [{ groups: 1, each: 2, columns: 64 }, 0.65],
  [{ groups: 1, each: 1, columns: 64 }, 0.6],
];

/** Sizes of a product, or of a convolution as one. */
export interface WarpgroupSizes extends Pick<MatmulProblem, 'batches' | 'M' | 'N' | 'K'> {
  readonly dtype: DType;
  /** Blocks may not share K. Default: they may. */
  readonly whole?: boolean;
  readonly turned: Turned;
  /** f32 is split (warpgroup-split.ts). Default: it is rounded to tf32. */
  readonly split?: boolean;
  /** How many matrices like the result the epilogue takes beside the sums. Default: none. */
  readonly beside?: number | undefined;
  /** Instructions of the epilogue for an element, roughly. Default: none. */
  readonly following?: number | undefined;
  /** Sums of columns that the kernel computes besides, if it stores the result whole. Default: none. */
  readonly sums?: ColumnSums | undefined;
  /** Of a convolution whose rows may come as patches: its images, and the taps of a column of its kernel. Default: they may not. */
  readonly images?: PatchImages | undefined;
  /** Bytes of the operands in memory. Default: of two matrices. */
  readonly bytes?: number;
}

/** What patches are cut from. */
export interface PatchImages extends Pick<PixelPatch, 'taps' | 'dilation'> {
  readonly count: number;
  /** Of the result: rows and columns of pixels. */
  readonly size: readonly [number, number];
  /** Share of a stage's steps along K that a tap has: less than 1 where it has few channels. */
  readonly filled: number;
}

/**
 * At most how many tiles are timed, and how many times as long as the first they may take by the model. For 477 calls on an H200
 * (2026-11-29) 970 tiles are within a factor of 1.1, the best of them 1.8 % faster on average than the first, and 1,240 within 1.2, 2.7 %
 * faster. Of 240 within 1.1, for 93 calls of ResNets and GPTs (2026-11-30), 15 are beyond 1.08: one was the fastest, by 8 %.
 */
const MOST = 3;
export const PROMISING = 1.08;

/** A tile that takes this much longer by the model is no match for another launch, whatever the model does not know. */
const FAR = 1.5;

/** Stages that keep wgmma busy while memory answers. */
const STAGES = 4;

interface RatedTile extends WarpgroupTile {
  readonly speed: number;
}

/** Pixels beside each other in patches: what the copy engine stores at a time are 64. */
const WIDTHS = [8, 16, 32, 64] as const;

/**
 * All ways to cut images into patches for such tiles, of which three are held at a time, two at least: first those that reach least
 * over edges, then those that the copy engine brings with the fewest rows besides.
 */
function patchesFor(shape: BlockShape, { size, taps, dilation }: PatchImages): PixelPatch[] {
  const blocks = rowsOf(shape) / ROWS;
  const patches = WIDTHS.flatMap((width) =>
    [1, 2, 4].flatMap((n): PixelPatch[] => {
      const height = (n * ROWS) / width;
      const [down, across] = [Math.ceil(size[0] / height), Math.ceil(size[1] / width)];
      const inOrder = size[1] === width && size[0] % height === 0;
      return blocks % n === 0 ? [{ height, width, taps, dilation, down, across, inOrder, stages: 3 }] : [];
    }),
  );
  const covered = ({ down, height, across, width }: PixelPatch): number => down * height * across * width;
  const share = (patch: PixelPatch): number => copiedRows(patch) / (patch.height * patch.width);
  return patches.sort(
    (a, b) => covered(a) - covered(b) || Number(b.inOrder) - Number(a.inOrder) || share(a) - share(b),
  );
}

/** Rows of a product by such tiles: of patches all that are in them. */
export const heightOf = ({ M, images }: WarpgroupSizes, { patch }: Pick<WarpgroupTile, 'patch'>): number =>
  patch ? images!.count * patch.down * patch.across * patch.height * patch.width : M;

/** Stages of a ring, at most: more only if a B that stays has more. */
const MOST_STAGES = 8;

interface Room {
  readonly limits: GpuLimits;
  readonly split: boolean | undefined;
  /** Stages of a B that all tiles of C have: if they are rounds of the ring, it stays there. Without such a B: Infinity. */
  readonly whole: number;
}

/** With as many stages as there is memory for. */
function withStages(tile: RatedTile, given: Room): RatedTile {
  const { limits, split, whole } = given;
  const fixed = warpgroupBytes({ ...tile, stages: 0 }, split);
  const each = warpgroupBytes({ ...tile, stages: 1 }, split) - fixed;
  const room = Math.floor((limits.sharedBytesPerBlock - MARGIN - fixed) / each);
  const most = Math.min(room, whole <= room ? Math.max(MOST_STAGES, whole) : MOST_STAGES);
  const rounds = most - (most % whole);
  const stages = rounds >= Math.min(STAGES, most) ? rounds : most;
  const { patch } = tile;
  if (!patch || patch.stages === 2 || stages >= STAGES) return { ...tile, stages };
  return withStages({ ...tile, patch: { ...patch, stages: patch.stages - 1 } }, given);
}

/**
 * With more tiles of what the epilogue takes beside the sums, if it is that of which fewer tiles of C are on their way than of the
 * operands: the ring of stages is shorter then.
 */
function withRing(tile: RatedTile, chunks: number, dtype: DType, given: Room): RatedTile {
  const each = (tile.each * tile.columns) / widthOf(tile.columns, dtype);
  const ahead = ({ held = 2, stages }: RatedTile): number => Math.min(stages / chunks, held / each);
  let best = tile;
  for (let held = 3; ahead(best) === (best.held ?? 2) / each; held++) {
    const longer = withStages({ ...tile, held }, given);
    if (longer.stages < 2 || ahead(longer) <= ahead(best)) break;
    best = longer;
  }
  return best;
}

/**
 * Cycles of a stage along K: the longest of its products, its copies, and its traffic to and from shared memory at 128 bytes per cycle. A is
 * read once, B for each product of 64 rows.
 */
function stageCycles(p: WarpgroupSizes, tile: RatedTile): number {
  const { columns, patch, speed } = tile;
  const { rate, row, turned } = WARPGROUP_TIMES;
  const rows = rowsOf(tile);
  const products = p.split ? 3 : 1;
  const filled = p.images?.filled ?? 1;
  const used = p.split ? columns : usedColumns(columns, p.N, p.dtype);
  const product = (products * filled * rows * used * ROW) / (rate * speed);
  const ofA = patch ? (patchesOf(tile, patch) * copiedRows(patch)) / patch.taps : rows;
  const read = filled * (rows + ((products * rows) / ROWS) * used);
  // Threads transpose B, and write and read its low parts.
  const prepared = ((p.turned.b ? turned : 0) + (p.split ? 2 : 0)) * columns;
  return Math.max(product, row.a * ofA + row.b * columns, ofA + columns + read + prepared);
}

/** Cycles of the epilogue of a tile. */
function finishCycles(p: WarpgroupSizes, tile: RatedTile): number {
  const { beside, instruction, store, sum, tile: each } = WARPGROUP_TIMES;
  const elements = rowsOf(tile) * usedColumns(tile.columns, p.N, p.dtype);
  // Blocks that share K store f32, and another kernel runs the epilogue.
  if (tile.splits > 1) return each + 4 * store * elements;
  const [all, brought] = [p.beside ?? 0, tile.beside ?? 0];
  const bytes = store + brought * beside.brought + (all - brought) * beside.read;
  const sums = isSummed(p, tile) ? p.sums!.levels.flat().length : 0;
  const computed = instruction * (p.following ?? 0) + sum * sums;
  return each + (p.dtype.bytes * bytes + computed) * elements;
}

/** Cycles for storing parts of sums, and for the kernel that adds them up. @param count of their elements, f32 */
export const partCycles = (count: number, { units }: Target): number =>
  FITTED.matmul.anotherKernel + (8 * count) / (units * WARPGROUP_TIMES.again);

/** Cycles of another kernel that reads and writes so many matrices of the result's size. */
function behindCycles({ batches, dtype, M, N }: WarpgroupSizes, { units }: Target, matrices: number): number {
  const bytes = batches * M * N * dtype.bytes * matrices;
  return FITTED.matmul.anotherKernel + bytes / (units * WARPGROUP_TIMES.again);
}

/** Whether the kernel computes the sums of columns that are wanted. */
const isSummed = ({ sums }: WarpgroupSizes, { patch, splits }: RatedTile): boolean =>
  sums !== undefined && splits === 1 && patch?.inOrder !== false;

const rule: LaunchRule<WarpgroupSizes, RatedTile> = {
  *candidates({ units, limits }, p) {
    const { M, N, K, batches, beside = 0, dtype, split, whole } = p;
    const depth = depthOf(dtype);
    const chunks = Math.ceil(K / depth);
    const isFollowed = beside > 0 || (p.following ?? 0) > 0 || p.sums !== undefined;
    for (const shape of shapesFor(p)) {
      const [rows, { columns }] = [rowsOf(shape), shape];
      // Half a tile at least is in the matrix, unless no smaller one is to be had.
      if ((rows >= 2 * M && rows > 64) || (columns >= 2 * N && columns > 64)) continue;
      const tiles = Math.ceil(heightOf(p, shape) / rows) * Math.ceil(N / columns) * batches;
      const isOneB = columns >= N && batches === 1 && !p.turned.b && !split;
      const tileWith = (beside: number, whole = Infinity) =>
        withStages({ ...shape, beside, stages: 0, splits: 1 }, { limits, split, whole });
      // Long sums need the memory for their stages.
      const brought = [2, 1].find((n) => n <= beside && tileWith(n).stages >= Math.min(STAGES, chunks)) ?? 0;
      // Blocks share K where one sum would be too long, and where there are too few tiles for all multiprocessors.
      const least = Math.ceil(K / LEVEL[operandOf(dtype, split)]);
      for (const splits of whole ? [1] : new Set([least, 1, 2, 3, 4, 6, 8, 16, ...splitsFor(tiles, units)])) {
        if (splits < least || splits * (shape.patch?.taps ?? 1) > chunks) continue;
        if (splits > least && tiles * splits > 2 * units) continue;
        // Each warpgroup of a block needs a tile. Without an epilogue taking turns hides little, and a tile that is faster when timed
        // alone may be slower under sustained load, where power is the limit.
        if (shape.alternate && (tiles * splits <= units || !isFollowed)) continue;
        // Parts are finished by another kernel.
        const whole = isOneB && splits === 1 ? chunks : Infinity;
        const own = tileWith(splits === 1 ? brought : 0, whole);
        yield { ...(own.beside ? withRing(own, chunks, dtype, { limits, split, whole }) : own), splits };
      }
    }
  },

  fits: (_target, _p, { stages }) => stages >= 2,

  cycles(target, p, tile) {
    const { units } = target;
    const { alternate, columns, patch, splits } = tile;
    const { batches, dtype, M, N } = p;
    const { latency } = FITTED.matmul;
    const { byTurns, memory } = WARPGROUP_TIMES;
    const tiles = Math.ceil(heightOf(p, tile) / rowsOf(tile)) * Math.ceil(N / columns) * batches * splits;
    const together = patch?.taps ?? 1;
    const stages = Math.ceil(Math.ceil(p.K / depthOf(dtype)) / together / splits) * together;
    const { product, overlap } = byTurns;
    const multiplied = stages * stageCycles(p, tile) * (alternate ? product : 1);
    const finished = finishCycles(p, tile);
    // By turns, the epilogue of one warpgroup overlaps with the products of the other, except for the last.
    const both = multiplied + finished;
    const each = alternate ? Math.max(multiplied, both / overlap) : both;
    const worked = Math.ceil(tiles / units) * each + (alternate ? finished : 0);
    const results = batches * M * N;
    const operands = p.bytes ?? batches * (M + N) * p.K * dtype.bytes;
    const stored = splits > 1 ? 0 : results * dtype.bytes * (1 + (p.beside ?? 0));
    const moved = (operands + stored) / (units * memory);
    const parts = splits > 1 ? partCycles(splits * results, target) : 0;
    // Another kernel sums the columns.
    const sums = p.sums && !isSummed(p, tile) ? behindCycles(p, target, 1) : 0;
    return Math.hypot(worked, moved) + latency + parts + sums;
  },

  // Images are cut in one way for each tile.
  key: ({ groups, each, columns, alternate, patch, splits }) =>
    [groups, each, columns, alternate, patch !== undefined, splits].join(),

  parts: ({ splits }) => splits,
};

/** Shapes of tiles, with the patches that their rows may be. Two warpgroups share tiles of patches. */
function shapesFor({ images, split }: WarpgroupSizes): Omit<RatedTile, 'stages' | 'splits'>[] {
  if (split) return SPLIT_SHAPES.map(([shape, speed]) => ({ ...shape, speed }));
  return SHAPES.flatMap((shape) => {
    const arePatched = images && shape.groups === 2 && !shape.alternate;
    const patches = [undefined, ...(arePatched ? patchesFor(shape, images) : [])];
    return patches.map((patch) => ({ ...shape, speed: WARPGROUP_TIMES.sustained, patch }));
  });
}

/** Blocks that share the sums of a few tiles: one or two for each multiprocessor. */
const splitsFor = (tiles: number, units: number): number[] =>
  [Math.floor(units / tiles), Math.floor((2 * units) / tiles)].filter((n) => n > 1);

/** Ways to multiply, the most promising first. */
export function warpgroupTiles(p: WarpgroupSizes, target: Target, count = MOST): WarpgroupTile[] {
  // As a left operand what lies across K costs less: the transpose is computed, unless columns of its tiles would be summed.
  if (p.turned.b && !p.turned.a && !p.split && !p.sums) {
    const transpose = { ...p, M: p.N, N: p.M, turned: { a: true, b: false } };
    return warpgroupTiles(transpose, target, count).map((tile) => ({ ...tile, exchanged: true }));
  }
  return fastestTiles(rule, target, p, count, PROMISING);
}

/** The best tile whose sums no blocks share: none if shared sums promise to take far less. */
export function wholeTiles(p: WarpgroupSizes, target: Target): WarpgroupTile[] {
  const whole = { ...p, whole: true };
  return warpgroupCycles(whole, target) <= FAR * warpgroupCycles(p, target)
    ? warpgroupTiles(whole, target, 1)
    : [];
}

/**
 * Whether the product without its epilogue, and another kernel for that, take no longer by the model: then both ways are timed. Of 26 products
 * with an epilogue on an H200 (2026-11-29) these were 18, and the other kernel paid for 12 of them. It paid for none of the rest.
 */
export function mayPayApart(p: WarpgroupSizes, target: Target): boolean {
  const plain = { ...p, whole: true, beside: 0, following: 0, sums: undefined };
  const apart = warpgroupCycles(plain, target) + behindCycles(p, target, 2 + (p.beside ?? 0));
  return apart <= warpgroupCycles(p, target);
}

/** Cycles of the best tile. */
export const warpgroupCycles = (p: WarpgroupSizes, target: Target): number => leastCycles(rule, target, p);

/**
 * Ways by tiles, the most promising first. Where sums of columns are wanted that need others first, the best of patches also without them:
 * products may wait for them longer than a launch takes that reads what was stored. On an H200 (2026-11-29) that launch paid for 5 of 16 such
 * convolutions, by 6 to 9 %. Of 15 with other sums it paid for one, by 1 %, and of 200 by other tiles for 4, by 5 % at most.
 */
export function warpgroupWays(
  p: WarpgroupSizes,
  tiles: readonly WarpgroupTile[],
  way: (tile: WarpgroupTile, sums: ColumnSums | undefined) => Variant,
): Variant[] {
  // Sums are of rows that lie in memory so.
  const ways = tiles.map((tile) => way(tile, tile.patch?.inOrder === false ? undefined : p.sums));
  const isDeep = p.sums !== undefined && p.sums.levels.length > 1;
  const best = isDeep && tiles.find(({ patch, splits }) => splits === 1 && patch?.inOrder);
  if (!best) return ways;
  const apart = way(best, undefined);
  return [...ways, { ...apart, name: `${apart.name}, then sums` }];
}

export const splitName = ({ splits }: Pick<WarpgroupTile, 'splits'>): string =>
  splits > 1 ? `-split-k-${splits}` : '';

/** What warpgroups multiply matrices of that dtype as. */
export const operandOf = (dtype: DType, split = false): TensorOperand =>
  dtype === f32 ? (split ? 'tf32x3' : 'tf32') : (dtype.name as 'f16' | 'bf16' | 'i8');

/** `bf16-warpgroups-128x256x64`: rows, columns and depth of a tile. */
export function warpgroupName(tile: WarpgroupTile, dtype: DType, split = false): string {
  const each = tile.each > 1 ? `-${tile.groups}x${tile.each}` : '';
  const turns = tile.alternate ? '-by-turns' : '';
  const exchanged = tile.exchanged ? '-exchanged' : '';
  const patches = tile.patch ? `-patches-${tile.patch.height}x${tile.patch.width}` : '';
  const size = `${rowsOf(tile)}x${tile.columns}x${depthOf(dtype)}`;
  return `${operandOf(dtype, split)}-warpgroups-${size}${each}${turns}${exchanged}${patches}${splitName(tile)}`;
}

/** Compute capability × 10 of Hopper: the only one with wgmma. */
export const WARPGROUPS = 90;
