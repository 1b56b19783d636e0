/** Networks of grouped convolutions: planned for an H200, and run in the simulator, which detects races. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bf16, f32 } from '../../src/core/dtype.js';
import {
  autocast,
  batchNorm,
  conv2d,
  grad,
  jit,
  optim,
  type Tensor,
  tensor,
  useDevice,
  zeros,
} from '../../src/index.js';
import { H200, type Target } from '../../src/kernel/ir/target.js';
import { dequantizeLinear, quantizeLinear } from '../../src/quantization/index.js';
import { openDevice } from '../../src/runtime/registry.js';
import type { ScheduledLaunch } from '../../src/schedule/launch.js';
import { both, launchesOf, normal, valuesOf, worstOf } from './beside-cpu.js';

// Every pass of the scheduler is verified.
process.env.HEDDLE_CHECK = '1';

const target: Target = { ...H200, libraries: new Set<string>(), units: 8 };
Object.defineProperty(openDevice('sim'), 'target', { value: target });
useDevice('sim');

const namesOf = (launches: readonly ScheduledLaunch[]): string[] =>
  launches.flatMap(({ work }) => ('kernel' in work ? [work.kernel.name] : []));

/** Kernels by warpgroups that sum columns besides. */
const summing = (launches: readonly ScheduledLaunch[]): number =>
  launches.filter(
    ({ work }) =>
      'kernel' in work &&
      /Warpgroups/.test(work.kernel.name) &&
      work.kernel.params.some(({ name }) => name.startsWith('sums')),
  ).length;

const GROUPS = 16;
const CHANNELS = 128;

/**
 * A block of ResNeXt: its grouped convolution is between two others, with batch norms behind both and a residual. Without activations,
 * which rounding may turn on or off.
 */
function block(x: Tensor, u: Tensor, w: Tensor, v: Tensor, weight: Tensor, bias: Tensor): Tensor {
  const normed = (y: Tensor): Tensor =>
    batchNorm(y, zeros([CHANNELS]), zeros([CHANNELS]), { weight, bias, training: true });
  const inner = normed(conv2d(normed(conv2d(x, u)), w, undefined, { padding: 1, groups: GROUPS }));
  return conv2d(inner, v).add(x);
}

const sourcesOf = (images: number, side: number): Tensor[] => [
  normal(f32, [images, CHANNELS, side, side], 1),
  normal(f32, [CHANNELS, CHANNELS, 1, 1], 0.1),
  normal(f32, [CHANNELS, CHANNELS / GROUPS, 3, 3]),
  normal(f32, [CHANNELS, CHANNELS, 1, 1], 0.1),
  normal(f32, [CHANNELS], 1),
  normal(f32, [CHANNELS], 1),
];

/** The gradients of all sources, of products in 16 bits or in tf32. */
const gradients =
  (isHalf: boolean) =>
  (...sources: Tensor[]): Tensor[] => {
    const loss = (...t: Tensor[]): Tensor =>
      block(...(t as Parameters<typeof block>))
        .square()
        .mean();
    const cast = (...t: Tensor[]): Tensor => (isHalf ? autocast(bf16, () => loss(...t)) : loss(...t));
    return grad(cast, { argnums: [0, 1, 2, 3, 4, 5] })(...sources) as Tensor[];
  };

for (const [name, isHalf] of [
  ['bf16', true],
  ['tf32', false],
] as const)
  test(`gradients of a block with a grouped convolution, ${name}`, async () => {
    const results = await both(gradients(isHalf), sourcesOf(1, 8));
    for (const [i, pair] of results.entries())
      assert.ok(worstOf(pair) < (isHalf ? 2 ** -4 : 2 ** -8), `${i}: ${worstOf(pair)}`);
  });

test('mean and variance of a grouped convolution, summed where it is stored', async () => {
  // Groups of 40 fill no tile.
  const sources = [
    normal(bf16, [2, 64, 16, 16]),
    normal(bf16, [128, 64, 1, 1]),
    normal(bf16, [120, 128 / 2, 1, 1]),
    normal(bf16, [120, 120 / 3, 1, 1]),
  ];
  const statistics = (x: Tensor, ...filters: Tensor[]): Tensor[] => {
    const through = filters.reduce((y, w, i) => conv2d(y, w, undefined, { groups: [1, 2, 3][i]! }), x);
    const y = through.cast(f32).add(4).cast(bf16).cast(f32);
    return [y.mean([0, 2, 3]), y.variance([0, 2, 3])];
  };
  assert.equal(summing(launchesOf(statistics(...(sources as [Tensor, Tensor])), target)), 1);
  const [mean, variance] = await both(statistics as never, sources);
  assert.ok(worstOf(mean!) < 2 ** -9, `${worstOf(mean!)}`);
  assert.ok(worstOf(variance!) < 2 ** -6, `${worstOf(variance!)}`);
});

test('a grouped convolution sums the columns of its batch norm, and all of it has channels last', () => {
  const launches = launchesOf(gradients(true)(...sourcesOf(8, 16)), { ...target, units: H200.units });
  const names = namesOf(launches);
  const count = (name: RegExp): number => names.filter((n) => name.test(n)).length;
  // Of each direction three: no kernel of another kind computes a convolution.
  assert.deepEqual(
    [/^conv2dWarpgroups/, /^conv2dInputWarpgroups/, /^conv2dWeightWarpgroups/].map(count),
    [3, 3, 3],
    `${names}`,
  );
  assert.equal(count(/^conv2d/), 9, `${names}`);
  // Both batch norms, forward and backward.
  assert.equal(summing(launches), 4, `${names}`);
});

test('bytes in groups', async () => {
  const scale = (v: number): Tensor => zeros([]).add(v);
  const rounded = (t: Tensor, by: number): Tensor =>
    dequantizeLinear(quantizeLinear(t, scale(by)), scale(by));
  const ofBytes = (x: Tensor, w: Tensor): Tensor[] => [
    conv2d(rounded(x, 0.05), rounded(w, 0.01), undefined, { padding: 1, groups: 4 }),
  ];
  const sources = [normal(f32, [1, 128, 6, 5], 1), normal(f32, [128, 32, 3, 3])];
  assert.ok(
    namesOf(launchesOf(ofBytes(...(sources as [Tensor, Tensor])), target)).includes('conv2dWarpgroups'),
  );
  const [pair] = await both(ofBytes as never, sources);
  assert.ok(worstOf(pair!) < 1e-6, `${worstOf(pair!)}`);
});

test('filters are updated in place where warpgroups compute their gradients', async () => {
  const [N, SIDE, C] = [2, 6, 64];
  const shapes = [
    [C, C, 1, 1],
    [C, C / GROUPS, 3, 3],
    [C, C, 1, 1],
  ];
  // Images come in with channels last.
  const [given, ...initial] = await valuesOf([
    normal(f32, [N, SIDE, SIDE, C], 1),
    ...shapes.map((shape) => normal(f32, shape)),
  ]);
  const normed = (y: Tensor): Tensor => batchNorm(y, zeros([C]), zeros([C]), { training: true });
  const trained = async (device: 'sim' | 'cpu'): Promise<Float32Array[]> => {
    useDevice(device);
    const images = tensor(given!, { shape: [N, SIDE, SIDE, C] });
    const filters = shapes.map((shape, i) => tensor(initial[i]!, { shape, requiresGrad: true }) as Tensor);
    const optimizer = new optim.SGD(filters, { lr: 0.1, momentum: 0.9 });
    const step = jit(() => {
      const [u, w, v] = filters as [Tensor, Tensor, Tensor];
      const x = images.permute([0, 3, 1, 2]) as Tensor;
      const inner = normed(conv2d(normed(conv2d(x, u)), w, undefined, { padding: 1, groups: GROUPS }));
      const loss = normed(conv2d(inner, v)).add(x).square().mean();
      loss.backward();
      optimizer.step();
      return loss;
    });
    for (let i = 0; i < 2; i++) step();
    return valuesOf(filters);
  };
  const inSimulator = await trained('sim');
  const onCpu = await trained('cpu');
  useDevice('sim');
  for (const [i, values] of inSimulator.entries()) {
    const moved = (to: Float32Array): Float32Array => to.map((v, at) => v - initial[i]![at]!);
    const worst = worstOf([moved(values), moved(onCpu[i]!)]);
    assert.ok(worst < 2 ** -7, `${i}: ${worst}`);
  }
});
