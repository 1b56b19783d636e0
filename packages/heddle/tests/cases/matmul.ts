/** Matrix products: shapes, batches, strides, and what follows them in the same kernel. */
import { bf16, f16, f64 } from '../../src/core/dtype.js';
import * as H from '../../src/index.js';
import { map, matmul, permute, pick, range, reduce, reshape, total } from '../ndarray.js';
import type { Case } from './case.js';

type Size = readonly number[];

const shapes: readonly (readonly [Size, Size])[] = [
  [
    [2, 3],
    [3, 4],
  ],
  [
    [1, 1],
    [1, 1],
  ],
  [
    [1, 5],
    [5, 1],
  ],
  [
    [5, 1],
    [1, 7],
  ],
  [
    [7, 13],
    [13, 5],
  ],
  [
    [0, 3],
    [3, 4],
  ],
  [
    [2, 0],
    [0, 3],
  ],
  [
    [2, 3],
    [3, 0],
  ],
  [
    [3, 2, 4],
    [3, 4, 2],
  ],
  [
    [2, 1, 2, 3],
    [4, 3, 2],
  ],
  [
    [3, 2, 4],
    [4, 5],
  ],
  [
    [2, 4],
    [3, 4, 2],
  ],
  [
    [0, 2, 3],
    [3, 2],
  ],
];

/** Sizes at which the CPU's kernels change: whole tiles, tails in each dimension, long inner products. */
const larger: readonly (readonly [Size, Size])[] = [
  [
    [16, 16],
    [16, 16],
  ],
  [
    [17, 31],
    [31, 19],
  ],
  [
    [4, 70],
    [70, 8],
  ],
  [
    [33, 8],
    [8, 12],
  ],
  [
    [3, 9, 11],
    [3, 11, 13],
  ],
];

const skipLarge = { sim: 'slow there, and the generated kernel is the one of the small sizes' };

const products: Case[] = [
  ...shapes.map(
    (s): Case => ({
      op: 'matmul',
      inputs: s.map((shape) => ({ shape })),
      run: (a, b) => a.matmul(b),
      reference: matmul,
    }),
  ),
  ...larger.map(
    (s): Case => ({
      op: 'matmul of larger sizes',
      inputs: s.map((shape) => ({ shape })),
      run: (a, b) => a.matmul(b),
      reference: matmul,
      absolute: 1e-5,
      gradient: { skip: 'long; the rule is the one of the small sizes' },
      skip: skipLarge,
    }),
  ),
  {
    op: 'matmul of packed panels',
    inputs: [{ shape: [67, 1000] }, { shape: [1000, 66] }],
    run: (a, b) => a.matmul(b),
    reference: matmul,
    absolute: 1e-3,
    gradient: { skip: 'long; the rule is the one of the small sizes' },
    skip: skipLarge,
  },
  {
    op: 'matmul of packed panels',
    inputs: [{ shape: [1000, 65] }, { shape: [67, 1000] }],
    run: (a, b) => a.transpose().matmul(b.transpose()).add(1).relu(),
    reference: (a, b) => map((v) => Math.max(0, v + 1), matmul(permute(a, [1, 0]), permute(b, [1, 0]))),
    absolute: 1e-3,
    gradient: { skip: 'long; the rule is the one of the small sizes' },
    skip: skipLarge,
  },
  ...(
    [
      [f64, 1e-12],
      [f16, 5e-3],
      [bf16, 3e-2],
    ] as const
  ).map(
    ([dtype, tolerance]): Case => ({
      op: 'matmul',
      inputs: [
        { shape: [3, 5], dtype },
        { shape: [5, 4], dtype },
      ],
      run: (a, b) => a.matmul(b),
      reference: matmul,
      relative: tolerance,
      absolute: tolerance,
    }),
  ),
];

/** Operands that are views: the kernels read them by their strides. */
const views: Case[] = [
  ...(
    [
      [5, 3, 4],
      [16, 33, 18],
      [1, 9, 4],
      [4, 70, 1],
    ] as const
  ).flatMap(([m, k, n]): Case[] => [
    {
      op: 'matmul with the left side transposed',
      inputs: [{ shape: [k, m] }, { shape: [k, n] }],
      run: (a, b) => a.transpose().matmul(b),
      reference: (a, b) => matmul(permute(a, [1, 0]), b),
      ...(m > 5
        ? { gradient: { skip: 'long; the rule is the one of the small sizes' }, skip: skipLarge }
        : {}),
      absolute: 1e-5,
    },
    {
      op: 'matmul with the right side transposed',
      inputs: [{ shape: [m, k] }, { shape: [n, k] }],
      run: (a, b) => a.matmul(b.transpose()),
      reference: (a, b) => matmul(a, permute(b, [1, 0])),
      ...(m > 5
        ? { gradient: { skip: 'long; the rule is the one of the small sizes' }, skip: skipLarge }
        : {}),
      absolute: 1e-5,
    },
    {
      op: 'matmul with both sides transposed',
      inputs: [{ shape: [k, m] }, { shape: [n, k] }],
      run: (a, b) => a.transpose().matmul(b.transpose()),
      reference: (a, b) => matmul(permute(a, [1, 0]), permute(b, [1, 0])),
      ...(m > 5
        ? { gradient: { skip: 'long; the rule is the one of the small sizes' }, skip: skipLarge }
        : {}),
      absolute: 1e-5,
    },
  ]),
  {
    op: 'matmul of slices',
    inputs: [{ shape: [6, 9] }, { shape: [9, 8] }],
    run: (a, b) => a.at('1:6:2', '::-2').matmul(b.at('::2', '7:1:-2')),
    reference: (a, b) => matmul(pick(a, [[1, 3, 5], range(8, -1, -2)]), pick(b, [range(0, 9, 2), [7, 5, 3]])),
  },
  {
    op: 'matmul of an expanded row',
    inputs: [{ shape: [1, 4] }, { shape: [4, 1] }],
    run: (a, b) => a.expand([3, 4]).matmul(b.expand([4, 5])),
    reference: (a, b) => matmul(pick(a, [[0, 0, 0], range(0, 4)]), pick(b, [range(0, 4), [0, 0, 0, 0, 0]])),
  },
  {
    op: 'matmul of heads out of one matrix',
    inputs: [{ shape: [4, 6] }, { shape: [4, 6] }],
    run: (a, b) =>
      a
        .reshape([4, 2, 3])
        .permute([1, 0, 2])
        .matmul(b.reshape([4, 2, 3]).permute([1, 2, 0])),
    reference: (a, b) =>
      matmul(permute(reshape(a, [4, 2, 3]), [1, 0, 2]), permute(reshape(b, [4, 2, 3]), [1, 2, 0])),
  },
  {
    op: 'matmul of padded matrices',
    inputs: [{ shape: [3, 4] }, { shape: [5, 3] }],
    run: (a, b) =>
      a
        .pad(
          [
            [1, 0],
            [0, 1],
          ],
          { value: 2 },
        )
        .matmul(b),
    reference: (a, b) =>
      matmul(
        {
          shape: [4, 5],
          data: range(0, 20).map((i) =>
            i < 5 || i % 5 === 4 ? 2 : a.data[(Math.floor(i / 5) - 1) * 4 + (i % 5)]!,
          ),
        },
        b,
      ),
  },
];

/** What follows a product runs in its kernel. */
const followed: Case[] = [
  {
    op: 'matmul, bias, relu, residual',
    inputs: [{ shape: [5, 6] }, { shape: [6, 6] }, { shape: [6] }],
    run: (x, w, c) => H.relu(x.matmul(w).add(c)).add(x),
    reference: (x, w, c) => map((p, b, r) => Math.max(0, p! + b!) + r!, matmul(x, w), c, x),
  },
  {
    op: 'linear',
    inputs: [{ shape: [3, 5] }, { shape: [4, 5] }, { shape: [4] }],
    run: (x, w, c) => H.linear(x, w, c),
    reference: (x, w, c) => map((p, b) => p! + b!, matmul(x, permute(w, [1, 0])), c),
  },
  {
    op: 'a product used twice',
    inputs: [{ shape: [4, 3] }, { shape: [3, 5] }],
    run: (x, w) => {
      const y = x.matmul(w);
      return y.mul(y.tanh()).sum(1);
    },
    reference: (x, w) =>
      reduce(
        total,
        map((v) => v * Math.tanh(v), matmul(x, w)),
        [1],
      ),
  },
  {
    op: 'a product with itself',
    inputs: [{ shape: [4, 4] }],
    run: (x) => x.matmul(x).matmul(x.transpose()),
    reference: (x) => matmul(matmul(x, x), permute(x, [1, 0])),
  },
  {
    op: 'a product, transposed, plus a column',
    inputs: [{ shape: [5, 3] }, { shape: [3, 8] }, { shape: [8, 1] }],
    run: (x, w, c) => x.matmul(w).transpose().add(c).reshape([4, 10]),
    reference: (x, w, c) =>
      reshape(
        map((p, b) => p! + b!, permute(matmul(x, w), [1, 0]), c),
        [4, 10],
      ),
  },
  {
    op: 'a product of computed operands',
    inputs: [{ shape: [3, 4] }, { shape: [4, 3] }],
    run: (x, w) =>
      x
        .exp()
        .matmul(w.mul(2).add(1))
        .sub(x.sum(1, { keepdim: true })),
    reference: (x, w) =>
      map(
        (p, s) => p! - s!,
        matmul(
          map(Math.exp, x),
          map((v) => 2 * v + 1, w),
        ),
        reduce(total, x, [1], true),
      ),
  },
];

const vectors: Case[] = (
  [
    [[5], [5]],
    [[3, 5], [5]],
    [[5], [5, 2]],
    [[2, 3, 5], [5]],
    [[5], [2, 5, 4]],
  ] as const
).map(([p, q]): Case => {
  const rows = p.length === 1 ? [1, 5] : p;
  const columns = q.length === 1 ? [5, 1] : q;
  const shape = [
    ...(p.length > q.length ? p : q).slice(0, -2),
    ...(p.length === 1 ? [] : [p.at(-2)!]),
    ...(q.length === 1 ? [] : [q.at(-1)!]),
  ];
  return {
    op: 'matmul of vectors',
    inputs: [{ shape: p }, { shape: q }],
    run: (x, y) => x.matmul(y),
    reference: (x, y) => reshape(matmul(reshape(x, rows), reshape(y, columns)), shape),
  };
});
const pairs: Case[] = [
  {
    op: 'dot',
    inputs: [{ shape: [37] }, { shape: [37] }],
    run: (x, y) => x.dot(y),
    reference: (x, y) =>
      reduce(
        total,
        map((a, b) => a! * b!, x, y),
        [0],
      ),
  },
  {
    op: 'outer',
    inputs: [{ shape: [3] }, { shape: [4] }],
    run: (x, y) => x.outer(y),
    reference: (x, y) => matmul(reshape(x, [3, 1]), reshape(y, [1, 4])),
  },
];

export const MATMUL: readonly Case[] = [...vectors, ...pairs, ...products, ...views, ...followed];
