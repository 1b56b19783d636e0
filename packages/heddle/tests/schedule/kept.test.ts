/** What a step of training keeps in memory for its gradients: planned for an H200, and run in the simulator. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bf16, type DType, f16, f32, f64 } from '../../src/core/dtype.js';
import { Trace } from '../../src/engine/trace.js';
import * as b from '../../src/graph/build.js';
import { vjp } from '../../src/graph/grad.js';
import { argOf, type GraphNode } from '../../src/graph/node.js';
import {
  autocast,
  gelu,
  linear,
  manualSeed,
  nn,
  optim,
  silu,
  Tensor,
  tensor,
  useDevice,
} from '../../src/index.js';
import { H200 } from '../../src/kernel/ir/target.js';
import { PASSES, schedule } from '../../src/schedule/schedule.js';

const [ROWS, COLUMNS] = [64, 48];

const values = (seed: number): Tensor =>
  tensor(
    Float32Array.from({ length: ROWS * COLUMNS }, (_, i) => Math.sin(seed * (i + 1) ** 2)),
    { shape: [ROWS, COLUMNS] },
  );

/** Four residual branches, each of a layer norm and a layer, in mixed precision. */
class Branches extends nn.Module {
  readonly branches = Array.from(
    { length: 4 },
    () => new nn.Sequential(new nn.LayerNorm(COLUMNS), new nn.Linear(COLUMNS, COLUMNS)),
  );
  forward(x: Tensor): Tensor {
    return autocast(bf16, () => this.branches.reduce<Tensor>((x, branch) => x.add(branch.forward(x)), x));
  }
}

/** The gradients of all parameters. */
function gradients(): Tensor[] {
  manualSeed(3);
  const model = new Branches();
  model.forward(values(1)).mul(values(2)).sum().backward();
  return [...model.parameters()].map((p) => p.grad as Tensor);
}

/** The nodes that get memory in a plan for an H200, and that are not given. */
function storedFor(roots: readonly GraphNode[]): GraphNode[] {
  const stored = new Set<GraphNode>();
  const watched = PASSES.map((pass) =>
    pass.name !== 'join'
      ? pass
      : {
          ...pass,
          run: (...given: Parameters<typeof pass.run>) => {
            const made = pass.run(...given);
            for (const node of made.stored ?? []) if (!node.isLeaf) stored.add(node);
            return made;
          },
        },
  );
  schedule(roots, H200, {}, watched);
  return [...stored];
}

const opOf = (node: GraphNode): string => (node.op === 'map' ? argOf(node, 'map').op : node.op);

useDevice('cpu');
const step = storedFor(gradients().map((t) => t.node));
const ofLayer = (dtype: DType): string[] =>
  step.flatMap((node) => (node.size === ROWS * COLUMNS && node.dtype === dtype ? [opOf(node)] : []));

test('a gradient is not kept in f32 beside the 16 bits that it was rounded to', () => {
  // What is summed for a bias are the values that the products take.
  assert.ok(!ofLayer(f32).includes('cast'), ofLayer(f32).join());
});

test('layer norms keep the means and scales of their rows, not the elements less those', () => {
  // Sums of branches: of those before each layer norm, and of their gradients.
  assert.deepEqual(
    ofLayer(f32).filter((op) => op !== 'add'),
    [],
  );
  assert.ok(step.some((node) => node.size === ROWS && node.dtype === f32));
});

test('what is widened and rounded back is the same value, what is rounded and widened is another', () => {
  const bytesOf = (...roots: GraphNode[]): number =>
    schedule(roots, H200).launches.reduce((n, { bytes }) => n + bytes, 0);
  for (const [narrow, wide] of [
    [bf16, f32],
    [f16, f32],
    [f32, f64],
  ] as const) {
    const there = (x: GraphNode, dtype: DType): GraphNode => b.cast(b.cast(x, dtype), x.dtype);
    const [x, y] = [narrow, wide].map((dtype) => b.neg(b.leaf([1000], dtype, false))) as [
      GraphNode,
      GraphNode,
    ];
    assert.equal(bytesOf(x, there(x, wide)), bytesOf(x));
    assert.equal(bytesOf(y, there(y, narrow)), bytesOf(y) + y.size * wide.bytes);
  }
});

/** Whether what GELU takes much work for (Φ of each element) gets memory for its gradient. */
function keepsNormcdf(rows: number): boolean {
  const [x, weight] = [b.leaf([rows, 256], f32, false), b.leaf([1024, 256], f32, true)];
  const next = b.leaf([256, 1024], f32, false);
  const { node } = linear(gelu(linear(new Tensor(x), new Tensor(weight))), new Tensor(next));
  const stored = storedFor([node, ...vjp([node], [b.leaf(node.shape, f32, false)], [weight])] as GraphNode[]);
  return stored.some((n) => opOf(n) === 'normcdf');
}

test('what one kernel makes and reads alone gets no memory', () => {
  const x = b.leaf([16384, 1024], f32, true);
  const { node } = silu(new Tensor(x));
  const { launches, arenaBytes } = schedule(
    [node, ...vjp([node], [b.leaf(node.shape, f32, false)], [x])] as GraphNode[],
    H200,
  );
  assert.deepEqual([launches.length, arenaBytes], [1, 0]);
});

test('what takes much work is kept for the gradient where that moves less than a launch takes', () => {
  assert.ok(keepsNormcdf(256));
  assert.ok(!keepsNormcdf(65536));
});

test('the gradients are those of the CPU, but for roundings to 16 bits', async () => {
  const onDevice = async (device: string): Promise<number[][]> => {
    useDevice(device);
    return Promise.all(gradients().map(async (t) => Array.from(await t.data(), Number)));
  };
  const [expected, actual] = [await onDevice('cpu'), await onDevice('sim')];
  for (const [i, values] of expected.entries()) {
    const largest = Math.max(...values.map(Math.abs));
    values.forEach((v, j) => {
      assert.ok(Math.abs(actual[i]![j]! - v) < 2 ** -7 * largest, `${i}, ${j}: ${actual[i]![j]}, ${v}`);
    });
  }
});

test('in mixed precision a weight is converted as it lies, and updated where its gradient is made', () => {
  useDevice('cpu');
  const model = new nn.Sequential(new nn.Linear(96, 80), new nn.ReLU(), new nn.Linear(80, 64));
  const optimizer = new optim.AdamW(model.parameters(), { lr: 1e-3 });
  const trace = new Trace(() => {});
  trace.run(() => {
    const loss = autocast(bf16, () =>
      model.forward(tensor(new Float32Array(128 * 96), { shape: [128, 96] })),
    );
    loss.cast(f32).square().sum().backward();
    optimizer.step();
  });
  const { launches } = schedule([...trace.assigned.values()], H200);
  const names = launches.flatMap(({ work }) => ('kernel' in work ? work.kernel.name.split('_and_') : []));
  assert.deepEqual(
    names.filter((name) => /_(96x80|80x64)$/.test(name)),
    [],
    'no weight is turned',
  );
  assert.deepEqual(
    names.filter((name) => /^detach_(80x96|64x80)$/.test(name)),
    [],
    'no gradient of a weight is read again',
  );
});
