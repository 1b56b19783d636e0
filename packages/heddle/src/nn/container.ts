/** Modules made of modules. */
import { ArgumentError } from '../core/errors.js';
import type { Tensor } from '../tensor/tensor.js';
import { Module } from './module.js';

/** Each layer on the result of the one before. Its parameters are named by position: `0.weight`. */
export class Sequential extends Module {
  readonly layers: readonly Module[];

  constructor(...layers: readonly Module[]) {
    super();
    const stray = layers.findIndex((layer) => !(layer instanceof Module));
    if (stray >= 0)
      throw new ArgumentError(
        `[Sequential] layer ${stray} is no module: ${Array.isArray(layers[stray]) ? 'pass the layers one by one, new Sequential(...layers)' : 'of a function make one, as new ReLU() is of relu'}.`,
      );
    this.layers = layers;
  }

  protected override state(): Iterable<readonly [string, unknown]> {
    return Object.entries(this.layers);
  }

  forward(x: Tensor): Tensor {
    return this.layers.reduce((value, layer) => layer.forward(value), x);
  }
}

/** Dimensions `from` (default 1) and later as one: (N, C, H, W) → (N, C·H·W). */
export class Flatten extends Module {
  readonly from: number;

  constructor(from = 1) {
    super();
    this.from = from;
  }

  forward(x: Tensor): Tensor {
    return x.flatten(this.from);
  }
}
