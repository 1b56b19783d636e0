/** Convolutions of any shape in the simulator, each by any of its variants, beside the composition in f64. */
import { after } from 'node:test';
import fc from 'fast-check';
import { bf16, type DType, f16, f32 } from '../../src/core/dtype.js';
import type { Precision } from '../../src/core/precision.js';
import * as b from '../../src/graph/build.js';
import { callOf } from '../../src/graph/fused-op.js';
import type { GraphNode } from '../../src/graph/node.js';
import { conv2d, conv2dInputOp, conv2dWeightOp } from '../../src/ops/conv2d/op.js';
import { closeDevices } from '../../src/runtime/registry.js';
import { property } from '../property.js';
import type { Direction } from './convolution-check.js';
import { type Built, requireAnyVariant } from './random-variants.js';

after(closeDevices);

/** What is computed, and in what. */
const KINDS: readonly { readonly dtype: DType; readonly precision: Precision }[] = [
  { dtype: bf16, precision: 'f32' },
  { dtype: f16, precision: 'f32' },
  { dtype: f32, precision: 'tf32' },
  { dtype: f32, precision: 'f32' },
];

const sides = (least: number, most: number): fc.Arbitrary<[number, number]> =>
  fc.tuple(fc.integer({ min: least, max: most }), fc.integer({ min: least, max: most }));

const convolution = fc.record({
  direction: fc.constantFrom<Direction>('forward', 'input', 'weight'),
  kind: fc.constantFrom(...KINDS),
  images: fc.integer({ min: 1, max: 3 }),
  /** Of a group. */
  inputs: fc.constantFrom(1, 3, 8, 16, 24, 32, 64, 72),
  outputs: fc.constantFrom(1, 2, 8, 16, 24, 64, 72, 136),
  groups: fc.constantFrom(1, 1, 1, 1, 2, 3),
  size: sides(1, 17),
  kernel: fc.oneof(fc.constant<[number, number]>([3, 3]), sides(1, 4)),
  stride: fc.oneof({ arbitrary: fc.constant<[number, number]>([1, 1]), weight: 2 }, sides(1, 3)),
  dilation: fc.oneof({ arbitrary: fc.constant<[number, number]>([1, 1]), weight: 3 }, sides(1, 2)),
  padding: sides(0, 2),
  /** Whether channels come last in memory. */
  last: fc.constantFrom(true, true, false),
  /** By a bias and a ReLU, or by sums over images, as a batch norm has them. */
  followed: fc.constantFrom('nothing', 'bias', 'sums'),
  /** Which of the variants. */
  pick: fc.nat(1000),
});
type Convolution = typeof convolution extends fc.Arbitrary<infer T> ? T : never;

/** What failed once. */
const FOUND: readonly [Convolution][] = [
  // Groups that are one bundle, of channels that are not aligned.
  [
    {
      ...{ direction: 'weight', kind: KINDS[0]!, images: 1, inputs: 3, outputs: 72, groups: 2, size: [1, 1] },
      ...{
        kernel: [1, 1],
        stride: [1, 1],
        dilation: [1, 1],
        padding: [0, 0],
        last: true,
        followed: 'nothing',
      },
      pick: 0,
    },
  ],
];

function built(c: Convolution, dtype: DType): Built {
  const { direction, kind, images, groups, kernel, stride, dilation, padding, last, followed } = c;
  const [inputs, outputs] = [groups * c.inputs, groups * c.outputs];
  const leaves: GraphNode[] = [];
  const leaf = (shape: readonly number[], ordered = false): GraphNode => {
    const [n, ch, h, w] = shape;
    const made = b.leaf(ordered ? [n!, h!, w!, ch!] : shape, dtype);
    leaves.push(made);
    return ordered ? b.permute(made, [0, 3, 1, 2]) : made;
  };
  const x = leaf([images, inputs, ...c.size], last);
  const w = leaf([outputs, c.inputs, ...kernel]);
  const y = conv2d(x, w, { stride, dilation, padding, groups, precision: kind.precision });
  let root = y;
  if (direction !== 'forward') {
    const { arg } = callOf(y);
    const g = leaf(y.shape, last);
    // The source that is not used goes.
    leaves.splice(direction === 'input' ? 0 : 1, 1);
    if (direction === 'input') leaves.reverse();
    root =
      direction === 'input'
        ? b.call(conv2dInputOp, [g, w], arg as never)
        : b.call(conv2dWeightOp, [x, g], arg as never);
  }
  if (followed === 'nothing') return { leaves, roots: [root] };
  if (followed === 'sums') {
    const wide = b.wide(root);
    return { leaves, roots: [root, b.sum(wide, [0, 2, 3]), b.sum(b.mul(wide, wide), [0, 2, 3])] };
  }
  const bias = leaf([root.shape[1]!]);
  const sum = b.add(root, b.expand(b.reshape(bias, [1, root.shape[1]!, 1, 1]), root.shape));
  return { leaves, roots: [b.map('max', sum, b.full(root.shape, dtype, 0))] };
}

property(
  'sim: a convolution is what its composition is, by any variant',
  [convolution],
  async (c) => {
    const { size, kernel, dilation, padding, kind, direction, pick } = c;
    fc.pre([0, 1].every((i) => size[i]! + 2 * padding[i]! > (kernel[i]! - 1) * dilation[i]!));
    const pixels = c.images * (size[0] + 2 * padding[0]) * (size[1] + 2 * padding[1]);
    const terms = {
      forward: c.inputs * kernel[0] * kernel[1],
      input: c.outputs * kernel[0] * kernel[1],
      weight: pixels,
    }[direction];
    await requireAnyVariant((dtype) => built(c, dtype), kind.dtype, { pick, terms: terms + pixels });
  },
  { runs: 12, found: FOUND, share: 5 },
);
