/** Products and convolutions of bytes as an H200 does them, in the simulator: bit for bit what the CPU's kernels give. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CompiledGraph } from '../../src/engine/program.js';
import * as b from '../../src/graph/build.js';
import {
  conv2d,
  type DType,
  f32,
  i8,
  i32,
  maxPool2d,
  type Shape,
  type Tensor,
  tensor,
  useDevice,
} from '../../src/index.js';
import * as k from '../../src/kernel/ir/ir.js';
import { irFunction } from '../../src/kernel/ir/ir-function.js';
import { H200 } from '../../src/kernel/ir/target.js';
import type { LastProblem } from '../../src/ops/conv2d/last-product.js';
import { convolveWarpgroups } from '../../src/ops/conv2d/warpgroup.js';
import { matmulIntegerOp } from '../../src/ops/integers/op.js';
import { matmulSum } from '../../src/ops/matmul/cuda-store.js';
import type { PixelPatch, WarpgroupTile } from '../../src/ops/matmul/warpgroup-layout.js';
import { matmulWarpgroups, suitsWarpgroups } from '../../src/ops/matmul/warpgroup-product.js';
import { dequantizeLinear, quantizeLinear } from '../../src/quantization/index.js';
import { openDevice } from '../../src/runtime/registry.js';
import { simulate } from '../../src/runtime/sim/launch.js';
import type { Tune } from '../../src/schedule/passes/tuning.js';
import { schedule } from '../../src/schedule/schedule.js';

// Every pass of the scheduler is verified.
process.env.HEDDLE_CHECK = '1';

const target = { ...H200, libraries: new Set<string>() };
// The simulator runs what an H200 would.
Object.defineProperty(openDevice('sim'), 'target', { value: target });

/** Bytes from −127 to 127. */
function bytes(size: number, seed: number): Int8Array {
  let state = seed;
  return Int8Array.from({ length: size }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return -127 + Math.floor((state / 2 ** 32) * 255);
  });
}

const sizeOf = (shape: Shape): number => shape.reduce((n, d) => n * d, 1);
/** What bytes of a convolution's sources stand for. */
const values = (shape: Shape, seed: number): Tensor =>
  dequantizeLinear(tensor(bytes(sizeOf(shape), seed), { shape: [...shape], dtype: i8 }), 2 ** -8);

/** Rounded to bytes, as the next layer takes it. */
const rounded = (y: Tensor): Tensor => dequantizeLinear(quantizeLinear(y.relu(), 0.37), 0.37);

interface Case {
  readonly x: Shape;
  readonly weights: readonly Shape[];
  readonly of: (x: Tensor, ...weights: Tensor[]) => Tensor;
  /** Parameters of its kernels. */
  readonly kernels: readonly string[];
}

/** And back, with a scale of its own. */
const toBytes = (y: Tensor): Tensor => dequantizeLinear(quantizeLinear(y, 0.21), 0.21);

/** Of two convolutions side by side, and of one behind them. */
const TWO_AND_ONE: readonly Shape[] = [
  [64, 64, 1, 1],
  [64, 64, 1, 1],
  [16, 64, 1, 1],
];

const CASES: Readonly<Record<string, Case>> = {
  'one image, whose sums are split': {
    ...{ x: [1, 256, 5, 7], weights: [[64, 256, 3, 3]] },
    of: (x, w) => conv2d(x, w, undefined, { padding: 1 }),
    kernels: ['a:i8,b:i8,c:i32', 'parts:i32,c:i32'],
  },
  'bytes are pooled, of sums that are split': {
    x: [2, 256, 9, 10],
    weights: [
      [32, 256, 3, 3],
      [16, 32, 1, 1],
    ],
    of: (x, v, w) => {
      const pooled = maxPool2d(conv2d(x, v, undefined, { padding: 1 }), 3, { stride: 2, padding: 1 });
      return conv2d(dequantizeLinear(quantizeLinear(pooled, 0.37), 0.37), w);
    },
    kernels: ['a:i8,b:i8,c:i32', 'parts:i32,c:i8', 'x:i32,y:i8', 'a:i8,b:i8,c:i32'],
  },
  'two convolutions are added: bytes of the later one are in memory': {
    x: [2, 64, 12, 12],
    weights: TWO_AND_ONE,
    of: (x, v, w, last) => conv2d(rounded(conv2d(x, v).add(toBytes(conv2d(x, w)))), last),
    kernels: ['a:i8,b:i8,c:i8', 'a:i8,b:i8,c:i8,first:i8', 'a:i8,b:i8,c:i32'],
  },
  'two convolutions are added: bytes of the first one are in memory': {
    x: [2, 64, 12, 12],
    weights: TWO_AND_ONE,
    of: (x, v, w, last) => conv2d(rounded(toBytes(conv2d(x, w)).add(conv2d(x, v))), last),
    kernels: ['a:i8,b:i8,c:i8', 'a:i8,b:i8,c:i8,first:i8', 'a:i8,b:i8,c:i32'],
  },
  'bytes between layers, with a residual': {
    x: [2, 64, 12, 12],
    weights: [
      [64, 64, 1, 1],
      [64, 64, 3, 3],
      [64, 64, 1, 1],
      [16, 64, 1, 1],
    ],
    of: (x, ...w) => {
      const h = rounded(conv2d(x, w[0]!));
      const inner = rounded(conv2d(h, w[1]!, undefined, { padding: 1 }));
      return conv2d(rounded(conv2d(inner, w[2]!).add(h)), w[3]!);
    },
    kernels: ['a:i8,b:i8,c:i8', 'a:i8,b:i8,c:i8', 'a:i8,b:i8,c:i8,first:i8', 'a:i8,b:i8,c:i32'],
  },
};

for (const [name, { x, weights, of, kernels }] of Object.entries(CASES))
  test(`convolution of bytes: ${name}`, async () => {
    const on = async (device: string): Promise<number[]> => {
      useDevice(device);
      return Array.from(await of(values(x, 1), ...weights.map((w, i) => values(w, 2 + i))).data());
    };
    const [got, wanted] = [await on('sim'), await on('cpu')];
    assert.deepEqual(got, wanted);
    const node = of(values(x, 1), ...weights.map((w, i) => values(w, 2 + i))).node;
    const names = schedule([node], target).launches.flatMap(({ work }) =>
      'kernel' in work && /Warpgroups|Sum|Pool/.test(work.kernel.name)
        ? [
            work.kernel.params
              .filter((p) => !p.name.startsWith('finish'))
              .map((p) => `${p.name}:${p.schema.kind === 'buffer' ? p.schema.dtype.name : ''}`)
              .join(),
          ]
        : [],
    );
    assert.deepEqual(names, kernels);
  });

/** i32 sums, or bytes that are left of them after a division by 2¹⁰. */
const finish = (output: DType) =>
  irFunction(([v]) =>
    output === i32
      ? v!
      : k.cast(output, k.alu('mul', [k.cast(f32, v!), k.splat(k.constant(f32, 2 ** -10), v!.type.lanes)])),
  );

const small: WarpgroupTile = { groups: 1, each: 1, columns: 64, stages: 3, splits: 1 };
const PRODUCTS: readonly [M: number, N: number, K: number, Partial<WarpgroupTile>, DType][] = [
  [64, 64, 128, {}, i32],
  [70, 80, 144, { groups: 2 }, i32],
  [130, 144, 304, { each: 2, columns: 128 }, i8],
  [65, 208, 48, { groups: 2, columns: 192 }, i8],
  [100, 256, 400, { columns: 256, stages: 2 }, i8],
  [33, 72, 1040, { splits: 4 }, i8],
];

for (const [M, N, K, given, output] of PRODUCTS)
  test(`product of bytes, ${M} × ${K} × ${N}, to ${output.name}`, () => {
    const tile = { ...small, ...given };
    const layout = { offset: 0, batch: [], batchStrides: [] };
    const a = { ...layout, rowStride: K, columnStride: 1 };
    const b = { ...layout, rowStride: 1, columnStride: K };
    const p = { batches: 1, M, N, K, a, b, finish: finish(output) };
    assert.ok(tile.splits > 1 || suitsWarpgroups(p, i8, output));
    const { kernel, grid, threads } = matmulWarpgroups(p, tile, i8, 2, { output });
    const [x, w] = [bytes(M * K, 1), bytes(N * K, 2)];
    const stored = output === i32 ? new Int32Array(M * N) : new Int8Array(M * N);
    const parts = tile.splits > 1 ? new Int32Array(tile.splits * M * N) : stored;
    simulate(kernel, { grid, block: threads }, { a: x, b: w, c: parts });
    if (tile.splits > 1) {
      const sum = matmulSum(p, tile.splits, i32, output);
      simulate(sum.kernel, { grid: sum.grid, block: sum.threads }, { parts, c: stored });
    }
    for (let m = 0; m < M; m++)
      for (let n = 0; n < N; n++) {
        let sum = 0;
        for (let i = 0; i < K; i++) sum += x[m * K + i]! * w[n * K + i]!;
        const wanted = output === i32 ? sum : Math.max(-128, Math.min(127, sum / 2 ** 10)) | 0;
        assert.equal(stored[m * N + n], wanted, `${m}, ${n}`);
      }
  });

/** Images of 9 × 10 pixels, of which patches cover more. */
const PATCH: PixelPatch = {
  ...{ height: 8, width: 8, taps: 3, dilation: 1, down: 2, across: 2, inOrder: false, stages: 2 },
};

for (const [inputs, outputs, given] of [
  [48, 80, {}],
  [48, 80, { each: 2, groups: 2, patch: PATCH }],
  [144, 64, { groups: 2 }],
  [160, 144, { columns: 128, alternate: true, groups: 2 }],
  // B stays in the ring, whose rounds are those of its stages.
  [48, 64, { stages: 9 }],
  [48, 64, { stages: 9, patch: PATCH }],
  [32, 64, { stages: 9, alternate: true, groups: 2 }],
] satisfies readonly (readonly [number, number, Partial<WarpgroupTile>])[])
  test(`convolution of ${inputs} bytes to ${outputs}, whose columns come as quads: ${JSON.stringify(given)}`, () => {
    const [images, h, w] = [3, 9, 10];
    const tile: WarpgroupTile = { ...small, ...given };
    const p: LastProblem = {
      ...{ images, groups: 1, dtype: i8, output: i8, inputs, outputs, kernel: [3, 3], dilation: [1, 1] },
      ...{ stride: [1, 1], padding: [1, 1], size: [h, w], outSize: [h, w], adjoint: false },
      ...{ imageOffset: 0, secondOffset: 0, finish: finish(i8) },
    };
    const { kernel, grid, threads } = convolveWarpgroups(p, tile, 2);
    const [x, weights] = [bytes(images * h * w * inputs, 3), bytes(outputs * 9 * inputs, 4)];
    const stored = new Int8Array(images * h * w * outputs);
    simulate(kernel, { grid, block: threads }, { a: x, b: weights, c: stored });
    const pixel = (n: number, r: number, c: number, channel: number): number =>
      r < 0 || r >= h || c < 0 || c >= w ? 0 : x[((n * h + r) * w + c) * inputs + channel]!;
    const wanted = stored.map((_, at) => {
      const [o, place] = [at % outputs, Math.floor(at / outputs)];
      const [c, r, n] = [place % w, Math.floor(place / w) % h, Math.floor(place / w / h)];
      let sum = 0;
      for (let tap = 0; tap < 9; tap++)
        for (let channel = 0; channel < inputs; channel++)
          sum +=
            pixel(n, r - 1 + Math.floor(tap / 3), c - 1 + (tap % 3), channel) *
            weights[(o * 9 + tap) * inputs + channel]!;
      return Math.max(-128, Math.min(127, sum / 2 ** 10));
    });
    assert.deepEqual(stored, wanted);
  });

test('a product of few rows of bytes has ways by warpgroups that share K, and all give the same', async () => {
  const [M, N, K] = [32, 264, 1024];
  const sources = [bytes(M * K, 5), bytes(N * K, 6)];
  const sums = b.call(matmulIntegerOp, [b.leaf([M, K], i8), b.leaf([N, K], i8)], { positive: false });
  const root = b.mul(b.cast(sums, f32), b.full([M, N], f32, 2 ** -10));
  const sim = openDevice('sim');
  const run = async (tune: Tune): Promise<number[]> => {
    const buffers = sources.map((v) => {
      const buffer = sim.allocate(v.byteLength, 'test');
      sim.write(buffer, new Uint8Array(v.buffer));
      return buffer;
    });
    const options: { readonly kernels?: boolean; readonly tune: Tune } = { tune };
    const compiled = new CompiledGraph([root], sources.length, sim, options);
    const [result] = compiled.run(buffers, 'test', false);
    const { buffer } = await sim.read(result!.buffer, 0, 4 * M * N);
    result!.release();
    compiled.dispose();
    for (const source of buffers) sim.free(source);
    return Array.from(new Float32Array(buffer, 0, M * N));
  };
  const names = new Set<string>();
  const wanted = Array.from({ length: M * N }, (_, at) => {
    let sum = 0;
    for (let i = 0; i < K; i++)
      sum += sources[0]![Math.floor(at / N) * K + i]! * sources[1]![(at % N) * K + i]!;
    return sum / 2 ** 10;
  });
  const first = await run((requests) => {
    for (const v of requests.flatMap((r) => r.variants)) names.add(v.name);
    return [];
  });
  assert.deepEqual(first, wanted);
  assert.ok(
    [...names].some((name) => /warpgroups.*split-k/.test(name)),
    `${[...names]}`,
  );
  for (const name of names) assert.deepEqual(await run(() => [name]), wanted, name);
});
