/** Activations, losses and layers as functions. */
import { bf16, i32 } from '../../src/core/dtype.js';
import type { Tensor } from '../../src/index.js';
import * as H from '../../src/index.js';
import {
  alongAxis,
  logSoftmax,
  make,
  map,
  mean,
  type NdArray,
  permute,
  reduce,
  reshape,
  total,
  variance,
} from '../ndarray.js';
import { type Case, SHAPES } from './case.js';

const each = (
  op: string,
  run: (x: Tensor) => Tensor,
  f: (v: number) => number,
  rest: Partial<Case> = {},
): Case[] =>
  SHAPES.map((shape) => ({
    op,
    inputs: [{ shape, low: -5, high: 5 }],
    run,
    reference: (x) => map(f, x!),
    ...rest,
  }));

const logistic = (v: number): number => 1 / (1 + Math.exp(-v));
const tanhGelu = (v: number): number =>
  0.5 * v * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (v + 0.044715 * v ** 3)));

/** The error function by its series: exact where it is used here. */
function erf(x: number): number {
  let term = x;
  let sum = x;
  for (let n = 1; n < 120; n++) {
    term *= (-x * x) / n;
    sum += term / (2 * n + 1);
  }
  return (2 / Math.sqrt(Math.PI)) * sum;
}

const sixth = (v: number): number => Math.min(6, Math.max(0, v + 3)) / 6;

const activations: Case[] = [
  ...each('relu', H.relu, (v) => Math.max(0, v)),
  ...each(
    'leakyRelu',
    (x) => H.leakyRelu(x, { negativeSlope: 0.1 }),
    (v) => (v > 0 ? v : 0.1 * v),
  ),
  ...each('sigmoid as a function', H.sigmoid, logistic),
  ...each('tanh as a function', H.tanh, Math.tanh),
  ...each('silu', H.silu, (v) => v * logistic(v)),
  ...each(
    'elu',
    (x) => H.elu(x, { alpha: 0.7 }),
    (v) => (v > 0 ? v : 0.7 * Math.expm1(v)),
  ),
  ...each('softplus', H.softplus, (v) => Math.log1p(Math.exp(v))),
  ...each(
    'softplus',
    (x) => H.softplus(x, { beta: 3, threshold: 9 }),
    (v) => (3 * v > 9 ? v : Math.log1p(Math.exp(3 * v)) / 3),
  ),
  ...each('erf', H.erf, erf),
  ...each(
    'relu6',
    (x) => H.relu6(x.mul(2)),
    (v) => Math.min(6, Math.max(0, 2 * v)),
  ),
  ...each(
    'hardtanh',
    (x) => H.hardtanh(x, { low: -2, high: 0.5 }),
    (v) => Math.min(0.5, Math.max(-2, v)),
  ),
  ...each('hardsigmoid', H.hardsigmoid, sixth),
  ...each('hardswish', H.hardswish, (v) => v * sixth(v)),
  ...each('selu', H.selu, (v) => 1.0507009873554805 * (v > 0 ? v : 1.6732632423543772 * Math.expm1(v))),
  ...each(
    'celu',
    (x) => H.celu(x, { alpha: 0.7 }),
    (v) => (v > 0 ? v : 0.7 * Math.expm1(v / 0.7)),
  ),
  ...each('mish', H.mish, (v) => v * Math.tanh(Math.log1p(Math.exp(v)))),
  ...each('softsign', H.softsign, (v) => v / (1 + Math.abs(v))),
  ...each('logSigmoid', H.logSigmoid, (v) => -Math.log1p(Math.exp(-v))),
  ...each('tanhshrink', H.tanhshrink, (v) => v - Math.tanh(v)),
  ...each(
    'softshrink',
    (x) => H.softshrink(x, { lambda: 0.8 }),
    (v) => Math.sign(v) * Math.max(0, Math.abs(v) - 0.8),
  ),
  ...each(
    'hardshrink',
    (x) => H.hardshrink(x, { lambda: 0.8 }),
    (v) => (Math.abs(v) > 0.8 ? v : 0),
  ),
  {
    op: 'prelu',
    inputs: [{ shape: [2, 3, 2] }, { shape: [3] }, { shape: [1] }],
    run: (x, w, v) => H.prelu(x, w).add(H.prelu(x, v)),
    reference: (x, w, v) => map((a, s, t) => (a! > 0 ? 2 * a! : (s! + t!) * a!), x, reshape(w, [3, 1]), v),
  },
  {
    op: 'glu',
    inputs: [{ shape: [3, 4, 2] }],
    run: (x) => H.glu(x, 1),
    reference: (x) =>
      make([3, 2, 2], ([i, j, k]) => {
        const at = (row: number): number => x.data[(i! * 4 + row) * 2 + k!]!;
        return at(j!) * logistic(at(j! + 2));
      }),
  },
  ...each('gelu', H.gelu, (v) => 0.5 * v * (1 + erf(v * Math.SQRT1_2))),
  ...each('gelu by tanh', (x) => H.gelu(x, { approximate: 'tanh' }), tanhGelu),
  {
    op: 'sigmoid far out',
    inputs: [{ shape: [4], values: [-200, -90, 90, 200] }],
    run: (x) => H.sigmoid(x),
    reference: (x) => map((v) => (v > 0 ? 1 : 0), x),
    gradient: { skip: 'saturated: differences are all zero' },
  },
  {
    op: 'softplus far out',
    inputs: [{ shape: [4], values: [-200, -60, 60, 200] }],
    run: (x) => H.softplus(x),
    reference: (x) => map((v) => Math.max(0, v), x),
    gradient: { skip: 'saturated: differences are all zero' },
  },
];

/** −log softmax(logits)[label] of every row of (N, C). */
const rowLosses = (logits: NdArray, labels: NdArray): NdArray => {
  const logs = alongAxis(logSoftmax, logits, 1);
  return make(labels.shape, ([i]) => -logs.data[i! * logits.shape[1]! + labels.data[i!]!]!);
};
const LABELS = [2, 0, 1, 2, 1];

const crossEntropies: Case[] = (['mean', 'sum', 'none'] as const).flatMap((reduction): Case[] => {
  const finish = (losses: NdArray): NdArray =>
    reduction === 'none' ? losses : reduce(reduction === 'sum' ? total : mean, losses);
  const inputs = [{ shape: [5, 3] }, { shape: [5], dtype: i32, values: LABELS }];
  return [
    {
      op: 'crossEntropy',
      inputs,
      run: (x, y) => H.crossEntropy(x, y, { reduction }),
      reference: (x, y) => finish(rowLosses(x, y)),
    },
    {
      op: 'crossEntropy',
      inputs: [{ shape: [5, 3], dtype: bf16 }, inputs[1]!],
      run: (x, y) => H.crossEntropy(x, y, { reduction }),
      reference: (x, y) => finish(rowLosses(x, y)),
      relative: 2e-2,
    },
    {
      op: 'crossEntropy with smoothed labels',
      inputs,
      run: (x, y) => H.crossEntropy(x, y, { reduction, labelSmoothing: 0.1 }),
      reference: (x, y) => {
        const logs = alongAxis(logSoftmax, x, 1);
        return finish(map((a, b) => 0.9 * a! - 0.1 * b!, rowLosses(x, y), reduce(mean, logs, [1])));
      },
    },
    {
      op: 'crossEntropy of logits that are computed',
      inputs: [{ shape: [5, 4] }, { shape: [3, 4] }, { shape: [5], dtype: i32, values: LABELS }],
      run: (x, w, y) => H.crossEntropy(H.linear(x.tanh(), w), y, { reduction }),
      reference: (x, w, y) =>
        finish(
          rowLosses(
            make([5, 3], ([i, j]) =>
              total([0, 1, 2, 3].map((k) => Math.tanh(x.data[i! * 4 + k]!) * w.data[j! * 4 + k]!)),
            ),
            y,
          ),
        ),
    },
    {
      op: 'nllLoss',
      inputs,
      run: (x, y) => H.nllLoss(x.logSoftmax(1), y, { reduction }),
      reference: (x, y) => finish(rowLosses(x, y)),
    },
    ...(
      [
        ['mse', H.mse, (a: number, b: number) => (a - b) ** 2],
        ['l1', H.l1, (a: number, b: number) => Math.abs(a - b)],
        ['hinge', H.hinge, (a: number, b: number) => Math.max(0, 1 - a * b)],
        [
          'huber',
          H.huber,
          (a: number, b: number) => (Math.abs(a - b) <= 1 ? (a - b) ** 2 / 2 : Math.abs(a - b) - 0.5),
        ],
        ['bceWithLogits', H.bceWithLogits, (a: number, b: number) => Math.log1p(Math.exp(a)) - a * b],
      ] as const
    ).map(
      ([op, loss, f]): Case => ({
        op,
        inputs: [{ shape: [3, 4] }, { shape: [3, 4], low: -1, high: 1 }],
        run: (x, y) => loss(x, y, { reduction }),
        reference: (x, y) => finish(map(f as (...v: number[]) => number, x, y)),
      }),
    ),
    {
      op: 'bce',
      inputs: [
        { shape: [3, 4], low: 0.05, high: 0.95 },
        { shape: [3, 4], low: 0, high: 1 },
      ],
      run: (x, y) => H.bce(x, y, { reduction }),
      reference: (x, y) => finish(map((p, t) => -(t! * Math.log(p!) + (1 - t!) * Math.log(1 - p!)), x, y)),
    },
  ];
});

/** (x − mean) / √(variance + eps) along the last axis, and without taking the mean off. */
const standardized = (x: NdArray): NdArray =>
  alongAxis((line) => line.map((v) => (v - mean(line)) / Math.sqrt(variance(0)(line) + 1e-5)), x, -1);
const rms = (x: NdArray, eps = 2 ** -23): NdArray =>
  alongAxis((line) => line.map((v) => v / Math.sqrt(mean(line.map((w) => w * w)) + eps)), x, -1);
const affine = (x: NdArray, w: NdArray, c: NdArray): NdArray => map((v, s, t) => v! * s! + t!, x, w, c);

const normalizations: Case[] = [
  ...[
    [2, 5],
    [3, 2, 4],
    [3, 70],
    [0, 4],
  ].map(
    (shape): Case => ({
      op: 'layerNorm',
      inputs: [{ shape }, { shape: shape.slice(-1) }, { shape: shape.slice(-1) }],
      run: (x, w, c) => H.layerNorm(x, shape.at(-1)!, { weight: w, bias: c }),
      reference: (x, w, c) => affine(standardized(x), w, c),
      absolute: 2e-5,
    }),
  ),
  {
    op: 'layerNorm over two dimensions, in bf16',
    inputs: [{ shape: [3, 2, 4], dtype: bf16 }],
    run: (x) => H.layerNorm(x, [2, 4]),
    reference: (x) => reshape(standardized(reshape(x, [3, 8])), [3, 2, 4]),
    relative: 2e-2,
    absolute: 2e-2,
  },
  ...[
    [2, 5],
    [3, 70],
  ].map(
    (shape): Case => ({
      op: 'rmsNorm',
      inputs: [{ shape }, { shape: shape.slice(1) }],
      run: (x, w) => H.rmsNorm(x, shape[1]!, { weight: w, eps: 1e-3 }),
      reference: (x, w) => map((v, s) => v! * s!, rms(x, 1e-3), w),
      absolute: 2e-5,
    }),
  ),
  {
    op: 'rmsNorm of zeros and small numbers',
    inputs: [{ shape: [2, 3], values: [0, 0, 0, 1e-5, -2e-5, 3e-5] }],
    run: (x) => H.rmsNorm(x, [3]),
    reference: (x) => rms(x),
    gradient: { skip: 'steeper than differences can tell' },
  },
  ...[
    [2, 4, 3, 2],
    [3, 6, 5],
    [5, 4],
  ].map(
    (shape): Case => ({
      op: 'groupNorm',
      inputs: [{ shape }, { shape: [shape[1]!] }, { shape: [shape[1]!] }],
      run: (x, w, c) => H.groupNorm(x, 2, { weight: w, bias: c }),
      reference: (x, w, c) => {
        const y = reshape(standardized(reshape(x, [shape[0]! * 2, x.data.length / (shape[0]! * 2)])), shape);
        const channels = [shape[1]!, ...shape.slice(2).map(() => 1)];
        return affine(y, reshape(w, channels), reshape(c, channels));
      },
      absolute: 2e-5,
    }),
  ),
  {
    op: 'instanceNorm',
    inputs: [{ shape: [2, 3, 4, 2] }],
    run: (x) => H.instanceNorm(x),
    reference: (x) => reshape(standardized(reshape(x, [6, 8])), [2, 3, 4, 2]),
    absolute: 2e-5,
  },
  {
    op: 'batchNorm of (N, C) in training',
    inputs: [{ shape: [7, 3] }, { shape: [3] }, { shape: [3] }],
    run: (x, w, c) => {
      const running = [H.zeros([3], { dtype: x.dtype }), H.ones([3], { dtype: x.dtype })] as const;
      return H.batchNorm(x, ...running, { weight: w, bias: c, training: true });
    },
    reference: (x, w, c) => affine(permute(standardized(permute(x, [1, 0])), [1, 0]), w, c),
    absolute: 2e-5,
  },
];

const others: Case[] = [
  {
    op: 'crossEntropy with weights and an ignored label',
    inputs: [
      { shape: [5, 3] },
      { shape: [5], dtype: i32, values: LABELS },
      { shape: [3], low: 0.5, high: 2 },
    ],
    run: (x, y, w) => H.crossEntropy(x, y, { weight: w, ignoreIndex: 0 }),
    reference: (x, y, w) => {
      const each = rowLosses(x, y).data.map((l, i) => (y.data[i] === 0 ? 0 : l * w.data[y.data[i]!]!));
      const share = y.data.map((k) => (k === 0 ? 0 : w.data[k]!));
      return { shape: [], data: [total(each) / total(share)] };
    },
  },
  {
    op: 'crossEntropy of a label outside the classes',
    inputs: [{ shape: [3, 4] }, { shape: [3], dtype: i32, values: [1, 4, -1] }],
    run: (x, y) => H.crossEntropy(x, y, { reduction: 'none' }).isNaN(),
    reference: () => ({ shape: [3], data: [0, 1, 1] }),
  },
  {
    op: 'crossEntropy of images',
    inputs: [{ shape: [2, 3, 2, 2] }, { shape: [2, 2, 2], dtype: i32, values: [0, 1, 2, 2, 1, 0, 0, 1] }],
    run: (x, y) => H.crossEntropy(x, y),
    reference: (x, y) => reduce(mean, rowLosses(reshape(permute(x, [0, 2, 3, 1]), [8, 3]), reshape(y, [8]))),
  },
  {
    op: 'oneHot',
    inputs: [{ shape: [2, 3], dtype: i32, values: [0, 3, 1, 2, 4, -1] }],
    run: (x) => H.oneHot(x, 4),
    reference: (x) => make([2, 3, 4], ([i, j, c]) => Number(x.data[i! * 3 + j!] === c)),
  },
  {
    op: 'batchNorm of a trained layer',
    inputs: [
      { shape: [2, 3, 2, 2] },
      { shape: [3] },
      { shape: [3], low: 0.5, high: 2 },
      { shape: [3] },
      { shape: [3] },
    ],
    run: (x, m, v, w, c) => H.batchNorm(x, m, v, { weight: w, bias: c }),
    reference: (x, m, v, w, c) =>
      map(
        (e, a, b, s, t) => ((e! - a!) / Math.sqrt(b! + 1e-5)) * s! + t!,
        x,
        ...[m, v, w, c].map((p) => reshape(p, [3, 1, 1])),
      ),
  },
  {
    op: 'batchNorm in training, without weights',
    inputs: [{ shape: [3, 2, 2, 2] }],
    run: (x) => {
      const running = [H.zeros([2], { dtype: x.dtype }), H.ones([2], { dtype: x.dtype })] as const;
      return H.batchNorm(x, ...running, { training: true });
    },
    reference: (x) =>
      map(
        (e, m, v) => (e! - m!) / Math.sqrt(v! + 1e-5),
        x,
        reduce(mean, x, [0, 2, 3], true),
        reduce(variance(0), x, [0, 2, 3], true),
      ),
    absolute: 5e-6,
  },
  {
    op: 'batchNorm in training',
    inputs: [{ shape: [3, 2, 2, 2] }, { shape: [2] }, { shape: [2] }],
    run: (x, w, c) => {
      const running = [H.zeros([2], { dtype: x.dtype }), H.ones([2], { dtype: x.dtype })] as const;
      return H.batchNorm(x, ...running, { weight: w, bias: c, training: true });
    },
    reference: (x, w, c) =>
      map(
        (e, m, v, s, t) => ((e! - m!) / Math.sqrt(v! + 1e-5)) * s! + t!,
        x,
        reduce(mean, x, [0, 2, 3], true),
        reduce(variance(0), x, [0, 2, 3], true),
        reshape(w, [2, 1, 1]),
        reshape(c, [2, 1, 1]),
      ),
    absolute: 5e-6,
  },
  ...normalizations,
  {
    op: 'dropout outside training',
    inputs: [{ shape: [3, 4] }],
    run: (x) => {
      const off = { p: 0.5, training: false };
      return H.dropPath(H.dropout2d(H.dropout(x, off).reshape([1, 3, 2, 2]), off), off).mul(2);
    },
    reference: (x) =>
      reshape(
        map((v) => 2 * v, x),
        [1, 3, 2, 2],
      ),
  },
];

export const LAYERS: readonly Case[] = [...activations, ...crossEntropies, ...others];
