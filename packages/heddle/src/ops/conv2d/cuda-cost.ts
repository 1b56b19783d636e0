/**
 * The model of a multiprocessor that the launch rules of the convolution kernels for GPUs rank their ways by: cycles to
 * issue multiply-adds and shared reads, cycles to copy tiles, a wait for each copy that neither other resident blocks nor
 * what a block computes meanwhile hide. Its numbers are in kernel/ir/machine.ts.
 */
import { type BlockNeeds, FITTED, residentBlocks, sharedBytesOfEach } from '../../kernel/ir/machine.js';
import type { Target } from '../../kernel/ir/target.js';
import type { ImageTile } from './cuda-image.js';
import type { Convolution } from './problem.js';

/** Cut `n` into equal pieces of at most `most`. */
export const even = (n: number, most: number): number =>
  Math.ceil(n / Math.ceil(n / Math.max(1, Math.min(n, most))));

/** The widest tile whose rows are whole, or cut evenly; some rows; then several images. */
export function pixelTile(p: Convolution, pixels: number, columnsBy = 1): Omit<ImageTile, 'channels'> {
  const up = (n: number): number => Math.ceil(n / columnsBy) * columnsBy;
  const widest = up(p.outSize[1]) <= Math.min(pixels, 64) ? up(p.outSize[1]) : Math.min(pixels, 32);
  const columns = up(even(p.outSize[1], widest));
  const rows = even(p.outSize[0], Math.floor(pixels / columns));
  const whole = rows === p.outSize[0] && columns >= p.outSize[1];
  const images = whole ? Math.min(p.images, Math.max(1, Math.floor(pixels / (rows * columns)))) : 1;
  return { images, rows, columns };
}

/** The same of windows of 2 × 2 pixels. */
export function windowTile(p: Convolution, pixels: number): Omit<ImageTile, 'channels'> {
  const outSize = [p.outSize[0] / 2, p.outSize[1] / 2] as const;
  const { images, rows, columns } = pixelTile({ ...p, outSize }, pixels / 4);
  return { images, rows: 2 * rows, columns: 2 * columns };
}

const { latency: LATENCY, copy: COPY, barrier: BARRIER, unhidden: UNHIDDEN } = FITTED.conv2d;
/** Cycles to store one element. */
export const STORE = FITTED.conv2d.store;

/** Bytes of shared memory that each of `blocks` tiles may take, with some left for what the estimate leaves out. */
export const mostShared = ({ limits }: Target, blocks = 1): number =>
  sharedBytesOfEach(limits, blocks) - FITTED.conv2d.sharedMargin;

interface ConvolutionCost extends BlockNeeds {
  readonly blocks: number;
  /** Copies that a block waits for, and elements of each. */
  readonly copies: number;
  readonly elements: number;
  /** Copies but the first come while the block computes. */
  readonly hidden?: boolean;
  /** Cycles of a multiprocessor for the sums of one block, and to store them. */
  readonly compute: number;
  readonly after: number;
  /** Cycles that a block needs for its sums even if it is alone. Default: those of a multiprocessor. */
  readonly alone?: number;
}

export function cyclesOf(c: ConvolutionCost, { units, limits }: Target): number {
  const resident = residentBlocks(limits, c);
  const perUnit = Math.ceil(c.blocks / units);
  const waves = Math.ceil(perUnit / resident);
  const copy = c.elements * COPY;
  const each = Math.max(c.compute, c.alone ?? 0) / c.copies + BARRIER;
  // What comes while the block computes costs only what it takes longer.
  const block = copy + (c.copies - 1) * (c.hidden ? Math.max(copy, each) : copy + each) + each + c.after;
  const waits = (c.hidden ? 1 : c.copies) * LATENCY;
  if (perUnit === 1) return block + waits;
  // Concurrent blocks share what moves and what multiplies. Where many follow each other, some move while others
  // multiply, and nobody waits.
  const moved = c.copies * copy + c.after;
  const mixed = resident > 1 && waves > 4;
  const shared = Math.max(c.compute, moved) + (mixed ? UNHIDDEN : 1) * Math.min(c.compute, moved);
  return Math.max(waves * block, perUnit * shared) + (mixed ? 1 : waves) * waits;
}

/** Input channels at a time: as many as fit, in multiples of `by`. */
export function chunkOf(inputs: number, fits: (channels: number) => boolean, by = 1): number | undefined {
  for (let parts = 1; parts <= inputs; parts++) {
    const channels = Math.ceil(inputs / (parts * by)) * by;
    // Few channels: all as they are, unless they are nearly as many as a multiple.
    if (parts === 1 && channels > 1.6 * inputs && fits(inputs)) return inputs;
    if (fits(channels)) return channels;
  }
  return undefined;
}
