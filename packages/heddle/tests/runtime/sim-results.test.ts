/** The simulator computes what a GPU would: rounding, control flow, vectors, warps, atomics, whole algorithms. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  arrayOf,
  bf16,
  bool,
  DTYPES,
  type DType,
  f16,
  f32,
  f64,
  i32,
  i64,
  type TypedArray,
  u8,
  u32,
} from '../../src/core/dtype.js';
import { toBf16, toF16 } from '../../src/core/float16.js';
import type { Intrinsic } from '../../src/kernel/ir/intrinsics.js';
import {
  type ArrayDecl,
  alu,
  arrayNode,
  barrier,
  bitcast,
  block,
  breakLoop,
  bufferParam,
  cast,
  constant,
  continueLoop,
  declare,
  type Expr,
  effect,
  forLoop,
  int,
  intrinsic,
  type KernelIr,
  lane,
  leave,
  load,
  type Param,
  read,
  type Statement,
  scalarParam,
  select,
  set,
  special,
  store,
  type Variable,
  vector,
  when,
  whileLoop,
} from '../../src/kernel/ir/ir.js';
import {
  convert,
  evaluate,
  OPS,
  type OpRecord,
  type Scalar,
  type ScalarOp,
} from '../../src/kernel/ir/ops.js';
import { buffer, value } from '../../src/kernel/ir/types.js';
import { decode, encode } from '../../src/render/js/kit.js';
import { simulate } from '../../src/runtime/sim/launch.js';

const tid = special('threadIdx.x');
const add = (a: Expr, b: Expr): Expr => alu('add', [a, b]);
const mul = (a: Expr, b: Expr): Expr => alu('mul', [a, b]);
const lt = (a: Expr, b: Expr): Expr => alu('lt', [a, b]);
const input = (name: string, t: DType): Param => ({ name, schema: buffer(t) });
const local = (name: string, t: DType = i32): Variable => ({ name, type: value(t), constant: false });
const kernel = (params: Param[], body: Statement[], arrays: ArrayDecl[] = []): KernelIr => ({
  ...{ name: 'k', params, arrays, body: block(body) },
});

const VALUES: readonly number[] = [
  0,
  1,
  -1,
  2,
  3,
  7,
  -5,
  31,
  33,
  200,
  255,
  256,
  65504,
  0x7fffffff,
  -0x80000000,
  0.1,
  -2.5,
  1e-3,
  3.5e9,
  1e30,
  -0,
  Number.NaN,
  Number.POSITIVE_INFINITY,
];
const ALL = Object.values(DTYPES);

const accepts: Record<OpRecord['operands'], (t: DType) => boolean> = {
  number: (t) => t.kind !== 'bool',
  float: (t) => t.kind === 'float',
  f32: (t) => t.name === 'f32',
  i32: (t) => t.name === 'i32',
  integer: (t) => t.kind === 'int' || t.kind === 'uint',
  bits: (t) => t.kind !== 'float',
  bool: (t) => t.kind === 'bool',
  any: () => true,
};

const filled = (t: DType, values: readonly Scalar[]): TypedArray => {
  const array = arrayOf(t, values.length);
  for (const [i, v] of values.entries()) encode(t, array, i, v);
  return array;
};

test('every op on every dtype it takes gives what its record says, also lane by lane', () => {
  for (const name of Object.keys(OPS) as ScalarOp[]) {
    const record: OpRecord = OPS[name];
    for (const t of ALL.filter(accepts[record.operands])) {
      const values = [...new Set(VALUES.map((v) => convert(f64, t, v)))];
      const columns = [
        values,
        values.map((_, i) => values[(i * 5 + 2) % values.length]!),
        values.map((_, i) => values[(i * 3 + 1) % values.length]!),
      ].slice(0, record.arity);
      const rows = values.length - (values.length % 2);
      const out = record.result === 'bool' ? bool : t;
      const params = columns.map((_, i) => input('abc'[i]!, t));
      const y = input('y', out);
      const z = input('z', out);
      const wide = alu(
        name,
        params.map((p) => load(bufferParam(p), [mul(tid, int(2))], 2)),
      );
      const ir = kernel(
        [...params, y, z],
        [
          store(
            bufferParam(y),
            alu(
              name,
              params.map((p) => load(bufferParam(p), [tid])),
            ),
            [tid],
          ),
          when(lt(tid, int(rows / 2)), store(bufferParam(z), wide, [mul(tid, int(2))])),
        ],
      );
      const results = [arrayOf(out, values.length), arrayOf(out, values.length)] as const;
      const inputs = Object.fromEntries(columns.map((c, i) => ['abc'[i]!, filled(t, c)]));
      simulate(ir, { grid: 1, block: rows }, { ...inputs, y: results[0], z: results[1] });
      for (let i = 0; i < rows; i++) {
        const operands = columns.map((c) => c[i]!);
        const expected = evaluate(name, t, operands[0]!, operands[1], operands[2]);
        const text = `${name} ${t.name} (${operands.join(', ')})`;
        for (const result of results) {
          const got = decode(out, result, i);
          // A zero's sign is not kept by integers; NaN has one meaning.
          assert.ok(
            Object.is(got, expected) || (out.kind !== 'float' && got === expected),
            `${text}: ${got} is not ${expected}`,
          );
        }
      }
    }
  }
});

test('every conversion gives what convert says', () => {
  for (const from of ALL) {
    for (const to of ALL) {
      if (from === to) continue;
      const values = VALUES.map((v) => convert(f64, from, v));
      const x = input('x', from);
      const y = input('y', to);
      const out = arrayOf(to, values.length);
      const ir = kernel([x, y], [store(bufferParam(y), cast(to, load(bufferParam(x), [tid])), [tid])]);
      simulate(ir, { grid: 1, block: values.length }, { x: filled(from, values), y: out });
      values.forEach((v, i) => {
        assert.deepEqual(decode(to, out, i), convert(from, to, v), `${from.name} → ${to.name} of ${v}`);
      });
    }
  }
});

test('sums round after each step, as f32, f16 and bf16 do', () => {
  const sum = (t: DType): Scalar => {
    const y = input('y', t);
    const total = local('total', t);
    const out = arrayOf(t, 1);
    const one = constant(t, convert(f64, t, 0.1));
    simulate(
      kernel(
        [y],
        [
          declare(total, constant(t, 0)),
          forLoop(local('i'), int(0), int(1000), int(1), block([set(total, add(read(total), one))])),
          store(bufferParam(y), read(total), [int(0)]),
        ],
      ),
      { grid: 1, block: 1 },
      { y: out },
    );
    return decode(t, out, 0);
  };
  let single = 0;
  for (let i = 0; i < 1000; i++) single = Math.fround(single + Math.fround(0.1));
  assert.equal(sum(f32), single);
  assert.notEqual(sum(f32), sum(f64));
  assert.equal(sum(bf16), 32);
  assert.ok((sum(f16) as number) > 90 && sum(f16) !== sum(f32));
});

test('integers wrap, i64 is exact', () => {
  const y = input('y', i32);
  const z = input('z', i64);
  const u = input('u', u32);
  const b = input('b', u8);
  const args = { y: new Int32Array(1), z: new BigInt64Array(1), u: new Uint32Array(1), b: new Uint8Array(1) };
  simulate(
    kernel(
      [y, z, u, b],
      [
        store(bufferParam(y), mul(int(123456789), int(987654321)), [int(0)]),
        store(bufferParam(z), mul(constant(i64, 3037000500n), constant(i64, 3037000500n)), [int(0)]),
        store(bufferParam(u), alu('sub', [constant(u32, 0), constant(u32, 1)]), [int(0)]),
        store(bufferParam(b), add(constant(u8, 200), constant(u8, 100)), [int(0)]),
      ],
    ),
    { grid: 1, block: 1 },
    args,
  );
  assert.equal(args.y[0], Math.imul(123456789, 987654321));
  assert.equal(args.z[0], BigInt.asIntN(64, 3037000500n ** 2n));
  assert.equal(args.u[0], 0xffffffff);
  assert.equal(args.b[0], 44);
});

test('bits are reinterpreted, not converted', () => {
  const y = input('y', i32);
  const h = input('h', f16);
  const args = { y: new Int32Array(1), h: new Uint16Array(1) };
  simulate(
    kernel(
      [y, h],
      [
        store(bufferParam(y), bitcast(i32, constant(f32, -1.5)), [int(0)]),
        store(bufferParam(h), bitcast(f16, constant(bf16, 1)), [int(0)]),
      ],
    ),
    { grid: 1, block: 1 },
    args,
  );
  assert.equal(args.y[0]! >>> 0, 0xbfc00000);
  assert.equal(args.h[0], toBf16(1));
  assert.notEqual(args.h[0], toF16(1));
});

test('only the chosen side of a scalar select is evaluated', () => {
  const x = input('x', f32);
  const y = input('y', f32);
  const guarded = select(lt(tid, int(2)), load(bufferParam(x), [tid]), constant(f32, -1));
  const args = { x: new Float32Array([5, 6]), y: new Float32Array(4) };
  simulate(kernel([x, y], [store(bufferParam(y), guarded, [tid])]), { grid: 1, block: 4 }, args);
  assert.deepEqual([...args.y], [5, 6, -1, -1]);
});

test('vectors: wide loads, lane by lane arithmetic, select by a vector of bools, lanes', () => {
  const x = input('x', f32);
  const y = input('y', f32);
  const four = load(bufferParam(x), [int(4)], 4);
  const other = vector([0, 10, 2, 30].map((v) => constant(f32, v)));
  const larger = select(alu('gt', [four, other]), four, other);
  const args = { x: new Float32Array([0, 0, 0, 0, 1, 2, 3, 4]), y: new Float32Array(8) };
  simulate(
    kernel([x, y], [store(bufferParam(y), larger, [int(0)]), store(bufferParam(y), lane(four, 2), [int(7)])]),
    { grid: 1, block: 1 },
    args,
  );
  assert.deepEqual([...args.y], [1, 10, 3, 30, 0, 0, 0, 3]);
});

test('a local array of vector accumulators', () => {
  const y = input('y', f32);
  const acc: ArrayDecl = { name: 'acc', dtype: f32, space: 'local', dims: [2, 2], lanes: 4 };
  const i = local('i');
  const ones = vector([1, 2, 3, 4].map((v) => constant(f32, v)));
  const args = { y: new Float32Array(8) };
  simulate(
    kernel(
      [y],
      [
        forLoop(i, int(0), int(2), int(1), block([store(arrayNode(acc), ones, [read(i), int(1)])])),
        store(arrayNode(acc), add(load(arrayNode(acc), [int(1), int(1)]), ones), [int(1), int(1)]),
        forLoop(
          i,
          int(0),
          int(2),
          int(1),
          block([store(bufferParam(y), load(arrayNode(acc), [read(i), int(1)]), [mul(read(i), int(4))])]),
        ),
      ],
      [acc],
    ),
    { grid: 1, block: 1 },
    args,
  );
  assert.deepEqual([...args.y], [1, 2, 3, 4, 2, 4, 6, 8]);
});

test('nested loops with break, continue, an update after continue, and early return', () => {
  const y = input('y', i32);
  const [i, j, total] = [local('i'), local('j'), local('total')];
  const is = (v: Variable, n: number): Expr => alu('eq', [read(v), int(n)]);
  const args = { y: new Int32Array(4) };
  simulate(
    kernel(
      [y],
      [
        when(alu('ge', [tid, int(3)]), leave()),
        declare(total, int(0)),
        forLoop(
          i,
          int(0),
          int(5),
          int(1),
          block([
            when(is(i, 1), continueLoop()),
            declare(j, int(0)),
            whileLoop(
              lt(read(j), int(10)),
              block([
                when(alu('eq', [alu('mod', [read(j), int(2)]), int(0)]), continueLoop()),
                when(alu('gt', [read(j), add(tid, int(5))]), breakLoop()),
                set(total, add(read(total), read(j))),
              ]),
              block([set(j, add(read(j), int(1)))]),
            ),
            when(is(i, 3), breakLoop()),
          ]),
        ),
        store(bufferParam(y), read(total), [tid]),
      ],
    ),
    { grid: 1, block: 4 },
    args,
  );
  const expected = [0, 1, 2].map((t) => {
    let sum = 0;
    for (const _ of [0, 2, 3]) for (let k = 1; k < 10 && k <= t + 5; k += 2) sum += k;
    return sum;
  });
  assert.deepEqual([...args.y], [...expected, 0]);
});

test('a variable may shadow another of the same name, or be a word of JavaScript', () => {
  const y = input('class', i32);
  const [outer, inner] = [local('x'), local('x')];
  const args = { class: new Int32Array(1) };
  simulate(
    kernel(
      [y],
      [
        declare(outer, int(3)),
        when(
          constant(bool, true),
          block([declare(inner, int(4)), set(outer, add(read(outer), read(inner)))]),
        ),
        store(bufferParam(y), read(outer), [int(0)]),
      ],
    ),
    { grid: 1, block: 1 },
    args,
  );
  assert.equal(args.class[0], 7);
});

const warp = (name: Intrinsic, t: DType, threads: number, x: TypedArray, by?: number): TypedArray => {
  const out = { T: t, bool, u32, none: t }[
    name === 'ballot' ? 'u32' : name === 'any' || name === 'all' ? 'bool' : 'T'
  ];
  const [px, py] = [input('x', t), input('y', out)];
  const y = arrayOf(out, threads);
  const v = load(bufferParam(px), [tid]);
  const call = intrinsic(name, by === undefined ? [v] : [v, int(by)], t);
  simulate(kernel([px, py], [store(bufferParam(py), call, [tid])]), { grid: 1, block: threads }, { x, y });
  return y;
};

test('shuffles, votes and reductions, on whole and on partial warps', () => {
  const counting = Int32Array.from({ length: 64 }, (_, i) => i);
  assert.deepEqual([...warp('warpSum', i32, 32, counting)], Array(32).fill(496));
  const down = warp('shuffleDown', i32, 64, counting, 1);
  assert.deepEqual([down[0], down[31], down[32], down[63]], [1, 31, 33, 63]);
  const up = warp('shuffleUp', i32, 48, counting, 2);
  assert.deepEqual([up[0], up[1], up[2], up[34]], [0, 1, 0, 32]);
  assert.deepEqual([...warp('shuffleXor', i32, 32, counting, 1)].slice(0, 4), [1, 0, 3, 2]);
  assert.deepEqual([...new Set(warp('shuffle', i32, 32, counting, 5) as Int32Array)], [5]);
  assert.deepEqual([...warp('warpMax', i32, 48, counting)].slice(30, 34), [31, 31, 47, 47]);
  const flags = Uint8Array.from({ length: 40 }, (_, i) => (i === 3 || i === 33 ? 1 : 0));
  assert.deepEqual(
    [...warp('ballot', bool, 40, flags)].filter((_, i) => i % 32 === 0),
    [8, 2],
  );
  assert.deepEqual([...new Set(warp('any', bool, 40, flags) as Uint8Array)], [1]);
  assert.deepEqual([...new Set(warp('all', bool, 40, flags) as Uint8Array)], [0]);
});

test('lanes that have returned take no part in a warp operation', () => {
  const y = input('y', u32);
  const args = { y: new Uint32Array(32) };
  simulate(
    kernel(
      [y],
      [
        when(alu('ge', [tid, int(4)]), leave()),
        store(bufferParam(y), intrinsic('ballot', [constant(bool, true)], bool), [tid]),
      ],
    ),
    { grid: 1, block: 32 },
    args,
  );
  assert.deepEqual([...args.y].slice(0, 5), [15, 15, 15, 15, 0]);
});

test('atomics return what stood there and add up over blocks', () => {
  const [y, z] = [input('y', i32), input('z', f32)];
  const old = local('old');
  const args = { y: new Int32Array(1), z: new Float32Array(64) };
  simulate(
    kernel(
      [y, z],
      [
        declare(old, intrinsic('atomicAdd', [bufferParam(y), int(0), int(2)], i32)),
        effect(intrinsic('atomicMax', [bufferParam(z), read(old), constant(f32, 1.5)], f32)),
      ],
    ),
    { grid: 2, block: 16 },
    args,
  );
  assert.equal(args.y[0], 64);
  assert.deepEqual(
    [...args.z],
    Array.from({ length: 64 }, (_, i) => (i % 2 === 0 ? 1.5 : 0)),
  );
});

test('compare-and-exchange builds any other atomic', () => {
  const y = input('y', i32);
  const [seen, old] = [local('seen'), local('old')];
  const args = { y: new Int32Array([1]) };
  simulate(
    kernel(
      [y],
      [
        declare(seen, int(1)),
        declare(old, int(0)),
        whileLoop(
          alu('ne', [read(seen), read(old)]),
          block([
            set(old, read(seen)),
            set(
              seen,
              intrinsic(
                'atomicCompareExchange',
                [bufferParam(y), int(0), read(old), mul(read(old), int(2))],
                i32,
              ),
            ),
          ]),
          block([]),
        ),
      ],
    ),
    { grid: 1, block: 5 },
    args,
  );
  assert.equal(args.y[0], 32);
});

test('a tiled matmul of 64 × 64 in well under a second', () => {
  const [a, b, c] = [input('a', f32), input('b', f32), input('c', f32)];
  const n: Param = { name: 'n', schema: i32 };
  const tile = (name: string): ArrayDecl => ({ name, dtype: f32, space: 'shared', dims: [16, 16], lanes: 1 });
  const [as, bs] = [tile('as'), tile('bs')];
  const [tx, ty] = [tid, special('threadIdx.y')];
  const [row, col, acc, k, t] = [local('row'), local('col'), local('acc', f32), local('k'), local('t')];
  const size = scalarParam(n);
  const ir = kernel(
    [a, b, c, n],
    [
      declare(row, add(mul(special('blockIdx.y'), int(16)), ty)),
      declare(col, add(mul(special('blockIdx.x'), int(16)), tx)),
      declare(acc, constant(f32, 0)),
      forLoop(
        t,
        int(0),
        size,
        int(16),
        block([
          store(arrayNode(as), load(bufferParam(a), [add(mul(read(row), size), add(read(t), tx))]), [ty, tx]),
          store(arrayNode(bs), load(bufferParam(b), [add(mul(add(read(t), ty), size), read(col))]), [ty, tx]),
          barrier(),
          forLoop(
            k,
            int(0),
            int(16),
            int(1),
            block([
              set(
                acc,
                alu('fma', [
                  load(arrayNode(as), [ty, read(k)]),
                  load(arrayNode(bs), [read(k), tx]),
                  read(acc),
                ]),
              ),
            ]),
          ),
          barrier(),
        ]),
      ),
      store(bufferParam(c), read(acc), [add(mul(read(row), size), read(col))]),
    ],
    [as, bs],
  );
  const random = (seed: number): Float32Array =>
    Float32Array.from({ length: 64 * 64 }, (_, i) => Math.sin(i * seed));
  const args = { a: random(1.3), b: random(0.7), c: new Float32Array(64 * 64), n: 64 };
  simulate(ir, { grid: [4, 4], block: [16, 16] }, args);
  for (const [r, s] of [
    [0, 0],
    [17, 63],
    [63, 5],
  ] as const) {
    let sum = 0;
    for (let i = 0; i < 64; i++) sum = Math.fround(args.a[r * 64 + i]! * args.b[i * 64 + s]! + sum);
    assert.equal(args.c[r * 64 + s], sum);
  }
});

test('a block reduction and a padded transpose', () => {
  const [x, y] = [input('x', f32), input('y', f32)];
  const s: ArrayDecl = { name: 's', dtype: f32, space: 'shared', dims: [-1], lanes: 1 };
  const by = local('by');
  const sum = kernel(
    [x, y],
    [
      store(arrayNode(s), load(bufferParam(x), [add(mul(special('blockIdx.x'), int(64)), tid)]), [tid]),
      declare(by, int(32)),
      whileLoop(
        alu('gt', [read(by), int(0)]),
        block([
          barrier(),
          when(
            lt(tid, read(by)),
            store(arrayNode(s), add(load(arrayNode(s), [tid]), load(arrayNode(s), [add(tid, read(by))])), [
              tid,
            ]),
          ),
        ]),
        block([set(by, alu('shr', [read(by), int(1)]))]),
      ),
      when(
        alu('eq', [tid, int(0)]),
        store(bufferParam(y), load(arrayNode(s), [int(0)]), [special('blockIdx.x')]),
      ),
    ],
    [s],
  );
  const args = { x: Float32Array.from({ length: 128 }, (_, i) => i), y: new Float32Array(2) };
  simulate(sum, { grid: 2, block: 64, sharedBytes: 256 }, args);
  assert.deepEqual([...args.y], [2016, 6112]);

  const tile: ArrayDecl = { name: 'tile', dtype: f32, space: 'shared', dims: [8, 9], lanes: 1 };
  const ty = special('threadIdx.y');
  const [bx, by2] = [special('blockIdx.x'), special('blockIdx.y')];
  const at = (r: Expr, c: Expr, width: number): Expr => add(mul(r, int(width)), c);
  const transpose = kernel(
    [x, y],
    [
      store(arrayNode(tile), load(bufferParam(x), [at(at(by2, ty, 8), at(bx, tid, 8), 16)]), [ty, tid]),
      barrier(),
      store(bufferParam(y), load(arrayNode(tile), [tid, ty]), [at(at(bx, ty, 8), at(by2, tid, 8), 24)]),
    ],
    [tile],
  );
  const m = { x: Float32Array.from({ length: 24 * 16 }, (_, i) => i), y: new Float32Array(24 * 16) };
  simulate(transpose, { grid: [2, 3], block: [8, 8] }, m);
  for (let r = 0; r < 24; r++) for (let c = 0; c < 16; c++) assert.equal(m.y[c * 24 + r], m.x[r * 16 + c]);
});
