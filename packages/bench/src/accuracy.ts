/** `heddle bench accuracy`: what the programs reach on the test images, and how long it takes. */

import { device, fit, Loader, loadImages, manualSeed } from 'heddle';
import {
  type Circumstances,
  circumstances,
  type MeasuredDevice,
  measuredDevice,
  rounded,
} from 'heddle/internal/cli/figures.js';
import { ArgumentError } from 'heddle/internal/core/errors.js';
import { fitOptionsOf } from 'heddle/internal/train/programs.js';
import type { Recipe } from 'heddle/internal/train/recipes.js';
import type { Callback } from 'heddle/train';
import { PROGRAMS, type TrainingProgram } from 'heddle/train';

export interface AccuracyOptions {
  /** `mlp`, `lenet5`, `cnn`, or a variant as `cnn:reference`. Default: all. */
  readonly only?: readonly string[];
  /** Default: what the recipe says. */
  readonly epochs?: number;
  /** One run each. Default: 0. */
  readonly seeds?: readonly number[];
  /** `mnist`, `fashion-mnist` or a folder. Default: mnist. */
  readonly data?: string;
  /** Use only the first images of the training set. */
  readonly limit?: number;
  readonly onProgress?: (what: string) => void;
  readonly signal?: AbortSignal;
}

export interface AccuracyRun {
  readonly program: string;
  /** `default`, or the variant's name. */
  readonly recipe: string;
  readonly settings: Recipe;
  readonly seed: number;
  /** On the test images, after the last epoch. */
  readonly accuracy: number;
  /** Of training alone, over all epochs. */
  readonly seconds: number;
  readonly imagesPerSecond: number;
  readonly epochs: readonly {
    readonly loss: number;
    readonly testLoss: number;
    readonly accuracy: number;
    readonly seconds: number;
  }[];
}

export interface AccuracyResults extends Circumstances {
  readonly benchmark: 'accuracy';
  readonly device: MeasuredDevice;
  readonly data: string;
  readonly runs: readonly AccuracyRun[];
}

interface Entry {
  readonly name: string;
  readonly program: TrainingProgram;
  readonly recipe: string;
  readonly settings: Recipe;
}

/** Every program on images with every recipe it has. */
const entries = (): Entry[] =>
  Object.values(PROGRAMS as Readonly<Record<string, TrainingProgram>>)
    .filter((program) => program.data === 'images')
    .flatMap((program) => [
      { name: program.name, program, recipe: 'default', settings: program.recipe },
      ...Object.entries(program.variants ?? {}).map(([recipe, settings]) => ({
        name: `${program.name}:${recipe}`,
        program,
        recipe,
        settings,
      })),
    ]);

/**
 * Train programs on images and test them after every epoch.
 * @throws ArgumentError for a program that does not exist · FileError without the images · the signal's reason
 */
export async function runAccuracyBench(options: AccuracyOptions = {}): Promise<AccuracyResults> {
  const { only, epochs, seeds = [0], data = 'mnist', limit, signal } = options;
  const { train, test } = await loadImages(data);
  const chosen = selected(only);
  const runs: AccuracyRun[] = [];
  for (const { name, program, recipe, settings: own } of chosen) {
    const settings = epochs === undefined ? own : { ...own, epochs };
    for (const seed of seeds) {
      manualSeed(seed);
      const model = program.build();
      const images = limit === undefined ? train : train.slice(0, Math.min(limit, train.length));
      const { epochs: reports } = await fit(model, {
        train: new Loader(images, { batchSize: settings.batchSize, shuffle: true, seed }),
        validation: new Loader(test, { batchSize: 500 }),
        ...fitOptionsOf(program, settings, model),
        signal,
        callbacks: [teller(`${name}, seed ${seed}`, options.onProgress)],
      });
      signal?.throwIfAborted();
      const figures = reports.map(({ loss, validation, seconds }) => ({
        loss: rounded(loss),
        testLoss: rounded(validation!.loss),
        accuracy: validation!.metrics.accuracy!,
        seconds: rounded(seconds),
      }));
      const seconds = figures.reduce((sum, epoch) => sum + epoch.seconds, 0);
      runs.push({
        program: program.name,
        recipe,
        settings,
        seed,
        accuracy: figures.at(-1)!.accuracy,
        seconds: rounded(seconds),
        imagesPerSecond: Math.round((images.length * figures.length) / seconds),
        epochs: figures,
      });
    }
  }
  const command = [
    'npx heddle bench accuracy',
    ...(only ? ['--only', only.join(',')] : []),
    ...(epochs === undefined ? [] : ['--epochs', epochs]),
    '--seeds',
    seeds.join(','),
    ...(data === 'mnist' ? [] : ['--data', data]),
    ...(limit === undefined ? [] : ['--limit', limit]),
  ].join(' ');
  return { benchmark: 'accuracy', ...circumstances(command), device: measuredDevice(device()), data, runs };
}

/** @throws ArgumentError naming the programs there are */
function selected(only: readonly string[] | undefined): Entry[] {
  const all = entries();
  return (
    only?.map((name) => {
      const found = all.find((entry) => entry.name === name);
      if (found) return found;
      const names = all.map((entry) => entry.name).join(', ');
      throw new ArgumentError(`no program on images is called '${name}'. Expected one of: ${names}.`);
    }) ?? all
  );
}

const teller = (name: string, tell: AccuracyOptions['onProgress']): Callback => ({
  onEpochEnd: ({ epoch, epochs, validation, seconds }) => {
    const accuracy = (100 * validation!.metrics.accuracy!).toFixed(2);
    tell?.(`${name}: epoch ${epoch + 1} of ${epochs}, test accuracy ${accuracy} %, ${seconds.toFixed(1)} s`);
    return undefined;
  },
});
