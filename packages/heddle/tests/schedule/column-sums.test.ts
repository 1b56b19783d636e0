/** Sums of columns where a kernel stores them: planned for an H200, and run in the simulator, which finds races. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bf16, f16, f32 } from '../../src/core/dtype.js';
import {
  autocast,
  batchNorm,
  conv2d,
  grad,
  manualSeed,
  randn,
  type Tensor,
  useDevice,
  zeros,
} from '../../src/index.js';
import { H200, type Target } from '../../src/kernel/ir/target.js';
import { openDevice } from '../../src/runtime/registry.js';
import type { ScheduledLaunch } from '../../src/schedule/launch.js';
import type { Tune } from '../../src/schedule/passes/tuning.js';
import { schedule } from '../../src/schedule/schedule.js';
import { both, launchesOf, normal, valuesOf, worstOf } from './beside-cpu.js';

const h200: Target = { ...H200, libraries: new Set<string>() };
// The simulator runs what an H200 with few multiprocessors would: there are tiles enough for all without sharing sums.
const target: Target = { ...h200, units: 8 };
Object.defineProperty(openDevice('sim'), 'target', { value: target });
useDevice('sim');

const parametersOf = ({ work }: ScheduledLaunch): string[] =>
  'kernel' in work ? work.kernel.params.map(({ name }) => name) : [];

/** Kernels by warpgroups that sum columns: how many results each has besides. */
const summing = (launches: readonly ScheduledLaunch[]): number[] =>
  launches.flatMap((launch) => {
    const sums = parametersOf(launch).filter((name) => name.startsWith('sums'));
    return sums.length > 0 ? [sums.length] : [];
  });

/** Generated kernels that reduce what is as large as an activation. */
const statisticsPasses = (launches: readonly ScheduledLaunch[], bytes: number): string[] =>
  launches.flatMap(({ work, bytes: moved }) =>
    'kernel' in work && work.kernel.name.startsWith('reduce') && moved >= bytes ? [work.kernel.name] : [],
  );

/** Channels-last convolutions on either side, so that all lies so. */
const through = (x: Tensor, u: Tensor): Tensor => conv2d(conv2d(x, u).relu(), u).relu();

const AXES = [0, 2, 3];
for (const [name, dtype, shape, channels] of [
  ['bf16', bf16, [2, 64, 16, 16], 64],
  ['f16, channels beyond a tile, rows beyond one', f16, [3, 64, 8, 8], 136],
  ['tf32', f32, [2, 64, 16, 12], 64],
] as const)
  test(`mean and variance of a convolution, ${name}, far from zero`, async () => {
    const sources = [
      normal(dtype, shape),
      normal(dtype, [64, 64, 1, 1]),
      normal(dtype, [channels, 64, 1, 1]),
    ];
    const statistics = (x: Tensor, u: Tensor, w: Tensor): Tensor[] => {
      const y = conv2d(through(x, u), w)
        .cast(f32)
        .add(16)
        .cast(dtype as typeof f32)
        .cast(f32);
      return [y.mean(AXES), y.variance(AXES)];
    };
    assert.deepEqual(summing(launchesOf(statistics(...(sources as [Tensor, Tensor, Tensor])), target)), [2]);
    const [mean, variance] = await both(statistics as never, sources);
    // The convolution is rounded to 16 bits, or its operands to tf32; the statistics are of what is stored.
    assert.ok(worstOf(mean!) < 2 ** -12, `${worstOf(mean!)}`);
    assert.ok(worstOf(variance!) < (dtype === f32 ? 2 ** -9 : 2 ** -6), `${worstOf(variance!)}`);
  });

test('sums that a product stores, and what is made of the stored sums elsewhere', async () => {
  const sources = [normal(bf16, [4096, 256]), normal(bf16, [256, 256])];
  const statistics = (x: Tensor, w: Tensor): Tensor[] => {
    const sums = x.matmul(w).cast(f32).reshape([64, 64, 256]).sum(1, { keepdim: true });
    return [sums, sums.mul(1 / 64)];
  };
  const launches = launchesOf(statistics(...(sources as [Tensor, Tensor])), target);
  assert.deepEqual(summing(launches), [1]);
  const [product, scaled] = launches.slice(-2);
  assert.deepEqual(
    scaled!.args[0],
    product!.args[parametersOf(product!).indexOf('sums0')],
    'it reads the sums',
  );
  for (const pair of await both(statistics as never, sources)) assert.ok(worstOf(pair) < 2 ** -6);
});

/** Convolutions with batch norms between them. */
function loss(x: Tensor, u: Tensor, v: Tensor, ...norms: Tensor[]): Tensor {
  const normed = (y: Tensor, at: number): Tensor => {
    const options = { weight: norms[at]!, bias: norms[at + 1]!, training: true };
    const channels = y.shape[1]!;
    return batchNorm(y, zeros([channels]), zeros([channels]), options).relu();
  };
  return autocast(bf16, () => {
    const first = normed(conv2d(x, u), 0);
    const second = normed(conv2d(first, v), 2);
    return conv2d(second, u).square().mean();
  });
}

const gradients = (...t: Tensor[]): Tensor[] =>
  grad(loss, { argnums: [1, 2, 3, 4, 5, 6] })(...(t as Parameters<typeof loss>)) as Tensor[];

const sourcesFor = (channels: number, ...shape: number[]): Tensor[] => {
  const near = (at: number): Tensor => randn([channels]).mul(0.1).add(at).realize();
  const weights = [0, 1].map(() => randn([channels, channels, 1, 1]).mul(0.2).realize());
  return [zeros(shape), ...weights, near(1), near(0), near(1), near(0)] as Tensor[];
};

test('batch norms between convolutions: gradients, and the same bits a second time', async () => {
  manualSeed(3);
  const [, ...others] = sourcesFor(64, 1);
  const sources = [normal(f32, [2, 64, 16, 32], 1), ...others];
  const results = await both(gradients, sources);
  for (const [i, pair] of results.entries()) assert.ok(worstOf(pair) < 2 ** -5, `${i}: ${worstOf(pair)}`);
  const again = await valuesOf(gradients(...sources));
  again.forEach((values, i) => {
    assert.deepEqual(values, results[i]![0], `result ${i}, a second time`);
  });
});

test('a way by patches that sums no columns leaves them to a launch that reads what is stored', () => {
  const [x, u] = [zeros([32, 64, 32, 32], { dtype: bf16 }), normal(bf16, [64, 64, 3, 3])];
  const convolved = (x: Tensor): Tensor => conv2d(x, u, undefined, { padding: 1 }) as Tensor;
  const y = convolved(convolved(x).relu()).cast(f32);
  const statistics = [y.mean(AXES), y.variance(AXES)].map(({ node }) => node);
  const tune: Tune = (requests) =>
    requests.map(({ variants }) => variants.find(({ name }) => /patches.*then sums$/.test(name))?.name);
  const { launches } = schedule(statistics, target, { tune });
  assert.deepEqual(summing(launches), []);
  const names = launches.map(({ work }) => ('kernel' in work ? work.kernel.name : ''));
  const last = names.lastIndexOf('conv2dWarpgroups');
  assert.match(names[last + 1]!, /^reduce_/);
  assert.deepEqual(summing(schedule(statistics, target).launches), [2]);
});

// Planned only. They come last, with sources that were made before: running statistics that are assigned are computed with
// whatever is asked for next.

const [images, size] = [64, 32];
const [, ...parameters] = sourcesFor(64, 1);
const filters = randn([64, 3, 3, 3]).mul(0.2).realize();

// Strips of the second's columns would stay on the chip, and be read and stored by few, narrow accesses.
for (const [channels, edge] of [
  [64, size],
  [256, 16],
] as const)
  test(`batch norms of ${channels} channels between convolutions have no pass of their own over activations`, () => {
    useDevice('cpu');
    const sources = sourcesFor(channels, images, channels, edge, edge);
    const launches = launchesOf(gradients(...sources), h200);
    // Two batch norms: forward three sums each (of x, its deviations, and their squares), backward two.
    assert.deepEqual(summing(launches), [3, 3, 2, 2]);
    assert.deepEqual(statisticsPasses(launches, images * channels * edge * edge * 2), []);
    for (const { work } of launches)
      assert.ok(!('cluster' in work && work.cluster), 'no cluster shares strips');
  });

test('a first convolution whose windows are gathered leaves the others their sums', () => {
  const [u, v, ...norms] = parameters;
  const x = zeros([images, 3, size, size]);
  const network = (w: Tensor): Tensor => {
    const y = autocast(bf16, () => conv2d(x, w, undefined, { padding: 1 }).relu()) as Tensor;
    return loss(y, u!, v!, ...norms);
  };
  const launches = launchesOf([grad(network)(filters) as Tensor], h200);
  assert.ok(launches.some(({ work }) => 'kernel' in work && work.kernel.name.startsWith('pad_64x32x32x32')));
  assert.deepEqual(statisticsPasses(launches, images * 64 * size * size * 2), []);
});

test('gradients that a residual block adds up are finished where their columns are summed', () => {
  const block = (
    x: Tensor,
    u: Tensor,
    v: Tensor,
    strided: Tensor,
    shortcut: Tensor,
    ...norm: Tensor[]
  ): Tensor =>
    autocast(bf16, () => {
      const [weight, bias] = norm;
      const options = { weight: weight!, bias: bias!, training: true };
      const y = batchNorm(conv2d(x, u), zeros([64]), zeros([64]), options).relu();
      const main = conv2d(conv2d(y, v).relu(), strided, undefined, { stride: 2, padding: 1 });
      return main
        .add(conv2d(y, shortcut, undefined, { stride: 2 }))
        .square()
        .mean();
    });
  useDevice('cpu');
  const given = (...shape: number[]): Tensor => zeros(shape).realize() as Tensor;
  const [u, v, shortcut] = [0, 1, 2].map(() => given(64, 64, 1, 1)) as [Tensor, Tensor, Tensor];
  const train = grad(block, { argnums: [1, 2, 3, 4, 5, 6] });
  const sources = [given(images, 64, size, size), u, v, given(64, 64, 3, 3), shortcut, given(64), given(64)];
  const launches = launchesOf(train(...(sources as Parameters<typeof block>)) as Tensor[], h200);
  assert.deepEqual(statisticsPasses(launches, images * 64 * size * size * 2), []);
});

test('the gradient of a bias comes out of the product that makes the gradient of a layer', () => {
  const layers = (x: Tensor, w: Tensor, bias: Tensor, v: Tensor): Tensor =>
    x.matmul(w).add(bias).relu().matmul(v).square().mean();
  const train = grad(layers, { argnums: [1, 2, 3] });
  useDevice('cpu');
  const given = (...shape: number[]): Tensor => zeros(shape).cast(bf16).realize() as unknown as Tensor;
  const results = train(given(8192, 512), given(512, 1024), given(1024), given(1024, 512));
  assert.deepEqual(summing(launchesOf(results as Tensor[], h200)), [1]);
});
