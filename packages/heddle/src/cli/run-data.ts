/** What the commands on runs have in common: the device, and the data that a program is trained on and judged by. */
import { relative, resolve } from 'node:path';
import { ArgumentError } from '../core/errors.js';
import {
  type Dataset,
  IMAGE_SETS,
  Loader,
  loadImages,
  quadrantPoints,
  separablePoints,
  TensorDataset,
  type TextCodec,
} from '../data/index.js';
import type { LoaderOf, LoaderOptions } from '../data/loader.js';
import { listDevices } from '../runtime/registry.js';
import { useDevice } from '../tensor/modes.js';
import type { Tensor } from '../tensor/tensor.js';
import type { DataSizes, TrainingProgram } from '../train/programs.js';
import type { Recipe } from '../train/recipes.js';
import type { ImageFilesOptions } from './data-package.js';
import { isImageFolder, readImageFolder } from './image-files.js';
import type { ImageFilesConfig, RunConfig } from './run-folder.js';
import { chosenCodec, readTextData, type TextData, type TokenizerOptions } from './text-data.js';

/**
 * Larger ones take more memory for what lies between the layers, and save little: with batches of 1,000, a seventh of the
 * time of a pass over the test images.
 */
const EVALUATION_BATCH = 200;
/** Windows of a text have more between the layers than images. */
const EVALUATION_WINDOWS = 32;

/** Labelled examples, of which parts can be taken. */
export interface ClassDataset extends Dataset {
  slice(begin: number, end: number): ClassDataset;
}

type RunDataset = ClassDataset | TensorDataset<Tensor, Tensor>;

/** The batches of a data set of either kind. */
export const loaderOf = (dataset: RunDataset, options: LoaderOptions): LoaderOf<Tensor> =>
  dataset instanceof TensorDataset ? new Loader(dataset, options) : new Loader<Dataset>(dataset, options);

/** The batches that a model is judged by. */
export const evaluationLoader = (test: RunDataset): LoaderOf<Tensor> => {
  const most = test instanceof TensorDataset ? EVALUATION_WINDOWS : EVALUATION_BATCH;
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
export interface ClassData extends RunData<ClassDataset> {
  /** What the classes are called. */
  readonly classes: readonly string[];
  /** How they are read, of images in files. */
  readonly files?: ImageFilesConfig;
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
  /** What config.json says of the data of a run that there is. */
  readonly of?: Pick<RunConfig['data'], 'classNames' | 'files'> | undefined;
  /** What encodes the text of a run that there is. */
  readonly codec?: TextCodec | undefined;
  /** What the options of a new run say of that. */
  readonly tokenizer?: TokenizerOptions | undefined;
  /** Of images in files. */
  readonly images?: ImageFilesOptions & { readonly skipDamaged?: boolean };
  /** Only to judge a model. */
  readonly isTest?: boolean;
  /** Is told how far long work is. */
  readonly tell?: (text: string) => void;
  /** Is told what should be known. */
  readonly warn?: (text: string) => void;
}

/** Options that name data. */
export interface DataOptions extends TokenizerOptions {
  readonly data?: string;
  readonly text?: string;
}

/**
 * What the options name: an image set, or a text by its whole path.
 * @throws ArgumentError for an option that is not of the program's data
 */
export function dataNamed(
  program: TrainingProgram,
  { data, text, tokenizer, vocabularySize }: DataOptions,
): string | undefined {
  const isText = program.data === 'text';
  if (isText && data !== undefined)
    throw new ArgumentError(`${program.name} is trained on a text: name it by --text, leave --data out.`);
  if (!isText && text !== undefined)
    throw new ArgumentError(`${program.name} is not trained on a text: leave --text ${text} out.`);
  if (!isText && (tokenizer !== undefined || vocabularySize !== undefined))
    throw new ArgumentError(
      `${program.name} is not trained on a text: leave --tokenizer and --vocabulary-size out.`,
    );
  return text === undefined ? data : resolve(text);
}

/** What a run's network depends on in its data. */
export const sizesOf = ({
  inputShape,
  classNames,
  vocabulary,
  tokenizer,
}: Partial<RunConfig['data']>): DataSizes =>
  vocabulary === undefined
    ? { inputShape, classes: tokenizer?.size ?? classNames?.length }
    : { classes: [...vocabulary].length };

/** The data that a program is trained on and judged by. */
export async function loadData(plan: DataPlan): Promise<ClassData | TextData> {
  const { program, data, seed, limit } = plan;
  if (program.data === 'text') {
    const loaded = await windows(plan);
    return { ...loaded, train: beginning(loaded.train, limit) };
  }
  const loaded = program.data === 'images' ? await images(plan) : points(program, data, seed);
  return { ...loaded, train: beginning(loaded.train, limit) };
}

/** The first examples, or all. */
const beginning = <D extends { readonly length: number; slice(begin: number, end: number): D }>(
  dataset: D,
  limit: number | undefined,
): D => (limit !== undefined && limit < dataset.length ? dataset.slice(0, limit) : dataset);

async function windows({ program, recipe, data, codec, tokenizer, tell }: DataPlan): Promise<TextData> {
  if (data === undefined)
    throw new ArgumentError(`${program.name} is trained on a text: name its file, as in --text book.txt.`);
  const used = codec ?? (await chosenCodec(data, tokenizer ?? {}, tell ?? (() => {})));
  return readTextData(data, recipe.sizes!.context, used);
}

async function images(plan: DataPlan): Promise<ClassData> {
  const { data = 'mnist', images: options } = plan;
  if (!Object.hasOwn(IMAGE_SETS, data) && isImageFolder(data)) return imagesInFiles(plan, data);
  if (options && Object.keys(options).length > 0)
    throw new ArgumentError(
      `${data} is not a folder of images: leave --size, --resize and --skip-damaged out.`,
    );
  const { train, test, source, classes } = await loadImages(data);
  return { name: data === source ? data : `${data} (${near(source)})`, source, train, test, classes };
}

async function imagesInFiles(plan: DataPlan, root: string): Promise<ClassData> {
  const { seed, limit, of, isTest, images: { skipDamaged, ...options } = {} } = plan;
  const { classNames, files } = of ?? {};
  if (isTest && files === undefined)
    throw new ArgumentError(
      `the run was not trained on images in files: ${root} cannot be read as its images were.`,
    );
  const read = await readImageFolder({
    ...{ root, seed, options, classNames, files, limit, skipDamaged, isTest },
    tell: plan.tell ?? (() => {}),
    warn: plan.warn ?? (() => {}),
  });
  const [channels, height, width] = read.train.inputShape as [number, number, number];
  const shape = `${height} × ${width} in ${channels === 1 ? 'shades of grey' : 'colour'}`;
  const name = `${near(resolve(root))} (${read.classNames.length} classes, ${shape})`;
  return {
    name,
    source: resolve(root),
    train: read.train,
    test: read.test,
    classes: read.classNames,
    files: read.files,
  };
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
