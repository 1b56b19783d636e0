/** Epilogues whose tensors the copy engine brings: planned for an H200, and run in the simulator. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bf16, f32 } from '../../src/core/dtype.js';
import { autocast, conv2d, linear, randn, type Tensor, tensor, useDevice } from '../../src/index.js';
import { H200 } from '../../src/kernel/ir/target.js';
import { openDevice } from '../../src/runtime/registry.js';
import { schedule } from '../../src/schedule/schedule.js';

const target = { ...H200, libraries: new Set<string>() };
// The simulator runs what an H200 would.
Object.defineProperty(openDevice('sim'), 'target', { value: target });
useDevice('sim');

const half = (...shape: number[]): Tensor => randn(shape).mul(0.2).cast(bf16).realize() as unknown as Tensor;

/** The parameters of each kernel of that name. */
const parametersOf = (result: Tensor, name: string): string[] =>
  schedule([result.node], target).launches.flatMap(({ work }) =>
    'kernel' in work && work.kernel.name === name ? [work.kernel.params.map((p) => p.name).join()] : [],
  );

/** The same of the same values on the CPU. */
async function onCpu(of: (...t: Tensor[]) => Tensor, sources: readonly Tensor[]): Promise<Float32Array> {
  const values = await Promise.all(sources.map((t) => t.cast(f32).data()));
  useDevice('cpu');
  const same = sources.map(({ shape }, i) => tensor(values[i]!, { shape }).cast(bf16) as Tensor);
  const result = await of(...same)
    .cast(f32)
    .data();
  useDevice('sim');
  return result as Float32Array;
}

const CASES: Readonly<Record<string, [(...t: Tensor[]) => Tensor, kernels: readonly string[]]>> = {
  'a residual': [
    (x, u, v, w) => {
      const h = conv2d(x, u).relu();
      return conv2d(conv2d(h, v).relu(), w).add(h).relu();
    },
    ['a,b,c', 'a,b,c', 'a,b,c,first'],
  ],
  'a residual and a bias': [
    (x, u, v, w, bias) => {
      const h = conv2d(x, u).relu();
      return conv2d(conv2d(h, v).relu(), w, bias).add(h).relu();
    },
    ['a,b,c', 'a,b,c', 'a,b,c,first,finish0'],
  ],
  'two tensors': [
    (x, u, v, w) => {
      const h = conv2d(x, u).relu();
      const g = conv2d(h, v).relu();
      return conv2d(g, w).add(h).mul(g);
    },
    ['a,b,c', 'a,b,c', 'a,b,c,first,second'],
  ],
  'three, of which the epilogue reads one itself': [
    (x, u, v, w) => {
      const h = conv2d(x, u).relu();
      const g = conv2d(h, v).relu();
      const f = conv2d(g, w).relu();
      return conv2d(f, u).add(h).mul(g).sub(f);
    },
    ['a,b,c', 'a,b,c', 'a,b,c', 'a,b,c,first,second,finish0'],
  ],
};

for (const [name, [of, kernels]] of Object.entries(CASES))
  test(name, async () => {
    const sources = [half(1, 64, 16, 16), ...[1, 2, 3].map(() => half(64, 64, 1, 1)), half(64)];
    const result = of(...sources);
    assert.deepEqual(parametersOf(result, 'conv2dWarpgroups'), kernels);
    const [got, wanted] = [await result.cast(f32).data(), await onCpu(of, sources)];
    const worst = wanted.reduce(
      (most, v, i) => Math.max(most, Math.abs((got[i] as number) - v) / (1 + Math.abs(v))),
      0,
    );
    assert.ok(worst < 2 ** -6, `${worst}`);
  });

test('a residual in f32 takes the place of a product in 16 bits', async () => {
  // As layers have it: of tokens, three dimensions.
  const of = (x: Tensor, weight: Tensor, bias: Tensor, residual: Tensor): Tensor => {
    const kept = residual.cast(f32).realize() as Tensor;
    return autocast(bf16, () => linear(x, weight, bias).cast(f32).add(kept)) as Tensor;
  };
  const sources = [half(4, 128, 256), half(512, 256), half(512), half(4, 128, 512)];
  const result = of(...(sources as [Tensor, Tensor, Tensor, Tensor]));
  assert.deepEqual(parametersOf(result, 'matmulWarpgroups'), ['a,b,c,first,finish0']);
  assert.equal(schedule([result.node], target).launches.length, 1);
  const [got, wanted] = [await result.data(), await onCpu(of as (...t: Tensor[]) => Tensor, sources)];
  // The product is rounded to 16 bits before it is added, wherever it is computed.
  const worst = wanted.reduce((most, v, i) => Math.max(most, Math.abs((got[i] as number) - v)), 0);
  assert.ok(worst < 2 ** -6, `${worst}`);
});
