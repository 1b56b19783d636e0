/** The workloads of `heddle bench layers`, by the names of torch_layers.py. */
import {
  bceWithLogits,
  cosineEmbedding,
  crossEntropy,
  ctcLoss,
  hinge,
  huber,
  type JitValue,
  jit,
  klDiv,
  l1,
  mse,
  multiMargin,
  nllLoss,
  nn,
  optim,
  rand,
  randint,
  randn,
  type Shape,
  smoothL1,
  type Tensor,
  tripletMargin,
} from 'heddle';
import { compiled, type Workload, workload } from 'heddle/internal/cli/workload.js';
import { attentionCases } from './attention-cases.js';
import { axisCases } from './axis-cases.js';
import type { KernelCase } from './device-cases.js';
import { resultAndGradients } from './workload.js';

type Sizes = readonly number[];
type Indices = Tensor<Shape, 'i32'>;

const count = (shape: Sizes): number => shape.reduce((n, d) => n * d, 1);
const parameter = (shape: Sizes): Tensor => randn(shape, { requiresGrad: true }).realize();
const integers = (below: number, shape: Sizes): Indices => randint(0, below, shape).realize() as Indices;

/** A case whose name is also the peer's. */
const named = (name: string, prepare: () => Workload, bytes?: number): KernelCase => ({
  id: name.replaceAll(/[ (),=]+/g, '-'),
  title: name,
  peer: name,
  prepare,
  ...(bytes !== undefined && { bytes }),
});

// ── layers: the result and the gradients of the input and of all weights ─────────────────────────────────────────────

function layer(
  name: string,
  shape: Sizes,
  make: () => nn.Module,
  apply: (layer: nn.Module, x: Tensor) => Tensor = (l, x) => (l as nn.Layer).forward(x),
): KernelCase {
  return named(`${name} ${shape.join('x')}`, () => {
    const module = make();
    const x = parameter(shape);
    const upstream = randn(apply(module, x).shape).realize();
    return resultAndGradients((input) => apply(module, input!), [x, ...module.parameters()], upstream);
  });
}

const recurrent = (name: string, make: () => nn.RNN | nn.GRU | nn.LSTM, shape: Sizes): KernelCase =>
  layer(name, shape, make, (l, x) => (l as nn.LSTM).forward(x)[0]);

/** @param s divides sizes: 1 on a GPU */
const layerList = (s: number): KernelCase[] => [
  layer('Linear(1024,4096)', [4096 / s, 1024], () => new nn.Linear(1024, 4096)),
  layer('Conv1d(128,128,5)', [64 / s, 128, 1024], () => new nn.Conv1d(128, 128, 5, { padding: 2 })),
  layer('Conv2d(64,64,3)', [256 / s, 64, 32, 32], () => new nn.Conv2d(64, 64, 3, { padding: 1 })),
  layer(
    'Conv2d(128,128,3,groups=8)',
    [64 / s, 128, 28, 28],
    () => new nn.Conv2d(128, 128, 3, { padding: 1, groups: 8 }),
  ),
  layer(
    'Conv2d(96,96,3,groups=96)',
    [64 / s, 96, 56, 56],
    () => new nn.Conv2d(96, 96, 3, { padding: 1, groups: 96 }),
  ),
  layer('Conv3d(32,32,3)', [8 / s, 32, 16, 32, 32], () => new nn.Conv3d(32, 32, 3, { padding: 1 })),
  layer(
    'ConvTranspose1d(128,64,4)',
    [64 / s, 128, 512],
    () => new nn.ConvTranspose1d(128, 64, 4, { stride: 2, padding: 1 }),
  ),
  layer(
    'ConvTranspose2d(128,64,4)',
    [64 / s, 128, 16, 16],
    () => new nn.ConvTranspose2d(128, 64, 4, { stride: 2, padding: 1 }),
  ),
  layer('MaxPool1d(2)', [256 / s, 64, 4096], () => new nn.MaxPool1d(2)),
  layer('MaxPool2d(2)', [256 / s, 64, 64, 64], () => new nn.MaxPool2d(2)),
  layer('MaxPool2d(3,2,1)', [64 / s, 64, 112, 112], () => new nn.MaxPool2d(3, { stride: 2, padding: 1 })),
  layer('AvgPool2d(2)', [256 / s, 64, 64, 64], () => new nn.AvgPool2d(2)),
  layer('AvgPool2d(3,2,1)', [64 / s, 64, 112, 112], () => new nn.AvgPool2d(3, { stride: 2, padding: 1 })),
  layer('AdaptiveAvgPool2d(1)', [256 / s, 512, 14, 14], () => new nn.AdaptiveAvgPool2d(1)),
  layer('AdaptiveAvgPool2d(7)', [256 / s, 128, 28, 28], () => new nn.AdaptiveAvgPool2d(7)),
  layer('AdaptiveMaxPool2d(7)', [256 / s, 128, 28, 28], () => new nn.AdaptiveMaxPool2d(7)),
  layer('BatchNorm1d', [65536 / s, 256], () => new nn.BatchNorm1d(256)),
  layer('BatchNorm2d', [256 / s, 64, 32, 32], () => new nn.BatchNorm2d(64)),
  layer('LayerNorm', [16384 / s, 1024], () => new nn.LayerNorm(1024)),
  layer('RMSNorm', [16384 / s, 1024], () => new nn.RMSNorm(1024)),
  layer('GroupNorm(32)', [64 / s, 256, 28, 28], () => new nn.GroupNorm(32, 256)),
  layer('InstanceNorm2d', [64 / s, 64, 64, 64], () => new nn.InstanceNorm2d(64, { affine: true })),
  layer('Dropout', [16384 / s, 1024], () => new nn.Dropout({ p: 0.1 })),
  layer('Dropout2d', [256 / s, 64, 32, 32], () => new nn.Dropout2d({ p: 0.1 })),
  layer('GELU', [16384 / s, 1024], () => new nn.GELU()),
  layer('SiLU', [16384 / s, 1024], () => new nn.SiLU()),
  layer('Softmax', [16384 / s, 1024], () => new nn.Softmax(-1)),
  layer('GLU', [16384 / s, 1024], () => new nn.GLU()),
  layer('PReLU', [16384 / s, 1024], () => new nn.PReLU()),
  layer(
    'Upsample(nearest)',
    [32 / s, 64, 64, 64],
    () => new nn.Upsample({ scaleFactor: 2, mode: 'nearest' }),
  ),
  layer(
    'Upsample(bilinear)',
    [32 / s, 64, 64, 64],
    () => new nn.Upsample({ scaleFactor: 2, mode: 'bilinear' }),
  ),
  layer(
    'Upsample(bicubic)',
    [32 / s, 64, 64, 64],
    () => new nn.Upsample({ scaleFactor: 2, mode: 'bicubic' }),
  ),
  layer('PixelShuffle(2)', [64 / s, 64, 64, 64], () => new nn.PixelShuffle(2)),
  layer('ReflectionPad2d(2)', [64 / s, 64, 64, 64], () => new nn.ReflectionPad2d(2)),
  layer('Unfold(3)', [32 / s, 32, 32, 32], () => new nn.Unfold(3)),
  recurrent('RNN(256,256)', () => new nn.RNN(256, 256), [128 / s, 64, 256]),
  recurrent('GRU(256,256)', () => new nn.GRU(256, 256), [128 / s, 64, 256]),
  recurrent('LSTM(256,256)', () => new nn.LSTM(256, 256), [128 / s, 64, 256]),
  recurrent('LSTM(128,512)', () => new nn.LSTM(128, 512), [64 / s, 128, 128]),
  layer(
    'MultiheadAttention(256,4)',
    [32 / s, 128, 256],
    () => new nn.MultiheadAttention(256, 4, { batchFirst: true }),
  ),
  layer(
    'TransformerEncoderLayer(512,8)',
    [16 / s, 256, 512],
    () => new nn.TransformerEncoderLayer(512, 8, { batchFirst: true, dropout: 0 }),
  ),
  named('Embedding(50000,512) 64x512', () => {
    const table = new nn.Embedding(50000, 512);
    const indices = integers(50000, [64 / s, 512]);
    const upstream = randn([64 / s, 512, 512]).realize();
    return resultAndGradients(() => table.forward(indices), table.parameters(), upstream);
  }),
];

// ── losses: the mean and the gradients of what it is a function of ───────────────────────────────────────────────────

function loss(
  name: string,
  shapes: readonly Sizes[],
  make: () => (...inputs: Tensor[]) => Tensor,
): KernelCase {
  return named(`${name} ${shapes[0]!.join('x')}`, () =>
    resultAndGradients(make(), shapes.map(parameter), randn([]).realize()),
  );
}

function lossList(s: number): KernelCase[] {
  const rows = [8192 / s, 1000];
  const [n] = rows as [number, number];
  const pairs = [8192 / s, 512];
  const labels = (): Indices => integers(1000, [n]);
  const signs = (shape: Sizes): Tensor => rand(shape).lt(0.5).where(-1, 1).realize() as Tensor;
  const target = (): Tensor => rand(rows).realize();
  return [
    loss('crossEntropy', [rows], () => {
      const y = labels();
      return (x) => crossEntropy(x!, y) as Tensor;
    }),
    loss('crossEntropy(weights,smoothing)', [rows], () => {
      const [y, weight] = [labels(), rand([1000]).realize()];
      return (x) => crossEntropy(x!, y, { weight, labelSmoothing: 0.1 }) as Tensor;
    }),
    loss('nllLoss', [rows], () => {
      const y = labels();
      return (x) => nllLoss(x!, y) as Tensor;
    }),
    loss('bceWithLogits', [rows], () => {
      const y = target();
      return (x) => bceWithLogits(x!, y) as Tensor;
    }),
    ...Object.entries({ mse, l1, huber, smoothL1 }).map(([name, f]) =>
      loss(name, [rows], () => {
        const y = target();
        return (x) => f(x!, y) as Tensor;
      }),
    ),
    loss('hinge', [rows], () => {
      const y = signs(rows);
      return (x) => hinge(x!, y) as Tensor;
    }),
    loss('multiMargin', [rows], () => {
      const y = labels();
      return (x) => multiMargin(x!, y) as Tensor;
    }),
    loss('klDiv', [rows], () => {
      const y = target();
      return (x) => klDiv(x!, y, { reduction: 'batchMean' }) as Tensor;
    }),
    loss('cosineEmbedding', [pairs, pairs], () => {
      const y = signs([n]);
      return (a, b) => cosineEmbedding(a!, b!, y) as Tensor;
    }),
    loss('tripletMargin', [pairs, pairs, pairs], () => (a, p, q) => tripletMargin(a!, p!, q!) as Tensor),
    named('ctcLoss 128x64x64', () => {
      const [steps, batch, classes, length] = [128, 64 / s, 64, 32];
      const targets = randint(1, classes, [batch, length]).realize() as Indices;
      const full = (value: number): Indices => randint(value, value + 1, [batch]).realize() as Indices;
      const [inputLengths, targetLengths] = [full(steps), full(length)];
      return resultAndGradients(
        (x) => ctcLoss(x!.logSoftmax(2), targets, inputLengths, targetLengths),
        [parameter([steps, batch, classes])],
        randn([]).realize(),
      );
    }),
  ];
}

// ── ops ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

function opList(s: number): KernelCase[] {
  const rows = [4096 / s, 4096];
  const bytes = 4 * count(rows);
  const of = (name: string, moved: number, fn: (x: Tensor) => Tensor): KernelCase =>
    named(`${name} ${rows.join('x')}`, () => compiled((x) => fn(x!), [randn(rows).realize()]), moved);
  return [
    of('cumsum rows', 2 * bytes, (x) => x.cumsum(1)),
    of('cumsum columns', 2 * bytes, (x) => x.cumsum(0)),
    of('sort rows', 4 * bytes, (x) => x.sort(1).values as Tensor),
    of('topk(16) rows', bytes, (x) => x.topk(16).values as Tensor),
    of('norm rows', bytes, (x) => x.norm(1)),
    named(
      `gather rows ${rows.join('x')}`,
      () => {
        const index = integers(4096, rows);
        return resultAndGradients(
          (x) => x!.gather(1, index) as Tensor,
          [parameter(rows)],
          randn(rows).realize(),
        );
      },
      4 * bytes,
    ),
    named(
      `scatterAdd rows ${rows.join('x')}`,
      () => {
        const index = integers(4096, rows);
        return compiled(
          (x, y) => x!.scatterAdd(1, index, y!) as Tensor,
          [randn(rows).realize(), randn(rows).realize()],
        );
      },
      4 * bytes,
    ),
  ];
}

// ── optimizers: an update, the resultAndGradients being there ─────────────────────────────────────────────────────────────────

/** @param passes over the parameters' memory: reads and writes of parameters, resultAndGradients and state */
function optimizer(
  name: string,
  passes: number | undefined,
  shapes: readonly Sizes[],
  make: (params: Tensor[]) => optim.Optimizer<optim.BaseSettings>,
): KernelCase {
  const elements = shapes.reduce((n, shape) => n + count(shape), 0);
  return named(
    `${name} ${Math.round(elements / 1e6)}M`,
    () => {
      const params = shapes.map(parameter);
      const grads = shapes.map((shape) => randn(shape).realize());
      const rule = make(params);
      return workload(
        jit((..._: JitValue[]) => {
          // The gradient of Σ p·g is g; the sum itself is not asked for.
          params.forEach((p, i) => {
            p.mul(grads[i]!).sum().backward();
          });
          rule.step();
          return [];
        }),
        [],
        [...params, ...grads],
      );
    },
    passes && 4 * passes * elements,
  );
}

function optimizerList(s: number): KernelCase[] {
  // Weights and biases of a network: large tensors and small ones.
  const layers = Array.from({ length: Math.ceil(24 / s) }, (): Sizes[] => [[1024, 1024], [1024]]).flat();
  return [
    optimizer('SGD', 3, layers, (p) => new optim.SGD(p, { lr: 1e-3 })),
    optimizer('SGD(momentum)', 5, layers, (p) => new optim.SGD(p, { lr: 1e-3, momentum: 0.9 })),
    optimizer('Adam', 7, layers, (p) => new optim.Adam(p, { lr: 1e-3 })),
    optimizer('AdamW', 7, layers, (p) => new optim.AdamW(p, { lr: 1e-3 })),
    optimizer('RMSprop', 5, layers, (p) => new optim.RMSprop(p, { lr: 1e-3 })),
    optimizer('Adagrad', 5, layers, (p) => new optim.Adagrad(p, { lr: 1e-3 })),
    optimizer('Lion', 5, layers, (p) => new optim.Lion(p, { lr: 1e-4 })),
    optimizer(
      'Muon',
      undefined,
      layers.filter((shape) => shape.length === 2),
      (p) => new optim.Muon(p, { lr: 1e-3 }),
    ),
  ];
}

/** @param large sizes for a GPU, which would take minutes on a processor */
export function layerCases(large: boolean): KernelCase[] {
  const s = large ? 1 : 8;
  return [
    ...layerList(s),
    ...attentionCases(s),
    ...lossList(s),
    ...opList(s),
    ...axisCases(s),
    ...optimizerList(s),
  ];
}
