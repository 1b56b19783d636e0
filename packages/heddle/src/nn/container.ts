/** Modules made of modules. */
import { integerFrom, requireArgument, shown } from '../core/arguments.js';
import { ArgumentError } from '../core/errors.js';
import { requireTensor } from '../tensor/checks.js';
import type { Tensor } from '../tensor/tensor.js';
import { type Layer, Module } from './module.js';

/**
 * Each layer on the result of the one before. Its parameters are named by position: `0.weight`.
 * @example
 * ```ts
 * import { nn, randn } from 'heddle';
 *
 * const model = new nn.Sequential(new nn.Linear(784, 128), new nn.ReLU(), new nn.Linear(128, 10));
 * console.log(model.forward(randn([64, 784])).shape); // → [ 64, 10 ]
 * ```
 */
export class Sequential extends Module {
  /** The layers, in their order. */
  readonly layers: readonly Layer[];

  /** @throws ArgumentError for what is not a module */
  constructor(...layers: readonly Layer[]) {
    super();
    const stray = layers.findIndex((layer) => !(layer instanceof Module));
    if (stray >= 0)
      throw new ArgumentError(
        `[Sequential] layer ${stray} is ${shown(layers[stray])}, must be a module: ${Array.isArray(layers[stray]) ? 'pass the layers one by one, new Sequential(...layers)' : 'pass new ReLU(), not relu'}.`,
      );
    this.layers = layers;
  }

  protected override state(): Iterable<readonly [string, unknown]> {
    return Object.entries(this.layers);
  }

  /** @throws ArgumentError if a layer returns anything but a tensor */
  forward(x: Tensor): Tensor {
    return this.layers.reduce((value, layer, i) => {
      const next: unknown = layer.forward(value);
      requireTensor('Sequential', `what layer ${i} (${layer.constructor.name}) returns`, next);
      return next as Tensor;
    }, x);
  }
}

/** Dimensions `from` (default 1) and later as one: (N, C, H, W) → (N, C·H·W). */
export class Flatten extends Module {
  /** The first dimension that is merged with those after it. */
  readonly from: number;

  constructor(from = 1) {
    super();
    requireArgument('Flatten', 'from', from, integerFrom(Number.MIN_SAFE_INTEGER));
    this.from = from;
  }

  /** @param x any shape of more than `from` dimensions */
  forward(x: Tensor): Tensor {
    requireTensor('Flatten', 'x', x);
    return x.flatten(this.from);
  }
}

/** Its input as it is: what stands where another layer may. */
export class Identity extends Module {
  /** @param x any shape · @returns x */
  forward<T extends Tensor>(x: T): T {
    requireTensor('Identity', 'x', x);
    return x;
  }
}
