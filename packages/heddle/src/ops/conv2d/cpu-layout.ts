/** How the CPU's convolution cuts its work, and how it lays out the rows that it reads: see cpu.ts. */
import type { ConvolveProblem } from './problem.js';

/** A convolution, and how many blocks to aim for at least, if the rows suffice. */
export interface CpuConvolveProblem extends ConvolveProblem {
  readonly leastBlocks: number;
}

/**
 * Columns of a row, from `start` to `end`, that one kind of tile covers: `vectors` of 4 pixels, the first `skip` of
 * which others have stored; or, if `vectors` is 0, all its columns for `quads` times 4 channels.
 */
export interface Strip {
  readonly start: number;
  readonly end: number;
  readonly vectors: number;
  readonly skip: number;
  readonly quads: number;
}

/** A row of `width` ≥ 4 as strips. */
export function stripsOf(width: number, channels: number): Strip[] {
  const whole = width - (width % 8);
  const rest = width % 8;
  const few = rest % 4;
  const wide = (start: number, end: number, vectors: number, skip = 0): Strip => {
    return { start, end, vectors, skip, quads: 0 };
  };
  const strips = whole > 0 ? [wide(0, whole, 2)] : [];
  if ((few === 1 || few === 2) && few * channels >= 32) {
    if (rest > 4) strips.push(wide(whole, whole + 4, 1));
    strips.push({ ...wide(width - few, width, 0), quads: 8 / few });
  } else if (rest > 4 && whole > 0) {
    strips.push(wide(width - 8, width, 2, 8 - rest));
  } else {
    if (rest >= 4) strips.push(wide(whole, whole + 4, 1));
    if (few > 0) strips.push(wide(width - 4, width, 1, 4 - few));
  }
  return strips;
}

/** A row as the kernel copies it: `by` phases of `phase` columns, zeros on the left, and between columns. */
export function rowLayout({ kernel, stride, dilation, padding, outSize, adjoint }: CpuConvolveProblem) {
  const reach = dilation[1] * (kernel[1] - 1);
  const by = adjoint ? 1 : stride[1];
  const spread = adjoint ? stride[1] : 1;
  const left = adjoint ? reach - padding[1] : padding[1];
  const phase = outSize[1] + Math.floor(reach / by);
  return { by, spread, left, phase, pitch: phase * by };
}

/** Bytes of the worker's copy of the rows, beyond which a band is cut shorter: half a second-level cache. */
const COPY_BYTES = 2 ** 18;

/** Most rows of the image that `rows` rows of the output read. */
export const rowsRead = (
  { size, kernel, stride, dilation, adjoint }: CpuConvolveProblem,
  rows: number,
): number => {
  const reach = dilation[0] * (kernel[0] - 1);
  const span = adjoint ? Math.ceil((rows + reach) / stride[0]) + 1 : (rows - 1) * stride[0] + reach + 1;
  return Math.min(size[0], span);
};

/** Rows of the output in a band. */
export function bandOf(problem: CpuConvolveProblem, pitch: number): number {
  const { images, groups, inputs, outSize, leastBlocks } = problem;
  const bands = Math.ceil(leastBlocks / (images * groups));
  let rows = Math.max(1, Math.ceil(outSize[0] / bands));
  while (rows > 1 && 4 * inputs * pitch * rowsRead(problem, rows) > COPY_BYTES) rows = Math.ceil(rows / 2);
  return rows;
}
