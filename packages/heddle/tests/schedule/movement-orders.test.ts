/** What is padded, cut, turned, repeated or put together between convolutions stays in their order, and is the same to the bit. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { DType } from '../../src/core/dtype.js';
import { topological } from '../../src/core/node.js';
import { callOf } from '../../src/graph/fused-op.js';
import type { GraphNode } from '../../src/graph/node.js';
import {
  autocast,
  avgPool2d,
  bf16,
  cat,
  conv2d,
  device,
  f32,
  interpolate,
  manualSeed,
  nn,
  randn,
  realize,
  type Tensor,
  tensor,
  useDevice,
} from '../../src/index.js';
import { closeDevices } from '../../src/runtime/registry.js';
import { SIM_TARGET } from '../../src/runtime/sim/launch.js';
import { reordered } from '../../src/schedule/orders.js';
import { schedule } from '../../src/schedule/schedule.js';
import { Tensor as TensorOf } from '../../src/tensor/tensor.js';
import { assertClose } from '../close.js';

after(closeDevices);

const CHANNELS = 64;

/** A convolution of images and weights that are stored with channels last, which are what it is fastest on. */
function convolved(images: Tensor): Tensor {
  const weight = randn([CHANNELS, 1, 1, images.shape[1]!], { dtype: bf16 }).realize() as unknown as Tensor;
  return conv2d(images, weight.permute([0, 3, 1, 2]) as Tensor);
}

function stored(height: number, width: number): Tensor {
  const images = randn([2, height, width, CHANNELS], { dtype: bf16 }).realize() as unknown as Tensor;
  return images.permute([0, 3, 1, 2]) as Tensor;
}

const dataOf = async (node: GraphNode): Promise<number[]> => {
  const value = new TensorOf(node).cast(f32) as Tensor;
  realize(value);
  return Array.from(await value.data(), Number);
};

const nodesOf = (roots: readonly GraphNode[]): GraphNode[] =>
  topological(roots, (n) => (n.isLeaf ? [] : n.src));

const MOVEMENTS: Record<string, (x: Tensor) => Tensor> = {
  padding: (x) =>
    x.pad(
      [
        [0, 0],
        [0, 0],
        [1, 2],
        [0, 3],
      ],
      { value: 7 },
    ) as Tensor,
  'padding of channels': (x) =>
    x.pad([
      [0, 0],
      [8, 0],
      [0, 0],
      [0, 0],
    ]) as Tensor,
  slicing: (x) => x.at(':', '8:40', '1:', ':3') as Tensor,
  'every other row and column': (x) => x.at(':', ':', '::2', '1::2') as Tensor,
  flips: (x) => x.flip(1).flip(3) as Tensor,
  'a concatenation of channels': (x) => cat([x, x.mul(2)], 1) as Tensor,
  'a concatenation of rows': (x) => cat([x, x.neg(), x], 2) as Tensor,
  rolling: (x) => x.roll([1, 5], [2, 1]) as Tensor,
  repeats: (x) => x.repeat([1, 2, 1, 3]) as Tensor,
  'repeated pixels': (x) => interpolate(x, { scaleFactor: 2, mode: 'nearest' }) as Tensor,
  'repeated channels': (x) => x.repeatInterleave(2, 1) as Tensor,
  'windows side by side': (x) => avgPool2d(x, 2) as Tensor,
  'rows split and joined': (x) =>
    x.reshape([2, CHANNELS, 2, 2, 6]).neg().reshape([2, CHANNELS, 4, 6]) as Tensor,
};

for (const [name, move] of Object.entries(MOVEMENTS))
  test(`${name} between convolutions: nothing is converted, and the values are the same`, async () => {
    const { name: before } = device();
    useDevice('cpu');
    manualSeed(3);
    const x = convolved(stored(4, 6));
    const moved = move(x);
    const last = convolved(moved).permute([0, 2, 3, 1]) as Tensor;
    const images = [x, moved].map((t) => t.permute([0, 2, 3, 1]).node);
    const roots = reordered([...images, last.node], SIM_TARGET);
    const nodes = nodesOf(roots);
    const calls = nodes.flatMap((n) => (n.op === 'call' ? [callOf(n).op.name] : []));
    assert.equal(calls.filter((call) => call === 'conv2dChannelsLast').length, 2, calls.join());
    const permuted = nodes.filter((n) => n.op === 'permute').map((n) => String(n.shape));
    assert.deepEqual(permuted, []);
    const values = new TensorOf(roots[0]!).realize() as unknown as Tensor;
    const alone = move(values.permute([0, 3, 1, 2]) as Tensor).permute([0, 2, 3, 1]);
    assert.deepEqual(await dataOf(roots[1]!), await dataOf(alone.node));
    useDevice(before);
  });

/** A block of a DenseNet, whose images grow by the results of convolutions, a transition and another block. */
class Dense extends nn.Module {
  readonly first = new nn.Conv2d(16, 32, 3, { padding: 1, bias: false });
  readonly norms = [32, 48, 32].map((c) => new nn.BatchNorm2d(c));
  readonly convolutions = [
    new nn.Conv2d(32, 16, 3, { padding: 1, bias: false }),
    new nn.Conv2d(48, 32, 1, { bias: false }),
    new nn.Conv2d(32, 16, 3, { padding: 1, bias: false }),
  ];

  forward(x: Tensor): Tensor {
    const [a, b, c] = this.norms.map(
      (norm, i) => (y: Tensor) => this.convolutions[i]!.forward(norm.forward(y).relu() as Tensor),
    ) as [(y: Tensor) => Tensor, (y: Tensor) => Tensor, (y: Tensor) => Tensor];
    const grow = (y: Tensor, by: (y: Tensor) => Tensor): Tensor => cat([y, by(y)], 1) as Tensor;
    const grown = grow(this.first.forward(x), a);
    return grow(avgPool2d(b(grown), 2) as Tensor, c);
  }
}

/** The loss and the gradients of a step. */
function denseStep(model: Dense | Grown, dtype: DType): Tensor[] {
  const x = randn([2, 16, 12, 10]).realize() as unknown as Tensor;
  const lossOf = (): Tensor => model.forward(x).cast(f32).square().mean() as Tensor;
  const loss = dtype === bf16 ? (autocast(bf16, lossOf) as Tensor) : lossOf();
  loss.backward();
  return [loss.detach(), ...model.parameters().map((p) => p.grad!)] as Tensor[];
}

/** Few channels before and behind a convolution of many, and beside it. */
class Grown extends nn.Module {
  readonly narrow = new nn.Conv2d(16, 24, 1, { bias: false });
  readonly wide = new nn.Conv2d(24, 64, 1, { bias: false });
  readonly many = new nn.Conv2d(64, 64, 1, { bias: false });
  readonly last = new nn.Conv2d(88, 12, 1);

  forward(x: Tensor): Tensor {
    const y = this.narrow.forward(x).relu() as Tensor;
    const z = this.many.forward(this.wide.forward(y).relu() as Tensor).relu() as Tensor;
    return this.last.forward(cat([z, y], 1) as Tensor);
  }
}

for (const [Model, dtype, count] of [
  [Dense, bf16, 11],
  [Grown, f32, 11],
] as const)
  test(`a training step of ${Model.name} in ${dtype.name} has channels last throughout`, async () => {
    const { name } = device();
    useDevice('sim');
    const stepOf = (): Tensor[] => {
      manualSeed(11);
      return denseStep(new Model(), dtype);
    };
    const steps = stepOf();
    const names = schedule(
      steps.map((t) => t.node),
      SIM_TARGET,
    ).launches.flatMap(({ work }) => ('kernel' in work ? [work.kernel.name] : []));
    assert.equal(names.filter((n) => /^conv2d.*Warpgroups/.test(n)).length, count, names.join());
    // No image has its channels before its rows.
    assert.ok(!names.some((n) => /_2x(16|24|32|48|64|88)x/.test(n)), names.join());
    const actual = await Promise.all(steps.map((t) => dataOf(t.node)));
    useDevice('cpu');
    const expected = await Promise.all(stepOf().map((t) => dataOf(t.node)));
    expected.forEach((values, i) => {
      assertClose(actual[i]!, values, `result ${i}`, { relative: 2 ** -5, absolute: 2 ** -8 });
    });
    useDevice(name);
  });

/** Sums over all but the channels, of a tensor whose channels are stored last. */
const REDUCTIONS: Record<string, (x: Tensor) => Tensor> = {
  'a permuted tensor': (x) => x.sum([0, 2, 3]) as Tensor,
  'the largest of a permuted tensor': (x) => x.max([0, 2, 3]) as Tensor,
  'a function of two permuted tensors': (x) => x.mul(x.sin()).add(1).sum([0, 2, 3]) as Tensor,
  'a tensor that is permuted twice': (x) =>
    (x.neg() as Tensor).permute([1, 0, 3, 2]).sum([1, 2, 3]) as Tensor,
};

for (const [name, reduce] of Object.entries(REDUCTIONS))
  test(`a reduction of ${name} reads memory as it lies`, async () => {
    const { name: before } = device();
    useDevice('sim');
    manualSeed(5);
    const x = randn([2, 5, 4, 24]).realize() as unknown as Tensor;
    const result = reduce(x.permute([0, 3, 1, 2]) as Tensor);
    const reduced = nodesOf(reordered([result.node], SIM_TARGET)).filter((n) => n.op === 'reduce');
    assert.deepEqual(
      reduced.map(({ src }) => src[0]!.shape.at(-1)),
      [24],
    );
    const actual = await dataOf(result.node);
    useDevice('cpu');
    const values = tensor(await x.data(), { shape: x.shape }) as Tensor;
    assertClose(actual, await dataOf(reduce(values.permute([0, 3, 1, 2]) as Tensor).node), 'the result', {
      relative: 1e-5,
      absolute: 1e-5,
    });
    useDevice(before);
  });

test('a reduction whose result meets its elements again is computed with them', () => {
  const x = randn([8, 48]).realize().permute([1, 0]);
  const roots = [x.sub(x.max(1, { keepdim: true })).node];
  assert.deepEqual(
    nodesOf(reordered(roots, SIM_TARGET)).flatMap(({ op, src }) => (op === 'reduce' ? [src[0]!.shape] : [])),
    [[48, 8]],
  );
});

test('a reduction of what keeps its innermost dimension stays as it is', () => {
  const x = randn([8, 6, 48]).realize().permute([1, 0, 2]);
  const roots = [x.sum(1).node];
  assert.equal(reordered(roots, SIM_TARGET), roots);
});
