/** Layers that drop values at random in training. */
import { type Rules, requireOptions } from '../core/arguments.js';
import { DROPOUT, dropout } from '../tensor/functional-layers.js';
import type { Tensor } from '../tensor/tensor.js';
import { Module } from './module.js';

/** Options of the layer `Dropout`. */
export interface DropoutLayerOptions {
  /** The probability that an element becomes 0: 0 to 1, default 0.5. */
  readonly p?: number;
}

const DROPOUT_LAYER: Rules<DropoutLayerOptions> = { p: DROPOUT.p };

/** In training, clears each element with probability p and divides the others by 1 − p. */
export class Dropout extends Module {
  /** The probability that an element becomes 0. */
  readonly p: number;

  constructor(options: DropoutLayerOptions = {}) {
    super();
    requireOptions('Dropout', options, DROPOUT_LAYER);
    this.p = options.p ?? 0.5;
  }

  /** @param x floats, any shape · @returns the same shape */
  forward(x: Tensor): Tensor {
    return dropout(x, { p: this.p, training: this.training });
  }
}
