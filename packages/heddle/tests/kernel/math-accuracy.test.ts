/**
 * Every function over its whole range, on every device: errors within the bounds that kernel/ir/ops.ts states, and no
 * bound far from what is needed; special values exactly. f32 against f64, f64 against numbers of 30 digits.
 */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { bf16, type DType, f16, f32, f64 } from '../../src/core/dtype.js';
import { fromBf16, fromF16 } from '../../src/core/float16.js';
import * as b from '../../src/graph/build.js';
import * as H from '../../src/index.js';
import { Tensor, tensor, useDevice } from '../../src/index.js';
import {
  alu,
  block,
  bufferParam,
  type Expr,
  type KernelIr,
  load,
  type Param,
  special,
  store,
} from '../../src/kernel/ir/ir.js';
import { type Accuracy, evaluate, MATH_FUNCTIONS, OPS, type ScalarOp } from '../../src/kernel/ir/ops.js';
import { buffer } from '../../src/kernel/ir/types.js';
import { normcdf } from '../../src/kernel/math/numbers.js';
import { CpuDevice } from '../../src/runtime/cpu/device.js';
import { DEVICES } from '../cases/case-runner.js';
import { goldenFunctions } from '../golden/golden.js';
import { root } from '../package/workspace.js';
import { runKernel } from '../render/wasm-harness.js';
import { ACTIVATIONS, type Activation } from './accuracy-table.js';

const lanesOfCpu = new CpuDevice();
after(() => lanesOfCpu.close());

type Columns = readonly (readonly number[])[];
type Compute = (t: DType, columns: Columns) => Promise<readonly number[]>;

const onTensors =
  (device: string, f: (...x: Tensor[]) => Tensor): Compute =>
  async (t, columns) => {
    useDevice(device);
    const inputs = columns.map((c) => tensor(Float64Array.from(c)).cast(t) as Tensor);
    return Array.from(await f(...inputs).data(), Number);
  };

/** One element at a time: without fused multiply-add. */
const oneLane =
  (op: ScalarOp): Compute =>
  async (t, columns) => {
    const inputs = columns.map((_, i): Param => ({ name: `in${i}`, schema: buffer(t) }));
    const out: Param = { name: 'out', schema: buffer(t) };
    const at = special('blockIdx.x');
    const value = alu(
      op,
      inputs.map((p): Expr => load(bufferParam(p), [at])),
    );
    const body = block([store(bufferParam(out), value, [at])]);
    const ir: KernelIr = { name: `one_${op}`, params: [...inputs, out], arrays: [], body };
    const n = columns[0]!.length;
    const buffers = [...columns, new Array<number>(n).fill(0)];
    return (await runKernel(lanesOfCpu, ir, [n, 1, 1], buffers))[columns.length] as number[];
  };

const { POSITIVE_INFINITY: inf, NEGATIVE_INFINITY: less, NaN: nan } = Number;
const FRACTION = { f32: 23, f64: 52, f16: 10, bf16: 7 } as Readonly<Record<string, number>>;
const LEAST = { f32: -126, f64: -1022, f16: -14, bf16: -126 } as Readonly<Record<string, number>>;
const LARGEST = {
  f32: 3.4028234663852886e38,
  f64: Number.MAX_VALUE,
  f16: 65504,
  bf16: 3.3895313892515355e38,
};

const view = new DataView(new ArrayBuffer(8));
/** ⌊log₂ |v|⌋ of a normal number. */
function exponentOf(v: number): number {
  view.setFloat64(0, v);
  return ((view.getUint16(0) >> 4) & 0x7ff) - 1023;
}

/** The distance of neighbouring numbers at v. */
function ulp(t: DType, v: number): number {
  const at = Math.min(Math.abs(v), LARGEST[t.name as 'f32']);
  return 2 ** (Math.max(exponentOf(at), LEAST[t.name]!) - FRACTION[t.name]!);
}

/** The error in units of the last place; infinite where NaN, infinity or the sign of zero is not what it should be. */
function errorOf(t: DType, got: number, high: number, low: number): number {
  if (Number.isNaN(high) || Number.isNaN(got)) return Number.isNaN(high) && Number.isNaN(got) ? 0 : inf;
  if (got === high) return Object.is(got, high) ? Math.abs(low) / ulp(t, high) : inf;
  // Infinity stands for the number after the largest, which is what rounds to it.
  const largest = LARGEST[t.name as 'f32'];
  const end = largest + ulp(t, largest);
  const [a, b] = [got, high].map((v) => Math.max(-end, Math.min(end, v))) as [number, number];
  return Math.abs(a - b - low) / ulp(t, high);
}

interface Row {
  readonly x: readonly number[];
  readonly high: number;
  readonly low: number;
}

/** The largest error, which must be within `bound`. */
async function largestError(
  compute: Compute,
  t: DType,
  rows: readonly Row[],
  bound: number,
  what: string,
): Promise<number> {
  const columns = rows[0]!.x.map((_, i) => rows.map((r) => r.x[i]!));
  const got = await compute(t, columns);
  let worst = 0;
  rows.forEach(({ x, high, low }, i) => {
    const error = errorOf(t, got[i]!, high, low);
    if (!(error <= bound))
      assert.fail(
        `${what} of ${t.name}(${x}) is ${got[i]}, not ${high}: ${error.toFixed(2)} ulp, stated ${bound}`,
      );
    worst = Math.max(worst, error);
  });
  return worst;
}

const bits = new Uint32Array(1);
const float = new Float32Array(bits.buffer);
const fromBits = (v: number): number => {
  bits[0] = v;
  return float[0]!;
};

/** f32 numbers: evenly among all bit patterns, so logarithmically, and the neighbours of where something changes. */
const SWEEP: readonly number[] = (() => {
  const sweep: number[] = [];
  for (let v = 0; v < 2 ** 32; v += 2 ** 20 - 3) sweep.push(fromBits(v));
  // Where most functions change: 2^-12 to 2^8
  for (let v = 0x39800000; v < 0x43800000; v += 90_001) sweep.push(fromBits(v), -fromBits(v));
  const critical = [
    ...[0.5, Math.SQRT1_2, 1, Math.SQRT2, 2, 14.5, 20, 87.3365, 88.72284, 103.9721, 104, 127, 128, 149, 150],
    ...[12_800, 12_867, 1_600_000, 1e7, 1e10, 1e22, 2 ** 127, 2 ** -126, 2 ** -149, 3.4028234663852886e38],
    ...[1, 2, 3, 5, 22, 355, 4001, 8191].map((k) => (k * Math.PI) / 2),
  ];
  for (const c of critical) {
    float[0] = c;
    const at = bits[0]!;
    for (const v of [at - 1, at, at + 1]) sweep.push(fromBits(v), -fromBits(v));
  }
  return sweep.filter((v) => !Number.isNaN(v)).map((v) => v);
})();

/** Pairs for pow: bases of all sizes with results of all sizes. */
const POWERS: readonly Row[] = Array.from({ length: 2000 }, (_, i): Row => {
  const a = i % 2 ? fromBits((i * 1_073_741) % 2 ** 31) : fromBits(0x3f000000 + i * 9973);
  const exponent = ((i * 7919) % 290) - 155 + i / 2000;
  const base = a > 0 && a < inf && a !== 1 ? a : 1.5;
  const power = Math.fround(exponent / Math.log2(base));
  return { x: [base, power], high: OPS.pow.eval(base, power, 0) as number, low: 0 };
});

/** Points in all directions, near and far, for atan2. */
const POINTS: readonly Row[] = Array.from({ length: 2000 }, (_, i): Row => {
  const turn = ((i * 7919) % 2000) / 1000 - 1 + i * 1e-9;
  const size = i % 2 ? 1 : 2 ** ((i % 90) - 45);
  const [y, x] = [Math.fround(size * Math.sin(Math.PI * turn)), Math.fround(size * Math.cos(Math.PI * turn))];
  return { x: [y, x], high: Math.atan2(y, x), low: 0 };
});
/** Arguments of the functions of two. */
const PAIRS: Readonly<Partial<Record<ScalarOp, readonly Row[]>>> = { pow: POWERS, atan2: POINTS };

/** All numbers of the 16-bit formats, but in the simulator, where a function is V8's, every 7th only. */
const halvesOn = (device: string): (readonly [DType, readonly number[]])[] =>
  [f16, bf16].map((t) => {
    const step = device === 'sim' ? 7 : 1;
    const bits = Array.from({ length: Math.ceil(2 ** 16 / step) }, (_, i) => i * step);
    return [t, bits.map(t === f16 ? fromF16 : fromBf16).filter((v) => !Number.isNaN(v))];
  });

/** Functions of tensors whose numbers in the source would be others in a 16-bit format. */
const WITH_NUMBERS: Readonly<Record<string, Pick<Activation, 'run' | 'exact'>>> = {
  leakyRelu: { run: (x) => H.leakyRelu(x), exact: (x) => (x > 0 ? x : 0.01 * x) },
  softplusOfTenths: {
    run: (x) => H.softplus(x, { beta: 0.1, threshold: 2 }),
    exact: (x) => (x > 20 ? x : Math.max(x, 0) + 10 * Math.log1p(Math.exp(-Math.abs(x) / 10))),
  },
};

const FUNCTIONS = MATH_FUNCTIONS;
const golden = goldenFunctions();

for (const device of DEVICES) {
  const halves = halvesOn(device);
  for (const name of FUNCTIONS) {
    const { rounding, eval: exact } = OPS[name];
    const compute = onTensors(device, (...x) => new Tensor(b.map(name, ...x.map((t) => t.node))));
    const ways = device === 'cpu' ? [compute, oneLane(name)] : [compute];
    const bounds = { f32: 0.51, f16: 0.51, bf16: 0.51, ...rounding[device as keyof Accuracy] };
    const rows = PAIRS[name] ?? SWEEP.map((x): Row => ({ x: [x], high: exact(x, 0, 0) as number, low: 0 }));

    test(`${device}: ${name} of f32 is within ${bounds.f32} ulp`, async () => {
      let worst = 0;
      for (const way of ways) worst = Math.max(worst, await largestError(way, f32, rows, bounds.f32, name));
      if (device !== 'cuda') assert.ok(worst >= bounds.f32 / 2.5, `${bounds.f32} stated, ${worst} needed`);
    });

    if (OPS[name].operands === 'f32') continue;

    test(`${device}: ${name} of 16-bit floats is within 0.51 ulp`, async () => {
      for (const [t, all] of halves) {
        const half = (v: number): number => (evaluate('abs', t, Math.abs(v)) as number) * Math.sign(v);
        const inputs = PAIRS[name]?.map(({ x }) => x.map(half)) ?? all.map((v) => [v]);
        const of = inputs.map((x): Row => ({ x, high: exact(x[0]!, x[1] ?? 0, 0) as number, low: 0 }));
        await largestError(compute, t, of, 0.51, name);
      }
    });

    test(`${device}: ${name} of f64 is within ${bounds.f64} ulp`, async () => {
      let worst = 0;
      for (const way of ways)
        worst = Math.max(worst, await largestError(way, f64, golden.get(name)!, bounds.f64, name));
      if (device !== 'cuda') assert.ok(worst >= bounds.f64 / 2.5, `${bounds.f64} stated, ${worst} needed`);
    });
  }

  for (const [name, { run, exact, bound }] of Object.entries(ACTIVATIONS) as [string, Activation][]) {
    test(`${device}: ${name} is within ${bound.f32} ulp of f32, ${bound.f64} of f64`, async () => {
      const compute = onTensors(device, run);
      const rows = SWEEP.map((x): Row => ({ x: [x], high: exact(x), low: 0 }));
      const worst = await largestError(compute, f32, rows, bound.f32, name);
      if (device === 'cpu') assert.ok(worst >= bound.f32 / 4, `${bound.f32} stated, ${worst} needed`);
      await largestError(compute, f64, golden.get(name)!, bound.f64, name);
    });
  }

  for (const [name, { run, exact }] of Object.entries({ ...ACTIVATIONS, ...WITH_NUMBERS }))
    test(`${device}: ${name} of 16-bit floats is within 0.51 ulp`, async () => {
      for (const [t, all] of halves) {
        const of = all.map((v): Row => ({ x: [v], high: exact(v), low: 0 }));
        await largestError(onTensors(device, run), t, of, 0.51, name);
      }
    });
}

for (const device of DEVICES)
  test(`${device}: the derivative of gelu of 16-bit floats is rounded once, after errors of 2^-17 of its terms`, async () => {
    useDevice(device);
    for (const [t, all] of halvesOn(device)) {
      const finite = all.filter((v) => Math.abs(v) < inf);
      const x = tensor(Float64Array.from(finite), { dtype: t, requiresGrad: true });
      H.gelu(x).sum().backward();
      const got = Array.from(await x.grad!.data(), Number);
      finite.forEach((v, i) => {
        const terms = [normcdf(v), v * Math.exp(-0.5 * v * v) * Math.sqrt(0.5 / Math.PI)] as const;
        const exact = terms[0] + terms[1];
        const bound = 0.5 * ulp(t, exact) + 2 ** -17 * (terms[0] + Math.abs(terms[1]));
        assert.ok(Math.abs(got[i]! - exact) <= bound, `${t.name}(${v}): ${got[i]}, not ${exact}`);
      });
    }
  });

/** Not special to IEEE 754: exact on the CPU and in the simulator, while CUDA's log2 of f64 may be off by its ulp. */
const POWERS_OF_2: Special = [
  [8, 3],
  [2 ** -140, -140],
  [2 ** 127, 127],
];

test('docs/reference/accuracy.md states these bounds', () => {
  const table = (head: string, rows: readonly string[]): string =>
    [head, head.replace(/[^|]+/g, '---'), ...rows].map((row) => `| ${row} |\n`).join('');
  const functions = FUNCTIONS.map((name) => {
    const { operands, rounding } = OPS[name];
    const { cpu, sim, cuda } = rounding;
    const bounds =
      operands === 'f32'
        ? [cpu.f32, '–', '–', cuda.f32, '–']
        : [cpu.f32, cpu.f64, sim.f64, cuda.f32, cuda.f64];
    return [`\`${name}\``, ...bounds].join(' | ');
  });
  const composed = Object.entries(ACTIVATIONS).map(
    ([name, { bound }]) => `\`${name}\` | ${bound.f32} | ${bound.f64}`,
  );
  const path = join(root, 'docs/reference/accuracy.md');
  const page = readFileSync(path, 'utf8');
  const tables = [
    table('op | CPU, f32 | CPU, f64 | simulator, f64 | CUDA, f32 | CUDA, f64', functions),
    table('function | f32 | f64', composed),
  ];
  const wanted = page.replace(/(\| [^\n]*\n)+/g, (old) => tables.shift() ?? old);
  if (process.env.UPDATE_SNAPSHOTS) writeFileSync(path, wanted);
  else assert.equal(page, wanted, 'run with UPDATE_SNAPSHOTS=1 and read the diff');
});

/** f(x) = x where x² is too small to count. */
const SLOPE_1: readonly ScalarOp[] = ['expm1', 'log1p', 'sin', 'tanh'];
const TINY = { f32: 2 ** -149, f64: 2 ** -1074 } as const;
type Special = readonly (readonly [...x: number[], wanted: number])[];
const odd: Special = [
  [0, 0],
  [-0, -0],
  [nan, nan],
];

/** What IEEE 754 (9.2.1) and C say, of numbers that both formats have. */
const SPECIAL: Readonly<Partial<Record<ScalarOp, Special>>> = {
  exp: [
    [0, 1],
    [-0, 1],
    [inf, inf],
    [less, 0],
    [nan, nan],
    [1e30, inf],
    [-1e30, 0],
  ],
  exp2: [
    [0, 1],
    [-0, 1],
    [10, 1024],
    [-126, 2 ** -126],
    [-140, 2 ** -140],
    [127, 2 ** 127],
    [inf, inf],
    [less, 0],
    [nan, nan],
    [1e30, inf],
    [-1e30, 0],
  ],
  exp2Normal: [
    [-0, 1],
    [10, 1024],
    [-126, 2 ** -126],
    [-126.5, 0],
    [-140, 0],
    [inf, inf],
    [less, 0],
    [nan, nan],
  ],
  expm1: [...odd, [inf, inf], [less, -1], [1e30, inf], [-1e30, -1]],
  log: [
    [1, 0],
    [0, less],
    [-0, less],
    [inf, inf],
    [-1, nan],
    [less, nan],
    [nan, nan],
  ],
  log2: [
    [1, 0],
    [0, less],
    [-0, less],
    [inf, inf],
    [-1, nan],
    [less, nan],
    [nan, nan],
  ],
  log1p: [...odd, [-1, less], [-1.5, nan], [inf, inf], [less, nan]],
  sin: [...odd, [inf, nan], [less, nan]],
  cos: [
    [0, 1],
    [-0, 1],
    [inf, nan],
    [less, nan],
    [nan, nan],
  ],
  tanh: [...odd, [inf, 1], [less, -1], [1e30, 1], [-1e30, -1]],
  erf: [...odd, [inf, 1], [less, -1], [1e30, 1], [-1e30, -1]],
  normcdf: [
    [inf, 1],
    [less, 0],
    [1e30, 1],
    [-1e30, 0],
    [nan, nan],
  ],
  atan2: [
    ...[0, -0].flatMap(
      (y): Special => [
        [y, 1, y],
        [y, 0, y],
        [y, inf, y],
      ],
    ),
    [2, inf, 0],
    [-2, inf, -0],
    [nan, 1, nan],
    [1, nan, nan],
    [nan, nan, nan],
    [inf, nan, nan],
  ],
  sqrt: [...odd, [4, 2], [inf, inf], [-1, nan], [2 ** -140, 2 ** -70]],
  floor: [...odd, [-0.3, -1], [0.3, 0], [inf, inf], [less, less], [-2.5, -3]],
  ceil: [...odd, [-0.3, -0], [0.3, 1], [inf, inf], [less, less], [-2.5, -2]],
  trunc: [...odd, [-0.3, -0], [0.3, 0], [inf, inf], [less, less], [-2.5, -2]],
  rint: [
    ...odd,
    [-0.3, -0],
    [0.5, 0],
    [-0.5, -0],
    [1.5, 2],
    [2.5, 2],
    [-2.5, -2],
    [inf, inf],
    [8388609, 8388609],
  ],
  neg: [
    [0, -0],
    [-0, 0],
    [inf, less],
    [nan, nan],
  ],
  abs: [
    [-0, 0],
    [less, inf],
    [nan, nan],
  ],
  min: [
    [0, -0, -0],
    [-0, 0, -0],
    [nan, 1, nan],
    [1, nan, nan],
    [less, nan, nan],
    [less, inf, less],
  ],
  max: [
    [0, -0, 0],
    [-0, 0, 0],
    [nan, 1, nan],
    [1, nan, nan],
    [inf, nan, nan],
    [less, inf, inf],
  ],
  mod: [
    [-7, 3, -1],
    [7, -3, 1],
    [-6, 3, -0],
    [0, 3, 0],
    [-0, 3, -0],
    [5, 0, nan],
    [inf, 3, nan],
    [5, inf, 5],
    [-5, less, -5],
    [nan, 3, nan],
    [3, nan, nan],
    [2 ** 100, 3, 1],
  ],
  pow: [
    [nan, 0, 1],
    [nan, -0, 1],
    [1, nan, 1],
    [1, inf, 1],
    [1, less, 1],
    [-1, inf, 1],
    [-1, less, 1],
    [-1, nan, nan],
    [nan, 1, nan],
    [2, nan, nan],
    [0, 3, 0],
    [-0, 3, -0],
    [-0, 2, 0],
    [0, -1, inf],
    [-0, -1, less],
    [-0, -2, inf],
    [-0, 0.5, 0],
    [0.5, inf, 0],
    [0.5, less, inf],
    [2, inf, inf],
    [2, less, 0],
    [inf, 2, inf],
    [inf, -2, 0],
    [less, 3, less],
    [less, 2, inf],
    [less, -3, -0],
    [less, -2, 0],
    [less, 0.5, inf],
    [0, inf, 0],
    [0, less, inf],
    [-2, 3, -8],
    [-2, 2, 4],
    [-2, 0.5, nan],
    [-1, 2 ** 60, 1],
    [2, -140, 2 ** -140],
  ],
};

for (const device of DEVICES) {
  test(`${device}: special values are what IEEE 754 says`, async () => {
    for (const [name, special] of Object.entries(SPECIAL) as [ScalarOp, Special][]) {
      const rows = name === 'log2' && device !== 'cuda' ? [...special, ...POWERS_OF_2] : special;
      const compute = onTensors(device, (...x) => new Tensor(b.map(name, ...x.map((t) => t.node))));
      for (const t of OPS[name].operands === 'f32' ? [f32] : [f32, f64]) {
        const tiny = TINY[t.name as 'f32'];
        const all: Special = SLOPE_1.includes(name) ? [...rows, [tiny, tiny], [-tiny, -tiny]] : rows;
        const columns = all[0]!.slice(0, -1).map((_, i) => all.map((r) => r[i]!));
        for (const way of device === 'cpu' ? [compute, oneLane(name)] : [compute]) {
          const got = await way(t, columns);
          all.forEach((r, i) => {
            assert.ok(
              Object.is(got[i], r.at(-1)),
              `${t.name}: ${name}(${r.slice(0, -1)}) is ${got[i]}, not ${r.at(-1)}`,
            );
          });
        }
      }
    }
  });
}
