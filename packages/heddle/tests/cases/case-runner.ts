/** Runs the case list on a device: forward, gradients, and the ways a value may arrive or be computed. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type DType, f32, f64, i64, isFloat } from '../../src/core/dtype.js';
import { fromBf16, fromF16, toBf16, toF16 } from '../../src/core/float16.js';
import { topological } from '../../src/core/node.js';
import { withoutKernels } from '../../src/engine/realize.js';
import {
  type AnyTensor,
  gradcheck,
  jit,
  realize,
  setPrecision,
  type Tensor,
  tensor,
  useDevice,
  zeros,
} from '../../src/index.js';
import { listDevices } from '../../src/runtime/registry.js';
import { assertClose } from '../close.js';
import { count, type NdArray, ravel, unravel } from '../ndarray.js';
import { type Case, type Input, valuesFor } from './case.js';
import { LAYERS } from './layers.js';
import { LOSSES } from './losses.js';
import { OPS } from './ops.js';

/** Devices to run on: the one that HEDDLE_DEVICE names, else all that this machine has. */
export const DEVICES: readonly string[] = process.env.HEDDLE_DEVICE
  ? [process.env.HEDDLE_DEVICE]
  : ['cpu', 'sim', ...(cudaReason() === undefined ? ['cuda'] : [])];

/** Why there is no CUDA here; undefined if there is. */
export function cudaReason(): string | undefined {
  const info = listDevices().find((d) => d.name === 'cuda')!;
  return info.available ? undefined : info.reason;
}

// The cases' tolerances are those of f32; tests of the kernels cover what is computed less exactly.
setPrecision({ matmul: 'f32', conv: 'f32' });

const CASES: readonly Case[] = [...OPS, ...LAYERS, ...LOSSES];

const seeds = new Map(CASES.map((c, i) => [c, i]));
const inputsOf = (c: Case): NdArray[] => c.inputs.map((input, i) => valuesFor(input, seeds.get(c)! * 8 + i));

/** What an input's dtype makes of its values, so that the reference starts from the same. */
function rounded({ data, shape }: NdArray, { dtype = f32 }: Input): NdArray {
  const round =
    dtype.name === 'f16'
      ? (v: number) => fromF16(toF16(v))
      : dtype.name === 'bf16'
        ? (v: number) => fromBf16(toBf16(v))
        : dtype === f32
          ? Math.fround
          : (v: number) => v;
  return { shape, data: data.map(round) };
}

const toTensor = ({ data, shape }: NdArray, { dtype = f32 }: Input): Tensor =>
  tensor(Float64Array.from(data), { shape, dtype }) as Tensor;

/** The same values in every second place of a larger memory, with its dimensions reversed and walked backwards. */
function asView({ data, shape }: NdArray, { dtype = f32 }: Input): Tensor {
  if (shape.length === 0) return tensor([7, data[0]!], { shape: [2], dtype }).at(1) as Tensor;
  const wide = shape.map((d) => 2 * d + 1).reverse();
  const values = new Float64Array(count(wide)).fill(1);
  data.forEach((v, i) => {
    const place = unravel(i, shape).map((k, d) => 2 * (shape[d]! - k) - 1);
    values[ravel(place.reverse(), wide)] = v;
  });
  return tensor(values, { shape: wide, dtype })
    .at(...wide.map((d) => (d === 1 ? '0:0' : `${d - 2}::-2`)))
    .permute(shape.map((_, d) => shape.length - 1 - d)) as Tensor;
}

/** Compares a result with the reference: exactly for integers and bools, else within the case's tolerance. */
async function compare(c: Case, result: AnyTensor, expected: NdArray, how: string): Promise<void> {
  assert.deepEqual(result.shape, expected.shape, `${how}: shape`);
  const data = await result.data();
  const exact = !isFloat(result.dtype);
  const { relative = 1e-5, absolute = 1e-6 } = c;
  for (const [i, e] of expected.data.entries()) {
    const got = Number(data[i]);
    if (exact) {
      const wanted =
        result.dtype === i64 ? e + 0 : Number(new (data.constructor as Uint8ArrayConstructor)([e])[0]);
      assert.equal(got, wanted, `${how}: element ${i}`);
      continue;
    }
    const close = Object.is(got, e) || got === e || Math.abs(got - e) <= absolute + relative * Math.abs(e);
    assert.ok(close, `${how}: element ${i} is ${got}, expected ${e}`);
  }
}

type Make = (c: Case, values: readonly NdArray[]) => Tensor[];
const plainly: Make = (c, values) => values.map((v, i) => toTensor(v, c.inputs[i]!));
const asViews: Make = (c, values) => values.map((v, i) => asView(v, c.inputs[i]!));

/** A case with its inputs' values. */
interface Ready {
  readonly c: Case;
  readonly values: readonly NdArray[];
  readonly expected: NdArray;
}

/** Whether a graph has an op that a hand-written kernel may replace. */
const hasFused = (t: AnyTensor): boolean => topological([t.node]).some((n) => n.op === 'call');

/** Ways to the same value: each finds what the others hide. All but the first put an op's cases into one program. */
const WAYS: Readonly<Record<string, (cases: readonly Ready[]) => (AnyTensor | undefined)[]>> = {
  'as it is': (cases) => cases.map(({ c, values }) => c.run(...plainly(c, values))),
  'of views': (cases) => {
    const results = cases.map(({ c, values }) => c.run(...asViews(c, values)));
    realize(...results);
    return results;
  },
  'by compositions only': (cases) => {
    const results = cases.map(({ c, values }) => c.run(...plainly(c, values)));
    const fused = results.filter(hasFused);
    withoutKernels(() => realize(...fused));
    return results.map((r) => (fused.includes(r) ? r : undefined));
  },
  'in jit': (cases) => {
    const all = cases.map(({ c, values }) => plainly(c, values));
    const step = jit((given: Tensor[][]) => given.map((inputs, i) => cases[i]!.c.run(...inputs)));
    const results = step(all);
    step.dispose();
    return results;
  },
};

const byOp = (): Map<string, Case[]> => {
  const groups = new Map<string, Case[]>();
  for (const c of CASES) groups.set(c.op, [...(groups.get(c.op) ?? []), c]);
  return groups;
};

const describe = (c: Case): string =>
  c.inputs.map((i) => `${i.dtype?.name ?? 'f32'}(${i.shape.join(',')})`).join(' ');

/** Counts what did not run, and says why. */
class Skips {
  readonly #reasons = new Map<string, number>();
  ran = 0;

  add(reason: string): void {
    this.#reasons.set(reason, (this.#reasons.get(reason) ?? 0) + 1);
  }

  /** One line per reason, last in the output. */
  report(what: string): void {
    test(`${what}: what ran and what did not`, (t) => {
      t.diagnostic(`${this.ran} ran`);
      for (const [reason, n] of this.#reasons) t.diagnostic(`${n} skipped: ${reason}`);
      assert.ok(this.ran > 0);
    });
  }
}

/** Says aloud what the lack of a GPU leaves out. */
export function reportMissing(what: string): void {
  const reason = cudaReason();
  if (reason === undefined) return;
  test(`cuda, ${what}`, { skip: `${CASES.length} cases not run: ${reason}` }, () => {});
}

/** Every case by every way against its reference. */
export function forwardTests(device: string): void {
  const skips = new Skips();
  for (const [op, cases] of byOp()) {
    test(`${device}: ${op}, ${cases.length} cases`, async () => {
      useDevice(device);
      const ready: Ready[] = [];
      for (const c of cases) {
        const reason = c.skip?.[device];
        if (reason) {
          skips.add(reason);
          continue;
        }
        const values = inputsOf(c);
        ready.push({ c, values, expected: c.reference(...values.map((v, i) => rounded(v, c.inputs[i]!))) });
      }
      for (const [way, run] of Object.entries(WAYS)) {
        // Only a GPU's kernels are chosen there; elsewhere it is what realizing all at once is.
        if (way === 'in jit' && !device.startsWith('cuda')) continue;
        for (const [i, result] of run(ready).entries()) {
          if (!result) continue;
          const { c, expected } = ready[i]!;
          await compare(c, result, expected, `${op} ${describe(c)} ${way}`);
          skips.ran++;
        }
      }
    });
  }
  skips.report(`${device}, forward`);
}

/** Why a case has no gradient check; undefined if it has one. */
function noGradient(c: Case): string | undefined {
  const dtypes = c.inputs.map((i) => i.dtype ?? f32);
  if (!dtypes.some(isFloat)) return 'no floats to differentiate';
  if (dtypes.some((t) => isFloat(t) && t !== f32)) return 'another dtype of a row that is checked';
  return c.gradient && 'skip' in c.gradient ? c.gradient.skip : undefined;
}

/** A different factor for every element of a result, so that none can stand for another. */
function weighted(result: AnyTensor): AnyTensor {
  const factors = Float64Array.from({ length: result.size }, (_, i) => 1 + 0.5 * Math.sin(3 * i + 1));
  return result.mul(tensor(factors, { shape: result.shape, dtype: result.dtype }));
}

/** The values of all, computed together. */
async function read(tensors: readonly AnyTensor[]): Promise<number[][]> {
  realize(...tensors);
  return Promise.all(tensors.map(async (t) => Array.from(await t.data(), Number)));
}

/** Gradients of the float inputs, in `dtype` on the current device; not computed yet. */
function gradientsOf(c: Case, values: readonly NdArray[], dtype: DType): AnyTensor[] {
  const inputs = values.map((v, i) =>
    isFloat(c.inputs[i]!.dtype ?? f32)
      ? (tensor(Float64Array.from(v.data), { shape: v.shape, dtype, requiresGrad: true }) as Tensor)
      : toTensor(v, c.inputs[i]!),
  );
  weighted(c.run(...inputs))
    .sum()
    .backward();
  return inputs.filter((t) => t.requiresGrad).map((t) => t.grad ?? zeros(t.shape, { dtype }));
}

/** Whether the result is of floats, so that it has a gradient. */
const isDifferentiable = (c: Case): boolean => isFloat(c.run(...plainly(c, inputsOf(c))).dtype);

/**
 * The gradient of every float input: in f64 on the CPU against central differences, and in f32, where the
 * hand-written kernels are, on every device against that.
 */
export function gradientTests(devices: readonly string[]): void {
  const skips = new Skips();
  for (const [op, cases] of byOp()) {
    const wanted = cases.filter((c) => {
      const reason = noGradient(c);
      if (reason) skips.add(reason);
      return !reason;
    });
    if (wanted.length === 0) continue;
    test(`gradient of ${op}, ${wanted.length} cases`, async () => {
      useDevice('cpu');
      const ready: { c: Case; what: string; values: readonly NdArray[]; exact: readonly number[][] }[] = [];
      for (const c of wanted) {
        if (!isDifferentiable(c)) {
          skips.add('the result is not of floats');
          continue;
        }
        const values = inputsOf(c);
        const inputs = plainly(c, values);
        const fn = (...given: Tensor[]): AnyTensor => {
          let next = 0;
          return weighted(c.run(...inputs.map((t) => (isFloat(t.dtype) ? given[next++]! : t))));
        };
        const tolerance = c.gradient && 'tolerance' in c.gradient ? c.gradient.tolerance : 1e-6;
        const what = `${op} ${describe(c)}`;
        const floats = inputs.filter((t) => isFloat(t.dtype));
        await assert.doesNotReject(gradcheck(fn, floats, { tolerance }), what);
        skips.ran++;
        // The program that gradcheck has compiled.
        ready.push({ c, what, values, exact: await read(gradientsOf(c, values, f64)) });
      }
      for (const device of devices) {
        useDevice(device);
        const here = ready.filter(({ c }) => {
          const reason = c.skip?.[device];
          if (reason) skips.add(reason);
          return !reason;
        });
        // All of an op in one program.
        const gradients = here.map(({ c, values }) => gradientsOf(c, values, f32));
        realize(...gradients.flat());
        for (const [k, { what, exact }] of here.entries()) {
          const found = await read(gradients[k]!);
          exact.forEach((expected, i) => {
            assertClose(found[i]!, expected, `${what}: gradient ${i} in f32 on ${device}`, {
              relative: 1e-4,
              absolute: 2e-5,
            });
          });
          skips.ran++;
        }
      }
    });
  }
  skips.report('gradients');
}
