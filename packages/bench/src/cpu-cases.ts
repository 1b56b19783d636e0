/** The workloads of `heddle bench cpu`. */

import { optim, rand, type Tensor } from 'heddle';
import { TrainingSteps } from 'heddle/internal/cli/training-steps.js';
import { compiled, type Workload } from 'heddle/internal/cli/workload.js';
import { PROGRAMS } from 'heddle/train';

export interface BenchCase {
  /** In words separated by hyphens; the first is its group. */
  readonly id: string;
  readonly title: string;
  /** What one run does, for a rate. */
  readonly work?: { readonly amount: number; readonly unit: 'GFLOP/s' | 'GB/s' };
  /** Measured with fused multiply-add switched off, too. */
  readonly withoutFma?: true;
  readonly prepare: () => Workload;
}

const BATCH = 64;

/** The optimizers that the peers' scripts use. */
const TRAINING = {
  mlp: { title: 'mlp, batch 64, SGD', optimizer: (p: Tensor[]) => new optim.SGD(p, { lr: 0.1 }) },
  lenet5: { title: 'lenet5, batch 64, Adam', optimizer: (p: Tensor[]) => new optim.Adam(p, { lr: 1e-3 }) },
  cnn: { title: 'cnn, batch 64, SGD', optimizer: (p: Tensor[]) => new optim.SGD(p, { lr: 0.05 }) },
} as const;

export type TrainingName = keyof typeof TRAINING;

/** Steps of 64 images. @param batches how many batches take turns */
export const trainingSteps = (name: TrainingName, batches?: number): TrainingSteps =>
  new TrainingSteps(PROGRAMS[name], {
    optimizer: TRAINING[name].optimizer,
    batchSize: BATCH,
    ...(batches !== undefined && { batches }),
  });

/** A function of uniform random tensors. */
const onRandom = (fn: (...inputs: Tensor[]) => Tensor, ...shapes: readonly (readonly number[])[]): Workload =>
  compiled(
    fn,
    shapes.map((shape) => rand(shape).realize()),
  );

const PRODUCTS = {
  ab: { title: 'A·B', product: (a: Tensor, b: Tensor) => a.matmul(b) },
  abt: { title: 'A·Bᵀ', product: (a: Tensor, b: Tensor) => a.matmul(b.transpose()) },
  atb: { title: 'Aᵀ·B', product: (a: Tensor, b: Tensor) => a.transpose().matmul(b) },
} as const;

const matmuls = [512, 1024, 2048].flatMap((n) =>
  Object.entries(PRODUCTS).map(
    ([name, { title, product }]): BenchCase => ({
      id: `matmul-${n}-${name}`,
      title: `matmul ${n}³, ${title}`,
      work: { amount: 2 * n ** 3, unit: 'GFLOP/s' },
      withoutFma: true,
      prepare: () => onRandom((a, b) => product(a!, b!), [n, n], [n, n]),
    }),
  ),
);

const SIDE = 4096;
/** One read and one write of every element. */
const passes = { amount: 2 * 4 * SIDE ** 2, unit: 'GB/s' } as const;

export const CASES: readonly BenchCase[] = [
  ...Object.entries(TRAINING).map(
    ([name, { title }]): BenchCase => ({
      id: name,
      title: `${title}: a training step`,
      prepare: () => trainingSteps(name as TrainingName),
    }),
  ),
  ...matmuls,
  {
    id: 'softmax',
    title: 'softmax of the rows, 4096 × 4096',
    work: passes,
    prepare: () => onRandom((x) => x!.softmax(1), [SIDE, SIDE]),
  },
  {
    id: 'elementwise',
    title: 'x·2 + 1, 16 M elements',
    work: passes,
    prepare: () => onRandom((x) => x!.mul(2).add(1), [SIDE ** 2]),
  },
];

/** Measured on whole processes. */
export const PROCESS_CASES = [
  { id: 'startup', title: 'process start to first finished step (mlp)', unit: 'ms' },
  { id: 'memory', title: 'peak memory of training cnn on MNIST', unit: 'MiB' },
] as const;
