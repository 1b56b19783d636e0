/** Where the results of convolutions by warpgroups (warpgroup.ts) go that are no matrices. */
import { buffer, tensorMap } from '../../kernel/ir/types.js';
import type { Memory } from '../../kernel/language/language.js';
import type { WarpgroupTile } from '../matmul/warpgroup-layout.js';
import type { PipelineContext } from '../matmul/warpgroup-pipeline.js';
import { finishInMatrix } from '../matmul/warpgroup-product.js';
import type {
  MatrixPlace,
  ResultPlaces,
  SumsTile,
  WarpgroupPlace,
  WarpgroupResult,
} from '../matmul/warpgroup-result.js';
import type { LastProblem } from './last-product.js';
import type { Geometry, KernelTaps, TapContext } from './warpgroup-taps.js';

interface PhasePlaces extends ResultPlaces {
  readonly taps: KernelTaps;
  /** Elements from an image's pixels of one phase to those of the next, downwards and across. */
  readonly apart: readonly [number, number];
}

interface PhaseContext extends TapContext {
  readonly pixelOf: typeof pixelOf;
  readonly phaseChannel: typeof phaseChannel;
}

/** The number of a pixel of the result, given its number among those of its phase; −1 if it is beyond the images. */
function pixelOf(batch: number, row: number, context: PhaseContext): number {
  const { i32, idiv, phaseOf, work } = context;
  const { byEngine, taps } = work.c as PhasePlaces;
  const { counts, horizontal, problem, vertical } = taps;
  const { outSize } = problem;
  const phase = phaseOf(batch, taps, context);
  const r = (idiv(row, counts[1]) % counts[0]) * vertical.phases + idiv(phase, horizontal.phases);
  const c = (row % counts[1]) * horizontal.phases + (phase % horizontal.phases);
  let pixel = i32((idiv(row, counts[0] * counts[1]) * outSize[0] + r) * outSize[1] + c);
  if (row >= work.sizes.M) pixel = -1;
  // Where phases are equal, every pixel of them is in an image.
  if (!byEngine && (r >= outSize[0] || c >= outSize[1])) pixel = -1;
  return pixel;
}

function finishInPhase(
  v: number,
  first: number,
  second: number,
  ofBias: number,
  batch: number,
  row: number,
  column: number,
  keep: (v: number) => void,
  context: PhaseContext,
): void {
  const { finished, groupOf, pixelOf, work } = context;
  const { taps } = work.c as PhasePlaces;
  const pixel = pixelOf(batch, row, context);
  if (work.isFree || (pixel >= 0 && column < work.sizes.N))
    keep(finished(v, first, second, ofBias, groupOf(batch, taps), pixel, column, context));
}

/** Where the walk over the pixels of a phase begins: channels from the first of the image to that column of the first pixel. */
function phaseChannel(batch: number, column: number, context: PhaseContext): number {
  const { groupOf, idiv, phaseOf, work } = context;
  const { apart, taps } = work.c as PhasePlaces;
  const phase = phaseOf(batch, taps, context);
  const { phases } = taps.horizontal;
  const first = idiv(phase, phases) * apart[0] + (phase % phases) * apart[1];
  return first + groupOf(batch, taps) * work.sizes.N + column;
}

function storeWalk(
  c: Memory,
  cs: Memory,
  { group, held }: SumsTile,
  { batch }: WarpgroupPlace,
  row: number,
  column: number,
  context: PhaseContext,
): void {
  const { idiv, phaseChannel, tmaStore, work } = context;
  const { counts } = (work.c as PhasePlaces).taps;
  const image = idiv(row, counts[0] * counts[1]);
  const channel = phaseChannel(batch, column, context);
  tmaStore(c, image, idiv(row, counts[1]) % counts[0], row % counts[1], channel, cs, group, held, 0, 0);
}

function loadWalk(
  to: Memory,
  tile: number,
  held: number,
  from: Memory,
  { batch, row, column }: MatrixPlace,
  full: Memory,
  barrier: number,
  context: PhaseContext,
): void {
  const { idiv, phaseChannel, tmaLoad, work } = context;
  const { counts } = (work.c as PhasePlaces).taps;
  const image = idiv(row, counts[0] * counts[1]);
  const down = idiv(row, counts[1]) % counts[0];
  const across = row % counts[1];
  const channel = phaseChannel(batch, column, context);
  tmaLoad(to, tile, held, 0, 0, from, image, down, across, channel, 0, 0, full, barrier);
}

/** Where phases or channels are uneven, the threads of a group store their rows, 4 elements at a time. */
function storeRows(
  c: Memory,
  cs: Memory,
  { group, held, thread }: SumsTile,
  { batch }: WarpgroupPlace,
  row: number,
  column: number,
  context: PhaseContext,
): void {
  const { groupOf, idiv, load4, pixelOf, store4, work, ROWS, THREADS } = context;
  const { taps } = work.c as PhasePlaces;
  const { N } = work.sizes;
  const perRow = idiv(work.width, 4);
  for (let i = thread; i < ROWS * perRow; i += THREADS) {
    const r = idiv(i, perRow);
    const inRow = 4 * (i % perRow);
    const pixel = pixelOf(batch, row + r, context);
    const channel = (pixel * taps.problem.groups + groupOf(batch, taps)) * N + column + inRow;
    if (pixel >= 0 && column + inRow < N) store4(c, channel, load4(cs, group, held, r, inRow));
  }
}

/** Whether all phases have equally many pixels. */
export const areEven = ({ outSize }: Geometry, { counts, vertical, horizontal }: KernelTaps): boolean =>
  outSize[0] === counts[0] * vertical.phases && outSize[1] === counts[1] * horizontal.phases;

/** Of a strided input gradient: each phase's pixels, at their places in the images. */
export function phaseResult(p: LastProblem, taps: KernelTaps, { columns }: WarpgroupTile): WarpgroupResult {
  const { groups, images, outputs, outSize } = p;
  const { counts, vertical, horizontal } = taps;
  const [down, across] = [vertical.phases, horizontal.phases];
  const apart = [outSize[1] * groups * outputs, groups * outputs] as const;
  // The engine sees all phases as channels of the pixels of one. It would store what a tile has beyond the outputs in the next.
  const byEngine = areEven(p, taps) && outputs % columns === 0;
  const places: PhasePlaces = { byEngine, taps, apart };
  return {
    schema: (dtype, box) =>
      byEngine
        ? tensorMap(dtype, {
            sizes: [images, ...counts, (down - 1) * apart[0] + across * apart[1]],
            strides: [outSize[0] * apart[0], down * apart[0], across * apart[1], 1],
            box,
            walk: { from: [0, 0], counts },
          })
        : buffer(dtype),
    places,
    finishAt: finishInPhase,
    storeTile: byEngine ? storeWalk : storeRows,
    ...(byEngine && { loadTile: loadWalk }),
  };
}

interface TapPlaces extends ResultPlaces {
  readonly pitch: number;
}

function storeTap(
  c: Memory,
  cs: Memory,
  { group, held }: SumsTile,
  { batch, split }: WarpgroupPlace,
  row: number,
  column: number,
  { idiv, tmaStore, work }: PipelineContext,
): void {
  const { pitch } = work.c as TapPlaces;
  const to = work.inParts ? split * work.sizes.batches + batch : batch;
  tmaStore(c, to, idiv(column, pitch), row, column % pitch, cs, group, held, 0, 0);
}

/** A map of the weight gradient's parts, (split, group, output, tap, input), whose dimensions are (split and group, tap, output, input). */
export function tapMap(
  { groups, kernel, inputs, outputs }: LastProblem,
  splits: number,
): WarpgroupResult['schema'] {
  const count = kernel[0] * kernel[1];
  return (dtype, [rows, columns]) =>
    tensorMap(dtype, {
      sizes: [splits * groups, count, outputs, inputs],
      strides: [outputs * count * inputs, inputs, count * inputs, 1],
      box: [1, 1, rows, columns],
    });
}

/** The weight gradient, or its parts. */
export function tapResult(p: LastProblem, splits: number, pitch: number): WarpgroupResult {
  const places: TapPlaces = { byEngine: true, pitch };
  return { schema: tapMap(p, splits), places, finishAt: finishInMatrix, storeTile: storeTap };
}

/** The device functions, as constants of a kernel. */
export const PHASES = { phaseChannel, pixelOf };
