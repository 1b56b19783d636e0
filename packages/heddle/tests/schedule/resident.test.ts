/** Kernels that keep rows or strips of columns: as many blocks fit into a multiprocessor as they were planned for. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bf16, f32 } from '../../src/core/dtype.js';
import { sizeOf } from '../../src/core/shape.js';
import { leaf } from '../../src/graph/build.js';
import type { KernelIr } from '../../src/kernel/ir/ir.js';
import { sharedBytesOfEach } from '../../src/kernel/ir/machine.js';
import { dynamicBytesOf, sharedLayoutOf } from '../../src/kernel/ir/shared-layout.js';
import { H200 } from '../../src/kernel/ir/target.js';
import { Tensor } from '../../src/tensor/tensor.js';
import { launchesOf } from './beside-cpu.js';

type Rule = (x: Tensor, axis: number) => Tensor;

const centred: Rule = (x, axis) => x.sub(x.mean(axis, { keepdim: true }));
const RULES: Readonly<Record<string, Rule>> = {
  softmax: (x, axis) => x.softmax(axis),
  'log-sum-exp': (x, axis) => x.logSumExp(axis),
  variance: (x, axis) => centred(x, axis).square().mean(axis),
  'layer norm': (x, axis) => {
    const c = centred(x, axis);
    return c.mul(c.square().mean(axis, { keepdim: true }).add(1e-5).rsqrt());
  },
  'RMS norm': (x, axis) => x.mul(x.square().mean(axis, { keepdim: true }).add(1e-5).rsqrt()),
};

/** Of the fixed shared arrays of CUDA C++, where they are no part of the dynamic one. */
function fixedBytesOf(kernel: KernelIr): number {
  if (sharedLayoutOf(kernel)) return 0;
  const fixed = kernel.arrays.filter(({ space, dims }) => space === 'shared' && dims[0] !== -1);
  return fixed.reduce((sum, { dims, dtype, lanes }) => sum + sizeOf(dims) * dtype.bytes * lanes, 0);
}

const LENGTHS = [300, 1000, 2048, 4096, 5000, 8192, 16384, 50304];

const LINES = [512, 8192];

for (const [name, rule] of Object.entries(RULES))
  for (const [along, axis] of [
    ['rows', 1],
    ['columns', 0],
  ] as const)
    test(`${name} along ${along}: the blocks of a multiprocessor fit into its shared memory`, () => {
      const kept: number[] = [];
      for (const dtype of [f32, bf16] as const)
        for (const [length, lines] of LENGTHS.flatMap((n) => LINES.map((m) => [n, m] as const))) {
          const x = new Tensor(leaf(axis === 0 ? [length, lines] : [lines, length], dtype));
          for (const { work } of launchesOf([rule(x as Tensor, axis)], H200)) {
            if (!('kernel' in work) || work.kernel.resident === undefined) continue;
            const bytes = fixedBytesOf(work.kernel) + dynamicBytesOf(work.kernel, work.sharedBytes);
            assert.ok(
              bytes <= sharedBytesOfEach(H200.limits, work.kernel.resident),
              `${lines} of ${length} ${dtype.name}: ${work.kernel.resident} blocks of ${bytes} bytes`,
            );
            kept.push(length);
          }
        }
      assert.ok(kept.length > 0, 'some are kept');
    });
