/**
 * A convolution and its max pooling as one kernel with two results, on a GPU or else in the simulator, against the
 * compositions.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { bf16, type DType, f16, f32, f64 } from '../../src/core/dtype.js';
import type { Precision } from '../../src/core/precision.js';
import { CompiledGraph } from '../../src/engine/program.js';
import * as b from '../../src/graph/build.js';
import { callOf } from '../../src/graph/fused-op.js';
import { vjp } from '../../src/graph/grad.js';
import type { GraphNode } from '../../src/graph/node.js';
import { clamp, relu } from '../../src/ops/activation/op.js';
import { conv2dOp, outputSize } from '../../src/ops/conv2d/op.js';
import { matmul } from '../../src/ops/matmul/op.js';
import {
  maxPool2d,
  maxPool2dGradientOp,
  maxPool2dOp,
  maxPool2dPositionsOp,
  type PoolArg,
} from '../../src/ops/max-pool2d/op.js';
import type { Device, DeviceBuffer } from '../../src/runtime/device.js';
import { closeDevices, listDevices, openDevice } from '../../src/runtime/registry.js';
import { SIM_TARGET } from '../../src/runtime/sim/launch.js';
import { fingerprint } from '../../src/schedule/passes/canonical.js';
import type { Tune } from '../../src/schedule/passes/tuning.js';
import { type ScheduleOptions, schedule } from '../../src/schedule/schedule.js';
import { assertClose, noise } from '../kernel/harness.js';
import { CASES, type ConvolutionCase, conv } from './convolution-cases.js';

const threads = listDevices().some((d) => d.name === 'cuda' && d.available) ? 'cuda' : 'sim';
after(closeDevices);

interface Graph {
  readonly leaves: readonly GraphNode[];
  readonly roots: readonly GraphNode[];
}

const halves = ({ arg }: ConvolutionCase): PoolArg => ({
  ...{ size: outputSize(arg), kernel: [2, 2], stride: [2, 2], padding: [0, 0], dilation: [1, 1] },
});

/** Bias and ReLU along the channels. */
const followed = (y: GraphNode, bias: GraphNode): GraphNode =>
  b.map('max', b.add(y, b.expand(b.reshape(bias, [1, y.shape[1]!, 1, 1]), y.shape)), b.like(y, 0));

/** The pooled convolution with bias and ReLU, and the gradient of the convolution's values, of which `keep` are made. */
function graph(
  of: ConvolutionCase,
  dtype: DType,
  precision: Precision,
  keep: (all: { y: GraphNode; pooled: GraphNode; dy: GraphNode }) => readonly GraphNode[],
): Graph {
  const { n, c, o, arg } = of;
  const x = b.leaf([n, c, ...arg.size], dtype);
  const w = b.leaf([o, c / arg.groups, ...arg.kernel], dtype);
  const bias = b.leaf([o], dtype);
  const y = b.call(conv2dOp, [x, w], { ...arg, precision });
  const largest = maxPool2d(y, 2);
  const g = b.leaf(largest.shape, dtype);
  const dy = b.call(maxPool2dGradientOp, [b.call(maxPool2dPositionsOp, [y], halves(of)), g], halves(of));
  const roots = keep({ y, pooled: followed(largest, bias), dy });
  return { leaves: fingerprint(roots).leaves, roots };
}

/** Few different values, which tf32 holds exactly: windows have ties, and all ways must agree. */
const values = ({ leaves }: Graph): Float32Array[] =>
  leaves.map((l, i) => noise(l.size, 3 + i).map((v) => Math.round(3 * v)));

async function compute(
  device: Device,
  { leaves, roots }: Graph,
  given: readonly (Float32Array | Float64Array)[],
  options: ScheduleOptions,
): Promise<number[][]> {
  const buffers = given.map((v): DeviceBuffer => {
    const buffer = device.allocate(v.byteLength, 'test');
    device.write(buffer, new Uint8Array(v.buffer));
    return buffer;
  });
  const compiled = new CompiledGraph(roots, leaves.length, device, options);
  try {
    const results = compiled.run(buffers, 'test', false);
    const out: number[][] = [];
    for (const [i, result] of results.entries()) {
      const { dtype, size } = roots[i]!;
      const { buffer } = await device.read(result!.buffer, 0, dtype.bytes * size);
      out.push([...(dtype === f64 ? new Float64Array(buffer, 0, size) : new Float32Array(buffer, 0, size))]);
      result!.release();
    }
    return out;
  } finally {
    compiled.dispose();
    for (const buffer of buffers) device.free(buffer);
  }
}

type Keep = Parameters<typeof graph>[3];
const KEPT: Readonly<Record<string, Keep>> = {
  'both results': ({ pooled, dy }) => [pooled, dy],
  'values only': ({ pooled }) => [pooled],
  'positions only': ({ dy }) => [dy],
  'the convolution, too': ({ y, pooled, dy }) => [y, pooled, dy],
  'values that need the positions': ({ pooled, dy }) => [
    b.add(pooled, b.expand(b.sum(dy, [0, 1, 2, 3]), pooled.shape)),
  ],
};

async function check(graphOf: (dtype: DType) => Graph, what: string, first?: number): Promise<void> {
  const small = graphOf(f32);
  const given = values(small);
  if (first !== undefined) given[0]![0] = first;
  const exact = graphOf(f64);
  const wide = given.map((v) => Float64Array.from(v));
  const expected = await compute(openDevice('cpu'), exact, wide, { kernels: false });
  const names = new Set<string>();
  const all: Tune = (requests) => {
    for (const v of requests.flatMap((r) => r.variants)) names.add(v.name);
    return requests.map(() => undefined);
  };
  const compare = async (name: string, tune: Tune): Promise<void> => {
    const actual = await compute(openDevice(threads), small, given, { tune });
    actual.forEach((values, i) => {
      assertClose(values, expected[i]!, 1e-5, `${what}, ${name}, result ${i}`);
    });
  };
  await compare('the guess', all);
  for (const name of names) {
    await compare(name, (requests) =>
      requests.map((r) => (r.variants.some((v) => v.name === name) ? name : undefined)),
    );
  }
}

const checkCase = (of: ConvolutionCase, precision: Precision, keep: Keep, first?: number): Promise<void> =>
  check((dtype) => graph(of, dtype, precision, keep), of.name, first);

const MORE = [
  conv('odd sizes', [2, 3, 5], [7, 9], 2),
  conv('images of one window', [5, 2, 3], [4, 4], 3),
  conv('two chunks of channels', [1, 24, 16], [8, 10], 3, { padding: 1 }),
];

for (const of of [...CASES, ...MORE]) {
  if (outputSize(of.arg).some((n) => n < 2)) continue;
  test(`${of.name}, both results`, () => checkCase(of, 'tf32', KEPT['both results']!));
}
for (const [name, keep] of Object.entries(KEPT)) {
  test(`f32, ${name}`, () => checkCase(MORE[0]!, 'f32', keep));
  test(`tf32, ${name}`, () => checkCase(MORE[0]!, 'tf32', keep));
}

test("f32, Winograd's convolution and a pooling after it", () =>
  checkCase(conv('many channels', [1, 32, 16], [4, 4], 3, { padding: 1 }), 'f32', KEPT['both results']!));
for (const precision of ['f32', 'tf32'] as const) {
  test(`${precision}, with NaN among the pixels`, () =>
    checkCase(MORE[0]!, precision, KEPT['both results']!, Number.NaN));
}

/** A step: the gradient of the pooled values is a product, masked by the ReLU; the bias wants its sum. */
function step(of: ConvolutionCase, dtype: DType, precision: Precision): Graph {
  const { n, c, o, arg } = of;
  const x = b.leaf([n, c, ...arg.size], dtype);
  const w = b.leaf([o, c / arg.groups, ...arg.kernel], dtype);
  const bias = b.leaf([o], dtype);
  const y = b.call(conv2dOp, [x, w], { ...arg, precision });
  const pooled = followed(maxPool2d(y, 2), bias);
  const slopes = matmul(b.leaf([n, 5], dtype), b.leaf([5, pooled.size / n], dtype), precision);
  const g = b.where(
    b.map('gt', pooled, b.like(pooled, 0)),
    b.reshape(slopes, pooled.shape),
    b.like(pooled, 0),
  );
  const dy = b.call(maxPool2dGradientOp, [b.call(maxPool2dPositionsOp, [y], halves(of)), g], halves(of));
  const roots = [pooled, dy, b.sum(g, [0, 2, 3])];
  return { leaves: fingerprint(roots).leaves, roots };
}

for (const of of [CASES[0]!, CASES[1]!, MORE[0]!]) {
  test(`a step of ${of.name}`, () => check((dtype) => step(of, dtype, 'tf32'), of.name));
}

test('the convolution has no launch of its own where only its pooling is needed', () => {
  const launches = (keep: Keep): string[] =>
    schedule(graph(MORE[0]!, f32, 'tf32', keep).roots, SIM_TARGET).launches.map(({ work }) =>
      'kernel' in work ? work.kernel.name : work.library.name,
    );
  assert.deepEqual(launches(KEPT['both results']!), ['conv2dTensor_maxPool2d', 'maxPool2dGradient']);
  assert.deepEqual(launches(KEPT['values only']!), ['conv2dTensor_maxPool2d']);
  assert.match(launches(KEPT['the convolution, too']!)[0]!, /^conv2dTensor/);
});

for (const dtype of [f16, bf16])
  test(`a convolution in ${dtype.name} and its pooling are one launch, rounded as by the composition`, async () => {
    const { n, c, o, arg } = MORE[0]!;
    const x = b.leaf([n, c, ...arg.size], f32);
    const w = b.leaf([o, c / arg.groups, ...arg.kernel], f32);
    const y = b.call(conv2dOp, [b.cast(x, dtype), b.cast(w, dtype)], { ...arg, precision: 'tf32' });
    const pool = halves(MORE[0]!);
    const pooled = b.call(maxPool2dOp, [y], pool);
    const dy = b.call(maxPool2dGradientOp, [b.call(maxPool2dPositionsOp, [y], pool), pooled], pool);
    const graph: Graph = { leaves: [x, w], roots: [b.cast(pooled, f32), b.cast(dy, f32)] };
    // Sums are exact in f32, and too large for 16 bits.
    const given = values(graph).map((v) => v.map((e) => 15 * e));
    const device = openDevice(threads);
    assert.deepEqual(
      await compute(device, graph, given, {}),
      await compute(device, graph, given, { kernels: false }),
    );
    const { launches } = schedule(graph.roots, SIM_TARGET);
    const names = launches.map(({ work }) => ('kernel' in work ? work.kernel.name.split('_and_')[0]! : ''));
    assert.deepEqual(
      names.filter((name) => /^(conv|max)/.test(name)),
      ['conv2dTensor_maxPool2d', 'maxPool2dGradient'],
    );
  });

test('where an image is in memory, one launch makes both results, on every kind of device', () => {
  for (const [kernel, dtype] of [
    [[2, 2], f32],
    [[3, 2], f32],
    [[2, 2], bf16],
  ] as const) {
    const x = b.leaf([2, 3, 6, 10], dtype);
    const arg: PoolArg = {
      ...{ size: [6, 10], kernel, stride: kernel, padding: [0, 0], dilation: [1, 1] },
    };
    const y = b.call(maxPool2dOp, [x], arg);
    const positions = b.call(maxPool2dPositionsOp, [x], arg);
    const dx = b.call(maxPool2dGradientOp, [positions, b.leaf(y.shape, dtype)], arg);
    for (const { target } of [openDevice('cpu'), openDevice('sim')]) {
      const names = schedule([y, dx], target).launches.map(({ work }) =>
        'kernel' in work ? work.kernel.name : work.library.name,
      );
      assert.deepEqual(names, ['maxPool2d', 'maxPool2dGradient'], `${kernel} ${dtype.name} ${target.name}`);
    }
  }
});

test('pooling after a bias and a ReLU moves before them, and so do the gradients', () => {
  const parameter = (...shape: number[]): GraphNode => b.leaf(shape, f32, true);
  const [x, w, bias] = [parameter(2, 3, 10, 12), parameter(4, 3, 3, 3), parameter(1, 4, 1, 1)];
  const { arg } = conv('rectified', [2, 3, 4], [10, 12], 3, { padding: 1 });
  for (const f of [relu, (v: GraphNode) => clamp(v, -1, 2)]) {
    const y = f(
      b.add(b.call(conv2dOp, [x, w], { ...arg, precision: 'tf32' }), b.expand(bias, [2, 4, 10, 12])),
    );
    const pooled = maxPool2d(y, 2);
    assert.equal(callOf(pooled).op, maxPool2dOp, 'the node is what was asked for');
    const gradients = vjp([b.sum(pooled, [0, 1, 2, 3])], [b.leaf([1, 1, 1, 1], f32)], [w, bias]);
    const { launches } = schedule([pooled, ...gradients.map((g) => g!)], SIM_TARGET);
    const names = launches.map(({ work }) => ('kernel' in work ? work.kernel.name.split('_and_')[0] : ''));
    assert.deepEqual(names, [
      ...['conv2dTensor_maxPool2d', 'maxPool2dGradient', 'conv2dWeightTensor', 'conv2dWeightSum'],
    ]);
  }
});
