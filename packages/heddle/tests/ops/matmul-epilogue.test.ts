/** What follows a product by warpgroups: a bias that is read before a tile is finished, and ways for epilogues of many instructions. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bf16, f32, i32 } from '../../src/core/dtype.js';
import { fromBf16, toBf16 } from '../../src/core/float16.js';
import { topological } from '../../src/core/node.js';
import * as b from '../../src/graph/build.js';
import { autocast, gelu, linear, Tensor } from '../../src/index.js';
import { costOfCall } from '../../src/kernel/ir/cost.js';
import type { Expr, KernelIr, Node, Param } from '../../src/kernel/ir/ir.js';
import * as k from '../../src/kernel/ir/ir.js';
import { type IrFunction, irFunction, isSafeCall } from '../../src/kernel/ir/ir-function.js';
import { H200 } from '../../src/kernel/ir/target.js';
import { buffer, value } from '../../src/kernel/ir/types.js';
import type { WarpgroupTile } from '../../src/ops/matmul/warpgroup-layout.js';
import { matmulWarpgroups } from '../../src/ops/matmul/warpgroup-product.js';
import { mayPayApart, warpgroupTiles } from '../../src/ops/matmul/warpgroup-tiles.js';
import { simulate } from '../../src/runtime/sim/launch.js';
import { schedule } from '../../src/schedule/schedule.js';
import { noise } from '../kernel/harness.js';

/** Small integers, of which all sums are exact in bf16. */
const integers = (count: number, seed: number): Float32Array =>
  noise(count, seed).map((v) => Math.round(2 * v));

function check(M: number, N: number, tile: WarpgroupTile, beside: number): void {
  const K = 16;
  const memory = k.bufferParam({ name: 'vector', schema: buffer(f32) });
  const at = irFunction(([, column]) => k.load(memory, [column!], 2));
  const added = (v: Expr, ...others: readonly Expr[]): Expr =>
    k.cast(
      bf16,
      others.reduce((sum, other) => k.alu('add', [sum, k.cast(f32, other)]), k.cast(f32, v)),
    );
  const layout = { offset: 0, batch: [1], batchStrides: [0] };
  const p = {
    ...{ batches: 1, M, N, K, beside },
    a: { ...layout, rowStride: K, columnStride: 1 },
    b: { ...layout, rowStride: 1, columnStride: K },
    finish: irFunction(([v, , , column, ...brought]) =>
      added(v!, k.load(memory, [column!], 2), ...brought.slice(0, beside)),
    ),
    bias: {
      at,
      finish: irFunction(([v, , , , bias, ...brought]) => added(v!, bias!, ...brought.slice(0, beside))),
    },
  };
  const { kernel, grid, threads } = matmulWarpgroups(p, { ...tile, beside }, bf16, 2);
  const [x, y, vector] = [integers(M * K, 1), integers(N * K, 2), integers(N, 3)];
  const matrices = ['first', 'second']
    .slice(0, beside)
    .map((name, i) => [name, integers(M * N, 4 + i)] as const);
  const stored = (v: Float32Array) => Uint16Array.from(v, toBf16);
  const c = new Uint16Array(M * N);
  simulate(
    { ...kernel, params: [...kernel.params, memory.arg as Param] },
    { grid, block: threads },
    {
      ...{ a: stored(x), b: stored(y), c, vector },
      ...Object.fromEntries(matrices.map(([name, v]) => [name, stored(v)])),
    },
  );
  for (let n = 0; n < M * N; n++) {
    const [i, j] = [Math.floor(n / N), n % N];
    let sum = vector[j]! + matrices.reduce((total, [, v]) => total + v[n]!, 0);
    for (let l = 0; l < K; l++) sum += x[i * K + l]! * y[j * K + l]!;
    assert.equal(fromBf16(c[n]!), sum, `(${i}, ${j})`);
  }
}

for (const [name, M, N, tile, beside] of [
  ['whole tiles', 128, 128, { groups: 2, each: 1, columns: 64 }, 0],
  ['rows beyond the matrix, beside a matrix', 136, 128, { groups: 1, each: 2, columns: 128 }, 1],
  ['columns beyond the matrix', 64, 72, { groups: 1, each: 1, columns: 64 }, 0],
  ['columns beyond the matrix, beside two', 64, 72, { groups: 1, each: 1, columns: 64 }, 2],
  ['by turns, beside two', 320, 64, { groups: 2, each: 1, columns: 64, alternate: true }, 2],
  ['beside two, in rings of three tiles', 640, 128, { groups: 2, each: 1, columns: 128, held: 3 }, 2],
  ['by turns, in rings of five', 640, 64, { groups: 2, each: 1, columns: 64, alternate: true, held: 5 }, 1],
] as const)
  test(`a bias is added: ${name}`, () => check(M, N, { ...tile, stages: 2, splits: 1 }, beside));

const reads = (node: Node, name: string): boolean =>
  topological([node]).some(
    (n) => n.op === 'load' && n.src[0]!.op === 'buffer' && n.src[0]!.arg.name === name,
  );
const stores = (node: Node, name: string): boolean =>
  topological([node]).some(
    (n) => n.op === 'store' && n.src[0]!.op === 'buffer' && n.src[0]!.arg.name === name,
  );

/** The kernel of a layer with GELU, of which both values are kept. */
function layerWithGelu(): KernelIr {
  const [x, w] = [b.leaf([2048, 256], bf16, false), b.leaf([1024, 256], f32, false)];
  const bias = b.leaf([1024], f32, false);
  const before = autocast(bf16, () => linear(new Tensor(x), new Tensor(w), new Tensor(bias)));
  const { launches } = schedule([before.node, gelu(before).node], H200);
  const kernels = launches.flatMap(({ work }) => ('kernel' in work && work.kernel ? [work.kernel] : []));
  return kernels.find(({ name }) => name === 'matmulWarpgroups')!;
}

test('a bias is not read between stores, which it would have to wait for', () => {
  const loops = topological<Node>([layerWithGelu().body]).filter((n) => n.op === 'for' && stores(n, 'also0'));
  assert.ok(loops.some((loop) => reads(loop, 'finish0')));
  const inner = loops.filter(
    (loop) => !loops.some((other) => other !== loop && topological<Node>([loop]).includes(other)),
  );
  assert.equal(inner.length, 1);
  assert.ok(!reads(inner[0]!, 'finish0'));
});

test('warpgroups take turns where an epilogue has many instructions, not where it has none', () => {
  const sizes = { batches: 1, M: 8192, N: 3072, K: 4096, dtype: bf16, turned: { a: false, b: false } };
  const byTurns = (following: number): boolean =>
    warpgroupTiles({ ...sizes, following }, H200)[0]!.alternate ?? false;
  assert.ok(!byTurns(0));
  assert.ok(byTurns(30));
});

test('a launch behind a product is timed for an epilogue that may keep tensor cores waiting longer', () => {
  const sizes = { batches: 1, dtype: bf16, turned: { a: false, b: false } };
  const layer = { ...sizes, M: 8192, N: 3072, K: 768 };
  assert.ok(mayPayApart({ ...layer, following: 30 }, H200));
  assert.ok(!mayPayApart({ ...layer, following: 6 }, H200));
  // The launch reads and stores what the epilogue takes and makes.
  assert.ok(!mayPayApart({ ...layer, following: 12, beside: 1 }, H200));
  // Adam's update behind the gradient of an embedding.
  const update = { ...sizes, M: 50304, N: 768, K: 8192, following: 48, beside: 3 };
  assert.ok(mayPayApart({ ...update, turned: { a: true, b: true } }, H200));
});

test('a call is safe anywhere if it stores nothing and reads only where valid arguments say', () => {
  const memory = k.bufferParam({ name: 'vector', schema: buffer(f32) });
  const types = [value(f32), value(i32), value(i32)];
  const safe = (build: IrFunction['build']): boolean => isSafeCall(irFunction(build), types, [2]);
  assert.ok(safe(([v]) => k.alu('exp', [v!])));
  assert.ok(safe(([v, , column]) => k.alu('add', [v!, k.load(memory, [column!])])));
  assert.ok(safe(([v]) => k.alu('add', [v!, k.load(memory, [k.int(0)])])));
  assert.ok(!safe(([v, row]) => k.alu('add', [v!, k.load(memory, [row!])])));
  assert.ok(!safe(([v, row, column]) => k.alu('add', [v!, k.load(memory, [k.alu('add', [row!, column!])])])));
  const declared = (by: (row: Expr, column: Expr) => Expr) =>
    safe(([, row, column], emit) => {
      const at = { name: 'at', type: value(i32), constant: true };
      emit(k.declare(at, by(row!, column!)));
      return k.load(memory, [k.read(at)]);
    });
  // What a variable holds is not followed.
  assert.ok(!declared((row) => row));
  assert.ok(
    !safe(([v, , column], emit) => {
      emit(k.store(memory, v!, [column!]));
      return v!;
    }),
  );
});

test('an epilogue that is safe anywhere takes no branches where tiles go beyond the matrix', () => {
  const layout = { offset: 0, batch: [1], batchStrides: [0] };
  const memory = k.bufferParam({ name: 'vector', schema: buffer(f32) });
  const conditions = (finish: IrFunction): number => {
    const p = {
      ...{ batches: 1, M: 72, N: 72, K: 16, finish },
      a: { ...layout, rowStride: 16, columnStride: 1 },
      b: { ...layout, rowStride: 1, columnStride: 16 },
    };
    const tile: WarpgroupTile = { groups: 1, each: 1, columns: 64, stages: 2, splits: 1 };
    const { kernel } = matmulWarpgroups(p, tile, bf16, 2);
    return topological<Node>([kernel.body]).filter(({ op }) => op === 'if').length;
  };
  const free = conditions(irFunction(([v]) => v!));
  const bound = conditions(
    irFunction(([v, , row]) =>
      k.cast(bf16, k.alu('add', [k.cast(f32, v!), k.splat(k.load(memory, [row!]), 2)])),
    ),
  );
  assert.ok(free < bound, `${free}, ${bound}`);
});

test('a call costs what its expressions and statements do', () => {
  const f = irFunction(([v], emit) => {
    const variable = { name: 'v', type: v!.type, constant: true };
    emit(k.declare(variable, k.alu('exp', [v!])));
    return k.alu('add', [k.read(variable), v!]);
  });
  assert.equal(costOfCall(f, [f32]), 18 + 1);
});
