/** Convolutions by warpgroups: tiles, strides, dilation and padding of all kinds in the simulator, larger ones on a GPU. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { bf16, type DType, f32 } from '../../src/core/dtype.js';
import { fromBf16, toBf16 } from '../../src/core/float16.js';
import { call, leaf, permute } from '../../src/graph/build.js';
import { H200, type Target } from '../../src/kernel/ir/target.js';
import { conv2dInputOp, conv2dOp, conv2dWeightOp, outputSize } from '../../src/ops/conv2d/op.js';
import type { WarpgroupTile } from '../../src/ops/matmul/warpgroup-layout.js';
import type { Device } from '../../src/runtime/device.js';
import { closeDevices, openDevice } from '../../src/runtime/registry.js';
import { SIM_TARGET } from '../../src/runtime/sim/launch.js';
import { cudaReason } from '../cases/case-runner.js';
import { interpret } from '../cases/reference.js';
import { assertClose, identity, ioFor, kernelOf, noise, runOnDevice } from '../kernel/harness.js';
import { type ConvolutionCase, conv, lastCall } from './convolution-cases.js';
import { check, type Direction, exactly, mustBe, stored, turned, values } from './convolution-check.js';

const small: WarpgroupTile = { groups: 1, each: 1, columns: 64, stages: 3, splits: 1 };
/** In groups that do and do not fill tiles, steps and stages. */
function groupedCases(dtype: DType): [ConvolutionCase, Partial<WarpgroupTile>, DType][] {
  return [
    [conv('2 groups', [2, 32, 48], [5, 7], 3, { padding: 1, groups: 2 }), { groups: 2, stages: 2 }, dtype],
    [
      conv('3 groups of more channels than a stage has', [1, 3 * 72, 3 * 72], [3, 4], [1, 3], {
        ...{ padding: [0, 1], groups: 3 },
      }),
      { columns: 128, each: 2 },
      dtype,
    ],
    [conv('32 groups of 8', [1, 256, 256], [3, 5], 2, { padding: 1, groups: 32 }), {}, dtype],
    [
      conv('groups, stride 2 by turns', [3, 32, 48], [9, 8], 3, { stride: 2, padding: 1, groups: 2 }),
      { groups: 2, alternate: true },
      dtype,
    ],
    [
      conv('groups, stride 2 of equal phases', [2, 128, 32], [8, 6], 3, {
        ...{ stride: 2, padding: 1, groups: 2 },
      }),
      {},
      dtype,
    ],
    [
      conv('groups, stride 3 by 1, dilated', [1, 96, 64], [11, 9], [3, 2], {
        ...{ stride: [3, 1], dilation: [2, 3], padding: [2, 1], groups: 4 },
      }),
      {},
      dtype,
    ],
    [conv('1×1 in groups', [3, 3 * 24, 3 * 72], 4, 1, { groups: 3 }), { columns: 128 }, dtype],
    [conv('1×1 in groups, stride 2', [2, 32, 16], [5, 6], 1, { stride: 2, groups: 2 }), {}, dtype],
  ];
}

const cases: readonly [ConvolutionCase, Partial<WarpgroupTile>, DType?][] = [
  [conv('3×3 with padding', [2, 16, 24], [5, 7], 3, { padding: 1 }), { groups: 2, stages: 2 }],
  [conv('3×3 with padding', [1, 12, 8], [5, 7], 3, { padding: 1 }), {}, f32],
  [conv('channels that fill steps', [2, 32, 24], [5, 7], 3, { padding: 1 }), {}, f32],
  [conv('more channels than a step has', [1, 72, 72], [3, 4], [1, 3], { padding: [0, 1] }), { columns: 128 }],
  [
    conv('several panels of either', [1, 72, 72], [5, 4], [1, 3], { padding: [0, 1] }),
    { groups: 2, each: 2, columns: 192 },
    f32,
  ],
  [conv('stride 2', [2, 8, 16], [8, 9], 3, { stride: 2, padding: 1 }), { each: 2 }],
  [conv('stride 2', [1, 8, 12], [7, 8], 3, { stride: 2, padding: 1 }), {}, f32],
  [
    conv('stride 2, by turns', [3, 16, 24], [9, 8], 3, { stride: 2, padding: 1 }),
    { groups: 2, alternate: true },
  ],
  [
    conv('stride 3 by 1, dilated', [1, 8, 8], [11, 9], [3, 2], {
      ...{ stride: [3, 1], dilation: [2, 3], padding: [2, 1] },
    }),
    {},
  ],
  [conv('stride 2 of equal phases', [3, 64, 16], [8, 6], 3, { stride: 2, padding: 1 }), {}],
  [
    conv('few channels, whose rows of taps are joined', [2, 8, 16], [7, 9], 3, {
      stride: 2,
      padding: [1, 0],
    }),
    {},
  ],
  [conv('1×1', [3, 24, 72], 4, 1), { columns: 128 }],
  [conv('3×3 from and to few channels', [2, 24, 16], [5, 7], 3, { padding: 1 }), { groups: 2 }],
  [conv('3×3 from and to few channels', [1, 12, 24], [5, 7], 3, { padding: 1 }), { groups: 2 }, f32],
  [conv('1×1 from and to channels that fill panels half', [3, 96, 160], 4, 1), { columns: 192 }],
  [conv('1×1, stride 2', [2, 16, 8], [5, 6], 1, { stride: 2 }), {}],
  [conv('a kernel larger than the image', [9, 8, 8], [2, 3], 5, { padding: 2 }), {}],
  [
    conv('stride 2 of equal phases, fewer channels than columns', [1, 64, 16], [4, 6], 3, {
      ...{ stride: 2, padding: 1 },
    }),
    { columns: 128 },
  ],
  ...groupedCases(bf16),
  ...groupedCases(f32),
];

for (const [shape, tile, dtype = bf16] of cases)
  for (const direction of ['forward', 'input', 'weight'] as const)
    test(`${direction} of ${shape.name}, ${dtype.name}`, () =>
      check(shape, direction, { ...small, ...tile }, dtype));

for (const direction of ['forward', 'input', 'weight'] as const)
  test(`${direction} in parts`, () =>
    check(conv('', [2, 72, 16], [5, 7], 3, { padding: 1 }), direction, { ...small, splits: 3 }, bf16));

for (const [dtype, each] of [
  [bf16, 64],
  [bf16, 24],
  [f32, 32],
] as const)
  test(`weight of groups of ${each} in parts, ${dtype.name}`, () =>
    check(
      conv('', [2, 3 * each, 3 * 72], [5, 7], 3, { padding: 1, groups: 3 }),
      'weight',
      { ...small, splits: 3 },
      dtype,
    ));

test('what few colours of few taps meet a pixel is gathered, and that changes nothing', () => {
  for (const [shape, dtype, aligned] of [
    [conv('', [2, 3, 64], [5, 6], 3, { stride: [2, 1], padding: [0, 1], dilation: [1, 2] }), f32, 28],
    [conv('', [2, 3, 64], [5, 6], 3, { stride: [2, 1], padding: [0, 1], dilation: [1, 2] }), bf16, 32],
    [conv('', [2, 1, 16], [9, 8], 7, { padding: 3 }), bf16, 56],
    [conv('', [2, 1, 4], [6, 7], 3), bf16, 16],
  ] as const) {
    const { n, c, o, arg } = shape;
    // Few channels on both sides are worth it for a library.
    const libraries = new Set(dtype === f32 ? [] : (['cudnn.convolution'] as const));
    const target = { ...SIM_TARGET, libraries };
    const x = leaf([n, c, ...arg.size], dtype);
    const w = leaf([o, c, ...arg.kernel], dtype);
    const y = leaf([n, o, ...outputSize(arg)], dtype);
    for (const [op, sources] of [
      [conv2dOp, [x, w]],
      [conv2dWeightOp, [x, y]],
    ] as const) {
      const way = op.reordered!(target, call(op, sources, arg), arg)!;
      const made = way.make(sources.map((s) => permute(s, way.order)));
      const [images] = lastCall(op as typeof conv2dOp, sources, arg, SIM_TARGET).src;
      assert.deepEqual(images!.shape, [n, ...outputSize(arg), aligned]);
      const given = new Map(
        sources.map((s, i) => [s, Array.from(values(s.size, i), (v) => fromBf16(toBf16(v)))]),
      );
      const plain = interpret(permute(op.compose(sources, arg), way.order), given);
      assertClose(interpret(made, given) as number[], plain as number[], 1e-6, `${op.name}, ${dtype.name}`);
    }
  }
});

test('images of few colours are padded beside, and that changes nothing', () => {
  const { n, c, o, arg } = conv('', [2, 3, 64], [5, 6], 5, { padding: [0, 1] });
  const x = leaf([n, c, ...arg.size], f32);
  const w = leaf([o, c, ...arg.kernel], f32);
  const y = leaf([n, o, ...outputSize(arg)], f32);
  for (const [op, sources] of [
    [conv2dOp, [x, w]],
    [conv2dWeightOp, [x, y]],
  ] as const) {
    const way = op.reordered!(SIM_TARGET, call(op, sources, arg), arg)!;
    const made = way.make(sources.map((s) => permute(s, way.order)));
    const given = new Map(sources.map((s, i) => [s, Array.from(values(s.size, i))]));
    const plain = interpret(permute(op.compose(sources, arg), way.order), given);
    assertClose(interpret(made, given) as number[], plain as number[], 1e-6, op.name);
  }
});

const STRIDED: readonly Parameters<typeof conv>[] = [
  ['7×7', [2, 3, 64], [9, 12], 7, { stride: 2, padding: 3 }],
  ['5×5', [2, 3, 64], [8, 11], 5, { stride: 2, padding: [0, 1] }],
  ['6×5', [2, 3, 64], [8, 14], [6, 5], { stride: [2, 3] }],
];
for (const shape of STRIDED.map((given) => conv(...given)))
  test(`images of few colours become blocks of pixels, and that changes nothing: ${shape.name}`, () => {
    const { n, c, o, arg } = shape;
    const x = leaf([n, c, ...arg.size], bf16);
    const w = leaf([o, c, ...arg.kernel], bf16);
    const y = leaf([n, o, ...outputSize(arg)], bf16);
    for (const [op, sources] of [
      [conv2dOp, [x, w]],
      [conv2dWeightOp, [x, y]],
    ] as const) {
      const way = op.reordered!(SIM_TARGET, call(op, sources, arg), arg)!;
      const made = way.make(sources.map((s) => permute(s, way.order)));
      const [images] = lastCall(op as typeof conv2dOp, sources, arg, SIM_TARGET).src;
      assert.equal(images!.shape[3]! % (arg.stride[0] * arg.stride[1]), 0);
      assert.ok(images!.shape[1]! < arg.size[0]);
      // Whole numbers: sums are exact in any order.
      const given = new Map(
        sources.map((s, i) => [s, Array.from(noise(s.size, i), (v) => Math.round(4 * v))]),
      );
      const plain = interpret(permute(op.compose(sources, arg), way.order), given);
      assert.deepEqual(interpret(made, given), plain);
    }
  });

after(closeDevices);

const reason = cudaReason();
const wide: readonly ConvolutionCase[] = [
  conv('3×3', [3, 64, 128], [11, 13], 3, { padding: 1 }),
  conv('3×3, stride 2', [4, 72, 64], [15, 12], 3, { stride: 2, padding: 1 }),
  conv('3×3, stride 2 of equal phases', [4, 128, 64], [14, 12], 3, { stride: 2, padding: 1 }),
  conv('1×1, stride 2', [9, 64, 72], [14, 12], 1, { stride: 2 }),
  conv('1×1', [9, 64, 72], [14, 13], 1),
  conv('3×3 of few channels', [9, 24, 32], [14, 13], 3, { padding: 1 }),
  conv('1×1 of channels that fill panels half', [9, 96, 160], [14, 13], 1),
  conv('7×7 of few channels, stride 2', [4, 8, 64], [24, 27], 7, { stride: 2, padding: [3, 0] }),
  conv('5×3, dilated', [3, 40, 64], [17, 11], [5, 3], { padding: [2, 3], dilation: [2, 1] }),
  conv('3×3 in groups of 64 to 96', [4, 128, 192], [16, 14], 3, { padding: 1, groups: 2 }),
  conv('3×3 in groups of 40, stride 2', [4, 200, 200], [15, 12], 3, { stride: 2, padding: 1, groups: 5 }),
];
/** Computes it by each variant of its kernel for a target. @returns their names */
async function inEveryWay(
  shape: ConvolutionCase,
  direction: Direction,
  dtype: DType,
  on: Device,
  target: Target,
): Promise<string[]> {
  const { n, c, o, arg } = shape;
  const exact = exactly(shape, direction);
  const x = leaf([n, c, ...arg.size], dtype);
  const w = leaf([o, c / arg.groups, ...arg.kernel], dtype);
  const y = leaf([n, o, ...outputSize(arg)], dtype);
  const [op, sources] = (
    {
      forward: [conv2dOp, [x, w]],
      input: [conv2dInputOp, [y, w]],
      weight: [conv2dWeightOp, [x, y]],
    } as const
  )[direction];
  const node = lastCall(op, sources, arg, target);
  const second = direction === 'input' && dtype === f32 ? turned(exact.b, shape) : exact.b;
  const given = [exact.a, second].map((v) => ({ data: stored(v, dtype) }));
  const ways = kernelOf(node, target)!.variants!(ioFor(node, given, target, identity), arg);
  for (const { plan } of ways) {
    const out = dtype === f32 ? new Float32Array(exact.sums.length) : new Uint16Array(exact.sums.length);
    const inputs = given.map(({ data }) => data);
    await runOnDevice(on, plan(), inputs, out);
    mustBe(exact, (i) => (dtype === f32 ? out[i]! : fromBf16(out[i]!)), 2 ** -22);
  }
  return ways.map(({ name }) => name);
}

for (const [shape, dtype] of [
  ...wide.map((w) => [w, bf16] as const),
  ...[...wide.slice(0, 7), ...wide.slice(-2)].map((w) => [w, f32] as const),
])
  for (const direction of ['forward', 'input', 'weight'] as const)
    test(`cuda: ${direction} of ${shape.name}, ${dtype.name}, in every way`, {
      skip: reason ? `not run: ${reason}` : false,
    }, async () => {
      const on = openDevice('cuda');
      const target = { ...on.target, libraries: new Set<string>() };
      const names = await inEveryWay(shape, direction, dtype, on, target);
      assert.ok(names.some((name) => name.includes('warpgroups')) || target.capability !== 90, `${names}`);
    });

for (const direction of ['forward', 'input'] as const)
  test(`sim: ${direction} of one image as an H200 does it, in every way`, async () => {
    const target = { ...H200, libraries: new Set<string>() };
    const shape = conv('', [1, 136, 136], [5, 7], 3, { padding: 1 });
    const names = await inEveryWay(shape, direction, bf16, openDevice('sim'), target);
    for (const kernel of [/^last-bf16-warpgroups/, /^last-\d/])
      for (const isSplit of [false, true])
        assert.ok(
          names.some((name) => kernel.test(name) && name.includes('split-k') === isSplit),
          `${names}`,
        );
  });
