/** Networks planned for an H200 and run in the simulator, which finds races, against the CPU. */
import assert from 'node:assert/strict';
import { randn, realize, setPrecision, type Tensor, tensor, useDevice } from '../src/index.js';
import { H200, type Target } from '../src/kernel/ir/target.js';
import { openDevice } from '../src/runtime/registry.js';
import { schedule } from '../src/schedule/schedule.js';

/** What the simulator stands for: no vendor's library. */
export const target: Target = { ...H200, libraries: new Set<string>() };
Object.defineProperty(openDevice('sim'), 'target', { value: target });
useDevice('sim');
setPrecision({ matmul: 'f32', conv: 'f32' });

export const of = (...shape: number[]): Tensor => randn(shape).mul(0.3).realize();

export const kernelsOf = (results: readonly Tensor[], on = target): string[] =>
  schedule(
    results.map(({ node }) => node),
    on,
  ).launches.map(({ work }) => ('kernel' in work ? work.kernel.name : work.library.name));

async function valuesOf(tensors: readonly Tensor[]): Promise<Float32Array[]> {
  await realize(...tensors);
  return Promise.all(tensors.map(async (t) => Float32Array.from(await t.data())));
}

/** Of a network on the simulated GPU against the CPU, which computes group by group. */
export async function agrees(
  make: (leaves: readonly Tensor[]) => readonly Tensor[],
  leaves: readonly Tensor[],
): Promise<void> {
  const results = make(leaves);
  const copies = await Promise.all(
    leaves.map(async (leaf) => ({ data: await leaf.data(), shape: leaf.shape })),
  );
  const found = await valuesOf(results);
  useDevice('cpu');
  const expected = await valuesOf(make(copies.map(({ data, shape }) => tensor(data).reshape(shape))));
  useDevice('sim');
  found.forEach((values, i) => {
    const most = Math.max(...expected[i]!.map(Math.abs));
    values.forEach((v, j) => {
      assert.ok(
        Math.abs(v - expected[i]![j]!) <= 2e-5 * most,
        `result ${i}, element ${j}: ${v}, ${expected[i]![j]}`,
      );
    });
  });
}
