/**
 * Random kernels on the CPU device against the same function run as JavaScript: what sharing, hoisting and explicit
 * addresses may get wrong. Integers, kept small by masks, so that both give the same numbers.
 */
import assert from 'node:assert/strict';
import { after } from 'node:test';
import fc from 'fast-check';
import { i32 } from '../../src/core/dtype.js';
import { buffer } from '../../src/kernel/ir/types.js';
import { defineKernel } from '../../src/kernel/language/language.js';
import { CpuDevice } from '../../src/runtime/cpu/device.js';
import { property } from '../property.js';
import { runKernel } from './wasm-harness.js';

// Blocks follow one another, as in the loop that runs them as JavaScript.
process.env.HEDDLE_THREADS = '1';
const device = new CpuDevice();
after(() => device.close());

/** Sums and products of variables that change at different depths, elements at such places, and choices. */
const { value, index } = fc.letrec<{ value: string; index: string }>((tie) => ({
  index: fc.oneof(
    fc
      .tuple(fc.constantFrom('i', 'j', 'b', 'p', 'n'), fc.integer({ min: 0, max: 5 }))
      .map(([v, c]) => `${v} + ${c}`),
    fc.tuple(fc.constantFrom('i', 'p'), fc.constantFrom('j', 'b')).map(([v, w]) => `${v} * 2 + ${w} * 3`),
    tie('value'),
  ),
  value: fc.oneof(
    { maxDepth: 3 },
    fc.constantFrom('n', 'b', 'i', 'j', 'p', 'q', '7', 'n * 3 + b', 'i * n + b * 2'),
    tie('index').map((i) => `x[(${i}) & 15]`),
    tie('index').map((i) => `t[(${i}) & 3]`),
    fc
      .tuple(tie('value'), fc.constantFrom('+', '*', '-', '^'), tie('value'))
      .map(([l, o, r]) => `(((${l}) ${o} (${r})) & 63)`),
    fc.tuple(tie('value'), tie('value'), tie('value')).map(([c, l, r]) => `((${c}) > 20 ? (${l}) : (${r}))`),
    fc
      .tuple(tie('value'), tie('index'), tie('value'))
      .map(([c, i, r]) => `((${c}) < 9 && x[(${i}) & 15] > 3 ? (${r}) : 1)`),
  ),
}));

const condition = fc
  .tuple(value, fc.constantFrom('<', '>', '!=='), value)
  .map(([l, o, r]) => `(${l}) ${o} (${r})`);

const statements = (depth: number, inLoop: boolean): fc.Arbitrary<string> => {
  const simple = fc.oneof(
    fc.tuple(fc.constantFrom('p', 'q'), value).map(([v, e]) => `${v} = (${e}) & 63;`),
    fc.tuple(index, value).map(([i, e]) => `x[(${i}) & 15] = (${e}) & 63;`),
    fc.tuple(index, value).map(([i, e]) => `t[(${i}) & 3] = (${e}) & 63;`),
    fc.tuple(value, index).map(([e, i]) => `{ const k = (${e}) & 63; p = (p + k * x[(${i}) & 15]) & 63; }`),
  );
  if (depth === 0) return fc.array(simple, { minLength: 1, maxLength: 3 }).map((s) => s.join('\n'));
  const body = statements(depth - 1, true);
  const branch = statements(depth - 1, inLoop);
  const nested = fc.oneof(
    fc.tuple(condition, branch, branch).map(([c, a, b]) => `if (${c}) { ${a} } else { ${b} }`),
    fc.integer({ min: 1, max: 4 }).chain((n) => body.map((b) => `for (let i = 0; i < ${n}; i++) { ${b} }`)),
    body.map((b) => `for (let j = q & 1; j < (n & 3) + 1; j++) { ${b} }`),
    fc.tuple(condition, body).map(([c, b]) => `{ let j = 0; while (j < 3 && ${c}) { j++; ${b} } }`),
    ...(inLoop
      ? [condition.map((c) => `if (${c}) continue;`), condition.map((c) => `if (${c}) break;`)]
      : []),
  );
  return fc.array(fc.oneof(simple, nested), { minLength: 1, maxLength: 4 }).map((s) => s.join('\n'));
};

property(
  'programs leave what they leave in JavaScript',
  [statements(3, false), fc.integer({ min: 0, max: 30 })],
  async (body, n) => {
    const text = `({ x, n }, { local, i32, blockIdx }) => {
        const b = blockIdx.x; const i = 1; const j = 2; let p = n, q = 2;
        const t = local(i32, 4);
        for (let k = 0; k < 4; k++) t[k] = k;
        ${body}
        x[16] = p + q * 64;
        for (let k = 0; k < 4; k++) x[17 + k] = t[k];
      }`;
    const fn = new Function(`return ${text}`)() as (
      params: { x: number[]; n: number },
      context: object,
    ) => void;
    const ir = defineKernel('program', { x: buffer(i32), n: i32 }, fn as never);
    const start = Array.from({ length: 21 }, (_, k) => (k * 7) & 15);
    const expected = [...start];
    for (let b = 0; b < 3; b++) {
      fn({ x: expected, n }, { local: () => [], i32: null, blockIdx: { x: b } });
    }
    const [x] = await runKernel(device, ir, [3, 1, 1], [start, n]);
    assert.deepEqual(x, expected);
  },
  { runs: 120 },
);
