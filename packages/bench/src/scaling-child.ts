/** A rank of `heddle bench scaling`. The first prints what it has measured, a line for each batch. */
import {
  type AnyTensor,
  type f32,
  jit,
  manualSeed,
  nn,
  optim,
  randn,
  type Tensor,
  time,
  useDevice,
  zeros,
} from 'heddle';
import * as distributed from 'heddle/distributed';
import { TrainingSteps } from 'heddle/internal/cli/training-steps.js';
import { isFloat } from 'heddle/internal/core/dtype.js';
import { sizeOf } from 'heddle/internal/core/shape.js';
import { bucketsOf, sumInBuckets } from 'heddle/internal/distributed/data-parallel.js';
import { membership } from 'heddle/internal/distributed/membership.js';
import { SummedRows } from 'heddle/internal/distributed/summed-rows.js';
import * as b from 'heddle/internal/graph/build.js';
import { callOf } from 'heddle/internal/graph/fused-op.js';
import type { GraphNode, TensorType } from 'heddle/internal/graph/node.js';
import { nodeOf, tensorOf } from 'heddle/internal/tensor/tracing.js';
import { SCALING_NETWORKS } from './scaling-networks.js';

export interface ScalingJob {
  readonly network: string;
  /** Examples of this rank, one measurement for each. */
  readonly batches: readonly number[];
  /** Steps of a round. */
  readonly calls: number;
  readonly rounds: number;
  readonly device: string | undefined;
}

/** In µs, a number for each round. */
export interface ScalingReport {
  readonly batch: number;
  /** A training step. */
  readonly step: readonly number[];
  /** The same without the exchange of gradients. */
  readonly compute: readonly number[];
  /** The exchange alone. */
  readonly exchange: readonly number[];
  /** Bytes of the gradients that are exchanged at a time, in this order; those of embeddings as their tables. */
  readonly buckets: readonly number[];
}

const WARM_UP = 3;

/** All ranks have as many examples. */
const EQUAL = { equalBatches: true } as const;

/** Makes something that is exchanged as this gradient is. */
function like(gradient: GraphNode): () => AnyTensor {
  const values = ({ shape, dtype }: TensorType): AnyTensor =>
    isFloat(dtype) ? randn(shape, { dtype: dtype as typeof f32 }) : zeros(shape, { dtype });
  if (!SummedRows.of(gradient, membership().world.ranks)) {
    const made = values(gradient.type);
    return () => made;
  }
  const { op, arg } = callOf(gradient);
  const made = gradient.src.map(({ type }) => values(type));
  return () => tensorOf(b.call(op, made.map(nodeOf), arg));
}

const { network, batches, calls, rounds, device } = JSON.parse(process.argv[2]!) as ScalingJob;
if (device) useDevice(device);
await distributed.init();
manualSeed(0);
const { program, options, sharded } = SCALING_NETWORKS[network]!;

/** Lets each parameter be updated on one rank, but for tables of embeddings. */
function shard<O extends optim.Optimizer<optim.BaseSettings>>(optimizer: O, model: nn.Module): O {
  const tables = [...model.namedModules()].flatMap(([, m]) => (m instanceof nn.Embedding ? [m.weight] : []));
  distributed.shardOptimizer(optimizer, { averages: true, replicated: tables });
  return optimizer;
}

/** Updates nothing. */
class Still extends optim.Optimizer<optim.BaseSettings> {
  protected initialState(): Record<string, Tensor> {
    return {};
  }

  protected update({ parameter: value }: optim.Update<optim.BaseSettings>) {
    return { value, state: {} };
  }
}

/** The exchanges of a step alone, of such gradients. */
function exchangesAlone(made: readonly (() => AnyTensor)[]): () => void {
  if (sharded) {
    const model = program.build();
    const parameters = model.parameters();
    const still = shard(
      new Still(parameters, { lr: 0 }, { lr: { must: 'a number', holds: () => true } }),
      model,
    );
    const run = jit(() => {
      for (const [i, p] of parameters.entries()) p.grad = made[i]!().detach() as Tensor;
      still.step();
      return parameters[0]!.reshape([-1]).at('0:1');
    });
    return () => run().dispose();
  }
  const run = jit(() => {
    const sums = sumInBuckets(
      made.map((make) => make()),
      EQUAL,
    );
    // An element of the last exchange, which the others and those of rows come before: nothing is copied out of them, and no rows
    // are added up.
    const nodes = sums.map(nodeOf);
    return tensorOf(nodes.find(({ op }) => op !== 'call') ?? nodes[0]!.src[0]!)
      .reshape([-1])
      .at('0:1');
  });
  return () => run().dispose();
}

for (const batchSize of batches) {
  const settings = { ...options, batchSize, batches: 1 };
  let gradients: readonly GraphNode[] = [];
  const exchange = (parameters: readonly Tensor[]): void => {
    gradients = parameters.map(({ grad }) => nodeOf(grad!));
    if (!sharded) distributed.averageGradients(parameters, EQUAL);
  };
  const optimizer: typeof options.optimizer = (parameters, model) => {
    const made = options.optimizer(parameters, model);
    return sharded ? shard(made, model) : made;
  };
  const step = new TrainingSteps(program, { ...settings, optimizer, exchange });
  const compute = new TrainingSteps(program, settings);
  step.again();
  const alone = exchangesAlone(gradients.map(like));
  const work = { step: () => step.again(), compute: () => compute.again(), exchange: alone };
  const times = { step: [] as number[], compute: [] as number[], exchange: [] as number[] };
  for (let round = -WARM_UP; round < rounds; round++)
    for (const [name, run] of Object.entries(work) as [keyof typeof work, () => void][]) {
      if (distributed.worldSize() === 1 && name !== 'step') continue;
      await distributed.barrier();
      const us = await time(() => {
        for (let i = 0; i < calls; i++) run();
      });
      if (round >= 0) times[name].push(us / calls);
    }
  const sizes = step.shapes.map((shape) => 4 * sizeOf(shape)).reverse();
  const buckets = bucketsOf(sizes).map((bucket) => bucket.reduce((sum, i) => sum + sizes[i]!, 0));
  if (distributed.rank() === 0)
    process.stdout.write(
      `${JSON.stringify({ batch: batchSize, ...times, buckets } satisfies ScalingReport)}\n`,
    );
  for (const one of [step, compute]) one.dispose();
}
await distributed.close();
