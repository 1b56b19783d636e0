/** Random shapes, views, slices and expressions against plain arrays. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { f32, f64 } from '../src/core/dtype.js';
import { ShapeError } from '../src/core/errors.js';
import { broadcastShapes } from '../src/core/shape.js';
import { jit, realize, type Tensor, tensor, useDevice } from '../src/index.js';
import { parseSlice } from '../src/tensor/indexing.js';
import { DEVICES } from './case-runner.js';
import { assertClose } from './close.js';
import * as nd from './ndarray.js';
import { property } from './property.js';
import { chooser, data, grown, leaf, moved, type Pair, script, sizes } from './random-graphs.js';

const shape = fc.array(fc.integer({ min: 0, max: 4 }), { maxLength: 4 });

property(
  'shapes broadcast as NumPy says, or an error names the sizes',
  [fc.array(shape, { minLength: 1, maxLength: 3 })],
  (shapes) => {
    const rank = Math.max(...shapes.map((s) => s.length));
    const sizes = Array.from({ length: rank }, (_, d) =>
      shapes.map((s) => s[d - rank + s.length] ?? 1).filter((n) => n !== 1),
    );
    if (sizes.every((list) => new Set(list).size <= 1)) {
      assert.deepEqual(broadcastShapes('test', ...shapes), nd.broadcastShape(...shapes));
    } else assert.throws(() => broadcastShapes('test', ...shapes), ShapeError);
  },
);

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

const bound = fc.option(fc.integer({ min: -9, max: 9 }), { nil: undefined });
const step = fc.integer({ min: -4, max: 4 }).filter((s) => s !== 0);
property(
  'slices select what Python selects',
  [fc.nat({ max: 7 }), bound, bound, step, fc.boolean()],
  (n, first, last, by, spaces) => {
    const gap = spaces ? ' ' : '';
    const text = [first ?? '', last ?? '', by].join(`${gap}:${gap}`);
    const { start, step: walked, size } = parseSlice(text, n);
    const got = Array.from({ length: size }, (_, i) => start + i * walked);
    assert.deepEqual(got, sliced(n, first, last, by), text);
  },
  { runs: 1000 },
);

property('what is no slice is an error', [fc.string()], (text) => {
  fc.pre(!/^\s*(-?\d+)?\s*:\s*(-?\d+)?\s*(:\s*(-?\d+)?\s*)?$/.test(text));
  assert.throws(() => parseSlice(text, 5), { code: 'HEDDLE_ARGUMENT' });
});

/** Elements and shape of `t` are those of `a`. */
async function same({ t, a }: Pair, tolerance: number, what: string): Promise<void> {
  assert.deepEqual(t.shape, a.shape, what);
  assertClose(await (t.data() as Promise<Float32Array>), a.data, what, {
    relative: tolerance,
    absolute: tolerance,
  });
}

for (const device of DEVICES) {
  const runs = device === 'cpu' ? 120 : 40;

  property(
    `${device}: chains of views hold what plain arrays hold`,
    [data, sizes, script, fc.integer({ min: 1, max: 7 })],
    async (values, from, list, steps) => {
      useDevice(device);
      const choose = chooser(list);
      let p = leaf(values, from, f32);
      for (let i = 0; i < steps && nd.count(p.a.shape) < 500; i++) p = moved(p, choose);
      await same(p, 0, 'view');
    },
    { runs },
  );

  property(
    `${device}: expressions of elementwise ops, reductions and views`,
    [fc.array(fc.tuple(data, sizes), { minLength: 1, maxLength: 3 }), script, fc.constantFrom(f32, f64)],
    async (leaves, list, dtype) => {
      useDevice(device);
      const choose = chooser(list);
      const grow = (pool: Pair[]): Pair[] => {
        for (let i = 0; i < 9; i++) {
          const p = grown(pool, choose, 2);
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
    { runs },
  );
}

property(
  'gradients of random expressions agree with differences along a direction, in jit as without',
  [fc.array(fc.tuple(data, sizes), { minLength: 1, maxLength: 2 }), script],
  async (leaves, list) => {
    useDevice('cpu');
    const shapes = leaves.map(([, s]) => s);
    const starts = leaves.map(([values, s]) => leaf(values, s, f64).a.data);
    const run = (inputs: readonly Tensor[]): Tensor => {
      const choose = chooser(list);
      const pool = inputs.map((t, i): Pair => ({ t, a: { shape: shapes[i]!, data: starts[i]! } }));
      for (let i = 0; i < 7; i++) {
        const p = grown(pool, choose, 2);
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
    const middle = await run(at(0)).item();
    const difference = async (h: number): Promise<number> => {
      const [above, below] = [await run(at(h)).item(), await run(at(-h)).item()];
      // At a kink of max, min or a comparison the two sides differ, and differences see their mean
      fc.pre(Math.abs(above - 2 * middle + below) < 1e-4 * h);
      return (above - below) / (2 * h);
    };
    // A central difference is off by f‴h²/6 (tanh of a steep argument has an f‴ of 1e10), to which halving h leaves a
    // quarter: what it changes is three times what is left. And by the rounding of the values, over h.
    const [numeric, wide] = [await difference(h / 2), await difference(h)];
    const bound = Math.abs(wide - numeric) + (1e3 * Number.EPSILON * Math.max(1, Math.abs(middle))) / h;
    assert.ok(
      Math.abs(analytic - numeric) <= bound,
      `along the direction: gradient ${analytic}, differences ${numeric} ± ${bound}`,
    );
  },
  { runs: 50 },
);

const direction = (input: number, k: number): number => Math.sin(5 * k + 3 * input + 1);
