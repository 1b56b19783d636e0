/** The CPU's convolution kernels against their compositions, in the simulator. */
import { after, test } from 'node:test';
import { f32 } from '../src/core/dtype.js';
import { type Conv2dArg, conv2dInputOp, conv2dOp, conv2dWeightOp, outputSize } from '../src/fused/conv2d.js';
import { call, leaf } from '../src/graph/build.js';
import { CpuDevice } from '../src/runtime/cpu/device.js';
import { checkInSimulator, checkOnDevice, noise } from './kernel-harness.js';
import { interpret } from './reference.js';

interface Case {
  readonly name: string;
  readonly n: number;
  /** Channels in and out, of all groups. */
  readonly c: number;
  readonly o: number;
  readonly arg: Conv2dArg;
}

const both = (n: number | [number, number]): [number, number] => (typeof n === 'number' ? [n, n] : n);
type Side = number | [number, number];
const conv = (
  name: string,
  [n, c, o]: [number, number, number],
  size: Side,
  kernel: Side,
  rest: { stride?: Side; dilation?: Side; padding?: Side; groups?: number } = {},
): Case => {
  const { stride = 1, dilation = 1, padding = 0, groups = 1 } = rest;
  const arg = {
    ...{ size: both(size), kernel: both(kernel), stride: both(stride), groups },
    ...{ dilation: both(dilation), padding: both(padding) },
  };
  return { name, n, c, o, arg };
};

const CASES: readonly Case[] = [
  conv('3×3', [2, 3, 4], [6, 10], 3),
  conv('rows of 11 and channels 5', [1, 2, 5], [5, 13], 3),
  conv('rows of 13, channels 13', [1, 1, 13], [4, 15], [2, 3]),
  conv('rows of 18', [1, 2, 8], [3, 20], [1, 3]),
  conv('one column over, 34 channels', [1, 2, 34], [4, 11], 3),
  conv('two columns over, 18 channels', [1, 3, 18], [3, 12], [2, 3], { padding: 1 }),
  conv('six columns over, 16 channels', [2, 16, 16], [3, 8], 3),
  conv('1×1', [2, 5, 3], [3, 7], 1),
  conv('5×5 padded', [2, 1, 6], [7, 9], 5, { padding: 2 }),
  conv('padded above only', [1, 2, 2], [5, 8], 3, { padding: [1, 0] }),
  conv('padded aside only', [1, 2, 2], [5, 8], 3, { padding: [0, 1] }),
  conv('padded more than it reaches', [1, 2, 2], [4, 5], 2, { padding: 3 }),
  conv('stride 2', [1, 2, 4], [9, 11], 3, { stride: 2 }),
  conv('stride 2 padded', [2, 3, 2], [8, 10], 3, { stride: 2, padding: 1 }),
  conv('stride 3 by 2, kernel 2', [1, 1, 3], [9, 12], 2, { stride: [3, 2] }),
  conv('stride beyond the kernel', [1, 2, 2], [7, 17], 1, { stride: 3 }),
  conv('dilated', [1, 2, 3], [8, 11], 3, { dilation: 2 }),
  conv('dilated, strided, padded', [1, 2, 3], [9, 14], 3, {
    dilation: [2, 3],
    stride: [2, 2],
    padding: [2, 3],
  }),
  conv('groups', [2, 4, 6], [5, 8], 3, { groups: 2 }),
  conv('depthwise, padded', [1, 3, 3], [5, 6], 3, { groups: 3, padding: 1 }),
  conv('many images', [9, 1, 2], [3, 6], 3),
];

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

const LARGE: readonly Case[] = [
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
