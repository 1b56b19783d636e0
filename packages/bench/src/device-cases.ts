/** The workloads of `heddle bench kernels` and `heddle bench train`, by the names of torch_gpu.py. */

import { batchNorm, bf16, conv2d, maxPool2d, ones, optim, rand, randn, type Tensor, zeros } from 'heddle';
import { TrainingSteps } from 'heddle/internal/cli/training-steps.js';
import { compiled, product, type Workload } from 'heddle/internal/cli/workload.js';
import { ARITHMETICS, type Arithmetic } from 'heddle/internal/core/precision.js';
import { GPT } from 'heddle/internal/train/gpt.js';
import { ResNet18, ResNet50 } from 'heddle/internal/train/resnet.js';
import { PROGRAMS } from 'heddle/train';
import { gradients } from './workload.js';

export interface DeviceCase {
  /** In words separated by hyphens; the first is its group. */
  readonly id: string;
  readonly title: string;
  /** The same workload in torch_gpu.py. */
  readonly peer: string;
  /** Floating-point operations of a run, a multiply-add being two, and in what they may be computed. */
  readonly flops?: number;
  readonly precision?: Arithmetic;
  /** What a run must read and write at least. */
  readonly bytes?: number;
}

export interface KernelCase extends DeviceCase {
  readonly prepare: () => Workload;
}

export interface TrainCase extends DeviceCase {
  /** Where it is measured without being named: elsewhere it takes minutes, or more memory than there is. */
  readonly unnamed: 'everywhere' | 'on a GPU' | 'nowhere';
  readonly prepare: () => TrainingSteps;
}

type Sizes = readonly number[];

const normal = (...shapes: readonly Sizes[]): Tensor[] => shapes.map((shape) => randn(shape).realize());

// ── matrix products ──────────────────────────────────────────────────────────────────────────────────────────────

/** The workload of torch_gpu.py: PyTorch's name of the numbers, and the size. */
export const productPeer = (precision: Arithmetic, size: string): string =>
  `gemm ${precision.replace(/^f/, 'fp')} ${size}`;

/** A (m, k) · B (k, n). */
export function productCase(precision: Arithmetic, [m, k, n]: readonly [number, number, number]): KernelCase {
  const size = m === k && k === n ? `${n}` : `${m}x${k}x${n}`;
  return {
    id: `matmul-${precision}-${size}`,
    title: `matmul ${size.replaceAll('x', ' × ')}${m === n ? '³' : ''}, ${precision}`,
    peer: productPeer(precision, size),
    flops: 2 * m * n * k,
    bytes: (precision === 'f32' || precision === 'tf32' ? 4 : 2) * (m * k + k * n + m * n),
    precision,
    prepare: () => product(precision, [m, k, n]),
  };
}

// ── what memory bounds ───────────────────────────────────────────────────────────────────────────────────────────

function rows(side: number): KernelCase[] {
  const matrix = 4 * side * side;
  const of = (
    id: string,
    title: string,
    bytes: number,
    fn: (x: Tensor, row: Tensor) => Tensor,
    peer = title,
  ): KernelCase => ({
    id: `${id}-${side}`,
    title: `${title}, ${side}²`,
    peer: `${peer} ${side}x${side} fp32`,
    bytes,
    prepare: () => compiled((x, row) => fn(x!, row!), normal([side, side], [side])),
  });
  return [
    of('copy', 'copy', 2 * matrix, (x) => x),
    of('softmax', 'softmax of the rows', 2 * matrix, (x) => x.softmax(1), 'softmax'),
    of('layernorm', 'layer norm of the rows', 2 * matrix, layerNorm, 'layernorm'),
    of('relu', 'relu(x·2 + r)', 2 * matrix, (x, row) => x.mul(2).add(row).relu(), 'relu(x*2+r)'),
    of('transpose', 'transpose', 2 * matrix, (x) => x.transpose()),
    of('sum', 'sum', matrix, (x) => x.sum()),
    of('columnsum', 'column sum', matrix, (x) => x.sum(0), 'column sum'),
  ];
}

/** J. L. Ba et al. (2016), without weights: (x − mean) / √(variance + ε) of each row. */
function layerNorm(x: Tensor): Tensor {
  const centred = x.sub(x.mean(1, { keepdim: true }));
  return centred.mul(centred.square().mean(1, { keepdim: true }).add(1e-5).rsqrt());
}

const random = (count: number, name: string): KernelCase[] => [
  {
    id: `normal-${name}`,
    title: `normal numbers, ${name}`,
    peer: `normal ${name}`,
    bytes: 4 * count,
    prepare: () => compiled(() => randn([count]), []),
  },
  {
    id: `uniform-${name}`,
    title: `uniform numbers, ${name}`,
    peer: `uniform ${name}`,
    bytes: 4 * count,
    prepare: () => compiled(() => rand([count]), []),
  },
];

/** Batch norm in training with its running statistics, NCHW, and its gradients. */
function normalisation(batch: number, channels: number, size: number): KernelCase[] {
  const shape = [batch, channels, size, size];
  const name = shape.join('x');
  const title = `batch norm, ${shape.join('×')}`;
  const matrix = 4 * batch * channels * size * size;
  const running = (): Tensor[] => [zeros([channels]).realize(), ones([channels]).realize()];
  const apply =
    ([mean, variance]: readonly Tensor[]) =>
    (x?: Tensor, weight?: Tensor, bias?: Tensor): Tensor =>
      batchNorm(x!, mean!, variance!, { weight, bias, training: true });
  return [
    {
      id: `batchnorm-${name}-forward`,
      title: `${title}, forward`,
      peer: `batch norm ${name} float32`,
      // The input is read for its statistics, and again.
      bytes: 3 * matrix,
      prepare: () => compiled(apply(running()), normal(shape, [channels], [channels])),
    },
    {
      id: `batchnorm-${name}-backward`,
      title: `${title}, statistics and backward`,
      peer: `batch norm backward ${name} float32`,
      // The input for its statistics; input and upstream gradient for their sums, and again.
      bytes: 6 * matrix,
      prepare: () =>
        gradients(
          apply(running()),
          [shape, [channels], [channels]].map((s) => randn(s, { requiresGrad: true }).realize()),
          normal(shape)[0]!,
        ),
    },
  ];
}

// ── convolutions ─────────────────────────────────────────────────────────────────────────────────────────────────

interface Convolution {
  readonly batch: number;
  readonly channels: number;
  readonly size: number;
  readonly out: number;
  readonly padding: number;
}

/** Forward with bias, and the gradients of input, weights and bias; 3×3, NCHW, in tf32 as is the default. */
function convolution({ batch, channels, size, out, padding }: Convolution): KernelCase[] {
  const outSize = size + 2 * padding - 2;
  const shapes = {
    x: [batch, channels, size, size],
    weight: [out, channels, 3, 3],
    bias: [out],
    y: [batch, out, outSize, outSize],
  };
  const count = (shape: Sizes): number => shape.reduce((n, d) => n * d, 1);
  const work = 2 * count(shapes.y) * channels * 9;
  const elements = count(shapes.x) + count(shapes.weight) + count(shapes.y);
  const peer = `conv ${shapes.x.join('x')} k3 ->${out} float32 nchw`;
  const title = `convolution 3×3, ${shapes.x.join('×')} → ${out}`;
  const apply = (x: Tensor, weight: Tensor, bias: Tensor): Tensor => conv2d(x, weight, bias, { padding });
  const id = `conv-${shapes.x.join('x')}-${out}`;
  return [
    {
      id: `${id}-forward`,
      title: `${title}, forward`,
      peer: `${peer} fwd`,
      flops: work,
      bytes: 4 * elements,
      precision: 'tf32',
      prepare: () =>
        compiled(
          (x, weight, bias) => apply(x!, weight!, bias!),
          normal(shapes.x, shapes.weight, shapes.bias),
        ),
    },
    {
      id: `${id}-backward`,
      title: `${title}, backward`,
      peer: `${peer} bwd`,
      flops: 2 * work,
      // The upstream gradient and the input are read, gradients of all three written.
      bytes: 4 * (elements + count(shapes.x) + 2 * count(shapes.weight)),
      precision: 'tf32',
      prepare: () =>
        gradients(
          (x, weight, bias) => apply(x!, weight!, bias!),
          [shapes.x, shapes.weight, shapes.bias].map((shape) =>
            randn(shape, { requiresGrad: true }).realize(),
          ),
          normal(shapes.y)[0]!,
        ),
    },
  ];
}

const pooling = (batch: number, channels: number, size: number): KernelCase => ({
  id: `pool-${batch}x${channels}x${size}x${size}`,
  title: `ReLU and 2×2 max pooling, ${batch}×${channels}×${size}×${size}`,
  peer: `pool ${batch}x${channels}x${size}x${size} float32`,
  bytes: 4 * batch * channels * size * size * 1.25,
  prepare: () => compiled((x) => maxPool2d(x!.relu(), 2), normal([batch, channels, size, size])),
});

/** What the networks of the programs are made of, at their batch of 64. */
const NET_SHAPES: readonly KernelCase[] = [
  productCase('f32', [64, 784, 128]),
  productCase('f32', [64, 4608, 10]),
  ...convolution({ batch: 64, channels: 1, size: 28, out: 16, padding: 0 }),
  ...convolution({ batch: 64, channels: 16, size: 26, out: 32, padding: 0 }),
  pooling(64, 32, 24),
];

/** Without tensor cores tf32 is f32. */
const arithmetics = (large: boolean): readonly Arithmetic[] =>
  ARITHMETICS.filter((a) => large || a !== 'tf32');

const cube = (n: number): readonly [number, number, number] => [n, n, n];

/** @param large sizes for a GPU, which would take minutes on a processor */
export const kernelCases = (large: boolean): KernelCase[] => [
  ...arithmetics(large).flatMap((p) =>
    (large ? [512, 1024, 2048, 4096, 8192] : [512, 1024]).map((n) => productCase(p, cube(n))),
  ),
  ...rows(large ? 8192 : 2048),
  ...convolution({ batch: large ? 16 : 1, channels: 3, size: 224, out: 64, padding: 1 }),
  ...convolution({ batch: large ? 256 : 4, channels: 64, size: 32, out: 64, padding: 1 }),
  ...normalisation(large ? 256 : 16, 64, 32),
  ...random(large ? 1e8 : 1e6, large ? '1e8' : '1e6'),
  ...NET_SHAPES,
];

// ── training steps ───────────────────────────────────────────────────────────────────────────────────────────────

const momentum = (p: Tensor[]) => new optim.SGD(p, { lr: 0.01, momentum: 0.9 });
const adam = (p: Tensor[]) => new optim.Adam(p, { lr: 1e-3 });

const TRAINING = [
  { name: 'mlp', peer: 'mlp', by: 'sgd', rule: 'SGD with momentum', optimizer: momentum },
  { name: 'cnn', peer: 'cnn', by: 'sgd', rule: 'SGD with momentum', optimizer: momentum },
  { name: 'lenet5', peer: 'lenet', by: 'adam', rule: 'Adam', optimizer: adam },
] as const;

/** A network that fills a GPU, in the two arithmetics of tensor cores. */
const LARGE: readonly TrainCase[] = (['tf32', 'bf16'] as const).map((arithmetic) => ({
  id: `resnet18-${arithmetic}-256`,
  unnamed: 'on a GPU',
  title: `resnet18, batch 256 of 3×32×32, SGD with momentum, ${arithmetic}`,
  peer: `train resnet18 32x32 bs256 ${arithmetic}`,
  prepare: () =>
    new TrainingSteps(
      { ...PROGRAMS.resnet18, build: () => new ResNet18(3, 10) },
      {
        optimizer: momentum,
        batchSize: 256,
        batches: 1,
        example: { shape: [3, 32, 32], classes: 10 },
        ...(arithmetic === 'bf16' && { autocast: bf16 }),
      },
    ),
}));

/** 4 layers of 256 numbers on 128 characters of 256 kinds, without dropout. */
const GPTS: readonly TrainCase[] = (['f32', 'bf16'] as const).map((arithmetic) => ({
  id: `gpt-${arithmetic}-32`,
  unnamed: 'on a GPU',
  title: `gpt, batch 32 of 128 characters, AdamW, ${arithmetic}`,
  peer: `train gpt d256 l4 t128 bs32 ${arithmetic}`,
  prepare: () =>
    new TrainingSteps(
      {
        ...PROGRAMS.gpt,
        build: () => new GPT(256, { ...{ context: 128, dim: 256, heads: 4, depth: 4 }, dropout: 0 }),
      },
      {
        optimizer: (p) => new optim.AdamW(p, { lr: 1e-3 }),
        batchSize: 32,
        batches: 1,
        example: { shape: [128], targets: [128], classes: 256 },
        ...(arithmetic === 'bf16' && { autocast: bf16 }),
      },
    ),
}));

/** Networks that take tens of GB of a GPU, in bf16. */
const LARGEST: readonly TrainCase[] = [
  {
    id: 'resnet50-bf16-64',
    unnamed: 'nowhere',
    title: 'resnet50, batch 64 of 3×224×224, SGD with momentum, bf16',
    peer: 'train resnet50 224x224 bs64 bf16',
    prepare: () =>
      new TrainingSteps(
        { ...PROGRAMS.resnet18, build: () => new ResNet50(3, 1000) },
        {
          optimizer: momentum,
          batchSize: 64,
          batches: 1,
          example: { shape: [3, 224, 224], classes: 1000 },
          autocast: bf16,
        },
      ),
  },
  {
    id: 'gpt2-bf16-8',
    unnamed: 'nowhere',
    title: 'gpt2 (124 M), batch 8 of 1,024 tokens, AdamW, bf16',
    peer: 'train gpt2-small t1024 bs8 bf16',
    prepare: () =>
      new TrainingSteps(
        {
          ...PROGRAMS.gpt,
          build: () => new GPT(50304, { ...{ context: 1024, dim: 768, heads: 12, depth: 12 }, dropout: 0 }),
        },
        {
          optimizer: (p) => new optim.AdamW(p, { lr: 1e-3 }),
          batchSize: 8,
          batches: 1,
          example: { shape: [1024], targets: [1024], classes: 50304 },
          autocast: bf16,
        },
      ),
  },
];

export const TRAIN_CASES: readonly TrainCase[] = TRAINING.flatMap(({ name, peer, by, rule, optimizer }) =>
  [64, 256, 1024].map(
    (batchSize): TrainCase => ({
      id: `${name}-${batchSize}`,
      unnamed: 'everywhere',
      title: `${name}, batch ${batchSize}, ${rule}`,
      peer: `${peer} bs${batchSize} ${by}`,
      prepare: () => new TrainingSteps(PROGRAMS[name], { optimizer, batchSize, batches: 1 }),
    }),
  ),
).concat(LARGE, GPTS, LARGEST);

/** What is measured unless cases are named. @param large on a GPU */
export const unnamedTrainCases = (large: boolean): TrainCase[] =>
  TRAIN_CASES.filter(({ unnamed }) => unnamed === 'everywhere' || (large && unnamed === 'on a GPU'));
