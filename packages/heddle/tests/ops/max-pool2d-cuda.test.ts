/** The GPU's max pooling kernels against their compositions, in the simulator. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bf16, type DType, f16, f32, i8 } from '../../src/core/dtype.js';
import { toBf16, toF16 } from '../../src/core/float16.js';
import { stridesOf } from '../../src/core/shape.js';
import { call, leaf } from '../../src/graph/build.js';
import type { FusedOp } from '../../src/graph/fused-op.js';
import type { GraphNode } from '../../src/graph/node.js';
import { irFunction } from '../../src/kernel/ir/ir-function.js';
import { maxPoolBytes, wordsOf } from '../../src/ops/max-pool2d/cuda-bytes.js';
import {
  maxPool2dGradientOp,
  maxPool2dOp,
  maxPool2dPositionsOp,
  type PoolArg,
  pooledSize,
} from '../../src/ops/max-pool2d/op.js';
import { type PoolProblem, positionDtype } from '../../src/ops/max-pool2d/problem.js';
import { SIM_TARGET, simulate } from '../../src/runtime/sim/launch.js';
import { checkInSimulator, noise, type Source } from '../kernel/harness.js';
import { lastCall } from './convolution-cases.js';

type Sides = readonly [number, number];
const pool = (
  size: Sides,
  kernel: Sides,
  stride: Sides = kernel,
  padding: Sides = [0, 0],
  dilation: Sides = [1, 1],
): PoolArg => ({ size, kernel, stride, padding, dilation });

const CASES: Readonly<Record<string, PoolArg>> = {
  '2×2 of 24 columns': pool([4, 24], [2, 2]),
  '2×2 of odd rows': pool([5, 12], [2, 2]),
  '2×2 of odd sizes': pool([5, 11], [2, 2]),
  '2×2 of one window': pool([2, 2], [2, 2]),
  '3×2': pool([7, 9], [3, 2]),
  '3×2 by 4×2': pool([9, 8], [3, 2], [4, 2]),
  'stride beyond the kernel': pool([7, 8], [2, 2], [3, 3]),
  '2×2 padded': pool([5, 6], [2, 2], [2, 2], [1, 1]),
  '2×2 padded above': pool([5, 6], [2, 2], [2, 2], [1, 0]),
  '3×3 padded': pool([7, 7], [3, 3], [3, 3], [1, 0]),
  '3×3 by 2 padded': pool([8, 9], [3, 3], [2, 2], [1, 1]),
  '3×3 by 1': pool([6, 7], [3, 3], [1, 1]),
  dilated: pool([8, 9], [2, 2], [2, 2], [0, 0], [2, 3]),
  '16×16 by 3': pool([20, 23], [16, 16], [3, 3], [4, 4]),
};

/** Positions in windows, one of them that of NaN. */
function positions({ kernel }: PoolArg, count: number): Uint8Array | Int32Array {
  const n = kernel[0] * kernel[1];
  const places = Array.from({ length: count }, (_, i) => (i * 7) % (n + 1));
  return n < 255 ? Uint8Array.from(places) : Int32Array.from(places);
}

/** Values with many ties, and one NaN, on 3 images of 2 channels. */
function pixels([h, w]: Sides, nan: boolean): Float32Array {
  const data = noise(6 * h * w, h + w).map((v) => Math.round(3 * v));
  if (nan) data[data.length >> 1] = Number.NaN;
  return data;
}

/** Numbers as a source of that dtype. */
const held = (data: Float32Array, dtype: DType): Source => ({
  data: dtype === f32 ? data : Uint16Array.from(data, dtype === f16 ? toF16 : toBf16),
});

/** Of f32 what the order of sums changes; of 16-bit floats four roundings: of the sum, and of the marks on it. */
const toleranceOf = (dtype: DType): number =>
  dtype === f32 ? 1e-5 : 4 * (dtype === f16 ? 2 ** -11 : 2 ** -8);

const check = (node: GraphNode, sources: readonly Source[], tolerance: number): void =>
  checkInSimulator(node, sources, tolerance, SIM_TARGET);

for (const dtype of [f32, bf16, f16])
  for (const [name, arg] of Object.entries(CASES)) {
    const x = leaf([3, 2, ...arg.size], dtype);
    const g = leaf([3, 2, ...pooledSize(arg)], dtype);
    const at = leaf(g.shape, positionDtype(arg));
    const images = [false, true].map((nan) => held(pixels(arg.size, nan), dtype));
    test(`maxPool2d ${name} of ${dtype.name}`, () => {
      const tolerance = dtype === f32 ? 0 : toleranceOf(dtype);
      for (const image of images) check(call(maxPool2dOp, [x], arg), [image], tolerance);
    });
    test(`maxPool2dPositions ${name} of ${dtype.name}`, () => {
      for (const image of images) check(call(maxPool2dPositionsOp, [x], arg), [image], 0);
    });
    test(`maxPool2dGradient ${name} of ${dtype.name}`, () => {
      const sources = [{ data: positions(arg, g.size) }, held(noise(g.size, 9), dtype)];
      check(call(maxPool2dGradientOp, [at, g], arg), sources, toleranceOf(dtype));
    });
  }

/** Channels, and where a source with them last begins: vectors of 4, of 2 and of 1. */
const LAST = [
  [4, 0],
  [8, 4],
  [6, 0],
  [4, 2],
  [3, 0],
  [4, 1],
] as const;

const last = (op: FusedOp<PoolArg>, sources: readonly GraphNode[], arg: PoolArg): GraphNode =>
  lastCall(op, sources, arg, SIM_TARGET);

/** A source that begins at an offset. */
const beginning = (source: Source, { shape: [n, c, h, w], size }: GraphNode, offset: number): Source => ({
  ...source,
  view: { strides: stridesOf([n!, h!, w!, c!]), offset, length: size + offset },
});

Object.entries(CASES).forEach(([name, arg], i) => {
  const [channels, offset] = LAST[i % LAST.length]!;
  const dtype = [f32, bf16, f16][i % 3]!;
  const x = leaf([2, channels, ...arg.size], dtype);
  const g = leaf([2, channels, ...pooledSize(arg)], dtype);
  const at = leaf(g.shape, positionDtype(arg));
  test(`channels last: ${name}, ${channels} channels from ${offset} on, of ${dtype.name}`, () => {
    for (const nan of [false, true]) {
      const values = noise(x.size, i).map((v) => Math.round(3 * v));
      if (nan) values[values.length >> 1] = Number.NaN;
      const image = beginning(held(values, dtype), x, offset);
      check(last(maxPool2dOp, [x], arg), [image], dtype === f32 ? 0 : toleranceOf(dtype));
      check(last(maxPool2dPositionsOp, [x], arg), [image], 0);
    }
    const sources = [{ data: positions(arg, g.size) }, held(noise(g.size, 9), dtype)];
    check(
      last(maxPool2dGradientOp, [at, g], arg),
      sources.map((s) => beginning(s, g, offset)),
      toleranceOf(dtype),
    );
  });
});

/** Channels, where the images begin, and words of a thread. */
const BYTES: readonly (readonly [channels: number, offset: number, words: 1 | 2 | 4])[] = [
  [4, 4, 1],
  [8, 0, 2],
  [48, 16, 4],
];

Object.entries(CASES).forEach(([name, arg], i) => {
  const [channels, imageOffset, words] = BYTES[i % BYTES.length]!;
  test(`bytes with channels last: ${name}, ${channels} channels from ${imageOffset} on, ${words} words of a thread`, () => {
    const [[h, w], [rows, columns]] = [arg.size, pooledSize(arg)];
    const planes = 2;
    const x = Int8Array.from(noise(imageOffset + planes * h * w * channels, i), (v) => Math.round(128 * v));
    const finish = irFunction(([v]) => v!);
    const p: PoolProblem = {
      ...{ ...arg, planes, channels, isLast: true, dtype: i8, outSize: [rows, columns] },
      ...{ imageOffset, gradientOffset: 0, finish },
    };
    assert.ok(wordsOf(p, 0)! >= words);
    const { kernel, grid, threads } = maxPoolBytes(p, words);
    const y = new Int8Array(planes * rows * columns * channels);
    simulate(kernel, { grid, block: threads }, { x: new Int32Array(x.buffer), y });
    const wanted = y.map((_, at) => {
      const [channel, pixel] = [at % channels, Math.floor(at / channels)];
      const [c, r, plane] = [
        pixel % columns,
        Math.floor(pixel / columns) % rows,
        Math.floor(pixel / columns / rows),
      ];
      let largest = -128;
      for (let ky = 0; ky < arg.kernel[0]; ky++)
        for (let kx = 0; kx < arg.kernel[1]; kx++) {
          const iy = r * arg.stride[0] - arg.padding[0] + ky * arg.dilation[0];
          const ix = c * arg.stride[1] - arg.padding[1] + kx * arg.dilation[1];
          if (iy < 0 || iy >= h || ix < 0 || ix >= w) continue;
          largest = Math.max(largest, x[imageOffset + ((plane * h + iy) * w + ix) * channels + channel]!);
        }
      return largest;
    });
    assert.deepEqual(y, wanted);
  });
});
