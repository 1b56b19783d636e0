/** What kernels know of the bytes that they multiply. */
import type { Conv2dArg } from '../conv2d/arg.js';

/** A product of bytes. */
export interface BytesArg {
  /** No byte of x is negative. */
  readonly positive: boolean;
}

/** A convolution of bytes. */
export type ConvolveBytesArg = Conv2dArg & BytesArg;
