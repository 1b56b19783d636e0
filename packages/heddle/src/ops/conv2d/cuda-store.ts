/** How the convolution kernels for GPUs store their sums: through the epilogue, each or 2 × 2 together. */
import type { IrFunction } from '../../kernel/ir/ir-function.js';
import type { Cast, Intrinsics, Memory } from '../../kernel/language/language.js';
import type { ImageLayout } from './cuda-image.js';
import type { ConvolveProblem } from './problem.js';

/** What a kernel that stores is given as constants. */
export const storing = (problem: ConvolveProblem) => ({
  problem,
  /** Rounds to what is stored. */
  element: problem.dtype as Cast<'f32'>,
  windowed: problem.window !== undefined,
  finish: problem.finish,
  placeInOutput,
  storePixel,
  storePair,
  storeWindow,
});

/** What the device functions below find among a kernel's constants. */
export interface Storing extends Intrinsics {
  readonly problem: ConvolveProblem;
  readonly element: Cast<'f32'>;
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

/** Stores one value of the output. For use in kernels. */
export function storePixel(
  y: Memory,
  value: number,
  image: number,
  channel: number,
  r: number,
  c: number,
  context: Storing,
): void {
  const { element, finish, placeInOutput } = context;
  y[placeInOutput(image, channel, r, c, context)] = finish(element(value), image, channel, r, c);
}

/** Stores two values side by side, in one store; c is even, and so are the output's columns. For use in kernels. */
export function storePair(
  y: Memory,
  both: number,
  image: number,
  channel: number,
  r: number,
  c: number,
  context: Storing,
): void {
  const { element, finish, store2, placeInOutput } = context;
  store2(y, placeInOutput(image, channel, r, c, context), finish(element(both), image, channel, r, c));
}

/** Stores what `finish` makes of the 2 × 2 values whose first is at row r and column c of the convolution. For use in kernels. */
export function storeWindow(
  y: Memory,
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
