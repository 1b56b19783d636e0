/** Convolutions by warpgroups whose pixels come as patches, in the simulator: over edges, of several images, for every dtype. */
import { test } from 'node:test';
import { bf16, type DType, f16, f32, i8 } from '../../src/core/dtype.js';
import { outputSize } from '../../src/ops/conv2d/op.js';
import type { PixelPatch, WarpgroupTile } from '../../src/ops/matmul/warpgroup-layout.js';
import { type ConvolutionCase, conv } from './convolution-cases.js';
import { check, type Direction } from './convolution-check.js';

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
    conv('by turns', [5, 144, 16], [8, 8], 3, { padding: 1 }),
    [8, 8],
    { groups: 2, alternate: true },
    [bf16, i8],
  ],
];

for (const [shape, cut, tile, dtypes = [bf16, f16, f32, i8]] of CASES)
  for (const dtype of dtypes)
    for (const direction of dtype === i8 ? (['forward'] as const) : (['forward', 'input'] as const))
      test(`${direction} of ${shape.name}, ${dtype.name}`, () =>
        check(shape, direction, { ...small, ...tile, patch: patchFor(shape, direction, cut) }, dtype));

for (const dtype of [bf16, i8])
  test(`in parts, over edges, ${dtype.name}`, () => {
    const shape = conv('', [3, 144, 16], [5, 7], 3, { padding: 1 });
    check(
      shape,
      'forward',
      { ...small, groups: 2, splits: 4, patch: patchFor(shape, 'forward', [8, 8]) },
      dtype,
    );
  });
