/**
 * Convolutions by warpgroups of stride 1 (warpgroup.ts) whose rows of A are patches: rectangles of pixels of an image. What the
 * taps of a column of the kernel meet differs by rows of pixels, so that the copy engine brings a patch for a column, with the
 * rows of pixels above and below it, and each tap multiplies what begins at its row. A row of pixels is a multiple of 8, and 8 of
 * them are 1,024 bytes, after which the pattern by which a tile lies in shared memory repeats itself: to a tensor core all taps
 * begin alike.
 *
 * The engine reads what is beyond an image as zeros and stores nothing there, so that patches may reach over its edges.
 */
import { tensorMap } from '../../kernel/ir/types.js';
import type { Memory } from '../../kernel/language/language.js';
import {
  copiedRows,
  depthOf,
  type OperandTiles,
  type PixelPatch,
  patchesOf,
  ROWS,
  type WarpgroupTile,
} from '../matmul/warpgroup-layout.js';
import type { OperandStart, PipelineContext, WarpgroupOperand } from '../matmul/warpgroup-pipeline.js';
import { matrixResult } from '../matmul/warpgroup-product.js';
import type {
  MatrixPlace,
  ResultContext,
  ResultPlaces,
  SumsTile,
  WarpgroupPlace,
  WarpgroupResult,
} from '../matmul/warpgroup-result.js';
import type { LastProblem } from './last-product.js';
import { imagesOf, type KernelTaps, type Tap, type TapContext } from './warpgroup-taps.js';

interface PatchTiles extends OperandTiles {
  readonly patch: PixelPatch;
  readonly taps: KernelTaps;
}

/** Starts to copy the patches of a tile, as the column of the term's tap meets them. */
function loadPatches(
  to: Memory,
  from: Memory,
  { panels, patch, taps }: PatchTiles,
  { batch, term, along, k }: OperandStart,
  full: Memory,
  stage: number,
  context: TapContext,
): void {
  const { eachTap, groupOf, idiv, tmaLoad } = context;
  const { height, width, down, across } = patch;
  const channel = groupOf(batch, taps) * taps.problem.inputs + k;
  const copy = (tap: Tap) => {
    for (let i = 0; i < panels; i++) {
      const number = idiv(along, height * width) + i;
      const image = idiv(number, down * across);
      const row = taps.from[0] + (idiv(number, across) % down) * height;
      const column = taps.from[1] + (number % across) * width + tap.across;
      tmaLoad(to, stage, i, 0, 0, from, image, row, column, channel, full, stage);
    }
  };
  eachTap(batch, term, taps, copy, context);
}

/** The pixels of the first source in patches. */
export function patchOperand(
  p: LastProblem,
  taps: KernelTaps,
  tile: WarpgroupTile,
  patch: PixelPatch,
): WarpgroupOperand {
  const { dtype } = p;
  const { height, width, dilation, stages } = patch;
  const panels = patchesOf(tile, patch);
  const rows = copiedRows(patch);
  const tiles: PatchTiles = {
    ...{ k: true, turned: false, panels, rows, boxes: panels, box: rows, apart: [1, 0] },
    ...{ patch, taps },
  };
  const box = [1, rows / width, width, depthOf(dtype)];
  // The first tap of an input gradient meets what is farthest down.
  const [from, by] = p.adjoint ? [rows - height * width, -dilation * width] : [0, dilation * width];
  return {
    schema: tensorMap(dtype, { ...imagesOf(p), box }),
    ...{ tiles, load: loadPatches },
    served: { steps: patch.taps, ring: stages, rows: height * width, from, by },
  };
}

interface PatchPlaces extends ResultPlaces {
  readonly patch: PixelPatch;
  readonly images: number;
  readonly outSize: readonly [number, number];
  /** No patch reaches over an edge. */
  readonly isExact: boolean;
}

/** Where 64 rows of the product begin in the images. */
interface PixelPlace {
  readonly image: number;
  readonly row: number;
  readonly column: number;
}

function placeInPatches(row: number, { idiv, work }: ResultContext): PixelPlace {
  const { across, down, height, width } = (work.c as PatchPlaces).patch;
  const number = idiv(row, height * width);
  return {
    image: idiv(number, down * across),
    row: (idiv(number, across) % down) * height + (idiv(row, width) % height),
    column: (number % across) * width + (row % width),
  };
}

interface PixelPatchContext extends PipelineContext {
  readonly placeInPatches: typeof placeInPatches;
}

/** Passes the finished value of two neighbours to `keep`, if they are in an image. */
function finishInPatch(
  v: number,
  first: number,
  second: number,
  ofBias: number,
  batch: number,
  row: number,
  column: number,
  keep: (v: number) => void,
  context: PixelPatchContext,
): void {
  const { finished, placeInPatches, work } = context;
  const { images, isExact, outSize } = work.c as PatchPlaces;
  const { isFree, isWhole, sizes } = work;
  const at = placeInPatches(row, context);
  const pixel = (at.image * outSize[0] + at.row) * outSize[1] + at.column;
  if (isFree || (isWhole && isExact)) keep(finished(v, first, second, ofBias, batch, pixel, column, context));
  else if (at.image < images && at.row < outSize[0] && at.column < outSize[1] && column < sizes.N)
    keep(finished(v, first, second, ofBias, batch, pixel, column, context));
}

function storePatch(
  c: Memory,
  cs: Memory,
  { group, held }: SumsTile,
  { batch, split }: WarpgroupPlace,
  row: number,
  column: number,
  context: PixelPatchContext,
): void {
  const { placeInPatches, tmaStore, work } = context;
  const at = placeInPatches(row, context);
  tmaStore(c, work.inParts ? split : batch, at.image, at.row, at.column, column, cs, group, held, 0, 0);
}

function loadPatch(
  to: Memory,
  tile: number,
  held: number,
  from: Memory,
  { batch, row, column }: MatrixPlace,
  full: Memory,
  barrier: number,
  context: PixelPatchContext,
): void {
  const { placeInPatches, tmaLoad } = context;
  const at = placeInPatches(row, context);
  tmaLoad(to, tile, held, 0, 0, from, batch, at.image, at.row, at.column, column, full, barrier);
}

/**
 * Where the sums of patches go, (split or group, image, row, column, output): 64 rows are some rows of pixels of a patch. Blocks do
 * not share the sums of several groups.
 */
export function patchResult(p: LastProblem, { splits }: WarpgroupTile, patch: PixelPatch): WarpgroupResult {
  const { groups, images, outputs, outSize } = p;
  const [rows, columns] = outSize;
  const channels = groups * outputs;
  const M = images * rows * columns;
  if (patch.inOrder) return matrixResult(splits * groups, M, outputs, groups);
  const isExact = outSize[0] % patch.height === 0 && outSize[1] % patch.width === 0;
  const places: PatchPlaces = { byEngine: true, patch, images, outSize, isExact };
  return {
    schema: (dtype, [, width]) =>
      tensorMap(dtype, {
        sizes: [splits * groups, images, rows, columns, outputs],
        strides: [
          groups > 1 ? outputs : M * outputs,
          rows * columns * channels,
          columns * channels,
          channels,
          1,
        ],
        box: [1, 1, ROWS / patch.width, patch.width, width],
      }),
    places,
    finishAt: finishInPatch,
    storeTile: storePatch,
    loadTile: loadPatch,
  };
}

/** The device functions, as constants of a kernel. */
export const PATCHES = { placeInPatches };
