/**
 * CIFAR-10 and CIFAR-100 in their binary form: for each image its labels, a byte each, then 3 × 32 × 32 bytes, channel by
 * channel (A. Krizhevsky, Learning multiple layers of features from tiny images, 2009).
 */
import { existsSync } from '#platform/files.js';
import { basename, join } from '#platform/paths.js';
import { DataError, FileError } from '../core/errors.js';
import { gunzipped } from '../io/gzip.js';
import { readBytes } from '../io/read.js';
import { tarFiles } from '../io/tar.js';
import { requireClasses } from './labels.js';

const PIXELS = 3 * 32 * 32;

/** How a set is laid out. */
interface CifarLayout {
  /** Its folder, and the archive that has it, by the names that they are published by. */
  readonly folder: string;
  readonly archive: string;
  readonly train: readonly string[];
  readonly test: string;
  /** Bytes of labels before an image: the last one is the class. */
  readonly labels: number;
  readonly classes: number;
}

export const CIFAR = {
  cifar10: {
    folder: 'cifar-10-batches-bin',
    archive: 'cifar-10-binary.tar.gz',
    train: [1, 2, 3, 4, 5].map((part) => `data_batch_${part}.bin`),
    test: 'test_batch.bin',
    labels: 1,
    classes: 10,
  },
  cifar100: {
    folder: 'cifar-100-binary',
    archive: 'cifar-100-binary.tar.gz',
    train: ['train.bin'],
    test: 'test.bin',
    // Of its superclass, then its class.
    labels: 2,
    classes: 100,
  },
} as const satisfies Record<string, CifarLayout>;

export type CifarName = keyof typeof CIFAR;

/** Images and their classes. */
export interface CifarPart {
  /** n × 3 × 32 × 32. */
  readonly inputs: Uint8Array;
  readonly labels: Uint8Array;
}

/** Where these sets are looked for: as a folder or an archive, in the working folder and its folder `data`. */
export const cifarPlaces = (name: CifarName): string[] =>
  ['.', 'data'].flatMap((place) => [join(place, CIFAR[name].folder), join(place, CIFAR[name].archive)]);

/** Whether a folder has all files of a set, or a file is named as its archive. */
export function isCifar(name: CifarName, source: string): boolean {
  const { train, test } = CIFAR[name];
  if (isArchive(name, source)) return existsSync(source);
  return [...train, test].every((file) => existsSync(join(source, file)));
}

const isArchive = (name: CifarName, source: string): boolean => basename(source) === CIFAR[name].archive;

/** Which of the sets a folder or an archive has, if any. */
export const cifarIn = (source: string): CifarName | undefined =>
  (Object.keys(CIFAR) as CifarName[]).find((name) => isCifar(name, source));

/** @throws FileError for a file that is missing or damaged */
export async function readCifar(
  name: CifarName,
  source: string,
): Promise<{ readonly train: CifarPart; readonly test: CifarPart }> {
  const { train, test } = CIFAR[name];
  const read = isArchive(name, source)
    ? await archived(source)
    : (file: string) => readBytes(join(source, file));
  const partOf = async (files: readonly string[]): Promise<CifarPart> => {
    const rows: CifarRows[] = [];
    for (const file of files) rows.push(rowsOf(name, await read(file), join(source, file)));
    return separated(rows);
  };
  return { train: await partOf(train), test: await partOf([test]) };
}

/** Reads a file of an archive, in whatever folder it is there. */
async function archived(source: string): Promise<(file: string) => Promise<Uint8Array>> {
  const files = tarFiles(await gunzipped(await readBytes(source), source), source);
  return async (file) => {
    const found = [...files].find(([path]) => basename(path) === file);
    if (!found) throw new FileError(source, `has no ${file}. Get it again.`);
    return found[1];
  };
}

/** The bytes of a file: images with labels before each. */
interface CifarRows {
  readonly bytes: Uint8Array;
  readonly labels: number;
  readonly count: number;
}

function rowsOf(name: CifarName, bytes: Uint8Array, path: string): CifarRows {
  const { labels, classes } = CIFAR[name];
  const row = labels + PIXELS;
  const count = bytes.length / row;
  if (count === 0 || !Number.isInteger(count))
    throw new FileError(
      path,
      `has ${bytes.length} bytes, must have ${row} for each image: ${labels} of labels and 3 × 32 × 32. The file is damaged ` +
        'or was not fully downloaded: get it again.',
    );
  const own = Uint8Array.from({ length: count }, (_, i) => bytes[i * row + labels - 1]!);
  try {
    requireClasses(own, classes, (place) => `image ${place}`);
  } catch (error) {
    throw new DataError(`${path}: ${(error as Error).message}`);
  }
  return { bytes, labels, count };
}

/** The images of several files, and their classes. */
function separated(files: readonly CifarRows[]): CifarPart {
  const count = files.reduce((sum, file) => sum + file.count, 0);
  const part = { inputs: new Uint8Array(count * PIXELS), labels: new Uint8Array(count) };
  let image = 0;
  for (const { bytes, labels, count: own } of files)
    for (let i = 0; i < own; i++, image++) {
      const at = i * (labels + PIXELS) + labels;
      part.labels[image] = bytes[at - 1]!;
      part.inputs.set(bytes.subarray(at, at + PIXELS), image * PIXELS);
    }
  return part;
}
