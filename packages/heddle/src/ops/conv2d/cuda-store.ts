/**
 * How the convolution kernels for GPUs store their sums: through the epilogue, each or 2 × 2 together. Of several that a thread
 * stores, the epilogue loads what it takes before the first is stored; they are counted for that.
 */
import type { IrFunction } from '../../kernel/ir/ir-function.js';
import type { Cast, Intrinsics, Memory } from '../../kernel/language/language.js';
import { finishEarly } from '../../kernel/passes/finish-early.js';
import type { ImageLayout } from './cuda-image.js';
import type { ConvolveProblem } from './problem.js';

/**
 * What a kernel that stores is given as constants.
 * @param elements that a thread stores, or pairs or windows, for which the epilogue loads at once
 */
export const storing = (problem: ConvolveProblem, elements: number) => ({
  problem,
  /** Rounds to what is stored. */
  element: problem.dtype as Cast<'f32'>,
  windowed: problem.window !== undefined,
  ...finishEarly(problem.finish, elements, problem.window ? 4 : 1),
  placeInOutput,
  loadPixel,
  loadPair,
  loadWindow,
  storePixel,
  storePair,
  storeWindow,
});

/** What the device functions below find among a kernel's constants. */
export interface Storing extends Intrinsics {
  readonly problem: ConvolveProblem;
  readonly element: Cast<'f32'>;
  /** See `finishEarly`. */
  readonly early: IrFunction;
  readonly finish: IrFunction;
  readonly placeInOutput: typeof placeInOutput;
}

/** What a block computes: the group, and the first of its output channels, images, rows and columns. */
export interface BlockPlace {
  readonly group: number;
  readonly channel: number;
  readonly image: number;
  readonly row: number;
  readonly column: number;
}

/** Where the block is among `blocks` of `channels` output channels each (per group) and the tiles. For use in kernels. */
export function blockPlace(
  blocks: number,
  channels: number,
  { groups, tile, across, down }: ImageLayout,
  { blockIdx, idiv }: Intrinsics,
): BlockPlace {
  const group = groups === 1 ? 0 : idiv(blockIdx.y, blocks);
  const channel = (blockIdx.y % blocks) * channels;
  const column = (blockIdx.x % across) * tile.columns;
  const row = (idiv(blockIdx.x, across) % down) * tile.rows;
  const image = idiv(blockIdx.x, across * down) * tile.images;
  return { group, channel, image, row, column };
}

/** Where an element of the output lies; `channel` counts through all groups. For use in kernels. */
export function placeInOutput(
  image: number,
  channel: number,
  r: number,
  c: number,
  { problem: { groups, outputs, outSize } }: Storing,
): number {
  return ((image * (groups * outputs) + channel) * outSize[0] + r) * outSize[1] + c;
}

/** Has the epilogue load what it takes for element `number` of the thread. For use in kernels. */
export function loadPixel(
  number: number,
  image: number,
  channel: number,
  r: number,
  c: number,
  { early, element, f32 }: Storing,
): void {
  early(number, element(f32(0)), image, channel, r, c);
}

/** Stores one value of the output: element `number` of the thread. For use in kernels. */
export function storePixel(
  y: Memory,
  number: number,
  value: number,
  image: number,
  channel: number,
  r: number,
  c: number,
  context: Storing,
): void {
  const { element, finish, placeInOutput } = context;
  y[placeInOutput(image, channel, r, c, context)] = finish(number, element(value), image, channel, r, c);
}

/** As `loadPixel`, of two values side by side; c is even, and so are the output's columns. For use in kernels. */
export function loadPair(
  number: number,
  image: number,
  channel: number,
  r: number,
  c: number,
  { early, element, f32, splat2 }: Storing,
): void {
  early(number, element(splat2(f32(0))), image, channel, r, c);
}

/** Stores two values side by side, in one store. For use in kernels. */
export function storePair(
  y: Memory,
  number: number,
  both: number,
  image: number,
  channel: number,
  r: number,
  c: number,
  context: Storing,
): void {
  const { element, finish, store2, placeInOutput } = context;
  store2(
    y,
    placeInOutput(image, channel, r, c, context),
    finish(number, element(both), image, channel, r, c),
  );
}

/** As `loadPixel`, of a window whose first value is at row r and column c of the convolution. For use in kernels. */
export function loadWindow(
  number: number,
  image: number,
  channel: number,
  r: number,
  c: number,
  { early, element, f32, idiv }: Storing,
): void {
  const none = element(f32(0));
  early(number, none, none, none, none, image, channel, idiv(r, 2), idiv(c, 2));
}

/** Stores what `finish` makes of the 2 × 2 values of a window. For use in kernels. */
export function storeWindow(
  y: Memory,
  number: number,
  upperLeft: number,
  upperRight: number,
  lowerLeft: number,
  lowerRight: number,
  image: number,
  channel: number,
  r: number,
  c: number,
  { problem, element, finish, idiv }: Storing,
): void {
  const { groups, outputs, outSize } = problem;
  const row = idiv(r, 2);
  const column = idiv(c, 2);
  const plane = image * (groups * outputs) + channel;
  const to = (plane * idiv(outSize[0], 2) + row) * idiv(outSize[1], 2) + column;
  y[to] = finish(
    number,
    element(upperLeft),
    element(upperRight),
    element(lowerLeft),
    element(lowerRight),
    image,
    channel,
    row,
    column,
  );
}
