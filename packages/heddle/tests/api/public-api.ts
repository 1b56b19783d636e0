/** Every function, class and method that users can reach, with what its arguments may be. */
import * as H from '../../src/index.js';
import { f32, ones, optim, Tensor, zeros } from '../../src/index.js';
import { OPS } from '../../src/kernel/ir/ops.js';
import { DATA_CALLS, DATA_METHODS, DATA_RECEIVERS } from './datasets.js';
import { IMAGE_CALLS } from './images.js';
import { INFERENCE_CALLS, INFERENCE_METHODS, INFERENCE_RECEIVERS } from './inference.js';
import { LAYERS, MODULE_METHODS, NORMALIZATION_CALLS } from './layers.js';
import { LISTS } from './lists.js';
import { OPTIM_CALLS, OPTIM_METHODS, OPTIM_RECEIVERS, schedule } from './optim.js';
import { QUANTIZATION_CALLS, QUANTIZATION_METHODS, QUANTIZATION_RECEIVERS } from './quantization.js';
import { SEQUENCE_CALLS, SEQUENCE_METHODS, SEQUENCE_RECEIVERS } from './sequences.js';
import {
  axes,
  axis,
  binary,
  block,
  bytes,
  dtype,
  evaluating,
  file,
  flag,
  fn,
  isList,
  isNumber,
  isPlain,
  isValue,
  json,
  kernelArguments,
  labels,
  launch,
  layer,
  list,
  loader,
  margin,
  metadata,
  model,
  nll,
  number,
  oneOf,
  only,
  operand,
  optional,
  options,
  orElse,
  pairwise,
  parts,
  path,
  perClass,
  precision,
  random,
  reduce,
  reduction,
  type Spec,
  shape,
  sharedBytes,
  slow,
  spec,
  spread,
  state,
  stored,
  storedOne,
  tensor,
  tensorOptions,
  text,
  unary,
  value,
  values,
} from './spec.js';
import { TRANSFORM_CALLS } from './transforms.js';

/** What `kernel` makes of it writes n ones. */
const saxpy = H.kernel('ones', { x: H.buffer(f32), n: H.i32 }, ({ x, n }, { globalId }) => {
  if (globalId.x < n) x[globalId.x] = 1;
});

/** Functions and constructors, by the names they are exported with. */
export const CALLS: Readonly<Record<string, readonly Spec[]>> = {
  tensor: [orElse(values, isValue), options({ ...tensorOptions, shape: optional(list(() => [4])) })],
  full: [shape, value, options(tensorOptions)],
  zeros: [shape, options(tensorOptions)],
  ones: [shape, options(tensorOptions)],
  arange: [number(3), number(5), options({ ...tensorOptions, step: optional(number(1)) })],
  eye: [number(2), options(tensorOptions)],
  linspace: [number(0), number(1), number(3), options(tensorOptions)],
  meshgrid: [list(() => [ones([2])]), options({ indexing: optional(oneOf('ij', 'xy')) })],
  rand: [shape, options(random)],
  randn: [shape, options(random)],
  randint: [...[number(0), number(5), shape], options({ dtype: random.dtype, generator: random.generator })],
  randperm: [number(3), options({ generator: random.generator })],
  bernoulli: [tensor(), options({ generator: random.generator })],
  multinomial: [
    ...[tensor(), number(1)],
    options({ generator: random.generator, replacement: optional(flag) }),
  ],
  cat: [list(() => [ones([2]), ones([2])]), optional(axis)],
  stack: [list(() => [ones([2]), ones([2])]), optional(axis)],
  einsum: [text('ij->ji'), list(() => [ones([2, 2])]), options({ precision })],
  where: [tensor(() => ones([2, 2]).gt(0)), operand, operand],
  allocate: [dtype, orElse(values, isNumber)],
  stream: [],
  device: [],
  memory: [],
  engineStats: [],
  getPrecision: [],
  listDevices: [],
  synchronize: [],
  setPrecision: [options({ matmul: precision, conv: precision })],
  useDevice: [text('cpu')],
  manualSeed: [number()],
  defaultGenerator: [],
  autocast: [
    spec(
      () => H.bf16,
      (v) => v === H.bf16 || v === H.f16,
    ),
    fn(),
  ],
  noGrad: [fn()],
  time: [fn()],
  realize: [tensor()],
  gradcheck: [
    fn((x: Tensor) => x.square()),
    list(() => [ones([1])]),
    options({ step: optional(number(1e-5)), tolerance: optional(number(1e-3)) }),
  ],
  grad: [fn(), options({ argnums: optional(orElse(number(0), isList)) })],
  valueAndGrad: [fn(), options({ argnums: optional(orElse(number(0), isList)) })],
  customGradient: [fn(), fn()],
  jit: [fn(), options({ tune: optional(oneOf('on', 'frozen')) })],
  ceilDiv: [number(5), number(2)],
  kernel: [
    text('k'),
    spec(() => ({ x: H.buffer(f32) }), isPlain),
    fn(({ x }: { x: number[] }) => {
      x[0] = 1;
    }),
    optional(spec(() => ({}), isPlain)),
  ],
  buffer: [dtype],
  tensorMap: [
    spec(
      () => f32,
      (v) => v === f32,
    ),
    options({
      sizes: list(() => [8, 64]),
      box: list(() => [8, 32]),
      strides: optional(list(() => [64, 1])),
      offset: optional(number(0)),
      tf32: optional(flag),
      walk: optional(
        spec(
          () => undefined,
          (v) => v === undefined,
        ),
      ),
    }),
  ],

  ...Object.fromEntries(
    [
      'relu',
      'sigmoid',
      'tanh',
      'silu',
      'erf',
      'relu6',
      'hardsigmoid',
      'hardswish',
      'selu',
      'mish',
      'softsign',
    ]
      .concat('logSigmoid', 'tanhshrink')
      .map((name) => [name, [tensor()]]),
  ),
  leakyRelu: [tensor(), options({ negativeSlope: optional(number(0.1)) })],
  hardtanh: [tensor(), options({ low: optional(number(0)), high: optional(number(1)) })],
  celu: [tensor(), options({ alpha: optional(number()) })],
  softshrink: [tensor(), options({ lambda: optional(number()) })],
  hardshrink: [tensor(), options({ lambda: optional(number()) })],
  prelu: [tensor(), tensor(() => ones([1]))],
  glu: [tensor(), optional(axis)],
  elu: [tensor(), options({ alpha: optional(number()) })],
  gelu: [tensor(), options({ approximate: optional(oneOf('none', 'tanh')) })],
  softplus: [tensor(), options({ beta: optional(number()), threshold: optional(number()) })],
  softmax: [tensor(), optional(axis)],
  logSoftmax: [tensor(), optional(axis)],
  linear: [tensor(), tensor(), optional(tensor(() => ones([2]))), options({ precision })],
  ...NORMALIZATION_CALLS,
  oneHot: [labels, number(2)],
  nllLoss: [tensor(), labels, options(nll)],
  crossEntropy: [tensor(), labels, options({ ...nll, labelSmoothing: optional(number(0.1)) })],
  bce: pairwise({ weight: optional(tensor(() => ones([2, 2]))) }),
  bceWithLogits: pairwise({
    weight: optional(tensor(() => ones([2, 2]))),
    posWeight: optional(tensor(() => ones([2, 2]))),
  }),
  mse: pairwise(),
  l1: pairwise(),
  huber: pairwise({ delta: optional(number()) }),
  smoothL1: pairwise({ beta: optional(number()) }),
  multiMargin: [
    tensor(),
    labels,
    options({
      ...reduction,
      p: optional(number(2)),
      margin: optional(number()),
      weight: optional(tensor(() => ones([2]))),
    }),
  ],
  cosineSimilarity: [tensor(), tensor(), options({ axis: optional(axis), eps: optional(number()) })],
  pairwiseDistance: [tensor(), tensor(), options({ p: optional(number(2)), eps: optional(number()) })],
  cosineEmbedding: [tensor(), tensor(), tensor(() => ones([2])), options(margin)],
  marginRanking: [tensor(), tensor(), tensor(), options(margin)],
  tripletMargin: [
    ...[tensor(), tensor(), tensor()],
    options({ ...margin, p: optional(number(2)), eps: optional(number()), swap: optional(flag) }),
  ],
  klDiv: [
    ...[tensor(), tensor()],
    options({ reduction: optional(oneOf('mean', 'sum', 'none', 'batchMean')), logTarget: optional(flag) }),
  ],
  hinge: pairwise({ margin: optional(number()) }),
  ...TRANSFORM_CALLS,
  ...INFERENCE_CALLS,
  ...QUANTIZATION_CALLS,
  ...IMAGE_CALLS,
  ...Object.fromEntries(Object.entries(LISTS).map(([name, { takes }]) => [`nn.${name}`, takes])),
  ...SEQUENCE_CALLS,
  ...DATA_CALLS,
  accuracy: [tensor(), labels],
  binaryAccuracy: [tensor(() => ones([2, 1])), labels],

  fit: [
    model,
    options(
      {
        ...evaluating,
        train: only(loader, H.Loader),
        validation: optional(only(loader, H.Loader)),
        optimizer: only(() => new optim.SGD(layer().parameters()), optim.Optimizer),
        epochs: slow(number()),
        schedule: optional(schedule),
        augment: optional(fn()),
        callbacks: optional(list(() => [])),
        ...{ readEvery: optional(number()), logEvery: optional(number()) },
        accumulate: optional(number()),
        clipGradNorm: optional(number()),
        ema: optional(options({ decay: optional(number(0.9)) })),
        folder: optional(path),
        checkpointEvery: optional(
          spec(
            () => ({ epochs: 1 }),
            (v) => isPlain(v) && Object.keys(v as object).length === 0,
          ),
        ),
        monitor: optional(text('loss')),
        resume: optional(orElse(flag, (v) => typeof v === 'string')),
      },
      () => {
        const optimizer = new optim.SGD(layer().parameters());
        return { train: loader(), optimizer, loss: H.crossEntropy, epochs: 1 };
      },
    ),
  ],
  evaluate: [model, only(loader, H.Loader), options(evaluating, () => ({ loss: H.crossEntropy }))],
  checkpoint: [model, path, options({ best: optional(text('loss')) })],
  earlyStopping: [options({ patience: number(), monitor: optional(text('loss')) }, () => ({ patience: 1 }))],
  saveCheckpoint: [path, parts, optional(json)],
  loadCheckpoint: [path, parts],
  saveWeights: [model, path, options({ metadata, names: optional(oneOf('heddle', 'pytorch')) })],
  loadWeights: [
    model,
    path,
    options({
      strict: optional(flag),
      prefix: optional(text('')),
      rename: optional(fn((name: string) => name)),
    }),
  ],
  'metrics.topK': [number()],
  'metrics.confusionMatrix': [number(2)],
  'metrics.precision': [options(perClass)],
  'metrics.recall': [options(perClass)],
  'metrics.f1': [options(perClass)],
  'metrics.perplexity': [options({ ignoreIndex: optional(number(-100)) })],
  SummaryWriter: [path],
  tensorBoard: [path, options({ histograms: optional(model) })],
  jsonLog: [path],
  'train.programNamed': [text('mlp')],

  Generator: [number()],
  'io.parseIdx': [bytes, optional(text())],
  'io.readIdx': [path],
  'io.encodeSafetensors': [stored, metadata, optional(text())],
  'io.parseNpy': [bytes, optional(text())],
  'io.parseNpz': [bytes, optional(text())],
  'io.parseTorch': [bytes, optional(text())],
  'io.encodeNpy': [storedOne, optional(text())],
  'io.encodeNpz': [stored, optional(text())],
  'io.loadTensors': [text(`${file}.npz`)],
  'io.saveTensors': [
    text(`${file}.npz`),
    spec(() => ({ x: ones([1]) }), isPlain),
    options({ metadata, maxShardBytes: optional(number(100)) }),
  ],
  'io.parseSafetensors': [bytes, optional(text())],
  'io.readSafetensors': [path],
  'io.writeSafetensors': [path, stored, metadata],
  'io.writeFileAtomic': [
    path,
    spec(
      () => 'text',
      (v) => typeof v === 'string' || v instanceof Uint8Array || isList(v),
    ),
  ],

  ...Object.fromEntries(Object.entries(LAYERS).map(([name, { takes }]) => [`nn.${name}`, takes])),
  'nn.init.constant': [tensor(), number()],
  'nn.init.zeros': [tensor()],
  'nn.init.ones': [tensor()],
  'nn.init.uniform': [tensor(), options({ low: optional(number(0)), high: optional(number(1)) })],
  'nn.init.normal': [tensor(), options({ mean: optional(number(0)), std: optional(number(1)) })],
  'nn.init.xavierUniform': [tensor(), options({ gain: optional(number()) })],
  'nn.init.xavierNormal': [tensor(), options({ gain: optional(number()) })],
  ...Object.fromEntries(
    ['kaimingUniform', 'kaimingNormal'].map((name) => [
      `nn.init.${name}`,
      [
        tensor(),
        options({
          a: optional(number(0)),
          mode: optional(oneOf('fanIn', 'fanOut')),
          nonlinearity: optional(oneOf('linear', 'sigmoid', 'tanh', 'relu', 'leakyRelu')),
        }),
      ],
    ]),
  ),
  'nn.init.gainOf': [
    oneOf('relu', 'linear', 'sigmoid', 'tanh', 'leakyRelu'),
    options({ a: optional(number()) }),
  ],
  ...OPTIM_CALLS,
};

/** What is exported and not called here, and why. */
export const NOT_CALLED: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    ['Argument', 'DType', 'Data', 'Device', 'File', 'Heddle', 'Internal', 'Kernel', 'Numeric', 'Shape']
      .concat('Distributed', 'OutOfMemory', 'Simulator')
      .map((name) => [`${name}Error`, 'errors are for catching']),
  ),
  'inference.Engine': 'made by compile',
  'quantization.QuantizedLayer': 'made by quantize',
  'quantization.QuantizedModule': 'made by quantize',
  'quantization.QatModule': 'made by prepareQat',
  'quantization.QuantizationReport': 'made by quantizationReport',
  'train.LeNet5': 'a model that PROGRAMS makes',
  Tensor: 'it has a message of its own for those who call it (misuse.test.ts)',
  Kernel: 'made by kernel()',
  'nn.ConvolutionLayer': 'abstract: its methods are called on the layers',
  'nn.PaddingLayer': 'abstract: its methods are called on the layers',
  'nn.Module': 'abstract: its methods are called on a Linear',
  'optim.Optimizer': 'abstract: its methods are called on SGD',
  'optim.ParameterGroup': 'made by optimizers',
  'kernel.defineKernel': 'kernel() is a call of it',
};

/** Objects whose methods are called, by the class that has the methods. */
export const RECEIVERS: Readonly<Record<string, () => object>> = {
  Tensor: () => ones([2, 2], { requiresGrad: true }),
  TensorHandle: () => ones([2, 2], { requiresGrad: true }),
  Generator: () => new H.Generator(0),
  DeviceArray: () => H.allocate(f32, 4),
  ImmediateStream: () => H.stream(),
  ImmediateEvent: () => H.stream().record(),
  Kernel: () => saxpy,
  SummaryWriter: () => new H.SummaryWriter('events'),
  Module: layer,
  PaddingLayer: () => new H.nn.ZeroPad1d(1),
  ...Object.fromEntries(Object.entries(LISTS).map(([name, { make }]) => [name, make])),
  ...Object.fromEntries(Object.entries(LAYERS).map(([name, { make }]) => [name, make])),
  ...SEQUENCE_RECEIVERS,
  ...DATA_RECEIVERS,
  ...OPTIM_RECEIVERS,
  ...INFERENCE_RECEIVERS,
  ...QUANTIZATION_RECEIVERS,
};

/** The methods that are ops of kernels, of that many operands. */
const ops = (arity: number): string[] =>
  Object.entries(OPS).flatMap(([name, op]) => (op.arity === arity && name in Tensor.prototype ? [name] : []));

/** The methods of these classes and their arguments; `set lr` is an accessor that is set. */
export const METHODS: Readonly<Record<string, Readonly<Record<string, readonly Spec[]>>>> = {
  Tensor: {
    ...Object.fromEntries(
      ops(1)
        .concat('sign', 'rsqrt', 'reciprocal', 'square', 'round', 'isNaN', 'relu', 'sigmoid')
        .concat('tan', 'asin', 'acos', 'atan', 'sinh', 'cosh', 'frac', 'isFinite', 'isInf')
        .concat('detach', 'backward', 'data', 'item', 'realize', 'dispose', 'toString')
        .map((name) => [name, unary]),
    ),
    ...Object.fromEntries(
      ops(2)
        .concat('minimum', 'maximum', 'logaddexp', 'remainder')
        .map((name) => [name, binary]),
    ),
    clamp: [optional(number(0)), optional(number(1))],
    floorDivide: binary,
    lerp: [operand, operand],
    maskedFill: [tensor(() => ones([2, 2]).gt(0)), operand],
    where: [operand, operand],
    cast: [dtype],
    sum: reduce,
    max: reduce,
    min: reduce,
    prod: reduce,
    mean: reduce,
    variance: spread,
    std: spread,
    argmax: [optional(axis), reduce[1]!],
    argmin: [optional(axis), reduce[1]!],
    logSumExp: reduce,
    norm: [axes, options({ keepdim: optional(flag), ord: optional(number(2)) })],
    any: reduce,
    all: reduce,
    roll: [orElse(number(1), isList), axes],
    repeat: [list(() => [1, 2])],
    repeatInterleave: [number(2), axis],
    split: [orElse(number(1), isList), optional(axis)],
    chunk: [number(2), optional(axis)],
    unbind: [optional(axis)],
    tril: [optional(number(0))],
    triu: [optional(number(0))],
    sort: [optional(axis), options({ descending: optional(flag) })],
    argsort: [optional(axis), options({ descending: optional(flag) })],
    topk: [number(1), optional(axis), options({ largest: optional(flag) })],
    maskedSelect: [tensor(() => ones([2, 2]).gt(0))],
    nonzero: [],
    unique: [],
    cumsum: [axis],
    cumprod: [axis],
    softmax: [optional(axis)],
    logSoftmax: [optional(axis)],
    reshape: [list(() => [4])],
    flatten: [optional(axis)],
    permute: [list(() => [1, 0])],
    transpose: [optional(axis), optional(number(1))],
    expand: [list(() => [2, 2])],
    squeeze: [axis],
    unsqueeze: [axis],
    pad: [
      list(() => [
        [1, 1],
        [0, 0],
      ]),
      options({
        value: optional(number(0)),
        mode: optional(oneOf('constant', 'reflect', 'replicate', 'circular')),
      }),
    ],
    flip: [axis],
    at: [
      orElse(
        tensor(() => zeros([1], { dtype: H.i32 })),
        (v) => v === null || isNumber(v) || typeof v === 'string',
      ),
    ],
    gather: [axis, tensor(() => zeros([2, 2], { dtype: H.i32 }))],
    indexSelect: [axis, tensor(() => zeros([2], { dtype: H.i32 }))],
    take: [tensor(() => zeros([2], { dtype: H.i32 }))],
    scatter: [axis, tensor(() => zeros([2, 2], { dtype: H.i32 })), operand],
    scatterAdd: [axis, tensor(() => zeros([2, 2], { dtype: H.i32 })), tensor()],
    indexAdd: [
      ...[axis, tensor(() => zeros([2], { dtype: H.i32 })), tensor()],
      options({ alpha: optional(number(2)) }),
    ],
    matmul: [tensor(), options({ precision })],
    dot: [tensor(), options({ precision })],
    outer: [tensor()],
    array: [optional(number(2))],
    assign: [tensor()],
    to: [text('cpu')],
    allclose: [
      tensor(),
      options({ rtol: optional(number(0.1)), atol: optional(number(0)), equalNan: optional(flag) }),
    ],
    write: [values],
  },
  Generator: {
    reset: [optional(number())],
    stateDict: [],
    loadStateDict: [state(() => new H.Generator(0).stateDict())],
  },
  DeviceArray: { write: [values, optional(number(0))], read: [], dispose: [] },
  ImmediateStream: {
    record: [],
    wait: [
      spec(
        () => H.stream().record(),
        () => false,
      ),
    ],
    synchronize: [],
    dispose: [],
  },
  ImmediateEvent: {
    synchronize: [],
    since: [
      spec(
        () => H.stream().record(),
        () => false,
      ),
    ],
  },
  Kernel: {
    launch: [
      launch({
        stream: optional(
          spec(
            () => H.stream(),
            () => false,
          ),
        ),
      }),
      kernelArguments(() => ones([4])),
    ],
    simulate: [launch(), kernelArguments(() => new Float32Array(4)), optional(spec(() => ({}), isPlain))],
    apply: [
      launch(),
      spec(() => ({ n: 4 }), isPlain),
      spec(
        () => ({ x: [4] }),
        () => false,
      ),
    ],
    info: [options({ block, sharedBytes }, () => ({ block: 1 }))],
    ptx: [options({ block }, () => ({ block: 1 }))],
    source: [oneOf('cuda', 'wasm', 'js', 'ir')],
  },
  SummaryWriter: {
    addScalar: [text(), number(), number()],
    addHistogram: [
      text(),
      orElse(
        list(() => [1]),
        (v) => v instanceof Tensor || ArrayBuffer.isView(v),
      ),
      number(),
    ],
    addImage: [text(), tensor(), number()],
  },
  Module: MODULE_METHODS,
  ...Object.fromEntries(
    Object.entries(LAYERS).map(([name, { input = tensor(), inherits }]) => [
      name,
      inherits ? {} : { forward: [input] },
    ]),
  ),
  PaddingLayer: { forward: [tensor(() => ones([1, 1, 4]))] },
  ...Object.fromEntries(Object.entries(LISTS).map(([name, { methods }]) => [name, methods])),
  ...SEQUENCE_METHODS,
  ...DATA_METHODS,
  ...OPTIM_METHODS,
  ...INFERENCE_METHODS,
  ...QUANTIZATION_METHODS,
  TensorHandle: { numel: [], 'set requiresGrad': [flag] },
};
