/** A model on data, without training. */
import {
  aBoolean,
  aFunction,
  instance,
  integerFrom,
  isThenable,
  oneOf,
  type Rule,
  type Rules,
  recordOf,
  requireArgument,
  required,
  requireOptions,
  shown,
} from '../core/arguments.js';
import { bf16, f16, f64 } from '../core/dtype.js';
import { ArgumentError, ShapeError } from '../core/errors.js';
import { formatShape, type Shape } from '../core/shape.js';
import { type AnyDataset, type Batched, Loader, type LoaderOf } from '../data/index.js';
import { Module } from '../nn/index.js';
import { autocast } from '../tensor/autocast.js';
import { cat, tensor } from '../tensor/create.js';
import { noGrad } from '../tensor/modes.js';
import { type AnyTensor, Tensor } from '../tensor/tensor.js';
import { currentWorld } from '../tensor/world.js';
import { feedOf } from './choose-feed.js';
import type { BatchWork, Feed } from './feed.js';
import type { Metric, SummedMetric } from './metrics.js';
import { Turns } from './turns.js';

/**
 * Loss of a batch, a scalar, from the model's outputs and the targets, both as they are: those of an `ArrayDataset` are
 * labels (N), i32. `crossEntropy` is one.
 */
export type Loss<Outputs = Tensor, Targets = Tensor> = (outputs: Outputs, targets: Targets) => AnyTensor;

/** A module that can be trained: it takes a batch's inputs, and may return anything that the loss can judge. */
export interface Model<Outputs = unknown> extends Module {
  /** Computes the model's outputs. If the inputs are an array, each is an argument. */
  forward(...inputs: never[]): Outputs;
}

/** @internal */
export function outputsOf(model: Module, inputs: Batched): unknown {
  const forward = model.forward as (...inputs: readonly unknown[]) => unknown;
  return Array.isArray(inputs) ? forward.apply(model, inputs) : forward.call(model, inputs);
}

/** The dtype of products in mixed precision. */
export type AutocastName = 'bf16' | 'f16';

/** @internal `body` in mixed precision, where it is asked for. */
export const inPrecision = <T>(name: AutocastName | undefined, body: () => T): T =>
  name === undefined ? body() : autocast(name === 'f16' ? f16 : bf16, body);

/** Whether a loss is a batch's mean (default) or its sum. */
export type LossReduction = 'mean' | 'sum';

/** Options of `evaluate`. */
export interface EvaluateOptions<Outputs = Tensor, Targets = Tensor> {
  /** Compares the model's outputs with the targets. */
  readonly loss: Loss<Outputs, Targets>;
  /** Whether `loss` gives the mean over a batch (default) or the sum. */
  readonly lossReduction?: LossReduction;
  /** More to measure, by name. */
  readonly metrics?: Readonly<Record<string, Metric<Outputs, Targets>>>;
  /** Mixed precision: model, loss and metrics are computed as within `autocast` of this dtype. Default: off. */
  readonly autocast?: AutocastName | undefined;
  /**
   * Keep the data set in the memory of the device and gather batches there: every example is read once, without the
   * loader's workers. Default: on a GPU, an ArrayDataset of up to 1 GiB that makes batches of its arrays as they are.
   */
  readonly resident?: boolean | undefined;
  /** Stops between two batches. */
  readonly signal?: AbortSignal | undefined;
}

/** @internal */
export const aLoader: Rule = instance(Loader, 'a Loader, such as new Loader(dataset, { batchSize: 64 })');
/** @internal */
export const aLayer: Rule = {
  must: 'a module with a forward method, such as nn.Sequential',
  holds: (v) => v instanceof Module && typeof v.forward === 'function',
};
const aMetric: Rule = {
  must: 'a function, or an object with size, sums and result',
  holds: (v) => {
    if (aFunction.holds(v)) return true;
    const { size, sums, result } = (v ?? {}) as Partial<SummedMetric>;
    return integerFrom(1).holds(size) && aFunction.holds(sums) && aFunction.holds(result);
  },
};
/** @internal */
export const EVALUATE: Rules<EvaluateOptions> = {
  loss: required(aFunction),
  lossReduction: oneOf('mean', 'sum'),
  metrics: recordOf(aMetric, 'an object of metrics by name, such as { accuracy, top5: metrics.topK(5) }'),
  autocast: oneOf('bf16', 'f16'),
  resident: aBoolean,
  signal: instance(AbortSignal, 'an AbortSignal'),
};

/**
 * @internal What a user's function made of a batch: one number, as a scalar.
 * @throws ArgumentError, ShapeError
 */
export function scalarOf(op: string, what: string, value: unknown): Tensor {
  if (isThenable(value)) {
    // Its failure is not a second error.
    value.then(undefined, () => {});
    throw new ArgumentError(
      `[${op}] ${what} is async: it is traced, and nothing can be awaited in it. Return the tensor instead.`,
    );
  }
  if (!(value instanceof Tensor))
    throw new ArgumentError(`[${op}] ${what} returns ${shown(value)}, must return a tensor of one element.`);
  if (value.size !== 1)
    throw new ShapeError(
      `[${op}] ${what} returns a tensor of shape ${formatShape(value.shape)}, must return one element. Reduce it: .mean() or .sum().`,
    );
  return value.reshape([]);
}

/** A function's sum over the examples of a batch is one of which the mean is taken. */
function summed(name: string, metric: Metric): SummedMetric {
  if (typeof metric === 'function')
    return {
      size: 1,
      sums: (outputs, targets) => scalarOf('evaluate', `metric '${name}'`, metric(outputs, targets)),
      result: ([sum], examples) => sum! / examples,
    };
  const sums: SummedMetric['sums'] = (outputs, targets) => {
    const value: unknown = metric.sums(outputs, targets);
    if (value instanceof Tensor && value.size === metric.size) return value;
    throw new ArgumentError(
      `[evaluate] metric '${name}': sums gives ${shown(value)}, must give a tensor of ${metric.size} elements.`,
    );
  };
  return { ...metric, sums };
}

/** Means over all examples. */
export interface Evaluation {
  /** The mean over all examples. */
  readonly loss: number;
  /** Each metric over all examples. */
  readonly metrics: Readonly<Record<string, number>>;
  /** The metrics that are tables, such as a confusion matrix; absent if there are none. */
  readonly tables?: Readonly<Record<string, readonly (readonly number[])[]>>;
  /** How many examples were seen. */
  readonly examples: number;
  /** The time it took. */
  readonly seconds: number;
}

/** Evaluates one model on one data set, again and again with the same compiled program. */
export class ModelEvaluator {
  readonly #model: Module;
  /** Of several ranks, this one's part. */
  readonly #loader: Loader<AnyDataset>;
  readonly #world = currentWorld();
  readonly #options: EvaluateOptions;
  readonly #metrics: readonly (readonly [name: string, metric: SummedMetric])[];
  /** Sums over the examples seen, f64: of the loss, then of each metric. */
  readonly #sums: Tensor<Shape, 'f64'>;
  readonly #feed: Feed;

  /** @param tune how kernels are chosen: see `JitOptions` */
  constructor(
    model: Module,
    loader: Loader<AnyDataset>,
    options: EvaluateOptions,
    tune: 'on' | 'frozen' = 'on',
  ) {
    const { loss, lossReduction = 'mean', metrics = {}, resident } = options;
    this.#model = model;
    const world = this.#world;
    this.#loader = world ? loader.shard(world.rank, world.size) : loader;
    this.#options = options;
    this.#metrics = Object.entries(metrics).map(([name, metric]) => [name, summed(name, metric)] as const);
    const size = this.#metrics.reduce((sum, [, metric]) => sum + metric.size, 1);
    this.#sums = tensor(new Float64Array(size));
    const work: BatchWork = (inputs, targets, size) =>
      noGrad(() => {
        if (size === 0) return;
        const labels = targets as Tensor;
        const [value, sums] = inPrecision(options.autocast, () => {
          const outputs = outputsOf(model, inputs) as Tensor;
          return [
            scalarOf('evaluate', 'loss', loss(outputs, labels)),
            this.#metrics.map(([, metric]) => metric.sums(outputs, labels)),
          ];
        });
        const total = lossReduction === 'mean' ? value.mul(size) : value;
        this.#sums.assign(this.#sums.add(cat([total, ...sums].map((sum) => sum.cast(f64).reshape([-1])))));
      });
    this.#feed = feedOf(this.#loader, work, { resident, tune });
  }

  /** In evaluation mode, from the loader's first epoch; the modules' modes and the loader's epoch are put back. */
  async run(): Promise<Evaluation> {
    const start = performance.now();
    const turns = new Turns();
    const restore = evaluationMode(this.#model);
    const { epoch } = this.#loader;
    let examples = 0;
    try {
      this.#sums.write(new Float64Array(this.#sums.size));
      for await (const chunk of this.#feed.chunks(0, 0, () => Number.POSITIVE_INFINITY)) {
        if (this.#options.signal?.aborted && !this.#world) break;
        chunk.run();
        examples += chunk.examples;
        await turns.next();
      }
      const all = this.#world?.sum([this.#sums])[0] ?? this.#sums;
      const [loss, ...sums] = (await all.data()) as Float64Array;
      const results = this.#metrics.map(
        ([name, { size, result }]) => [name, result(sums.splice(0, size), examples)] as const,
      );
      const metrics = Object.fromEntries(
        results.flatMap(([name, v]) => (typeof v === 'number' ? [[name, v]] : [])),
      );
      const tables = Object.fromEntries(
        results.flatMap(([name, v]) => (typeof v === 'number' ? [] : [[name, v]])),
      );
      return {
        ...{ loss: loss! / examples, metrics, examples },
        ...(Object.keys(tables).length > 0 && { tables }),
        seconds: (performance.now() - start) / 1000,
      };
    } finally {
      restore();
      this.#loader.epoch = epoch;
    }
  }

  /** Compile what a run needs, ahead of it. */
  prepare(): void {
    const restore = evaluationMode(this.#model);
    try {
      this.#feed.prepare?.('all');
    } finally {
      restore();
    }
  }

  dispose(): void {
    this.#feed.dispose();
    if (this.#world) this.#loader.dispose();
    this.#sums.dispose();
  }
}

/** @returns puts every module back into the mode it was in */
function evaluationMode(model: Module): () => void {
  const modes = [...model.namedModules()].map(([, module]) => [module, module.training] as const);
  model.eval();
  return () => {
    for (const [module, training] of modes) module.training = training;
  };
}

/**
 * Loss and metrics of a model on data, as means over the examples; in evaluation mode, without gradients. Where several
 * processes train together, all call it: each takes its part of every batch, and all get the figures of all examples. The
 * signal then does not cut it short.
 */
export async function evaluate<Outputs = Tensor, Targets = Tensor>(
  model: Model<Outputs>,
  loader: LoaderOf<Targets>,
  options: EvaluateOptions<Outputs, Targets>,
): Promise<Evaluation> {
  requireArgument('evaluate', 'model', model, aLayer);
  requireArgument('evaluate', 'loader', loader, aLoader);
  const untyped = options as unknown as EvaluateOptions;
  requireOptions('evaluate', untyped, EVALUATE);
  const evaluator = new ModelEvaluator(model, loader, untyped);
  try {
    return await evaluator.run();
  } finally {
    evaluator.dispose();
  }
}
