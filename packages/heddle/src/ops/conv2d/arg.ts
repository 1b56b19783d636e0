/** What a convolution is, besides its arrays. */
import type { Precision } from '../../core/precision.js';
import type { WindowArg } from '../../graph/node.js';

/** What a convolution is, on an image of `size` with a kernel of `kernel` (both height × width). */
export interface Conv2dArg extends WindowArg {
  readonly size: readonly [number, number];
  readonly padding: readonly [number, number];
  readonly groups: number;
  /** Default tf32. */
  readonly precision?: Precision;
}

/** The convolution itself, or the gradient of its images or of its weights. */
export type Direction = 'forward' | 'input' | 'weight';

/** Height × width of what comes out. */
export const outputSize = (arg: Conv2dArg): readonly [number, number] => [
  sizeAlong(arg, 0),
  sizeAlong(arg, 1),
];

const sizeAlong = ({ size, kernel, stride, padding, dilation }: Conv2dArg, i: 0 | 1): number =>
  Math.floor((size[i] + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) / stride[i]) + 1;
