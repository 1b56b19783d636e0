/** Random shapes, views, slices and expressions against plain arrays. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type DType, f32, f64 } from '../src/core/dtype.js';
import { ShapeError } from '../src/core/errors.js';
import { broadcastShapes } from '../src/core/shape.js';
import { jit, realize, type Tensor, tensor, useDevice } from '../src/index.js';
import { parseSlice } from '../src/tensor/indexing.js';
import { DEVICES } from './case-runner.js';
import { assertClose } from './close.js';
import type { NdArray } from './ndarray.js';
import * as nd from './ndarray.js';

fc.configureGlobal({ includeErrorInReport: true });

const shape = fc.array(fc.integer({ min: 0, max: 4 }), { maxLength: 4 });

test('shapes broadcast as NumPy says, or an error names the sizes', () => {
  fc.assert(
    fc.property(fc.array(shape, { minLength: 1, maxLength: 3 }), (shapes) => {
      const rank = Math.max(...shapes.map((s) => s.length));
      const sizes = Array.from({ length: rank }, (_, d) =>
        shapes.map((s) => s[d - rank + s.length] ?? 1).filter((n) => n !== 1),
      );
      if (sizes.every((list) => new Set(list).size <= 1)) {
        assert.deepEqual(broadcastShapes('test', ...shapes), nd.broadcastShape(...shapes));
      } else assert.throws(() => broadcastShapes('test', ...shapes), ShapeError);
    }),
  );
});

/** What Python's range(n)[first:last:step] holds, from the forward case alone. */
function sliced(n: number, first: number | undefined, last: number | undefined, step: number): number[] {
  const positive = (v: number | undefined): number | undefined =>
    v === undefined ? undefined : v < 0 ? v + n : v;
  const [from, to] = [positive(first), positive(last)];
  if (step < 0) {
    // Walk the reversed list forwards
    const mirror = (v: number | undefined): number | undefined => (v === undefined ? undefined : n - 1 - v);
    return forward(n, mirror(from), mirror(to), -step).map((i) => n - 1 - i);
  }
  return forward(n, from, to, step);
}
const forward = (n: number, from: number | undefined, to: number | undefined, step: number): number[] => {
  const start = Math.max(0, from ?? 0);
  return Array.from({ length: n }, (_, i) => i).filter(
    (i) => i >= start && i < (to ?? n) && (i - start) % step === 0,
  );
};

test('slices select what Python selects', () => {
  const bound = fc.option(fc.integer({ min: -9, max: 9 }), { nil: undefined });
  const step = fc.integer({ min: -4, max: 4 }).filter((s) => s !== 0);
  fc.assert(
    fc.property(fc.nat({ max: 7 }), bound, bound, step, fc.boolean(), (n, first, last, by, spaces) => {
      const gap = spaces ? ' ' : '';
      const text = [first ?? '', last ?? '', by].join(`${gap}:${gap}`);
      const { start, step: walked, size } = parseSlice(text, n);
      const got = Array.from({ length: size }, (_, i) => start + i * walked);
      assert.deepEqual(got, sliced(n, first, last, by), text);
    }),
    { numRuns: 1000 },
  );
});

test('what is no slice is an error', () => {
  fc.assert(
    fc.property(fc.string(), (text) => {
      fc.pre(!/^\s*(-?\d+)?\s*:\s*(-?\d+)?\s*(:\s*(-?\d+)?\s*)?$/.test(text));
      assert.throws(() => parseSlice(text, 5), { code: 'HEDDLE_ARGUMENT' });
    }),
  );
});

/** A tensor and what it should hold. */
interface Pair {
  readonly t: Tensor;
  readonly a: NdArray;
}

type Choose = (below: number) => number;

/** A view of `p`: every kind of movement, with sizes chosen by `choose`. */
function moved({ t, a }: Pair, choose: Choose): Pair {
  const rank = a.shape.length;
  switch (choose(7)) {
    case 0: {
      const order = a.shape.map((_, d) => d);
      for (let i = rank - 1; i > 0; i--) {
        const j = choose(i + 1);
        [order[i], order[j]] = [order[j]!, order[i]!];
      }
      return { t: t.permute(order), a: nd.permute(a, order) };
    }
    case 1: {
      const to = regrouped(a.shape, choose);
      return { t: t.reshape(to), a: nd.reshape(a, to) };
    }
    case 2: {
      if (rank === 0) return { t, a };
      const axis = choose(rank);
      return { t: t.flip(axis), a: nd.flip(a, axis) };
    }
    case 3: {
      const slices = a.shape.map((n) => {
        const from = choose(n + 1);
        const to = from + choose(n + 1 - from);
        const step = 1 + choose(3);
        const positions = nd.range(from, to, step);
        return choose(3) === 0
          ? {
              text: `${to - 1}:${from - 1 < 0 ? '' : from - 1}:${-step}`,
              positions: to > from ? nd.range(to - 1, from - 1, -step) : undefined,
            }
          : { text: `${from}:${to}:${step}`, positions };
      });
      if (slices.some((s) => s.positions === undefined)) return { t, a };
      return {
        t: t.at(...slices.map((s) => s.text)),
        a: nd.pick(
          a,
          slices.map((s) => s.positions!),
        ),
      };
    }
    case 4: {
      const amounts = a.shape.map((): [number, number] => [choose(3), choose(2)]);
      const value = choose(3) - 1;
      return { t: t.pad(amounts, value), a: nd.pad(a, amounts, value) };
    }
    case 5: {
      const at = choose(rank + 1);
      const wide = [...a.shape.slice(0, at), 1, ...a.shape.slice(at)];
      const to = wide.map((n, d) => (d === at ? 1 + choose(3) : n));
      return { t: t.unsqueeze(at).expand(to), a: nd.broadcastTo(nd.reshape(a, wide), to) };
    }
    default: {
      if (rank === 0) return { t: t.reshape([1]), a: nd.reshape(a, [1]) };
      const axis = choose(rank);
      const rows = Array.from({ length: choose(4) }, () => choose(Math.max(1, a.shape[axis]!)));
      if (a.shape[axis] === 0) return { t, a };
      const picked = nd.pick(
        a,
        a.shape.map((n, d) => (d === axis ? rows : nd.range(0, n))),
      );
      const positions = tensor(Int32Array.from(rows));
      return { t: t.at(...a.shape.map((_, d) => (d === axis ? positions : ':'))), a: picked };
    }
  }
}

/** Neighbouring dimensions joined, and sizes split in two. */
function regrouped(sizes: readonly number[], choose: Choose): number[] {
  const joined: number[] = [];
  for (const n of sizes) {
    if (joined.length > 0 && choose(2) === 0) joined.push(joined.pop()! * n);
    else joined.push(n);
  }
  return joined.flatMap((n) => {
    const divisors = nd.range(1, n + 1).filter((d) => n % d === 0);
    if (n < 2 || choose(2) === 0) return [n];
    const d = divisors[choose(divisors.length)]!;
    return [d, n / d];
  });
}

const unary: readonly (readonly [(t: Tensor) => Tensor, (v: number) => number])[] = [
  [(t) => t.neg(), (v) => -v],
  [(t) => t.tanh(), Math.tanh],
  [(t) => t.sin(), Math.sin],
  [(t) => t.mul(0.5).add(0.25), (v) => 0.5 * v + 0.25],
  [(t) => t.square().mul(0.1).tanh(), (v) => Math.tanh(0.1 * v * v)],
  [(t) => t.sigmoid(), (v) => 1 / (1 + Math.exp(-v))],
];
const binary: readonly (readonly [(s: Tensor, t: Tensor) => Tensor, (v: number, w: number) => number])[] = [
  [(s, t) => s.add(t).mul(0.5), (v, w) => (v + w) / 2],
  [(s, t) => s.sub(t), (v, w) => v - w],
  [(s, t) => s.mul(t).tanh(), (v, w) => Math.tanh(v * w)],
  [(s, t) => s.maximum(t), Math.max],
  [(s, t) => s.lt(t).where(s, t.mul(2)), (v, w) => (v < w ? v : 2 * w)],
];
const folds: readonly (readonly ['mean' | 'sum' | 'max' | 'min', (v: number[]) => number])[] = [
  ['mean', nd.mean],
  ['sum', nd.total],
  ['max', (v) => Math.max(...v)],
  ['min', (v) => Math.min(...v)],
];

/** A new node made from what there is. */
function grown(pool: readonly Pair[], choose: Choose, moves: number): Pair {
  const p = pool[choose(pool.length)]!;
  const kind = choose(3 + moves);
  if (kind === 0) {
    const [run, f] = unary[choose(unary.length)]!;
    return { t: run(p.t), a: nd.map(f, p.a) };
  }
  if (kind === 1) {
    let q = pool[choose(pool.length)]!;
    const fits = p.a.shape.every((n, d) => {
      const m = q.a.shape[d - p.a.shape.length + q.a.shape.length] ?? 1;
      return n === m || n === 1 || m === 1;
    });
    if (!fits) q = { t: q.t.sum(), a: nd.reduce(nd.total, q.a) };
    const [run, f] = binary[choose(binary.length)]!;
    return { t: run(p.t, q.t), a: nd.map(f as (...v: number[]) => number, p.a, q.a) };
  }
  if (kind === 2) {
    const axes = p.a.shape.map((_, d) => d).filter(() => choose(2) === 0);
    const [name, f] = folds[axes.some((d) => p.a.shape[d] === 0) ? 1 : choose(folds.length)]!;
    const keepdim = choose(2) === 0;
    return { t: p.t[name](axes, { keepdim }), a: nd.reduce(f, p.a, axes, keepdim) };
  }
  return moved(p, choose);
}

const leaf = (
  data: readonly number[],
  sizes: readonly number[],
  dtype: DType,
  requiresGrad = false,
): Pair => {
  const values = Array.from({ length: nd.count(sizes) }, (_, i) =>
    Math.fround(data[i % data.length]! + 0.01 * (i % 7)),
  );
  return {
    t: tensor(Float64Array.from(values), { shape: sizes, dtype, requiresGrad }),
    a: { shape: sizes, data: values },
  };
};

const number = fc.double({ min: -2, max: 2, noNaN: true });
const data = fc.array(number, { minLength: 3, maxLength: 9 });
const size = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: 1, max: 4 }) },
  { weight: 1, arbitrary: fc.constantFrom(0, 9, 18) },
);
const sizes = fc.array(size, { maxLength: 3 });
const script = fc.array(fc.nat({ max: 1 << 20 }), { minLength: 64, maxLength: 64 });

/** Choices read off a list of numbers, again and again. */
const chooser = (list: readonly number[]): Choose => {
  let at = 0;
  return (below) => (below < 1 ? 0 : (list[at++ % list.length]! + at) % below);
};

/** Elements and shape of `t` are those of `a`. */
async function same({ t, a }: Pair, tolerance: number, what: string): Promise<void> {
  assert.deepEqual(t.shape, a.shape, what);
  assertClose(await (t.data() as Promise<Float32Array>), a.data, what, {
    relative: tolerance,
    absolute: tolerance,
  });
}

for (const device of DEVICES) {
  const numRuns = device === 'cpu' ? 200 : 60;

  test(`${device}: chains of views hold what plain arrays hold`, async () => {
    useDevice(device);
    await fc.assert(
      fc.asyncProperty(
        data,
        sizes,
        script,
        fc.integer({ min: 1, max: 7 }),
        async (values, from, list, steps) => {
          const choose = chooser(list);
          let p = leaf(values, from, f32);
          for (let i = 0; i < steps && nd.count(p.a.shape) < 500; i++) p = moved(p, choose);
          await same(p, 0, 'view');
        },
      ),
      { numRuns },
    );
  });

  test(`${device}: expressions of elementwise ops, reductions and views`, async () => {
    useDevice(device);
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(data, sizes), { minLength: 1, maxLength: 3 }),
        script,
        fc.constantFrom(f32, f64),
        async (leaves, list, dtype) => {
          const choose = chooser(list);
          const grow = (pool: Pair[]): Pair[] => {
            for (let i = 0; i < 9; i++) {
              const p = grown(pool, choose, 1);
              if (nd.count(p.a.shape) < 400) pool.push(p);
            }
            return pool;
          };
          const made = grow(leaves.map(([values, shape]) => leaf(values, shape, dtype)));
          const tolerance = dtype === f64 ? 1e-9 : 2e-4;
          // Some of them together in one program, the last by itself
          const together = made.filter(() => choose(2) === 0);
          realize(...together.map((p) => p.t));
          for (const [i, p] of together.entries()) await same(p, tolerance, `node ${i}`);
          await same(made.at(-1)!, tolerance, 'the last node');
        },
      ),
      { numRuns },
    );
  });
}

test('gradients of random expressions agree with differences along a direction, in jit as without', async () => {
  useDevice('cpu');
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(data, sizes), { minLength: 1, maxLength: 2 }),
      script,
      async (leaves, list) => {
        const shapes = leaves.map(([, s]) => s);
        const starts = leaves.map(([values, s]) => leaf(values, s, f64).a.data);
        const run = (inputs: readonly Tensor[]): Tensor => {
          const choose = chooser(list);
          const pool = inputs.map((t, i): Pair => ({ t, a: { shape: shapes[i]!, data: starts[i]! } }));
          for (let i = 0; i < 7; i++) {
            const p = grown(pool, choose, 1);
            if (nd.count(p.a.shape) < 200) pool.push(p);
          }
          return pool.map((p, i) => p.t.mul(0.3 + 0.1 * i).sum()).reduce((a, b) => a.add(b));
        };
        const at = (shift: number, requiresGrad = false): Tensor[] =>
          starts.map((v, i) =>
            tensor(
              Float64Array.from(v, (e, k) => e + shift * direction(i, k)),
              { shape: shapes[i]!, requiresGrad },
            ),
          );
        const gradientOf = (inputs: readonly Tensor[]): Tensor[] => {
          for (const t of inputs) t.grad = undefined;
          run(inputs).backward();
          return inputs.map((t) => {
            const g = t.grad ?? t.mul(0).detach();
            t.grad = undefined;
            return g;
          });
        };
        const inputs = at(0, true);
        const plain = await Promise.all(gradientOf(inputs).map((g) => g.data()));
        const jitted = jit(() => gradientOf(inputs));
        for (const [i, g] of jitted().entries()) assert.deepEqual(await g.data(), plain[i]);
        jitted.dispose();
        const analytic = nd.total(
          plain.flatMap((g, i) => Array.from(g as Float64Array, (v, k) => v * direction(i, k))),
        );
        const h = 1e-6;
        const [above, below] = [await run(at(h)).item(), await run(at(-h)).item()];
        const numeric = (above - below) / (2 * h);
        // At a kink of max, min or a comparison the two sides differ, and differences see their mean
        const middle = await run(at(0)).item();
        fc.pre(Math.abs(above - 2 * middle + below) < 1e-4 * h);
        assert.ok(
          Math.abs(analytic - numeric) < 1e-5 * (1 + Math.abs(numeric)),
          `along the direction: gradient ${analytic}, differences ${numeric}`,
        );
      },
    ),
    { numRuns: 100 },
  );
});

const direction = (input: number, k: number): number => Math.sin(5 * k + 3 * input + 1);
