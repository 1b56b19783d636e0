/** `heddle train`: a program of ours on real data, shown and recorded. */
import { resolve } from 'node:path';
import { ArgumentError, NumericError } from '../core/errors.js';
import { formatShape, sameShape, sizeOf } from '../core/shape.js';
import { type ArrayDataset, Loader, loadImages, quadrantPoints, separablePoints } from '../data/index.js';
import type { Module } from '../nn/index.js';
import { closeDevices, listDevices } from '../runtime/registry.js';
import { device, engineStats, useDevice } from '../tensor/modes.js';
import { manualSeed } from '../tensor/random.js';
import {
  type Callback,
  type EpochReport,
  fit,
  type History,
  programNamed,
  saveWeights,
} from '../train/index.js';
import { OPTIMIZERS, type OptimizerName, type Program, type Recipe, scheduleOf } from '../train/programs.js';
import { duration, mebibytes, percent, table, whole } from './format.js';
import { progress } from './progress.js';
import { RunFolder } from './run-folder.js';
import { packageVersion } from './version.js';

/**
 * Larger ones take more memory for what lies between the layers, and on an H200 save little: 10,000 images take 2.0 ms in
 * batches of 200, 1.7 in batches of 1,000.
 */
const EVALUATION_BATCH = 200;

export interface TrainOptions {
  readonly data?: string;
  readonly recipe?: string;
  readonly epochs?: number;
  readonly batchSize?: number;
  readonly lr?: number;
  readonly optimizer?: OptimizerName;
  readonly schedule?: Recipe['schedule'];
  readonly seed: number;
  readonly limit?: number;
  readonly workers: number;
  readonly device?: string;
  readonly out?: string;
  /** False for no bar and no lines between epochs. */
  readonly progress: boolean;
}

/** Train `name` and print what happens. @returns the exit code: 130 if Ctrl-C ended it, with everything saved */
export async function train(name: string, options: TrainOptions): Promise<number> {
  const say = (line: string): void => {
    process.stdout.write(`${line}\n`);
  };
  const program = programNamed(name);
  const recipe = recipeFor(program, options);
  const why = chooseDevice(options.device);
  const data = await loadData(program, options);
  manualSeed(options.seed);
  const model = program.build();
  const parameters = model.parameters().reduce((sum, p) => sum + sizeOf(p.shape), 0);
  const folder = await RunFolder.create(name, options.out);
  await folder.writeConfig({
    program: name,
    data: { source: data.source, train: data.train.length, test: data.test.length },
    recipe,
    seed: options.seed,
    parameters,
    device: device(),
    heddle: packageVersion(),
    node: process.version,
    started: new Date().toISOString(),
  });
  say(`device   ${device().name}: ${device().description} (${why})`);
  say(`program  ${name}: ${program.doc} (${whole(parameters)} parameters)`);
  say(`data     ${data.source}: ${whole(data.train.length)} to train on, ${whole(data.test.length)} to test`);
  const { epochs, batchSize, optimizer, lr, schedule } = recipe;
  say(
    `recipe   ${epochs} epoch${epochs === 1 ? '' : 's'}, batches of ${batchSize}, ${optimizer}, lr ${lr} (${schedule}), seed ${options.seed}`,
  );
  say(`run      ${folder.path}\n`);

  const interrupt = new Interrupt();
  const launches = new LaunchCount();
  const recorder = new Recorder(folder, model, name);
  const noun = program.data === 'images' ? 'images' : 'points';
  const shown = progress({
    noun,
    out: say,
    terminal: options.progress && process.stderr.isTTY ? process.stderr : undefined,
    interval: options.progress ? 10 : Number.POSITIVE_INFINITY,
  });
  try {
    const history = await fit(model, {
      train: new Loader(data.train, {
        batchSize,
        shuffle: true,
        seed: options.seed,
        workers: options.workers,
      }),
      validation: new Loader(data.test, { batchSize: Math.min(EVALUATION_BATCH, data.test.length) }),
      loss: program.loss(recipe.lossReduction),
      lossReduction: recipe.lossReduction,
      metrics: { accuracy: program.metric },
      optimizer: OPTIMIZERS[optimizer](model.parameters(), lr),
      epochs,
      ...schedulePart(recipe),
      signal: interrupt.signal,
      callbacks: [launches, shown, recorder],
    });
    if (history.ended === 'aborted') await saveWeights(model, folder.weights, { program: name });
    summarize(history, folder, launches, noun, say);
    if (history.ended === 'aborted') say(`\nStopped by Ctrl-C; the weights so far are saved.`);
    else suggest(program, say);
    return history.ended === 'aborted' ? 130 : 0;
  } catch (error) {
    shown.stop();
    if (error instanceof NumericError) {
      await recorder.onEnd();
      await saveWeights(model, folder.weights, { program: name });
      say(`The last good weights are in ${folder.weights}`);
    }
    throw error;
  } finally {
    interrupt.dispose();
    await closeDevices();
  }
}

function recipeFor(
  program: Program,
  { recipe: variant, epochs, batchSize, lr, optimizer, schedule }: TrainOptions,
): Recipe {
  const chosen = variant === undefined ? program.recipe : program.variants?.[variant];
  if (!chosen) {
    const known = Object.keys(program.variants ?? {});
    throw new ArgumentError(
      `${program.name} has no recipe '${variant}'. ` +
        (known.length > 0
          ? `There is: ${known.join(', ')}.`
          : 'It has only its default one: leave --recipe out.'),
    );
  }
  return {
    ...chosen,
    ...(epochs !== undefined && { epochs }),
    ...(batchSize !== undefined && { batchSize }),
    ...(lr !== undefined && { lr }),
    ...(optimizer !== undefined && { optimizer }),
    ...(schedule !== undefined && { schedule }),
  };
}

function schedulePart(recipe: Recipe): { schedule?: (progress: number) => number } {
  const schedule = scheduleOf(recipe);
  return schedule ? { schedule } : {};
}

/** Open the device. @returns why it is this one */
function chooseDevice(name: string | undefined): string {
  if (name !== undefined) {
    useDevice(name);
    return 'as asked by --device';
  }
  if (process.env.HEDDLE_DEVICE) return 'as asked by HEDDLE_DEVICE';
  const missing = listDevices().filter((d) => !d.available);
  const others = missing.map((d) => `; no ${d.name}: ${d.reason}`).join('');
  return `the fastest found${others}`;
}

interface Data {
  readonly source: string;
  readonly train: ArrayDataset;
  readonly test: ArrayDataset;
}

async function loadData(program: Program, { data, seed, limit }: TrainOptions): Promise<Data> {
  const { source, train, test } =
    program.data === 'images' ? await images(program, data) : points(program, data, seed);
  const length = Math.min(limit ?? train.length, train.length);
  return { source, train: length < train.length ? train.slice(0, length) : train, test };
}

async function images(program: Program, data = 'mnist'): Promise<Data> {
  const { train, test, source, classes } = await loadImages(data);
  const expected = [1, 28, 28];
  if (!sameShape(train.inputShape, expected) || classes.length !== 10) {
    throw new ArgumentError(
      `${program.name} takes images of ${formatShape(expected)} in 10 classes, ${source} has ` +
        `${formatShape(train.inputShape)} in ${classes.length}. Choose other --data.`,
    );
  }
  return { source, train, test };
}

function points(program: Program, data: string | undefined, seed: number): Data {
  if (data !== undefined) {
    throw new ArgumentError(`${program.name} makes its own data from --seed: leave --data ${data} out.`);
  }
  const make = program.data === 'separable' ? separablePoints : quadrantPoints;
  return { source: `points made from seed ${seed}`, ...make({ seed }) };
}

/**
 * Writes figures and weights after every epoch, while the next one runs. `elapsed` counts seconds from the start of the
 * training.
 */
class Recorder implements Callback {
  readonly #folder: RunFolder;
  readonly #model: Module;
  readonly #program: string;
  #start = 0;
  #writing: Promise<void> = Promise.resolve();

  constructor(folder: RunFolder, model: Module, program: string) {
    this.#folder = folder;
    this.#model = model;
    this.#program = program;
  }

  readonly onStart = (): void => {
    this.#start = performance.now();
  };

  readonly onEpochEnd = async ({ epoch, epochs: _, validation, ...figures }: EpochReport): Promise<void> => {
    const elapsed = (performance.now() - this.#start) / 1000;
    const test = validation && { loss: validation.loss, ...validation.metrics };
    await this.#writing;
    this.#writing = this.#write({ epoch: epoch + 1, ...figures, elapsed, test });
    this.#writing.catch(() => {});
  };

  /** All is on disk. @throws what kept it from being written */
  readonly onEnd = (): Promise<void> => this.#writing;

  async #write(figures: { readonly epoch: number; readonly [name: string]: unknown }): Promise<void> {
    const { weights } = this.#folder;
    // The weights are read here and now: the next epoch changes them.
    const saved = saveWeights(this.#model, weights, { program: this.#program, epoch: String(figures.epoch) });
    await Promise.all([saved, this.#folder.addMetrics(figures)]);
  }
}

/** Kernel launches of one step: between the first two reports after the start, or up to the first if it is alone. */
class LaunchCount implements Callback {
  #reports: { readonly step: number; readonly launches: number }[] = [];
  perStep: number | undefined;

  readonly onStart = (): undefined => {
    this.#reports = [{ step: 0, launches: engineStats().launches }];
  };

  readonly onStep: NonNullable<Callback['onStep']> = ({ epoch, step }) => {
    if (epoch > 0 || this.#reports.length > 2) return undefined;
    this.#reports.push({ step, launches: engineStats().launches });
    const before = this.#reports.at(-2)!;
    const now = this.#reports.at(-1)!;
    this.perStep = (now.launches - before.launches) / (now.step - before.step);
    return undefined;
  };
}

/** Ctrl-C ends the training after the step under way; a second one ends the process. */
class Interrupt {
  readonly #controller = new AbortController();
  readonly signal = this.#controller.signal;
  readonly #heard = (): void => {
    if (this.signal.aborted) process.exit(130);
    process.stderr.write('\nStopping after this step and saving. Ctrl-C again to stop at once.\n');
    this.#controller.abort();
  };

  constructor() {
    process.on('SIGINT', this.#heard).on('SIGTERM', this.#heard);
  }

  dispose(): void {
    process.off('SIGINT', this.#heard).off('SIGTERM', this.#heard);
  }
}

function summarize(
  { epochs, steps, seconds }: History,
  folder: RunFolder,
  { perStep }: LaunchCount,
  noun: string,
  say: (line: string) => void,
): void {
  const accuracy = ({ validation }: EpochReport): number | undefined => validation?.metrics.accuracy;
  const rows = epochs.map((e) => [
    String(e.epoch + 1),
    e.loss.toFixed(4),
    e.validation?.loss.toFixed(4) ?? '–',
    percentOr(accuracy(e)),
    whole(e.examplesPerSecond),
    duration(e.seconds),
  ]);
  if (epochs.length > 10) rows.splice(4, rows.length - 8, ['…', '', '', '', '', '']);
  say(`\n${table(['epoch', 'loss', 'test loss', 'test accuracy', `${noun}/s`, 'seconds'], rows)}\n`);
  // An epoch that Ctrl-C ended has no test.
  const tested = epochs.flatMap((e) => accuracy(e) ?? []);
  const best = tested.indexOf(Math.max(...tested));
  if (tested.length > 0)
    say(`accuracy ${percent(tested.at(-1)!)} (best ${percent(tested[best]!)} after epoch ${best + 1})`);
  say(`time     ${duration(seconds)} s for ${whole(steps)} steps`);
  if (perStep !== undefined) say(`kernels  ${whole(perStep)} launches per step`);
  say(`memory   ${mebibytes(process.resourceUsage().maxRSS * 1024)} at its peak`);
  say(`saved    ${resolve(folder.path)}`);
}

const percentOr = (share: number | undefined): string => (share === undefined ? '–' : percent(share));

/** What to try after each program. */
const NEXT: Readonly<Record<string, readonly string[]>> = {
  perceptron: ['quadrants'],
  quadrants: ['mlp'],
  mlp: ['lenet5', 'mlp --data fashion-mnist'],
  lenet5: ['lenet5 --data fashion-mnist', 'cnn'],
  cnn: ['lenet5', 'cnn --data fashion-mnist', 'cnn --recipe reference'],
};

function suggest({ name }: Program, say: (line: string) => void): void {
  say('\nTry next:');
  for (const next of NEXT[name] ?? []) say(`  npx heddle train ${next}`);
  say('  npx heddle bench cpu');
}
