/** Ops and losses against PyTorch: forward, and the gradient of every input. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { tensor } from '../../src/tensor/create.js';
import * as F from '../../src/index.js';
import { realize } from '../../src/tensor/modes.js';
import { setPrecision } from '../../src/tensor/precision.js';
import type { Tensor } from '../../src/tensor/tensor.js';
import { assertClose, type Tolerance } from '../close.js';
import {
  type GoldenArray,
  type GoldenCase,
  goldenCases,
  type Inputs,
  type Options,
  type Run,
} from './golden.js';
import { IMAGES } from './images.js';
import { SEQUENCES } from './sequences.js';

// The golden numbers are of f32 throughout.
setPrecision({ matmul: 'f32', conv: 'f32' });

const method =
  (name: 'exp' | 'sin' | 'cos' | 'abs' | 'neg' | 'square' | 'log' | 'sqrt' | 'rsqrt' | 'reciprocal'): Run =>
  ({ x }) =>
    x![name]();
const rounding =
  (name: 'floor' | 'ceil' | 'trunc' | 'round'): Run =>
  ({ x }) =>
    x![name]();
const binary =
  (name: 'add' | 'sub' | 'mul' | 'div' | 'minimum' | 'maximum' | 'pow' | 'mod'): Run =>
  ({ a, b }) =>
    a![name](b!);
const reduction =
  (name: 'sum' | 'mean' | 'max' | 'min' | 'prod' | 'variance' | 'std'): Run =>
  ({ x }, { axes, ...options }) =>
    x![name](axes ?? undefined, options);
const position =
  (name: 'argmax' | 'argmin'): Run =>
  ({ x }, { axis, keepdim }) =>
    x![name](axis, { keepdim });
const activation =
  (f: (x: Tensor) => Tensor): Run =>
  ({ x }) =>
    f(x!);
const loss =
  (f: (x: Tensor, target: Tensor, options: Options) => Tensor): Run =>
  ({ x, target }, options) =>
    f(x!, target!, options);

/** Vectors as PyTorch's matmul takes them: a row on the left, a column on the right. */
function matmul({ a, b }: Inputs, { transposeA, transposeB }: Options): Tensor {
  const left = a!.ndim === 1 ? a!.unsqueeze(0) : transposeA ? a!.transpose() : a!;
  const right = b!.ndim === 1 ? b!.unsqueeze(1) : transposeB ? b!.transpose() : b!;
  let product = left.matmul(right);
  if (a!.ndim === 1) product = product.squeeze(-2);
  return b!.ndim === 1 ? product.squeeze(-1) : product;
}

const RUNS: Readonly<Record<string, Run>> = {
  exp: method('exp'),
  sin: method('sin'),
  cos: method('cos'),
  abs: method('abs'),
  neg: method('neg'),
  square: method('square'),
  log: method('log'),
  sqrt: method('sqrt'),
  rsqrt: method('rsqrt'),
  reciprocal: method('reciprocal'),
  floor: rounding('floor'),
  ceil: rounding('ceil'),
  trunc: rounding('trunc'),
  round: rounding('round'),
  clamp: ({ x }, { low, high }) => x!.clamp(low, high),
  relu: activation(F.relu),
  sigmoid: activation(F.sigmoid),
  tanh: activation(F.tanh),
  silu: activation(F.silu),
  erf: activation(F.erf),
  relu6: activation(F.relu6),
  hardsigmoid: activation(F.hardsigmoid),
  hardswish: activation(F.hardswish),
  selu: activation(F.selu),
  mish: activation(F.mish),
  softsign: activation(F.softsign),
  logSigmoid: activation(F.logSigmoid),
  tanhshrink: activation(F.tanhshrink),
  hardtanh: activation(F.hardtanh),
  celu: activation(F.celu),
  softshrink: activation(F.softshrink),
  hardshrink: activation(F.hardshrink),
  glu: activation(F.glu),
  leakyRelu: ({ x }, { negativeSlope }) => F.leakyRelu(x!, { negativeSlope }),
  gelu: ({ x }, options) => F.gelu(x!, options),
  elu: ({ x }, { alpha }) => F.elu(x!, { alpha }),
  softplus: ({ x }, options) => F.softplus(x!, options),
  softmax: ({ x }, { axis }) => F.softmax(x!, axis),
  logSoftmax: ({ x }, { axis }) => F.logSoftmax(x!, axis),
  add: binary('add'),
  sub: binary('sub'),
  mul: binary('mul'),
  div: binary('div'),
  minimum: binary('minimum'),
  maximum: binary('maximum'),
  pow: binary('pow'),
  mod: binary('mod'),
  sum: reduction('sum'),
  mean: reduction('mean'),
  max: reduction('max'),
  min: reduction('min'),
  prod: reduction('prod'),
  variance: reduction('variance'),
  std: reduction('std'),
  argmax: position('argmax'),
  argmin: position('argmin'),
  matmul,
  penalty: ({ x, w }) =>
    F.grad((x: Tensor) => x.matmul(w!).tanh().square().sum().add(F.softmax(x, 1).log().sum()))(x!)
      .square()
      .sum(1),
  slopeOfProd: ({ x, w }) => F.grad((x: Tensor) => x.prod(1).mul(w!).sum())(x!),
  sort: ({ x }, { axis, descending }) => x!.sort(axis, { descending }).values,
  argsort: ({ x }, { axis, descending }) => x!.argsort(axis, { descending }),
  topk: ({ x }, { k, axis, largest }) => x!.topk(k, axis, { largest }).values,
  scatter: ({ x, index, src }, { axis }) => x!.scatter(axis, index!, src!),
  scatterAdd: ({ x, index, src }, { axis }) => x!.scatterAdd(axis, index!, src!),
  indexAdd: ({ x, index, src }, { axis, alpha }) => x!.indexAdd(axis, index!, src!, { alpha }),
  indexSelect: ({ x, index }, { axis }) => x!.indexSelect(axis, index!),
  take: ({ x, index }) => x!.take(index!),
  ...Object.fromEntries(
    (['tan', 'asin', 'acos', 'atan', 'sinh', 'cosh', 'frac'] as const).map((op) => [op, ({ x }) => x![op]()]),
  ),
  ...Object.fromEntries(
    (['atan2', 'logaddexp', 'remainder'] as const).map((op) => [op, ({ a, b }) => a![op](b!)]),
  ),
  einsum: ({ gradOutput: _, ...tensors }, { equation }) => F.einsum(equation, Object.values(tensors)),
  linear: ({ x, weight, bias }) => F.linear(x!, weight!, bias),
  conv2d: ({ x, weight, bias }, options) => F.conv2d(x!, weight!, bias, options),
  maxPool2d: ({ x }, { kernel, ...options }) => F.maxPool2d(x!, kernel, options),
  avgPool2d: ({ x }, { kernel, ...options }) => F.avgPool2d(x!, kernel, options),
  batchNorm: ({ x, runningMean, runningVar, weight, bias }, options) =>
    F.batchNorm(x!, runningMean!, runningVar!, { weight, bias, ...options }),
  layerNorm: ({ x, weight, bias }, { normalizedShape, ...options }) =>
    F.layerNorm(x!, normalizedShape, { weight, bias, ...options }),
  rmsNorm: ({ x, weight }, { normalizedShape }) => F.rmsNorm(x!, normalizedShape, { weight }),
  groupNorm: ({ x, weight, bias }, { groups, ...options }) =>
    F.groupNorm(x!, groups, { weight, bias, ...options }),
  instanceNorm: ({ x, weight, bias }) => F.instanceNorm(x!, { weight, bias }),
  crossEntropy: ({ logits, labels, weight }, options) =>
    F.crossEntropy(logits!, labels!, { ...options, ...(weight ? { weight } : {}) }),
  nllLoss: ({ logProbabilities, labels }, options) => F.nllLoss(logProbabilities!, labels!, options),
  mse: loss(F.mse),
  l1: loss(F.l1),
  huber: loss(F.huber),
  bce: ({ x, target, weight }, options) => F.bce(x!, target!, { weight, ...options }),
  bceWithLogits: ({ x, target, weight, posWeight }, options) =>
    F.bceWithLogits(x!, target!, { weight, posWeight, ...options }),
  smoothL1: loss(F.smoothL1),
  multiMargin: ({ x, labels, weight }, options) => F.multiMargin(x!, labels!, { weight, ...options }),
  cosineEmbedding: ({ x, y, target }, options) => F.cosineEmbedding(x!, y!, target!, options),
  marginRanking: ({ x, y, target }, options) => F.marginRanking(x!, y!, target!, options),
  tripletMargin: ({ x, y, z }, options) => F.tripletMargin(x!, y!, z!, options),
  klDiv: loss(F.klDiv),
  cosineSimilarity: ({ x, y }) => F.cosineSimilarity(x!, y!),
  pairwiseDistance: ({ x, y }, options) => F.pairwiseDistance(x!, y!, options),
  hinge: loss(F.hinge),
  ...IMAGES,
  ...SEQUENCES,
  clipGradNorm: ({ a, b }, { maxNorm, normType }) => {
    const [p, q]: Tensor[] = [tensor(0), tensor(0)];
    [p!.grad, q!.grad] = [a, b];
    const order = normType === 'inf' ? Number.POSITIVE_INFINITY : Number(normType);
    const norm = F.optim.clipGradNorm([p!, q!], maxNorm, { normType: order });
    return F.cat([p!.grad!.flatten(), q!.grad!, norm.reshape([1])]);
  },
  clipGradValue: ({ a }, { clipValue }) => {
    const p: Tensor = tensor(0);
    p.grad = a;
    F.optim.clipGradValue([p], clipValue);
    return p.grad!;
  },
  ema: ({ weights }, options) => {
    const p = weights!.at(0).mul(1);
    const average = new F.optim.ExponentialMovingAverage([p], options);
    const rows = Array.from({ length: weights!.shape[0]! - 1 }, (_, i) => {
      p.assign(weights!.at(i + 1));
      average.update();
      return average.stateDict()['0']!.mul(1);
    });
    return F.stack(rows);
  },
};

const toTensor = ({ shape, data }: GoldenArray, requiresGrad: boolean): Tensor =>
  tensor(data.slice(), { shape, requiresGrad });

interface Result {
  readonly got: Tensor;
  readonly data: GoldenArray['data'];
  readonly what: string;
}

/** A case's output and gradients beside PyTorch's, not computed yet. */
function resultsOf({ op, args, inputs, outputs, name }: GoldenCase): Result[] {
  const run = RUNS[op];
  assert.ok(run, `no such op in this test: ${op}`);
  const tensors = Object.fromEntries(
    Object.entries(inputs).map(([key, array]) => [key, toTensor(array, `grad.${key}` in outputs)]),
  );
  const { gradOutput } = tensors;
  const output = run(tensors, args);
  assert.deepEqual(output.shape, outputs.output!.shape, `${name}: shape`);
  if (gradOutput) output.mul(gradOutput).sum().backward();
  return Object.entries(outputs).map(([key, { data }]) => {
    const got =
      key === 'output'
        ? output
        : key.startsWith('grad.')
          ? tensors[key.slice('grad.'.length)]!.grad
          : tensors[key];
    assert.ok(got, `${name}: no ${key}`);
    return { got, data, what: `${name}: ${key}` };
  });
}

/** Sums of terms of one size are compared with their size; a loss of a logit of 10⁴ says nothing of its neighbour's. */
const TOLERANCES: Readonly<Record<'ops' | 'losses' | 'large' | 'sequences' | 'tensors' | 'images', Tolerance>> = {
  ...{ ops: {}, losses: {}, sequences: {}, tensors: {}, images: {} },
  large: { absolute: 1e-11 },
};

for (const [group, tolerance] of Object.entries(TOLERANCES) as [keyof typeof TOLERANCES, Tolerance][]) {
  const byOp = new Map<string, GoldenCase[]>();
  for (const c of goldenCases(group)) byOp.set(c.op, [...(byOp.get(c.op) ?? []), c]);
  for (const [op, cases] of byOp) {
    test(`PyTorch's ${op}: ${cases.length} cases of ${group}`, async () => {
      const results = cases.flatMap(resultsOf);
      realize(...results.map(({ got }) => got));
      for (const { got, data, what } of results) assertClose(await got.data(), data, what, tolerance);
    });
  }
}
