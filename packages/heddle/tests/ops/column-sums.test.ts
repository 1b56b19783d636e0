/** Sums of columns by the kernels of warpgroups that store them: tiles of every shape in the simulator, which finds races. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bf16, type DType, f16, f32 } from '../../src/core/dtype.js';
import { fromBf16, fromF16, toBf16, toF16 } from '../../src/core/float16.js';
import type { ColumnSums } from '../../src/graph/fused-op.js';
import type { Expr, Param } from '../../src/kernel/ir/ir.js';
import * as k from '../../src/kernel/ir/ir.js';
import { irFunction } from '../../src/kernel/ir/ir-function.js';
import { buffer } from '../../src/kernel/ir/types.js';
import type { MatmulProblem } from '../../src/ops/matmul/cpu.js';
import { ROWS, type WarpgroupTile } from '../../src/ops/matmul/warpgroup-layout.js';
import { matmulWarpgroups } from '../../src/ops/matmul/warpgroup-product.js';
import { simulate } from '../../src/runtime/sim/launch.js';
import { noise } from '../kernel/harness.js';

const COUNT = 3;
const names = Array.from({ length: COUNT }, (_, i) => `sums${i}`);

/**
 * Of a part: Σ(v + 10), Σ(v + 10 − their mean)², and Σ v·(row + 1), times what lies beside. The second needs the first.
 * @param rows of the part
 */
function sumsOf(N: number, beside: number): { readonly sums: ColumnSums; readonly params: Param[] } {
  const memories = names.map((name) => k.bufferParam({ name, schema: buffer(f32) }));
  const splat = (v: number): Expr => k.splat(k.constant(f32, v), 2);
  const term = irFunction(([number, value, , row, , ...rest]) => {
    const v = k.alu('add', [k.cast(f32, value!), splat(10)]);
    if (number!.arg === 0) return v;
    if (number!.arg === 1) {
      const d = k.alu('sub', [v, k.alu('mul', [rest[0]!, splat(1 / ROWS)])]);
      return k.alu('mul', [d, d]);
    }
    const weight = k.splat(k.cast(f32, k.alu('add', [row!, k.int(1)])), 2);
    return rest
      .slice(COUNT, COUNT + beside)
      .reduce((p, b) => k.alu('mul', [p, k.cast(f32, b)]), k.alu('mul', [k.cast(f32, value!), weight]));
  });
  const store = irFunction(([part, column, ...sums], emit) => {
    const index = k.alu('add', [k.alu('mul', [part!, k.int(N)]), column!]);
    sums.forEach((sum, i) => {
      emit(k.store(memories[i]!, sum, [index]));
    });
    return k.int(0);
  });
  const levels = [[0, 2], [1]];
  return { sums: { levels, term, store }, params: memories.map((m) => m.arg as Param) };
}

const stored = (v: Float32Array, dtype: DType) =>
  dtype === f32 ? v : Uint16Array.from(v, dtype === bf16 ? toBf16 : toF16);
const fromStored = (v: number, dtype: DType): number =>
  dtype === f32 ? v : dtype === bf16 ? fromBf16(v) : fromF16(v);

interface Sizes {
  readonly M: number;
  readonly N: number;
  readonly K: number;
}

function check({ M, N, K }: Sizes, tile: WarpgroupTile, dtype: DType, beside: number): void {
  const layout = { offset: 0, batch: [1], batchStrides: [0] };
  const { sums, params } = sumsOf(N, beside);
  const p: MatmulProblem = {
    ...{ batches: 1, M, N, K, sums, beside, finish: irFunction(([v]) => v!) },
    a: { ...layout, rowStride: K, columnStride: 1 },
    b: { ...layout, rowStride: 1, columnStride: K },
  };
  const { kernel, grid, threads } = matmulWarpgroups(p, { ...tile, beside }, dtype, 2);
  const values = (count: number, seed: number) => noise(count, seed).map((v) => fromBf16(toBf16(v)));
  const c = dtype === f32 ? new Float32Array(M * N) : new Uint16Array(M * N);
  const brought = ['first', 'second']
    .slice(0, beside)
    .map((name, i) => [name, values(M * N, 3 + i)] as const);
  const parts = M / ROWS;
  const results = names.map(() => new Float32Array(parts * N).fill(Number.NaN));
  simulate(
    { ...kernel, params: [...kernel.params, ...params] },
    { grid, block: threads },
    {
      ...{ a: stored(values(M * K, 1), dtype), b: stored(values(K * N, 2), dtype), c },
      ...Object.fromEntries(brought.map(([name, v]) => [name, stored(v, dtype)])),
      ...Object.fromEntries(names.map((name, i) => [name, results[i]!])),
    },
  );
  for (let part = 0; part < parts; part++)
    for (let column = 0; column < N; column++) {
      const rows = Array.from({ length: ROWS }, (_, r) => (part * ROWS + r) * N + column);
      const own = rows.map((at) => fromStored(c[at]!, dtype));
      const mean = own.reduce((n, v) => n + v + 10, 0) / ROWS;
      const products = own.map((v, r) => brought.reduce((q, [, b]) => q * b[rows[r]!]!, v * (r + 1)));
      const wanted = [
        [mean * ROWS, own.reduce((n, v) => n + Math.abs(v + 10), 0)],
        [own.reduce((n, v) => n + (v + 10 - mean) ** 2, 0), own.reduce((n, v) => n + Math.abs(v + 10), 0)],
        [products.reduce((n, v) => n + v, 0), products.reduce((n, v) => n + Math.abs(v), 0)],
      ] as const;
      wanted.forEach(([sum, size], i) => {
        const got = results[i]![part * N + column]!;
        const bound = size * 20 * 2 ** -24;
        assert.ok(
          Math.abs(got - sum) <= bound,
          `sum ${i} of (${part}, ${column}): ${got} for ${sum} ± ${bound}`,
        );
      });
    }
}

const plain = { stages: 2, splits: 1 } as const;
const CASES: readonly (readonly [string, Sizes, Omit<WarpgroupTile, 'stages' | 'splits'>, DType, number])[] =
  [
    ['one warpgroup', { M: 128, N: 64, K: 64 }, { groups: 1, each: 1, columns: 64 }, bf16, 0],
    ['rows beyond the matrix', { M: 320, N: 72, K: 72 }, { groups: 2, each: 2, columns: 64 }, bf16, 0],
    ['columns beyond the matrix', { M: 192, N: 136, K: 64 }, { groups: 2, each: 1, columns: 128 }, bf16, 1],
    ['few columns', { M: 192, N: 24, K: 64 }, { groups: 2, each: 1, columns: 64 }, bf16, 1],
    ['16 columns', { M: 128, N: 16, K: 64 }, { groups: 2, each: 2, columns: 64 }, f16, 0],
    ['half a panel more', { M: 128, N: 96, K: 64 }, { groups: 1, each: 1, columns: 128 }, bf16, 2],
    ['four panels', { M: 128, N: 248, K: 64 }, { groups: 2, each: 1, columns: 256 }, f16, 2],
    ['tf32', { M: 192, N: 68, K: 36 }, { groups: 2, each: 1, columns: 64 }, f32, 0],
    ['tf32, few columns', { M: 192, N: 12, K: 36 }, { groups: 2, each: 1, columns: 64 }, f32, 1],
    ['tf32, two beside', { M: 128, N: 100, K: 36 }, { groups: 1, each: 2, columns: 128 }, f32, 2],
    ['by turns', { M: 448, N: 72, K: 136 }, { groups: 2, each: 1, columns: 64, alternate: true }, bf16, 0],
    [
      'by turns, one beside',
      { M: 320, N: 136, K: 72 },
      { groups: 2, each: 2, columns: 64, alternate: true },
      bf16,
      1,
    ],
  ];
for (const [name, sizes, tile, dtype, beside] of CASES)
  test(`${name}: ${sizes.M} × ${sizes.N}, ${dtype.name}, ${beside} matrices beside`, () =>
    check(sizes, { ...tile, ...plain }, dtype, beside));
