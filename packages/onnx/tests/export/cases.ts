/** Modules to export, one for each kind of layer and op, with inputs of two batch sizes. */
import {
  type AnyTensor,
  arange,
  cat,
  conv2d,
  f32,
  gelu,
  i8,
  i32,
  layerNorm,
  linear,
  nn,
  scaledDotProductAttention,
  type Tensor,
  tensor,
  u8,
  zeros,
} from 'heddle';
import { PROGRAMS } from 'heddle/internal/train/programs.js';
import { dequantizeLinear, fakeQuantize, quantizeLinear } from 'heddle/quantization';
import {
  type DynamicAxes,
  type ExportOptions,
  exportOnnx,
  type OnnxExport,
} from '../../src/export/export-onnx.js';
import { namedTensors } from '../../src/export/trace-model.js';

/** A module, and what to export it with. */
export interface Case {
  readonly model: () => nn.Module;
  /** Shapes of the inputs for a batch of n: f32, or i32 below `tokens`. */
  readonly shapes: (n: number) => readonly (readonly number[])[];
  readonly tokens?: number;
  /** How far ONNX Runtime's answers may be from Heddle's, in parts of the largest; default 2e-6. */
  readonly tolerance?: number;
  readonly options?: Omit<ExportOptions, 'path' | 'dynamicAxes'>;
  /** Default: the batch. */
  readonly dynamicAxes?: DynamicAxes;
}

/** The batch size of the answers that ONNX Runtime gave; models are exported with another. */
export const SECOND = 3;

/** Numbers that are the same on every machine, from −0.5 to 0.5. */
export function* numbers(seed: number): Generator<number, never> {
  let state = seed;
  for (;;) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    yield (state >>> 8) / 2 ** 24 - 0.5;
  }
}

/** A tensor of such numbers, or of the tokens below a number. */
export function values(shape: readonly number[], seed: number, tokens?: number): AnyTensor {
  const from = numbers(seed);
  const size = shape.reduce((n, d) => n * d, 1);
  const next = (): number => from.next().value;
  if (tokens === undefined)
    return tensor(
      Float32Array.from({ length: size }, () => 4 * next()),
      { shape },
    );
  return tensor(
    Int32Array.from({ length: size }, () => Math.floor((next() + 0.5) * tokens)),
    { shape, dtype: i32 },
  );
}

/** Parameters and buffers set to such numbers; variances are above 0. */
export function filled<M extends nn.Module>(model: M): M {
  Object.entries(model.stateDict()).forEach(([name, t], i) => {
    if (t.dtype !== f32) return;
    const from = numbers(i + 1);
    const isVariance = name.endsWith('runningVar');
    // Of matrices and kernels so large that values neither grow nor fade from layer to layer.
    const scale = t.ndim < 2 ? 1 : Math.sqrt((12 * t.shape[0]!) / t.size);
    const value = (): number => (isVariance ? 0.75 + from.next().value : scale * from.next().value);
    t.write(Float32Array.from({ length: t.size }, value));
  });
  return model.eval();
}

/** The inputs of a case for a batch of n. */
export const inputsOf = (one: Case, n: number): AnyTensor[] =>
  one.shapes(n).map((shape, i) => values(shape, 1000 + 10 * n + i, one.tokens));

/** The module of a case as an ONNX model. */
export async function exported(one: Case): Promise<OnnxExport & { readonly model: nn.Module }> {
  const model = filled(one.model());
  const options = { dynamicAxes: one.dynamicAxes ?? 'batch', ...one.options } as const;
  return { model, ...(await exportOnnx(model, inputsOf(one, 2), options)) };
}

/** The tensors that a module makes of these. */
export const outputsOf = (model: nn.Module, inputs: readonly AnyTensor[]): AnyTensor[] =>
  namedTensors('output', (model.forward as (...inputs: unknown[]) => unknown)(...inputs)).map(
    ({ tensor }) => tensor,
  );

/** A module of a function, without layers. */
class FunctionModule extends nn.Module {
  readonly #of: (...inputs: Tensor[]) => unknown;
  constructor(of: (...inputs: Tensor[]) => unknown) {
    super();
    this.#of = of;
  }
  forward(...inputs: Tensor[]): unknown {
    return this.#of(...inputs);
  }
}

/** Layers that are called more than once, and a weight of the one used by the other. */
class Shared extends nn.Module {
  readonly wide = new nn.Sequential(new nn.Linear(6, 6), new nn.Tanh());
  readonly tall = new nn.Sequential(new nn.Linear(6, 6), new nn.Tanh());
  readonly gate = new Gate(this.wide);
  forward(x: Tensor): unknown {
    const inner = this.wide.forward(x);
    return [this.tall.forward(this.wide.forward(inner)).add(inner), this.gate.forward(inner)];
  }
}

/** A layer that calls another one, which is not its own, and has two results. */
class Gate extends nn.Module {
  readonly #of: nn.Sequential;
  constructor(of: nn.Sequential) {
    super();
    this.#of = of;
  }
  forward(x: Tensor): readonly AnyTensor[] {
    const inner = this.#of.forward(x);
    return [inner.sigmoid().mul(x), inner.mul(inner).add(1)];
  }
}

/** The output and the last state of a stack, within a layer that is called for its output alone. */
class Recurrence extends nn.Module {
  readonly stack = new nn.LSTM(6, 6, { numLayers: 2, batchFirst: true });
  forward(x: Tensor): Tensor {
    const [output, [, cell]] = this.stack.forward(x);
    return output.add(cell.at(-1).unsqueeze(1)) as Tensor;
  }
}

const of = (body: (...inputs: Tensor[]) => unknown) => () => new FunctionModule(body);

const vector = (n: number) => [[n, 6]];
const signal = (n: number) => [[n, 4, 11]];
const image = (n: number) => [[n, 4, 9, 8]];
const square = (n: number) => [[n, 4, 8, 8]];
const steps = (n: number) => [[5, n, 6]];
const rows6 = (n: number) => [[n, 5, 6]];
const rows = (n: number) => [[n, 5, 8]];

/** A layer on inputs of these shapes. */
const layer = (model: Case['model'], shapes: Case['shapes'], more: Partial<Case> = {}): Case => ({
  ...{ model, shapes, ...more },
});
const steps2 = { dynamicAxes: { input: { 1: 'batch' } } } as const;
const recurrentState = (n: number) => [
  [5, n, 6],
  [4, n, 7],
];
const encoder = (options: object) =>
  new nn.TransformerEncoder(
    () => new nn.TransformerEncoderLayer(8, 2, { dimFeedforward: 16, batchFirst: true, ...options }),
    2,
  );

const ACTIVATIONS = {
  ReLU: () => new nn.ReLU(),
  LeakyReLU: () => new nn.LeakyReLU({ negativeSlope: 0.2 }),
  ELU: () => new nn.ELU({ alpha: 1.3 }),
  CELU: () => new nn.CELU({ alpha: 0.7 }),
  SELU: () => new nn.SELU(),
  GELU: () => new nn.GELU(),
  GELUTanh: () => new nn.GELU({ approximate: 'tanh' }),
  SiLU: () => new nn.SiLU(),
  Mish: () => new nn.Mish(),
  Sigmoid: () => new nn.Sigmoid(),
  Hardsigmoid: () => new nn.Hardsigmoid(),
  Hardswish: () => new nn.Hardswish(),
  Hardtanh: () => new nn.Hardtanh({ low: -0.4, high: 0.6 }),
  ReLU6: () => new nn.ReLU6(),
  Tanh: () => new nn.Tanh(),
  Tanhshrink: () => new nn.Tanhshrink(),
  Softsign: () => new nn.Softsign(),
  Softplus: () => new nn.Softplus(),
  SoftplusBeta: () => new nn.Softplus({ beta: 2, threshold: 1.5 }),
  Softshrink: () => new nn.Softshrink({ lambda: 0.3 }),
  Hardshrink: () => new nn.Hardshrink({ lambda: 0.3 }),
  LogSigmoid: () => new nn.LogSigmoid(),
  Softmax: () => new nn.Softmax(),
  SoftmaxFirst: () => new nn.Softmax(1),
  LogSoftmax: () => new nn.LogSoftmax(),
  PReLU: () => new nn.PReLU(),
  PReLUChannels: () => new nn.PReLU({ parameters: 4 }),
  GLU: () => new nn.GLU(1),
} satisfies Record<string, () => nn.Module>;

const LAYERS: Readonly<Record<string, Case>> = {
  Linear: layer(() => new nn.Linear(6, 3), vector),
  LinearNoBias: layer(() => new nn.Linear(6, 3, { bias: false }), vector),
  LinearRows: layer(() => new nn.Linear(8, 3), rows),
  Embedding: layer(
    () => new nn.Embedding(11, 4),
    (n) => [[n, 5]],
    { tokens: 11 },
  ),
  Conv1d: layer(() => new nn.Conv1d(4, 6, 3, { stride: 2, padding: 1, dilation: 2 }), signal),
  Conv1dSame: layer(() => new nn.Conv1d(4, 6, 4, { padding: 'same', bias: false }), signal),
  Conv2d: layer(() => new nn.Conv2d(4, 6, [3, 2], { stride: [2, 1], padding: [1, 0], groups: 2 }), image),
  Conv2dDepthwise: layer(() => new nn.Conv2d(4, 4, 3, { padding: 1, groups: 4 }), image),
  Conv3d: layer(
    () => new nn.Conv3d(2, 3, 2, { padding: 1, stride: [1, 2, 1] }),
    (n) => [[n, 2, 4, 5, 6]],
  ),
  ConvTranspose1d: layer(
    () => new nn.ConvTranspose1d(4, 3, 3, { stride: 2, padding: 1, outputPadding: 1 }),
    signal,
  ),
  ConvTranspose2d: layer(
    () => new nn.ConvTranspose2d(4, 6, 3, { stride: 2, padding: 1, outputPadding: [1, 0], groups: 2 }),
    image,
  ),
  ConvTranspose2dDilated: layer(
    () => new nn.ConvTranspose2d(4, 2, 3, { dilation: 2, outputPadding: 1 }),
    image,
  ),
  ConvTranspose3d: layer(
    () => new nn.ConvTranspose3d(2, 3, 2, { stride: 2 }),
    (n) => [[n, 2, 2, 3, 3]],
  ),
  MaxPool1d: layer(() => new nn.MaxPool1d(3, { stride: 2, padding: 1 }), signal),
  MaxPool2d: layer(() => new nn.MaxPool2d(3, { stride: 2, padding: 1, dilation: 2 }), image),
  AvgPool1d: layer(() => new nn.AvgPool1d(3, { padding: 1 }), signal),
  AvgPool2d: layer(() => new nn.AvgPool2d(3, { stride: 2, padding: 1 }), image),
  AvgPool2dInside: layer(() => new nn.AvgPool2d(3, { stride: 2, padding: 1, countIncludePad: false }), image),
  AdaptiveAvgPool2d: layer(() => new nn.AdaptiveAvgPool2d(1), image),
  AdaptiveAvgPool2dUneven: layer(() => new nn.AdaptiveAvgPool2d([4, 3]), image),
  AdaptiveMaxPool1d: layer(() => new nn.AdaptiveMaxPool1d(1), signal),
  AdaptiveMaxPool2dUneven: layer(() => new nn.AdaptiveMaxPool2d([4, 3]), image),
  BatchNorm1d: layer(() => new nn.BatchNorm1d(6), vector),
  BatchNorm1dSignal: layer(() => new nn.BatchNorm1d(4, { affine: false }), signal),
  BatchNorm2d: layer(() => new nn.BatchNorm2d(4, { eps: 1e-3 }), image),
  LayerNorm: layer(() => new nn.LayerNorm(8), rows),
  LayerNormTwo: layer(() => new nn.LayerNorm([9, 8], { elementwiseAffine: false }), image),
  GroupNorm: layer(() => new nn.GroupNorm(2, 4), image),
  GroupNormOpset20: layer(() => new nn.GroupNorm(2, 4), image, { options: { opset: 20 } }),
  InstanceNorm1d: layer(() => new nn.InstanceNorm1d(4), signal),
  InstanceNorm2d: layer(() => new nn.InstanceNorm2d(4, { affine: true }), image),
  RMSNorm: layer(() => new nn.RMSNorm(8), rows),
  RMSNormOpset23: layer(() => new nn.RMSNorm(8, { eps: 1e-4 }), rows, { options: { opset: 23 } }),
  GELUOpset18: layer(() => new nn.GELU(), vector, { options: { opset: 18 } }),
  RNN: layer(() => new nn.RNN(6, 7), steps, steps2),
  RNNRelu: layer(
    () => new nn.RNN(6, 7, { nonlinearity: 'relu', bidirectional: true, numLayers: 2 }),
    recurrentState,
    { dynamicAxes: { input_0: { 1: 'batch' }, input_1: { 1: 'batch' } } },
  ),
  GRU: layer(() => new nn.GRU(6, 7, { batchFirst: true, numLayers: 2 }), rows6),
  GRUBidirectional: layer(() => new nn.GRU(6, 7, { bidirectional: true, bias: false }), steps, steps2),
  LSTM: layer(() => new nn.LSTM(6, 7), steps, steps2),
  LSTMStacked: layer(() => new nn.LSTM(6, 7, { numLayers: 2, bidirectional: true, batchFirst: true }), rows6),
  LSTMSteps: layer(() => new nn.LSTM(6, 7), steps, {
    dynamicAxes: { input: { 0: 'steps', 1: 'batch' } },
  }),
  LSTMCell: layer(() => new nn.LSTMCell(6, 7), vector),
  Upsample: layer(() => new nn.Upsample({ scaleFactor: 2 }), image),
  UpsampleUneven: layer(() => new nn.Upsample({ size: [13, 5], mode: 'nearest-exact' }), image),
  UpsampleLinear: layer(() => new nn.Upsample({ scaleFactor: 1.5, mode: 'linear' }), signal),
  UpsampleBilinear: layer(() => new nn.Upsample({ scaleFactor: [2, 1.5], mode: 'bilinear' }), image),
  UpsampleAligned: layer(
    () => new nn.Upsample({ size: [5, 17], mode: 'bilinear', alignCorners: true }),
    image,
  ),
  UpsampleBicubic: layer(() => new nn.Upsample({ scaleFactor: 2, mode: 'bicubic' }), image),
  UpsampleArea: layer(() => new nn.Upsample({ size: [4, 5], mode: 'area' }), image),
  PixelShuffle: layer(() => new nn.PixelShuffle(2), image),
  PixelUnshuffle: layer(() => new nn.PixelUnshuffle(2), square),
  Unfold: layer(() => new nn.Unfold(3, { stride: 2, padding: 1 }), image),
  Fold: layer(
    () => new nn.Fold([6, 5], [3, 2], { stride: [1, 2], padding: [1, 0] }),
    (n) => [[n, 12, 12]],
  ),
  ConstantPad1d: layer(() => new nn.ConstantPad1d([2, 1], 1.5), signal),
  ZeroPad2d: layer(() => new nn.ZeroPad2d([1, 2, 3, 0]), image),
  ReflectionPad1d: layer(() => new nn.ReflectionPad1d([2, 1]), signal),
  ReflectionPad2d: layer(() => new nn.ReflectionPad2d([1, 2, 3, 0]), image),
  ReplicationPad2d: layer(() => new nn.ReplicationPad2d([1, 2, 3, 0]), image),
  CircularPad1d: layer(() => new nn.CircularPad1d([2, 1]), signal),
  CircularPad2d: layer(() => new nn.CircularPad2d([1, 2, 3, 0]), image),
  Flatten: layer(() => new nn.Flatten(), image),
  FlattenLast: layer(() => new nn.Flatten(2), image),
  Dropout: layer(
    () => new nn.Sequential(new nn.Dropout(), new nn.Dropout2d(), new nn.DropPath({ p: 0.5 })),
    image,
  ),
  MultiheadAttention: layer(() => new nn.MultiheadAttention(8, 2, { batchFirst: true }), rows),
  MultiheadAttentionTwo: layer(
    () => new nn.MultiheadAttention(8, 2, { kdim: 6, vdim: 4, batchFirst: true }),
    (n) => [
      [n, 5, 8],
      [n, 3, 6],
      [n, 3, 4],
    ],
  ),
  TransformerEncoder: layer(() => encoder({ activation: 'gelu', normFirst: true }), rows),
  TransformerEncoderPost: layer(() => encoder({ activation: 'relu' }), rows),
  TransformerDecoder: layer(
    () =>
      new nn.TransformerDecoder(
        () => new nn.TransformerDecoderLayer(8, 2, { dimFeedforward: 16, batchFirst: true }),
        1,
      ),
    (n) => [
      [n, 5, 8],
      [n, 3, 8],
    ],
  ),
};

const FUNCTIONS: Readonly<Record<string, Case>> = {
  arithmetic: layer(
    of((x, y) => x.mul(y).add(3).div(y.abs().add(0.5)).sub(x.square()).neg()),
    (n) => [[n, 6], [6]],
    {
      dynamicAxes: { input_0: { 0: 'batch' } },
    },
  ),
  elementary: layer(
    of((x) => [
      x.exp().log1p(),
      x.expm1(),
      x.sin(),
      x.cos(),
      x.tanh(),
      x.erf(),
      x.abs().sqrt(),
      x.abs().pow(1.7),
    ]),
    vector,
  ),
  rounding: layer(
    of((x) => [x.mul(5).floor(), x.mul(5).ceil(), x.mul(5).round(), x.mul(5).trunc()]),
    vector,
  ),
  comparing: layer(
    of((x) => [x.gt(0).and(x.lt(1)).where(x, 0), x.clamp(-0.5, 0.5), x.maximum(0.2), x.eq(x)]),
    vector,
  ),
  reductions: layer(
    of((x) => [x.sum(1), x.mean(-1), x.max(1), x.min(), x.prod(1), x.variance(1), x.norm(1)]),
    vector,
  ),
  positions: layer(
    of((x) => [x.argmax(1), x.argmin(0), x.cumsum(1), x.flip(1)]),
    vector,
  ),
  sorting: layer(
    of((x) => [x.sort(1).values, x.argsort(1, { descending: true }), x.topk(3).values, x.topk(2, 1).indices]),
    vector,
  ),
  indexing: layer(
    of((x) => [x.at(':', '1:5:2'), x.at(-1), x.at('::-1', 2), x.at(':', tensor(Int32Array.of(3, -1)))]),
    vector,
  ),
  shaping: layer(
    of((x) => [
      x.transpose(1, 2).reshape([-1, 4]),
      x.unsqueeze(1).squeeze(1),
      cat([x, x], 2),
      x.repeat([1, 2, 1]),
      x.split(2, 1),
    ]),
    signal,
  ),
  casts: layer(
    of((x) => [x.cast(i32), x.gt(0).cast(f32), x.mul(3).cast(i32).mod(2)]),
    vector,
  ),
  functional: layer(
    of((x) => layerNorm(gelu(x), 8).softmax(-1)),
    rows,
  ),
  products: layer(
    of((x) => [
      linear(x, values([3, 6], 5), values([3], 6)),
      x.matmul(values([6, 3], 5)).add(values([3], 6)),
    ]),
    vector,
  ),
  attention: layer(
    of((x) => scaledDotProductAttention(x, x, x, { isCausal: true })),
    rows,
    {
      dynamicAxes: { input: { 0: 'batch', 1: 'length' } },
    },
  ),
  meanOverSteps: layer(
    of((x) => x.sub(x.mean(1, { keepdim: true }))),
    rows,
    {
      dynamicAxes: { input: { 0: 'batch', 1: 'length' } },
    },
  ),
  rangeOfSteps: layer(
    of((x) => x.mul(arange(x.shape[1]!).cast(f32).unsqueeze(1)).reshape([x.shape[0]! * x.shape[1]!, 8])),
    rows,
    { dynamicAxes: { input: { 0: 'batch', 1: 'length' } } },
  ),
  zerosOfSteps: layer(
    of((x) => cat([zeros([x.shape[0]!, 1, 8]), x], 1)),
    rows,
    {
      dynamicAxes: { input: { 0: 'batch', 1: 'length' } },
    },
  ),
  convolutionOfAnySize: layer(
    () =>
      new nn.Sequential(
        new nn.Conv2d(4, 6, 3, { stride: 2 }),
        new nn.BatchNorm2d(6),
        new nn.SiLU(),
        new nn.Upsample({ scaleFactor: 2, mode: 'bilinear' }),
        new nn.AdaptiveAvgPool2d(1),
        new nn.Flatten(),
      ),
    image,
    { dynamicAxes: { input: { 0: 'batch', 2: 'height', 3: 'width' } } },
  ),
  quantized: layer(
    of((x) => [
      quantizeLinear(x, 0.03),
      quantizeLinear(x, tensor([0.02]), tensor([7], { dtype: u8 }), { dtype: u8 }),
      quantizeLinear(x, tensor([0.01, 0.02, 0.03, 0.04]), tensor([1, -2, 3, -4], { dtype: i8 })),
      dequantizeLinear(quantizeLinear(x, 0.03, 5), 0.03, 5),
      fakeQuantize(x, tensor([0.01, 0.02, 0.03, 0.04]), 0, { axis: 1 }),
    ]),
    signal,
  ),
  quantizedConvolution: layer(
    of((x) =>
      conv2d(
        dequantizeLinear(quantizeLinear(x, 0.015), 0.015),
        dequantizeLinear(values([3, 4, 2, 2], 7).mul(60).cast(i8), tensor([0.01, 0.02, 0.015]), 0, {
          axis: 0,
        }),
        tensor([0.1, 0.2, 0.3]),
      ).relu(),
    ),
    image,
  ),
  record: layer(
    of((x) => ({ left: x, right: x.mul(2), same: x })),
    vector,
    {
      options: { inputNames: ['x'], outputNames: ['a', 'b', 'c'] },
      dynamicAxes: { x: { 0: 'n' } },
    },
  ),
};

const MODELS: Readonly<Record<string, Case>> = {
  lenet5: layer(
    () => PROGRAMS.lenet5.build(),
    (n) => [[n, 1, 28, 28]],
  ),
  resnet18: layer(
    () => PROGRAMS.resnet18.build(),
    (n) => [[n, 1, 28, 28]],
  ),
  vit: layer(
    () => PROGRAMS.vit.build(),
    (n) => [[n, 1, 28, 28]],
  ),
  gpt: layer(
    () => PROGRAMS.gpt.build(),
    (n) => [[n, 16]],
    {
      tokens: 100,
      dynamicAxes: { input: { 0: 'batch', 1: 'length' } },
    },
  ),
};

/** In f16. */
const HALF: Readonly<Record<string, Case>> = Object.fromEntries(
  Object.entries({
    lenet5F16: MODELS.lenet5!,
    LSTMF16: LAYERS.LSTMStacked!,
    TransformerEncoderF16: LAYERS.TransformerEncoder!,
    attentionF16: FUNCTIONS.attention!,
    UpsampleBilinearF16: LAYERS.UpsampleBilinear!,
  }).map(([name, one]) => [name, { ...one, options: { precision: 'f16' }, tolerance: 4e-3 }] as const),
);

/** With layers as functions. */
const AS_FUNCTIONS: Readonly<Record<string, Case>> = Object.fromEntries(
  Object.entries({
    resnet18Functions: MODELS.resnet18!,
    vitFunctions: MODELS.vit!,
    gptFunctions: MODELS.gpt!,
    TransformerDecoderFunctions: LAYERS.TransformerDecoder!,
    SharedFunctions: layer(() => new Shared(), vector),
    LSTMFunctions: layer(() => new nn.Sequential(new Recurrence(), new Recurrence()), rows6),
    TransformerEncoderF16Functions: HALF.TransformerEncoderF16!,
  }).map(([name, one]) => [name, { ...one, options: { ...one.options, functions: true } }] as const),
);

/** All cases by name. */
export const CASES: Readonly<Record<string, Case>> = {
  ...Object.fromEntries(
    Object.entries(ACTIVATIONS).map(([name, model]) => [name, layer(model, signal)] as const),
  ),
  ...LAYERS,
  ...FUNCTIONS,
  ...MODELS,
  ...HALF,
  ...AS_FUNCTIONS,
};
