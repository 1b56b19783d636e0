/** The WebAssembly text of a few kernels and of a program. `UPDATE_SNAPSHOTS=1` takes the new text. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { f32, i32 } from '../../src/core/dtype.js';
import type { KernelIr } from '../../src/kernel/ir/ir.js';
import { H200, type Target } from '../../src/kernel/ir/target.js';
import { buffer } from '../../src/kernel/ir/types.js';
import { defineKernel } from '../../src/kernel/language/language.js';
import { compile } from '../../src/kernel/passes/pipeline.js';
import { wasmSource } from '../../src/render/wasm/render.js';
import { type CompiledLaunch, renderProgram } from '../../src/runtime/cpu/render.js';

const TARGET: Target = { ...H200, name: 'cpu', model: 'blocks', units: 2, capability: 0 };

function snapshotFolder(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, 'package.json'))) folder = dirname(folder);
  return join(folder, 'tests', 'snapshots');
}

function agreesWithSnapshot(name: string, text: string): void {
  const path = join(snapshotFolder(), `${name}.wat`);
  if (process.env.UPDATE_SNAPSHOTS === '1') {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  }
  assert.ok(existsSync(path), `${path} is missing: run the test with UPDATE_SNAPSHOTS=1 and read the diff`);
  assert.equal(text, readFileSync(path, 'utf8'), 'run with UPDATE_SNAPSHOTS=1 and read the diff');
}

/** Four rows by eight columns of a matrix product: eight accumulators in registers, two loads and four splats a step. */
const tile = defineKernel(
  'tile',
  { a: buffer(f32), b: buffer(f32), c: buffer(f32), n: i32 },
  ({ a, b, c, n }, { local4, load4, store4, splat4, fma, blockIdx, f32 }) => {
    const sums = local4(f32, 8);
    for (let i = 0; i < 8; i++) sums[i] = splat4(0);
    for (let k = 0; k < n; k++) {
      const left = load4(b, k * 8);
      const right = load4(b, k * 8 + 4);
      for (let i = 0; i < 4; i++) {
        const x = splat4(a[k * 4 + i]);
        sums[i * 2] = fma(x, left, sums[i * 2]);
        sums[i * 2 + 1] = fma(x, right, sums[i * 2 + 1]);
      }
    }
    for (let i = 0; i < 8; i++) store4(c, blockIdx.x * 32 + i * 4, sums[i]);
  },
);

const softmax = defineKernel(
  'softmax',
  { x: buffer(f32), y: buffer(f32), columns: i32 },
  ({ x, y, columns }, { blockIdx, load4, store4, splat4, lane, f32, select }) => {
    const row = blockIdx.x * columns;
    let top = splat4(f32(-3e38));
    for (let j = 0; j < columns; j += 4) {
      const v = load4(x, row + j);
      top = select(v > top, v, top);
    }
    const largest = Math.max(Math.max(lane(top, 0), lane(top, 1)), Math.max(lane(top, 2), lane(top, 3)));
    let sum = splat4(f32(0));
    for (let j = 0; j < columns; j += 4) {
      const e = Math.exp(load4(x, row + j) - splat4(largest));
      store4(y, row + j, e);
      sum = sum + e;
    }
    const scale = 1 / (lane(sum, 0) + lane(sum, 1) + lane(sum, 2) + lane(sum, 3));
    for (let j = 0; j < columns; j += 4) store4(y, row + j, load4(y, row + j) * splat4(scale));
  },
);

for (const ir of [tile, softmax]) {
  test(`the WebAssembly text of ${ir.name} is that of its snapshot`, () => {
    agreesWithSnapshot(ir.name, wasmSource(compile(ir, TARGET), { fma: true }));
  });
}

test('a program: launches in order, chunks that threads claim, waits where one needs another', () => {
  const scale = compile(
    defineKernel('scale', { x: buffer(f32), by: f32 }, ({ x, by }, { blockIdx }) => {
      x[blockIdx.x] = x[blockIdx.x] * by;
    }),
    TARGET,
  );
  const planned = (
    kernel: KernelIr,
    blocks: number,
    slot: number,
    needs?: readonly number[],
  ): CompiledLaunch => ({
    ir: kernel,
    work: blocks * 100,
    launch: {
      kernel,
      grid: [blocks, 1, 1],
      block: [1, 1, 1],
      args: [{ slot, offset: 64 * slot }, { value: 0.5 }],
      needs,
    },
  });
  const program = renderProgram(
    [
      planned(scale, 10, 0),
      planned(scale, 20, 1),
      planned(scale, 5000, 0),
      planned(scale, 5000, 1, [1]),
      planned(scale, 7, 1),
    ],
    { fma: true, slots: 2, threads: 2 },
  );
  agreesWithSnapshot('program', program.text());
});
