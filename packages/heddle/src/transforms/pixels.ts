/** What a transform computes with. It is written once, for images of one kind or the other. */

/**
 * Numbers of images, (C, H, W), where each size may be 1: those of one image on the host (`HostPixels`), or those of every
 * image of a batch on a device (`DevicePixels`). Two operands broadcast as tensors do. Images have numbers from 0 to 1
 * unless they are normalized. Conditions are what comparisons give.
 */
export interface Pixels<P> {
  readonly channels: number;
  readonly height: number;
  readonly width: number;

  add(other: P | number): P;
  sub(other: P | number): P;
  mul(other: P | number): P;
  div(other: P | number): P;
  minimum(other: P | number): P;
  maximum(other: P | number): P;
  lt(other: P | number): P;
  le(other: P | number): P;
  eq(other: P | number): P;
  /** Of two conditions. */
  and(other: P): P;
  /** Of a condition: which of the two. */
  where(then: P | number, otherwise: P | number): P;

  abs(): P;
  floor(): P;
  /** To the nearest integer, ties to the even one. */
  round(): P;
  exp(): P;
  log(): P;
  sqrt(): P;
  sin(): P;
  cos(): P;

  /** One number. */
  number(value: number): P;
  /** The value of one number, where the host knows it: not on a device, whose program is made before it is drawn. */
  known(): number | undefined;
  /** A number for each channel, (C, 1, 1). */
  each(values: readonly number[]): P;
  /** 0 … height − 1, (1, height, 1). */
  rows(height: number): P;
  /** 0 … width − 1, (1, 1, width). */
  columns(width: number): P;
  /** A row of numbers, (1, 1, length). */
  table(values: Float32Array): P;

  /** One of the channels, (1, H, W). */
  channel(index: number): P;
  /** These as channels. */
  channelsOf(planes: readonly P[]): P;
  /** Over the pixels of each channel, (C, 1, 1). */
  mean(): P;
  min(): P;
  max(): P;
  /** Over the columns, (C, H, 1). */
  rowSums(): P;
  /** How many pixels of each channel have the values 0 … bins − 1, (C, 1, bins). */
  histogram(bins: number): P;
  /** Running sums over the columns. */
  cumsum(): P;

  /** The rows of these numbers, (1, H′, 1). @param fill what lies outside of the image (default 0) */
  atRows(rows: P, fill?: P | number): P;
  /** The columns of these numbers, (1, 1, W′). */
  atColumns(columns: P, fill?: P | number): P;
  /** The pixels at these rows and columns, integers. @param fill what lies outside of the image (default 0) */
  at(rows: P | number, columns: P | number, fill?: P | number): P;
  /** Weighted sums of pixels. @param rows weights (1, H′, H) @param columns weights (1, W′, W) @returns (C, H′, W′) */
  resample(rows: P, columns: P): P;
  /** What `then` gives where a condition of whole images holds, else these. */
  when(condition: P, then: () => P): P;
}

/** Where a transform takes its random numbers from. */
export interface Draws<P> {
  /** Uniform on [0, 1), one number for each image. */
  uniform(): P;
  /** As many of these at once: on a device one launch makes all of them. */
  uniforms(count: number): readonly P[];
  /** Of the standard normal distribution, one for each number of the images. */
  normal(image: P): P;
}

/** A transform of images, whatever they are held in. */
export interface Definition {
  apply<P extends Pixels<P>>(image: P, random: Draws<P>): P;
}
