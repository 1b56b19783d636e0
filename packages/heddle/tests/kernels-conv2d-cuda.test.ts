/** The GPU's convolution kernels against their compositions, in the simulator. */
import { test } from 'node:test';
import { f32 } from '../src/core/dtype.js';
import { conv2dInputOp, conv2dOp, conv2dWeightOp, outputSize } from '../src/fused/conv2d.js';
import { call, leaf } from '../src/graph/build.js';
import { SIM_TARGET } from '../src/runtime/sim/launch.js';
import { CASES } from './convolution-cases.js';
import { checkInSimulator, noise } from './kernel-harness.js';

for (const { name, n, c, o, arg } of CASES) {
  const x = () => leaf([n, c, ...arg.size], f32);
  const w = () => leaf([o, c / arg.groups, ...arg.kernel], f32);
  const y = () => leaf([n, o, ...outputSize(arg)], f32);
  const check = (op: typeof conv2dOp, a: ReturnType<typeof x>, b: ReturnType<typeof x>) =>
    checkInSimulator(
      call(op, [a, b], arg),
      [{ data: noise(a.size, 3) }, { data: noise(b.size, 4) }],
      1e-5,
      SIM_TARGET,
    );
  test(`conv2d ${name}`, () => check(conv2dOp, x(), w()));
  test(`conv2dInput ${name}`, () => check(conv2dInputOp, y(), w()));
  test(`conv2dWeight ${name}`, () => check(conv2dWeightOp, x(), y()));
}
