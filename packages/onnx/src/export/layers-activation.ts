/** Activations as ONNX operators. */
import { nn } from 'heddle';
import type { GraphNode } from 'heddle/internal/graph/node.js';
import type { Attributes } from './graph-writer.js';
import { float, int, text } from './graph-writer.js';
import type { LayerExport } from './layer-export.js';

/** An activation that is one operator of one input. */
function activation<M extends nn.Module>(
  layer: new (...args: never[]) => M,
  opType: string,
  attributes?: (module: M, x: GraphNode) => Attributes,
  more: Pick<LayerExport<M>, 'since' | 'fits'> = {},
): LayerExport {
  const record: LayerExport<M> = {
    ...{ layer, ...more },
    write: ({ io, module, inputs, values }) => [io.add(opType, values, attributes?.(module, inputs[0]!))],
  };
  return record as unknown as LayerExport;
}

/** x limited to low … high. */
const clip = <M extends nn.Module>(
  layer: new (...args: never[]) => M,
  bounds: (module: M) => readonly [low: number, high: number],
): LayerExport => {
  const record: LayerExport<M> = {
    layer,
    write: ({ io, module, inputs, values }) => [
      io.add('Clip', [...values, ...bounds(module).map((bound) => io.scalar(bound, inputs[0]!.dtype))]),
    ],
  };
  return record as unknown as LayerExport;
};

const axisOf = (axis: number, { shape }: GraphNode) => int(axis < 0 ? axis + shape.length : axis);

const prelu: LayerExport<nn.PReLU> = {
  layer: nn.PReLU,
  write: ({ io, module, inputs, values, path }) => {
    const { weight } = module;
    // One slope for each channel, laid out to broadcast over the dimensions after it.
    const laidOut =
      weight.size === 1 ? weight : weight.reshape([weight.size, ...inputs[0]!.shape.slice(2).map(() => 1)]);
    const slope = weight.size === 1 ? io.tensor(weight) : io.tensor(laidOut, `${path}.slope`);
    return [io.add('PRelu', [...values, slope])];
  },
};

export const ACTIVATIONS: readonly LayerExport[] = [
  activation(nn.ReLU, 'Relu'),
  activation(nn.LeakyReLU, 'LeakyRelu', ({ negativeSlope }) => ({ alpha: float(negativeSlope) })),
  activation(nn.ELU, 'Elu', ({ alpha }) => ({ alpha: float(alpha) })),
  activation(nn.CELU, 'Celu', ({ options }) => ({ alpha: float(options.alpha ?? 1) })),
  activation(nn.SELU, 'Selu'),
  activation(nn.GELU, 'Gelu', ({ approximate }) => ({ approximate: text(approximate) }), { since: 20 }),
  activation(nn.SiLU, 'Swish', undefined, { since: 24 }),
  activation(nn.Mish, 'Mish'),
  activation(nn.Sigmoid, 'Sigmoid'),
  activation(nn.Hardsigmoid, 'HardSigmoid', () => ({ alpha: float(1 / 6), beta: float(0.5) })),
  activation(nn.Hardswish, 'HardSwish'),
  activation(nn.Tanh, 'Tanh'),
  activation(nn.Softsign, 'Softsign'),
  activation(nn.Softplus, 'Softplus', undefined, {
    fits: ({ options: { beta = 1, threshold = 20 } }) => beta === 1 && threshold >= 20,
  }),
  activation(nn.Softmax, 'Softmax', ({ axis }, x) => ({ axis: axisOf(axis, x) })),
  activation(nn.LogSoftmax, 'LogSoftmax', ({ axis }, x) => ({ axis: axisOf(axis, x) })),
  activation(nn.Softshrink, 'Shrink', ({ options: { lambda = 0.5 } }) => ({
    ...{ lambd: float(lambda), bias: float(lambda) },
  })),
  activation(nn.Hardshrink, 'Shrink', ({ options: { lambda = 0.5 } }) => ({ lambd: float(lambda) })),
  clip(nn.ReLU6, () => [0, 6]),
  clip(nn.Hardtanh, ({ options: { low = -1, high = 1 } }) => [low, high]),
  prelu as unknown as LayerExport,
];
