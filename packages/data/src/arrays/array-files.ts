/** Data sets of array files: NumPy's, and IDX. */
import { DataError, type Shape } from 'heddle';
import { ArrayDataset, type Normalization } from 'heddle/data';
import {
  aString,
  integerFrom,
  type Rules,
  requireArgument,
  requireOptions,
} from 'heddle/internal/core/arguments.js';
import { loadTensors, readIdx } from 'heddle/io';
import { IMAGE_RULES } from '../images/image-format.js';

/** Options of `readArrays`. */
export interface ReadArraysOptions {
  /** How many classes there are. Default: one more than the largest label. */
  readonly classes?: number;
  /** Inputs are used as (x − mean) / std, bytes after they are divided by 255. Default: mean 0, std 1. */
  readonly normalize?: Normalization;
}

const RULES: Rules<ReadArraysOptions> = { classes: integerFrom(1), normalize: IMAGE_RULES.normalize };

interface FileArray {
  readonly shape: Shape;
  readonly values: ArrayLike<number | bigint>;
}

/**
 * Labelled examples of two files, each .npy, IDX (plain or .gz), or an array of an .npz, written `digits.npz#x`. Inputs (N, …)
 * of bytes stay bytes, others become f32; labels (N) are whole numbers.
 * @throws FileError for a file that is missing or damaged; DataError for arrays that do not fit together
 */
export async function readArrays(
  inputs: string,
  labels: string,
  options: ReadArraysOptions = {},
): Promise<ArrayDataset> {
  requireArgument('readArrays', 'inputs', inputs, aString);
  requireArgument('readArrays', 'labels', labels, aString);
  requireOptions('readArrays', options, RULES);
  const [given, targets] = await Promise.all([arrayOf(inputs), arrayOf(labels)]);
  const numbers = Int32Array.from(targets.values, Number);
  const wrong = numbers.findIndex((label, i) => label !== Number(targets.values[i]) || label < 0);
  if (targets.shape.length !== 1 || wrong >= 0)
    throw new DataError(
      `${labels}: has the shape (${targets.shape.join(',')})${wrong < 0 ? '' : ` and the value ${targets.values[wrong]}`}, must be (N) whole numbers from 0 on.`,
    );
  if (given.shape[0] !== numbers.length)
    throw new DataError(
      `${inputs} has ${given.shape[0] ?? 1} rows, ${labels} ${numbers.length}: there must be as many.`,
    );
  const { classes = numbers.reduce((most, label) => Math.max(most, label), 0) + 1, normalize } = options;
  const { values } = given;
  return new ArrayDataset({
    inputs: values instanceof Uint8Array ? values : Float32Array.from(values, Number),
    inputShape: given.shape.slice(1),
    ...{ labels: numbers, classes, ...(normalize && { normalize }) },
  });
}

async function arrayOf(name: string): Promise<FileArray> {
  const [, path, entry = 'array'] = /^(.*\.np[yz])(?:#(.*))?$/.exec(name) ?? [];
  if (path === undefined) {
    const { shape, elements } = await readIdx(name);
    return { shape, values: elements };
  }
  const { tensors } = await loadTensors(path);
  const found = tensors[entry];
  if (!found)
    throw new DataError(
      `${path}: has no array '${entry}'. Name one of these after #: ${Object.keys(tensors).join(', ')}.`,
    );
  return { shape: found.shape, values: await found.data() };
}
