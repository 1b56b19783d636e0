/** Gradients of convolutions are exchanged with their dimensions in the order that they are made in. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { topological } from '../../src/core/node.js';
import { headerWords } from '../../src/distributed/call.js';
import {
  allReduceOf,
  broadcastOf,
  type CollectiveArg,
  unpacked,
} from '../../src/distributed/collective-op.js';
import { CallComparison } from '../../src/distributed/control/call-log.js';
import * as b from '../../src/graph/build.js';
import { callOf } from '../../src/graph/fused-op.js';
import type { GraphNode } from '../../src/graph/node.js';
import { conv2d, randn, realize, relu, setPrecision, useDevice } from '../../src/index.js';
import { SIM_TARGET } from '../../src/runtime/sim/launch.js';
import { reordered } from '../../src/schedule/orders.js';
import { exchangeOf } from '../../src/schedule/whole-pieces.js';
import { Tensor } from '../../src/tensor/tensor.js';
import { nodeOf, tensorOf } from '../../src/tensor/tracing.js';
import { assertClose } from '../close.js';
import { environmentOf } from './device-tests.js';
import { endOf, freePort, LIMIT, ranksEnvironment, startNode } from './processes.js';
import type { OrdersJob, OrdersResult } from './rank-orders.js';
import { traced } from './traced.js';
import { joinTwin } from './twins.js';

useDevice('cpu');
setPrecision({ conv: 'tf32' });
const twins = await joinTwin();
after(() => twins.leave());

const COLLECTIVES = ['collective.allReduce', 'collective.broadcast'];
/** A GPU whose convolutions in tf32 are faster with channels last. The CPU computes them in f32. */
const TARGET = { ...SIM_TARGET, libraries: new Set(COLLECTIVES) };
const RANKS = [0, 1];

const argsOf = (roots: readonly GraphNode[]): CollectiveArg[] =>
  topological(roots, (n) => (n.isLeaf ? [] : n.src)).flatMap((n) =>
    exchangeOf(n) ? [callOf(n).arg as CollectiveArg] : [],
  );

const valuesOf = async (roots: readonly GraphNode[]): Promise<number[][]> => {
  const results = roots.map((root) => new Tensor(root));
  realize(...results);
  return Promise.all(results.map(async (result) => Array.from(await result.data(), Number)));
};

const FIRST = [72, 64, 3, 3] as const;
const SECOND = [64, 72, 1, 3] as const;
const images = randn([8, 64, 16, 15]).realize();
const weights = [FIRST, SECOND].map(
  (shape): Tensor => randn(shape, { requiresGrad: true }).realize() as never,
);

/** Gradients of two convolutions' weights. */
function gradients(): GraphNode[] {
  for (const weight of weights) weight.grad = undefined;
  const [first, second] = [weights[0]!, weights[1]!];
  conv2d(relu(conv2d(images, first)), second)
    .square()
    .sum()
    .backward();
  return weights.map(({ grad }) => nodeOf(grad!));
}

/** Two exchanges, one after the other, of what `use` makes something. */
const exchanged = (use: (flat: GraphNode, src: readonly GraphNode[]) => readonly GraphNode[]): GraphNode[] =>
  traced(() =>
    gradients()
      .flatMap((gradient, i) => {
        // A second source, in its own order: small ones would be copied together with the first.
        const other = i === 0 ? [nodeOf(randn([2 ** 17]))] : [];
        return use(allReduceOf([gradient, ...other], { ranks: RANKS, op: 'sum' }), [gradient, ...other]);
      })
      .map(tensorOf),
  );

test('an exchange takes gradients as convolutions with channels last make them', async () => {
  const roots = exchanged(unpacked);
  const others = reordered(roots, TARGET);
  assert.deepEqual(
    argsOf(roots).map(({ orders }) => orders),
    [0, 0],
  );
  const orders = argsOf(others).map(({ orders }) => orders);
  assert.ok(
    orders.every((digest) => digest !== 0),
    orders.join(),
  );
  const permuted = topological(others, (n) => (n.isLeaf ? [] : n.src)).filter(
    (n) => exchangeOf(n) && n.src[0]!.op === 'permute',
  );
  assert.equal(permuted.length, 0, 'none is permuted before it is sent');
  const [expected, actual] = [await valuesOf(roots), await valuesOf(others)];
  expected.forEach((values, i) => {
    assertClose(actual[i]!, values, `result ${i}`, { relative: 1e-5, absolute: 1e-4 });
  });
});

/** Uses of a flat result that show in which order the elements are. */
const ORDERED: Readonly<Record<string, (flat: GraphNode, src: readonly GraphNode[]) => GraphNode[]>> = {
  'is a result': (flat, src) => [flat, ...unpacked(flat, src)],
  'is a result after it was detached': (flat, src) => [b.detach(flat), ...unpacked(flat, src)],
  'is read as it is': (flat, src) => [b.map('neg', flat), ...unpacked(flat, src)],
  'has a part cut out': (flat, src) => [b.slice(flat, [3], [5]), ...unpacked(flat, src)],
  'has more cut out than a source': (flat) => [b.slice(flat, [0], [Math.min(flat.size, 42_000)])],
  'has every other element cut out': (flat) => [b.slice(flat, [0], [100], [2])],
  'has a source cut out that stays flat': (flat, src) => [b.slice(flat, [0], [src[0]!.size])],
  'is given another shape': (flat, src) => [
    b.reshape(b.slice(flat, [0], [src[0]!.size]), src[0]!.shape.toReversed()),
  ],
};
for (const [what, use] of Object.entries(ORDERED))
  test(`what is exchanged stays in its own order where the flat result ${what}`, async () => {
    const roots = exchanged(use);
    const others = reordered(roots, TARGET);
    assert.notEqual(others, roots, 'convolutions are computed with channels last');
    assert.ok(
      argsOf(others).every(({ orders }) => orders === 0),
      JSON.stringify(argsOf(others)),
    );
    const [expected, actual] = [await valuesOf(roots), await valuesOf(others)];
    expected.forEach((values, i) => {
      assertClose(actual[i]!, values, `result ${i}`, { relative: 1e-5, absolute: 1e-4 });
    });
  });

test('a broadcast sends tensors as they are made, too', async () => {
  const roots = traced(() =>
    gradients().map((x) => tensorOf(unpacked(broadcastOf([x], { ranks: RANKS, root: 1 }), [x])[0]!)),
  );
  const others = reordered(roots, TARGET);
  assert.ok(argsOf(others).every(({ orders }) => orders !== 0));
  const [expected, actual] = [await valuesOf(roots), await valuesOf(others)];
  expected.forEach((values, i) => {
    assertClose(actual[i]!, values, `result ${i}`, { relative: 1e-5, absolute: 1e-4 });
  });
});

const folder = mkdtempSync(join(tmpdir(), 'heddle-orders-'));
after(() => rmSync(folder, { recursive: true, force: true }));
const PROGRAM = fileURLToPath(new URL('./rank-orders.js', import.meta.url));

/** Ranks in processes of their own, over TCP. */
async function trained(worldSize: number, plain: readonly number[] = []) {
  const file = join(folder, `${worldSize}-${plain.join('-')}`);
  const job: OrdersJob = { file, steps: 2, plain };
  const port = await freePort();
  const ranks = Array.from({ length: worldSize }, (_, rank) =>
    startNode([PROGRAM, JSON.stringify(job)], {
      ...ranksEnvironment(rank, worldSize, port),
      ...environmentOf('cpu'),
    }),
  );
  const ends = await endOf(ranks);
  const results = (): OrdersResult[] =>
    ends.map(({ code, err }, rank) => {
      assert.equal(code, 0, err);
      return JSON.parse(readFileSync(`${file}.${rank}`, 'utf8')) as OrdersResult;
    });
  return { ends, results };
}

test('two ranks that send gradients in other orders train as one', LIMIT, async () => {
  const [alone] = (await trained(1)).results();
  const [first, second] = (await trained(2)).results();
  assert.deepEqual(first, second);
  // In each step those of three convolutions; biases and the linear layer have no other order.
  assert.equal(first!.orders.filter((orders) => orders !== 0).length, 2 * 3, first!.orders.join());
  assertClose(first!.weights, alone!.weights, 'weights', { relative: 1e-4, absolute: 1e-6 });
});

const DIFFERENT =
  /rank 0 reduces \d+ f32 \(sum\) with dimensions in another order than rank 1 in call \d+ of 2 ranks\. The order is/;

test('ranks that send other orders learn it before they exchange values', LIMIT, async () => {
  const { ends } = await trained(2, [1]);
  for (const { code } of ends) assert.notEqual(code, 0);
  assert.match(ends.map(({ err }) => err).join(''), DIFFERENT);
});

test('the control compares orders on GPUs', () => {
  const call = { kind: 'allReduce', op: 'sum', dtype: 'f32', root: 0, ranks: RANKS, sequence: 7 } as const;
  const comparison = new CallComparison();
  const header = (orders: number): number[] => [...headerWords({ ...call, elements: 147_456, orders })];
  assert.equal(comparison.add(1, [header(5)]), undefined);
  assert.match(comparison.add(0, [header(6)])!, DIFFERENT);
});
