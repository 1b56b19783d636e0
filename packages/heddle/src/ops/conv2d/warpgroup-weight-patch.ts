/**
 * Weight gradients of stride 1 by warpgroups (warpgroup.ts) that take pixels in patches: rectangles of pixels of an image, which are
 * the steps along K of a stage. What the taps of a column of the kernel meet differs by rows of pixels, so that the copy engine
 * brings x once for a column, with the rows of pixels below, and each tap multiplies what begins at its row: a *view* of the
 * stage. A row of pixels is a multiple of 8, after which the pattern repeats itself by which a tile lies in shared memory.
 *
 *   dY  pixels of a patch × outputs              ┐  sums of (tap, input), a tile for each column of the kernel and each `inputs`
 *   x   pixels of a patch and below × inputs     ┘
 *
 * Patches may reach over the edges of an image: the engine reads zeros there. A number of x that is not finite then makes sums of taps
 * NaN that do not meet it, beside those that do. Without patches, x comes once for each tap, and f32, which lies across K, is turned as
 * often.
 */
import { f32 } from '../../core/dtype.js';
import { FITTED } from '../../kernel/ir/machine.js';
import type { Target } from '../../kernel/ir/target.js';
import { tensorMap } from '../../kernel/ir/types.js';
import { WARPGROUP_TIMES } from '../../kernel/ir/warpgroup-times.js';
import type { Memory } from '../../kernel/language/language.js';
import { combinations, fastestTiles, type LaunchRule } from '../launch-rule.js';
import { LEVEL } from '../matmul/cuda-block.js';
import { MARGIN } from '../matmul/cuda-tiles.js';
import { byWarpgroups } from '../matmul/warpgroup.js';
import {
  depthOf,
  type OperandTiles,
  ROW,
  ROWS,
  tilesOf,
  type WarpgroupTile,
} from '../matmul/warpgroup-layout.js';
import type { OperandStart, PipelineContext, WarpgroupOperand } from '../matmul/warpgroup-pipeline.js';
import { finishInMatrix } from '../matmul/warpgroup-product.js';
import type { ResultPlaces, SumsTile, WarpgroupPlace, WarpgroupResult } from '../matmul/warpgroup-result.js';
import { operandOf, partCycles, splitName } from '../matmul/warpgroup-tiles.js';
import type { GridKernel } from '../tiled.js';
import type { LastProblem } from './last-product.js';
import { asProduct } from './warpgroup.js';
import { tapMap } from './warpgroup-places.js';
import { type Geometry, imagesOf } from './warpgroup-taps.js';

/** How a weight gradient is cut. */
export interface StepPatch {
  /** Pixels of dY: as many as a stage has steps. The width is a multiple of 8. */
  readonly height: number;
  readonly width: number;
  /** Of the images that patches cover, row by row. */
  readonly down: number;
  readonly across: number;
  /** Taps of a tile, one below the other, and such pieces of a column of the kernel. */
  readonly taps: number;
  readonly pieces: number;
  /** Of a tile, for each of its taps. */
  readonly inputs: number;
  /** Of x: pixels that come for a patch. */
  readonly pixels: number;
}

/** A way to compute a weight gradient. */
export interface StepPatchWay {
  readonly patch: StepPatch;
  readonly tile: WarpgroupTile;
}

const WIDTHS = [8, 16, 32, 64] as const;
/** Taps and inputs of a tile. A thread has their sums in registers, which limits both. */
const MOST_TAPS = 3;
const INPUTS = [32, 64, 96] as const;
/** More copies on their way gain nothing. */
const MOST_STAGES = 8;

function patchOf(p: Geometry, width: number, inputs: number): StepPatch {
  const { dilation, dtype, kernel, outSize } = p;
  const depth = depthOf(dtype);
  const height = depth / width;
  const pieces = Math.ceil(kernel[0] / MOST_TAPS);
  const taps = Math.ceil(kernel[0] / pieces);
  const met = (height + (taps - 1) * dilation[0]) * width;
  return {
    ...{ height, width, taps, pieces, inputs },
    ...{ down: Math.ceil(outSize[0] / height), across: Math.ceil(outSize[1] / width) },
    // f32 is turned in blocks of 32 × 32.
    pixels: dtype === f32 ? Math.ceil(met / depth) * depth : met,
  };
}

/** Rows of 128 bytes that x has in a stage. */
const rowsOfImages = ({ inputs, pixels }: StepPatch, p: Geometry): number =>
  Math.ceil(inputs / depthOf(p.dtype)) * pixels;

const tilesAcross = ({ inputs, pieces }: StepPatch, p: Geometry): number =>
  p.kernel[1] * pieces * Math.ceil(p.inputs / inputs);

const patchesOf = ({ down, across }: StepPatch, p: Geometry): number => p.images * down * across;

/** Tiles of so many rows. */
const tilesOfResult = (p: Geometry, patch: StepPatch, rows: number): number =>
  p.groups * Math.ceil(p.outputs / rows) * tilesAcross(patch, p);

/** Cycles of a stage: products, what shared memory takes and gives, and what the copy engine brings. */
function stageCycles(p: Geometry, patch: StepPatch, rows: number): number {
  const { rate, row, sustained, turned } = WARPGROUP_TIMES;
  const { inputs, taps } = patch;
  const isTurned = p.dtype === f32;
  const ofImages = rowsOfImages(patch, p);
  const prepared = isTurned ? turned * ofImages : 0;
  const read = (isTurned ? 1 : taps) * rows + (rows / ROWS) * taps * inputs;
  const product = (rows * taps * Math.max(inputs, ROWS) * ROW) / (rate * sustained);
  return Math.max(product, row.a * rows + row.b * ofImages, rows + ofImages + prepared + read);
}

/** Blocks share the sums so that they fill all multiprocessors once or twice, or as often as keeps the sums short enough. */
const rule: LaunchRule<Geometry, StepPatchWay> = {
  *candidates({ limits, units }, p) {
    const depth = depthOf(p.dtype);
    for (const [width, inputs, groups] of combinations(WIDTHS, INPUTS, [1, 2] as const)) {
      const rows = groups * ROWS;
      // Half a tile at least is in the result, unless no smaller one is to be had.
      if (width > depth || inputs >= 2 * Math.max(INPUTS[0], p.inputs)) continue;
      if (rows > ROWS && rows >= 2 * p.outputs) continue;
      const patch = patchOf(p, width, inputs);
      const room = limits.sharedBytesPerBlock - MARGIN - 2 * rows * ROW;
      const stages = Math.min(MOST_STAGES, Math.floor(room / ((rows + rowsOfImages(patch, p)) * ROW)));
      const chunks = patchesOf(patch, p);
      const least = Math.ceil((chunks * depth) / LEVEL[operandOf(p.dtype)]);
      const tiles = tilesOfResult(p, patch, rows);
      for (const splits of new Set([1, units / tiles, (2 * units) / tiles, least].map(Math.floor)))
        if (splits >= least && splits <= chunks)
          yield { patch, tile: { groups, each: 1, columns: patch.taps * inputs, stages, splits } };
    }
  },

  fits: (_target, _p, { tile }) => tile.stages >= 2,

  cycles(target, p, { patch, tile }) {
    const { groups, kernel, inputs, outputs } = p;
    const { columns, splits } = tile;
    const rows = tile.groups * ROWS;
    const perUnit = Math.ceil((tilesOfResult(p, patch, rows) * splits) / target.units);
    const stages = Math.ceil(patchesOf(patch, p) / splits);
    const { memory, store, tile: each } = WARPGROUP_TIMES;
    const worked = perUnit * (stages * stageCycles(p, patch, rows) + each + 4 * store * rows * columns);
    const moved = asProduct(p, true).bytes! / (target.units * memory);
    // Another launch takes the sums from their parts, even if there is one.
    const count = Math.max(2, splits) * groups * outputs * kernel[0] * kernel[1] * inputs;
    return Math.hypot(worked, moved) + FITTED.matmul.latency + partCycles(count, target);
  },

  parts: ({ tile }) => tile.splits,
};

/** The best way by the model: none unless the kernel has columns of several taps, which meet pixels below each other. */
export const weightPatchWay = (p: Geometry, target: Target): StepPatchWay | undefined =>
  p.kernel[0] > 1 && p.stride.every((n) => n === 1) && p.apart === undefined
    ? fastestTiles(rule, target, p, 1)[0]
    : undefined;

export const weightPatchCycles = (p: Geometry, way: StepPatchWay, target: Target): number =>
  rule.cycles(target, p, way);

/** `tf32-warpgroups-64x192x32-patches-2x16-split-k-44` */
export function weightPatchName({ patch, tile }: StepPatchWay, p: Geometry): string {
  const size = `${tile.groups * ROWS}x${tile.columns}x${depthOf(p.dtype)}`;
  return `${operandOf(p.dtype)}-warpgroups-${size}-patches-${patch.height}x${patch.width}${splitName(tile)}`;
}

// ── The operands ─────────────────────────────────────────────────────────────────────────────────────────────────

interface PatchTiles extends OperandTiles {
  readonly patch: StepPatch;
  readonly problem: Geometry;
}

/** The first pixel of a patch. */
interface PatchPlace {
  readonly image: number;
  readonly row: number;
  readonly column: number;
}

interface StepPatchContext extends PipelineContext {
  readonly placeOfPatch: typeof placeOfPatch;
  readonly columnOfTile: typeof columnOfTile;
}

function placeOfPatch(
  k: number,
  { across, down, height, width }: StepPatch,
  { idiv, work }: PipelineContext,
): PatchPlace {
  const number = idiv(k, work.depth);
  return {
    image: idiv(number, down * across),
    row: (idiv(number, across) % down) * height,
    column: (number % across) * width,
  };
}

/** What a tile of the result is of: a column of the kernel, its first tap there, its first input. */
interface TileColumn {
  readonly column: number;
  readonly first: number;
  readonly input: number;
}

function columnOfTile(
  along: number,
  { inputs, pieces, taps }: StepPatch,
  { kernel }: Geometry,
  { idiv }: PipelineContext,
): TileColumn {
  const tile = idiv(along, taps * inputs);
  return {
    column: tile % kernel[1],
    first: (idiv(tile, kernel[1]) % pieces) * taps,
    input: idiv(tile, kernel[1] * pieces) * inputs,
  };
}

function loadGradients(
  to: Memory,
  from: Memory,
  { apart, boxes, patch, problem }: PatchTiles,
  { batch, along, k }: OperandStart,
  full: Memory,
  stage: number,
  context: StepPatchContext,
): void {
  const { placeOfPatch, tmaLoad, work } = context;
  const at = placeOfPatch(k, patch, context);
  for (let i = 0; i < boxes; i++) {
    const channel = batch * problem.outputs + along + i * work.depth;
    const row = i * apart[1];
    tmaLoad(to, stage, i * apart[0], row, 0, from, at.image, at.row, at.column, channel, full, stage);
  }
}

/** dY, whose pixels are along K: patches of all outputs of a tile. */
function gradientOperand(p: LastProblem, patch: StepPatch, rows: number): WarpgroupOperand {
  const { dtype, images, outSize, groups, outputs, secondOffset } = p;
  const channels = groups * outputs;
  const tiles: PatchTiles = { ...tilesOf(false, rows, dtype), patch, problem: p };
  const schema = tensorMap(dtype, {
    sizes: [images, ...outSize, channels],
    strides: [outSize[0] * outSize[1] * channels, outSize[1] * channels, channels, 1],
    box: [1, patch.height, patch.width, depthOf(dtype)],
    offset: secondOffset,
    tf32: dtype === f32,
  });
  return { schema, tiles, load: loadGradients };
}

/** Blocks of as many pixels as a box has, one after the other along K, of each all channels of a tile. */
function loadImages(
  to: Memory,
  from: Memory,
  { apart, boxes, box, patch, problem }: PatchTiles,
  { batch, along, k }: OperandStart,
  full: Memory,
  stage: number,
  context: StepPatchContext,
): void {
  const { columnOfTile, idiv, placeOfPatch, tmaLoad, work } = context;
  const { dilation, padding } = problem;
  const { pixels, width } = patch;
  const blocks = idiv(pixels, box);
  const across = idiv(boxes, blocks);
  const at = placeOfPatch(k, patch, context);
  const of = columnOfTile(along, patch, problem, context);
  const down = at.row - padding[0] + of.first * dilation[0];
  const column = at.column - padding[1] + of.column * dilation[1];
  for (let block = 0; block < blocks; block++) {
    const row = down + block * idiv(box, width);
    for (let i = 0; i < across; i++) {
      const channel = batch * problem.inputs + of.input + i * work.depth;
      const number = block * across + i;
      const panel = number * apart[0];
      tmaLoad(to, stage, panel, number * apart[1], 0, from, at.image, row, column, channel, full, stage);
    }
  }
}

/** x, whose pixels are along K, as the taps of a column of the kernel meet it: each by a view. */
function imageOperand(p: LastProblem, patch: StepPatch): WarpgroupOperand {
  const { dilation, dtype } = p;
  const { inputs, pixels, taps, width } = patch;
  const depth = depthOf(dtype);
  const turned = dtype === f32;
  const across = Math.ceil(inputs / depth);
  const box = turned ? depth : pixels;
  const boxed = { k: false, turned, boxes: (pixels / box) * across, box, patch, problem: p };
  const tiles: PatchTiles = turned
    ? { ...boxed, panels: 1, rows: boxed.boxes * box, apart: [0, box] }
    : { ...boxed, panels: across, rows: box, apart: [1, 0] };
  const schema = tensorMap(dtype, { ...imagesOf(p), box: [1, box / width, width, depth] });
  return { schema, tiles, load: loadImages, views: { count: taps, by: dilation[0] * width } };
}

// ── The result ───────────────────────────────────────────────────────────────────────────────────────────────────

interface ColumnPlaces extends ResultPlaces {
  readonly patch: StepPatch;
  readonly problem: Geometry;
}

/** Taps and inputs that a tile has beyond the kernel's and the group's are not stored. */
function storeColumn(
  c: Memory,
  cs: Memory,
  { group, held }: SumsTile,
  { batch, split }: WarpgroupPlace,
  row: number,
  column: number,
  context: StepPatchContext,
): void {
  const { columnOfTile, idiv, tmaStore, work } = context;
  const { patch, problem } = work.c as ColumnPlaces;
  const of = columnOfTile(column, patch, problem, context);
  const within = column % (patch.taps * patch.inputs);
  const tap = (of.first + idiv(within, patch.inputs)) * problem.kernel[1] + of.column;
  const input = of.input + (within % patch.inputs);
  tmaStore(c, split * work.sizes.batches + batch, tap, row, input, cs, group, held, 0, 0);
}

/** Parts of the weight gradient from x and dY, (split, group, output, tap, input). */
export function convolveWeightPatches(
  p: LastProblem,
  { patch, tile }: StepPatchWay,
  units: number,
): GridKernel {
  const { dtype, finish, groups, outputs } = p;
  const places: ColumnPlaces = { byEngine: true, patch, problem: p };
  const result: WarpgroupResult = {
    schema: tapMap(p, tile.splits),
    places,
    finishAt: finishInMatrix,
    storeTile: storeColumn,
  };
  const problem = {
    ...{ name: 'conv2dWeightWarpgroups', batches: groups, M: outputs, finish, result, parts: true },
    ...{ N: tilesAcross(patch, p) * tile.columns, K: patchesOf(patch, p) * depthOf(dtype), terms: [1] },
    a: gradientOperand(p, patch, tile.groups * ROWS),
    b: imageOperand(p, patch),
    functions: { columnOfTile, placeOfPatch },
  };
  return byWarpgroups(problem, tile, dtype, units);
}
