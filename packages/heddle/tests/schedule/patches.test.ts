/** Convolutions by patches and their epilogues: planned for an H200 and run in the simulator, which detects races. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bf16, f16, f32 } from '../../src/core/dtype.js';
import { conv2d, grad, type Tensor, tensor, useDevice } from '../../src/index.js';
import { H200, type Target } from '../../src/kernel/ir/target.js';
import { dequantizeLinear, quantizeLinear } from '../../src/quantization/index.js';
import { openDevice } from '../../src/runtime/registry.js';
import type { PlanPass } from '../../src/schedule/plan.js';
import { PASSES, schedule } from '../../src/schedule/schedule.js';
import { both, normal, worstOf } from './beside-cpu.js';

// Every pass of the scheduler is verified.
process.env.HEDDLE_CHECK = '1';

// The simulator runs what an H200 with few multiprocessors would: there are tiles enough for all without sharing sums.
const target: Target = { ...H200, libraries: new Set<string>(), units: 4 };
Object.defineProperty(openDevice('sim'), 'target', { value: target });
useDevice('sim');

/** The first way of each call: what is taken without timing. */
function firstWays(results: readonly Tensor[]): string[] {
  const names: string[] = [];
  const read: PlanPass = {
    name: 'read',
    run: ({ calls }) => {
      for (const open of calls.values()) for (const { name } of open.variants().slice(0, 1)) names.push(name);
      return {};
    },
  };
  const roots = results.map(({ node }) => node);
  schedule(
    roots,
    target,
    {},
    PASSES.flatMap((pass) => (pass.name === 'open' ? [pass, read] : [pass])),
  );
  return names;
}

/** The largest difference of each result from that of the CPU, as a share of its size. */
const differences = async (
  make: (...t: Tensor[]) => Tensor[],
  sources: readonly Tensor[],
): Promise<number[]> => (await both(make, sources)).map(worstOf);

/** Channels-last convolutions on either side, so that all lies so. */
const through = (x: Tensor, u: Tensor): Tensor => conv2d(x, u).relu();

const isPatched = (name: string): boolean => name.includes('patches');

for (const [dtype, size] of [
  [bf16, [1, 15, 31]],
  [f16, [2, 16, 16]],
  [f32, [2, 24, 24]],
] as const)
  test(`bias, residual and relu, ${dtype.name}, ${size.join(' × ')}`, async () => {
    const sources = [
      normal(dtype, [size[0], 64, size[1], size[2]], 1),
      normal(dtype, [64, 64, 1, 1]),
      normal(dtype, [64, 64, 3, 3], 0.05),
      normal(dtype, [64], 1),
    ];
    const block = (x: Tensor, u: Tensor, w: Tensor, bias: Tensor): Tensor[] => {
      const h = through(x, u);
      const y = conv2d(h, w, bias, { padding: 1 }).add(h).relu();
      return [conv2d(y, u)];
    };
    const ways = firstWays(block(...(sources as [Tensor, Tensor, Tensor, Tensor])));
    assert.equal(ways.filter(isPatched).length, 1, `${ways}`);
    const [difference] = await differences(block as never, sources);
    assert.ok(difference! < 2 ** -6, `${difference}`);
  });

/** Kernels that sum columns of what they store: how many results each has besides. */
const summing = (results: readonly Tensor[]): number[] =>
  schedule(
    results.map(({ node }) => node),
    target,
  ).launches.flatMap(({ work }) => {
    const sums = 'kernel' in work ? work.kernel.params.filter(({ name }) => name.startsWith('sums')) : [];
    return sums.length > 0 ? [sums.length] : [];
  });

test('mean and variance come out of patches that lie in memory one after the other', async () => {
  const sources = [normal(bf16, [2, 64, 16, 16]), normal(bf16, [64, 64, 1, 1]), normal(bf16, [64, 64, 3, 3])];
  const statistics = (x: Tensor, u: Tensor, w: Tensor): Tensor[] => {
    const y = conv2d(through(x, u), w, undefined, { padding: 1 }).cast(f32);
    return [y.mean([0, 2, 3]), y.variance([0, 2, 3])];
  };
  const results = statistics(...(sources as [Tensor, Tensor, Tensor]));
  const ways = firstWays(results);
  assert.ok(
    ways.some((name) => /patches-\d+x16$/.test(name)),
    `${ways}`,
  );
  assert.deepEqual(summing(results), [2]);
  for (const difference of await differences(statistics as never, sources))
    assert.ok(difference < 2 ** -6, `${difference}`);
});

test('sums of the 64 pixels of each row come out of patches of whole rows', async () => {
  const sources = [normal(bf16, [2, 64, 8, 64]), normal(bf16, [64, 64, 1, 1]), normal(bf16, [64, 64, 5, 5])];
  const rows = (x: Tensor, u: Tensor, w: Tensor): Tensor[] => [
    conv2d(through(x, u), w, undefined, { padding: 2 }).cast(f32).sum(3),
  ];
  const results = rows(...(sources as [Tensor, Tensor, Tensor]));
  assert.ok(firstWays(results).some((name) => name.includes('patches-4x64')));
  assert.deepEqual(summing(results), [1]);
  const [difference] = await differences(rows as never, sources);
  assert.ok(difference! < 2 ** -6, `${difference}`);
});

test('gradients of images and weights, over edges', async () => {
  const sources = [
    normal(bf16, [1, 64, 15, 31], 1),
    normal(bf16, [64, 64, 1, 1]),
    normal(bf16, [64, 64, 3, 3], 0.05),
  ];
  const loss = (x: Tensor, u: Tensor, w: Tensor): Tensor =>
    conv2d(conv2d(through(x, u), w, undefined, { padding: 1 }), u)
      .cast(f32)
      .square()
      .mean();
  const gradients = (...t: Tensor[]): Tensor[] =>
    grad(loss, { argnums: [0, 2] })(...(t as Parameters<typeof loss>)) as Tensor[];
  const ways = firstWays(gradients(...sources));
  assert.ok(ways.filter(isPatched).length >= 2, `${ways}`);
  for (const difference of await differences(gradients as never, sources))
    assert.ok(difference < 2 ** -5, `${difference}`);
});

test('bytes between layers are those of the CPU, over edges', async () => {
  let state = 1;
  const bytes = (shape: readonly number[]): Tensor => {
    const size = shape.reduce((n, d) => n * d, 1);
    const values = Int8Array.from({ length: size }, () => {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      return (state >>> 24) - 128;
    });
    return tensor(Float32Array.from(values), { shape: [...shape] });
  };
  const [x, u, w] = [bytes([1, 64, 15, 31]), bytes([64, 64, 1, 1]), bytes([64, 64, 3, 3])];
  const as = (t: Tensor, scale: number): Tensor => dequantizeLinear(quantizeLinear(t, scale), scale);
  const network = (x: Tensor, u: Tensor, w: Tensor): Tensor[] => {
    const h = as(conv2d(as(x, 1), as(u, 1)).relu(), 2 ** 10);
    const y = as(conv2d(h, as(w, 1), undefined, { padding: 1 }).add(h).relu(), 2 ** 18);
    return [conv2d(y, as(u, 1))];
  };
  const ways = firstWays(network(x, u, w));
  assert.equal(ways.filter(isPatched).length, 1, `${ways}`);
  assert.deepEqual(await differences(network as never, [x, u, w]), [0]);
});
