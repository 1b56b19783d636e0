/** Every scalar op on every dtype it takes, on one lane and on several, against its meaning in kernel/ir/ops.ts. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import {
  bf16,
  bool,
  DTYPES,
  type DType,
  f16,
  f32,
  f64,
  i8,
  i32,
  i64,
  isFloat,
  isInteger,
  u8,
  u32,
} from '../../src/core/dtype.js';
import {
  alu,
  block,
  bufferParam,
  cast,
  type Expr,
  int,
  type KernelIr,
  load,
  type Param,
  special,
  store,
} from '../../src/kernel/ir/ir.js';
import {
  convert,
  evaluate,
  isFunction,
  OPS,
  type OpRecord,
  type Scalar,
  type ScalarOp,
  wrap,
} from '../../src/kernel/ir/ops.js';
import { buffer, type Lanes } from '../../src/kernel/ir/types.js';
import { CpuDevice } from '../../src/runtime/cpu/device.js';
import { runKernel } from './wasm-harness.js';

const device = new CpuDevice();
after(() => device.close());

const FLOATS = [
  0,
  -0,
  1,
  -1,
  0.5,
  -0.5,
  1.5,
  2.5,
  -2.5,
  3,
  7,
  1e-3,
  100,
  -123.25,
  65504,
  1e-7,
  3.4e38,
  1e-40,
  1e300,
  Number.POSITIVE_INFINITY,
  Number.NEGATIVE_INFINITY,
  Number.NaN,
];
const INTEGERS = [
  0,
  1,
  2,
  3,
  5,
  7,
  31,
  32,
  33,
  100,
  127,
  128,
  200,
  255,
  256,
  65535,
  2 ** 31 - 1,
  2 ** 31,
  2 ** 32 - 1,
  -1,
  -2,
  -7,
  -100,
  -(2 ** 31),
];

/** A reproducible stream of numbers in [0, 1). */
function randomStream(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) | 0;
    return (state >>> 0) / 2 ** 32;
  };
}

function edgeValues(t: DType): Scalar[] {
  if (t === bool) return [true, false];
  if (isFloat(t)) return FLOATS.map((v) => wrap(t, v));
  if (t === i64)
    return [...INTEGERS.map(BigInt), 2n ** 63n - 1n, -(2n ** 63n), 2n ** 40n + 3n, -(2n ** 35n) - 1n];
  return INTEGERS.map((v) => wrap(t, v));
}

function randomValue(t: DType, random: () => number): Scalar {
  if (t === bool) return random() < 0.5;
  const v = (random() - 0.5) * 2 ** (random() * 20);
  if (t === i64) return BigInt.asIntN(64, BigInt(Math.trunc(v * 2 ** 30)) * 977n);
  return isFloat(t) ? wrap(t, v) : wrap(t, Math.trunc(v * 2 ** 10));
}

/** All pairs of edge values, then random ones; a multiple of four rows. */
function operandsFor(t: DType, arity: number): Scalar[][] {
  const edges = edgeValues(t);
  const random = randomStream(t.bytes * 7 + arity);
  const rows: Scalar[][] = [];
  for (const a of edges)
    for (const b of arity > 1 ? edges : [edges[0]!]) rows.push([a, b, randomValue(t, random)]);
  for (let i = 0; i < 400 || rows.length % 4 !== 0; i++)
    rows.push([0, 0, 0].map(() => randomValue(t, random)));
  return rows;
}

const takes = (record: OpRecord, t: DType): boolean => {
  switch (record.operands) {
    case 'number':
      return t !== bool;
    case 'float':
      return isFloat(t);
    case 'f32':
    case 'i32':
      return t.name === record.operands;
    case 'integer':
      return isInteger(t);
    case 'bits':
      return isInteger(t) || t === bool;
    case 'bool':
      return t === bool;
    case 'any':
      return true;
  }
};

function opKernel(
  name: string,
  from: DType,
  to: DType,
  arity: number,
  lanes: Lanes,
  build: (operands: Expr[]) => Expr,
): KernelIr {
  const inputs: Param[] = ['a', 'b', 'c'].slice(0, arity).map((n) => ({ name: n, schema: buffer(from) }));
  const out: Param = { name: 'out', schema: buffer(to) };
  const i = alu('mul', [special('blockIdx.x'), int(lanes)]);
  const value = build(inputs.map((p) => load(bufferParam(p), [i], lanes)));
  return { name, params: [...inputs, out], arrays: [], body: block([store(bufferParam(out), value, [i])]) };
}

const numeric = (v: Scalar): number => Number(v);

/** Whether `got` is what the meaning says; floats that were computed otherwise may differ by `ulps`. */
function agrees(t: DType, got: Scalar, wanted: Scalar, relative: number): boolean {
  if (!isFloat(t)) return got === wanted;
  const a = numeric(got);
  const b = numeric(wanted);
  if (Number.isNaN(b) || Number.isNaN(a)) return Number.isNaN(a) && Number.isNaN(b);
  return a === b || Math.abs(a - b) <= relative * Math.abs(b);
}

/** How far from the meaning an op may be, in units of the dtype's epsilon. */
function looseness(name: ScalarOp, t: DType): number {
  if (!isFunction(name)) return name === 'fma' ? 1 : 0;
  const { cpu, sim } = OPS[name].rounding;
  return t.bytes === 2 ? 1 : cpu[t.name as 'f32' | 'f64'] + sim.f64;
}
const EPSILON: Readonly<Record<string, number>> = {
  f32: 2 ** -23,
  f64: 2 ** -52,
  f16: 2 ** -10,
  bf16: 2 ** -7,
};

for (const [name, record] of Object.entries(OPS) as [ScalarOp, OpRecord][]) {
  test(`${name} means the same as in kernel/ir/ops.ts`, async () => {
    for (const t of Object.values(DTYPES)) {
      if (!takes(record, t)) continue;
      const out = record.result === 'bool' ? bool : t;
      const drawn = operandsFor(t, record.arity);
      const rows =
        name === 'dp4aPositive' ? drawn.map(([a, b, c]) => [a!, Number(b) & 0x7f7f7f7f, c!]) : drawn;
      const columns = [0, 1, 2].slice(0, record.arity).map((c) => rows.map((r) => r[c]!));
      for (const lanes of [1, 2, 4] as const) {
        const ir = opKernel(`${name}_${t.name}x${lanes}`, t, out, record.arity, lanes, (o) => alu(name, o));
        const blank = rows.map((): Scalar => (out === i64 ? 0n : 0));
        const results = await runKernel(device, ir, [rows.length / lanes, 1, 1], [...columns, blank]);
        const got = results[record.arity]!;
        rows.forEach((row, i) => {
          const [a, b, c] = row as [Scalar, Scalar, Scalar];
          const wanted = evaluate(name, t, a, b, c);
          // Cancellation in a sum rounded twice is no fault of fma.
          const size =
            name === 'fma'
              ? (Math.abs(numeric(a) * numeric(b)) + Math.abs(numeric(c))) /
                Math.max(Number.MIN_VALUE, Math.abs(numeric(wanted)))
              : 1;
          const loose = looseness(name, t);
          const relative = loose * (EPSILON[t.name] ?? 0) * Math.max(1, size);
          const denormal =
            loose > 0 && Math.abs(numeric(wanted) - numeric(got[i]!)) <= 2 ** -147 && t.name !== 'f64';
          assert.ok(
            denormal || agrees(out, got[i]!, wanted, relative),
            `${ir.name}(${row.slice(0, record.arity).join(', ')}) = ${got[i]}, not ${wanted}`,
          );
        });
      }
    }
  });
}

test('casts between all dtypes, on one lane and four', async () => {
  for (const from of Object.values(DTYPES)) {
    const values = edgeValues(from);
    while (values.length % 4 !== 0) values.push(values[0]!);
    for (const to of Object.values(DTYPES)) {
      if (from === to) continue;
      for (const lanes of [1, 2, 4] as const) {
        const ir = opKernel(`cast_${from.name}_${to.name}x${lanes}`, from, to, 1, lanes, ([a]) =>
          cast(to, a!),
        );
        const blank = values.map((): Scalar => (to === i64 ? 0n : 0));
        const [, got] = await runKernel(device, ir, [values.length / lanes, 1, 1], [values, blank]);
        values.forEach((v, i) => {
          const wanted = convert(from, to, v);
          assert.ok(agrees(to, got![i]!, wanted, 0), `${ir.name}(${v}) = ${got![i]}, not ${wanted}`);
        });
      }
    }
  }
});

test('a shift of all lanes by one count', async () => {
  for (const t of [i32, u32, i8, u8]) {
    const values = edgeValues(t).slice(0, 24);
    for (const name of ['shl', 'shr'] as const) {
      for (const count of [0, 1, 7, 31, 33]) {
        const { constant, splat } = await import('../../src/kernel/ir/ir.js');
        const ir = opKernel(`${name}${count}`, t, t, 1, 4, ([a]) =>
          alu(name, [a!, splat(constant(t, count), 4)]),
        );
        const [, got] = await runKernel(device, ir, [values.length / 4, 1, 1], [values, values.map(() => 0)]);
        values.forEach((v, i) => {
          assert.equal(got![i], evaluate(name, t, v, count), `${t.name} ${v} ${name} ${count}`);
        });
      }
    }
  }
});

test('16-bit floats survive all their bit patterns', async () => {
  for (const t of [f16, bf16]) {
    const { fromBf16, fromF16 } = await import('../../src/core/float16.js');
    const decode = t === f16 ? fromF16 : fromBf16;
    const all = Array.from({ length: 65536 }, (_, bits) => decode(bits));
    for (const lanes of [1, 4] as const) {
      const up = opKernel('up', t, f32, 1, lanes, ([a]) => cast(f32, a!));
      const [, got] = await runKernel(device, up, [65536 / lanes, 1, 1], [all, all.map(() => 0)]);
      all.forEach((v, i) => {
        assert.ok(agrees(f32, got![i]!, v, 0), `${t.name} bits ${i}: ${got![i]}, not ${v}`);
      });
      const between = all.map((v, i) => wrap(f32, (v + decode(i ^ 1)) / 2));
      const down = opKernel('down', f32, t, 1, lanes, ([a]) => cast(t, a!));
      const [, back] = await runKernel(device, down, [65536 / lanes, 1, 1], [between, all.map(() => 0)]);
      between.forEach((v, i) => {
        assert.ok(agrees(t, back![i]!, wrap(t, v), 0), `${t.name} of ${v}: ${back![i]}, not ${wrap(t, v)}`);
      });
    }
  }
});

test('f64 arithmetic keeps all its bits', async () => {
  const rows = operandsFor(f64, 2);
  const ir = opKernel('f64', f64, f64, 2, 4, ([a, b]) => alu('div', [alu('sqrt', [alu('abs', [a!])]), b!]));
  const columns = [0, 1].map((c) => rows.map((r) => r[c]!));
  const [, , got] = await runKernel(device, ir, [rows.length / 4, 1, 1], [...columns, rows.map(() => 0)]);
  rows.forEach(([a, b], i) => {
    assert.ok(agrees(f64, got![i]!, Math.sqrt(Math.abs(a as number)) / (b as number), 0));
  });
});
