/** Windows that slide over images, as those of convolution and pooling do. */
import type { WindowArg } from '../graph/node.js';

/** A window and the images it slides over. All pairs are (height, width). */
export interface SlidingWindow extends WindowArg {
  /** Of the image that is read. */
  readonly size: readonly [number, number];
  /** Of the image that is written: one element for each place of the window. */
  readonly outSize: readonly [number, number];
  /** Rows and columns around the image, on each side. */
  readonly padding: readonly [number, number];
}
