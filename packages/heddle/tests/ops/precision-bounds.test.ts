/**
 * Tensor cores, in every way that products and convolutions may use them, within the bound that rounding the operands
 * has, and not far within: nothing else can have computed them.
 *
 * With operands rounded to a relative error of u each, a product a·b is off by at most (2u + u²)·|a|·|b|, and so is a sum
 * of products, by that times the sum of the absolute values. tf32 keeps 10 bits of the mantissa and bf16 7, rounded to
 * nearest: u = 2⁻¹¹ and 2⁻⁸. Sums of n products in f32, here and in the reference, add n·2⁻²⁴ each at most.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { f32 } from '../../src/core/dtype.js';
import { call, leaf } from '../../src/graph/build.js';
import { callOf } from '../../src/graph/fused-op.js';
import type { GraphNode } from '../../src/graph/node.js';
import { conv2d, conv2dInputOp, conv2dWeightOp } from '../../src/ops/conv2d/op.js';
import { matmul } from '../../src/ops/matmul/op.js';
import { closeDevices, openDevice } from '../../src/runtime/registry.js';
import { SIM_TARGET } from '../../src/runtime/sim/launch.js';
import { DEVICES } from '../cases/case-runner.js';
import { interpret } from '../cases/reference.js';
import { identity, ioFor, kernelOf, noise, runInSimulator, runOnDevice } from '../kernel/harness.js';

after(closeDevices);

const UNIT = { tf32: 2 ** -11, bf16: 2 ** -8 } as const;
/** The share of the bound that the worst of some hundred elements reaches: errors of random signs cancel. */
const LEAST = 0.02;

interface Product {
  readonly name: string;
  readonly node: GraphNode;
  /** Products that an element sums. */
  readonly terms: number;
}

/** Convolutions use tensor cores in tf32. */
function productsIn(precision: keyof typeof UNIT): Product[] {
  const [x, w] = [leaf([2, 8, 9, 8], f32), leaf([16, 8, 3, 3], f32)];
  const y = conv2d(x, w, { padding: 1, precision });
  const { arg } = callOf(y);
  const g = leaf(y.shape, f32);
  const product = matmul(leaf([33, 40], f32), leaf([40, 24], f32), precision);
  const products = [{ name: 'a·b', node: product, terms: 40 }];
  if (precision === 'bf16') return products;
  return [
    ...products,
    { name: 'convolution', node: y, terms: 72 },
    { name: 'its gradient by x', node: call(conv2dInputOp, [g, w], arg as never), terms: 144 },
    { name: 'its gradient by w', node: call(conv2dWeightOp, [x, g], arg as never), terms: 144 },
  ];
}

for (const precision of ['tf32', 'bf16'] as const)
  for (const { name, node, terms } of productsIn(precision)) {
    test(`${name} in ${precision}`, async (t) => {
      const sources = node.src.map((s, i) => ({ data: noise(s.size, 5 + i) }));
      const inputs = sources.map(({ data }) => data);
      const u = UNIT[precision];
      const bound = 2 * u + u * u + 2 * terms * 2 ** -24;
      const f64Of = (change: (v: number) => number): number[] =>
        interpret(node, new Map(node.src.map((s, i) => [s, Array.from(inputs[i]!, change)]))) as number[];
      const [exact, magnitude] = [f64Of((v) => v), f64Of(Math.abs)];
      for (const device of ['sim', ...DEVICES.filter((d) => d === 'cuda')]) {
        const target = device === 'sim' ? SIM_TARGET : openDevice(device).target;
        const io = ioFor(node, sources, target, identity);
        const { arg } = callOf(node);
        const ways = kernelOf(node, target)!.variants!(io, arg).filter((v) => v.name.startsWith(precision));
        assert.ok(ways.length > 0, `${device}: no way on tensor cores`);
        for (const { name: way, plan } of ways) {
          const found = new Float32Array(node.size).fill(Number.NaN);
          if (device === 'sim') runInSimulator(plan(), inputs, found, false);
          else await runOnDevice(openDevice(device), plan(), inputs, found);
          const off = Array.from(found, (v, i) => Math.abs(v - exact[i]!) / magnitude[i]! / bound);
          const worst = off.reduce((a, b) => (a <= b ? b : a), 0);
          t.diagnostic(`${device}, ${way}: off by ${worst.toFixed(3)} of what is allowed`);
          assert.ok(
            worst <= 1,
            `${device}, ${way}: element ${off.indexOf(worst)} is off by ${worst} of the bound`,
          );
          assert.ok(
            worst >= LEAST,
            `${device}, ${way}: off by ${worst} of the bound only: not in ${precision}`,
          );
        }
      }
    });
  }
