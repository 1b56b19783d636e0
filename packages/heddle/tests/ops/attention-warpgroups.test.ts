/** Attention by warpgroups in the simulator: one block takes all rows, so that its rings go round and tiles are used again. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bf16 } from '../../src/core/dtype.js';
import { fromBf16, toBf16 } from '../../src/core/float16.js';
import type { GradientProblem, RowsLayout } from '../../src/ops/attention/problem.js';
import type { GroupTile } from '../../src/ops/attention/warpgroup.js';
import { attentionGroups } from '../../src/ops/attention/warpgroup-forward.js';
import { keyValueGradientGroups } from '../../src/ops/attention/warpgroup-key-gradient.js';
import { queryGradientGroups } from '../../src/ops/attention/warpgroup-query-gradient.js';
import type { GridKernel } from '../../src/ops/tiled.js';
import { simulate } from '../../src/runtime/sim/launch.js';
import { noise } from '../kernel/harness.js';

/** Queries of two heads share keys. */
const [HEADS, KEY_HEADS, QUERIES, KEYS, WIDTH] = [2, 1, 130, 100, 32];

const inHeads = (rows: number): RowsLayout => ({
  ...{ offset: 0, batch: rows * WIDTH * HEADS, head: rows * WIDTH, row: WIDTH, column: 1 },
});
const problem: GradientProblem = {
  ...{ dtype: bf16, batch: 1, heads: HEADS, keyHeads: KEY_HEADS, queries: QUERIES, keys: KEYS, width: WIDTH },
  ...{ isCausal: true, scale: 0.3, mask: undefined, dropout: undefined },
  ...{ q: inHeads(QUERIES), k: inHeads(KEYS), v: inHeads(KEYS) },
  g: { offset: 0, batch: QUERIES * HEADS * WIDTH, head: WIDTH, row: HEADS * WIDTH, column: 1 },
};

/** Numbers that bf16 has. */
const values = (count: number, seed: number): Float32Array =>
  noise(count, seed).map((v) => fromBf16(toBf16(v)));
const stored = (v: Float32Array): Uint16Array => Uint16Array.from(v, toBf16);

const q = values(HEADS * QUERIES * WIDTH, 1);
const k = values(KEYS * WIDTH, 2);
const v = values(KEYS * WIDTH, 3);
const g = values(QUERIES * HEADS * WIDTH, 4);

/** All of it in f64, by the definition. */
function reference() {
  const output = new Float64Array(g.length);
  const logSumExp = new Float64Array(HEADS * QUERIES);
  const mean = new Float64Array(QUERIES * HEADS);
  const [toQ, toK, toV] = [g.length, k.length, v.length].map((n) => new Float64Array(n));
  for (let h = 0; h < HEADS; h++)
    for (let i = 0; i < QUERIES; i++) {
      const own = (h * QUERIES + i) * WIDTH;
      const out = (i * HEADS + h) * WIDTH;
      const open = Math.min(KEYS, i + 1);
      const dot = (a: Float32Array, from: number, b: Float32Array, to: number): number =>
        a.subarray(from, from + WIDTH).reduce((sum, x, c) => sum + x * b[to + c]!, 0);
      const scores = Array.from({ length: open }, (_, j) => 0.3 * dot(q, own, k, j * WIDTH));
      const total = scores.reduce((sum, s) => sum + Math.exp(s), 0);
      logSumExp[h * QUERIES + i] = Math.log2(total);
      const weights = scores.map((s) => Math.exp(s) / total);
      const toWeights = weights.map((_, j) => dot(g, out, v, j * WIDTH));
      const middle = weights.reduce((sum, p, j) => sum + p * toWeights[j]!, 0);
      mean[i * HEADS + h] = middle;
      weights.forEach((p, j) => {
        const slope = 0.3 * p * (toWeights[j]! - middle);
        for (let c = 0; c < WIDTH; c++) {
          output[out + c]! += p * v[j * WIDTH + c]!;
          toQ![out + c]! += slope * k[j * WIDTH + c]!;
          toK![j * WIDTH + c]! += slope * q[own + c]!;
          toV![j * WIDTH + c]! += p * g[out + c]!;
        }
      });
    }
  return { output, logSumExp, mean, toQ: toQ!, toK: toK!, toV: toV! };
}

const wanted = reference();
const sources = { q: stored(q), k: stored(k), v: stored(v), g: stored(g) };
const numbers = {
  logSumExp: Float32Array.from(wanted.logSumExp),
  mean: Float32Array.from(wanted.mean),
};

/** Runs a kernel; its results must be off by less than a unit of bf16, in norm. */
function check(
  { kernel, grid, threads }: GridKernel,
  results: Readonly<Record<string, Float64Array>>,
  given: Readonly<Record<string, Float32Array | Uint16Array>>,
  blocks = 1,
): void {
  const outs = Object.fromEntries(
    Object.entries(results).map(([name, { length }]) => [
      name,
      name === 'logSumExp' ? new Float32Array(length) : new Uint16Array(length),
    ]),
  );
  assert.deepEqual(grid, [blocks, 1, 1]);
  simulate(kernel, { grid, block: threads }, { ...given, ...outs });
  for (const [name, exact] of Object.entries(results)) {
    const got = Float64Array.from(outs[name]!, name === 'logSumExp' ? (x) => x : fromBf16);
    const off = Math.hypot(...got.map((x, i) => x - exact[i]!)) / Math.hypot(...exact);
    assert.ok(off < 2 ** -8, `${name} is off by ${off}`);
  }
}

const tile = (groups: GroupTile['groups'], across: number, stages: number): GroupTile => ({
  ...{ groups, across, stages },
});
const { output, logSumExp, toQ, toK, toV } = wanted;
const { g: _, ...forward } = sources;

test('two warpgroups give the output and the log-sum-exp', () =>
  check(
    attentionGroups(problem, tile(2, 32, 2), 1, { output: true, logSumExp: true }),
    { output, logSumExp },
    forward,
  ));
test('three warpgroups give the log-sum-exp alone', () =>
  check(
    attentionGroups(problem, tile(3, 64, 3), 1, { output: false, logSumExp: true }),
    { logSumExp },
    forward,
  ));
// Three blocks share four places of rows: the second round, which goes backwards, is not full.
test('several blocks give the output', () =>
  check(
    attentionGroups(problem, tile(2, 32, 2), 3, { output: true, logSumExp: false }),
    { output },
    forward,
    3,
  ));
/** As a result lies that has its memory to itself, and in part of a tensor whose rows have three such results. */
const alone = (length: number, heads: number): RowsLayout => ({
  ...{ offset: 0, column: 1, head: WIDTH, row: heads * WIDTH, batch: length * heads * WIDTH },
});
const among = (length: number, heads: number, part: number): RowsLayout => {
  const { head, row, batch, column } = alone(length, heads);
  return { offset: part * row, column, head, row: 3 * row, batch: 3 * batch };
};
const toQueries = alone(QUERIES, HEADS);
const toKeys = alone(KEYS, KEY_HEADS);

test('several blocks give the gradient of queries', () =>
  check(queryGradientGroups(problem, tile(2, 32, 2), 3, toQueries), { toQ }, { ...sources, ...numbers }, 3));
test('warpgroups give the gradient of queries', () =>
  check(queryGradientGroups(problem, tile(2, 32, 2), 1, toQueries), { toQ }, { ...sources, ...numbers }));
test('warpgroups give the gradient of queries as part of a tensor', () => {
  const exact = spread(toQ, among(QUERIES, HEADS, 1), QUERIES, HEADS);
  const kernel = queryGradientGroups(problem, tile(2, 32, 2), 1, among(QUERIES, HEADS, 1));
  check(kernel, { toQ: exact }, { ...sources, ...numbers });
});
for (const results of [
  { toK: toKeys, toV: toKeys },
  { toK: toKeys, toV: undefined },
  { toK: undefined, toV: toKeys },
])
  test(`warpgroups give the gradients of ${results.toK ? 'keys' : ''} ${results.toV ? 'values' : ''}`, () =>
    check(
      keyValueGradientGroups(problem, tile(2, 48, 2), 1, results),
      { ...(results.toK && { toK }), ...(results.toV && { toV }) },
      { ...sources, ...numbers },
    ));
test('warpgroups give the gradients of keys and values, one product after the other', () =>
  check(
    keyValueGradientGroups(problem, { ...tile(2, 64, 2), inTurn: true }, 1, { toK: toKeys, toV: toKeys }),
    { toK, toV },
    { ...sources, ...numbers },
  ));
test('warpgroups give the gradients of keys and values as parts of a tensor', () => {
  const results = { toK: among(KEYS, KEY_HEADS, 1), toV: among(KEYS, KEY_HEADS, 2) };
  const exact = {
    toK: spread(toK, results.toK, KEYS, KEY_HEADS),
    toV: spread(toV, results.toV, KEYS, KEY_HEADS),
  };
  check(keyValueGradientGroups(problem, tile(2, 48, 2), 1, results), exact, { ...sources, ...numbers });
});

/** A result in the tensor that it is part of, zeros around it. */
function spread(from: Float64Array, to: RowsLayout, length: number, heads: number): Float64Array {
  const whole = new Float64Array(3 * from.length);
  from.forEach((x, i) => {
    const [head, row] = [Math.floor(i / WIDTH) % heads, Math.floor(i / (WIDTH * heads)) % length];
    const batch = Math.floor(i / (WIDTH * heads * length));
    whole[to.offset + batch * to.batch + row * to.row + head * to.head + (i % WIDTH)] = x;
  });
  return whole;
}
