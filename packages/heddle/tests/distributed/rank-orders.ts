/**
 * A rank of a training whose convolutions are computed with channels last, as a process: `rank-orders.js <job as JSON>`. It writes
 * its weights, and the orders that it sent gradients in, as JSON to the job's file, with its rank behind the name.
 */
import { writeFileSync } from 'node:fs';
import { topological } from '../../src/core/node.js';
import type { CollectiveArg } from '../../src/distributed/collective-op.js';
import * as distributed from '../../src/distributed/index.js';
import { callOf } from '../../src/graph/fused-op.js';
import type { GraphNode } from '../../src/graph/node.js';
import {
  crossEntropy,
  i32,
  manualSeed,
  nn,
  noGrad,
  randint,
  randn,
  realize,
  relu,
  setPrecision,
} from '../../src/index.js';
import { SIM_TARGET } from '../../src/runtime/sim/launch.js';
import { reordered } from '../../src/schedule/orders.js';
import { Tensor } from '../../src/tensor/tensor.js';
import { traced } from './traced.js';

export interface OrdersJob {
  readonly file: string;
  readonly steps: number;
  /** Ranks that keep all dimensions in their own order. */
  readonly plain: readonly number[];
}

export interface OrdersResult {
  readonly weights: readonly number[];
  /** Of each exchange: see `CollectiveArg`. */
  readonly orders: readonly number[];
}

/** A GPU whose convolutions in tf32 are faster with channels last. The CPU computes them in f32. */
const TARGET = { ...SIM_TARGET, libraries: new Set(['collective.allReduce']) };
const BATCH = 8;

class Network extends nn.Module {
  readonly first = new nn.Conv2d(64, 64, 3, { padding: 1 });
  readonly second = new nn.Conv2d(64, 72, [3, 1], { bias: false });
  readonly third = new nn.Conv2d(72, 64, 3, { stride: 2, padding: 1 });
  readonly last = new nn.Linear(64, 5);

  forward(x: Tensor): Tensor {
    const second = relu(this.second.forward(relu(this.first.forward(x))));
    return this.last.forward(this.third.forward(second).mean([2, 3]));
  }
}

setPrecision({ conv: 'tf32' });
const { file, steps, plain } = JSON.parse(process.argv[2]!) as OrdersJob;
await distributed.init();
const [rank, size] = [distributed.rank(), distributed.worldSize()];
manualSeed(3);
const model = new Network();
const mine = BATCH / size;
const x = randn([BATCH, 64, 12, 11]).split(mine)[rank]!.realize();
const labels = randint(0, 5, [BATCH], { dtype: i32 }).split(mine)[rank]!.realize();
const orders: number[] = [];

/** The weights after a step. */
function stepped(): Tensor[] {
  const parameters = model.parameters();
  for (const p of parameters) p.grad = undefined;
  crossEntropy(model.forward(x), labels as never).backward();
  // Each gradient by itself: small ones that are sent together are in no order of their own.
  distributed.averageGradients(parameters, { bucketBytes: 1 });
  return noGrad(() => parameters.map((p) => p.detach().sub(p.grad!.mul(0.5)) as Tensor));
}

for (let step = 0; step < steps; step++) {
  const roots = traced(stepped);
  const computed = plain.includes(rank) ? roots : reordered(roots, TARGET);
  for (const node of topological(computed, (n: GraphNode) => (n.isLeaf ? [] : n.src)))
    if (node.op === 'call' && callOf(node).op.name === 'allReduce')
      orders.push((callOf(node).arg as CollectiveArg).orders);
  const results = computed.map((root) => new Tensor(root));
  realize(...results);
  noGrad(() => model.parameters().forEach((p, i) => void p.assign(results[i] as never)));
}
const weights: number[] = [];
for (const p of model.parameters()) weights.push(...(await p.data()));
writeFileSync(`${file}.${rank}`, JSON.stringify({ weights, orders } satisfies OrdersResult));
await distributed.close();
