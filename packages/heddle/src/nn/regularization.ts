/** Layers that drop values at random in training. */
import { type Rules, requireOptions } from '../core/arguments.js';
import { DROPOUT, dropout, dropout2d, dropPath } from '../tensor/functional-layers.js';
import type { Tensor } from '../tensor/tensor.js';
import { Module } from './module.js';

/** Options of the layers `Dropout`, `Dropout2d` and `DropPath`. */
export interface DropoutLayerOptions {
  /** The probability that an element, a channel or an example becomes 0: 0 to 1, default 0.5 (of `DropPath` 0). */
  readonly p?: number;
}

const DROPOUT_LAYER: Rules<DropoutLayerOptions> = { p: DROPOUT.p };

/**
 * In training, clears each element with probability p and divides the others by 1 − p.
 * @example
 * ```ts
 * import { nn, ones } from 'heddle';
 *
 * const layer = new nn.Dropout({ p: 0.5 });
 * layer.eval();
 * console.log(await layer.forward(ones([3])).array()); // → [ 1, 1, 1 ]
 * ```
 */
export class Dropout extends Module {
  /** The probability that an element becomes 0. */
  readonly p: number;

  constructor(options: DropoutLayerOptions = {}) {
    super();
    requireOptions('Dropout', options, DROPOUT_LAYER);
    this.p = options.p ?? 0.5;
  }

  /** @param x floats, any shape · @returns the same shape */
  forward<T extends Tensor>(x: T): T {
    return dropout(x, { p: this.p, training: this.training });
  }
}

/** In training, clears each channel with probability p and divides the others by 1 − p. */
export class Dropout2d extends Module {
  /** The probability that a channel becomes 0. */
  readonly p: number;

  constructor(options: DropoutLayerOptions = {}) {
    super();
    requireOptions('Dropout2d', options, DROPOUT_LAYER);
    this.p = options.p ?? 0.5;
  }

  /** @param x floats (N, C, H, W) · @returns the same shape */
  forward<T extends Tensor>(x: T): T {
    return dropout2d(x, { p: this.p, training: this.training });
  }
}

/** In training, clears each example with probability p and divides the others by 1 − p: stochastic depth. */
export class DropPath extends Module {
  /** The probability that an example becomes 0. */
  readonly p: number;

  constructor(options: DropoutLayerOptions = {}) {
    super();
    requireOptions('DropPath', options, DROPOUT_LAYER);
    this.p = options.p ?? 0;
  }

  /** @param x floats (N, …) · @returns the same shape */
  forward<T extends Tensor>(x: T): T {
    return dropPath(x, { p: this.p, training: this.training });
  }
}
