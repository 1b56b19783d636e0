/** The rungs of the ladders, in the simulator and as CUDA C++. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { u32 } from 'heddle/internal/core/dtype.js';
import { fromBf16, toBf16 } from 'heddle/internal/core/float16.js';
import { H200 } from 'heddle/internal/kernel/ir/target.js';
import { compile } from 'heddle/internal/kernel/passes/pipeline.js';
import { renderCuda } from 'heddle/internal/render/cuda/render.js';
import { simulate } from 'heddle/internal/runtime/sim/launch.js';
import { CONV_LADDER, type ConvSizes } from '../src/conv-ladder.js';
import { MATMUL_LADDER } from '../src/matmul-ladder.js';
import { TRANSPOSES } from '../src/transpose-ladder.js';
import { WARPGROUP_LADDER } from '../src/warpgroup-ladder.js';

const noise = (size: number, seed: number): Float32Array =>
  Float32Array.from({ length: size }, (_, i) => Math.sin(seed + 1.7 * i));

for (const [name, rung] of Object.entries(MATMUL_LADDER)) {
  test(`matmul, ${name}: odd sizes, and multiples of four`, () => {
    for (const [M, N, K] of [
      [37, 45, 41],
      [32, 36, 40],
    ] as const) {
      const [a, b, c] = [noise(M * K, 1), noise(K * N, 2), new Float32Array(M * N).fill(Number.NaN)];
      const { kernel, grid, threads, sharedBytes } = rung({ M, N, K });
      simulate(kernel, { grid, block: threads, sharedBytes }, { a, b, c });
      for (let at = 0; at < M * N; at++) {
        let wanted = 0;
        for (let k = 0; k < K; k++) wanted += a[Math.floor(at / N) * K + k]! * b[k * N + (at % N)]!;
        assert.ok(Math.abs(c[at]! - wanted) < 1e-5, `${M} × ${K} · ${K} × ${N}, element ${at}`);
      }
    }
  });
}

for (const [name, rung] of Object.entries(WARPGROUP_LADDER)) {
  test(`matmul in bf16, ${name}: tiles that are cut, and several steps along K`, () => {
    for (const [M, N, K] of [
      [136, 264, 72],
      [64, 8, 328],
    ] as const) {
      const bits = (size: number, seed: number) => Uint16Array.from(noise(size, seed), toBf16);
      const [a, b, c] = [bits(M * K, 1), bits(K * N, 2), new Uint16Array(M * N).fill(toBf16(Number.NaN))];
      const { kernel, grid, threads, sharedBytes, cluster } = rung({ M, N, K }, 3);
      // Some kernels read and write two elements as a word.
      const memory = (bits: Uint16Array, i: number) => {
        const { schema } = kernel.params[i]!;
        return 'dtype' in schema && schema.dtype === u32 ? new Uint32Array(bits.buffer) : bits;
      };
      const launch = { grid, block: threads, sharedBytes, ...(cluster && { cluster }) };
      simulate(kernel, launch, { a: memory(a, 0), b: memory(b, 1), c: memory(c, 2) });
      const [left, right] = [Float32Array.from(a, fromBf16), Float32Array.from(b, fromBf16)];
      for (let at = 0; at < M * N; at++) {
        let wanted = 0;
        for (let k = 0; k < K; k++) wanted += left[Math.floor(at / N) * K + k]! * right[k * N + (at % N)]!;
        const error = Math.abs(fromBf16(c[at]!) - wanted);
        if (!(error <= 2 ** -8 * Math.abs(wanted) + 1e-5))
          assert.fail(`${M} × ${K} · ${K} × ${N}, element ${at}`);
      }
    }
  });
}

/** By the definition, in f64. */
function convolved(
  x: Float32Array,
  w: Float32Array,
  { channels, outputs, side }: ConvSizes,
  at: number,
): number {
  const [column, row] = [at % side, Math.floor(at / side) % side];
  const plane = Math.floor(at / side / side);
  const image = Math.floor(plane / outputs);
  let sum = 0;
  for (let c = 0; c < channels; c++)
    for (let tap = 0; tap < 9; tap++) {
      const [v, u] = [row + Math.floor(tap / 3) - 1, column + (tap % 3) - 1];
      if (v < 0 || v >= side || u < 0 || u >= side) continue;
      const pixel = x[((image * channels + c) * side + v) * side + u]!;
      sum += pixel * w[((plane % outputs) * channels + c) * 9 + tap]!;
    }
  return sum;
}

for (const [name, rung] of Object.entries(CONV_LADDER)) {
  test(`conv, ${name}: images of odd sides, and of 8 × 8`, () => {
    for (const sizes of [
      { images: 2, channels: 3, outputs: 5, side: 7 },
      { images: 1, channels: 17, outputs: 66, side: 8 },
    ]) {
      const { images, channels, outputs, side } = sizes;
      // Numbers that tf32 holds, so that all rungs differ by the order of sums alone.
      const coarse = (size: number, seed: number) => noise(size, seed).map((v) => Math.round(256 * v) / 256);
      const x = coarse(images * channels * side * side, 1);
      const w = coarse(outputs * channels * 9, 2);
      const y = new Float32Array(images * outputs * side * side).fill(Number.NaN);
      const { scratch, launches } = rung(sizes, H200);
      const memory = { x, w, y, scratch: new Float32Array(scratch).fill(Number.NaN) };
      for (const { kernel, args } of launches) {
        const { grid, threads, sharedBytes } = kernel;
        const given = kernel.kernel.params.map((p, i) => [p.name, memory[args[i]!]] as const);
        simulate(kernel.kernel, { grid, block: threads, sharedBytes }, Object.fromEntries(given));
      }
      for (let at = 0; at < y.length; at++) {
        const wanted = convolved(x, w, sizes, at);
        assert.ok(Math.abs(y[at]! - wanted) < 1e-4, `element ${at}: ${y[at]} instead of ${wanted}`);
      }
    }
  });
}

for (const { name, make } of TRANSPOSES) {
  test(`transpose, ${name}: whole tiles and cut ones`, () => {
    for (const [rows, columns] of [
      [64, 64],
      [100, 36],
      [4, 132],
    ] as const) {
      const [x, y] = [noise(rows * columns, 3), new Float32Array(rows * columns)];
      const { kernel, grid, block } = make(rows, columns);
      simulate(kernel, { grid, block }, { x, y });
      assert.deepEqual(
        y,
        x.map((_, i) => x[(i % rows) * columns + Math.floor(i / rows)]!),
      );
    }
  });
}

/** The library's check that CUDA C++ compiles, which is no part of its package. */
interface CompileScript {
  readonly compileCheck: (
    sources: readonly string[],
    arch: string,
    optimized: boolean,
  ) => Promise<{ readonly status: string; readonly log?: string; readonly reason?: string }>;
}

const RUNGS = [
  ...Object.values(MATMUL_LADDER).map(
    (rung, i) => ({ ...rung({ M: 512, N: 512, K: 512 }).kernel, name: `matmul_rung_${i}` }) as const,
  ),
  ...TRANSPOSES.map(({ make }) => make(512, 512).kernel),
  ...Object.values(CONV_LADDER).flatMap((rung, i) =>
    rung({ images: 4, channels: 64, outputs: 64, side: 32 }, H200).launches.map(({ kernel }, j) => ({
      ...kernel.kernel,
      name: `conv_rung_${i}_${j}`,
    })),
  ),
];
/** With their threads, without which no registers can be given from some warps to others. */
const HOPPER_RUNGS = Object.values(WARPGROUP_LADDER).map((rung) => {
  const { kernel, threads } = rung({ M: 512, N: 512, K: 512 }, H200.units);
  return renderCuda(compile(kernel, H200), { maxThreads: threads });
});

for (const [arch, sources] of [
  ['sm_80', RUNGS.map((kernel) => renderCuda(compile(kernel, H200)))],
  ['sm_90a', HOPPER_RUNGS],
] as const)
  test(`every rung is legal CUDA C++ for ${arch}`, async (t) => {
    let folder = dirname(fileURLToPath(import.meta.url));
    while (!existsSync(join(folder, 'packages'))) folder = dirname(folder);
    const script = pathToFileURL(join(folder, 'packages/heddle/dist/scripts/compile-cuda.js'));
    const { compileCheck } = (await import(script.href)) as CompileScript;
    const result = await compileCheck(sources, arch, arch === 'sm_90a');
    if (result.status === 'skipped') {
      t.skip(result.reason);
      return;
    }
    // The compiler may add fences of its own, which cost nothing. It also says so where products do not overlap.
    const log = result.log?.replace(/^.*\(C7519\) warpgroup\.arrive is injected.*\n/gm, '');
    assert.deepEqual([result.status, log], ['compiled', '']);
  });
