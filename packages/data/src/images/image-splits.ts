/** Image folders for training and for judging what was learned. */
import { join } from 'node:path';
import { DataError } from 'heddle';
import {
  aString,
  integerFrom,
  type Rules,
  requireArgument,
  requireOptions,
} from 'heddle/internal/core/arguments.js';
import { PhiloxStream } from 'heddle/internal/core/philox.js';
import { foldersIn } from './find-images.js';
import { FOLDER_RULES, type ImageFolder, type ImageFolderOptions, imageFolder } from './image-folder.js';

/** Options of `imageSplits`. */
export interface ImageSplitsOptions extends ImageFolderOptions {
  /** The fraction of each class that is held out where no folder is for it. Default: 0.2. */
  readonly heldOut?: number;
  /** Which ones are held out. Default: 0. */
  readonly seed?: number;
}

/** The images of one folder in parts, with the same classes and format. */
export interface ImageSplits {
  /** The folder. */
  readonly source: string;
  /** The name of each class. */
  readonly classNames: readonly string[];
  /** To train on. */
  readonly train: ImageFolder;
  /** To judge by during the training: the same as `test` where there is but one of them. */
  readonly validation: ImageFolder;
  /** To judge by in the end. */
  readonly test: ImageFolder;
}

const SPLITS_RULES: Rules<ImageSplitsOptions> = {
  ...FOLDER_RULES,
  heldOut: { must: 'a number above 0 and below 1', holds: (v) => typeof v === 'number' && v > 0 && v < 1 },
  seed: integerFrom(0),
};

/** What the folders of the parts are called. */
const PARTS = {
  train: ['train', 'training'],
  validation: ['val', 'valid', 'validation'],
  test: ['test', 'testing'],
} as const;

/**
 * The images of a folder to train on and to test with. It has folders `train`, and `test` or `val` or both, each with a
 * folder for each class; or it has the folders of the classes itself, of which a part is held out, of each class the
 * same fraction.
 * @throws DataError as `imageFolder` does; ArgumentError
 */
export async function imageSplits(root: string, options: ImageSplitsOptions = {}): Promise<ImageSplits> {
  requireArgument('imageSplits', 'root', root, aString);
  requireOptions('imageSplits', options, SPLITS_RULES);
  const { heldOut = 0.2, seed = 0, ...shared } = options;
  const folders = await foldersIn(root);
  const named = (part: keyof typeof PARTS): string | undefined =>
    folders.find((name) => (PARTS[part] as readonly string[]).includes(name.toLowerCase()));
  const all: readonly string[] = Object.values(PARTS).flat();
  const isSplit = named('train') !== undefined && folders.every((name) => all.includes(name.toLowerCase()));
  if (!isSplit) {
    const { train, test } = heldOutOf(await imageFolder(root, shared), heldOut, seed);
    return { source: root, classNames: train.classNames, train, validation: test, test };
  }
  const train = await imageFolder(join(root, named('train')!), shared);
  const { classNames, format } = train;
  const judged = async (part: 'validation' | 'test'): Promise<ImageFolder | undefined> => {
    const name = named(part);
    return name === undefined ? undefined : imageFolder(join(root, name), { ...format, classNames });
  };
  const validation = await judged('validation');
  const test = (await judged('test')) ?? validation;
  if (test === undefined) {
    const split = heldOutOf(train, heldOut, seed);
    return { source: root, classNames, train: split.train, validation: split.test, test: split.test };
  }
  return { source: root, classNames, train, validation: validation ?? test, test };
}

/** At least one of each class that has two. */
function heldOutOf(
  folder: ImageFolder,
  fraction: number,
  seed: number,
): { readonly train: ImageFolder; readonly test: ImageFolder } {
  const train: number[] = [];
  const test: number[] = [];
  const examples: number[][] = folder.classNames.map(() => []);
  for (const [i, label] of folder.labels.entries()) examples[label]!.push(i);
  for (const [label, own] of examples.entries()) {
    const random = new PhiloxStream(seed, label);
    for (let last = own.length - 1; last > 0; last--) {
      const other = random.below(last + 1);
      [own[last], own[other]] = [own[other]!, own[last]!];
    }
    const count =
      own.length < 2 ? 0 : Math.min(own.length - 1, Math.max(1, Math.round(fraction * own.length)));
    for (const [place, i] of own.entries()) (place < count ? test : train).push(i);
  }
  if (test.length === 0)
    throw new DataError(
      `${folder.root}: no class has two images, so that none can be held out to test with. Add images.`,
    );
  const ascending = (a: number, b: number): number => a - b;
  return { train: folder.select(train.sort(ascending)), test: folder.select(test.sort(ascending)) };
}
