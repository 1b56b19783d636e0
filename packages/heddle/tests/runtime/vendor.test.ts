/** Routines of vendor libraries against plain loops in f64, each also as part of a captured graph. Needs a GPU. */
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { toBf16 } from '../../src/core/float16.js';
import type { LibraryOption } from '../../src/kernel/ir/library-call.js';
import type { Device } from '../../src/runtime/device.js';
import { closeDevices, listDevices, openDevice } from '../../src/runtime/registry.js';

const available = listDevices().some((d) => d.name === 'cuda' && d.available);
const device = available ? openDevice('cuda') : undefined;
after(closeDevices);

const skipWithout = (routine: string): string | false => {
  if (!device) return 'no CUDA device';
  return device.target.libraries.has(routine) ? false : `${routine}: the library is not installed`;
};

let state = 1;
const random = (n: number): Float32Array =>
  Float32Array.from({ length: n }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 31 - 1;
  });

type Values = Float32Array | Uint16Array;

/** Runs a routine on these arrays, its arguments, three times; the last run's contents of all of them. */
async function call(
  name: string,
  options: Readonly<Record<string, LibraryOption>>,
  ...args: readonly Values[]
): Promise<Float32Array[]> {
  const gpu = device as Device;
  const buffers = args.map((a) => {
    const buffer = gpu.allocate(a.byteLength, 'test');
    gpu.write(buffer, new Uint8Array(a.buffer, a.byteOffset, a.byteLength));
    return buffer;
  });
  const program = gpu.compile([
    { library: { name, options }, args: buffers.map((_, slot) => ({ slot, offset: 0 })) },
  ]);
  program.run(buffers);
  program.run(buffers, 2);
  const bytes = await Promise.all(buffers.map((b) => gpu.read(b)));
  program.dispose();
  for (const buffer of buffers) gpu.free(buffer);
  return bytes.map((b) => new Float32Array(b.buffer, b.byteOffset, b.byteLength >> 2));
}

function assertClose(actual: ArrayLike<number>, expected: ArrayLike<number>, tolerance: number): void {
  assert.equal(actual.length, expected.length);
  for (let i = 0; i < expected.length; i++) {
    const difference = Math.abs(actual[i]! - expected[i]!);
    assert.ok(
      difference <= tolerance * Math.max(1, Math.abs(expected[i]!)),
      `element ${i}: ${actual[i]} instead of ${expected[i]}`,
    );
  }
}

describe('cublaslt.matmul', { skip: skipWithout('cublaslt.matmul') }, () => {
  const cases = [
    { M: 5, N: 7, K: 3, batches: 1, ta: 0, tb: 0, precision: 'f32', tolerance: 1e-6 },
    { M: 64, N: 128, K: 96, batches: 1, ta: 1, tb: 0, precision: 'f32', tolerance: 1e-5 },
    { M: 33, N: 65, K: 129, batches: 3, ta: 0, tb: 1, precision: 'f32', tolerance: 1e-5 },
    { M: 64, N: 32, K: 128, batches: 2, ta: 1, tb: 1, precision: 'tf32', tolerance: 2e-2 },
    { M: 64, N: 32, K: 128, batches: 1, ta: 0, tb: 0, precision: 'bf16', tolerance: 1.5e-1 },
    { M: 1, N: 10, K: 784, batches: 1, ta: 0, tb: 1, precision: 'f32', tolerance: 1e-5 },
  ] as const;
  for (const { M, N, K, batches, ta, tb, precision, tolerance } of cases) {
    test(`${batches} × ${M}×${K}×${N} ${ta ? 'aᵀ' : 'a'} ${tb ? 'bᵀ' : 'b'} ${precision}`, async () => {
      const offset = 4;
      const [a, b] = [random(offset + batches * M * K), random(batches * K * N)];
      const [, , y] = await call(
        'cublaslt.matmul',
        {
          ...{ M, N, K, batches, precision, dtype: 'f32', rank: 0 },
          a: [ta, ta ? M : K, M * K, offset],
          b: [tb, tb ? K : N, K * N, 0],
        },
        a,
        b,
        new Float32Array(batches * M * N),
      );
      const expected = new Float64Array(batches * M * N);
      for (let z = 0; z < batches; z++)
        for (let m = 0; m < M; m++)
          for (let n = 0; n < N; n++)
            for (let k = 0; k < K; k++)
              expected[(z * M + m) * N + n]! +=
                a[offset + z * M * K + (ta ? k * M + m : m * K + k)]! *
                b[z * K * N + (tb ? n * K + k : k * N + n)]!;
      assertClose(y!, expected, tolerance);
    });
  }

  for (const { bias, relu } of [
    { bias: true, relu: false },
    { bias: false, relu: true },
    { bias: true, relu: true },
  ]) {
    test(`${[bias && 'a bias', relu && 'a ReLU'].filter(Boolean).join(' and ')} after it`, async () => {
      const [M, N, K] = [33, 20, 16];
      const [a, b, added] = [random(M * K), random(K * N), random(N)];
      const options = { M, N, K, batches: 1, precision: 'f32', dtype: 'f32', rank: 0, bias, relu };
      const [, , y] = await call(
        'cublaslt.matmul',
        { ...options, a: [0, K, M * K, 0], b: [0, N, K * N, 0] },
        ...[a, b, new Float32Array(M * N), ...(bias ? [added] : [])],
      );
      const expected = Float64Array.from({ length: M * N }, (_, i) => {
        const [m, n] = [Math.floor(i / N), i % N];
        let sum = bias ? added[n]! : 0;
        for (let k = 0; k < K; k++) sum += a[m * K + k]! * b[k * N + n]!;
        return relu ? Math.max(0, sum) : sum;
      });
      assertClose(y!, expected, 1e-5);
    });
  }

  test('bf16 memory, results rounded once', async () => {
    const [M, N, K] = [16, 16, 32];
    const values = [random(M * K), random(K * N)].map((v) => Uint16Array.from(v, toBf16));
    const wide = (v: number): number => new Float32Array(Uint32Array.of(v << 16).buffer)[0]!;
    const [, , y] = await call(
      'cublaslt.matmul',
      {
        ...{ M, N, K, batches: 1, precision: 'bf16', dtype: 'bf16', rank: 0 },
        a: [0, K, M * K, 0],
        b: [0, N, K * N, 0],
      },
      ...values,
      new Uint16Array(M * N),
    );
    const result = Array.from(new Uint16Array(y!.buffer, y!.byteOffset, M * N), wide);
    const expected = new Float64Array(M * N);
    for (let m = 0; m < M; m++)
      for (let n = 0; n < N; n++)
        for (let k = 0; k < K; k++)
          expected[m * N + n]! += wide(values[0]![m * K + k]!) * wide(values[1]![k * N + n]!);
    assertClose(result, expected, 2 ** -7);
  });
});

describe('cudnn.convolution', { skip: skipWithout('cudnn.convolution') }, () => {
  const shapes = [
    { x: [2, 3, 9, 10], o: 4, kernel: [3, 3], stride: [1, 1], padding: [1, 1], dilation: [1, 1], groups: 1 },
    { x: [3, 4, 8, 9], o: 6, kernel: [3, 2], stride: [2, 1], padding: [1, 0], dilation: [1, 2], groups: 2 },
  ] as const;
  for (const { x, o, kernel, stride, padding, dilation, groups } of shapes) {
    const [N, C, H, W] = x;
    const size = (s: number, i: 0 | 1): number =>
      Math.floor((s + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) / stride[i]) + 1;
    const y = [N, o, size(H, 0), size(W, 1)] as const;
    const w = [o, C / groups, ...kernel] as const;
    const count = (shape: readonly number[]): number => shape.reduce((a, b) => a * b, 1);

    /** Every product of the convolution: indices into x, w and y. */
    const eachProduct = (use: (ix: number, iw: number, iy: number) => void): void => {
      const [cg, og] = [C / groups, o / groups];
      for (let n = 0; n < N; n++)
        for (let k = 0; k < o; k++)
          for (let oy = 0; oy < y[2]; oy++)
            for (let ox = 0; ox < y[3]; ox++)
              for (let c = 0; c < cg; c++)
                for (let u = 0; u < kernel[0]; u++)
                  for (let v = 0; v < kernel[1]; v++) {
                    const iy = oy * stride[0] + u * dilation[0] - padding[0];
                    const ix = ox * stride[1] + v * dilation[1] - padding[1];
                    if (iy < 0 || iy >= H || ix < 0 || ix >= W) continue;
                    const channel = Math.floor(k / og) * cg + c;
                    use(
                      ((n * C + channel) * H + iy) * W + ix,
                      ((k * cg + c) * kernel[0] + u) * kernel[1] + v,
                      ((n * o + k) * y[2] + oy) * y[3] + ox,
                    );
                  }
    };
    const [xs, ws, ys] = [random(count(x)), random(count(w)), random(count(y))];
    const directions = {
      forward: [[xs, ws], y, (r: Float64Array) => eachProduct((i, j, k) => (r[k]! += xs[i]! * ws[j]!))],
      input: [[ys, ws], x, (r: Float64Array) => eachProduct((i, j, k) => (r[i]! += ys[k]! * ws[j]!))],
      weight: [[xs, ys], w, (r: Float64Array) => eachProduct((i, j, k) => (r[j]! += xs[i]! * ys[k]!))],
    } as const;
    for (const [direction, [sources, shape, reference]] of Object.entries(directions)) {
      for (const [precision, tolerance] of [
        ['f32', 2e-5],
        ['tf32', 2e-2],
      ] as const) {
        test(`${direction} of ${x.join('×')}, ${groups} group(s), ${precision}`, async () => {
          const options = {
            ...{ stride, padding, dilation, groups, dtype: 'f32', precision, rank: 0, direction },
            layout: 'NCHW',
          };
          const [, , result] = await call(
            'cudnn.convolution',
            { ...options, x, w, y },
            ...sources,
            new Float32Array(count(shape)),
          );
          const expected = new Float64Array(count(shape));
          reference(expected);
          assertClose(result!, expected, tolerance);
        });
      }
    }
  }
});

describe('cuDNN layers', { skip: skipWithout('cudnn.pooling') }, () => {
  test('max pooling and its gradient', async () => {
    const [x, y] = [random(2 * 3 * 4 * 6), new Float32Array(2 * 3 * 2 * 3)];
    const options = {
      ...{ x: [2, 3, 4, 6], y: [2, 3, 2, 3], kernel: [2, 2], stride: [2, 2], padding: [0, 0] },
      ...{ mode: 'max', dtype: 'f32' },
    };
    const [, pooled] = await call('cudnn.pooling', options, x, y);
    const g = random(y.length);
    const [, , , dx] = await call(
      'cudnn.pooling',
      { ...options, backward: true },
      pooled!,
      g,
      x,
      new Float32Array(x.length),
    );
    const [expected, gradient] = [new Float32Array(y.length), new Float32Array(x.length)];
    for (let i = 0; i < y.length; i++) {
      const [plane, r, c] = [Math.floor(i / 6), Math.floor((i % 6) / 3), i % 3];
      const window = [0, 1, 6, 7].map((d) => plane * 24 + r * 12 + c * 2 + d);
      const best = window.reduce((a, b) => (x[b]! > x[a]! ? b : a));
      expected[i] = x[best]!;
      gradient[best] = g[i]!;
    }
    assertClose(pooled!, expected, 0);
    assertClose(dx!, gradient, 0);
  });

  test('relu and its gradient', async () => {
    const [x, g] = [random(2 * 3 * 4 * 5), random(2 * 3 * 4 * 5)];
    const options = { x: [2, 3, 4, 5], mode: 'relu', dtype: 'f32' };
    const [, y] = await call('cudnn.activation', options, x, new Float32Array(x.length));
    assertClose(
      y!,
      x.map((v) => Math.max(v, 0)),
      0,
    );
    const [, , , dx] = await call(
      'cudnn.activation',
      { ...options, backward: true },
      y!,
      g,
      x,
      new Float32Array(x.length),
    );
    assertClose(
      dx!,
      g.map((v, i) => (x[i]! > 0 ? v : 0)),
      0,
    );
  });

  test('batch normalisation and its gradient', async () => {
    const [N, C, H, W] = [4, 3, 5, 6];
    const [x, g, scale, bias] = [random(N * C * H * W), random(N * C * H * W), random(C), random(C)];
    const options = { x: [N, C, H, W], momentum: 0.1, epsilon: 1e-5, dtype: 'f32' };
    const zeros = (n: number): Float32Array => new Float32Array(n);
    const forward = await call(
      'cudnn.batchNorm',
      options,
      ...[x, scale, bias, zeros(x.length), zeros(C), zeros(C), zeros(C), zeros(C)],
    );
    const [y, mean, inverse] = [forward[3]!, forward[6]!, forward[7]!];
    const backward = await call(
      'cudnn.batchNorm',
      { ...options, backward: true },
      ...[x, g, scale, zeros(x.length), zeros(C), zeros(C), mean, inverse],
    );
    const count = N * H * W;
    const [expected, gradient] = [new Float64Array(x.length), new Float64Array(x.length)];
    for (let c = 0; c < C; c++) {
      const at = Array.from({ length: count }, (_, i) => {
        const [n, p] = [Math.floor(i / (H * W)), i % (H * W)];
        return (n * C + c) * H * W + p;
      });
      const sum = (of: (i: number) => number): number => at.reduce((s, i) => s + of(i), 0);
      const m = sum((i) => x[i]!) / count;
      const inv = 1 / Math.sqrt(sum((i) => (x[i]! - m) ** 2) / count + 1e-5);
      const normal = (i: number): number => (x[i]! - m) * inv;
      const [dBias, dScale] = [sum((i) => g[i]!), sum((i) => g[i]! * normal(i))];
      for (const i of at) {
        expected[i] = normal(i) * scale[c]! + bias[c]!;
        gradient[i] = scale[c]! * inv * (g[i]! - dBias / count - (normal(i) * dScale) / count);
      }
      assertClose([backward[4]![c]!, backward[5]![c]!], [dScale, dBias], 1e-4);
    }
    assertClose(y, expected, 1e-4);
    assertClose(backward[3]!, gradient, 1e-4);
  });
});

describe('cuRAND', { skip: skipWithout('curand.normal') }, () => {
  for (const [name, mean, deviation] of [
    ['uniform', 0.5, Math.sqrt(1 / 12)],
    ['normal', 0, 1],
  ] as const) {
    test(name, async () => {
      const count = 1 << 16;
      const [values] = await call(`curand.${name}`, { seed: 7, count }, new Float32Array(count));
      const m = values!.reduce((s, v) => s + v, 0) / count;
      const d = Math.sqrt(values!.reduce((s, v) => s + (v - m) ** 2, 0) / count);
      assert.ok(Math.abs(m - mean) < 0.02, `mean ${m}`);
      assert.ok(Math.abs(d - deviation) < 0.02, `deviation ${d}`);
    });
  }
});
