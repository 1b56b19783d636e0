/** Convolutions by warpgroups in the simulator, beside the exact sums of their products. */
import assert from 'node:assert/strict';
import { bf16, type DType, f16, f32, i8, i32, isHalf } from '../../src/core/dtype.js';
import { fromBf16, fromF16, toBf16, toF16 } from '../../src/core/float16.js';
import { irFunction } from '../../src/kernel/ir/ir-function.js';
import type { LastProblem } from '../../src/ops/conv2d/last-product.js';
import { outputSize } from '../../src/ops/conv2d/op.js';
import {
  convolveWarpgroups,
  convolveWeightWarpgroups,
  isWholeGradient,
  joined,
  suitsConvolution,
} from '../../src/ops/conv2d/warpgroup.js';
import type { WarpgroupTile } from '../../src/ops/matmul/warpgroup-layout.js';
import { gridStage } from '../../src/ops/stage.js';
import type { Device } from '../../src/runtime/device.js';
import { simulate } from '../../src/runtime/sim/launch.js';
import { noise, runOnDevice } from '../kernel/harness.js';
import type { ConvolutionCase } from './convolution-cases.js';

export type Direction = 'forward' | 'input' | 'weight';

const finish = irFunction(([v]) => v!);

export function problemOf(
  { n, c, o, arg }: ConvolutionCase,
  direction: Direction,
  dtype: DType,
): LastProblem {
  const adjoint = direction === 'input';
  const { kernel, stride, dilation, padding, size, groups } = arg;
  const [inputs, outputs] = (adjoint ? [o, c] : [c, o]).map((n) => n / groups) as [number, number];
  const [from, to] = adjoint ? [outputSize(arg), size] : [size, outputSize(arg)];
  return {
    ...{ images: n, groups, dtype, inputs, outputs, kernel, stride, dilation, padding, adjoint },
    ...{
      size: from,
      outSize: to,
      imageOffset: 0,
      secondOffset: 0,
      finish,
      output: dtype === i8 ? i32 : dtype,
    },
  };
}

/** Numbers that bf16, f16 and tf32 have; or bytes. */
export const values = (count: number, seed: number, dtype: DType = bf16): Float32Array =>
  noise(count, seed).map((v) => (dtype === i8 ? Math.round(127 * v) : fromF16(toF16(fromBf16(toBf16(v))))));

/** Passes every product of the convolution: indices into x (N, H, W, C), w (O, kH, kW, C/G) and y (N, outH, outW, O). */
function eachProduct(
  { n, c, o, arg }: ConvolutionCase,
  visit: (x: number, w: number, y: number) => void,
): void {
  const { size, kernel, stride, dilation, padding, groups } = arg;
  const [height, width] = outputSize(arg);
  const inputs = c / groups;
  for (let image = 0; image < n; image++)
    for (let row = 0; row < height; row++)
      for (let column = 0; column < width; column++)
        for (let i = 0; i < kernel[0]; i++)
          for (let j = 0; j < kernel[1]; j++) {
            const [v, u] = [
              row * stride[0] - padding[0] + i * dilation[0],
              column * stride[1] - padding[1] + j * dilation[1],
            ];
            if (v < 0 || v >= size[0] || u < 0 || u >= size[1]) continue;
            const x = ((image * size[0] + v) * size[1] + u) * c;
            const y = ((image * height + row) * width + column) * o;
            for (let out = 0; out < o; out++) {
              const first = x + Math.floor((out * groups) / o) * inputs;
              const filter = ((out * kernel[0] + i) * kernel[1] + j) * inputs;
              for (let channel = 0; channel < inputs; channel++)
                visit(first + channel, filter + channel, y + out);
            }
          }
}

/** Sources (x and w, y and w, x and y), and the exact result with the sum of its terms' sizes. */
export function exactly(shape: ConvolutionCase, direction: Direction, dtype: DType = bf16) {
  const { n, c, o, arg } = shape;
  const taps = arg.kernel[0] * arg.kernel[1];
  const sizes = {
    x: n * arg.size[0] * arg.size[1] * c,
    w: o * taps * (c / arg.groups),
    y: n * outputSize(arg)[0] * outputSize(arg)[1] * o,
  };
  const [first, second, result] = (
    { forward: ['x', 'w', 'y'], input: ['y', 'w', 'x'], weight: ['x', 'y', 'w'] } as const
  )[direction];
  const [a, b] = [values(sizes[first], 1, dtype), values(sizes[second], 2, dtype)];
  const sums = new Float64Array(sizes[result]);
  const totals = new Float64Array(sizes[result]);
  eachProduct(shape, (x, w, y) => {
    const term = a[first === 'x' ? x : y]! * b[second === 'w' ? w : y]!;
    const at = result === 'y' ? y : result === 'x' ? x : w;
    sums[at]! += term;
    totals[at]! += Math.abs(term);
  });
  const { groups } = arg;
  const terms = { forward: (taps * c) / groups, input: (taps * o) / groups, weight: sizes.y / o }[direction];
  return { a, b, sums, totals, terms, taps };
}

/** Each wgmma rounds the sum once, and adds 8 products or more; the result may be rounded to 16 bits. */
export function mustBe(
  { sums, totals, terms, taps }: ReturnType<typeof exactly>,
  got: (i: number) => number,
  unit: number,
): void {
  for (let i = 0; i < sums.length; i++) {
    const bound = totals[i]! * (terms / 8 + taps + 1) * unit + Math.abs(sums[i]!) * 2 ** -8;
    if (!(Math.abs(got(i) - sums[i]!) <= bound)) assert.fail(`${i}: ${got(i)} for ${sums[i]} ± ${bound}`);
  }
}

/** As the kernels take weights of an input gradient in f32: of each group (O, kH, kW, C) → (C, kH, kW, O). */
export function turned(w: Float32Array, shape: ConvolutionCase): Float32Array {
  const { kernel, groups } = shape.arg;
  const [c, o, taps] = [shape.c / groups, shape.o / groups, kernel[0] * kernel[1]];
  return w.map((_, at) => {
    const i = at % (c * o * taps);
    return w[at - i + ((i % o) * taps + (Math.floor(i / o) % taps)) * c + Math.floor(i / (o * taps))]!;
  });
}

/** The numbers as memory holds them. */
export function stored(v: Float32Array, dtype: DType) {
  if (dtype === f32) return v;
  return dtype === i8 ? Int8Array.from(v) : Uint16Array.from(v, dtype === f16 ? toF16 : toBf16);
}

/** Of bytes the sums are stored, i32. @param on a GPU, or by default the simulator */
export async function check(
  shape: ConvolutionCase,
  direction: Direction,
  tile: WarpgroupTile,
  dtype: DType,
  on?: Device,
): Promise<void> {
  const p = joined(problemOf(shape, direction, dtype));
  const isWeight = direction === 'weight';
  assert.ok(suitsConvolution(p));
  const made = isWeight ? convolveWeightWarpgroups(p, tile, 2) : convolveWarpgroups(p, tile, 2);
  const { kernel, grid, threads } = made;
  const exact = exactly(shape, direction, dtype);
  const inParts = isWeight ? !isWholeGradient(p, tile) : tile.splits > 1;
  const size = exact.sums.length * tile.splits;
  const isHalves = isHalf(dtype) && !inParts;
  const out = dtype === i8 ? new Int32Array(size) : isHalves ? new Uint16Array(size) : new Float32Array(size);
  const second = direction === 'input' && dtype === f32 ? turned(exact.b, shape) : exact.b;
  const [a, b] = isWeight ? [second, exact.a] : [exact.a, second];
  const given = [stored(a, dtype), stored(b, dtype)] as const;
  if (on) await runOnDevice(on, [gridStage(made, { input: 0 }, { input: 1 }, { output: true })], given, out);
  else simulate(kernel, { grid, block: threads }, { a: given[0], b: given[1], c: out });
  const sum = (i: number): number => {
    let got = 0;
    for (let part = 0; part < tile.splits; part++) got += out[part * exact.sums.length + i]!;
    return isHalves ? (dtype === f16 ? fromF16(got) : fromBf16(got)) : got;
  };
  if (dtype === i8) for (let i = 0; i < exact.sums.length; i++) assert.equal(sum(i), exact.sums[i]);
  else mustBe(exact, sum, on ? 2 ** -22 : 2 ** -24);
}
