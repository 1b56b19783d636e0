/**
 * Quantization-aware training (B. Jacob et al., Quantization and training of neural networks for efficient integer-arithmetic-only
 * inference, 2018): the model is trained with the roundings that it will have, whose gradient passes straight through.
 */
import {
  aBoolean,
  aString,
  belowOne,
  instance,
  listOf,
  type Rules,
  requireArgument,
  requireOptions,
} from '../core/arguments.js';
import { ArgumentError } from '../core/errors.js';
import type { Shape } from '../core/shape.js';
import { evaluating } from '../nn/evaluating.js';
import { Module } from '../nn/module.js';
import { aTensor } from '../tensor/checks.js';
import { tensor } from '../tensor/create.js';
import { fakeQuantize } from '../tensor/functional-quantization.js';
import { noGrad } from '../tensor/modes.js';
import type { Tensor } from '../tensor/tensor.js';
import { foldsOf } from './fold.js';
import { LARGEST, type LayerScales, productOf, type QuantizableLayer, scaleOf } from './layers.js';
import { quantizableLayers, quantizedBy } from './quantize.js';
import type { QuantizedModule } from './quantized-module.js';
import { type Forward, withForwards } from './replace.js';
import { withSumsOfBytes } from './sums.js';

/** Options of `prepareQat`. */
export interface QatOptions {
  /** How much of the range of a layer's inputs a batch leaves as it was (default 0.99). */
  readonly momentum?: number;
  /** Whether each output's weights have a scale of their own (default true), or a layer's weights one. */
  readonly perChannel?: boolean;
  /** Names of layers that stay in floating point; those of a module keep all below it. */
  readonly keep?: readonly string[];
}

const OPTIONS: Rules<QatOptions> = { momentum: belowOne, perChannel: aBoolean, keep: listOf(aString) };

/**
 * A model whose `Linear` and `Conv2d` layers round their inputs and weights as `quantize` does. Its parameters are the model's own:
 * train it with any optimizer and with `fit`, as the model. In training it follows the ranges of the layers' inputs, by a moving
 * mean of each batch's largest magnitude; in evaluation they stay.
 */
export class QatModule extends Module {
  /** The model that is trained. */
  readonly model: Module;
  /** (): by layer, the mean of the largest magnitudes of its inputs; 0 before the first batch. */
  readonly ranges: Readonly<Record<string, Tensor<Shape, 'f32'>>>;
  readonly #layers: ReadonlyMap<string, QuantizableLayer>;
  readonly #forwards: ReadonlyMap<Module, Forward>;
  readonly #perChannel: boolean;

  /** @internal Made by `prepareQat`. */
  constructor(
    model: Module,
    layers: ReadonlyMap<string, QuantizableLayer>,
    momentum: number,
    perChannel: boolean,
  ) {
    super();
    this.model = model;
    this.ranges = Object.fromEntries([...layers.keys()].map((name) => [name, tensor(0)]));
    this.#layers = layers;
    this.#perChannel = perChannel;
    this.#forwards = new Map(
      [...layers].map(([name, layer]) => [
        layer,
        (x) => this.#rounded(layer, this.ranges[name]!, momentum, x),
      ]),
    );
  }

  /** What the model computes of these inputs with its layers' roundings. */
  forward(...inputs: readonly Tensor[]): Tensor {
    const forward = this.model.forward as (...inputs: readonly Tensor[]) => Tensor;
    return withSumsOfBytes(withForwards(this.#forwards, () => forward.apply(this.model, [...inputs])));
  }

  #rounded(layer: QuantizableLayer, range: Tensor<Shape, 'f32'>, momentum: number, x: Tensor): Tensor {
    const [inputScale, weightScale] = noGrad(() => {
      if (this.training) {
        const most = x.detach().abs().max();
        range.assign(
          range.eq(0).where(most, range.mul(momentum).add(most.mul(1 - momentum))) as typeof range,
        );
      }
      return [scaleOfRange(range), this.#weightScale(layer.weight as Tensor)] as const;
    });
    const weight = fakeQuantize(layer.weight as Tensor, weightScale, 0, { axis: 0 });
    return productOf(layer)(fakeQuantize(x, inputScale), weight, layer.bias as Tensor | undefined);
  }

  #weightScale(weight: Tensor): Tensor {
    const sizes = weight.detach().abs();
    return scaleOfRange(this.#perChannel ? sizes.flatten(1).max(1) : sizes.max());
  }

  /**
   * The model as it is now, in bytes.
   * @param example inputs as the model takes them: which batch norms follow which layers is found out by them
   * @throws ArgumentError before the first batch of a training
   */
  async quantize(example: Tensor): Promise<QuantizedModule> {
    requireArgument('quantize', 'example', example, aTensor);
    const scales = new Map<string, LayerScales>();
    for (const [name, range] of Object.entries(this.ranges)) {
      const value = await range.item();
      if (value === 0)
        throw new ArgumentError(
          `[quantize] the range of the inputs of '${name}' is not known: train the module first, in training mode.`,
        );
      scales.set(name, { input: scaleOf(value), output: undefined });
    }
    const { model } = this;
    const folds = evaluating(model, () =>
      noGrad(() => foldsOf(model, () => (model.forward as (x: Tensor) => unknown)(example))),
    );
    return quantizedBy(model, this.#layers, folds, scales, this.#perChannel);
  }
}

/** A range as the scale that cuts it into levels; a range of 0 has a scale of 1, as on the host. */
const scaleOfRange = (range: Tensor): Tensor => range.eq(0).where(1, range.div(LARGEST)) as Tensor;

/**
 * Prepare a model for quantization-aware training.
 * @example
 * ```ts
 * import { crossEntropy, jit, manualSeed, nn, optim, randn, tensor, type Tensor } from 'heddle';
 * import { prepareQat } from 'heddle/quantization';
 *
 * manualSeed(0);
 * const model = new nn.Sequential(new nn.Linear(4, 8), new nn.ReLU(), new nn.Linear(8, 2));
 * const qat = prepareQat(model);
 * const optimizer = new optim.SGD(qat.parameters(), { lr: 0.1 });
 * const step = jit((x: Tensor, y: Tensor) => {
 *   const loss = crossEntropy(qat.forward(x), y);
 *   loss.backward();
 *   optimizer.step();
 *   return loss;
 * });
 * step(randn([16, 4]), tensor(new Int32Array(16)));
 * const quantized = await qat.quantize(randn([1, 4]));
 * console.log(quantized.layers.size); // → 2
 * ```
 * @throws ArgumentError for a model without a Linear or Conv2d
 */
export function prepareQat(model: Module, options: QatOptions = {}): QatModule {
  requireArgument('prepareQat', 'model', model, instance(Module, 'a Module'));
  requireOptions('prepareQat', options, OPTIONS);
  const { momentum = 0.99, perChannel = true, keep = [] } = options;
  return new QatModule(model, quantizableLayers('prepareQat', model, keep), momentum, perChannel);
}
