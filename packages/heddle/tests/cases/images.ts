/** Convolution and pooling. */
import { bf16, f16, f64 } from '../../src/core/dtype.js';
import type { Tensor } from '../../src/index.js';
import * as H from '../../src/index.js';
import {
  conv2d,
  map,
  mean,
  permute,
  pick,
  pool,
  range,
  reduce,
  reshape,
  type Sliding,
  total,
} from '../ndarray.js';
import type { Case } from './case.js';

type Size = readonly number[];
type Convolution = Sliding & { readonly groups?: number };

const convolutions: readonly (readonly [Size, Size, Convolution])[] = [
  [[1, 1, 4, 4], [1, 1, 1, 1], {}],
  [[2, 2, 5, 6], [3, 2, 3, 3], {}],
  [[1, 2, 5, 7], [2, 2, 3, 2], { padding: [1, 1] }],
  [[1, 1, 7, 8], [2, 1, 3, 3], { stride: [2, 2] }],
  [[1, 1, 7, 9], [1, 1, 2, 3], { stride: [3, 2], padding: [1, 2] }],
  [[1, 2, 7, 8], [2, 2, 2, 2], { dilation: [2, 3] }],
  [[1, 4, 4, 5], [4, 2, 3, 3], { groups: 2, padding: [1, 1] }],
  [[2, 3, 4, 6], [6, 1, 2, 3], { groups: 3 }],
  [[1, 2, 1, 5], [2, 2, 1, 3], { padding: [0, 1] }],
  [[1, 1, 3, 3], [2, 1, 3, 3], {}],
  [[1, 2, 6, 11], [2, 2, 3, 3], { stride: [2, 1], padding: [2, 1], dilation: [1, 2] }],
];

const convolution = ([x, w, options]: (typeof convolutions)[number], rest: Partial<Case> = {}): Case => ({
  op: 'conv2d',
  inputs: [{ shape: x }, { shape: w }],
  run: (a: Tensor, b: Tensor) => H.conv2d(a, b, undefined, options),
  reference: (a, b) => conv2d(a!, b!, options),
  absolute: 1e-5,
  ...rest,
});

const skipLarge = {
  gradient: { skip: 'long; the rule is the one of the small sizes' },
  skip: { sim: 'slow there, and the generated kernel is the one of the small sizes' },
} as const;

const convs: Case[] = [
  ...convolutions.map((c) => convolution(c)),
  convolution([[0, 2, 4, 4], [3, 2, 3, 3], {}]),
  convolution([[2, 3, 13, 14], [10, 3, 5, 5], { padding: [2, 2] }], skipLarge),
  convolution([[3, 8, 9, 17], [9, 8, 3, 3], { padding: [1, 1] }], skipLarge),
  convolution([[1, 5, 19, 23], [7, 5, 4, 3], { stride: [2, 2], padding: [1, 0] }], skipLarge),
  {
    op: 'conv2d with bias, relu and pooling',
    inputs: [{ shape: [2, 1, 6, 6] }, { shape: [2, 1, 3, 3] }, { shape: [2] }],
    run: (x, w, c) => H.maxPool2d(H.relu(H.conv2d(x, w, c, { padding: 1 })), 2),
    reference: (x, w, c) =>
      pool(
        (v) => Math.max(...(v as number[])),
        map((p, b) => Math.max(0, p! + b!), conv2d(x, w, { padding: [1, 1] }), reshape(c, [2, 1, 1])),
        [2, 2],
        { stride: [2, 2] },
      ),
  },
  {
    op: 'overlapping pooling of a rectified image that is used elsewhere too',
    inputs: [{ shape: [2, 2, 5, 6] }, { shape: [2] }],
    run: (x, c) => {
      const y = H.relu(c.reshape([2, 1, 1]).add(x)).sub(0.25);
      return H.maxPool2d(y, 3, { stride: 2, padding: 1 }).mul(y.mean());
    },
    reference: (x, c) => {
      const y = map((p, b) => Math.max(0, p! + b!) - 0.25, x, reshape(c, [2, 1, 1]));
      const most = pool((v) => Math.max(...seen(v)), y, [3, 3], { stride: [2, 2], padding: [1, 1] });
      return map((m) => m! * mean(y.data as number[]), most);
    },
  },
  {
    op: 'pooling of a rectified image, with windows of nothing but padding',
    inputs: [{ shape: [1, 2, 1, 1] }],
    run: (x) => H.maxPool2d(H.relu(x), 2, { dilation: 2, padding: 1 }).eq(Number.NEGATIVE_INFINITY),
    reference: (x) => map(() => 1, x),
    gradient: { skip: 'no pixel is seen' },
  },
  {
    op: 'conv2d of views',
    inputs: [{ shape: [5, 7, 2, 1] }, { shape: [3, 3, 2, 4] }],
    run: (x, w) => H.conv2d(x.permute([3, 2, 0, 1]).flip(3), w.permute([3, 2, 0, 1]).at('::2')),
    reference: (x, w) =>
      conv2d(
        pick(permute(x, [3, 2, 0, 1]), [[0], [0, 1], range(0, 5), range(6, -1, -1)]),
        pick(permute(w, [3, 2, 0, 1]), [[0, 2], [0, 1], range(0, 3), range(0, 3)]),
      ),
    absolute: 1e-5,
  },
  {
    op: 'conv2d, and a residual of what it read',
    inputs: [{ shape: [1, 2, 5, 5] }, { shape: [2, 2, 3, 3] }],
    run: (x, w) => H.conv2d(x, w, undefined, { padding: 1 }).add(x).tanh(),
    reference: (x, w) => map((a, b) => Math.tanh(a! + b!), conv2d(x, w, { padding: [1, 1] }), x),
    absolute: 1e-5,
  },
  ...(
    [
      [f64, 1e-12],
      [f16, 1e-2],
      [bf16, 5e-2],
    ] as const
  ).map(
    ([dtype, tolerance]): Case => ({
      op: 'conv2d',
      inputs: [
        { shape: [1, 2, 4, 5], dtype },
        { shape: [2, 2, 2, 2], dtype },
      ],
      run: (x, w) => H.conv2d(x, w),
      reference: (x, w) => conv2d(x, w),
      relative: tolerance,
      absolute: tolerance,
    }),
  ),
];

const pools: readonly (readonly [Size, readonly [number, number], Sliding])[] = [
  [[2, 3, 4, 6], [2, 2], { stride: [2, 2] }],
  [[1, 1, 5, 5], [3, 3], { stride: [2, 2], padding: [1, 1] }],
  [[1, 2, 5, 4], [2, 3], { stride: [1, 1] }],
  [[1, 1, 7, 7], [2, 2], { stride: [3, 2], dilation: [2, 2] }],
  [[1, 1, 3, 3], [3, 3], { stride: [3, 3] }],
  [[1, 2, 1, 1], [1, 1], { stride: [1, 1] }],
  [[0, 2, 4, 4], [2, 2], { stride: [2, 2] }],
  [[2, 1, 9, 13], [2, 2], { stride: [2, 2] }],
];

const seen = (v: readonly (number | undefined)[]): number[] => v.filter((e) => e !== undefined);

const pooling: Case[] = pools.flatMap(([shape, kernel, options]): Case[] => [
  {
    op: 'maxPool2d',
    inputs: [{ shape }],
    run: (x) => H.maxPool2d(x, kernel, options),
    reference: (x) => pool((v) => Math.max(...seen(v)), x, kernel, options),
  },
  ...(options.dilation
    ? []
    : [true, false].map((countIncludePad): Case => {
        const { stride = kernel, padding = [0, 0] } = options;
        return {
          op: 'avgPool2d',
          inputs: [{ shape }],
          run: (x) => H.avgPool2d(x, kernel, { stride, padding, countIncludePad }),
          reference: (x) =>
            pool(
              (v) => (countIncludePad ? total(seen(v)) / (kernel[0] * kernel[1]) : mean(seen(v))),
              x,
              kernel,
              options,
            ),
        };
      })),
]);

const statistics: Case[] = [
  {
    op: 'the mean and spread of every channel',
    inputs: [{ shape: [3, 2, 4, 5] }],
    run: (x) => {
      const m = x.mean([0, 2, 3], { keepdim: true });
      return x.sub(m).square().mean([0, 2, 3]);
    },
    reference: (x) => reduce((v) => mean(v.map((e) => (e - mean(v)) ** 2)), x, [0, 2, 3]),
  },
];

export const IMAGES: readonly Case[] = [...convs, ...pooling, ...statistics];
