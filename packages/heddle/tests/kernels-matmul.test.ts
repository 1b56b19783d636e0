/** The CPU's matmul kernels against the composition, in the simulator: layouts, edges, batches, coordinates. */
import { test } from 'node:test';
import { f32 } from '../src/core/dtype.js';
import { matmulOp } from '../src/fused/matmul.js';
import { call, leaf } from '../src/graph/build.js';
import { checkInSimulator, noise, type Source } from './kernel-harness.js';

type Layout = 'rows' | 'columns' | 'offset' | 'gaps';

/** A (batch, r, c) source in memory as `layout` says. */
function source(batch: number, r: number, c: number, layout: Layout, seed: number): Source {
  const data = noise(batch * r * c, seed);
  if (layout === 'rows') return { data };
  if (layout === 'columns') return { data, view: { strides: [r * c, 1, r], offset: 0, length: data.length } };
  if (layout === 'offset')
    return { data, view: { strides: [r * c, c, 1], offset: 5, length: data.length + 5 } };
  const strides = [2 * r * (2 * c + 1), 2 * c + 1, 2];
  return { data, view: { strides, offset: 3, length: batch * strides[0]! + 3 } };
}

const check = (b: number, m: number, n: number, k: number, left: Layout, right: Layout): void => {
  const node = call(matmulOp, [leaf([b, m, k], f32), leaf([b, k, n], f32)], null);
  checkInSimulator(node, [source(b, m, k, left, m + k), source(b, k, n, right, n + 7)]);
};

const LAYOUTS: readonly (readonly [Layout, Layout])[] = [
  ['rows', 'rows'],
  ['rows', 'columns'],
  ['columns', 'rows'],
  ['columns', 'columns'],
  ['offset', 'gaps'],
  ['gaps', 'offset'],
];

for (const [left, right] of LAYOUTS) {
  test(`matmul ${left} · ${right} at odd sizes`, () => {
    for (const m of [1, 2, 3, 4, 5, 9])
      for (const n of [1, 3, 4, 8, 10, 13]) for (const k of [1, 4, 7]) check(1, m, n, k, left, right);
  });
  test(`matmul ${left} · ${right} in batches`, () => {
    check(3, 5, 9, 6, left, right);
    check(2, 1, 33, 5, left, right);
  });
}
