/** What is computed with its dimensions in another order is the same, and is converted at the ends only. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { topological } from '../../src/core/node.js';
import { callOf } from '../../src/graph/fused-op.js';
import type { GraphNode } from '../../src/graph/node.js';
import {
  autocast,
  bf16,
  conv2d,
  crossEntropy,
  device,
  f32,
  i32,
  linear,
  manualSeed,
  maxPool2d,
  nn,
  randint,
  randn,
  realize,
  relu,
  type Tensor,
  useDevice,
} from '../../src/index.js';
import { H200, type Target } from '../../src/kernel/ir/target.js';
import { closeDevices } from '../../src/runtime/registry.js';
import { SIM_TARGET } from '../../src/runtime/sim/launch.js';
import { reordered } from '../../src/schedule/orders.js';
import type { Tune } from '../../src/schedule/passes/tuning.js';
import { schedule } from '../../src/schedule/schedule.js';
import { Tensor as TensorOf } from '../../src/tensor/tensor.js';
import { assertClose } from '../close.js';

after(closeDevices);

/** A GPU with a library that has convolutions with channels last, of few channels, too. */
const WITH_LIBRARY: Target = { ...SIM_TARGET, libraries: new Set(['cudnn.convolution']) };

/** Convolutions with batch norm, a residual, three image channels, a stride and a layer that is not square. */
class Network extends nn.Module {
  readonly conv1 = new nn.Conv2d(3, 8, 3, { padding: 1 });
  readonly bn1 = new nn.BatchNorm2d(8);
  readonly conv2 = new nn.Conv2d(8, 8, [3, 1], { padding: [1, 0], bias: false });
  readonly bn2 = new nn.BatchNorm2d(8);
  readonly conv3 = new nn.Conv2d(8, 12, 3, { stride: 2, padding: 1 });
  readonly fc = new nn.Linear(12, 5);
  readonly isPooled: boolean;

  constructor(isPooled: boolean) {
    super();
    this.isPooled = isPooled;
  }

  forward(x: Tensor): Tensor {
    const first = relu(this.bn1.forward(this.conv1.forward(x)));
    const block = (y: Tensor): Tensor => relu(this.bn2.forward(this.conv2.forward(y)).add(y));
    const second = block(block(first));
    const pooled = this.isPooled ? maxPool2d(second, 2) : second;
    return this.fc.forward(this.conv3.forward(pooled).mean([2, 3]));
  }
}

/** Loss, gradients and running statistics of a step in mixed precision, not computed yet. */
function stepOf(isPooled: boolean): Tensor[] {
  manualSeed(5);
  const model = new Network(isPooled);
  const x = randn([4, 3, 12, 11]).realize();
  const labels = randint(0, 5, [4], { dtype: i32 }).realize();
  const loss = autocast(bf16, () => crossEntropy(model.forward(x), labels)) as Tensor;
  loss.backward();
  return [loss.detach(), ...model.parameters().map((p) => p.grad!), ...model.buffers()] as Tensor[];
}

const callsOf = (roots: readonly GraphNode[]): string[] =>
  topological(roots, (n) => (n.isLeaf ? [] : n.src)).flatMap((n) =>
    n.op === 'call' ? [callOf(n).op.name] : [],
  );

const valuesOf = async (roots: readonly GraphNode[]): Promise<number[][]> => {
  const results = roots.map((root) => new TensorOf(root));
  realize(...results);
  return Promise.all(results.map(async (result) => Array.from(await result.data(), Number)));
};

/** Sums of another order round a bf16 to its neighbour here and there. */
const assertSame = (actual: number[][], expected: number[][]): void =>
  expected.forEach((values, i) => {
    assertClose(actual[i]!, values, `result ${i}`, { relative: 2 ** -6, absolute: 2 ** -8 });
  });

for (const isPooled of [false, true])
  test(`a training step ${isPooled ? 'with' : 'without'} pooling gives the same with channels last`, async () => {
    const roots = stepOf(isPooled).map((t) => t.node);
    const others = reordered(roots, WITH_LIBRARY);
    assert.ok(callsOf(others).some((name) => /ChannelsLast/.test(name)));
    const [expected, actual] = [await valuesOf(roots), await valuesOf(others)];
    assertSame(actual, expected);
  });

test('the library does all convolutions of the step, with channels last', () => {
  const tune: Tune = (requests) =>
    requests.map(({ variants }) => variants.find(({ name }) => name.startsWith('cudnn'))?.name);
  const roots = stepOf(false).map((t) => t.node);
  const { launches } = schedule(roots, WITH_LIBRARY, { tune });
  const routines = launches.flatMap(({ work }) => ('library' in work ? [work.library.options] : []));
  assert.equal(routines.length, 11);
  assert.ok(routines.every(({ layout, dtype }) => layout === 'NHWC' && dtype === 'bf16'));
});

test('one convolution alone stays as it is: converting it would cost more than it gains', () => {
  const x = randn([2, 8, 6, 6]).cast(bf16).realize();
  const conv = new nn.Conv2d(8, 8, 3, { bias: false });
  const roots = [autocast(bf16, () => conv.forward(x)).node];
  assert.equal(reordered(roots, WITH_LIBRARY), roots);
});

test('weights that are constant are converted once: they keep no convolution from channels last', () => {
  const x = randn([1, 64, 7, 7]).cast(bf16).realize();
  const weights = [1, 2].map(() => randn([64, 64, 3, 3]).cast(bf16).realize() as unknown as Tensor);
  const [first, second] = weights as [Tensor, Tensor];
  const y = conv2d(relu(conv2d(x as unknown as Tensor, first)), second);
  const leaves = weights.map((w) => w.node);
  assert.ok(!callsOf(reordered([y.node], SIM_TARGET)).includes('conv2dChannelsLast'));
  assert.ok(!callsOf(reordered([y.node], SIM_TARGET, new Set(leaves))).includes('conv2d'));
  const constants = new Set([1, 2]);
  const { before, launches } = schedule([y.node], SIM_TARGET, { constants });
  assert.equal(before!.launches.length, 2);
  const names = launches.flatMap(({ work }) => ('kernel' in work ? [work.kernel.name] : []));
  assert.equal(names.filter((name) => /^conv2dWarpgroups/.test(name)).length, 2, names.join());
});

test('where only dimensions of size 1 change places nothing moves: one launch takes the mean and rounds it', () => {
  const of = (...shape: number[]): Tensor => randn(shape).cast(bf16).realize() as unknown as Tensor;
  const [x, first, second, last] = [of(1, 64, 7, 7), of(64, 64, 3, 3), of(64, 64, 3, 3), of(16, 64)] as const;
  const mean = conv2d(relu(conv2d(x, first)), second).mean([2, 3]);
  const { launches } = schedule([linear(mean, last).node], SIM_TARGET, { constants: new Set([1, 2, 3]) });
  const names = launches.flatMap(({ work }) => ('kernel' in work ? [work.kernel.name] : []));
  const behind = names.slice(names.findLastIndex((name) => name.startsWith('conv2d')) + 1);
  const product = behind.findIndex((name) => name.startsWith('matmulBf16'));
  assert.equal(behind.slice(0, product).filter((name) => !name.endsWith('Sum')).length, 1, names.join());
});

test('without such a library few channels keep their order, and many are convolved by own kernels', () => {
  const roots = stepOf(false).map((t) => t.node);
  assert.equal(reordered(roots, SIM_TARGET), roots);
  const first = new nn.Conv2d(3, 64, 3, { padding: 1, bias: false });
  const second = new nn.Conv2d(64, 16, 3, { padding: 1, bias: false });
  const x = randn([8, 3, 16, 16]).cast(bf16).realize();
  const loss = autocast(bf16, () => second.forward(relu(first.forward(x))).sum()) as Tensor;
  loss.backward();
  const gradients = [first.weight, second.weight].map((p) => p.grad!.node);
  const names = schedule(gradients, SIM_TARGET).launches.flatMap(({ work }) =>
    'kernel' in work ? [work.kernel.name.replace(/_.*|Parts$/, '')] : [],
  );
  const convolutions = names.filter((name) => /^conv2d/.test(name)).sort();
  const byWarpgroups = ['conv2dInputWarpgroups', 'conv2dWarpgroups', 'conv2dWeightWarpgroups'];
  assert.deepEqual(convolutions, [...byWarpgroups, 'conv2dWeightWarpgroups']);
});

/** The loss of two convolutions with max pooling between them, and the gradients of the weights. */
function pooledStep(): Tensor[] {
  manualSeed(7);
  const first = new nn.Conv2d(16, 32, 1, { bias: false });
  const norm = new nn.BatchNorm2d(32);
  const second = new nn.Conv2d(32, 16, 1, { bias: false });
  const x = randn([4, 16, 15, 13]).realize();
  const loss = autocast(bf16, () => {
    const pooled = maxPool2d(relu(norm.forward(first.forward(x))), 3, { stride: 2, padding: 1 });
    return second.forward(pooled).square().mean();
  }) as Tensor;
  loss.backward();
  return [loss.detach(), ...[first, norm, second].flatMap((m) => m.parameters().map((p) => p.grad!))];
}

test('max pooling follows the order of a convolution, forward and backward', async () => {
  const { name } = device();
  useDevice('sim');
  const roots = pooledStep().map((t) => t.node);
  const names = schedule(roots, SIM_TARGET).launches.flatMap(({ work }) =>
    'kernel' in work ? [work.kernel.name] : [],
  );
  const pools = ['maxPool2d', 'maxPool2dPositions', 'maxPool2dGradient'];
  assert.ok([...pools, 'conv2dInputWarpgroups'].every((kernel) => names.some((n) => n.startsWith(kernel))));
  // No image has its 32 channels before its pixels, and no window is in memory.
  assert.ok(!names.some((n) => /_4x32x|x9\b/.test(n)), names.join());
  const actual = await valuesOf(roots);
  useDevice('cpu');
  assertSame(actual, await valuesOf(pooledStep().map((t) => t.node)));
  useDevice(name);
});

/** The loss of an inverted residual as MobileNetV2 has it, the gradients of its parameters and its running statistics. */
function invertedResidualStep(): Tensor[] {
  manualSeed(9);
  const [narrow, wide] = [16, 48];
  const model = new nn.Sequential(
    ...[new nn.Conv2d(narrow, wide, 1, { bias: false }), new nn.BatchNorm2d(wide), new nn.ReLU6()],
    new nn.Conv2d(wide, wide, 3, { padding: 1, groups: wide, bias: false }),
    ...[new nn.BatchNorm2d(wide), new nn.ReLU6()],
    ...[new nn.Conv2d(wide, narrow, 1, { bias: false }), new nn.BatchNorm2d(narrow)],
  );
  const x = randn([2, narrow, 9, 7]).realize();
  const loss = autocast(bf16, () => model.forward(x).add(x).square().mean()) as Tensor;
  loss.backward();
  return [loss.detach(), ...model.parameters().map((p) => p.grad!), ...model.buffers()] as Tensor[];
}

test('a training step of an inverted residual has its channels last throughout', async () => {
  const { name } = device();
  useDevice('sim');
  const roots = invertedResidualStep().map((t) => t.node);
  const names = schedule(roots, SIM_TARGET).launches.flatMap(({ work }) =>
    'kernel' in work ? [work.kernel.name] : [],
  );
  for (const kernel of ['conv2dDepthwiseLast', 'conv2dInputDepthwiseLast', 'conv2dWeightDepthwiseLast'])
    assert.equal(names.filter((n) => n.startsWith(kernel)).length, 1, names.join());
  assert.ok(!names.some((n) => /permute|_2x48x/.test(n)), names.join());
  const actual = await valuesOf(roots);
  useDevice('cpu');
  assertSame(actual, await valuesOf(invertedResidualStep().map((t) => t.node)));
  useDevice(name);
});

/** A convolution of images and weights that are stored with their channels last, and both gradients. */
function storedLast(dtype: typeof bf16 | typeof f32): Tensor[] {
  manualSeed(3);
  const stored = (...shape: number[]): Tensor => randn(shape, { dtype, requiresGrad: true }).realize();
  const [x, w] = [stored(1, 5, 6, 64), stored(72, 3, 3, 64)];
  const first = (t: Tensor): Tensor => t.permute([0, 3, 1, 2]);
  const y = conv2d(first(x), first(w), undefined, { padding: 1 }).permute([0, 2, 3, 1]);
  y.square().sum().backward();
  return [y.detach(), x.grad!, w.grad!];
}

for (const dtype of [bf16, f32])
  test(`a convolution of ${dtype.name} whose operands are stored so converts no image`, async () => {
    const { name } = device();
    useDevice('sim');
    const roots = storedLast(dtype).map((t) => t.node);
    const names = schedule(roots, SIM_TARGET).launches.flatMap(({ work }) =>
      'kernel' in work ? [work.kernel.name] : [],
    );
    assert.equal(names.filter((n) => /^conv2d.*Warpgroups/.test(n)).length, 3);
    // The input gradient in f32 takes its weights in an order of their own.
    assert.equal(names.filter((n) => /permute/.test(n)).length, dtype === f32 ? 1 : 0, names.join());
    const actual = await valuesOf(roots);
    useDevice('cpu');
    assertSame(actual, await valuesOf(storedLast(dtype).map((t) => t.node)));
    useDevice(name);
  });

test('the gradient of a mean over the image is summed in the order of the convolution before it', () => {
  const x = randn([8, 3, 8, 8]).realize();
  const convolutions = [3, 64, 64].map((c) => new nn.Conv2d(c, 64, 3, { padding: 1, bias: false }));
  const [norm, fc] = [new nn.BatchNorm2d(64), new nn.Linear(64, 5)];
  const model = new nn.Sequential(...convolutions, norm, new nn.ReLU());
  autocast(bf16, () => fc.forward(model.forward(x).mean([2, 3])).sum()).backward();
  const gradients = [...model.parameters(), ...fc.parameters()].map(({ grad }) => grad!.node);
  const nodes = topological(reordered(gradients, WITH_LIBRARY), (n) => (n.isLeaf ? [] : n.src));
  const summed = nodes.flatMap((n) => (n.op === 'reduce' ? [String(n.src[0]!.shape)] : []));
  assert.ok(!summed.includes('8,64,8,8'), summed.join('; '));
  assert.ok(summed.includes('8,8,8,64'), summed.join('; '));
});

test('max pooling alone stays as it is', () => {
  const x = randn([4, 16, 15, 13]).cast(bf16);
  const roots = [maxPool2d(x, 3, { stride: 2 }).node];
  assert.equal(reordered(roots, SIM_TARGET), roots);
});

test('the device of the tests agrees with the CPU, in whatever order it computes', async () => {
  const { name } = device();
  const actual = await valuesOf(stepOf(true).map((t) => t.node));
  useDevice('cpu');
  const expected = await valuesOf(stepOf(true).map((t) => t.node));
  useDevice(name);
  assertSame(actual, expected);
});

test('a convolution by itself is converted where that takes less than warpgroups save', () => {
  const own: Target = { ...H200, libraries: new Set() };
  const isConverted = (channels: number, side: number): boolean => {
    const images = randn([64, channels, side, side], { dtype: bf16 }).realize();
    const weight = randn([channels, channels, 3, 3], { dtype: bf16 }).realize();
    const roots = [conv2d(images, weight, undefined, { padding: 1 }).node];
    return reordered(roots, own) !== roots;
  };
  assert.ok(isConverted(256, 16), 'many products for each element');
  assert.ok(!isConverted(32, 16), 'few products for each element');
  assert.ok(!isConverted(256, 1), 'little work');
});
