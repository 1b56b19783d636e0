/** Convolutions by warpgroups whose pixels come as patches, in the simulator: over edges, of several images, for every dtype. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { bf16, type DType, f16, f32, i8 } from '../../src/core/dtype.js';
import type { ColumnSums } from '../../src/graph/fused-op.js';
import { irFunction } from '../../src/kernel/ir/ir-function.js';
import { H200 } from '../../src/kernel/ir/target.js';
import { type Conv2dArg, outputSize } from '../../src/ops/conv2d/op.js';
import { asProduct } from '../../src/ops/conv2d/warpgroup.js';
import type { PixelPatch, WarpgroupTile } from '../../src/ops/matmul/warpgroup-layout.js';
import {
  WARPGROUPS,
  warpgroupName,
  warpgroupTiles,
  warpgroupWays,
} from '../../src/ops/matmul/warpgroup-tiles.js';
import { closeDevices, openDevice } from '../../src/runtime/registry.js';
import { cudaReason } from '../cases/case-runner.js';
import { type ConvolutionCase, conv } from './convolution-cases.js';
import { check, type Direction, problemOf } from './convolution-check.js';

const small: WarpgroupTile = { groups: 1, each: 1, columns: 64, stages: 3, splits: 1 };

type Cut = readonly [height: number, width: number, stages?: number];
function patchFor(
  { arg }: ConvolutionCase,
  direction: Direction,
  [height, width, stages = 2]: Cut,
): PixelPatch {
  const [rows, columns] = direction === 'input' ? arg.size : outputSize(arg);
  return {
    ...{ height, width, stages, taps: arg.kernel[0], dilation: arg.dilation[0] },
    ...{ down: Math.ceil(rows / height), across: Math.ceil(columns / width) },
    inOrder: columns === width && rows % height === 0,
  };
}

const CASES: readonly [ConvolutionCase, Cut, Partial<WarpgroupTile>, DType[]?][] = [
  [conv('whole images', [3, 16, 24], 8, 3, { padding: 1 }), [8, 8], {}],
  [
    conv('patches below each other', [1, 72, 16], [8, 16], 3, { padding: 1 }),
    [4, 16],
    { groups: 2 },
    [bf16, f16, f32],
  ],
  [
    conv('over the right and lower edge', [2, 16, 24], [5, 11], 3, { padding: 1 }),
    [8, 8],
    { groups: 2, each: 2 },
  ],
  [conv('without padding', [2, 32, 16], [9, 10], 3), [16, 8], { groups: 2 }, [bf16, f32]],
  [
    conv('more padding than it needs', [1, 16, 16], [6, 7], 3, { padding: 2 }),
    [8, 8],
    { each: 2, columns: 128 },
  ],
  [
    conv('dilated', [1, 16, 72], [9, 12], 3, { padding: [2, 3], dilation: [2, 3] }),
    [8, 8],
    { columns: 128 },
    [bf16, i8],
  ],
  [conv('5×5', [2, 8, 16], [7, 9], 5, { padding: 2 }), [8, 8], { groups: 2, stages: 2 }, [bf16, f32]],
  [conv('3×1', [2, 16, 16], [7, 5], [3, 1], { padding: [1, 0] }), [8, 8, 3], { stages: 2 }],
  [conv('2×4', [1, 16, 16], [5, 18], [2, 4], { padding: 1 }), [2, 32], {}],
  [
    conv('groups, over edges', [2, 3 * 24, 3 * 40], [5, 11], 3, { padding: 1, groups: 3 }),
    [8, 8],
    { groups: 2 },
    [bf16, f32],
  ],
  [
    conv('whole images in groups', [2, 64, 128], 8, 3, { padding: 1, groups: 2 }),
    [8, 8],
    { columns: 128 },
    [bf16, i8],
  ],
  [
    conv('by turns', [5, 144, 16], [8, 8], 3, { padding: 1 }),
    [8, 8],
    { groups: 2, alternate: true },
    [bf16, i8],
  ],
];

after(closeDevices);
const reason = cudaReason() ?? (openDevice('cuda').target.capability === WARPGROUPS ? undefined : 'no wgmma');

/** Both in the simulator and on a GPU. */
function testOf(
  name: string,
  shape: ConvolutionCase,
  direction: Direction,
  cut: Cut,
  tile: Partial<WarpgroupTile>,
  dtype: DType,
) {
  const whole = { ...small, ...tile, patch: patchFor(shape, direction, cut) };
  test(name, () => check(shape, direction, whole, dtype));
  test(`cuda: ${name}`, { skip: reason ? `not run: ${reason}` : false }, () =>
    check(shape, direction, whole, dtype, openDevice('cuda')),
  );
}

for (const [shape, cut, tile, dtypes = [bf16, f16, f32, i8]] of CASES)
  for (const dtype of dtypes)
    for (const direction of dtype === i8 ? (['forward'] as const) : (['forward', 'input'] as const))
      testOf(`${direction} of ${shape.name}, ${dtype.name}`, shape, direction, cut, tile, dtype);

for (const dtype of [bf16, i8])
  testOf(
    `in parts, over edges, ${dtype.name}`,
    conv('', [3, 144, 16], [5, 7], 3, { padding: 1 }),
    'forward',
    [8, 8],
    { groups: 2, splits: 4 },
    dtype,
  );

/** A convolution of 3 × 3 with padding, of as many channels as it gives, as an H200 is asked for tiles. */
function tilesFor(count: number, channels: number, side: number, rest: Partial<Conv2dArg> = {}): string[] {
  const { arg } = conv('', [count, channels, channels], side, 3, { padding: 1 });
  const p = problemOf(
    { name: '', n: count, c: channels, o: channels, arg: { ...arg, ...rest } },
    'forward',
    bf16,
  );
  return warpgroupTiles(asProduct(p, false), H200).map((tile) => warpgroupName(tile, bf16));
}

test('patches come first where copies are the limit, and are not worth a try where they bring no less', () => {
  const isPatched = (name: string): boolean => name.includes('patches');
  for (const side of [32, 56]) assert.ok(isPatched(tilesFor(64, 64, side)[0]!));
  // Tensor cores are the limit.
  assert.ok(!isPatched(tilesFor(256, 128, 16)[0]!));
  // Half of each patch is over an edge; steps are not of one pixel; there is one tap in a column.
  const others = [
    tilesFor(4096, 64, 4),
    tilesFor(64, 64, 56, { stride: [1, 2] }),
    tilesFor(64, 64, 56, { kernel: [1, 3], padding: [0, 1] }),
  ];
  for (const names of others) assert.ok(names.length > 0 && !names.some(isPatched), `${names}`);
});

test('columns are summed where patches lie in memory one after the other: parts are of rows', () => {
  const plain: ColumnSums = {
    levels: [[0]],
    term: irFunction(([, v]) => v!),
    store: irFunction(([v]) => v!),
  };
  const waysOf = (side: number, sums: ColumnSums = plain) => {
    const p = problemOf(conv('', [64, 64, 64], side, 3, { padding: 1 }), 'forward', bf16);
    const sizes = { ...asProduct(p, false), sums };
    const made: [inOrder: boolean | undefined, isSummed: boolean][] = [];
    const ways = warpgroupWays(sizes, warpgroupTiles(sizes, H200), (tile, wanted) => {
      made.push([tile.patch?.inOrder, wanted !== undefined]);
      return { name: warpgroupName(tile, bf16), plan: () => [] };
    });
    return ways.map(({ name }, i) => ({ name, way: made[i]! }));
  };
  const summed = (side: number) => waysOf(side).map(({ way }) => way);
  for (const side of [32, 56]) {
    const ways = summed(side);
    assert.ok(ways.every(([inOrder, isSummed]) => !(isSummed && inOrder === false)));
    assert.ok(ways.some(([inOrder]) => inOrder === (side === 32)));
  }
  assert.deepEqual(summed(32)[0], [true, true]);
  assert.ok(summed(56).some(([inOrder, isSummed]) => inOrder === undefined && isSummed));
  // A launch behind the convolution is timed for sums that need others first.
  const apart = (sums: ColumnSums): boolean[] =>
    waysOf(32, sums).flatMap(({ name, way }) => (name.endsWith(', then sums') ? [way[1]] : []));
  assert.deepEqual(apart(plain), []);
  assert.deepEqual(apart({ ...plain, levels: [[0], [1, 2]] }), [false]);
});
