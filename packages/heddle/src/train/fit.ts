/** The training loop. */
import {
  instance,
  integerFrom,
  type Rules,
  requireArgument,
  required,
  requireOptions,
} from '../core/arguments.js';
import { f32, f64, i32 } from '../core/dtype.js';
import { ArgumentError, NumericError } from '../core/errors.js';
import type { Loader } from '../data/index.js';
import type { Layer } from '../nn/index.js';
import { type BaseSettings, type LrSchedule, type LrSpan, Optimizer } from '../optim/index.js';
import { aSchedule } from '../optim/lr-schedule.js';
import { stack, tensor } from '../tensor/create.js';
import { noGrad } from '../tensor/modes.js';
import { type Callback, type EpochReport, type History, monitored, requireCallback } from './callbacks.js';
import { feedOf } from './choose-feed.js';
import { firstNonFinite } from './diagnose.js';
import {
  aLayer,
  aLoader,
  EVALUATE,
  type EvaluateOptions,
  type Evaluation,
  type Loss,
  type LossReduction,
  ModelEvaluator,
  scalarOf,
} from './evaluate.js';
import type { BatchWork, Feed } from './feed.js';
import { Inputs } from './inputs.js';
import { Snapshot } from './snapshot.js';
import { Turns } from './turns.js';

/** Options of `fit`. */
export interface FitOptions extends EvaluateOptions {
  /** Its epochs are those from `train.epoch` on, which is left at the one to come. */
  readonly train: Loader;
  /** Evaluated after every epoch, if given. */
  readonly validation?: Loader | undefined;
  /** Updates the model's parameters. */
  readonly optimizer: Optimizer<BaseSettings>;
  /** How often all examples are seen. */
  readonly epochs: number;
  /**
   * The learning rates' factors, such as `optim.schedules.cosine()`. The rates are put back afterwards.
   * Default: none, the rates are the optimizer's, which callbacks may change.
   */
  readonly schedule?: LrSchedule | undefined;
  /** Told about the training as it goes. */
  readonly callbacks?: readonly Callback[] | undefined;
  /** Steps between two readings of the loss, at least (default 16): reading waits for the device. */
  readonly readEvery?: number;
  /** Ends the training after the steps under way, with everything whole. */
  readonly signal?: AbortSignal | undefined;
}

const RULES: Rules<FitOptions> = {
  ...EVALUATE,
  train: required(aLoader),
  validation: aLoader,
  optimizer: required(
    instance(Optimizer, 'an optimizer, such as new optim.SGD(model.parameters(), { lr: 0.1 })'),
  ),
  epochs: required(integerFrom(1)),
  schedule: aSchedule,
  callbacks: { must: 'an array of callbacks', holds: Array.isArray },
  readEvery: integerFrom(1),
};

/** The largest f32: anything larger, or NaN, aborts training. */
const MAX_FINITE = 3.4028234663852886e38;

/** A value on its way. If it fails, that is met where it is awaited, which may be later. */
function underway<T>(value: Promise<T>): Promise<T> {
  value.catch(() => {});
  return value;
}

/** Readings under way: the device has so many launches, or rounds of `readEvery` steps, to go on with. */
const AHEAD = 2;

/** The sums after a step, on their way from the device. */
interface Reading {
  readonly step: number;
  readonly examples: number;
  readonly sums: Promise<ArrayLike<number>>;
}

/**
 * Train a model. Each step is one compiled program, many steps one launch where the data set is resident; the loss
 * is read from the device every `readEvery` steps only, and awaited when the next steps are queued.
 * From the first loss that is not finite on, no weight changes any more, and training stops with an error. Every epoch
 * begins in training mode (`model.train()`). Gradients from before are forgotten.
 * @returns what happened; also when `signal` ended it: an epoch that it cut short is the last one in the history, and no
 *   callback is told of it
 * @throws NumericError naming the first layer or parameter that is not finite; the model then has its last good weights
 */
export async function fit(model: Layer, options: FitOptions): Promise<History> {
  requireArgument('fit', 'model', model, aLayer);
  requireOptions('fit', options, RULES);
  for (const callback of options.callbacks ?? []) requireCallback(callback);
  if (options.train.length === 0) throw new ArgumentError('[fit] there are no batches to train on.');
  return new Training(model, options).run();
}

class Training {
  readonly #model: Layer;
  readonly #options: FitOptions;
  readonly #feed: Feed;
  readonly #evaluator: ModelEvaluator | undefined;
  readonly #turns = new Turns();
  /** Of the loader: ours are counted from 0. */
  readonly #firstEpoch: number;
  /** The weights as they were before an epoch. */
  #last: { readonly epoch: number; readonly weights: Promise<Snapshot> };
  readonly #baseRates: readonly number[];
  /** What the schedule watches, after each epoch. */
  readonly #observed: number[] = [];
  #reschedule: () => void = () => {};
  /** Of this epoch: good steps, and the sum of the losses of their examples. f64: no step is too small to count. */
  readonly #sums = tensor([0, 0], { dtype: f64 });
  /** 1 until a loss is not finite. */
  readonly #good = tensor(1);
  /** Done when the device has the first chunks to work on. */
  readonly #preparations: (() => unknown)[];
  #steps = 0;
  #stopping: History['ended'] | undefined;

  constructor(model: Layer, options: FitOptions) {
    this.#model = model;
    this.#options = options;
    const { train, validation, loss, optimizer, lossReduction = 'mean', resident } = options;
    this.#firstEpoch = train.epoch;
    this.#last = { epoch: 0, weights: this.#weights() };
    this.#baseRates = optimizer.groups.map((group) => group.lr);
    optimizer.zeroGrad();
    const setRates = this.#schedule();
    const work: BatchWork = (inputs, labels) => {
      setRates();
      const buffers = model.buffers().map((buffer) => [buffer, buffer.detach()] as const);
      const value = scalarOf('fit', 'loss', loss(model.forward(inputs), labels));
      value.backward();
      const seen = value.detach().cast(f32);
      const good = this.#good.gt(0).and(seen.abs().le(MAX_FINITE));
      optimizer.step({ when: good });
      this.#requireAllUsed();
      noGrad(() => {
        for (const [buffer, before] of buffers) buffer.assign(good.where(buffer, before));
        const one = good.where(1, 0);
        const total = lossReduction === 'mean' ? seen.mul(inputs.shape[0]!) : seen;
        this.#sums.assign(good.where(this.#sums.add(stack([one, total]).cast(f64)), this.#sums));
        this.#good.assign(one);
      });
    };
    this.#feed = feedOf(train, work, { resident });
    this.#evaluator = validation && new ModelEvaluator(model, validation, options, 'frozen');
    this.#preparations = [() => this.#feed.prepare?.('all'), () => this.#evaluator?.prepare()];
  }

  async run(): Promise<History> {
    const { epochs, train, optimizer, schedule, callbacks = [] } = this.#options;
    const start = performance.now();
    const reports: EpochReport[] = [];
    try {
      for (const callback of callbacks) await callback.onStart?.({ epochs, steps: train.length });
      for (let epoch = 0; epoch < epochs && !this.#stopping; epoch++) {
        const trained = await this.#epoch(epoch);
        if (!trained) break;
        const weights = this.#weights();
        const validation = await this.#evaluate();
        await this.#keep(epoch, weights);
        const { steps, ...figures } = trained;
        const report = { ...figures, epoch, epochs, validation, lr: this.#lr };
        reports.push(report);
        this.#observe(report);
        const isWhole = steps === train.length && (validation || !this.#evaluator);
        if (this.#stopping === 'aborted' && !isWhole) break;
        for (const callback of callbacks) await this.#heed(callback.onEpochEnd?.(report));
      }
    } finally {
      this.#dispose();
      if (schedule)
        optimizer.groups.forEach((group, i) => {
          group.lr = this.#baseRates[i]!;
        });
    }
    const history: History = {
      epochs: reports,
      steps: this.#steps,
      seconds: (performance.now() - start) / 1000,
      ended: this.#stopping ?? 'done',
    };
    for (const callback of callbacks) await callback.onEnd?.(history);
    return history;
  }

  #dispose(): void {
    this.#evaluator?.dispose();
    this.#feed.dispose();
    this.#sums.dispose();
    this.#good.dispose();
  }

  /** @returns undefined without validation data, or if the signal cut it short */
  async #evaluate(): Promise<Evaluation | undefined> {
    const { signal } = this.#options;
    const evaluation = signal?.aborted ? undefined : await this.#evaluator?.run();
    if (!signal?.aborted) return evaluation;
    this.#stopping = 'aborted';
    return undefined;
  }

  /** @returns undefined if it was cut short before its first step */
  async #epoch(
    epoch: number,
  ): Promise<
    (Pick<EpochReport, 'loss' | 'seconds' | 'examplesPerSecond'> & { readonly steps: number }) | undefined
  > {
    const { train, callbacks = [], readEvery = 16, signal } = this.#options;
    const start = performance.now();
    const seconds = (): number => (performance.now() - start) / 1000;
    this.#model.train();
    this.#sums.write([0, 0]);
    // Kernels that are not in the cache yet are compiled together, those of all programs.
    if (epoch === 0 && this.#feed.prepare?.('full') === false)
      for (const prepare of this.#preparations.splice(0)) prepare();
    let step = 0;
    let examples = 0;
    let loss: number | undefined;
    const readings: Reading[] = [];
    let readAt = 0;
    for await (const chunk of this.#feed.chunks(this.#firstEpoch + epoch)) {
      if (signal?.aborted) this.#stopping = 'aborted';
      if (this.#stopping) break;
      chunk.run();
      this.#steps += chunk.batches;
      step += chunk.batches;
      examples += chunk.examples;
      if (readAt === 0 || step - readAt >= readEvery) {
        readings.push(this.#read(step, examples));
        readAt = step;
      }
      if (readings.length > AHEAD) {
        this.#preparations.shift()?.();
        loss = await this.#meanLoss(epoch, readings.shift()!);
      }
      const report = { epoch, step, steps: train.length, examples, loss, seconds: seconds(), lr: this.#lr };
      for (const callback of callbacks) await this.#heed(callback.onStep?.(report));
      await this.#turns.next();
    }
    if (step === 0) return undefined;
    loss = await this.#meanLoss(epoch, this.#read(step, examples));
    const took = seconds();
    return { steps: step, loss, seconds: took, examplesPerSecond: examples / took };
  }

  /** How each step sets the learning rates: from a table on the device, where steps follow each other unattended. */
  #schedule(): () => void {
    const { schedule, optimizer } = this.#options;
    if (!schedule) return () => {};
    const rates = this.#tables().map((table, i) => tensor(table, { dtype: optimizer.groups[i]!.dtype }));
    if (schedule.monitor !== undefined)
      this.#reschedule = () => {
        this.#tables().forEach((table, i) => {
          rates[i]!.write(table);
        });
      };
    const at = tensor([0], { dtype: i32 });
    return () =>
      noGrad(() => {
        optimizer.groups.forEach(({ rate }, i) => {
          rate.assign(rates[i]!.gather(0, at).reshape([]));
        });
        at.assign(at.add(1));
      });
  }

  /** The learning rate of each step, for each group, as far as they are known. @throws ArgumentError */
  #tables(): number[][] {
    const { steps } = this.#span;
    const factors = Array.from({ length: steps }, (_, step) => this.#factor(step));
    const bad = factors.findIndex((factor) => !(Number.isFinite(factor) && factor >= 0));
    if (bad >= 0)
      throw new ArgumentError(
        `[fit] the schedule gives ${factors[bad]} in step ${bad + 1} of ${steps}: must be a number ≥ 0.`,
      );
    return this.#baseRates.map((rate) => factors.map((factor) => rate * factor));
  }

  #factor(step: number): number {
    return this.#options.schedule!.factor(step, this.#span);
  }

  get #span(): LrSpan {
    const { epochs, train } = this.#options;
    return { steps: epochs * train.length, stepsPerEpoch: train.length, observed: this.#observed };
  }

  /** Tell the schedule how an epoch went, where it asks. */
  #observe(report: EpochReport): void {
    const { schedule } = this.#options;
    if (schedule?.monitor === undefined) return;
    const value = monitored('fit', report, schedule.monitor);
    this.#observed.push(schedule.monitor === 'loss' ? -value : value);
    this.#reschedule();
  }

  /** The learning rate (of the first group) of the last step. */
  get #lr(): number {
    const { schedule, optimizer } = this.#options;
    return schedule ? this.#baseRates[0]! * this.#factor(Math.max(0, this.#steps - 1)) : optimizer.lr;
  }

  /** @throws ArgumentError for parameters of the model that get gradients which the optimizer does not use */
  #requireAllUsed(): void {
    const unused = [...this.#model.namedParameters()].flatMap(([name, { grad }]) => (grad ? [name] : []));
    if (unused.length === 0) return;
    const own = new Set(this.#options.optimizer.groups.flatMap((group) => group.params));
    const isOther = this.#model.parameters().every((parameter) => !own.has(parameter));
    throw new ArgumentError(
      isOther
        ? "[fit] the optimizer has none of the model's parameters: it was made for another model. Pass one made with model.parameters()."
        : `[fit] the optimizer does not have these parameters of the model, which get gradients: ${unused.join(', ')}. Make it with model.parameters(); to freeze a part of the model, detach() what that part returns.`,
    );
  }

  async #heed(answer: unknown): Promise<void> {
    if ((await answer) === 'stop') this.#stopping ??= 'stopped';
  }

  #read(step: number, examples: number): Reading {
    return { step, examples, sums: underway(this.#sums.data()) };
  }

  /** The mean loss of the epoch's examples up to there. @throws NumericError if a step went wrong */
  async #meanLoss(epoch: number, { step, examples, sums }: Reading): Promise<number> {
    const { 0: good, 1: sum } = await sums;
    if (good !== step) await this.#fail(epoch, good!);
    return sum! / examples;
  }

  #weights(): Promise<Snapshot> {
    return underway(Snapshot.of(Object.values(this.#model.stateDict())));
  }

  /** The weights after an epoch are the last good ones. @throws NumericError if its last step has spoiled them */
  async #keep(epoch: number, weights: Promise<Snapshot>): Promise<void> {
    const spoiled = (await weights).notFinite();
    if (!spoiled) {
      this.#last = { epoch: epoch + 1, weights };
      return;
    }
    (await this.#last.weights).restore();
    const [name] = Object.entries(this.#model.stateDict()).find(([, tensor]) => tensor === spoiled)!;
    throw new NumericError(
      `[fit] '${name}' is not finite after the last step of epoch ${epoch + 1} (learning rate ${this.#lr}). ` +
        `The model keeps its last good weights, those before epoch ${this.#last.epoch + 1}. Try a smaller learning rate.`,
    );
  }

  /** Batch `bad` (from 0) gave a loss that is not finite, by the weights that the model still has. */
  async #fail(epoch: number, bad: number): Promise<never> {
    const { train, loss } = this.#options;
    let where: string | undefined;
    for (const batch of train.batches(this.#firstEpoch + epoch)) {
      if (batch.index < bad) continue;
      const { inputs, labels } = new Inputs(train.dataset).write(batch);
      where = await firstNonFinite(this.#model, inputs, labels, loss);
      break;
    }
    const spoiled = where?.startsWith('parameter') ?? false;
    if (spoiled) (await this.#last.weights).restore();
    const kept = spoiled ? `those before epoch ${this.#last.epoch + 1}` : 'those before that step';
    throw new NumericError(
      `[fit] the loss is not finite in step ${bad + 1} of epoch ${epoch + 1} (learning rate ${this.#lr}). ` +
        `First not finite: ${where ?? 'nothing when repeated; a random layer may be the cause'}. ` +
        `The model keeps its last good weights, ${kept}. Try a smaller learning rate.`,
    );
  }
}

export type { EvaluateOptions, Loss, LossReduction };
