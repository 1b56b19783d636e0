/** The rungs of the ladders, in the simulator and as CUDA C++. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { H200 } from 'heddle/internal/kernel/ir/target.js';
import { compile } from 'heddle/internal/kernel/passes/pipeline.js';
import { renderCuda } from 'heddle/internal/render/cuda/render.js';
import { simulate } from 'heddle/internal/runtime/sim/launch.js';
import { MATMUL_LADDER } from '../src/matmul-ladder.js';
import { TRANSPOSES } from '../src/transpose-ladder.js';

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
  ) => Promise<{ readonly status: string; readonly log?: string; readonly reason?: string }>;
}

test('every rung is legal CUDA C++', async (t) => {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, 'packages'))) folder = dirname(folder);
  const script = pathToFileURL(join(folder, 'packages/heddle/dist/scripts/compile-cuda.js'));
  const { compileCheck } = (await import(script.href)) as CompileScript;
  const kernels = [
    ...Object.values(MATMUL_LADDER).map(
      (rung, i) => ({ ...rung({ M: 512, N: 512, K: 512 }).kernel, name: `matmul_rung_${i}` }) as const,
    ),
    ...TRANSPOSES.map(({ make }) => make(512, 512).kernel),
  ];
  const result = await compileCheck(
    kernels.map((kernel) => renderCuda(compile(kernel, H200))),
    'sm_80',
  );
  if (result.status === 'skipped') {
    t.skip(result.reason);
    return;
  }
  assert.deepEqual([result.status, result.log], ['compiled', '']);
});
