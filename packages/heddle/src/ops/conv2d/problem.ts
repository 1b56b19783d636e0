/** What the kernels of a convolution and its gradients are given: sizes, where the arrays begin, and the epilogue. */
import type { DType } from '../../core/dtype.js';
import type { Shape } from '../../core/shape.js';
import type { KernelIo, Window } from '../../graph/fused-op.js';
import type { IrFunction } from '../../kernel/ir/ir-function.js';
import type { SlidingWindow } from '../window.js';
import { type Conv2dArg, outputSize } from './arg.js';

/** What is convolved. For the weight gradient `size` is that of x, `outSize` that of dY. */
export interface Convolution extends SlidingWindow {
  readonly images: number;
  readonly groups: number;
  /** Of both sources and of the result: f32, or on a GPU f16 or bf16, whose products are summed in f32. */
  readonly dtype: DType;
  /** Channels per group. */
  readonly inputs: number;
  readonly outputs: number;
  /** Where the images begin, in elements. */
  readonly imageOffset: number;
  /**
   * false: image → output, stride skips. true: the adjoint; `size` is that of the gradient given, `outSize` that of the one
   * wanted, and the weights are those of the forward direction.
   */
  readonly adjoint: boolean;
  /** Its rows are the pieces of one: a tap beyond the end of a row finds the row next to it. */
  readonly folded?: boolean | undefined;
}

/** Columns of a row that is cut into pieces. */
const PIECE = 32;

/** One long row as rows of 32: in a tile of them, what is read of the weights serves several rows. For kernels of a GPU. */
export function folded<P extends ConvolveProblem | WeightGradientProblem>(p: P): P {
  const [rows, columns] = p.outSize;
  const isOneRow = rows === 1 && p.size[0] === 1 && p.kernel[0] === 1 && columns === p.size[1];
  const isPlain = p.stride[0] === 1 && p.stride[1] === 1 && !('window' in p && p.window);
  if (!isOneRow || !isPlain || columns <= 2 * PIECE || columns % PIECE !== 0) return p;
  const size = [columns / PIECE, PIECE] as const;
  return { ...p, size, outSize: size, folded: true };
}

/** A convolution, or its adjoint in the image. */
export interface ConvolveProblem extends Convolution {
  /** Where the weights begin, (outputs, inputs, …) of the forward direction in both. */
  readonly weightOffset: number;
  /** (value, image, channel, row, column) → the value to store. */
  readonly finish: IrFunction;
  /** `finish` takes the values of 2 × 2 pixels, and the row and column of that window. `outSize` is even. */
  readonly window?: Window | undefined;
}

/** The weight gradient, of x and dY. */
export interface WeightGradientProblem extends Convolution {
  /** Where dY begins. */
  readonly gradientOffset: number;
  /** (value, output channel, input channel of the group, row, column) → the value to store. */
  readonly finish: IrFunction;
}

/** A convolution of the first source with the second, or with `adjoint` of the outputs' gradient with it. */
export function convolveProblem(io: KernelIo, arg: Conv2dArg, adjoint = false): ConvolveProblem {
  const [x, w] = io.inputs;
  const { window, output } = io;
  const { groups, kernel, stride, dilation, padding } = arg;
  return {
    groups,
    kernel,
    stride,
    dilation,
    padding,
    adjoint,
    images: x!.shape[0]!,
    dtype: x!.dtype,
    inputs: x!.shape[1]! / groups,
    outputs: output.shape[1]! / groups,
    size: adjoint ? outputSize(arg) : arg.size,
    outSize: window ? coveredBy(output.shape, window) : adjoint ? arg.size : outputSize(arg),
    imageOffset: x!.offset,
    weightOffset: w!.offset,
    finish: io.finish(output.shape),
    window,
  };
}

/** Rows and columns in windows, so many of which are wanted. */
const coveredBy = ([, , rows, columns]: Shape, { sizes }: Window): readonly [number, number] => [
  rows! * sizes[0],
  columns! * sizes[1],
];

/** The weight gradient of x, the first source, and dY, the second. */
export function weightGradientProblem(io: KernelIo, arg: Conv2dArg): WeightGradientProblem {
  const [x, y] = io.inputs;
  const { groups, size, kernel, stride, dilation, padding } = arg;
  return {
    groups,
    size,
    kernel,
    stride,
    dilation,
    padding,
    adjoint: false,
    images: x!.shape[0]!,
    dtype: x!.dtype,
    inputs: x!.shape[1]! / groups,
    outputs: y!.shape[1]! / groups,
    outSize: outputSize(arg),
    imageOffset: x!.offset,
    gradientOffset: y!.offset,
    finish: io.finish(io.output.shape),
  };
}
