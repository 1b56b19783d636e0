/** Every construct of the kernel language: compiled with all passes, checked after each, and interpreted. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KernelIr } from '../../src/kernel/ir/ir.js';
import type { Scalar } from '../../src/kernel/ir/ops.js';
import { printKernel } from '../../src/kernel/ir/print.js';
import { H200, type Target } from '../../src/kernel/ir/target.js';
import {
  bool,
  buffer,
  type Constants,
  defineKernel,
  f32,
  f64,
  type Intrinsics,
  i32,
  i64,
  type KernelFunction,
  type Schema,
  u32,
} from '../../src/kernel/language/index.js';
import { compile } from '../../src/kernel/passes/pipeline.js';
import { interpret } from './interpreter.js';

process.env.HEDDLE_CHECK = '1';

const CPU: Target = { ...H200, name: 'cpu', model: 'blocks', units: 1, fma: false, capability: 0 };

/** A kernel as it is before it is lowered to addresses, which the interpreter does not know. */
const optimized = (ir: KernelIr): KernelIr => compile(ir, CPU).lowered!.from;

type Arguments = Record<string, Scalar | Scalar[]>;

/** Runs a kernel as parsed and as compiled; both must leave the same. */
function run<const S extends Schema, C extends Constants = Record<never, never>>(
  schema: S,
  fn: KernelFunction<S, C>,
  args: Arguments,
  constants?: C,
): Arguments {
  const ir = defineKernel('k', schema, fn, constants);
  const copy = structuredClone(args);
  interpret(ir, args);
  interpret(optimized(ir), copy);
  assert.deepEqual(copy, args);
  return args;
}

const Y = { y: buffer(f32), n: i32 } as const;
const out = (size: number, n = 0): Arguments => ({ y: new Array<Scalar>(size).fill(0), n });
const f = Math.fround;

test('saxpy', () => {
  const args = { a: 2, x: [1, 2, 3], y: [10, 20, 30], n: 3 };
  const ir = defineKernel(
    'saxpy',
    { a: f32, x: buffer(f32), y: buffer(f32), n: i32 },
    ({ a, x, y, n }, { globalId }) => {
      const i = globalId.x;
      if (i < n) y[i] = a * x[i] + y[i];
    },
  );
  for (let block = 0; block < 4; block++) interpret(ir, args, { 'blockIdx.x': block });
  assert.deepEqual(args.y, [12, 24, 36]);
  assert.equal(
    printKernel(ir),
    `kernel saxpy(a: f32, x: f32[], y: f32[], n: i32)
  const i: i32 = (blockIdx.x * blockDim.x) + threadIdx.x
  if i < n
    y[i] = (a * x[i]) + y[i]
`,
  );
});

test('plain and renamed parameters', () => {
  const plain = run(
    { x: buffer(f32) },
    (p, ctx) => {
      p.x[0] = ctx.f32(ctx.blockDim.x);
    },
    { x: [0] },
  );
  assert.deepEqual(plain.x, [1]);
  const renamed = run(
    { x: buffer(f32) },
    ({ x: input }, { idiv: quotient, f32: float }) => {
      input[0] = float(quotient(7, 2));
    },
    { x: [0] },
  );
  assert.deepEqual(renamed.x, [3]);
});

test('literals take the type of their context', () => {
  const result = run(
    { y: buffer(f32), d: buffer(f64), l: buffer(i64), u: buffer(u32), b: buffer(bool), n: i32 },
    ({ y, d, l, u, b, n }) => {
      y[0] = 1;
      y[1] = 0.1;
      d[0] = 0.1;
      l[0] = 5;
      u[0] = 4294967295;
      b[0] = n > 2;
      y[2] = n > 2 ? 1 : 0;
      y[3] = (n > 2 ? 1 : 0.5) * y[1];
      const half = 0.5;
      d[1] = half;
      y[4] = half;
    },
    { y: [0, 0, 0, 0, 0], d: [0, 0], l: [0n], u: [0], b: [false], n: 3 },
  );
  assert.deepEqual(result, {
    y: [1, f(0.1), 1, f(0.1), 0.5],
    d: [0.1, 0.5],
    l: [5n],
    u: [4294967295],
    b: [true],
    n: 3,
  });
});

test('a let that starts as a literal takes the type of the first value assigned to it', () => {
  const result = run(
    { x: buffer(f32), y: buffer(f32), n: i32 },
    ({ x, y, n }) => {
      let sum = 0;
      let most = Number.NEGATIVE_INFINITY;
      let count = 0;
      let last = 0;
      for (let i = 0; i < n; i++) {
        sum = 0.5 * sum + x[i];
        most = Math.max(most, x[i]);
        count += i;
        last = x[i];
      }
      y[0] = sum;
      y[1] = most;
      y[count] = last;
    },
    { x: [1, 2, 3], y: [0, 0, 0, 0], n: 3 },
  );
  assert.deepEqual(result.y, [4.25, 3, 0, 3]);
});

test('arithmetic, compound assignment, ++ and --', () => {
  const result = run(
    { y: buffer(i32), n: i32 },
    ({ y, n }, { idiv }) => {
      let a = n;
      a += 3;
      a *= 2;
      a -= 1;
      a <<= 2;
      a ^= 5;
      y[0] = a++;
      y[1] = ++a;
      y[2] = a--;
      y[3] = -a % 7;
      y[4] = idiv(-a, 7);
      y[5] = ~a & 0xff;
      y[6] = (a | 1) >> 1;
      y[a - a] += a + a++;
      let i = 7;
      y[i++] = i;
      y[i] = y[7] = 3;
    },
    { y: [0, 0, 0, 0, 0, 0, 0, 0, 0], n: 4 },
  );
  assert.deepEqual(result.y, [149, 51, 51, -1, -7, 205, 25, 3, 3]);
});

test('loops: for, while, do, break, continue, early return', () => {
  const result = run(
    { y: buffer(i32), n: i32 },
    ({ y, n }) => {
      for (let i = 0; i < n; i++) {
        if (i === 2) continue;
        if (i > 4) break;
        y[0] += i;
      }
      for (let i = n; i > 0; i--) y[1] += i;
      let k = 1;
      while (k < 100) k *= 2;
      y[2] = k;
      do {
        k--;
        if (k > 120) continue;
        y[3] += 1;
      } while (k > 110);
      for (let i = 1; i <= 10; i += 3) y[4] += i;
      for (let i = 0; i < y[0]; i++) y[0] -= 1;
      for (let i = 0, j = 10; i < j; i++, j--) y[5] += 1;
      for (let i = 0; 3 > i; i = i + 1) y[6] += 1;
      if (n > 3) return;
      y[7] = 1;
    },
    { y: new Array(8).fill(0), n: 10 },
  );
  assert.deepEqual(result.y, [4, 55, 128, 11, 22, 5, 3, 0]);
});

test('conditions: ternary, &&, ||, ! evaluate only what is needed', () => {
  const result = run(
    { y: buffer(i32), x: buffer(i32), n: i32 },
    ({ y, x, n }, { atomicAdd }) => {
      const inRange = n >= 0 && x[n] > 0;
      y[0] = inRange ? 1 : 2;
      y[1] = n < 0 || x[n] > 0 ? 1 : 2;
      y[2] = !(n < 0) ? 1 : 2;
      if (n < 0 && atomicAdd(x, 0, 1) === 0) y[3] = 1;
      y[4] = n < 0 ? atomicAdd(x, 0, 1) : 5;
      const old = n >= -1 ? atomicAdd(x, 0, 10) : 5;
      y[5] = old;
      while (x[0] < 20 && atomicAdd(x, 0, 1) < 15) y[6] += 1;
    },
    { y: new Array(7).fill(0), x: [3], n: -1 },
  );
  assert.deepEqual(result, {
    y: [2, 1, 2, 0, 4, 5, 0],
    x: [16],
    n: -1,
  });
});

test('Math', () => {
  const result = run(
    { y: buffer(f32), x: f32 },
    ({ y, x }, { exp2, rint, rsqrt, fma }) => {
      y[0] = Math.max(x, 1, 3 * x);
      y[1] = Math.min(x, 0, -1);
      y[2] = Math.round(x);
      y[3] = Math.sign(-x);
      y[4] = Math.sqrt(x) * Math.PI;
      y[5] = x ** 2 + Math.exp(0);
      y[6] = exp2(x) + rint(x);
      y[7] = rsqrt(x);
      y[8] = fma(x, 2, 1);
      y[9] = Math.floor(x) + Math.ceil(x) + Math.trunc(-x) + Math.abs(-x);
    },
    { y: new Array(10).fill(0), x: 2.5 },
  );
  assert.deepEqual(result.y, [
    7.5,
    -1,
    3,
    -1,
    f(f(Math.sqrt(2.5)) * f(Math.PI)),
    7.25,
    f(f(2 ** 2.5) + 2),
    f(1 / f(Math.sqrt(2.5))),
    6,
    5.5,
  ]);
});

test('casts and integers', () => {
  const result = run(
    { y: buffer(i32), u: buffer(u32), l: buffer(i64), x: f32, n: i32 },
    ({ y, u, l, x, n }, { i32, u32, i64, bool, select, mulhi }) => {
      y[0] = i32(x);
      y[1] = i32(-2.7);
      u[0] = u32(n) >>> 1;
      u[1] = mulhi(u32(0xd2511f53), u32(n));
      l[0] = i64(n) * 4000000000;
      y[2] = select(bool(n), 1, 0);
      y[3] = i32(l[0] > 5);
      y[u[2]] = 9;
    },
    { y: [0, 0, 0, 0, 0], u: [0, 0, 4], l: [0n], x: 2.7, n: -3 },
  );
  assert.deepEqual(result.y, [2, -2, 1, 0, 9]);
  assert.deepEqual(result.u, [2147483646, 3528531792, 4]);
  assert.deepEqual(result.l, [-12000000000n]);
});

test('shared and local arrays of several dimensions', () => {
  const result = run(
    Y,
    ({ y, n }, { shared, local, barrier, f32, i32 }) => {
      const tile = shared(f32, 4, 5);
      const counts = local(i32, 3);
      for (let r = 0; r < 4; r++) for (let c = 0; c < 5; c++) tile[r][c] = f32(r * 10 + c);
      for (let k = 0; k < 3; k++) counts[k] = k * k;
      barrier();
      y[0] = tile[n][n + 1];
      y[1] = f32(counts[2] + counts[1]);
      tile[1][n] += 0.5;
      y[2] = tile[1][2];
    },
    out(3, 2),
  );
  assert.deepEqual(result.y, [23, 5, 12.5]);
});

test('vectors and wide accesses', () => {
  const result = run(
    { x: buffer(f32), y: buffer(f32), n: i32 },
    ({ x, y, n }, { load4, store4, load2, store2, vec4, splat4, lane, local4, f32, select }) => {
      const a = load4(x, 0);
      const acc = local4(f32, 2);
      for (let i = 0; i < 2; i++) acc[i] = splat4(0);
      for (let i = 0; i < 2; i++) acc[i] = acc[i] + a * splat4(x[i]) + 1;
      store4(y, 4 * n, acc[1]);
      store2(y, 4, load2(x, 2) * 0.5);
      let sum = 0;
      for (let k = 0; k < 4; k++) sum += lane(a, k);
      y[6] = sum;
      y[7] = lane(select(a > 2, a, vec4(9, 8, 7, 6)), 1);
      let total = splat4(0);
      total = total + a;
      y[8] = lane(total, 3);
    },
    { x: [1, 2, 3, 4], y: new Array(9).fill(0), n: 0 },
  );
  assert.deepEqual(result.y, [3, 5, 7, 9, 1.5, 2, 10, 8, 4]);
});

test('constants prune branches before they are typed, size arrays and fold', () => {
  const fn: KernelFunction<typeof Y, { BIAS: boolean; TILE: number; MODE: string; WEIGHTS: number[][] }> = (
    { y },
    { BIAS, TILE, MODE, WEIGHTS, local, f32 },
  ) => {
    const half = TILE / 2;
    const t = local(f32, half);
    t[half - 1] = MODE === 'relu' ? 1 : 2;
    // @ts-expect-error: no such parameter, and no use of it either
    if (BIAS) y[0] = bias[0];
    else y[0] = t[half - 1];
    for (let r = 0; r < WEIGHTS.length; r++) for (let c = 0; c < 2; c++) y[1] += WEIGHTS[r]![c]!;
  };
  const result = run(Y, fn, out(2), {
    BIAS: false,
    TILE: 8,
    MODE: 'relu',
    WEIGHTS: [
      [1, 2],
      [3, 4.5],
    ],
  });
  assert.deepEqual(result.y, [1, 10.5]);
});

test('a choice between literals keeps its value, and takes the dtype of what it meets', () => {
  const result = run(
    { x: buffer(f32), y: buffer(f32), n: i32 },
    ({ x, y, n }, { set }) => {
      let v = n;
      const sign = v > 0 ? 1 : -1;
      const large = x[0] > 0.5 ? 2 : 0;
      v = -5;
      x[0] = 0;
      y[0] = x[1] * sign;
      y[v + 6] = large;
      y[2] = (x[1] > 1 ? 1 : 0) + set(x, 1, 0);
      y[3] = set(x, x[2] > 0 ? 1 : 0, x[2] > 0 ? 3 : 4);
      const pair = { first: x[2] };
      x[2] = 7;
      y[4] = pair.first;
    },
    { x: [1, 1.5, 1], y: [0, 0, 0, 0, 0], n: 3 },
    {
      set: (x: Record<number, number>, i: number, v: number): number => {
        x[2] = x[2]! - 1;
        x[i] = v;
        return v;
      },
    },
  );
  assert.deepEqual(result, { x: [4, 0, 7], y: [1.5, 2, 1, 4, -1], n: 3 });
});

const clamp = (x: number, low: number, high: number): number => {
  if (x < low) return low;
  if (x > high) return high;
  return x;
};
const gelu = (x: number, { exp2 }: Pick<Intrinsics, 'exp2'>): number => x / (1 + exp2(-x));
function sumOf(x: { [i: number]: number }, n: number): number {
  let sum = 0;
  for (let i = 0; i < n; i++) sum += x[i]!;
  return sum;
}
function bump(x: { [i: number]: number }, at: number, by: number): void {
  if (at < 0) return;
  by *= 2;
  x[at] = x[at]! + by;
}
interface WithPower {
  power(x: number, n: number, context: WithPower): number;
}
const power = (x: number, n: number, context: WithPower): number =>
  n > 0 ? x * context.power(x, n - 1, context) : 1;

test('functions among the constants are inlined', () => {
  const result = run(
    { x: buffer(f32), y: buffer(f32), n: i32 },
    ({ x, y, n }, context) => {
      const { clamp, gelu, sumOf, bump, power } = context;
      y[0] = clamp(x[0], 2, 3) + clamp(x[2], 2, 2.5);
      y[1] = gelu(x[1], context);
      y[2] = sumOf(x, n) > 5 ? sumOf(x, n) : 0;
      bump(y, 3, x[0]);
      bump(y, -1, x[0]);
      y[4] = power(x[1], 3, { power });
      const twice = (v: number) => v * 2;
      y[5] = twice(twice(x[1]));
    },
    { x: [1, 2, 3], y: new Array(6).fill(0), n: 3 },
    { clamp, gelu, sumOf, bump, power },
  );
  assert.deepEqual(result.y, [4.5, f(2 / f(1 + 0.25)), 6, 2, 8, 8]);
});

test('print and assert', () => {
  const ir = defineKernel('p', { n: i32 }, ({ n }, { print, assert }) => {
    print('n = {} of {}', n, 2 * n);
    assert(n < 5, 'n is small');
  });
  assert.deepEqual(interpret(ir, { n: 3 }), ['n = 3 of 6']);
  assert.throws(() => interpret(ir, { n: 5 }), /n is small/);
});

test('an intrinsic stands alone: as the value of a variable, or for its effect', () => {
  const ir = defineKernel(
    'w',
    { x: buffer(f32), h: buffer(i32) },
    ({ x, h }, { warpSum, laneId, atomicAdd, barrier }) => {
      const total = warpSum(x[laneId]) / 2;
      atomicAdd(h, 0, 1);
      const slot = atomicAdd(h, 1, 1);
      barrier();
      x[slot] = total;
    },
  );
  assert.equal(
    printKernel(optimized(ir)),
    `kernel w(x: f32[], h: i32[])
  const warpSum: f32 = warpSum(x[laneId])
  const total: f32 = warpSum / 2.0
  atomicAdd(h, 0, 1)
  const slot: i32 = atomicAdd(h, 1, 1)
  barrier()
  x[slot] = total
`,
  );
});

test('a register tile becomes variables', () => {
  const ir = defineKernel(
    'tile',
    { x: buffer(f32), y: buffer(f32), n: i32 },
    ({ x, y, n }, { local4, load4, store4, splat4, f32 }) => {
      const acc = local4(f32, 2, 2);
      for (let r = 0; r < 2; r++) for (let c = 0; c < 2; c++) acc[r][c] = splat4(0);
      for (let k = 0; k < n; k++) {
        for (let r = 0; r < 2; r++)
          for (let c = 0; c < 2; c++) acc[r][c] += splat4(x[k * 2 + r]) * load4(x, k * 8 + c * 4);
      }
      for (let r = 0; r < 2; r++) for (let c = 0; c < 2; c++) store4(y, (r * 2 + c) * 4, acc[r][c]);
    },
  );
  const text = printKernel(optimized(ir));
  assert.equal(
    text,
    `kernel tile(x: f32[], y: f32[], n: i32)
  let acc_0: f32x4 = splat4(0.0)
  let acc_1: f32x4 = splat4(0.0)
  let acc_2: f32x4 = splat4(0.0)
  let acc_3: f32x4 = splat4(0.0)
  acc_0 = splat4(0.0)
  acc_1 = splat4(0.0)
  acc_2 = splat4(0.0)
  acc_3 = splat4(0.0)
  for k from 0 to n step 1
    acc_0 = acc_0 + (splat4(x[k * 2]) * x[k * 8:4])
    acc_1 = acc_1 + (splat4(x[k * 2]) * x[(k * 8) + 4:4])
    acc_2 = acc_2 + (splat4(x[(k * 2) + 1]) * x[k * 8:4])
    acc_3 = acc_3 + (splat4(x[(k * 2) + 1]) * x[(k * 8) + 4:4])
  y[0:4] = acc_0
  y[4:4] = acc_1
  y[8:4] = acc_2
  y[12:4] = acc_3
`,
  );
});

test('a loop in one that is unrolled is unrolled in all of its rounds, or in none', () => {
  const ir = defineKernel(
    'rounds',
    { y: buffer(i32) },
    ({ y }, { COUNTS, WEIGHTS }) => {
      for (let i = 0; i < 3; i++) {
        let sum = 0;
        // Only a later round needs j as a constant.
        for (let j = 0; j < 2; j++) sum += COUNTS[i]! > 1 ? WEIGHTS[j]! : j;
        y[i] = sum;
      }
    },
    { COUNTS: [1, 2, 1], WEIGHTS: [10, 20] },
  );
  assert.ok(!/\bfor\b/.test(printKernel(ir)), printKernel(ir));
  const args = { y: [0, 0, 0] };
  interpret(ir, args);
  assert.deepEqual(args.y, [1, 30, 1]);
});
