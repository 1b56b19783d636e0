/** Movement: nothing is computed, elements change places. */
import { bool, f64, i32, i64 } from '../../src/core/dtype.js';
import * as H from '../../src/index.js';
import {
  broadcastTo,
  cat,
  flip,
  make,
  map,
  pad,
  permute,
  pick,
  range,
  reduce,
  reshape,
  total,
} from '../ndarray.js';
import { type Case, one } from './case.js';

const reshapes: Case[] = [
  one(
    'reshape',
    [2, 6],
    (x) => x.reshape([3, 4]),
    (x) => reshape(x, [3, 4]),
  ),
  one(
    'reshape',
    [2, 6],
    (x) => x.reshape([-1, 2]),
    (x) => reshape(x, [6, 2]),
  ),
  one(
    'reshape',
    [4],
    (x) => x.reshape([2, 1, 2]),
    (x) => reshape(x, [2, 1, 2]),
  ),
  one(
    'reshape',
    [1],
    (x) => x.reshape([]),
    (x) => reshape(x, []),
  ),
  one(
    'reshape',
    [],
    (x) => x.reshape([1, 1]),
    (x) => reshape(x, [1, 1]),
  ),
  one(
    'reshape',
    [0, 3],
    (x) => x.reshape([5, 0]),
    (x) => reshape(x, [5, 0]),
  ),
  one(
    'flatten',
    [2, 3, 4],
    (x) => x.flatten(),
    (x) => reshape(x, [24]),
  ),
  one(
    'flatten',
    [2, 3, 4],
    (x) => x.flatten(1),
    (x) => reshape(x, [2, 12]),
  ),
  one(
    'flatten',
    [],
    (x) => x.flatten(),
    (x) => reshape(x, [1]),
  ),
  one(
    'unsqueeze',
    [2, 3],
    (x) => x.unsqueeze(1).unsqueeze(-1),
    (x) => reshape(x, [2, 1, 3, 1]),
  ),
  one(
    'squeeze',
    [2, 1, 3, 1],
    (x) => x.squeeze(1).squeeze(-1),
    (x) => reshape(x, [2, 3]),
  ),
];

const orders: Case[] = [
  one(
    'permute',
    [2, 3, 4],
    (x) => x.permute([2, 0, 1]),
    (x) => permute(x, [2, 0, 1]),
  ),
  one(
    'permute',
    [2, 3, 4],
    (x) => x.permute([-1, 1, 0]).add(1),
    (x) => map((v) => v + 1, permute(x, [2, 1, 0])),
  ),
  one(
    'permute',
    [1, 5],
    (x) => x.permute([1, 0]),
    (x) => permute(x, [1, 0]),
  ),
  one(
    'permute',
    [0, 2],
    (x) => x.permute([1, 0]),
    (x) => permute(x, [1, 0]),
  ),
  one(
    'transpose',
    [2, 3, 4],
    (x) => x.transpose(),
    (x) => permute(x, [0, 2, 1]),
  ),
  one(
    'transpose',
    [2, 3, 4],
    (x) => x.transpose(0, -1),
    (x) => permute(x, [2, 1, 0]),
  ),
  one(
    'transpose',
    [9, 17],
    (x) => x.transpose(),
    (x) => permute(x, [1, 0]),
    { dtype: i32 },
  ),
  one(
    'flip',
    [3, 4],
    (x) => x.flip(0),
    (x) => flip(x, 0),
  ),
  one(
    'flip',
    [3, 4],
    (x) => x.flip(-1).flip(0),
    (x) => flip(flip(x, 1), 0),
  ),
  one(
    'flip',
    [0, 4],
    (x) => x.flip(0),
    (x) => x,
  ),
  one(
    'flip',
    [1],
    (x) => x.flip(0),
    (x) => x,
    { dtype: bool },
  ),
];

const sizes: Case[] = [
  one(
    'expand',
    [3, 1],
    (x) => x.expand([3, 4]),
    (x) => broadcastTo(x, [3, 4]),
  ),
  one(
    'expand',
    [1, 3],
    (x) => x.expand([2, 5, 3]),
    (x) => broadcastTo(x, [2, 5, 3]),
  ),
  one(
    'expand',
    [],
    (x) => x.expand([2, 2]),
    (x) => broadcastTo(x, [2, 2]),
  ),
  one(
    'expand',
    [1],
    (x) => x.expand([0]),
    (x) => broadcastTo(x, [0]),
  ),
  one(
    'expand',
    [1, 1],
    (x) => x.expand([70, 3]).sum(0),
    (x) => map((v) => 70 * v, broadcastTo(reshape(x, [1]), [3])),
  ),
  one(
    'pad',
    [2, 3],
    (x) =>
      x.pad([
        [1, 0],
        [0, 2],
      ]),
    (x) =>
      pad(x, [
        [1, 0],
        [0, 2],
      ]),
  ),
  one(
    'pad',
    [2, 3],
    (x) =>
      x.pad(
        [
          [1, 2],
          [3, 1],
        ],
        { value: -4 },
      ),
    (x) =>
      pad(
        x,
        [
          [1, 2],
          [3, 1],
        ],
        -4,
      ),
  ),
  one(
    'pad',
    [3],
    (x) => x.pad([[2, 2]], { value: 9 }),
    (x) => pad(x, [[2, 2]], 9),
    { dtype: i32 },
  ),
  one(
    'pad',
    [3],
    (x) => x.pad([[1, 1]], { value: 1 }),
    (x) => pad(x, [[1, 1]], 1),
    { dtype: bool },
  ),
  one(
    'pad',
    [3],
    (x) => x.pad([[1, 1]], { value: 7 }),
    (x) => pad(x, [[1, 1]], 7),
    { dtype: i64 },
  ),
  one(
    'pad',
    [3],
    (x) => x.pad([[1, 1]], { value: Infinity }),
    (x) => pad(x, [[1, 1]], Infinity),
    { dtype: f64 },
  ),
  one(
    'pad',
    [0, 2],
    (x) =>
      x.pad([
        [1, 1],
        [0, 0],
      ]),
    (x) =>
      pad(x, [
        [1, 1],
        [0, 0],
      ]),
  ),
  one(
    'pad',
    [],
    (x) => x.pad([]),
    (x) => x,
  ),
  one(
    'pad',
    [2, 1, 9],
    (x) =>
      x
        .pad([
          [0, 0],
          [1, 1],
          [4, 4],
        ])
        .mul(2),
    (x) =>
      map(
        (v) => 2 * v,
        pad(x, [
          [0, 0],
          [1, 1],
          [4, 4],
        ]),
      ),
  ),
];

const joined: Case[] = [
  ...(
    [
      [
        [
          [2, 3],
          [1, 3],
        ],
        0,
      ],
      [
        [
          [2, 3],
          [2, 2],
          [2, 1],
        ],
        1,
      ],
      [
        [
          [2, 0],
          [2, 3],
        ],
        -1,
      ],
      [[[0], [0]], 0],
      [[[4]], 0],
      [
        [
          [2, 1, 2],
          [2, 3, 2],
        ],
        1,
      ],
    ] as const
  ).flatMap(([shapes, axis]) =>
    [{}, { dtype: i32 }].map(
      (input): Case => ({
        op: 'cat',
        inputs: shapes.map((shape) => ({ shape, ...input })),
        run: (...tensors) => H.cat(tensors, axis),
        reference: (...arrays) => cat(arrays, axis < 0 ? axis + arrays[0]!.shape.length : axis),
      }),
    ),
  ),
  {
    op: 'cat of bools',
    inputs: [
      { shape: [2], dtype: bool },
      { shape: [3], dtype: bool },
    ],
    run: (...tensors) => H.cat(tensors),
    reference: (...arrays) => cat(arrays, 0),
  },
  ...[0, 1, -1].map(
    (axis): Case => ({
      op: 'stack',
      inputs: [{ shape: [3, 2] }, { shape: [3, 2] }, { shape: [3, 2] }],
      run: (...tensors) => H.stack(tensors, axis),
      reference: (...arrays) => {
        const at = axis < 0 ? axis + 3 : axis;
        const shape = [3, 2];
        shape.splice(at, 0, 3);
        return make(shape, (k) => {
          const rest = k.filter((_, d) => d !== at);
          return arrays[k[at]!]!.data[rest[0]! * 2 + rest[1]!]!;
        });
      },
    }),
  ),
];

/** Views of views, and computing on them. */
const chains: Case[] = [
  one(
    'a view of a view of a view',
    [3, 4, 5],
    (x) => x.permute([2, 0, 1]).at('::2', '1:').transpose().reshape([3, 8]).flip(1),
    (x) =>
      flip(
        reshape(permute(pick(permute(x, [2, 0, 1]), [[0, 2, 4], [1, 2], range(0, 4)]), [0, 2, 1]), [3, 8]),
        1,
      ),
  ),
  one(
    'a reshape that strides cannot say',
    [4, 6],
    (x) => x.transpose().reshape([8, 3]).mul(2),
    (x) => map((v) => 2 * v, reshape(permute(x, [1, 0]), [8, 3])),
  ),
  one(
    'a pad of a slice of a pad',
    [3, 3],
    (x) =>
      x
        .pad(
          [
            [1, 1],
            [2, 0],
          ],
          { value: 5 },
        )
        .at('1:4', '::2')
        .pad(
          [
            [0, 1],
            [1, 0],
          ],
          { value: -1 },
        ),
    (x) =>
      pad(
        pick(
          pad(
            x,
            [
              [1, 1],
              [2, 0],
            ],
            5,
          ),
          [
            [1, 2, 3],
            [0, 2, 4],
          ],
        ),
        [
          [0, 1],
          [1, 0],
        ],
        -1,
      ),
  ),
  one(
    'the same tensor forwards and backwards',
    [9],
    (x) => x.mul(x.flip(0)).add(x.at('::-1').exp()),
    (x) => map((a, b) => a! * b! + Math.exp(b!), x, flip(x, 0)),
  ),
  one(
    'a sum over an expanded view',
    [3, 1, 2],
    (x) => x.expand([3, 4, 2]).permute([1, 2, 0]).sum([0, 1]),
    (x) => reduce(total, permute(broadcastTo(x, [3, 4, 2]), [1, 2, 0]), [0, 1]),
  ),
  one(
    'a reduction of a padded and flipped view',
    [5, 4],
    (x) =>
      x
        .pad(
          [
            [0, 0],
            [1, 2],
          ],
          { value: 1 },
        )
        .flip(1)
        .prod(1)
        .add(x.max(1)),
    (x) =>
      map(
        (a, b) => a! + b!,
        reduce((v) => v.reduce((p, e) => p * e, 1), x, [1]),
        reduce((v) => Math.max(...v), x, [1]),
      ),
  ),
];

export const MOVEMENT: readonly Case[] = [...reshapes, ...orders, ...sizes, ...joined, ...chains];
