/** A rank of `heddle bench scaling`. The first prints what it has measured, a line for each batch. */
import { jit, manualSeed, randn, time, useDevice } from 'heddle';
import * as distributed from 'heddle/distributed';
import { TrainingSteps } from 'heddle/internal/cli/training-steps.js';
import { bucketsOf, sumInBuckets } from 'heddle/internal/distributed/data-parallel.js';
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
  /** Bytes of the gradients that are exchanged at a time, in this order. */
  readonly buckets: readonly number[];
}

const WARM_UP = 3;

const { network, batches, calls, rounds, device } = JSON.parse(process.argv[2]!) as ScalingJob;
if (device) useDevice(device);
await distributed.init();
manualSeed(0);
const { program, options } = SCALING_NETWORKS[network]!;

for (const batchSize of batches) {
  const settings = { ...options, batchSize, batches: 1 };
  const exchange = (parameters: Parameters<typeof distributed.averageGradients>[0]): void =>
    distributed.averageGradients(parameters);
  const step = new TrainingSteps(program, { ...settings, exchange });
  const compute = new TrainingSteps(program, settings);
  const gradients = step.shapes.map((shape) => randn(shape));
  // An element of the last exchange, which the others come before: nothing is copied out of them.
  const sum = jit(() => sumInBuckets(gradients)[0]!.reshape([-1]).at('0:1'));
  const work = { step: () => step.again(), compute: () => compute.again(), exchange: () => sum().dispose() };
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
  const sizes = gradients.map(({ size }) => 4 * size);
  const buckets = bucketsOf(sizes).map((bucket) => bucket.reduce((sum, i) => sum + sizes[i]!, 0));
  if (distributed.rank() === 0)
    process.stdout.write(
      `${JSON.stringify({ batch: batchSize, ...times, buckets } satisfies ScalingReport)}\n`,
    );
  for (const one of [step, compute]) one.dispose();
}
await distributed.close();
