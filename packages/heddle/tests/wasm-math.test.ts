/** The elementary functions over dense ranges, against JavaScript's double-precision ones. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { type DType, f32, f64 } from '../src/core/dtype.js';
import {
  alu,
  block,
  bufferParam,
  type Expr,
  int,
  type KernelIr,
  load,
  type Param,
  special,
  store,
} from '../src/kernel/ir.js';
import type { ScalarOp } from '../src/kernel/ops.js';
import { buffer, type Lanes } from '../src/kernel/types.js';
import { CpuDevice } from '../src/runtime/cpu/device.js';
import { runKernel } from './cpu-harness.js';

const device = new CpuDevice();
after(() => device.close());

function apply(name: ScalarOp, t: DType, lanes: Lanes, ...columns: number[][]): Promise<number[]> {
  const inputs = columns.map((_, i): Param => ({ name: `in${i}`, schema: buffer(t) }));
  const out: Param = { name: 'out', schema: buffer(t) };
  const i = alu('mul', [special('blockIdx.x'), int(lanes)]);
  const operands = inputs.map((p): Expr => load(bufferParam(p), [i], lanes));
  const body = block([store(bufferParam(out), alu(name, operands), [i])]);
  const ir: KernelIr = { name, params: [...inputs, out], arrays: [], body };
  const n = columns[0]!.length;
  return runKernel(device, ir, [n / lanes, 1, 1], [...columns, new Array(n).fill(0)]).then(
    (r) => r[columns.length] as number[],
  );
}

/** `n` numbers from low to high, evenly or, between positive bounds, by equal factors. */
const range = (low: number, high: number, n: number): number[] =>
  Array.from({ length: n }, (_, i) =>
    low > 0 && high / low > 100 ? low * (high / low) ** (i / (n - 1)) : low + ((high - low) * i) / (n - 1),
  );

const float32 = new Float32Array(1);
const bits32 = new Int32Array(float32.buffer);

/** The distance to the next f32 away from zero. */
function ulp32(v: number): number {
  float32[0] = Math.abs(v);
  const at = float32[0];
  bits32[0]! += 1;
  return Number.isFinite(float32[0]) ? float32[0] - at : 2 ** 104;
}

const exact = {
  exp: Math.exp,
  exp2: (x: number) => 2 ** x,
  log: Math.log,
  log2: Math.log2,
  sin: Math.sin,
  cos: Math.cos,
  tanh: Math.tanh,
} as const;
type Name = keyof typeof exact;

const F32_RANGES: readonly (readonly [Name, number, number, number])[] = [
  ['exp', -104, 88.72, 2],
  ['exp', -1, 1, 2],
  ['exp2', -149, 127.99, 2],
  ['exp2', -1, 1, 2],
  ['log', 1e-45, 3.4e38, 2],
  ['log', 0.5, 2, 2],
  ['log2', 1e-45, 3.4e38, 2],
  ['log2', 0.5, 2, 3],
  ['tanh', -10, 10, 4],
  ['tanh', 1e-30, 1, 4],
];

for (const lanes of [1, 4] as const) {
  for (const [name, low, high, ulps] of F32_RANGES) {
    test(`${name} on f32x${lanes} from ${low} to ${high} is within ${ulps} ulp`, async () => {
      const x = range(low, high, 40_000).map(Math.fround);
      const got = await apply(name, f32, lanes, x);
      x.forEach((v, i) => {
        const wanted = exact[name](v);
        const off = Math.abs(got[i]! - wanted) / ulp32(wanted);
        assert.ok(off <= ulps, `${name}(${v}) = ${got[i]}, not ${wanted}: ${off.toFixed(2)} ulp`);
      });
    });
  }

  for (const name of ['sin', 'cos'] as const) {
    test(`${name} on f32x${lanes} is within 1e-6 up to 10⁴, and bounded beyond`, async () => {
      const x = [...range(-10_000, 10_000, 60_000), ...range(-4, 4, 20_000)].map(Math.fround);
      const got = await apply(name, f32, lanes, x);
      x.forEach((v, i) => {
        assert.ok(Math.abs(got[i]! - exact[name](v)) <= 1e-6, `${name}(${v}) = ${got[i]}`);
      });
      const far = await apply(name, f32, lanes, range(1e5, 3e38, 4000).map(Math.fround));
      for (const v of far) assert.ok(Math.abs(v) <= 1.000001);
    });
  }

  for (const name of Object.keys(exact) as Name[]) {
    test(`${name} on f64x${lanes} is within 1e-12`, async () => {
      const [low, high] = name.startsWith('log')
        ? [1e-150, 1e150]
        : name.startsWith('exp')
          ? [-700, 700]
          : [-20, 20];
      const wide = range(low, high, 8000);
      const near = name.startsWith('log') ? range(0.5, 2, 2000) : range(-1, 1, 2000);
      const x = [...wide, ...near];
      const got = await apply(name, f64, lanes, x);
      const isWave = name === 'sin' || name === 'cos';
      x.forEach((v, i) => {
        const wanted = exact[name](v);
        const allowed = 1e-12 * (isWave ? Math.max(1e-3, Math.abs(wanted)) : Math.abs(wanted));
        assert.ok(Math.abs(got[i]! - wanted) <= allowed, `${name}(${v}) = ${got[i]}, not ${wanted}`);
      });
    });
  }

  test(`pow on f32x${lanes} and f64x${lanes}`, async () => {
    const a = range(0.01, 50, 4000).map(Math.fround);
    const b = range(-12, 12, 4000).map(Math.fround);
    for (const [t, allowed] of [
      [f32, 2 ** -23],
      [f64, 1e-12],
    ] as const) {
      const got = await apply('pow', t, lanes, a, b);
      a.forEach((v, i) => {
        const wanted = v ** b[i]!;
        assert.ok(
          Math.abs(got[i]! - wanted) <= allowed * wanted,
          `${v} ** ${b[i]} = ${got[i]}, not ${wanted}`,
        );
      });
    }
  });
}

test('edges: zero, infinities, NaN, denormals, whole powers', async () => {
  const { POSITIVE_INFINITY: inf, NaN: nan } = Number;
  const cases: readonly (readonly [Name, number, number])[] = [
    ['exp', -inf, 0],
    ['exp', inf, inf],
    ['exp', nan, nan],
    ['exp', 0, 1],
    ['exp', -200, 0],
    ['exp', 90, inf],
    ['exp2', 10, 1024],
    ['exp2', -1000, 0],
    ['exp2', 128, inf],
    ['log', 0, -inf],
    ['log', -0, -inf],
    ['log', -1, nan],
    ['log', -inf, nan],
    ['log', inf, inf],
    ['log', nan, nan],
    ['log', 1, 0],
    ['log2', 8, 3],
    ['log2', 2 ** -140, -140],
    ['sin', 0, 0],
    ['sin', inf, nan],
    ['cos', 0, 1],
    ['cos', nan, nan],
    ['tanh', inf, 1],
    ['tanh', -inf, -1],
    ['tanh', nan, nan],
    ['tanh', 0, 0],
  ];
  for (const t of [f32, f64]) {
    for (const lanes of [1, 4] as const) {
      for (const [name, x, wanted] of cases) {
        if (t === f64 && Number.isFinite(x) && Math.abs(x) > 80 && name.startsWith('exp')) continue;
        const [got] = await apply(name, t, lanes, [x, x, x, x]);
        assert.ok(Object.is(got, wanted) || got === wanted, `${name}(${x}) on ${t.name}x${lanes} = ${got}`);
      }
      const powers = [
        [2, 10],
        [3, 2],
        [-2, 3],
        [-2, 2],
        [-2, 0.5],
        [0, 0],
        [0, 2],
        [0, -1],
        [nan, 0],
        [1, inf],
        [-0, 3],
        [-0, -1],
        [inf, 2],
        [inf, -2],
        [-inf, 3],
        [-inf, 0.5],
        [2, inf],
        [0.5, inf],
        [2, -inf],
      ] as const;
      for (const [a, b] of powers) {
        const [got] = await apply('pow', t, lanes, [a, a, a, a], [b, b, b, b]);
        const wanted = a ** b;
        assert.ok(
          Object.is(got, wanted) || Math.abs(got! - wanted) <= 1e-12 * Math.abs(wanted),
          `${a} ** ${b} on ${t.name}x${lanes} = ${got}, not ${wanted}`,
        );
      }
    }
  }
});
