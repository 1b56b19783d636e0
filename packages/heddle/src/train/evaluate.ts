/** A model on data, without training. */
import { f32 } from '../core/dtype.js';
import type { Loader } from '../data/index.js';
import type { Module } from '../nn/index.js';
import { stack, tensor } from '../tensor/create.js';
import { noGrad } from '../tensor/modes.js';
import type { Tensor } from '../tensor/tensor.js';
import { type Feed, feedOf } from './feed.js';
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
  /**
   * Keep the data set in the memory of the device and gather batches there. Default: on a GPU, up to 1 GiB. Batches
   * then come from the data set itself, without the loader's workers.
   */
  readonly resident?: boolean | undefined;
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

/** Evaluates one model on one data set, again and again with the same compiled program. */
export class Evaluator {
  readonly #model: Module;
  readonly #options: EvaluateOptions;
  readonly #names: readonly string[];
  /** Sums over the examples seen: of the loss, then of each metric. */
  readonly #sums: Tensor;
  readonly #feed: Feed;

  /** @param tune how kernels are chosen: see `JitOptions` */
  constructor(model: Module, loader: Loader, options: EvaluateOptions, tune: 'on' | 'frozen' = 'on') {
    const { loss, lossReduction = 'mean', metrics = {}, resident } = options;
    this.#model = model;
    this.#options = options;
    this.#names = Object.keys(metrics);
    this.#sums = tensor(new Float32Array(1 + this.#names.length));
    const work = (inputs: Tensor, labels: Tensor): void =>
      noGrad(() => {
        const outputs = model.forward(inputs);
        const value = loss(outputs, labels);
        const total = lossReduction === 'mean' ? value.mul(inputs.shape[0]!) : value;
        const counts = Object.values(metrics).map((metric) => metric(outputs, labels));
        this.#sums.assign(this.#sums.add(stack([total, ...counts].map((sum) => sum.cast(f32)))));
      });
    this.#feed = feedOf(loader, work, { resident, tune });
  }

  /** In evaluation mode; the model's mode is put back afterwards. */
  async run(): Promise<Evaluation> {
    const start = performance.now();
    const turns = new Turns();
    const { training } = this.#model;
    this.#model.eval();
    let examples = 0;
    try {
      this.#sums.write(new Float32Array(this.#sums.size));
      for await (const chunk of this.#feed.chunks(0)) {
        if (this.#options.signal?.aborted) break;
        chunk.run();
        examples += chunk.examples;
        await turns.next();
      }
      const [loss, ...sums] = Array.from((await this.#sums.data()) as Float32Array, (sum) => sum / examples);
      const metrics = Object.fromEntries(this.#names.map((name, i) => [name, sums[i]!]));
      return { loss: loss!, metrics, examples, seconds: (performance.now() - start) / 1000 };
    } finally {
      this.#model.train(training);
    }
  }

  /** Compile what a run needs, ahead of it. */
  prepare(): void {
    const { training } = this.#model;
    this.#model.eval();
    try {
      this.#feed.prepare?.('all');
    } finally {
      this.#model.train(training);
    }
  }

  dispose(): void {
    this.#feed.dispose();
    this.#sums.dispose();
  }
}

/** Loss and metrics of a model on data, as means over the examples; in evaluation mode, without gradients. */
export async function evaluate(model: Module, loader: Loader, options: EvaluateOptions): Promise<Evaluation> {
  const evaluator = new Evaluator(model, loader, options);
  try {
    return await evaluator.run();
  } finally {
    evaluator.dispose();
  }
}
