/**
 * Products of f32 on tensor cores, in three products of tf32, are those of f32: within the bounds that tensor-core-split.ts and
 * warpgroup-split.ts derive, which products of tf32 exceed, and at the ends of f32's range.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { f32 } from '../../src/core/dtype.js';
import { leaf } from '../../src/graph/build.js';
import { callOf, type Stage, type StageArgument, type Variant } from '../../src/graph/fused-op.js';
import { H200 } from '../../src/kernel/ir/target.js';
import type { MatmulProblem, OperandLayout } from '../../src/ops/matmul/cpu.js';
import { isInParts, LEVEL } from '../../src/ops/matmul/cuda-block.js';
import { matmulSum } from '../../src/ops/matmul/cuda-store.js';
import { matmul } from '../../src/ops/matmul/op.js';
import { matmulTensor } from '../../src/ops/matmul/tensor-core.js';
import type { TensorTile } from '../../src/ops/matmul/tensor-core-panel.js';
import { warpgroupStage } from '../../src/ops/matmul/warpgroup.js';
import type { WarpgroupTile } from '../../src/ops/matmul/warpgroup-layout.js';
import { matmulWarpgroups } from '../../src/ops/matmul/warpgroup-product.js';
import { gridStage } from '../../src/ops/stage.js';
import { closeDevices, openDevice } from '../../src/runtime/registry.js';
import { cudaReason, DEVICES } from '../cases/case-runner.js';
import {
  identity,
  ioFor,
  kernelOf,
  noise,
  runInSimulator,
  runOnDevice,
  type Source,
} from '../kernel/harness.js';

after(closeDevices);

interface Matrices {
  readonly sizes: readonly [M: number, N: number, K: number];
  readonly a: Float32Array;
  readonly b: Float32Array;
}

const byRows = (columns: number): OperandLayout => ({
  ...{ offset: 0, batch: [1], batchStrides: [0], rowStride: columns, columnStride: 1 },
});

/** A way to multiply: its launches, and how far a sum of K products may be off, as a share of Σ|a·b|. */
interface Way {
  stages(p: MatmulProblem, operand: 'tf32' | 'tf32x3'): Stage[];
  bound(K: number): number;
}

/** The launch of a product, and if it is in parts that of their sum. */
function launches(
  { M, N, finish }: MatmulProblem,
  splits: number,
  product: (to: StageArgument) => Stage,
): Stage[] {
  if (splits === 1) return [product({ output: true })];
  const parts = { scratch: 'parts', bytes: 4 * splits * M * N };
  const sum = matmulSum({ batches: 1, M, N, finish }, splits);
  return [product(parts), gridStage(sum, parts, { output: true })];
}

const byWarps = (tile: TensorTile): Way => ({
  stages(p, operand) {
    const product = matmulTensor(p, tile, operand);
    assert.equal(isInParts(p.K, tile, LEVEL[operand]), tile.splits > 1);
    return launches(p, tile.splits, (to) => gridStage(product, { input: 0 }, { input: 1 }, to));
  },
  bound: (K) => 2 ** -21 + 10 * 2 ** -23 + (K / 8) * 2 ** -24,
});

const byWarpgroups = (tile: WarpgroupTile): Way => ({
  stages(p, operand) {
    const product = matmulWarpgroups(p, tile, f32, 2, { split: operand === 'tf32x3' });
    return launches(p, tile.splits, (to) => warpgroupStage(product, to));
  },
  bound(K) {
    const { level = 32 } = tile;
    return (8 + 10 * (level / 8)) * 2 ** -23 + Math.ceil(K / level) * 2 ** -24;
  },
});

const WAYS: Readonly<Record<string, Way>> = {
  'a warp for each element': byWarps({ warps: [2, 1, 1], each: [1, 4], depth: 16, stages: 2, splits: 1 }),
  'warps that share K': byWarps({ warps: [1, 1, 2], each: [2, 4], depth: 32, stages: 2, splits: 1 }),
  'blocks that share K': byWarps({ warps: [1, 1, 1], each: [2, 4], depth: 16, stages: 2, splits: 2 }),
  warpgroups: byWarpgroups({ groups: 2, each: 1, columns: 64, stages: 2, splits: 1 }),
  'a warpgroup with two blocks of rows': byWarpgroups({
    ...{ groups: 1, each: 2, columns: 64, stages: 2, splits: 1, level: 16 },
  }),
  'warpgroups that share K': byWarpgroups({ groups: 1, each: 1, columns: 64, stages: 3, splits: 2 }),
};

const problemOf = ({ sizes: [M, N, K] }: Matrices): MatmulProblem => ({
  ...{ batches: 1, M, N, K, a: byRows(K), b: byRows(N), finish: identity() },
});

/** The product on a device, twice: the bits are the same. */
async function productOn(device: string, x: Matrices, stages: readonly Stage[]): Promise<Float32Array> {
  const run = async (): Promise<Float32Array> => {
    const c = new Float32Array(x.sizes[0] * x.sizes[1]).fill(123);
    if (device === 'sim') runInSimulator(stages, [x.a, x.b], c, false);
    else await runOnDevice(openDevice(device), stages, [x.a, x.b], c);
    return c;
  };
  const c = await run();
  assert.deepEqual(new Uint32Array((await run()).buffer), new Uint32Array(c.buffer), `${device}: run again`);
  return c;
}

/** The largest error of an element, as a share of its Σ|a·b|. */
function worstOf({ sizes: [M, N, K], a, b }: Matrices, c: Float32Array): number {
  let worst = 0;
  for (let i = 0; i < M; i++)
    for (let j = 0; j < N; j++) {
      let [sum, magnitude] = [0, 0];
      for (let k = 0; k < K; k++) {
        const product = a[i * K + k]! * b[k * N + j]!;
        sum += product;
        magnitude += Math.abs(product);
      }
      const off = Math.abs(c[i * N + j]! - sum) / magnitude;
      if (!(off <= worst)) worst = off;
    }
  return worst;
}

test('copies end where K does, in whichever pieces it is summed', () => {
  const K = 10240;
  const sizes = [16, 32, K] as const;
  const x = { sizes, a: new Float32Array(16 * K).fill(1), b: new Float32Array(K * 32).fill(1) };
  const tile: TensorTile = { warps: [1, 1, 1], each: [1, 4], depth: 32, stages: 2, splits: 1 };
  const product = matmulTensor(problemOf(x), tile, 'tf32x3');
  const c = new Float32Array(16 * 32);
  runInSimulator([gridStage(product, { input: 0 }, { input: 1 }, { output: true })], [x.a, x.b], c, false);
  assert.ok(c.every((v) => v === K));
});

const SIDES: readonly (readonly [string, (v: number) => number])[] = [
  ['of both signs', (v) => v],
  ['all positive', Math.abs],
];
const devices = ['sim', ...DEVICES.filter((d) => d === 'cuda')];

for (const [name, way] of Object.entries(WAYS))
  for (const [signs, side] of SIDES)
    test(`as accurate as f32, ${name}, ${signs}`, async (t) => {
      for (const K of [40, 300]) {
        const sizes = [37, 28, K] as const;
        const x = { sizes, a: noise(37 * K, 3).map(side), b: noise(K * 28, 4).map(side) };
        const bound = way.bound(K);
        for (const device of devices) {
          const shareOf = async (operand: 'tf32' | 'tf32x3'): Promise<number> =>
            worstOf(x, await productOn(device, x, way.stages(problemOf(x), operand))) / bound;
          const [split, rounded] = [await shareOf('tf32x3'), await shareOf('tf32')];
          t.diagnostic(`${device}, K = ${K}: ${split.toFixed(3)} of the bound, tf32 ${rounded.toFixed(1)}`);
          assert.ok(split <= 1, `${device}, K = ${K}: off by ${split} of the bound`);
          assert.ok(rounded > 2, `${device}, K = ${K}: the bound also admits tf32 (${rounded} of it)`);
        }
      }
    });

const LARGEST = 2 ** 128 - 2 ** 104;
/** Both ends of the range, numbers that tf32 rounds to infinity, and whose parts overflow or underflow where they do not. */
const ENDS = [
  ...[Number.NaN, Infinity, -Infinity, LARGEST, -LARGEST, 2 ** 128 - 2 ** 115, 2 ** 127 * (1 + 2 ** -12)],
  ...[2 ** 60 * (1 - 2 ** -13), -(2 ** 68) * (1 - 2 ** -13), 10 / 3, 1, -1 / 3, 0, 2 ** -60 / 3],
  ...[2 ** -113 / 3, 2 ** -126 / 3, 2 ** -149],
].map(Math.fround);

for (const [name, way] of Object.entries(WAYS))
  test(`what f32 gives at the ends of its range, ${name}`, async () => {
    // Each times each, in one of the steps along K: the others add 0.
    const [M, K, step] = [ENDS.length, 40, 37];
    // The copy engine takes rows of whole words of four.
    const N = Math.ceil(M / 4) * 4;
    const x = { sizes: [M, N, K] as const, a: new Float32Array(M * K), b: new Float32Array(K * N) };
    ENDS.forEach((v, i) => {
      x.a[i * K + step] = v;
      x.b[step * N + i] = v;
    });
    for (const device of devices) {
      const c = await productOn(device, x, way.stages(problemOf(x), 'tf32x3'));
      for (const [i, v] of ENDS.entries())
        for (const [j, w] of ENDS.entries()) {
          const [found, wanted] = [c[i * N + j]!, Math.fround(v * w)];
          const allowed = Math.abs(wanted) * 2 ** -20 + 2 ** -136 * (Math.abs(v) + Math.abs(w)) + 2 ** -149;
          const fits = Number.isFinite(wanted)
            ? Math.abs(found - wanted) <= allowed
            : Object.is(found, wanted);
          assert.ok(fits, `${device}: ${v} · ${w} is ${found}, not ${wanted}`);
        }
    }
  });

/** The ways to multiply on an H200, or its like of that compute capability. */
function waysOf(M: number, N: number, K: number, capability = 90): Variant[] {
  const target = { ...H200, capability };
  const node = matmul(leaf([M, K], f32), leaf([K, N], f32), 'f32');
  const io = ioFor(node, [{ data: new Float32Array() }, { data: new Float32Array() }], target, identity);
  return [...kernelOf(node, target)!.variants!(io, callOf(node).arg)];
}

/** Elements of the sums that are compared with f64. */
const COMPARED = 400;

const reason = cudaReason();
for (const across of ['neither', 'A', 'B', 'both'] as const)
  test(`cuda: large products by warpgroups, ${across} across K, are as accurate as f32 and have the same bits again`, {
    skip: reason ? `not run: ${reason}` : false,
  }, async () => {
    const device = openDevice('cuda');
    for (const [M, N, K] of [
      [600, 544, 520],
      [256, 512, 9000],
      // All multiprocessors at once: what is read before its wait is wrong only where products take long.
      [4096, 768, 1024],
    ] as const) {
      const layout = (rows: number, columns: number, turned: boolean): Source['view'] => ({
        ...{ strides: turned ? [1, rows] : [columns, 1], offset: 0, length: rows * columns },
      });
      const a = { data: noise(M * K, 3), view: layout(M, K, across === 'A' || across === 'both')! };
      // In memory (N, K) is along K.
      const b = { data: noise(K * N, 4), view: layout(K, N, across === 'neither' || across === 'A')! };
      const node = matmul(leaf([M, K], f32), leaf([K, N], f32), 'f32');
      const io = ioFor(node, [a, b], device.target, identity);
      const ways = kernelOf(node, device.target)!.variants!(io, callOf(node).arg);
      const ours = ways.filter(({ name }) => name.startsWith('tf32x3-warpgroups'));
      assert.equal(ours.length > 0, device.target.capability === 90);
      for (const { name, plan } of ours) {
        const run = async (): Promise<Float32Array> => {
          const c = new Float32Array(M * N).fill(Number.NaN);
          await runOnDevice(device, plan(), [a.data, b.data], c);
          return c;
        };
        const [c, again] = [await run(), await run()];
        assert.deepEqual(new Uint32Array(again.buffer), new Uint32Array(c.buffer), `${name}: run again`);
        for (let n = 0; n < COMPARED; n++) {
          const at = (n * 2_654_435_761) % (M * N);
          const [i, j] = [Math.floor(at / N), at % N];
          let [sum, magnitude] = [0, 0];
          for (let k = 0; k < K; k++) {
            const [u, v] = [a.view.strides, b.view.strides];
            const product = a.data[i * u[0]! + k * u[1]!]! * b.data[k * v[0]! + j * v[1]!]!;
            sum += product;
            magnitude += Math.abs(product);
          }
          // Of batches of 32 steps, and of parts of K.
          const bound = (48 * 2 ** -23 + (K / 32 + 64) * 2 ** -24) * magnitude;
          if (!(Math.abs(c[at]! - sum) <= bound)) assert.fail(`${name} of ${M} × ${N} × ${K}: (${i}, ${j})`);
        }
      }
    }
  });

test('they are ways to multiply large matrices in f32, where tensor cores are that much faster', () => {
  const kindsOf = (...args: Parameters<typeof waysOf>): string[] => [
    ...new Set(waysOf(...args).map(({ name }) => /^\w+(-warpgroups)?/.exec(name)![0])),
  ];
  assert.deepEqual(kindsOf(1024, 1024, 512), ['tf32x3-warpgroups'], 'the others have never been faster');
  assert.deepEqual(kindsOf(1024, 1024, 511), ['tf32x3', 'f32'], 'what the copy engine does not take');
  assert.deepEqual(kindsOf(1024, 1024, 512, 80), ['tf32x3', 'f32'], 'before Hopper');
  for (const [size, capability] of [
    [1024, 89],
    [1024, 75],
    [64, 90],
  ] as const)
    assert.deepEqual(kindsOf(size, size, 512, capability), ['f32']);
  assert.deepEqual(kindsOf(32, 32, 2 ** 17), ['f32'], 'slim matrices wait for memory');
});
