/** A model on data, without training. */
import { f32 } from '../core/dtype.js';
import type { Loader } from '../data/index.js';
import type { Module } from '../nn/index.js';
import { stack, tensor } from '../tensor/create.js';
import { type Jitted, jit } from '../tensor/jit.js';
import { noGrad } from '../tensor/modes.js';
import type { Tensor } from '../tensor/tensor.js';
import { Inputs } from './inputs.js';
import type { Metric } from './metrics.js';
import { Turns } from './turns.js';

/** Loss of a batch, a scalar, from the model's outputs and the labels (N), i32. `crossEntropy` is one. */
export type Loss = (outputs: Tensor, labels: Tensor) => Tensor;

/** Whether a loss is a batch's mean (default) or its sum. */
export type LossReduction = 'mean' | 'sum';

export interface EvaluateOptions {
  readonly loss: Loss;
  readonly lossReduction?: LossReduction;
  readonly metrics?: Readonly<Record<string, Metric>>;
  /** Stops between two batches. */
  readonly signal?: AbortSignal | undefined;
}

/** Means over all examples. */
export interface Evaluation {
  readonly loss: number;
  readonly metrics: Readonly<Record<string, number>>;
  readonly examples: number;
  readonly seconds: number;
}

/** Evaluates one model again and again with the same compiled program. */
export class Evaluator {
  readonly #model: Module;
  readonly #options: EvaluateOptions;
  readonly #names: readonly string[];
  /** Sums over the examples seen: of the loss, then of each metric. */
  readonly #sums: Tensor;
  readonly #add: Jitted<[Tensor, Tensor], null>;

  constructor(model: Module, options: EvaluateOptions) {
    const { loss, lossReduction = 'mean', metrics = {} } = options;
    this.#model = model;
    this.#options = options;
    this.#names = Object.keys(metrics);
    this.#sums = tensor(new Float32Array(1 + this.#names.length));
    this.#add = jit((inputs: Tensor, labels: Tensor) => {
      noGrad(() => {
        const outputs = model.forward(inputs);
        const value = loss(outputs, labels);
        const total = lossReduction === 'mean' ? value.mul(inputs.shape[0]!) : value;
        const counts = Object.values(metrics).map((metric) => metric(outputs, labels));
        this.#sums.assign(this.#sums.add(stack([total, ...counts].map((sum) => sum.cast(f32)))));
      });
      return null;
    });
  }

  /** In evaluation mode; the model's mode is put back afterwards. */
  async run(loader: Loader): Promise<Evaluation> {
    const start = performance.now();
    const inputs = new Inputs(loader.dataset);
    const turns = new Turns();
    const { training } = this.#model;
    this.#model.eval();
    let examples = 0;
    try {
      this.#sums.write(new Float32Array(this.#sums.size));
      loader.epoch = 0;
      for await (const batch of loader) {
        if (this.#options.signal?.aborted) break;
        const held = inputs.write(batch);
        this.#add(held.inputs, held.labels);
        examples += batch.size;
        await turns.next();
      }
      const [loss, ...sums] = Array.from((await this.#sums.data()) as Float32Array, (sum) => sum / examples);
      const metrics = Object.fromEntries(this.#names.map((name, i) => [name, sums[i]!]));
      return { loss: loss!, metrics, examples, seconds: (performance.now() - start) / 1000 };
    } finally {
      this.#model.train(training);
      inputs.dispose();
    }
  }

  dispose(): void {
    this.#add.dispose();
    this.#sums.dispose();
  }
}

/** Loss and metrics of a model on data, as means over the examples; in evaluation mode, without gradients. */
export async function evaluate(model: Module, loader: Loader, options: EvaluateOptions): Promise<Evaluation> {
  const evaluator = new Evaluator(model, options);
  try {
    return await evaluator.run(loader);
  } finally {
    evaluator.dispose();
  }
}
