/** The taps of a convolution by warpgroups (warpgroup.ts), and the pixels that they meet. */
import { f32 } from '../../core/dtype.js';
import type { TensorMapOptions } from '../../kernel/ir/types.js';
import type { Intrinsics } from '../../kernel/language/language.js';
import type { PipelineContext } from '../matmul/warpgroup-pipeline.js';
import { type LastProblem, phasesOf, pick } from './last-product.js';

export type Geometry = Omit<LastProblem, 'finish'>;

/** A kernel's taps, and the pixels that they meet: all that device functions have to know. Pairs are (row, column). */
export interface KernelTaps {
  readonly problem: Geometry;
  /** Of a strided input gradient the phases of pixels along each axis, with the taps that meet them. */
  readonly vertical: ReturnType<typeof phasesOf>;
  readonly horizontal: ReturnType<typeof phasesOf>;
  readonly phases: number;
  /** Pixels of an image that one tap after the other meets, of each phase, and from one to the next. */
  readonly counts: readonly [number, number];
  readonly steps: readonly [number, number];
  /** Where the first of them is for the tap that is farthest up, and for the one farthest left. */
  readonly from: readonly [number, number];
  /** From there to the last tap's. */
  readonly reach: readonly [number, number];
}

/** Positions that the taps of a kernel have along one axis, relative to the pixel of the result. */
function positionsOf(p: Geometry, axis: 0 | 1): number[] {
  const [stride, dilation, padding] = [p.stride[axis], p.dilation[axis], p.padding[axis]];
  const { phases, first, count, step } = phasesOf(p, axis);
  return Array.from({ length: phases }, (_, phase) =>
    Array.from({ length: count[phase]! }, (_, n) => {
      const along = (first[phase]! + n * step) * dilation;
      return p.adjoint ? (phase + padding - along) / stride : along - padding;
    }),
  ).flat();
}

export function tapsOf(p: Geometry): KernelTaps {
  const [vertical, horizontal] = [phasesOf(p, 0), phasesOf(p, 1)];
  const positions = [positionsOf(p, 0), positionsOf(p, 1)] as const;
  const from = [Math.min(...positions[0]), Math.min(...positions[1])] as const;
  return {
    ...{ problem: p, vertical, horizontal, from },
    phases: vertical.phases * horizontal.phases,
    counts: [Math.ceil(p.outSize[0] / vertical.phases), Math.ceil(p.outSize[1] / horizontal.phases)],
    steps: p.adjoint ? [1, 1] : p.stride,
    reach: [Math.max(...positions[0]) - from[0], Math.max(...positions[1]) - from[1]],
  };
}

/** The images as a tensor map describes them, without what a tile has of them: with the channels of all groups. */
export function imagesOf(p: Geometry): Omit<TensorMapOptions, 'box'> {
  const channels = p.groups * p.inputs;
  const { row, pixel } = p.apart ?? { row: p.size[1] * channels, pixel: channels };
  return {
    sizes: [p.images, ...p.size, channels],
    strides: [p.size[0] * row, row, pixel, 1],
    offset: p.imageOffset,
    tf32: p.dtype === f32,
  };
}

export interface TapContext extends PipelineContext {
  readonly pick: typeof pick;
  readonly eachTap: typeof eachTap;
  readonly groupOf: typeof groupOf;
  readonly phaseOf: typeof phaseOf;
}

/** A tap of the kernel, and how far the first pixel that it meets is from that of the walk. */
export interface Tap {
  readonly number: number;
  readonly down: number;
  readonly across: number;
}

/** Of a batch, which is a group's pixels of one phase: those of all groups come one after the other. */
export const groupOf = (batch: number, { problem }: KernelTaps): number => batch % problem.groups;

/** The last phase usually has the most taps: its tiles are begun first. */
export const phaseOf = (batch: number, { phases, problem }: KernelTaps, { idiv }: Intrinsics): number =>
  phases - 1 - idiv(batch, problem.groups);

/** Passes a term's tap to `body`: terms go down one column of the kernel after the other. */
export function eachTap(
  batch: number,
  term: number,
  taps: KernelTaps,
  body: (tap: Tap) => void,
  context: TapContext,
): void {
  const { idiv, phaseOf, pick } = context;
  const { problem, vertical, horizontal, from } = taps;
  const { adjoint, kernel, stride, dilation, padding } = problem;
  const phase = phaseOf(batch, taps, context);
  const down = idiv(phase, horizontal.phases);
  const across = phase % horizontal.phases;
  const count = pick(vertical.count, down, context);
  const i = pick(vertical.first, down, context) + (term % count) * vertical.step;
  const j = pick(horizontal.first, across, context) + idiv(term, count) * horizontal.step;
  const v = adjoint ? idiv(down + padding[0] - i * dilation[0], stride[0]) : i * dilation[0] - padding[0];
  const u = adjoint ? idiv(across + padding[1] - j * dilation[1], stride[1]) : j * dilation[1] - padding[1];
  body({ number: i * kernel[1] + j, down: v - from[0], across: u - from[1] });
}

/** The device functions, as constants of a kernel. */
export const TAPS = { eachTap, groupOf, phaseOf, pick };
