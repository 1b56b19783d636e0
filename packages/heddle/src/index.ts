/// <reference lib="esnext.disposable" preserve="true" />
/**
 * Heddle: neural networks from TypeScript, down to kernels written in TypeScript.
 *
 * Three levels: kernels (`kernel`), tensors and layers (`Tensor`, `nn`, `optim`, `jit`), and the training loop (`fit`).
 */
export {
  bf16,
  bool,
  type DataArrays,
  type DataOf,
  type DType,
  type DTypeKind,
  type DTypeName,
  f16,
  f32,
  f64,
  i8,
  i32,
  i64,
  type MemoryOf,
  type TypedArray,
  u8,
  u32,
} from './core/dtype.js';
export {
  ArgumentError,
  DataError,
  DeviceError,
  DistributedError,
  DTypeError,
  FileError,
  type FindingKind,
  HeddleError,
  InternalError,
  KernelError,
  type Location,
  NumericError,
  OutOfMemoryError,
  ShapeError,
  SimulatorError,
} from './core/errors.js';
export type { PhiloxStream } from './core/philox.js';
export type { Precision } from './core/precision.js';
export type { Shape } from './core/shape.js';
export * as data from './data/index.js';
export {
  ArrayDataset,
  type Batched,
  type Dataset,
  Loader,
  loadImages,
  loadText,
  randomSplit,
  TensorDataset,
  TextDataset,
  Vocabulary,
} from './data/index.js';
export { allocate, type DeviceArray, stream } from './engine/device-array.js';
export type { LaunchConfig, LaunchOptions } from './engine/launch.js';
export type { LaunchProfile, Profile, ProfileOptions } from './engine/profile.js';
export type { Stats as EngineStats } from './engine/program.js';
export * as inference from './inference/index.js';
export * as io from './io/index.js';
export type { KernelIr } from './kernel/ir/ir.js';
export {
  type BufferSchema,
  buffer,
  type PixelWalk,
  type Schema,
  type TensorMap,
  type TensorMapOptions,
  tensorMap,
} from './kernel/ir/types.js';
export type {
  Cast,
  Constants,
  CopyArgument,
  Intrinsics,
  KernelFunction,
  Memory,
  Sizes,
  ValuesOf,
  Vector3,
} from './kernel/language/language.js';
export * as nn from './nn/index.js';
export * as optim from './optim/index.js';
export * as quantization from './quantization/index.js';
export type { DeviceInfo, KernelInfo, MemoryReport, Stream, StreamEvent } from './runtime/device.js';
export type { DeviceStatus } from './runtime/device-entry.js';
export type { BlockConfig, Extent } from './runtime/launch-rules.js';
export { listDevices } from './runtime/registry.js';
export type { Simulation } from './runtime/sim/launch.js';
export type { RunOptions as SimulateOptions, SimulationEvent } from './runtime/sim/run.js';
export type { Language as SourceLanguage } from './runtime/source.js';
export type { FusedCall } from './schedule/launch.js';
export { autocast } from './tensor/autocast.js';
export type { Axes } from './tensor/axes.js';
export {
  type ArangeOptions,
  arange,
  cat,
  type DTypeFor,
  eye,
  full,
  linspace,
  type MeshgridOptions,
  meshgrid,
  type Nested,
  ones,
  type ShapeFor,
  stack,
  type TensorOptions,
  tensor,
  where,
  zeros,
} from './tensor/create.js';
export {
  type CustomBackward,
  customGradient,
  type GradientOf,
  type GradOptions,
  grad,
  valueAndGrad,
} from './tensor/differentiate.js';
export { einsum } from './tensor/einsum.js';
export {
  type EluOptions,
  elu,
  erf,
  type GeluOptions,
  gelu,
  type LeakyReluOptions,
  leakyRelu,
  logSoftmax,
  relu,
  type SoftplusOptions,
  sigmoid,
  silu,
  softmax,
  softplus,
  tanh,
} from './tensor/functional-activations.js';
export {
  type Attention,
  type AttentionOptions,
  scaledDotProductAttention,
} from './tensor/functional-attention.js';
export {
  type Conv1dOptions,
  type Conv2dOptions,
  type Conv3dOptions,
  conv1d,
  conv2d,
  conv3d,
  type NamedPadding,
  type Pair,
  type Triple,
} from './tensor/functional-convolutions.js';
export { type CtcOptions, ctcLoss } from './tensor/functional-ctc.js';
export { type EmbeddingOptions, embedding, sinusoidalPositions } from './tensor/functional-embedding.js';
export {
  fold,
  type InterpolateOptions,
  interpolate,
  pixelShuffle,
  pixelUnshuffle,
  type UnfoldOptions,
  unfold,
} from './tensor/functional-images.js';
export {
  type DropoutOptions,
  dropout,
  dropout2d,
  dropPath,
  linear,
  oneHot,
} from './tensor/functional-layers.js';
export {
  type BceOptions,
  type BceWithLogitsOptions,
  bce,
  bceWithLogits,
  type CrossEntropyOptions,
  crossEntropy,
  type HingeOptions,
  type HuberOptions,
  hinge,
  huber,
  type LossOptions,
  type LossShape,
  l1,
  type MultiMarginOptions,
  mse,
  multiMargin,
  type NllOptions,
  nllLoss,
  type Reduction,
  type SmoothL1Options,
  smoothL1,
} from './tensor/functional-losses.js';
export {
  type AffineOptions,
  type BatchNormOptions,
  batchNorm,
  groupNorm,
  instanceNorm,
  layerNorm,
  type NormOptions,
  type RmsNormOptions,
  rmsNorm,
} from './tensor/functional-normalization.js';
export {
  type AvgPool1dOptions,
  type AvgPool2dOptions,
  adaptiveAvgPool1d,
  adaptiveAvgPool2d,
  adaptiveMaxPool1d,
  adaptiveMaxPool2d,
  avgPool1d,
  avgPool2d,
  type MaxPool1dOptions,
  type MaxPool2dOptions,
  maxPool1d,
  maxPool2d,
} from './tensor/functional-pooling.js';
export {
  type CeluOptions,
  celu,
  glu,
  type HardtanhOptions,
  hardshrink,
  hardsigmoid,
  hardswish,
  hardtanh,
  logSigmoid,
  mish,
  prelu,
  relu6,
  type ShrinkOptions,
  selu,
  softshrink,
  softsign,
  tanhshrink,
} from './tensor/functional-rectifiers.js';
export {
  type CosineOptions,
  cosineEmbedding,
  cosineSimilarity,
  type DistanceOptions,
  type KlOptions,
  klDiv,
  type MarginOptions,
  marginRanking,
  pairwiseDistance,
  type TripletOptions,
  tripletMargin,
} from './tensor/functional-similarity.js';
export {
  type ConvTranspose1dOptions,
  type ConvTranspose2dOptions,
  type ConvTranspose3dOptions,
  convTranspose1d,
  convTranspose2d,
  convTranspose3d,
} from './tensor/functional-transposed-convolutions.js';
export { type GradcheckOptions, gradcheck } from './tensor/gradcheck.js';
export type { TensorHandle } from './tensor/handle.js';
export type { Index } from './tensor/indexing.js';
export { type JitOptions, type Jitted, type JitValue, jit, type NotAsync } from './tensor/jit.js';
export {
  type ApplyArguments,
  ceilDiv,
  Kernel,
  kernel,
  type LaunchArgument,
  type LaunchArguments,
  type ResultOf,
  type ScalarOf,
  type SimulateArgument,
  type SimulateArguments,
} from './tensor/kernel.js';
export {
  device,
  engineStats,
  memory,
  noGrad,
  realize,
  synchronize,
  time,
  useDevice,
} from './tensor/modes.js';
export type { Padding, PadMode, PadOptions } from './tensor/movement.js';
export type { ArraysByRank, NestedArray } from './tensor/nested.js';
export { getPrecision, type Precisions, setPrecision } from './tensor/precision.js';
export {
  bernoulli,
  type DrawOptions,
  defaultGenerator,
  Generator,
  type MultinomialOptions,
  manualSeed,
  multinomial,
  type RandintOptions,
  type RandomOptions,
  rand,
  randint,
  randn,
  randperm,
} from './tensor/random.js';
export type { ReduceOptions, VarianceOptions, VectorNormOptions } from './tensor/reductions.js';
export type { IndexAddOptions } from './tensor/scattering.js';
export type * as shapes from './tensor/shape-types.js';
export type { SortOptions, TopkOptions } from './tensor/sorting.js';
export {
  type AllcloseOptions,
  type AnyTensor,
  type ChosenDType,
  type ChosenShape,
  type DTypeOf,
  type Fits,
  type MatmulOptions,
  type Met,
  type NumberDType,
  type Operand,
  type ShapeOf,
  type ShapesOf,
  type Sorted,
  type Summed,
  Tensor,
} from './tensor/tensor.js';
export {
  type Augment,
  accuracy,
  binaryAccuracy,
  type Callback,
  type CallbackAnswer,
  type CheckpointInterval,
  type CheckpointOptions,
  checkpoint,
  type EarlyStoppingOptions,
  type EpochReport,
  type EvaluateOptions,
  type Evaluation,
  earlyStopping,
  evaluate,
  type FitOptions,
  fit,
  type History,
  type JsonValue,
  jsonLog,
  type LoadWeightsOptions,
  type LogReport,
  type Loss,
  type LossReduction,
  loadCheckpoint,
  loadWeights,
  type Metric,
  type MetricFunction,
  type Model,
  metrics,
  type SaveWeightsOptions,
  type Stateful,
  type StepReport,
  SummaryWriter,
  type SummedMetric,
  saveCheckpoint,
  saveWeights,
  type TensorBoardOptions,
  type TrainingPlan,
  tensorBoard,
} from './train/index.js';
export * as transforms from './transforms/index.js';
