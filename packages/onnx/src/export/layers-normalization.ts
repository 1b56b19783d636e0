/** Normalizations as ONNX operators. */
import { type AnyTensor, nn, ones, zeros } from 'heddle';
import { sizeOf } from 'heddle/internal/core/shape.js';
import { float, int } from './graph-writer.js';
import type { LayerExport, LayerIo } from './layer-export.js';

/** A factor or offset, or where the layer has none 1 or 0 in every element: the operators demand them. */
const scale = (
  { io, path }: LayerIo<nn.Module>,
  weight: AnyTensor | undefined,
  shape: readonly number[],
): string => io.tensor(weight ?? ones(shape), `${path}.weight`);
const offset = (
  { io, path }: LayerIo<nn.Module>,
  bias: AnyTensor | undefined,
  shape: readonly number[],
): string => io.tensor(bias ?? zeros(shape), `${path}.bias`);

const channelsOf = ({ inputs }: LayerIo<nn.Module>): readonly [number] => [inputs[0]!.shape[1]!];

const batchNorm = (layer: new (...args: never[]) => nn.BatchNorm): LayerExport<nn.BatchNorm> => ({
  layer,
  write: (call) => {
    const { io, module, values } = call;
    const { weight, bias, runningMean, runningVar, eps } = module;
    const channels = channelsOf(call);
    const parameters = [scale(call, weight, channels), offset(call, bias, channels)];
    const statistics = [io.tensor(runningMean), io.tensor(runningVar)];
    return [io.add('BatchNormalization', [...values, ...parameters, ...statistics], { epsilon: float(eps) })];
  },
});

const instanceNorm = (layer: new (...args: never[]) => nn.ChannelNorm): LayerExport<nn.ChannelNorm> => ({
  layer,
  write: (call) => {
    const { io, module, values } = call;
    const channels = channelsOf(call);
    const parameters = [scale(call, module.weight, channels), offset(call, module.bias, channels)];
    return [io.add('InstanceNormalization', [...values, ...parameters], { epsilon: float(module.eps) })];
  },
});

const groupNorm: LayerExport<nn.GroupNorm> = {
  layer: nn.GroupNorm,
  since: 21,
  write: (call) => {
    const { io, module, values } = call;
    const channels = channelsOf(call);
    const parameters = [scale(call, module.weight, channels), offset(call, module.bias, channels)];
    return [
      io.add('GroupNormalization', [...values, ...parameters], {
        ...{ num_groups: int(module.groups), epsilon: float(module.eps) },
      }),
    ];
  },
};

const layerNorm: LayerExport<nn.LayerNorm> = {
  layer: nn.LayerNorm,
  write: (call) => {
    const { io, module, values, inputs } = call;
    const { weight, bias, normalizedShape, eps } = module;
    return [
      io.add(
        'LayerNormalization',
        [...values, scale(call, weight, normalizedShape), bias && io.tensor(bias)],
        { axis: int(inputs[0]!.shape.length - normalizedShape.length), epsilon: float(eps) },
      ),
    ];
  },
};

const rmsNorm: LayerExport<nn.RMSNorm> = {
  layer: nn.RMSNorm,
  since: 23,
  write: (call) => {
    const { io, module, values, inputs } = call;
    const { weight, normalizedShape, eps = 2 ** -23 } = module;
    return [
      io.add('RMSNormalization', [...values, scale(call, weight, normalizedShape)], {
        ...{ axis: int(inputs[0]!.shape.length - normalizedShape.length), epsilon: float(eps) },
      }),
    ];
  },
  fits: ({ normalizedShape }, inputs) => inputs[0]!.dtype.name === 'f32' && sizeOf(normalizedShape) > 0,
};

export const NORMALIZATIONS: readonly LayerExport[] = [
  batchNorm(nn.BatchNorm1d),
  batchNorm(nn.BatchNorm2d),
  instanceNorm(nn.InstanceNorm1d),
  instanceNorm(nn.InstanceNorm2d),
  groupNorm,
  layerNorm,
  rmsNorm,
] as unknown as readonly LayerExport[];
