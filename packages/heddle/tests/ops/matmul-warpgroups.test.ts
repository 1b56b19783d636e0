/** Matrix products by warpgroups: tiles of every shape in the simulator, and on a GPU every layout of large matrices. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bf16, type DType, f16, f32 } from '../../src/core/dtype.js';
import { fromBf16, toBf16 } from '../../src/core/float16.js';
import * as H from '../../src/index.js';
import type { Param } from '../../src/kernel/ir/ir.js';
import * as k from '../../src/kernel/ir/ir.js';
import { irFunction } from '../../src/kernel/ir/ir-function.js';
import { H200 } from '../../src/kernel/ir/target.js';
import { buffer } from '../../src/kernel/ir/types.js';
import { compile } from '../../src/kernel/passes/pipeline.js';
import type { MatmulProblem, OperandLayout } from '../../src/ops/matmul/cpu.js';
import { LEVEL } from '../../src/ops/matmul/cuda-block.js';
import { matmulSum } from '../../src/ops/matmul/cuda-store.js';
import type { WarpgroupTile } from '../../src/ops/matmul/warpgroup-layout.js';
import { matmulWarpgroups, suitsWarpgroups } from '../../src/ops/matmul/warpgroup-product.js';
import { warpgroupTiles } from '../../src/ops/matmul/warpgroup-tiles.js';
import { renderCuda } from '../../src/render/cuda/render.js';
import { simulate } from '../../src/runtime/sim/launch.js';
import { cudaReason } from '../cases/case-runner.js';
import { noise } from '../kernel/harness.js';

interface Layout {
  readonly batches: number;
  readonly M: number;
  readonly N: number;
  readonly K: number;
  /** Stored as (K, M), and as (N, K). */
  readonly transposedA?: boolean;
  readonly transposedB?: boolean;
  /** Matrices of so many batches lie beside each other, in the rows of one: heads of attention. */
  readonly heads?: number;
  /** All heads of a batch have one B. */
  readonly sharedB?: boolean;
}

/** A matrix of each batch, as (rows, columns) or the other way round. */
function layoutOf(
  { batches, heads = 1 }: Layout,
  rows: number,
  columns: number,
  transposed = false,
  shared = false,
): OperandLayout {
  const [length, width] = transposed ? [columns, rows] : [rows, columns];
  const own = shared ? 1 : heads;
  const pitch = own * width;
  return {
    offset: 0,
    batch: [batches / heads, heads],
    batchStrides: [batches > heads ? length * pitch : 0, own > 1 ? width : 0],
    rowStride: transposed ? 1 : pitch,
    columnStride: transposed ? pitch : 1,
  };
}

function problemOf(layout: Layout): MatmulProblem {
  const { batches, M, N, K, transposedA, transposedB, sharedB } = layout;
  return {
    ...{ batches, M, N, K },
    a: layoutOf(layout, M, K, transposedA),
    b: layoutOf(layout, K, N, transposedB, sharedB),
    finish: irFunction(([v]) => v!),
  };
}

/** Numbers that bf16 and tf32 have, by place in memory. */
const values = (count: number, seed: number): Float32Array =>
  noise(count, seed).map((v) => fromBf16(toBf16(v)));

/** (value, batch, row, column, what lies beside) → value + first − second. */
const combined = (dtype: DType, beside: number) =>
  irFunction(([v, , , , w, x]) => {
    const sum = k.alu('add', [k.cast(f32, v!), k.cast(f32, w!)]);
    return k.cast(dtype, beside > 1 ? k.alu('sub', [sum, k.cast(f32, x!)]) : sum);
  });

/** @param beside how many matrices like the result the epilogue takes @param split f32 at the accuracy of f32 */
function check(layout: Layout, tile: WarpgroupTile, dtype: DType, beside = 0, split = false): void {
  const { batches, M, N, K } = layout;
  const p = { ...problemOf(layout), ...(beside > 0 && { finish: combined(dtype, beside) }) };
  assert.ok(suitsWarpgroups(p, dtype));
  const { kernel, grid, threads } = matmulWarpgroups(p, { ...tile, beside }, dtype, 2, { split });
  const given = split ? noise : values;
  const [x, y] = [given(batches * M * K, 1), given(batches * K * N, 2)];
  const stored = (v: Float32Array) => (dtype === f32 ? v : Uint16Array.from(v, toBf16));
  const inParts = tile.splits > 1;
  const size = batches * M * N;
  const out = inParts || dtype === f32 ? new Float32Array(size * tile.splits) : new Uint16Array(size);
  const [first, second] = [1, 2].map((n) => (n <= beside ? values(size, 2 + n) : new Float32Array(size)));
  const taken = [['first', first!] as const, ['second', second!] as const].slice(0, beside);
  const brought = Object.fromEntries(taken.map(([name, v]) => [name, stored(v)]));
  const again = split ? { x, y } : {};
  const [a, b] = (tile.exchanged ? [y, x] : [x, y]).map(stored);
  simulate(kernel, { grid, block: threads }, { a: a!, b: b!, c: out, ...brought, ...again });
  const { heads = 1 } = layout;
  const startOf = ({ batchStrides }: OperandLayout, batch: number): number =>
    Math.floor(batch / heads) * batchStrides[0]! + (batch % heads) * batchStrides[1]!;
  for (let n = 0; n < size; n++) {
    const [batch, i, j] = [Math.floor(n / (M * N)), Math.floor(n / N) % M, n % N];
    let [sum, total] = [0, 0];
    const row = startOf(p.a, batch) + i * p.a.rowStride;
    const column = startOf(p.b, batch) + j * p.b.columnStride;
    for (let k = 0; k < K; k++) {
      const term = x[row + k * p.a.columnStride]! * y[column + k * p.b.rowStride]!;
      sum += term;
      total += Math.abs(term);
    }
    let got = 0;
    for (let part = 0; part < tile.splits; part++) got += out[part * size + n] as number;
    if (!inParts && dtype !== f32) got = fromBf16(out[n] as number);
    // The sums are exact but for a rounding of each wgmma; the result is rounded to its dtype.
    const wanted = sum + first![n]! - second![n]!;
    const rounded = (v: number): number => Math.abs(v) * (dtype === f32 ? 2 ** -24 : 2 ** -8);
    // In f32: of value + first, and of that − second.
    const additions = (Math.abs(sum + first![n]!) + Math.abs(wanted)) * 2 ** -23;
    // What the parts of split operands leave out.
    const lost = split ? total * 7 * 2 ** -23 : 0;
    const bound =
      lost +
      total * (K / 8) * 2 ** -24 +
      (inParts || dtype === f32 ? 0 : rounded(sum)) +
      (beside > 0 ? rounded(wanted) + additions : 0);
    if (!(Math.abs(got - wanted) <= bound))
      assert.fail(`(${batch}, ${i}, ${j}): ${got} for ${wanted} ± ${bound}`);
  }
}

const plain = { stages: 2, splits: 1 } as const;
test('two warpgroups, one tile after the other, rows and columns beyond the matrix', () =>
  check(
    { batches: 1, M: 136, N: 72, K: 136, transposedB: true },
    { groups: 2, each: 1, columns: 64, ...plain },
    bf16,
  ));
test('two blocks of rows each, B across K', () =>
  check({ batches: 1, M: 72, N: 136, K: 72 }, { groups: 1, each: 2, columns: 128, ...plain }, bf16));
test('A across K, batches', () =>
  check(
    { batches: 2, M: 72, N: 72, K: 72, transposedA: true },
    { groups: 1, each: 1, columns: 64, ...plain, stages: 3 },
    bf16,
  ));
test('both across K, four blocks of rows', () =>
  check(
    { batches: 1, M: 136, N: 72, K: 72, transposedA: true },
    { groups: 2, each: 2, columns: 64, ...plain },
    bf16,
  ));
test('tf32', () =>
  check(
    { batches: 1, M: 68, N: 68, K: 100, transposedB: true },
    { groups: 1, each: 1, columns: 64, ...plain },
    f32,
  ));
for (const [name, transposedA, transposedB] of [
  ['A', true, true],
  ['B', false, false],
  ['both', true, false],
] as const)
  for (const each of [1, 2] as const)
    test(`tf32, ${name} across K, is turned: ${each} × 64 rows of each warpgroup`, () =>
      check(
        { batches: 1, M: 200, N: 72, K: 100, transposedA, transposedB },
        { groups: 2, each, columns: 64 * each, ...plain },
        f32,
      ));
for (const [name, sizes, tile, beside] of [
  ['ragged', { M: 200, N: 72, K: 100 }, { groups: 2, each: 1, columns: 64 }, 0],
  ['two blocks of its rows', { M: 136, N: 264, K: 68 }, { groups: 2, each: 2, columns: 128 }, 1],
  ['a whole number of tiles', { M: 128, N: 128, K: 64 }, { groups: 1, each: 1, columns: 64 }, 2],
  ['by turns', { M: 72, N: 200, K: 100 }, { groups: 2, each: 1, columns: 64, alternate: true }, 1],
  ['parts', { M: 136, N: 72, K: 200 }, { groups: 1, each: 1, columns: 64, splits: 3 }, 0],
  ['batches', { M: 68, N: 72, K: 36 }, { groups: 1, each: 1, columns: 64 }, 1],
] as const)
  test(`tf32, B across K, the transpose is computed: ${name}`, () =>
    check(
      { batches: name === 'batches' ? 2 : 1, ...sizes },
      { ...plain, ...tile, exchanged: true },
      f32,
      beside,
    ));
test('tf32, B is turned by two warps, while another brings what the epilogue takes beside the sums', () =>
  check(
    { batches: 1, M: 72, N: 72, K: 100, transposedA: true },
    { groups: 1, each: 1, columns: 64, ...plain },
    f32,
    2,
  ));
for (const [M, K, splits, beside, stages] of [
  [200, 136, 1, 0, 2],
  [328, 200, 1, 2, 3],
  [136, 456, 3, 0, 3],
] as const)
  test(`two warpgroups by turns, ${M} × ${K}, ${splits} parts, ${beside} matrices beside the sums`, () =>
    check(
      { batches: 1, M, N: 136, K, transposedB: true },
      { groups: 2, each: 1, columns: 64, stages, splits, alternate: true },
      bf16,
      beside,
    ));
test('tf32, two warpgroups by turns, both operands across K', () =>
  check(
    { batches: 1, M: 200, N: 72, K: 100, transposedA: true },
    { groups: 2, each: 1, columns: 64, ...plain, alternate: true },
    f32,
    1,
  ));
for (const [name, transposedA, transposedB] of [
  ['along K', false, true],
  ['A across K', true, true],
  ['B across K', false, false],
  ['both across K', true, false],
] as const)
  for (const [each, columns, level, beside] of [
    [1, 64, 32, 0],
    [2, 128, 16, 0],
    [1, 192, 16, 1],
  ] as const)
    test(`split f32, ${name}: ${each} × 64 rows of each warpgroup, ${columns} columns`, () =>
      check(
        { batches: 1, M: 200, N: 104, K: 100, transposedA, transposedB },
        { groups: 2, each, columns, level, ...plain },
        f32,
        beside,
        true,
      ));
for (const [name, layout, dtype] of [
  ['along K', { batches: 6, M: 72, N: 72, K: 40, transposedB: true }, bf16],
  ['across K', { batches: 6, M: 72, N: 72, K: 40, transposedA: true }, bf16],
  ['across K, turned', { batches: 6, M: 40, N: 36, K: 36, transposedA: true }, f32],
  ['one B of all heads', { batches: 6, M: 72, N: 72, K: 40, sharedB: true }, bf16],
] as const)
  test(`heads beside each other, ${name}`, () =>
    check({ ...layout, heads: 3 }, { groups: 1, each: 1, columns: 64, ...plain }, dtype));
test('split f32: heads beside each other', () =>
  check(
    { batches: 6, M: 40, N: 36, K: 36, heads: 3 },
    { groups: 1, each: 1, columns: 64, ...plain },
    f32,
    0,
    true,
  ));
test('split f32: batches, one warpgroup, fewer steps than a stage has', () =>
  check(
    { batches: 3, M: 72, N: 136, K: 20 },
    { groups: 1, each: 1, columns: 128, ...plain, stages: 3 },
    f32,
    0,
    true,
  ));
test('split f32: blocks that share K give parts', () =>
  check(
    { batches: 2, M: 72, N: 72, K: 200, transposedB: true },
    { groups: 2, each: 1, columns: 64, stages: 3, splits: 3 },
    f32,
    0,
    true,
  ));
test('blocks that share K give parts', () =>
  check(
    { batches: 1, M: 72, N: 72, K: 200, transposedB: true },
    { groups: 1, each: 1, columns: 64, stages: 3, splits: 2 },
    bf16,
  ));

for (const [name, layout, tile, dtype, beside] of [
  [
    'tiles beyond the matrix',
    { batches: 1, M: 200, N: 72, K: 72 },
    { groups: 2, each: 1, columns: 64 },
    bf16,
    1,
  ],
  [
    'an odd number of them',
    { batches: 1, M: 328, N: 192, K: 72 },
    { groups: 1, each: 1, columns: 192 },
    bf16,
    2,
  ],
  [
    'two blocks of rows',
    { batches: 1, M: 264, N: 136, K: 72 },
    { groups: 2, each: 2, columns: 128 },
    bf16,
    2,
  ],
  ['batches', { batches: 3, M: 72, N: 72, K: 72 }, { groups: 1, each: 1, columns: 64 }, bf16, 1],
  [
    'tf32',
    { batches: 1, M: 136, N: 68, K: 100, transposedB: true },
    { groups: 2, each: 1, columns: 64 },
    f32,
    2,
  ],
] as const)
  test(`an epilogue takes matrices beside the sums: ${name}`, () =>
    check(layout, { ...tile, ...plain }, dtype, beside));

test('many parts are added by several threads each', () => {
  const [M, N, splits] = [5, 36, 45];
  const { kernel, grid, threads } = matmulSum({ batches: 1, M, N, finish: irFunction(([v]) => v!) }, splits);
  const parts = noise(splits * M * N, 3);
  const c = new Float32Array(M * N);
  simulate(kernel, { grid, block: threads }, { parts, c });
  for (let i = 0; i < M * N; i++) {
    let [sum, size] = [0, 0];
    for (let s = 0; s < splits; s++) {
      sum += parts[s * M * N + i]!;
      size += Math.abs(parts[s * M * N + i]!);
    }
    assert.ok(Math.abs(c[i]! - sum) <= splits * 2 ** -24 * size, `${i}: ${c[i]} for ${sum}`);
  }
});

test('an epilogue stores once for each element, also where tiles reach beyond the matrix', () => {
  const [M, N, K] = [72, 72, 64];
  const also = k.bufferParam({ name: 'also', schema: buffer(f32) });
  const finish = irFunction(([v, , row, column], emit) => {
    const index = k.alu('add', [k.alu('mul', [row!, k.int(N)]), column!]);
    emit(k.store(also, k.cast(f32, k.lane(v!, 0)), [index]));
    return v!;
  });
  const problem = { ...problemOf({ batches: 1, M, N, K }), finish };
  const tile = { groups: 1, each: 1, columns: 64, stages: 2, splits: 1 } as const;
  const { kernel, grid, threads } = matmulWarpgroups(problem, tile, bf16, 2);
  const [x, y] = [values(M * K, 1), values(K * N, 2)].map((v) => Uint16Array.from(v, toBf16));
  const [c, stored] = [new Uint16Array(M * N), new Float32Array(M * N)];
  // The simulator names two threads that write the same element.
  simulate(
    { ...kernel, params: [...kernel.params, also.arg as Param] },
    { grid, block: threads },
    { a: x!, b: y!, c, also: stored },
  );
  for (let i = 0; i < M * N; i += 2) assert.equal(stored[i], fromBf16(c[i]!), `element ${i}`);
});

test('what the copy engine does not take is left to other kernels', () => {
  const suits = (layout: Layout, dtype: DType): boolean => suitsWarpgroups(problemOf(layout), dtype);
  assert.equal(suits({ batches: 1, M: 64, N: 64, K: 60 }, bf16), false, 'rows of 120 bytes');
  assert.equal(suits({ batches: 1, M: 64, N: 60, K: 64 }, bf16), false, 'columns of 120 bytes');
  assert.equal(suits({ batches: 1, M: 64, N: 64, K: 60, transposedB: true }, f32), true);
  assert.equal(suits({ batches: 6, M: 64, N: 64, K: 64, heads: 3 }, bf16), true);
  assert.equal(suits({ batches: 6, M: 64, N: 64, K: 60, heads: 3 }, bf16), false, 'heads of 120 bytes');
});

test('warpgroups raise their registers to no more than others leave: they would wait for ever', () => {
  const tile = { groups: 2, each: 1, columns: 128, stages: 3, splits: 1 } as const;
  for (const split of [false, true]) {
    const p = problemOf({ batches: 1, M: 256, N: 256, K: 256 });
    const { kernel, threads } = matmulWarpgroups(p, tile, f32, 132, { split });
    const text = renderCuda(compile(kernel, H200), { maxThreads: threads });
    const registers = (call: string): number =>
      Number(new RegExp(`${call}_registers_(\\d+)\\(\\);`).exec(text)![1]);
    // A multiple of 8 for each thread, before and after.
    const atStart = Math.floor(H200.limits.registersPerMultiprocessor / threads / 8) * 8;
    assert.ok(registers('lower') + 2 * registers('raise') <= 3 * atStart, `split: ${split}`);
  }
});

const reason = cudaReason();
for (const dtype of [bf16, f16, f32])
  test(`cuda: products of ${dtype.name} in every layout`, {
    skip: reason ? `not run: ${reason}` : false,
  }, async () => {
    H.useDevice('cuda');
    const precision = dtype === f32 ? { precision: 'tf32' as const } : {};
    const unit = { bf16: 2 ** -8, f16: 2 ** -11, f32: 2 ** -10 }[dtype.name]!;
    for (const [M, K, N] of [
      [600, 520, 544],
      [264, 9000, 512],
      // All multiprocessors at once: what is read before its wait is wrong only where products take long.
      [4096, 4096, 512],
    ] as const)
      for (const layout of ['NN', 'NT', 'TN', 'TT']) {
        const stored = (rows: number, columns: number, t: boolean) =>
          H.randn(t ? [columns, rows] : [rows, columns])
            .cast(dtype)
            .realize();
        const [a, b] = [stored(M, K, layout[0] === 'T'), stored(K, N, layout[1] === 'T')];
        const x = layout[0] === 'T' ? a.transpose() : a;
        const y = layout[1] === 'T' ? b.transpose() : b;
        const [got, again] = await Promise.all([0, 1].map(() => x.matmul(y, precision).cast(f32).data()));
        assert.deepEqual(again, got, `${layout} of ${M} × ${K} × ${N}, a second time`);
        const exact = x.cast(f32).matmul(y.cast(f32));
        const size = x.cast(f32).abs().matmul(y.cast(f32).abs());
        const [wanted, sizes] = await Promise.all([exact.data(), size.data()]);
        const worst = got!.reduce((most, v, i) => {
          // The result is rounded, of f32 the operands.
          const bound = dtype === f32 ? sizes[i]! * unit : Math.abs(wanted[i]!) * unit + sizes[i]! * 2 ** -16;
          return Math.max(most, Math.abs(v - wanted[i]!) / bound);
        }, 0);
        assert.ok(worst <= 1, `${layout} of ${M} × ${K} × ${N}: ${worst} times the bound`);
      }
  });

test('a sum that is too long for one block is split, however many tiles there are', () => {
  for (const [dtype, level] of [
    [bf16, LEVEL.bf16],
    [f16, LEVEL.f16],
    [f32, LEVEL.tf32],
  ] as const)
    for (const K of [level, level + 8, 50304, 200_000]) {
      const sizes = { batches: 1, M: 8192, N: 768, K, dtype, turned: { a: false, b: false } };
      const tiles = warpgroupTiles(sizes, H200);
      assert.ok(tiles.length > 0, `${dtype.name}, K = ${K}`);
      for (const { splits } of tiles) assert.ok(K <= splits * level, `${dtype.name}, K = ${K} in ${splits}`);
    }
});

test('a B that all tiles have in common stays in the ring, where its stages fit', () => {
  const stagesOf = (N: number, K: number): readonly (readonly [columns: number, stages: number])[] =>
    warpgroupTiles(
      { batches: 1, M: 2 ** 17, N, K, dtype: bf16, turned: { a: false, b: false }, whole: true },
      H200,
    ).map(({ columns, stages }) => [columns, stages]);
  for (const K of [64, 128, 256])
    for (const [columns, stages] of stagesOf(64, K))
      assert.equal(stages % (K / 64), 0, `${columns} of K = ${K}`);
  // Too long a sum, and tiles of several columns.
  assert.ok(stagesOf(64, 64 * 50).every(([, stages]) => stages <= 8));
  assert.ok(stagesOf(512, 192).some(([, stages]) => stages % 3 !== 0));
});

test('B is copied in the first round of the ring only, if it stays there', () => {
  const textOf = (columns: number): string => {
    const [M, N, K] = [512, 128, 64];
    const layout = { offset: 0, batch: [], batchStrides: [] };
    const a = { ...layout, rowStride: K, columnStride: 1 };
    const b = { ...layout, rowStride: 1, columnStride: K };
    const p = { batches: 1, M, N, K, a, b, finish: irFunction(([v]) => v!) };
    const tile = { groups: 1, each: 1, columns, stages: 2, splits: 1 } as const;
    return renderCuda(compile(matmulWarpgroups(p, tile, bf16, 2).kernel, H200), { comments: false });
  };
  const inFirstRound = /if \(phase\w* == 0\) \{[^}]*tma_load_3d\(bs/;
  assert.match(textOf(128), inFirstRound);
  assert.doesNotMatch(textOf(64), inFirstRound);
});
