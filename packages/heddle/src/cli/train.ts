/** `heddle train`: a program of ours on real data, shown and recorded. */
import { resolve } from 'node:path';
import { ArgumentError, NumericError } from '../core/errors.js';
import { packageVersion } from '../core/platform/node/version.js';
import { sizeOf } from '../core/shape.js';
import type { TextCodec } from '../data/index.js';
import { placeFromEnvironment } from '../distributed/environment.js';
import type { Module } from '../nn/index.js';
import { closeDevices } from '../runtime/registry.js';
import { device, engineStats } from '../tensor/modes.js';
import { manualSeed } from '../tensor/random.js';
import { currentWorld } from '../tensor/world.js';
import {
  type Callback,
  type EpochReport,
  fit,
  type History,
  jsonLog,
  programNamed,
  saveWeights,
  type TrainingPlan,
} from '../train/index.js';
import { Interrupt } from '../train/interrupt.js';
import { fitOptionsOf, type TrainingProgram } from '../train/programs.js';
import type { Recipe } from '../train/recipes.js';
import type { ImageFilesOptions } from './data-package.js';
import { counted, duration, mebibytes, percent, table, textLoss, whole } from './format.js';
import { progress } from './progress.js';
import { type RecipeOptions, recipeFor } from './recipe-options.js';
import { chooseDevice, dataNamed, evaluationLoader, loadData, loaderOf, sizesOf } from './run-data.js';
import { type RunConfig, RunFolder } from './run-folder.js';
import { StatusLine, styled, widthOf, wrapped } from './terminal.js';
import { codecOfRun, describedCodec, keepCodec, type TokenizerOptions } from './text-data.js';

/** What the examples are. */
const NOUNS = { images: 'images', text: 'windows', separable: 'points', quadrants: 'points' } as const;

/** Width of the labels before the facts of a run. */
const LABEL = 9;

export interface TrainOptions extends RecipeOptions, TokenizerOptions {
  readonly data?: string;
  readonly text?: string;
  readonly size?: NonNullable<ImageFilesOptions['size']>;
  readonly resize?: NonNullable<ImageFilesOptions['resize']>;
  readonly skipDamaged?: boolean;
  readonly seed: number;
  readonly limit?: number;
  readonly workers: number;
  readonly device?: string;
  /** How many processes train together; it is in one of them that this is read. */
  readonly gpus?: number;
  readonly processes?: number;
  readonly out?: string;
  /** The folder of a run to continue. */
  readonly resume?: string;
  /** Steps between two checkpoints, besides those after every epoch. */
  readonly checkpointEvery?: number;
  /** Steps between two lines of log.jsonl. */
  readonly logEvery: number;
  /** False for no bar and no lines between epochs. */
  readonly progress: boolean;
}

/** What a run is made of: from the options, or from config.json of the run to resume. */
interface RunPlan {
  readonly program: TrainingProgram;
  readonly recipe: Recipe;
  readonly data: string | undefined;
  readonly seed: number;
  readonly limit: number | undefined;
  readonly images?: ImageFilesOptions & { readonly skipDamaged?: boolean };
  readonly tokenizer?: TokenizerOptions;
  /** Of a run to resume. */
  readonly codec?: TextCodec | undefined;
  readonly of: RunConfig['data'] | undefined;
  readonly resumed: RunFolder | undefined;
}

async function planOf(name: string | undefined, options: TrainOptions): Promise<RunPlan> {
  if (options.resume === undefined) {
    const program = programNamed(name!);
    const { seed, limit } = options;
    const data = dataNamed(program, options);
    const recipe = onThisDevice(recipeFor(program, options), options);
    return {
      program,
      recipe,
      data,
      seed,
      limit,
      images: imagesOf(options),
      tokenizer: options,
      of: undefined,
      resumed: undefined,
    };
  }
  const { folder, config } = RunFolder.open(options.resume);
  if (name !== undefined && name !== config.program)
    throw new ArgumentError(`${options.resume} is a run of ${config.program}, not of ${name}.`);
  const { recipe, seed, data } = config;
  const program = programNamed(config.program);
  return {
    ...{ program, recipe, data: data.set, seed, limit: data.train, of: data, resumed: folder },
    codec: await codecOfRun(folder, data),
  };
}

/** What the options say of images in files. */
const imagesOf = ({ size, resize, skipDamaged }: TrainOptions): RunPlan['images'] & object => ({
  ...(size !== undefined && { size }),
  ...(resize !== undefined && { resize }),
  ...(skipDamaged && { skipDamaged }),
});

/**
 * Train and print what happens.
 * @param name of the program; of a run that is resumed it may be left out
 * @returns the exit code: that of the signal that ended it, with everything saved
 */
export async function train(name: string | undefined, options: TrainOptions): Promise<number> {
  const leave = await joined(options);
  const world = currentWorld();
  /** Of several ranks the first prints and writes. */
  const isFirst = !world || world.rank === 0;
  const status = new StatusLine(process.stderr);
  const say = (line: string): void => {
    if (!isFirst) return;
    status.clear();
    process.stdout.write(`${line}\n`);
  };
  const fact = (label: string, text: string): void =>
    say(wrapped(`${label.padEnd(LABEL)}${text}`, widthOf(process.stdout), LABEL));
  // Each rank has chosen its own.
  const why = chooseDevice(world ? undefined : options.device);
  const plan = await planOf(name, options);
  const { program, recipe, seed } = plan;
  const tell = (text: string): void => {
    if (options.progress && isFirst) status.show(() => text);
  };
  const data = await loadData({ ...plan, tell, warn: say }).finally(() => status.clear());
  manualSeed(seed);
  const described = describedData(data);
  const model = program.build(recipe, sizesOf(described));
  const parameters = model.parameters().reduce((sum, p) => sum + sizeOf(p.shape), 0);
  const mine = plan.resumed ?? (isFirst ? RunFolder.create(program.name, options.out) : undefined);
  const folder = mine ?? RunFolder.ofFirst((await world?.textOfFirst('')) ?? '');
  if (mine && world && !plan.resumed) await world.textOfFirst(mine.path);
  if (!plan.resumed && isFirst) {
    if ('codec' in data) await keepCodec(folder, data.codec);
    await folder.writeConfig({
      program: program.name,
      data: {
        ...{ set: plan.data, source: data.source, train: data.train.length, test: data.test.length },
        ...described,
      },
      recipe,
      seed,
      parameters,
      device: device(),
      heddle: packageVersion(),
      node: process.version,
      started: new Date().toISOString(),
    });
  }
  fact('device', `${device().name}: ${device().description} (${why})`);
  if (world) fact('ranks', `${world.size}, each with its part of every batch`);
  fact('program', `${program.name}: ${program.doc} (${whole(parameters)} parameters)`);
  fact('data', `${data.name}: ${whole(data.train.length)} to train on, ${whole(data.test.length)} to test`);
  const { batchSize } = recipe;
  fact('recipe', `${recipeText(recipe, data.train.length)}, seed ${seed}`);
  fact('run', folder.path);
  if (!plan.resumed) say('');

  const interrupt = new Interrupt(({ name: cause }) => {
    if (isFirst) status.replace(`${cause}: stopping after this step and saving. Once more to stop at once.`);
  });
  const launches = new LaunchCount();
  const metadata = { program: program.name };
  const recorder = new Recorder(folder, model, program.name);
  const resumption: Callback = {
    onStart: ({ epoch, step }) => {
      if (plan.resumed) fact('resumed', `at epoch ${epoch + 1}, after ${counted(step, 'step')} of it\n`);
    },
  };
  const noun = NOUNS[program.data];
  const shown = progress({
    noun,
    out: say,
    columns: () => widthOf(process.stdout),
    status: options.progress && isFirst && process.stderr.isTTY ? (text) => status.show(text) : undefined,
    interval: options.progress ? 10 : Number.POSITIVE_INFINITY,
  });
  try {
    const history = await fit(model, {
      train: loaderOf(data.train, { batchSize, shuffle: true, seed, workers: options.workers }),
      validation: evaluationLoader(data.test),
      ...fitOptionsOf(program, recipe, model),
      signal: interrupt.signal,
      // The same places on all ranks: what callbacks keep is that of the first.
      callbacks: [resumption, launches, ...(isFirst ? [shown, recorder, jsonLog(folder.log)] : [{}, {}, {}])],
      logEvery: options.logEvery,
      folder: folder.path,
      checkpointEvery: options.checkpointEvery ? { epochs: 1, steps: options.checkpointEvery } : undefined,
      resume: plan.resumed !== undefined,
    });
    if (history.ended === 'aborted' && isFirst) await saveWeights(model, folder.weights, { metadata });
    await leave();
    summarize(history, { folder, launches, noun, program, data, say, fact });
    if (interrupt.cause && history.ended === 'aborted') {
      say(`\nStopped by ${interrupt.cause.name}; the training so far is saved. To continue:`);
      say(`  npx heddle train --resume ${folder.path}`);
      return interrupt.cause.code;
    }
    suggest(plan, described.files !== undefined, folder, options.recipe, say);
    return 0;
  } catch (error) {
    if (error instanceof NumericError && isFirst) {
      await recorder.onEnd();
      await saveWeights(model, folder.weights, { metadata });
      say(`The last good weights are in ${folder.weights}`);
    }
    throw error;
  } finally {
    status.clear();
    interrupt.dispose();
    await closeDevices();
  }
}

/** Joins the other ranks, if there are any, whoever has started them. @returns what leaves them */
async function joined({ device: asked }: TrainOptions): Promise<() => Promise<void>> {
  if (placeFromEnvironment(process.env).worldSize === 1) return async () => {};
  // Each rank has its own GPU.
  if (asked !== undefined && asked !== 'cuda') chooseDevice(asked);
  const { close, init } = await import('../distributed/index.js');
  await init();
  return close;
}

/** What a network depends on, and what its inputs must be read by later. */
function describedData(data: Awaited<ReturnType<typeof loadData>>): Partial<RunConfig['data']> {
  if ('codec' in data) return describedCodec(data.codec);
  return { inputShape: data.train.inputShape, classNames: data.classes, files: data.files };
}

/** Mixed precision is for GPUs: only where it is asked for is it used elsewhere, where it takes longer. */
function onThisDevice({ autocast, ...recipe }: Recipe, asked: RecipeOptions): Recipe {
  const isUsed = asked.autocast !== undefined || device().name.startsWith('cuda');
  return isUsed && autocast ? { ...recipe, autocast } : recipe;
}

/** A recipe in a line. */
function recipeText(recipe: Recipe, examples: number): string {
  const { epochs, batchSize, optimizer, lr, schedule, autocast, weightDecay, augment, ema } = recipe;
  return [
    counted(epochs, 'epoch'),
    `batches of ${batchSize}${batchSize > examples ? ' (all examples in one)' : ''}`,
    `${optimizer}, lr ${lr} (${schedule})`,
    ...(weightDecay ? [`weight decay ${weightDecay}`] : []),
    ...(autocast ? [`${autocast} autocast`] : []),
    ...(ema === undefined ? [] : [`averages of ${ema}`]),
    ...(augment?.shift ? [`images shifted by up to ${counted(augment.shift, 'pixel')}`] : []),
    ...(augment?.flip ? ['mirrored at random'] : []),
  ].join(', ');
}

/** Writes figures and weights after every epoch, while the next one runs. */
class Recorder implements Callback {
  readonly #folder: RunFolder;
  readonly #model: Module;
  readonly #program: string;
  #writing: Promise<void> = Promise.resolve();

  constructor(folder: RunFolder, model: Module, program: string) {
    this.#folder = folder;
    this.#model = model;
    this.#program = program;
  }

  readonly onStart = async ({ reports }: TrainingPlan): Promise<void> => {
    if (reports.length > 0) await this.#folder.addMetrics(...reports.map(lineOf));
  };

  readonly onEpochEnd = async (report: EpochReport): Promise<void> => {
    await this.#writing;
    this.#writing = this.#write(report);
    this.#writing.catch(() => {});
  };

  /** All is on disk. @throws what kept it from being written */
  readonly onEnd = (): Promise<void> => this.#writing;

  async #write(report: EpochReport): Promise<void> {
    const { weights } = this.#folder;
    // The weights are read here and now: the next epoch changes them.
    const metadata = { program: this.#program, epoch: String(report.epoch + 1) };
    const saved = saveWeights(this.#model, weights, { metadata });
    await Promise.all([saved, this.#folder.addMetrics(lineOf(report))]);
  }
}

/** The line of an epoch in metrics.jsonl. */
function lineOf({ epoch, epochs: _, validation, ...figures }: EpochReport): object {
  const test = validation && { loss: validation.loss, ...validation.metrics };
  return { epoch: epoch + 1, ...figures, test };
}

/** Kernel launches of one step: between the first two reports after the start, or up to the first if it is alone. */
class LaunchCount implements Callback {
  #reports: { readonly step: number; readonly launches: number }[] = [];
  perStep: number | undefined;

  readonly onStart = (): undefined => {
    this.#reports = [{ step: 0, launches: engineStats().launches }];
  };

  readonly onProgress: NonNullable<Callback['onProgress']> = ({ epoch, step }) => {
    if (epoch > 0 || this.#reports.length > 2) return undefined;
    this.#reports.push({ step, launches: engineStats().launches });
    const before = this.#reports.at(-2)!;
    const now = this.#reports.at(-1)!;
    this.perStep = (now.launches - before.launches) / (now.step - before.step);
    return undefined;
  };
}

interface Summary {
  readonly folder: RunFolder;
  readonly launches: LaunchCount;
  readonly noun: string;
  readonly program: TrainingProgram;
  readonly data: Awaited<ReturnType<typeof loadData>>;
  readonly say: (line: string) => void;
  readonly fact: (label: string, text: string) => void;
}

function summarize(
  { epochs, steps, seconds }: History,
  { folder, launches: { perStep }, noun, program, data, say, fact }: Summary,
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
  if (rows.length > 0) {
    const [header, ...lines] = table(
      ['epoch', 'loss', 'test loss', 'test accuracy', `${noun}/s`, 'seconds'],
      rows,
    ).split('\n');
    say(`\n${[styled(header!, 'bold'), ...lines].join('\n')}\n`);
  }
  // An epoch that a signal ended has no test.
  const isText = program.monitor === 'loss';
  const tested = epochs.flatMap((e) => (isText ? e.validation?.loss : accuracy(e)) ?? []);
  const best = tested.indexOf(isText ? Math.min(...tested) : Math.max(...tested));
  const shown = (figure: number): string =>
    'codec' in data ? textLoss(figure, data.tokensPerCharacter) : percent(figure);
  if (tested.length > 0)
    fact(
      program.monitor,
      `${shown(tested.at(-1)!)} on the ${isText ? 'held-out text' : 'test set'} ` +
        `(best ${isText ? tested[best]!.toFixed(4) : percent(tested[best]!)} after epoch ${best + 1})`,
    );
  fact('time', `${duration(seconds)} s for ${counted(steps, 'step')}`);
  if (perStep !== undefined)
    fact(
      'kernels',
      `${counted(perStep, 'launch', 'launches')} per step, including those that fetch the batch, sum the losses and ` +
        `guard the weights (the network's own: npx heddle profile ${program.name})`,
    );
  fact('memory', `${mebibytes(process.resourceUsage().maxRSS * 1024)} at its peak`);
  fact('saved', resolve(folder.path));
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

function suggest(
  { program: { name, data: kind }, data }: RunPlan,
  isOfFiles: boolean,
  folder: RunFolder,
  recipe: string | undefined,
  say: (line: string) => void,
): void {
  say(`\n${styled('Try next:', 'bold')}`);
  if (kind === 'text') say(`  npx heddle generate ${folder.path}`);
  if (isOfFiles) say(`  npx heddle predict ${folder.path} <image> …`);
  const done = [name, ...(data ? [`--data ${data}`] : []), ...(recipe ? [`--recipe ${recipe}`] : [])].join(
    ' ',
  );
  for (const next of NEXT[name] ?? []) if (next !== done) say(`  npx heddle train ${next}`);
  say('  npx heddle bench cpu');
}
