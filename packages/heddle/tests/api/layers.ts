/** Every layer that users can make: what its constructor takes, one to call methods on, and what `forward` takes. */

import { nn, ones, zeros } from '../../src/index.js';
import { IMAGE_LAYERS, signals } from './images.js';
import { type LayerRow, SEQUENCE_LAYERS } from './sequences.js';
import {
  axis,
  channelNorm,
  flag,
  fn,
  images,
  isList,
  isPlain,
  lastNorm,
  layer,
  model,
  number,
  oneOf,
  optional,
  options,
  orElse,
  precision,
  type Spec,
  state,
  tensor,
} from './spec.js';

const normalization = { eps: optional(number(1e-5)), affine: optional(flag) };
const batchNorm = [number(2), options({ ...normalization, momentum: optional(number(0.1)) })];

/** Normalization as functions. */
export const NORMALIZATION_CALLS: Readonly<Record<string, readonly Spec[]>> = {
  batchNorm: [
    images,
    tensor(() => zeros([1])),
    tensor(() => ones([1])),
    options({ ...channelNorm, training: optional(flag), momentum: optional(number(0.1)) }),
  ],
  groupNorm: [images, number(1), options(channelNorm)],
  instanceNorm: [images, options(channelNorm)],
  layerNorm: [tensor(), orElse(number(2), isList), options({ ...lastNorm, bias: lastNorm.weight })],
  rmsNorm: [tensor(), orElse(number(2), isList), options(lastNorm)],
};

export const LAYERS: Readonly<Record<string, LayerRow>> = {
  Linear: { takes: [number(2), number(2), options({ bias: optional(flag), precision })], make: layer },
  Sequential: { takes: [model, model], make: () => new nn.Sequential(layer()) },
  Flatten: { takes: [optional(axis)], make: () => new nn.Flatten() },
  BatchNorm1d: { takes: batchNorm, make: () => new nn.BatchNorm1d(1), input: signals },
  BatchNorm2d: { takes: batchNorm, make: () => new nn.BatchNorm2d(1), input: images },
  GroupNorm: {
    takes: [number(1), number(2), options(normalization)],
    make: () => new nn.GroupNorm(1, 1),
    input: images,
  },
  InstanceNorm1d: {
    takes: [number(1), options(normalization)],
    make: () => new nn.InstanceNorm1d(1),
    input: signals,
  },
  InstanceNorm2d: {
    takes: [number(1), options(normalization)],
    make: () => new nn.InstanceNorm2d(1),
    input: images,
  },
  LayerNorm: {
    takes: [
      orElse(number(2), isList),
      options({ eps: optional(number(1e-5)), elementwiseAffine: optional(flag), bias: optional(flag) }),
    ],
    make: () => new nn.LayerNorm(2),
  },
  RMSNorm: {
    takes: [
      orElse(number(2), isList),
      options({ eps: optional(number(1e-5)), elementwiseAffine: optional(flag) }),
    ],
    make: () => new nn.RMSNorm(2),
  },
  ReLU: { takes: [], make: () => new nn.ReLU() },
  LeakyReLU: {
    takes: [options({ negativeSlope: optional(number(0.1)) })],
    make: () => new nn.LeakyReLU(),
  },
  ELU: { takes: [options({ alpha: optional(number()) })], make: () => new nn.ELU() },
  GELU: { takes: [options({ approximate: optional(oneOf('none', 'tanh')) })], make: () => new nn.GELU() },
  SiLU: { takes: [], make: () => new nn.SiLU() },
  Sigmoid: { takes: [], make: () => new nn.Sigmoid() },
  Tanh: { takes: [], make: () => new nn.Tanh() },
  Softplus: {
    takes: [options({ beta: optional(number()), threshold: optional(number()) })],
    make: () => new nn.Softplus(),
  },
  ReLU6: { takes: [], make: () => new nn.ReLU6() },
  Hardsigmoid: { takes: [], make: () => new nn.Hardsigmoid() },
  Hardswish: { takes: [], make: () => new nn.Hardswish() },
  SELU: { takes: [], make: () => new nn.SELU() },
  Mish: { takes: [], make: () => new nn.Mish() },
  Softsign: { takes: [], make: () => new nn.Softsign() },
  LogSigmoid: { takes: [], make: () => new nn.LogSigmoid() },
  Tanhshrink: { takes: [], make: () => new nn.Tanhshrink() },
  Hardtanh: {
    takes: [options({ low: optional(number(0)), high: optional(number(1)) })],
    make: () => new nn.Hardtanh(),
  },
  CELU: { takes: [options({ alpha: optional(number()) })], make: () => new nn.CELU() },
  Softshrink: { takes: [options({ lambda: optional(number()) })], make: () => new nn.Softshrink() },
  Hardshrink: { takes: [options({ lambda: optional(number()) })], make: () => new nn.Hardshrink() },
  PReLU: {
    takes: [options({ parameters: optional(number(1)), init: optional(number(0.25)) })],
    make: () => new nn.PReLU(),
  },
  GLU: { takes: [optional(axis)], make: () => new nn.GLU() },
  Softmax: { takes: [optional(axis)], make: () => new nn.Softmax() },
  ...IMAGE_LAYERS,
  ...SEQUENCE_LAYERS,
  LogSoftmax: { takes: [optional(axis)], make: () => new nn.LogSoftmax() },
};

/** The methods of all modules. */
export const MODULE_METHODS: Readonly<Record<string, readonly Spec[]>> = {
  namedModules: [],
  namedParameters: [],
  namedBuffers: [],
  parameters: [],
  buffers: [],
  stateDict: [],
  loadStateDict: [state(() => layer().stateDict()), options({ strict: optional(flag) })],
  'set training': [flag],
  train: [optional(flag)],
  eval: [],
  zeroGrad: [],
  summary: [orElse(tensor(), (v) => isList(v) || isPlain(v)), options({ batchSize: optional(number(1)) })],
  registerForwardHook: [fn()],
  registerForwardPreHook: [fn()],
};
