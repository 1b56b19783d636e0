/** Layers whose weights are bytes, and which round their inputs to bytes. */
import { i8 } from '../core/dtype.js';
import type { Shape } from '../core/shape.js';
import { Conv2d } from '../nn/convolution.js';
import { Linear } from '../nn/linear.js';
import { Module } from '../nn/module.js';
import { tensor } from '../tensor/create.js';
import { type Conv2dOptions, conv2d } from '../tensor/functional-convolutions.js';
import { linear } from '../tensor/functional-layers.js';
import { dequantizeLinear, quantizeLinear } from '../tensor/functional-quantization.js';
import type { Tensor } from '../tensor/tensor.js';

/** A layer that can be quantized: each output has weights of its own, the first dimension of `weight`. */
export type QuantizableLayer = Linear | Conv2d;

/** Whether a module is one whose products can be of bytes. */
export const isQuantizable = (module: Module): module is QuantizableLayer =>
  module instanceof Linear || module instanceof Conv2d;

/** The product of a layer, on other inputs, weights and bias than its own. */
export const productOf =
  (layer: QuantizableLayer) =>
  (x: Tensor, weight: Tensor, bias: Tensor | undefined): Tensor =>
    layer instanceof Conv2d ? conv2d(x, weight, bias, layer.options) : linear(x, weight, bias);

/** Weights and bias of a layer on the host, the weights of each output side by side. */
export interface HostWeights {
  readonly weight: Float32Array;
  /** (outputs, …) */
  readonly shape: Shape;
  readonly bias: Float32Array | undefined;
}

/** The largest level: −128 is not used, so that levels are symmetric. */
export const LARGEST = 127;

/** What a range of magnitudes is cut into; of a range of 0, where nothing is rounded, any will do. */
export const scaleOf = (range: number): number => (range > 0 ? Math.fround(range / LARGEST) : 1);

/** The scale of each output's weights, or one for all. */
function weightScales({ weight, shape }: HostWeights, perChannel: boolean): Float32Array {
  const outputs = shape[0]!;
  const each = weight.length / outputs;
  const ranges = Array.from({ length: outputs }, (_, o) =>
    weight.subarray(o * each, (o + 1) * each).reduce((most, v) => Math.max(most, Math.abs(v)), 0),
  );
  const most = Math.max(...ranges);
  return Float32Array.from(ranges, (range) => scaleOf(perChannel ? range : most));
}

/** What a quantized layer computes with, as its fields describe it. */
export type LayerBytes = Pick<
  QuantizedLayer,
  'weight' | 'weightScale' | 'inputScale' | 'outputScale' | 'bias'
>;

/** What a level of a layer's inputs stands for, and of its outputs if they are rounded as well. */
export interface LayerScales {
  readonly input: number;
  readonly output: number | undefined;
}

/** The weights of a layer as bytes. */
export function bytesOf(host: HostWeights, scales: LayerScales, perChannel: boolean): LayerBytes {
  const { shape, weight, bias } = host;
  const ofWeights = weightScales(host, perChannel);
  const each = weight.length / shape[0]!;
  const levels = Int8Array.from(weight, (v, i) => roundHalfEven(v / ofWeights[Math.floor(i / each)]!));
  return {
    weight: tensor(levels, { shape, dtype: i8 }),
    weightScale: tensor(ofWeights),
    inputScale: tensor(scales.input),
    outputScale: scales.output === undefined ? undefined : tensor(scales.output),
    bias: bias && tensor(bias),
  };
}

/**
 * A `Linear` or `Conv2d` on bytes: y = product(q(x), q(w)) · inputScale · weightScale + bias. It is written as the product of
 * dequantized tensors, which is computed on the bytes where the device has a kernel for it, with sums in i32.
 */
export class QuantizedLayer extends Module {
  /** i8, of the shape of the layer's weights. */
  readonly weight: Tensor<Shape, 'i8'>;
  /** (outputs): what a level of each output's weights stands for. */
  readonly weightScale: Tensor<Shape, 'f32'>;
  /** (): what a level of the inputs stands for. */
  readonly inputScale: Tensor<Shape, 'f32'>;
  /** (): what a level of the outputs stands for; undefined unless they are rounded to i8 as well, as one of two layers' that are added. */
  readonly outputScale: Tensor<Shape, 'f32'> | undefined;
  /** (outputs); undefined if there is none. */
  readonly bias: Tensor<Shape, 'f32'> | undefined;
  /** What the layer was: `Linear` or `Conv2d`. */
  readonly kind: 'Linear' | 'Conv2d';
  /** Of a Conv2d: stride, padding and so on. */
  readonly options: Conv2dOptions;
  readonly #product: (x: Tensor, weight: Tensor, bias: Tensor | undefined) => Tensor;

  /** @internal Made by `quantize` and `loadQuantized`. */
  constructor(layer: QuantizableLayer, bytes: LayerBytes) {
    super();
    this.kind = layer instanceof Conv2d ? 'Conv2d' : 'Linear';
    this.options = layer instanceof Conv2d ? layer.options : {};
    this.#product = productOf(layer);
    this.weight = bytes.weight;
    this.weightScale = bytes.weightScale;
    this.inputScale = bytes.inputScale;
    this.outputScale = bytes.outputScale;
    this.bias = bytes.bias;
  }

  /** @param x as the layer took it */
  forward(x: Tensor): Tensor {
    const { weight, weightScale, inputScale, outputScale, bias } = this;
    const y = this.#product(
      rounded(x, inputScale),
      dequantizeLinear(weight, weightScale, 0, { axis: 0 }),
      bias,
    );
    return outputScale ? rounded(y, outputScale) : y;
  }
}

/** To bytes and back. */
const rounded = (x: Tensor, scale: Tensor): Tensor => dequantizeLinear(quantizeLinear(x, scale), scale);

const roundHalfEven = (v: number): number => {
  const near = Math.round(v);
  return Math.abs(v % 1) === 0.5 ? 2 * Math.round(v / 2) : near;
};
