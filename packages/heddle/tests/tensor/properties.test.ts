/** Random shapes and slices against NumPy's and Python's rules. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { ShapeError } from '../../src/core/errors.js';
import { broadcastShapes } from '../../src/core/shape.js';
import { parseSlice } from '../../src/tensor/indexing.js';
import * as nd from '../ndarray.js';
import { property } from '../property.js';

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
