/** A rank of `heddle bench scaling`. The first prints what it has measured. */
import {
  crossEntropy,
  i32,
  jit,
  manualSeed,
  optim,
  randint,
  randn,
  type Tensor,
  time,
  useDevice,
} from 'heddle';
import * as distributed from 'heddle/distributed';
import { programNamed } from 'heddle/internal/train/programs.js';

export interface ScalingJob {
  readonly network: string;
  /** Examples of this rank. */
  readonly batch: number;
  readonly inputShape: readonly number[];
  readonly rounds: number;
  readonly device: string | undefined;
}

/** In µs, a number for each round. */
export interface ScalingReport {
  /** A training step. */
  readonly step: readonly number[];
  /** The same without the exchange of gradients. */
  readonly compute: readonly number[];
  /** The exchange alone. */
  readonly exchange: readonly number[];
}

/** Calls of which a round takes the mean. */
const CALLS = 5;
const WARM_UP = 2;
const CLASSES = 10;

const { network, batch, inputShape, rounds, device } = JSON.parse(process.argv[2]!) as ScalingJob;
if (device) useDevice(device);
await distributed.init();
manualSeed(0);
const x = randn([batch, ...inputShape]);
const y = randint(0, CLASSES, [batch], { dtype: i32 });

/** Each has its own model: a step changes the weights in place. */
function training(exchanges: boolean): () => void {
  const model = programNamed(network).build(undefined, { inputShape, classes: CLASSES });
  const optimizer = new optim.Adam(model.parameters(), { lr: 1e-3 });
  return jit(() => {
    crossEntropy((model.forward as (x: Tensor) => Tensor).call(model, x as unknown as Tensor), y).backward();
    if (exchanges) distributed.averageGradients(model.parameters());
    optimizer.step();
  });
}
const gradients = programNamed(network)
  .build(undefined, { inputShape, classes: CLASSES })
  .parameters()
  .map(({ shape }) => randn(shape));
const work: Readonly<Record<keyof ScalingReport, () => void>> = {
  step: training(true),
  compute: training(false),
  exchange: jit(() => distributed.allReduce(gradients)),
};
const report = { step: [] as number[], compute: [] as number[], exchange: [] as number[] };
for (let round = -WARM_UP; round < rounds; round++)
  for (const [name, run] of Object.entries(work) as [keyof ScalingReport, () => void][]) {
    await distributed.barrier();
    const us = await time(() => {
      for (let i = 0; i < CALLS; i++) run();
    });
    if (round >= 0) report[name].push(us / CALLS);
  }
if (distributed.rank() === 0) process.stdout.write(JSON.stringify(report satisfies ScalingReport));
await distributed.close();
