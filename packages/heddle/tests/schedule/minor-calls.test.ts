/** Which calls of a program are timed: not those that take next to nothing of it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { f32 } from '../../src/core/dtype.js';
import * as b from '../../src/graph/build.js';
import type { GraphNode } from '../../src/graph/node.js';
import { H200 } from '../../src/kernel/ir/target.js';
import { matmul } from '../../src/ops/matmul/op.js';
import type { PlanPass } from '../../src/schedule/plan.js';
import { PASSES, schedule } from '../../src/schedule/schedule.js';
import { lenet5Step } from './lenet5-step.js';

type Sizes = readonly [M: number, K: number, N: number];

const leaf = (...shape: readonly number[]): GraphNode => b.leaf(shape, f32, false);
const product = ([M, K, N]: Sizes): GraphNode => matmul(leaf(M, K), leaf(K, N), 'tf32');

/** What the tuner is asked for, and how many calls can be done in several ways. */
function choicesOf(roots: readonly GraphNode[]): { readonly keys: readonly string[]; readonly all: number } {
  const keys: string[] = [];
  const tune = (requests: readonly { readonly key: string }[]) => {
    keys.push(...requests.map(({ key }) => key));
    return requests.map(() => undefined);
  };
  let all = 0;
  const count: PlanPass = {
    name: 'count',
    run: ({ calls }) => {
      all = [...calls.values()].filter((open) => open.variants().length > 1).length;
      return {};
    },
  };
  const at = PASSES.findIndex(({ name }) => name === 'tune');
  schedule(roots, H200, { tune }, PASSES.toSpliced(at, 0, count));
  return { keys, all };
}

/** The rows of the products that the tuner is asked for. */
const asked = (...products: readonly Sizes[]): number[] =>
  choicesOf(products.map(product)).keys.map((key) => Number(/→ f32\((\d+),/.exec(key)![1]));

const LARGE: Sizes = [4096, 4096, 4096];
const small = (rows: number): Sizes => [rows, 64, 64];

test('a call that takes next to nothing beside others is left out', () => {
  assert.deepEqual(asked(LARGE, small(64)), [4096]);
  assert.deepEqual(asked(small(64)), [64]);
  assert.deepEqual(asked(small(64), small(128)), [64, 128]);
});

test('calls of one choice count together', () => {
  const many = Array.from({ length: 20 }, () => small(64));
  assert.deepEqual(asked(LARGE, ...many), [4096, ...many.map(() => 64)]);
});

test('of many small ones only so many are left out as take a tenth together, the smallest', () => {
  const many = Array.from({ length: 50 }, (_, i) => small(64 + 16 * i));
  const [, ...left] = asked(LARGE, ...many.toReversed());
  assert.ok(left.length > 10 && left.length < 30, `${left.length} of 50`);
  assert.equal(Math.min(...left), 64 + 16 * (50 - left.length));
});

test('one that alone takes more than a fiftieth is not left out', () => {
  assert.deepEqual(asked(LARGE, [2048, 2048, 512]), [4096, 2048]);
});

test('what a call reads and stores besides its operands counts', () => {
  const x = product([8192, 16, 1024]);
  const read = [1, 2, 3, 4].reduce((sum) => b.add(sum, leaf(8192, 1024)), x);
  const large = (): GraphNode => product([8192, 4096, 4096]);
  const [wide, plain] = [read, x].map((root) => choicesOf([root, large(), large()]));
  assert.deepEqual([wide!.keys.length, wide!.all], [3, 3]);
  assert.deepEqual([plain!.keys.length, plain!.all], [2, 3]);
});

test('a small network has all its choices timed', () => {
  const { keys, all } = choicesOf(lenet5Step(256));
  assert.ok(all >= 10);
  assert.equal(keys.length, all);
});
