/** The kernels of matrix products for GPUs: every variant, for a few shapes and each precision, in turn in each layout. */
import { f32 } from '../../src/core/dtype.js';
import { PRECISIONS } from '../../src/core/precision.js';
import * as b from '../../src/graph/build.js';
import type { GraphNode } from '../../src/graph/node.js';
import { kernelFingerprint } from '../../src/kernel/ir/fingerprint.js';
import type { KernelIr } from '../../src/kernel/ir/ir.js';
import type { Target } from '../../src/kernel/ir/target.js';
import { matmul } from '../../src/ops/matmul/op.js';
import { schedule } from '../../src/schedule/schedule.js';

const SHAPES = [
  [1024, 1024, 1024],
  [257, 129, 100],
  [64, 4608, 10],
] as const;

/** Kernels of `root` by its guess and by every variant it offers. */
function kernelsOf(root: GraphNode, target: Target): KernelIr[] {
  const names = new Set<string>();
  const planned = (choose: () => string | undefined): KernelIr[] =>
    schedule([root], target, {
      tune: (requests) => {
        for (const v of requests.flatMap((r) => r.variants)) names.add(v.name);
        return requests.map(choose);
      },
    }).launches.flatMap(({ work }) => ('kernel' in work ? [work.kernel] : []));
  const guess = planned(() => undefined);
  return [...guess, ...[...names].flatMap((name) => planned(() => name))];
}

/** Each kernel once, with a name of its own. */
export function productKernels(target: Target): KernelIr[] {
  const found = new Map<string, KernelIr>();
  for (const [turn, [M, K, N]] of SHAPES.entries()) {
    for (const [which, precision] of PRECISIONS.entries()) {
      const [x, xt, y, yt] = [
        b.leaf([M, K], f32),
        b.leaf([K, M], f32),
        b.leaf([K, N], f32),
        b.leaf([N, K], f32),
      ];
      const bias = b.expand(b.reshape(b.leaf([N], f32), [1, N]), [M, N]);
      const layouts = [
        matmul(x, y, precision),
        matmul(b.transpose(xt), y, precision),
        b.map('max', b.add(matmul(x, b.transpose(yt), precision), bias), b.full([M, N], f32, 0)),
      ];
      for (const kernel of kernelsOf(layouts[(turn + which) % layouts.length]!, target)) {
        const key = kernelFingerprint(kernel);
        if (!found.has(key)) found.set(key, { ...kernel, name: `${kernel.name}_product_${found.size}` });
      }
    }
  }
  return [...found.values()];
}
