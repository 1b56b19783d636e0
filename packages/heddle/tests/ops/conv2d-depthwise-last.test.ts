/** Depthwise convolutions with channels last: patches of all kinds in the simulator, larger ones on a GPU, and what is planned. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { bf16, type DType, f16, f32, type TypedArray } from '../../src/core/dtype.js';
import { fromBf16, fromF16, toBf16, toF16 } from '../../src/core/float16.js';
import * as b from '../../src/graph/build.js';
import { callOf, type KernelIo, type Stage } from '../../src/graph/fused-op.js';
import { vjp } from '../../src/graph/grad.js';
import type { GraphNode } from '../../src/graph/node.js';
import {
  alu,
  bufferParam,
  type Expr,
  int,
  load,
  type MemoryNode,
  type Param,
} from '../../src/kernel/ir/ir.js';
import { irFunction } from '../../src/kernel/ir/ir-function.js';
import { H200 } from '../../src/kernel/ir/target.js';
import { buffer } from '../../src/kernel/ir/types.js';
import { compile } from '../../src/kernel/passes/pipeline.js';
import { addParts, partsOf } from '../../src/ops/conv2d/cuda-weight-gradient.js';
import {
  convolveDepthwiseLast,
  convolveWeightDepthwiseLast,
  type LastPatch,
  type LastWeightPatch,
  lastLayout,
} from '../../src/ops/conv2d/depthwise-last.js';
import { depthwiseLastProblem } from '../../src/ops/conv2d/depthwise-last-choice.js';
import {
  type Conv2dArg,
  conv2d,
  conv2dInputOp,
  conv2dOp,
  conv2dWeightOp,
  outputSize,
} from '../../src/ops/conv2d/op.js';
import { gridStage } from '../../src/ops/stage.js';
import type { GridKernel } from '../../src/ops/tiled.js';
import { renderCuda } from '../../src/render/cuda/render.js';
import { closeDevices, openDevice } from '../../src/runtime/registry.js';
import { SIM_TARGET, simulate } from '../../src/runtime/sim/launch.js';
import { schedule } from '../../src/schedule/schedule.js';
import { cudaReason } from '../cases/case-runner.js';
import { checkInSimulator, identity, ioFor, kernelOf, noise, runOnDevice } from '../kernel/harness.js';
import { type ConvolutionCase, conv, lastCall } from './convolution-cases.js';

after(closeDevices);

const stored = (values: Float32Array, dtype: DType): Float32Array | Uint16Array =>
  dtype === f32 ? values : Uint16Array.from(values, dtype === f16 ? toF16 : toBf16);
const numberOf = (v: number, dtype: DType): number =>
  dtype === f32 ? v : dtype === f16 ? fromF16(v) : fromBf16(v);
const UNIT = { f32: 2 ** -24, f16: 2 ** -11, bf16: 2 ** -8 } as const;
const unitOf = ({ name }: DType): number => UNIT[name as keyof typeof UNIT];

/** Numbers of few digits, which 16-bit floats have. */
const coarse = (count: number, seed: number): Float32Array =>
  noise(count, seed).map((v) => Math.round(v * 64) / 64);

type Direction = 'forward' | 'input' | 'weight';
const DIRECTIONS = ['forward', 'input', 'weight'] as const;

/** The call of the op on sources with channels last. */
function callOn({ n, c, o, arg }: ConvolutionCase, direction: Direction, dtype: DType): GraphNode {
  const x = b.leaf([n, c, ...arg.size], dtype);
  const w = b.leaf([o, c / arg.groups, ...arg.kernel], dtype);
  const y = b.leaf([n, o, ...outputSize(arg)], dtype);
  const [op, sources] = (
    {
      forward: [conv2dOp, [x, w]],
      input: [conv2dInputOp, [y, w]],
      weight: [conv2dWeightOp, [x, y]],
    } as const
  )[direction];
  return lastCall(op, sources, arg, SIM_TARGET);
}

/** The launches by one patch. */
function stagesOf(io: KernelIo, arg: Conv2dArg, direction: Direction, patch: LastWeightPatch): Stage[] {
  const problem = depthwiseLastProblem(io, arg, direction);
  const sources = [{ input: 0 }, { input: 1 }] as const;
  if (direction !== 'weight')
    return [gridStage(convolveDepthwiseLast(problem, patch), ...sources, { output: true })];
  const parts = { scratch: 'parts', bytes: 4 * partsOf(problem, patch.parts) };
  return [
    gridStage(convolveWeightDepthwiseLast(problem, patch), ...sources, parts),
    gridStage(addParts(problem, patch.parts), parts, { output: true }),
  ];
}

const patch = (
  lanes: 1 | 2 | 4,
  rows: number,
  columns: number,
  rest: Partial<LastPatch> = {},
): LastPatch => ({
  ...{ lanes, rows, columns, threads: 64, ahead: 2, ...rest },
});

const even = conv('3×3', [3, 8, 8], [5, 7], 3, { groups: 8, padding: 1 });
const wide = conv('more channels than a block has', [2, 136, 136], [3, 5], 3, { groups: 136, padding: 1 });
const strided = conv('strided, dilated', [2, 4, 4], [9, 12], [3, 4], {
  ...{ groups: 4, stride: [2, 3], dilation: [2, 1], padding: [2, 1] },
});
const PATCHES: readonly (readonly [ConvolutionCase, LastPatch, DType])[] = [
  [even, patch(4, 3, 4, { ahead: 1 }), bf16],
  [even, patch(2, 5, 2, { ahead: 3 }), f32],
  [even, patch(1, 2, 7, { threads: 7 }), f16],
  [wide, patch(4, 3, 5, { threads: 128 }), bf16],
  [strided, patch(4, 2, 3), f32],
  [strided, patch(2, 4, 6, { ahead: 6 }), f16],
  [
    conv('several pieces of taps', [1, 2, 2], [9, 11], [9, 10], { groups: 2, padding: 4 }),
    patch(2, 2, 3),
    f32,
  ],
  [conv('two filters each', [2, 3, 6], [5, 6], 3, { groups: 3, padding: 1 }), patch(1, 3, 4), bf16],
];

for (const [shape, tile, dtype] of PATCHES)
  for (const direction of DIRECTIONS)
    test(`${direction}, ${shape.name}, by ${tile.rows}×${tile.columns} of ${tile.lanes} channels of ${dtype.name}`, () => {
      const node = callOn(shape, direction, dtype);
      const plan = (io: KernelIo, arg: unknown): Stage[] =>
        stagesOf(io, arg as Conv2dArg, direction, { ...tile, parts: 3 });
      const { op, arg } = callOf(node);
      const one = b.call(
        { ...op, kernels: [{ name: '', when: () => true, finishes: true, plan }] },
        node.src,
        arg,
      );
      const sources = node.src.map((s, i) => ({ data: stored(coarse(s.size, i + 1), dtype) }));
      checkInSimulator(one, sources, Math.max(1e-5, 4 * unitOf(dtype)), SIM_TARGET);
    });

/** A kernel whose results are multiplied by a factor of their channel, and to which a tensor of their shape is added. */
function withEpilogue(shape: ConvolutionCase, direction: 'forward' | 'input', tile: LastPatch, dtype: DType) {
  const node = callOn(shape, direction, dtype);
  const [, height, width, channels] = node.shape as [number, number, number, number];
  const params = ['factor', 'added'].map((name): Param => ({ name, schema: buffer(dtype) }));
  const [factor, added] = params.map((param) => bufferParam(param)) as [MemoryNode, MemoryNode];
  const times = (x: Expr, n: number): Expr => alu('mul', [x, int(n)]);
  const finish = irFunction(([v, image, row, column, channel]) => {
    const line = alu('add', [times(image!, height), row!]);
    const pixel = alu('add', [times(line, width), column!]);
    const at = alu('add', [times(pixel, channels), channel!]);
    const { lanes } = v!.type;
    return alu('add', [alu('mul', [v!, load(factor, [channel!], lanes)]), load(added, [at], lanes)]);
  });
  const sources = node.src.map((s, i) => stored(coarse(s.size, i + 1), dtype));
  const made = (of: typeof finish) => {
    const views = sources.map((data) => ({ data }));
    const io = ioFor(node, views, SIM_TARGET, () => of);
    return convolveDepthwiseLast(depthwiseLastProblem(io, shape.arg, direction), tile);
  };
  const plain = made(irFunction(([v]) => v!));
  const { kernel } = made(finish);
  return {
    node,
    sources,
    plain,
    made: { ...plain, kernel: { ...kernel, params: [...kernel.params, ...params] } },
  };
}

for (const [shape, tile, dtype] of [
  [even, patch(4, 3, 4), bf16],
  [even, patch(4, 1, 1), f32],
  [wide, patch(2, 2, 5, { threads: 128 }), f16],
  [strided, patch(4, 6, 3), f32],
  [strided, patch(1, 2, 6, { ahead: 1 }), bf16],
  [
    conv('strides that leave places out', [2, 4, 4], [7, 8], 1, { groups: 4, stride: 3 }),
    patch(2, 6, 3),
    f32,
  ],
  [
    conv('several pieces of taps', [1, 2, 2], [9, 11], [9, 10], { groups: 2, padding: 4 }),
    patch(2, 2, 3),
    f32,
  ],
] as const)
  for (const direction of ['forward', 'input'] as const)
    test(`an epilogue of ${direction}, ${shape.name}, by ${tile.rows}×${tile.columns} of ${tile.lanes} channels of ${dtype.name} reads before a row is stored`, () => {
      const { node, sources, plain, made } = withEpilogue(shape, direction, tile, dtype);
      const run = ({ kernel, grid, threads, sharedBytes }: GridKernel, more: Record<string, TypedArray>) => {
        const y = stored(new Float32Array(node.size).fill(Number.NaN), dtype);
        const [x, w] = sources as [TypedArray, TypedArray];
        simulate(kernel, { grid, block: threads, sharedBytes }, { x, w, y, ...more });
        return y;
      };
      const factor = stored(coarse(node.shape[3]!, 3), dtype);
      const added = stored(coarse(node.size, 4), dtype);
      const before = run(plain, {});
      const after = run(made, { factor, added });
      const rounded = (v: number): number => numberOf(stored(Float32Array.of(v), dtype)[0]!, dtype);
      after.forEach((got, i) => {
        const [v, by, more] = [before[i]!, factor[i % node.shape[3]!]!, added[i]!].map((n) =>
          numberOf(n, dtype),
        );
        const wanted = rounded(rounded(v! * by!) + more!);
        assert.equal(numberOf(got, dtype), wanted, `${i}`);
      });
      // Whatever it reads is in registers of the thread, where later stores do not have it read again.
      const text = renderCuda(compile(made.kernel, { ...SIM_TARGET, name: 'cuda' }));
      const reads = text.slice(text.indexOf('__global__')).match(/^.*(added|factor)( \+|\[).*$/gm)!;
      assert.ok(reads.length > 0);
      for (const line of reads) assert.match(line, /^ *early\w*\[[^;]*;$/);
    });

for (const { dtype, lanes } of [
  { dtype: bf16, lanes: 4 },
  { dtype: bf16, lanes: 1 },
  { dtype: f32, lanes: 2 },
  { dtype: f32, lanes: 1 },
] as const)
  test(`blocks of ${lanes} channels of ${dtype.name} a thread have all channels and share no sector of memory`, () => {
    for (const channels of [136, 144, 576, 960]) {
      const shape = conv('', [1, channels, channels], 3, 3, { groups: channels });
      const node = callOn(shape, 'forward', dtype);
      const io = ioFor(
        node,
        node.src.map((s) => ({ data: stored(new Float32Array(s.size), dtype) })),
        SIM_TARGET,
        identity,
      );
      const { chunks, width } = lastLayout(
        depthwiseLastProblem(io, shape.arg, 'forward'),
        patch(lanes, 1, 1),
        false,
      );
      assert.equal((width * dtype.bytes) % 32, 0, `${channels} channels in ${chunks} of ${width}`);
      assert.ok((chunks - 1) * width < channels && channels <= chunks * width, `${chunks} of ${width}`);
    }
  });

/** The kernels that compute roots on an H200. */
const launchesOf = (roots: readonly GraphNode[]): string[] =>
  schedule(roots, H200).launches.map(({ work }) =>
    'kernel' in work ? work.kernel.name.replace(/_and_.*/, '') : work.library.name,
  );
const toFirst = (x: GraphNode): GraphNode => b.permute(x, [0, 3, 1, 2]);
const toLast = (x: GraphNode): GraphNode => b.permute(x, [0, 2, 3, 1]);

for (const dtype of [bf16, f32])
  for (const kernel of [3, 7])
    test(`on channels last ${kernel}×${kernel} taps of ${dtype.name} are one launch, their gradient another for its parts`, () => {
      const x = b.leaf([64, 56, 56, 96], dtype, true);
      const w = b.leaf([96, kernel, kernel, 1], dtype, true);
      const settings = { padding: (kernel - 1) / 2, groups: 96 };
      const y = toLast(conv2d(toFirst(x), toFirst(w), settings));
      const [dx, dw] = vjp([y], [b.leaf(y.shape, dtype, false)], [x, w]) as [GraphNode, GraphNode];
      assert.deepEqual(launchesOf([y]), ['conv2dDepthwiseLast']);
      assert.deepEqual(launchesOf([dx]), ['conv2dInputDepthwiseLast']);
      assert.deepEqual(launchesOf([dw]), ['conv2dWeightDepthwiseLast', 'conv2dWeightSum']);
    });

test('a depthwise convolution between others has no permutation beside it', () => {
  const x = b.leaf([8, 64, 28, 28], bf16, true);
  const [expand, each, project] = [
    b.leaf([128, 64, 1, 1], bf16, true),
    b.leaf([128, 1, 3, 3], bf16, true),
    b.leaf([64, 128, 1, 1], bf16, true),
  ];
  const limited = (v: GraphNode): GraphNode =>
    b.map('min', b.map('max', v, b.full(v.shape, bf16, 0)), b.full(v.shape, bf16, 6));
  const block = (v: GraphNode): GraphNode => {
    const wide = limited(conv2d(v, expand));
    return b.map('add', v, conv2d(limited(conv2d(wide, each, { padding: 1, groups: 128 })), project));
  };
  const y = block(block(x));
  const weights = [expand, each, project];
  const gradients = vjp([y], [b.leaf(y.shape, bf16, false)], weights) as GraphNode[];
  const names = launchesOf([b.reduce('sum', y, [0, 1, 2, 3]), ...gradients]);
  // x and the outputs' gradient come as they are: those alone change their order.
  assert.ok(names.filter((name) => /transpose|permute/i.test(name)).length <= 2, `${names}`);
  assert.ok(!names.some((name) => /Depthwise(_|$)/.test(name)), `${names}`);
});

/** A result with the sizes of its terms. */
function exactly(
  { n, c, o, arg }: ConvolutionCase,
  direction: Direction,
  first: Float32Array,
  second: Float32Array,
) {
  const { size, kernel, stride, dilation, padding, groups } = arg;
  const [height, width] = outputSize(arg);
  const [taps, filters] = [kernel[0] * kernel[1], o / groups];
  const count = { forward: n * height * width * o, input: n * size[0] * size[1] * c, weight: o * taps }[
    direction
  ];
  const sums = new Float64Array(count);
  const totals = new Float64Array(count);
  for (let image = 0; image < n; image++)
    for (let row = 0; row < height; row++)
      for (let column = 0; column < width; column++)
        for (let tap = 0; tap < taps; tap++) {
          const v = row * stride[0] - padding[0] + Math.floor(tap / kernel[1]) * dilation[0];
          const u = column * stride[1] - padding[1] + (tap % kernel[1]) * dilation[1];
          if (v < 0 || v >= size[0] || u < 0 || u >= size[1]) continue;
          for (let out = 0; out < o; out++) {
            const x = ((image * size[0] + v) * size[1] + u) * c + Math.floor(out / filters);
            const y = ((image * height + row) * width + column) * o + out;
            const w = out * taps + tap;
            const [to, i, j] = { forward: [y, x, w], input: [x, y, w], weight: [w, x, y] }[direction] as [
              ...[number, number, number],
            ];
            sums[to]! += first[i]! * second[j]!;
            totals[to]! += Math.abs(first[i]! * second[j]!);
          }
        }
  return { sums, totals };
}

const reason = cudaReason();
const LARGE: readonly ConvolutionCase[] = [
  conv('3×3', [5, 96, 96], [29, 28], 3, { groups: 96, padding: 1 }),
  conv('3×3, stride 2', [6, 144, 144], [27, 30], 3, { groups: 144, stride: 2, padding: 1 }),
  conv('3×3 of 14×14', [7, 392, 392], [14, 14], 3, { groups: 392, padding: 1 }),
  conv('7×7', [3, 72, 72], [25, 31], 7, { groups: 72, padding: 3 }),
  conv('5×3 of odd channels, dilated', [4, 37, 37], [19, 23], [5, 3], {
    ...{ groups: 37, dilation: [1, 2], padding: [2, 0] },
  }),
  conv('two filters each', [3, 50, 100], [17, 13], 3, { groups: 50, padding: 1, stride: [1, 2] }),
];
for (const shape of LARGE)
  for (const dtype of [bf16, f16, f32])
    for (const direction of DIRECTIONS)
      test(`cuda: ${direction}, ${shape.name}, of ${dtype.name}, in every way`, {
        skip: reason ? `not run: ${reason}` : false,
      }, async () => {
        const on = openDevice('cuda');
        const target = { ...on.target, libraries: new Set<string>() };
        const node = callOn(shape, direction, dtype);
        const values = node.src.map((s, i) => coarse(s.size, i + 1)) as [Float32Array, Float32Array];
        const { sums, totals } = exactly(shape, direction, ...values);
        const inputs = values.map((v) => stored(v, dtype));
        const io = ioFor(
          node,
          inputs.map((data) => ({ data })),
          target,
          identity,
        );
        for (const { name, plan } of kernelOf(node, target)!.variants!(io, shape.arg)) {
          const out = stored(new Float32Array(node.size).fill(Number.NaN), dtype);
          await runOnDevice(on, plan(), inputs, out);
          sums.forEach((sum, i) => {
            // Each thread adds up to 4096 products one after the other.
            const bound = totals[i]! * 4096 * 2 ** -24 + Math.abs(sum) * unitOf(dtype);
            const got = numberOf(out[i]!, dtype);
            if (!(Math.abs(got - sum) <= bound)) assert.fail(`${name}, ${i}: ${got} for ${sum} ± ${bound}`);
          });
        }
      });
