/** Max pooling, as its kernels for all devices know it. */
import { type DType, i32, u8 } from '../../core/dtype.js';
import type { KernelIo } from '../../graph/fused-op.js';
import type { IrFunction } from '../../kernel/ir/ir-function.js';
import type { SlidingWindow } from '../window.js';
import { type PoolArg, pooledSize } from './windows.js';

export interface PoolProblem extends SlidingWindow {
  /** Images × channels; images, where the channels are last. */
  readonly planes: number;
  readonly channels: number;
  readonly isLast: boolean;
  /** Of the image and its gradient. */
  readonly dtype: DType;
  /** Where the image (backward, the positions) and the gradient begin, in elements. */
  readonly imageOffset: number;
  readonly gradientOffset: number;
  /** (value, image, channel, row, column) → the value to store; with channels last the channel is, too. */
  readonly finish: IrFunction;
}

/**
 * The problem of pooling the first source, or of its gradient with the positions as the first source and g as the second.
 * @param isLast the sources and the result have their channels last
 */
export function problemOf(
  { inputs: [x, g], output, finish }: KernelIo,
  arg: PoolArg,
  isLast = false,
): PoolProblem {
  const images = x!.shape[0]!;
  const channels = x!.shape[isLast ? 3 : 1]!;
  return {
    ...arg,
    ...{ planes: isLast ? images : images * channels, channels, isLast },
    ...{ outSize: pooledSize(arg), finish: finish(output.shape) },
    ...{ dtype: (g ?? x!).dtype, imageOffset: x!.offset, gradientOffset: g?.offset ?? 0 },
  };
}

/** What a position in a window is stored as. */
export const positionDtype = ({
  kernel,
}: {
  readonly kernel: readonly [number, number];
}): DType<'u8'> | DType<'i32'> => (kernel[0] * kernel[1] < 255 ? u8 : i32);
