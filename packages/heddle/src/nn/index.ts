/** Layers. */
export {
  ELU,
  GELU,
  LeakyReLU,
  LogSoftmax,
  ReLU,
  Sigmoid,
  SiLU,
  Softmax,
  Softplus,
  Tanh,
} from './activation.js';
export {
  type AttendOptions,
  MultiheadAttention,
  type MultiheadAttentionOptions,
} from './attention.js';
export { Flatten, Identity, Sequential } from './container.js';
export {
  Conv1d,
  type Conv1dLayerOptions,
  Conv2d,
  type Conv2dLayerOptions,
  Conv3d,
  type Conv3dLayerOptions,
  ConvolutionLayer,
  ConvTranspose1d,
  type ConvTranspose1dLayerOptions,
  ConvTranspose2d,
  type ConvTranspose2dLayerOptions,
  ConvTranspose3d,
  type ConvTranspose3dLayerOptions,
} from './convolution.js';
export { Embedding } from './embedding.js';
export { Fold, PixelShuffle, PixelUnshuffle, Unfold, Upsample } from './images.js';
export * as init from './init.js';
export { KeyValueCache } from './key-value-cache.js';
export type { Conv2dInput, LinearInput, LinearShape } from './layer-types.js';
export { Linear, type LinearOptions } from './linear.js';
export { ModuleDict, ModuleList, ParameterDict, ParameterList } from './lists.js';
export {
  type ForwardHook,
  type ForwardPreHook,
  type HookHandle,
  type Layer,
  type LoadStateOptions,
  Module,
  type StateDict,
} from './module.js';
export {
  type BatchNorm,
  BatchNorm1d,
  BatchNorm2d,
  type BatchNormLayerOptions,
  type ChannelNorm,
  GroupNorm,
  type GroupNormOptions,
  InstanceNorm1d,
  InstanceNorm2d,
  LayerNorm,
  type LayerNormOptions,
  RMSNorm,
  type RMSNormOptions,
} from './normalization.js';
export {
  CircularPad1d,
  CircularPad2d,
  ConstantPad1d,
  ConstantPad2d,
  type Padding1d,
  type Padding2d,
  PaddingLayer,
  ReflectionPad1d,
  ReflectionPad2d,
  ReplicationPad1d,
  ReplicationPad2d,
  ZeroPad1d,
  ZeroPad2d,
} from './padding.js';
export {
  AdaptiveAvgPool1d,
  AdaptiveAvgPool2d,
  AdaptiveMaxPool1d,
  AdaptiveMaxPool2d,
  AvgPool1d,
  AvgPool2d,
  MaxPool1d,
  MaxPool2d,
} from './pooling.js';
export {
  CELU,
  GLU,
  Hardshrink,
  Hardsigmoid,
  Hardswish,
  Hardtanh,
  LogSigmoid,
  Mish,
  PReLU,
  type PReLUOptions,
  ReLU6,
  SELU,
  Softshrink,
  Softsign,
  Tanhshrink,
} from './rectifiers.js';
export {
  type CellOptions,
  GRU,
  GRUCell,
  LSTM,
  LSTMCell,
  type LstmState,
  type Recurrent,
  type RecurrentCell,
  type RecurrentKind,
  type RecurrentOptions,
  RNN,
  RNNCell,
  type RnnCellOptions,
  type RnnOptions,
} from './recurrent.js';
export { Dropout, Dropout2d, type DropoutLayerOptions, DropPath } from './regularization.js';
export type {
  LayerSummary,
  ModelSummary,
  OutputSummary,
  SummaryInput,
  SummaryOptions,
} from './summary.js';
export {
  type DecodeOptions,
  type EncodeOptions,
  TransformerDecoder,
  TransformerDecoderLayer,
  TransformerEncoder,
  TransformerEncoderLayer,
  type TransformerLayer,
  type TransformerLayerOptions,
  type TransformerOptions,
} from './transformer.js';
