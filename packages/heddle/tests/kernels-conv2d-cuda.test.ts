/** The GPU's convolution kernels against their compositions, in the simulator. */
import { test } from 'node:test';
import { f32 } from '../src/core/dtype.js';
import type { Precision } from '../src/core/precision.js';
import { type Conv2dArg, conv2dInputOp, conv2dOp, conv2dWeightOp, outputSize } from '../src/fused/conv2d.js';
import { call, leaf } from '../src/graph/build.js';
import type { FusedOp } from '../src/graph/fused-op.js';
import type { GraphNode } from '../src/graph/node.js';
import { SIM_TARGET } from '../src/runtime/sim/launch.js';
import { CASES, type ConvolutionCase, conv } from './convolution-cases.js';
import { checkInSimulator, noise } from './kernel-harness.js';

const WINOGRAD = [
  conv('3×3 of many channels', [2, 9, 17], [6, 7], 3, { padding: 1 }),
  conv('3×3 of many channels in groups', [1, 32, 32], [5, 4], 3, { padding: [0, 2], groups: 2 }),
];

/** Values that tf32 holds exactly, so that all ways must agree. */
const coarse = (n: number, seed: number): Float32Array =>
  noise(n, seed).map((v) => Math.round(v * 256) / 256);

function check({ name, n, c, o, arg: exact }: ConvolutionCase, precision: Precision): void {
  const arg = { ...exact, precision };
  const x = leaf([n, c, ...arg.size], f32);
  const w = leaf([o, c / arg.groups, ...arg.kernel], f32);
  const y = leaf([n, o, ...outputSize(arg)], f32);
  const ops: [FusedOp<Conv2dArg>, GraphNode, GraphNode][] = [
    [conv2dOp, x, w],
    [conv2dInputOp, y, w],
    [conv2dWeightOp, x, y],
  ];
  for (const [op, a, b] of ops) {
    const sources = [{ data: coarse(a.size, 3) }, { data: coarse(b.size, 4) }];
    test(`${op.name} ${name} ${precision}`, () =>
      checkInSimulator(call(op, [a, b], arg), sources, 1e-5, SIM_TARGET));
  }
}

for (const each of CASES) check(each, 'tf32');
for (const each of [...CASES.slice(-2), ...WINOGRAD]) check(each, 'f32');
