/** What the commands on runs have in common: the device, and the data that a program is trained on and judged by. */
import { basename, relative, resolve } from 'node:path';
import { ArgumentError } from '../core/errors.js';
import { formatShape, sameShape } from '../core/shape.js';
import {
  ArrayDataset,
  Loader,
  loadImages,
  loadText,
  quadrantPoints,
  separablePoints,
  type TensorDataset,
  Vocabulary,
} from '../data/index.js';
import type { LoaderOf, LoaderOptions } from '../data/loader.js';
import { listDevices } from '../runtime/registry.js';
import { useDevice } from '../tensor/modes.js';
import type { Tensor } from '../tensor/tensor.js';
import type { TrainingProgram } from '../train/programs.js';
import type { Recipe } from '../train/recipes.js';

/**
 * Larger ones take more memory for what lies between the layers, and save little: with batches of 1,000, a seventh of the
 * time of a pass over the test images.
 */
const EVALUATION_BATCH = 200;
/** Windows of a text have more between the layers than images. */
const EVALUATION_WINDOWS = 32;

type RunDataset = ArrayDataset | TensorDataset<Tensor, Tensor>;

/** The batches of a data set of either kind. */
export const loaderOf = (dataset: RunDataset, options: LoaderOptions): LoaderOf<Tensor> =>
  dataset instanceof ArrayDataset ? new Loader(dataset, options) : new Loader(dataset, options);

/** The batches that a model is judged by. */
export const evaluationLoader = (test: RunDataset): LoaderOf<Tensor> => {
  const most = test instanceof ArrayDataset ? EVALUATION_BATCH : EVALUATION_WINDOWS;
  return loaderOf(test, { batchSize: Math.min(most, test.length) });
};

/** Open the device. @returns why it is this one */
export function chooseDevice(name: string | undefined): string {
  if (name !== undefined) {
    useDevice(name);
    return 'as asked by --device';
  }
  if (process.env.HEDDLE_DEVICE) return 'as asked by HEDDLE_DEVICE';
  const missing = listDevices().filter((d) => !d.available);
  const others = missing.map((d) => `; no ${d.name}: ${d.reason}`).join('');
  return `the fastest found${others}`;
}

/** The data of a run. */
export interface RunData<D extends RunDataset = RunDataset> {
  /** For people. */
  readonly name: string;
  readonly source: string;
  readonly train: D;
  readonly test: D;
}

/** Images or points, in classes. */
export interface ClassData extends RunData<ArrayDataset> {
  /** What the classes are called. */
  readonly classes: readonly string[];
}

/** Windows of a text. */
interface TextData extends RunData<TensorDataset<Tensor, Tensor>> {
  readonly vocabulary: Vocabulary;
}

/** Which data: those of `--data` or `--text`, or of the program. */
interface DataPlan {
  readonly program: TrainingProgram;
  readonly recipe: Recipe;
  /** As `dataNamed` gives it. */
  readonly data: string | undefined;
  readonly seed: number;
  /** Use only the first ones to train on. */
  readonly limit?: number | undefined;
  /** The characters of a run that there is. */
  readonly vocabulary?: string | undefined;
}

/** Options that name data. */
export interface DataOptions {
  readonly data?: string;
  readonly text?: string;
}

/**
 * What the options name: an image set, or a text by its whole path.
 * @throws ArgumentError for an option that is not of the program's data
 */
export function dataNamed(program: TrainingProgram, { data, text }: DataOptions): string | undefined {
  const isText = program.data === 'text';
  if (isText && data !== undefined)
    throw new ArgumentError(`${program.name} is trained on a text: name it by --text, leave --data out.`);
  if (!isText && text !== undefined)
    throw new ArgumentError(`${program.name} is not trained on a text: leave --text ${text} out.`);
  return text === undefined ? data : resolve(text);
}

/** The data that a program is trained on and judged by. */
export async function loadData(plan: DataPlan): Promise<ClassData | TextData> {
  const { program, data, seed, limit } = plan;
  if (program.data === 'text') {
    const loaded = await windows(plan);
    return { ...loaded, train: beginning(loaded.train, limit) };
  }
  const loaded = program.data === 'images' ? await images(program, data) : points(program, data, seed);
  return { ...loaded, train: beginning(loaded.train, limit) };
}

/** The first examples, or all. */
const beginning = <D extends { readonly length: number; slice(begin: number, end: number): D }>(
  dataset: D,
  limit: number | undefined,
): D => (limit !== undefined && limit < dataset.length ? dataset.slice(0, limit) : dataset);

async function windows({ program, recipe, data, vocabulary: characters }: DataPlan): Promise<TextData> {
  if (data === undefined)
    throw new ArgumentError(`${program.name} is trained on a text: name its file, as in --text book.txt.`);
  const vocabulary = characters === undefined ? undefined : new Vocabulary(characters);
  const { context } = recipe.sizes!;
  const set = await loadText(data, context, { vocabulary });
  return { ...set, name: `${basename(data)} (${set.vocabulary.size} characters), windows of ${context}` };
}

async function images(program: TrainingProgram, data = 'mnist'): Promise<ClassData> {
  const { train, test, source, classes } = await loadImages(data);
  const expected = [1, 28, 28];
  if (!sameShape(train.inputShape, expected) || classes.length !== 10) {
    throw new ArgumentError(
      `${program.name} takes images of ${formatShape(expected)} in 10 classes, ${source} has ` +
        `${formatShape(train.inputShape)} in ${classes.length}. Choose other --data.`,
    );
  }
  return { name: data === source ? data : `${data} (${near(source)})`, source, train, test, classes };
}

/** Relative to the working folder where it is in it. */
function near(path: string): string {
  const below = relative(process.cwd(), path);
  return below.startsWith('..') ? path : below;
}

function points(program: TrainingProgram, data: string | undefined, seed: number): ClassData {
  if (data !== undefined) {
    throw new ArgumentError(`${program.name} makes its own data from --seed: leave --data ${data} out.`);
  }
  const make = program.data === 'separable' ? separablePoints : quadrantPoints;
  const name = `points made from seed ${seed}`;
  return { name, source: name, classes: ['0', '1'], ...make({ seed }) };
}
