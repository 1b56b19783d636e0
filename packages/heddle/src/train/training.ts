/** A training as it runs: steps, epochs, what is read from the device, and what happens when a number is not finite. */
import { i32 } from '../core/dtype.js';
import { ArgumentError, InternalError, NumericError } from '../core/errors.js';
import type { AnyDataset, Batch, Batched, Dataset, Loader, TensorBatch } from '../data/index.js';
import { TensorDataset } from '../data/index.js';
import type { Module } from '../nn/index.js';
import type { LrSpan } from '../optim/index.js';
import { tensor } from '../tensor/create.js';
import { noGrad, realize } from '../tensor/modes.js';
import { currentWorld } from '../tensor/world.js';
import { type EpochReport, type History, type LogReport, monitored } from './callbacks.js';
import type { Stateful } from './checkpoint-file.js';
import { feedOf } from './choose-feed.js';
import { firstNonFinite, type NonFinite } from './diagnose.js';
import { type Evaluation, ModelEvaluator } from './evaluate.js';
import type { Feed } from './feed.js';
import type { FitOptions } from './fit-options.js';
import { Inputs } from './inputs.js';
import type { LoopState } from './loop-state.js';
import type { RunCheckpoints, Standing } from './run-checkpoints.js';
import { Snapshot } from './snapshot.js';
import { type StopReason, TrainingStep } from './training-step.js';
import { Turns } from './turns.js';

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
  /** When they arrived, in ms. */
  readonly arrival: Promise<number>;
  /** What is to be logged with them, if anything. */
  readonly log: Pick<LogReport, 'totalSteps' | 'lr'> | undefined;
}

/** The examples of an epoch that the last log has told of, the sum of their losses, and when that was, in ms. */
interface Logged {
  readonly examples: number;
  readonly sum: number;
  readonly at: number;
}

/** Before the first step. */
const BEGINNING = {
  epoch: 0,
  step: 0,
  sums: [0, 0],
  logged: [0, 0],
  seconds: 0,
  elapsed: 0,
  reports: [],
  stopped: false,
};

/** What an epoch came to, or the part of it before it was cut short. */
interface EpochFigures extends Pick<EpochReport, 'loss' | 'seconds' | 'examplesPerSecond'> {
  /** Steps of the epoch that are done. */
  readonly step: number;
  readonly sums: readonly number[];
  readonly logged: readonly number[];
}

/** What goes with a training, where there is such a thing. */
interface TrainingParts {
  readonly checkpoints: RunCheckpoints | undefined;
  /** Where it was interrupted, if it is resumed. */
  readonly standing: Standing | undefined;
  readonly state: LoopState;
}

/** After how many steps what happens; null where it does not. */
interface Cadence {
  readonly readEvery: number;
  readonly logEvery: number | null;
  readonly saveEvery: number | null;
  /** Steps that are started at a time, at most. */
  readonly mostSteps: number | null;
}

const cadenceOf = (
  { callbacks = [], readEvery = 16, logEvery = 50, checkpointEvery }: FitOptions,
  saves: boolean,
): Cadence => ({
  readEvery,
  logEvery: callbacks.some(({ onLog }) => onLog) ? logEvery : null,
  saveEvery: (saves && checkpointEvery?.steps) || null,
  mostSteps: callbacks.some(({ onStep }) => onStep) ? 1 : null,
});

export class Training {
  readonly #model: Module;
  readonly #options: FitOptions;
  readonly #feed: Feed;
  readonly #evaluator: ModelEvaluator | undefined;
  readonly #checkpoints: RunCheckpoints | undefined;
  readonly #state: LoopState;
  readonly #turns = new Turns();
  /** Of the loader: ours are counted from 0. */
  readonly #firstEpoch: number;
  /** Where it begins: at the first step, unless it is resumed. */
  readonly #from: Standing;
  #began = performance.now();
  readonly #reports: EpochReport[];
  /** The weights as they were before an epoch. */
  #last: { readonly epoch: number; readonly weights: Promise<Snapshot> };
  /** Several ranks have that of the first: they must make as many steps at a time. */
  #cadence: Cadence;
  readonly #baseRates: readonly number[];
  /** What the schedule watches, after each epoch. */
  readonly #observed: number[] = [];
  #reschedule: () => void = () => {};
  #logged: Logged = { examples: 0, sum: 0, at: 0 };
  readonly #step: TrainingStep;
  readonly #world = currentWorld();
  /** What this rank wishes. */
  #wish: StopReason | undefined;
  /** Done when the device has the first chunks to work on. */
  readonly #preparations: (() => unknown)[];
  #steps: number;
  #stopping: History['ended'] | undefined;

  constructor(model: Module, options: FitOptions, { checkpoints, standing, state }: TrainingParts) {
    this.#model = model;
    this.#options = options;
    this.#checkpoints = checkpoints;
    this.#state = state;
    const { train, validation, optimizer, resident } = options;
    this.#cadence = cadenceOf(options, checkpoints !== undefined);
    this.#baseRates = optimizer.groups.map((group) => group.lr);
    this.#from = standing ?? { ...BEGINNING, firstEpoch: train.epoch, rates: this.#baseRates };
    const { epoch, step, firstEpoch, reports, stopped } = this.#from;
    this.#firstEpoch = firstEpoch;
    this.#reports = [...reports];
    this.#steps = epoch * train.length + step;
    if (stopped) this.#stopping = 'stopped';
    this.#last = { epoch, weights: this.#weights() };
    optimizer.zeroGrad();
    const setRates = this.#schedule();
    this.#step = new TrainingStep(model, options, state, setRates, () => this.#requireOwn());
    this.#feed = feedOf(train, this.#step.work, { resident, group: options.accumulate });
    this.#evaluator = validation && new ModelEvaluator(model, validation, options, 'frozen');
    this.#preparations = [() => this.#feed.prepare?.('all'), () => this.#evaluator?.prepare()];
  }

  async run(): Promise<History> {
    const { epochs, train, optimizer, schedule, callbacks = [] } = this.#options;
    const { epoch: firstEpoch, step } = this.#from;
    const cadence = await this.#world?.textOfFirst(JSON.stringify(this.#cadence));
    if (cadence) this.#cadence = JSON.parse(cadence) as Cadence;
    this.#began = performance.now();
    try {
      const plan = { epochs, steps: train.length, epoch: firstEpoch, step, reports: [...this.#reports] };
      for (const callback of callbacks) await callback.onStart?.(plan);
      for (let epoch = firstEpoch; epoch < epochs && !this.#stopping; epoch++)
        if (!(await this.#epochAndValidation(epoch))) break;
      await this.#checkpoints?.written();
      this.#state.ema?.swap();
      realize(...this.#model.parameters());
    } finally {
      await this.#checkpoints?.written().catch(() => {}); // an error before it is the one to tell
      this.#dispose();
      if (schedule)
        optimizer.groups.forEach((group, i) => {
          group.lr = this.#baseRates[i]!;
        });
    }
    const history: History = {
      epochs: this.#reports,
      steps: this.#steps,
      seconds: this.#elapsed,
      ended: this.#stopping ?? 'done',
    };
    for (const callback of callbacks) await callback.onEnd?.(history);
    return history;
  }

  /** Since the training began, the time before it was resumed included. */
  get #elapsed(): number {
    return this.#from.elapsed + (performance.now() - this.#began) / 1000;
  }

  /** @returns whether there may be another one */
  async #epochAndValidation(epoch: number): Promise<boolean> {
    const { epochs, train, callbacks = [], checkpointEvery = { epochs: 1 } } = this.#options;
    const { step, sums, logged, ...figures } = await this.#epoch(epoch);
    if (step === 0) {
      await this.#save({ epoch, step, sums, logged, seconds: 0 });
      return false;
    }
    const weights = this.#weights();
    const validation = await this.#averaged(() => this.#evaluate());
    await this.#keep(epoch, weights);
    const report = { ...figures, epoch, epochs, validation, lr: this.#lr, elapsed: this.#elapsed };
    const isWhole = step === train.length && (validation || !this.#evaluator);
    if (this.#stopping === 'aborted' && !isWhole) {
      await this.#save({ epoch, step, sums, logged, seconds: figures.seconds });
      this.#reports.push(report);
      return false;
    }
    this.#reports.push(report);
    this.#observe(report);
    await this.#averaged(async () => {
      for (const callback of callbacks) await this.#heed(callback.onEpochEnd?.(report));
      await this.#checkpoints?.keepBest(report);
    });
    await this.#agree();
    const isDue = checkpointEvery.epochs && (epoch + 1) % checkpointEvery.epochs === 0;
    if (isDue || epoch + 1 === epochs || this.#stopping) await this.#save({ ...BEGINNING, epoch: epoch + 1 });
    return true;
  }

  /** Where the training stands, which goes to the disk while it goes on. */
  async #save(place: Pick<Standing, 'epoch' | 'step' | 'sums' | 'logged' | 'seconds'>): Promise<void> {
    await this.#checkpoints?.save({
      ...place,
      firstEpoch: this.#firstEpoch,
      elapsed: this.#elapsed,
      reports: this.#reports,
      rates: this.#options.optimizer.groups.map((group) => group.lr),
      stopped: this.#stopping === 'stopped',
    });
  }

  #dispose(): void {
    this.#evaluator?.dispose();
    this.#feed.dispose();
    this.#step.dispose();
    for (const part of Object.values(this.#state) as Stateful[])
      for (const held of Object.values(part.stateDict())) held.dispose();
  }

  /** Run `body` while the model has the averages of its weights, if there are any. */
  async #averaged<T>(body: () => Promise<T>): Promise<T> {
    const { ema } = this.#state;
    if (!ema) return body();
    ema.swap();
    try {
      return await body();
    } finally {
      ema.restore();
    }
  }

  /** @returns undefined without validation data, or if the signal cut it short */
  async #evaluate(): Promise<Evaluation | undefined> {
    const { signal } = this.#options;
    // Several ranks evaluate together, to the end.
    if (this.#world) return this.#evaluator?.run();
    const evaluation = signal?.aborted ? undefined : await this.#evaluator?.run();
    if (!signal?.aborted) return evaluation;
    this.#stopping = 'aborted';
    return undefined;
  }

  /** The steps of an epoch that are left. @returns where it ended, and what was measured */
  async #epoch(epoch: number): Promise<EpochFigures> {
    const { train, callbacks = [], signal } = this.#options;
    const { readEvery, logEvery, saveEvery, mostSteps } = this.#cadence;
    const isFirst = epoch === this.#from.epoch;
    const before = isFirst ? this.#from : BEGINNING;
    const start = performance.now();
    const seconds = (): number => before.seconds + (performance.now() - start) / 1000;
    this.#model.train();
    this.#step.begin(before.sums);
    // Kernels that are not in the cache yet are compiled together, those of all programs.
    if (isFirst && this.#feed.prepare?.('full') === false)
      for (const prepare of this.#preparations.splice(0)) prepare();
    let { step } = before;
    let examples = Math.min(step * train.batchSize, train.examples);
    let loss = step > 0 ? before.sums[1]! / examples : undefined;
    const readings: Reading[] = [];
    let readAt = step;
    const [loggedExamples, loggedSum] = before.logged as readonly [number, number];
    this.#logged = { examples: loggedExamples, sum: loggedSum, at: start };
    const until = (every: number | null, batch: number): number =>
      every === null ? Number.POSITIVE_INFINITY : every - ((epoch * train.length + batch) % every);
    /** Steps until the next checkpoint that is due within the epoch, and until the next log. */
    const untilSaved = (batch: number): number => until(saveEvery, batch);
    const untilLogged = (batch: number): number => until(logEvery, batch);
    const room = (batch: number): number =>
      Math.min(mostSteps ?? Number.POSITIVE_INFINITY, untilSaved(batch), untilLogged(batch));
    for await (const chunk of this.#feed.chunks(this.#firstEpoch + epoch, step, room)) {
      if (signal?.aborted) this.#stop('aborted');
      if (this.#stopping) break;
      const isDue = untilSaved(step) === chunk.batches;
      const isLogged = untilLogged(step) === chunk.batches;
      chunk.run();
      this.#steps += chunk.batches;
      step += chunk.batches;
      examples += chunk.examples;
      if (isLogged || readAt === 0 || step - readAt >= readEvery) {
        readings.push(this.#read(step, examples, isLogged));
        readAt = step;
      }
      if (readings.length > AHEAD) {
        this.#preparations.shift()?.();
        loss = await this.#arrived(epoch, readings.shift()!);
      }
      const report = { epoch, step, steps: train.length, examples, loss, seconds: seconds(), lr: this.#lr };
      for (const callback of callbacks) {
        await this.#heed(callback.onStep?.(report));
        await this.#heed(callback.onProgress?.(report));
      }
      if (isDue) {
        const reading = this.#read(step, examples);
        for (const earlier of readings.splice(0)) await this.#arrived(epoch, earlier);
        loss = await this.#arrived(epoch, reading);
        readAt = step;
        const sums = Array.from(await reading.sums).slice(0, 2);
        await this.#save({ epoch, step, sums, logged: this.#loggedSums, seconds: seconds() });
      }
      await this.#turns.next();
    }
    if (step === 0) return { ...BEGINNING, loss: Number.NaN, examplesPerSecond: 0 };
    const last = this.#read(step, examples);
    for (const earlier of readings) await this.#arrived(epoch, earlier);
    loss = await this.#arrived(epoch, last);
    const took = seconds();
    const sums = Array.from(await last.sums).slice(0, 2);
    return {
      ...{ step, sums, logged: this.#loggedSums, loss },
      ...{ seconds: took, examplesPerSecond: examples / took },
    };
  }

  /** How each step sets the learning rates: from a table on the device, where steps follow each other unattended. */
  #schedule(): () => void {
    const { schedule, optimizer } = this.#options;
    if (!schedule) return () => {};
    for (const report of this.#reports) this.#observe(report);
    const rates = this.#tables().map((table, i) => tensor(table, { dtype: optimizer.groups[i]!.dtype }));
    if (schedule.monitor !== undefined)
      this.#reschedule = () => {
        this.#tables().forEach((table, i) => {
          rates[i]!.write(table);
        });
      };
    const at = tensor([this.#updates(this.#steps)], { dtype: i32 });
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
    const stepsPerEpoch = this.#updates(this.#options.train.length);
    return { steps: this.#options.epochs * stepsPerEpoch, stepsPerEpoch, observed: this.#observed };
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
    if (!schedule) return optimizer.lr;
    return this.#baseRates[0]! * this.#factor(this.#updates(Math.max(0, this.#steps - 1)));
  }

  /** How many updates so many batches have made. */
  #updates(batches: number): number {
    const { accumulate = 1, train } = this.#options;
    const epochs = Math.floor(batches / train.length);
    const rest = batches - epochs * train.length;
    return epochs * Math.ceil(train.length / accumulate) + Math.floor(rest / accumulate);
  }

  /**
   * An optimizer may have some of the model's parameters only: the others stay as they are.
   * @throws ArgumentError if it has none of them
   */
  #requireOwn(): void {
    const own = new Set(this.#options.optimizer.groups.flatMap((group) => group.params));
    const parameters = this.#model.parameters();
    if (parameters.length > 0 && parameters.every((parameter) => !own.has(parameter)))
      throw new ArgumentError(
        "[fit] the optimizer has none of the model's parameters: it was made for another model. Pass one made with model.parameters().",
      );
  }

  async #heed(answer: unknown): Promise<void> {
    if ((await answer) === 'stop') this.#stop('stopped');
  }

  /** End after this step. Several ranks end after the same one: the first whose figures tell all of them of the wish. */
  #stop(why: StopReason): void {
    if (this.#world) {
      if (!this.#wish) this.#step.wish(why);
      this.#wish ??= why;
    } else if (why === 'aborted') this.#stopping = why;
    else this.#stopping ??= why;
  }

  /** What the ranks wish by now, for all of them. */
  async #agree(): Promise<void> {
    const world = this.#world;
    if (!world) return;
    if (this.#options.signal?.aborted) this.#stop('aborted');
    const mine = tensor([this.#wish === 'stopped' ? 1 : 0, this.#wish === 'aborted' ? 1 : 0]);
    this.#obey(Array.from((await world.sum([mine])[0]!.data()) as Float32Array));
  }

  /** @param stopped how many ranks wish to stop for that reason @param aborted for this one */
  #obey([stopped, aborted]: readonly number[]): void {
    if (aborted! > 0) this.#stopping = 'aborted';
    else if (stopped! > 0) this.#stopping ??= 'stopped';
  }

  #read(step: number, examples: number, isLogged = false): Reading {
    const sums = underway(this.#step.sums.data());
    const arrival = underway(sums.then(() => performance.now()));
    const log = isLogged ? { totalSteps: this.#steps, lr: this.#lr } : undefined;
    return { step, examples, sums, arrival, log };
  }

  /** Take a reading, and log it if it is one to log. @returns the mean loss of the epoch's examples up to there @throws NumericError if a step went wrong */
  async #arrived(epoch: number, { step, examples, sums, arrival, log }: Reading): Promise<number> {
    const [good, sum, ...wishes] = (await sums) as unknown as readonly [number, number, ...number[]];
    if (good !== step) await this.#fail(epoch, good);
    if (this.#world) this.#obey(wishes);
    if (log) {
      const before = this.#logged;
      // Readings that arrive in one turn of the event loop may have the same time, or be out of order by some µs.
      const at = Math.max(await arrival, before.at + 1e-3);
      const since = examples - before.examples;
      const report: LogReport = {
        ...{ epoch, step, ...log, examples },
        loss: (sum - before.sum) / since,
        examplesPerSecond: (1000 * since) / (at - before.at),
        elapsed: this.#from.elapsed + (at - this.#began) / 1000,
      };
      this.#logged = { examples, sum, at };
      for (const callback of this.#options.callbacks ?? []) await this.#heed(callback.onLog?.(report));
    }
    return sum / examples;
  }

  get #loggedSums(): readonly number[] {
    return [this.#logged.examples, this.#logged.sum];
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
    const { train, autocast } = this.#options;
    const { inputs, targets } = await batchOf(train, this.#firstEpoch + epoch, bad);
    const found = await firstNonFinite(this.#model, inputs, targets, this.#options);
    const spoiled = found?.cause === 'parameter';
    if (spoiled) (await this.#last.weights).restore();
    const kept = spoiled ? `those before epoch ${this.#last.epoch + 1}` : 'those before that step';
    throw new NumericError(
      `[fit] the loss is not finite in step ${bad + 1} of epoch ${epoch + 1} (learning rate ${this.#lr}). ` +
        `First not finite: ${found?.name ?? 'nothing when repeated; a random layer may be the cause'}. ` +
        `The model keeps its last good weights, ${kept}. ${remedy(found?.cause, autocast)}`,
    );
  }
}

/** What may help where a loss is not finite. */
function remedy(cause: NonFinite['cause'] | undefined, autocast: FitOptions['autocast']): string {
  if (cause === 'data') return 'Check the data.';
  if (cause === 'targets') return 'Check the targets: is a label outside the classes?';
  const range = autocast === 'f16' ? ", or autocast: 'bf16', which has the range of f32" : '';
  return `Try a smaller learning rate${range}.`;
}

/** One batch of an epoch, on the device. */
async function batchOf(
  loader: Loader<AnyDataset>,
  epoch: number,
  index: number,
): Promise<{ readonly inputs: Batched; readonly targets: Batched }> {
  const { epoch: next } = loader;
  loader.epoch = epoch;
  loader.batch = index;
  try {
    for await (const batch of loader) {
      if (loader.dataset instanceof TensorDataset) return batch as TensorBatch;
      const { inputs, labels } = new Inputs(loader.dataset as Dataset).write(batch as Batch);
      return { inputs, targets: labels };
    }
  } finally {
    loader.epoch = next;
  }
  throw new InternalError(`epoch ${epoch} has no batch ${index}`);
}
