/** The CPU's convolution kernels against their compositions, in the simulator. */
import { after, test } from 'node:test';
import { f32 } from '../../src/core/dtype.js';
import { call, leaf } from '../../src/graph/build.js';
import { conv2dInputOp, conv2dOp, conv2dWeightOp, outputSize } from '../../src/ops/conv2d/op.js';
import { CpuDevice } from '../../src/runtime/cpu/device.js';
import { interpret } from '../cases/reference.js';
import { checkInSimulator, checkOnDevice, noise } from '../kernel/harness.js';
import { CASES, type ConvolutionCase, conv } from './convolution-cases.js';

for (const { name, n, c, o, arg } of CASES) {
  const x = () => leaf([n, c, ...arg.size], f32);
  const w = () => leaf([o, c / arg.groups, ...arg.kernel], f32);
  const y = () => leaf([n, o, ...outputSize(arg)], f32);
  const check = (op: typeof conv2dOp, a: ReturnType<typeof x>, b: ReturnType<typeof x>) =>
    checkInSimulator(call(op, [a, b], arg), [{ data: noise(a.size, 3) }, { data: noise(b.size, 4) }]);
  test(`conv2d ${name}`, () => check(conv2dOp, x(), w()));
  test(`conv2dInput ${name}`, () => check(conv2dInputOp, y(), w()));
  test(`conv2dWeight ${name}`, () => check(conv2dWeightOp, x(), y()));
}

const device = new CpuDevice();
after(() => device.close());

const LARGE: readonly ConvolutionCase[] = [
  conv('as in a small network', [3, 5, 16], [9, 28], 3),
  conv('padded 5×5 in few channels', [2, 3, 6], [14, 14], 5, { padding: 2 }),
  conv('cut into bands', [1, 40, 5], [13, 60], 3, { padding: 1 }),
  conv('strided and dilated groups', [2, 6, 8], [17, 23], 3, {
    stride: 2,
    padding: 2,
    dilation: 2,
    groups: 2,
  }),
];

for (const { name, n, c, o, arg } of LARGE) {
  test(`convolution ${name} and its gradients on the CPU`, async () => {
    const x = leaf([n, c, ...arg.size], f32);
    const w = leaf([o, c / arg.groups, ...arg.kernel], f32);
    const y = leaf([n, o, ...outputSize(arg)], f32);
    for (const node of [
      call(conv2dOp, [x, w], arg),
      call(conv2dInputOp, [y, w], arg),
      call(conv2dWeightOp, [x, y], arg),
    ]) {
      const sources = node.src.map((s, i) => ({ data: noise(s.size, i + 1) }));
      const leaves = new Map(node.src.map((s, i) => [s, Array.from(sources[i]!.data)]));
      await checkOnDevice(device, node, sources, interpret(node, leaves) as number[], 1e-4);
    }
  });
}
