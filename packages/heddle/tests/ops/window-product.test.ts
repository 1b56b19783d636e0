/** Convolutions whose windows lie side by side, and their gradients, as matrix products: their values, plans and epilogues. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { bf16, type DType, f16, f32 } from '../../src/core/dtype.js';
import { call, leaf, permute } from '../../src/graph/build.js';
import type { FusedOp } from '../../src/graph/fused-op.js';
import type { GraphNode } from '../../src/graph/node.js';
import {
  autocast,
  conv1d,
  conv2d,
  conv3d,
  device,
  gelu,
  manualSeed,
  nn,
  randn,
  realize,
  type Tensor,
  useDevice,
} from '../../src/index.js';
import { H200, type Target } from '../../src/kernel/ir/target.js';
import type { Direction } from '../../src/ops/conv2d/arg.js';
import {
  type Conv2dArg,
  conv2dInputOp,
  conv2dOp,
  conv2dWeightOp,
  outputSize,
} from '../../src/ops/conv2d/op.js';
import { windowProduct } from '../../src/ops/conv2d/window-product.js';
import { matmul } from '../../src/ops/matmul/op.js';
import { closeDevices } from '../../src/runtime/registry.js';
import { SIM_TARGET } from '../../src/runtime/sim/launch.js';
import { schedule } from '../../src/schedule/schedule.js';
import { interpret } from '../cases/reference.js';
import { assertClose } from '../close.js';
import { noise } from '../kernel/harness.js';
import { type ConvolutionCase, conv } from './convolution-cases.js';

after(closeDevices);

type Call = readonly [FusedOp<Conv2dArg>, Direction, readonly GraphNode[]];

/** The convolution and both gradients. */
function callsOf({ n, c, o, arg }: ConvolutionCase, dtype: DType): readonly Call[] {
  const x = leaf([n, c, ...arg.size], dtype);
  const w = leaf([o, c / arg.groups, ...arg.kernel], dtype);
  const y = leaf([n, o, ...outputSize(arg)], dtype);
  return [
    [conv2dOp, 'forward', [x, w]],
    [conv2dInputOp, 'input', [y, w]],
    [conv2dWeightOp, 'weight', [x, y]],
  ];
}

/** Whole numbers, so that sums are exact in any order. */
const whole = ({ size }: GraphNode, seed: number): number[] =>
  Array.from(noise(size, seed), (v) => Math.round(3 * v));

const CASES: readonly ConvolutionCase[] = [
  conv('4×4 of 3 channels', [2, 3, 16], [8, 12], 4, { stride: 4 }),
  conv('pixels left over', [2, 3, 8], [9, 11], 3, { stride: 3 }),
  conv('2×5 of 1 channel to 5', [3, 1, 5], [6, 14], [2, 5], { stride: [2, 5] }),
  conv('rows of 1×4', [2, 5, 12], [1, 17], [1, 4], { stride: [1, 4] }),
  conv('one window, dilated along a side of 1', [2, 4, 8], [5, 3], [1, 3], {
    stride: [1, 3],
    dilation: [2, 1],
  }),
];

for (const shape of CASES)
  test(`the product of windows of ${shape.name} is the convolution, and so are those of the gradients`, () => {
    for (const dtype of [f32, f16, bf16])
      for (const [op, direction, sources] of callsOf(shape, dtype)) {
        const { arg } = shape;
        const way = windowProduct(H200, call(op, sources, arg), arg, direction, matmul)!;
        const made = way.make(sources.map((s, i) => permute(s, way.sources![i]!)));
        const given = new Map(sources.map((s, i) => [s, whole(s, i)]));
        const plain = interpret(permute(op.compose(sources, arg), way.order), given);
        assert.deepEqual(interpret(made, given), plain, `${direction}, ${dtype.name}`);
      }
  });

/** Whether each of the three is computed as a product of windows. */
const areProducts = (shape: ConvolutionCase, dtype: DType, target: Target = H200): boolean[] =>
  callsOf(shape, dtype).map(([op, , sources]) => {
    const way = op.reordered!(target, call(op, sources, shape.arg), shape.arg);
    return way?.sources !== undefined;
  });

test('windows are multiplied where that takes less, by the model of the machine', () => {
  const patches = (count: number, c: number, o: number, side: number, kernel: number, rest = {}) =>
    conv('', [count, c, o], side, kernel, { stride: kernel, ...rest });
  const [all, none] = [
    [true, true, true],
    [false, false, false],
  ];
  for (const dtype of [bf16, f16, f32]) {
    assert.deepEqual(
      areProducts(patches(64, 3, 384, 224, 16), dtype),
      all,
      'patches of a vision transformer',
    );
    assert.deepEqual(areProducts(patches(64, 3, 96, 224, 4), dtype), all, 'the stem of ConvNeXt');
    assert.deepEqual(areProducts(patches(64, 96, 192, 56, 2), dtype), none, 'channels that lie side by side');
    const others = [{ padding: 1 }, { stride: 8 }, { dilation: 2 }];
    for (const rest of others) assert.deepEqual(areProducts(patches(64, 3, 96, 224, 16, rest), dtype), none);
    assert.deepEqual(areProducts(patches(64, 6, 96, 224, 16, { groups: 2 }), dtype), none, 'groups');
  }
  // Of a few images the pass takes longer than the convolution.
  assert.deepEqual(areProducts(patches(2, 1, 8, 8, 4), f32).slice(0, 1), [false]);
  assert.deepEqual(areProducts(patches(64, 3, 384, 224, 16), bf16, { ...H200, model: 'blocks' }), none);
});

const kernelsOf = (roots: readonly Tensor[], target: Target): string[] =>
  schedule(
    roots.map(({ node }) => node),
    target,
  ).launches.flatMap(({ work }) => ('kernel' in work ? [work.kernel.name] : []));

test('the products of patches run by warpgroups in each direction, and have the epilogue', () => {
  const layer = new nn.Conv2d(3, 384, 16, { stride: 16 });
  const x = randn([64, 3, 224, 224]).realize();
  const places = randn([196, 384]).realize();
  const y = autocast(bf16, () => gelu(layer.forward(x))) as Tensor;
  assert.deepEqual(
    kernelsOf([y.cast(f32).flatten(2).transpose(1, 2).add(places)], H200).filter(
      (name) => !/^map/.test(name),
    ),
    ['permute_64x14x14x3x16x16', 'matmulWarpgroups'],
  );
  const images = randn([64, 3, 224, 224], { requiresGrad: true }).realize();
  (autocast(bf16, () => layer.forward(images).square().sum()) as Tensor).backward();
  const gradients = kernelsOf([layer.weight.grad, images.grad] as Tensor[], H200);
  assert.equal(gradients.filter((name) => name.startsWith('matmulWarpgroups')).length, 3, gradients.join());
  assert.ok(!gradients.some((name) => name.startsWith('conv')), gradients.join());
});

test('the statistics of a batch norm are summed where the product stores', () => {
  const [layer, norm] = [new nn.Conv2d(3, 128, 8, { stride: 8, bias: false }), new nn.BatchNorm2d(128)];
  const x = randn([64, 3, 128, 128]).realize();
  const y = autocast(bf16, () => norm.forward(layer.forward(x))) as Tensor;
  const names = kernelsOf([y], H200);
  assert.ok(names.includes('matmulWarpgroups') && !names.some((name) => /reduce/.test(name)), names.join());
});

/** Values of a network of such a layer, and the gradients of its weights and of the images. */
async function stepOf(on: string, dtype: DType, layer: (x: Tensor, w: Tensor) => Tensor, shapes: number[][]) {
  const { name } = device();
  useDevice(on);
  manualSeed(3);
  const [x, w] = shapes.map((shape) => randn(shape, { requiresGrad: true })) as [Tensor, Tensor];
  const cast = (t: Tensor): Tensor => t.cast(dtype as typeof f32);
  const y = gelu(layer(cast(x), cast(w)));
  y.square().sum().backward();
  const results = [y, x.grad!, w.grad!].map((t) => t.cast(f32)) as Tensor[];
  const kernels = on === 'sim' ? kernelsOf(results, SIM_TARGET) : [];
  realize(...results);
  const values = await Promise.all(results.map(async (t) => Array.from(await t.data(), Number)));
  useDevice(name);
  return { values, kernels };
}

const LAYERS: readonly (readonly [string, (x: Tensor, w: Tensor) => Tensor, number[][]])[] = [
  [
    'conv2d',
    (x, w) => conv2d(x, w, undefined, { stride: 8 }),
    [
      [4, 3, 51, 40],
      [72, 3, 8, 8],
    ],
  ],
  [
    'conv1d',
    (x, w) => conv1d(x, w, undefined, { stride: 40 }),
    [
      [8, 3, 2007],
      [64, 3, 40],
    ],
  ],
  [
    'conv3d',
    (x, w) => conv3d(x, w, undefined, { stride: [2, 8, 8] }),
    [
      [2, 1, 5, 40, 43],
      [64, 1, 2, 8, 8],
    ],
  ],
];

for (const [name, layer, shapes] of LAYERS)
  for (const dtype of [f32, f16, bf16])
    test(`${name} of windows in ${dtype.name} and its gradients are on a GPU what they are on the CPU`, async () => {
      const [expected, actual] = [
        await stepOf('cpu', dtype, layer, shapes),
        await stepOf('sim', dtype, layer, shapes),
      ];
      assert.ok(actual.kernels.filter((kernel) => /^matmul/.test(kernel)).length >= 3, actual.kernels.join());
      assert.ok(!actual.kernels.some((kernel) => /^conv/.test(kernel)), actual.kernels.join());
      const unit = dtype === bf16 ? 2 ** -7 : 2 ** -9;
      for (const [i, values] of expected.values.entries()) {
        const scale = Math.max(...values.map(Math.abs));
        assertClose(actual.values[i]!, values, `result ${i}`, { relative: 2 * unit, absolute: unit * scale });
      }
    });
