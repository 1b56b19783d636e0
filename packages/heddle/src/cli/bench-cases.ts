/** The workloads of `heddle bench cpu`. */
import { i32 } from '../core/dtype.js';
import { PhiloxStream } from '../core/philox.js';
import {
  crossEntropy,
  type Jitted,
  type JitValue,
  jit,
  optim,
  PROGRAMS,
  type ProgramName,
  rand,
  type Tensor,
  tensor,
} from '../index.js';

export interface BenchCase {
  /** In words separated by hyphens; the first is its group. */
  readonly id: string;
  readonly title: string;
  /** What one run does, for a rate. */
  readonly work?: { readonly amount: number; readonly unit: 'GFLOP/s' | 'GB/s' };
  /** Measured with fused multiply-add switched off, too. */
  readonly withoutFma?: true;
  readonly prepare: () => Prepared;
}

/** A workload with its data in place. */
export interface Prepared {
  /** Once, to the end. */
  run(): void;
  /** Kernel launches of the last run. */
  readonly launches: number;
  dispose(): void;
}

const BATCH = 64;
/** More batches than the caches remember. */
const BATCHES = 16;

/** The optimizers that the peers' scripts use. */
const TRAINING = {
  mlp: { title: 'mlp, batch 64, SGD', optimizer: (p: Tensor[]) => new optim.SGD(p, { lr: 0.1 }) },
  lenet5: { title: 'lenet5, batch 64, Adam', optimizer: (p: Tensor[]) => new optim.Adam(p, { lr: 1e-3 }) },
  cnn: { title: 'cnn, batch 64, SGD', optimizer: (p: Tensor[]) => new optim.SGD(p, { lr: 0.05 }) },
} as const;

/** A network that trains on random images with random labels, one step at each call. */
export class TrainingSteps {
  readonly #batches: readonly { readonly inputs: Float32Array; readonly labels: Int32Array }[];
  readonly #inputs: Tensor;
  readonly #labels: Tensor;
  readonly #step: Jitted<[Tensor, Tensor], Tensor>;
  #steps = 0;

  constructor(name: keyof typeof TRAINING, batches = BATCHES) {
    const random = new PhiloxStream(1);
    this.#batches = Array.from({ length: batches }, () => ({
      inputs: Float32Array.from({ length: BATCH * 784 }, () => random.uniform()),
      labels: Int32Array.from({ length: BATCH }, () => random.below(10)),
    }));
    const { inputs, labels } = this.#batches[0]!;
    this.#inputs = tensor(inputs, { shape: [BATCH, 1, 28, 28] });
    this.#labels = tensor(labels, { dtype: i32 });
    const model = PROGRAMS[name satisfies ProgramName].build();
    const optimizer = TRAINING[name].optimizer(model.parameters());
    this.#step = jit((x: Tensor, y: Tensor) => {
      const loss = crossEntropy(model.forward(x), y);
      loss.backward();
      optimizer.step();
      return loss;
    });
  }

  /** Write the next batch and train on it; returns the loss. */
  next(): Tensor {
    const { inputs, labels } = this.#batches[this.#steps++ % this.#batches.length]!;
    return this.#step(this.#inputs.write(inputs), this.#labels.write(labels));
  }

  run(): void {
    this.next().dispose();
  }

  get launches(): number {
    return this.#step.launches;
  }

  dispose(): void {
    this.#step.dispose();
    this.#inputs.dispose();
    this.#labels.dispose();
  }
}

/** A function of tensors, compiled, on random numbers. Its result's memory is used again by the next run. */
function compiled(fn: (...inputs: Tensor[]) => Tensor, ...shapes: readonly (readonly number[])[]): Prepared {
  const inputs = shapes.map((shape) => rand(shape).realize());
  const f = jit(fn as (...args: JitValue[]) => Tensor);
  return {
    run: () => f(...inputs).dispose(),
    get launches() {
      return f.launches;
    },
    dispose: () => {
      f.dispose();
      for (const input of inputs) input.dispose();
    },
  };
}

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
      prepare: () => compiled((a, b) => product(a!, b!), [n, n], [n, n]),
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
      prepare: () => new TrainingSteps(name as keyof typeof TRAINING),
    }),
  ),
  ...matmuls,
  {
    id: 'softmax',
    title: 'softmax of the rows, 4096 × 4096',
    work: passes,
    prepare: () => compiled((x) => x!.softmax(1), [SIDE, SIDE]),
  },
  {
    id: 'elementwise',
    title: 'x·2 + 1, 16 M elements',
    work: passes,
    prepare: () => compiled((x) => x!.mul(2).add(1), [SIDE ** 2]),
  },
];

/** Measured on whole processes. */
export const PROCESS_CASES = [
  { id: 'startup', title: 'process start to first finished step (mlp)', unit: 'ms' },
  { id: 'memory', title: 'peak memory of training cnn on MNIST', unit: 'MiB' },
] as const;
