/** Examples changed, and chosen, by a function on the host. */
import {
  aFunction,
  aString,
  isThenable,
  type Rules,
  requireArgument,
  requireOptions,
} from '../core/arguments.js';
import { ArgumentError, DataError } from '../core/errors.js';
import type { PhiloxStream } from '../core/philox.js';
import { formatShape, requireShape, type Shape, sameShape, sizeOf } from '../core/shape.js';
import { allWritten } from './all-written.js';
import { type Dataset, type RemoteDataset, requireDataset } from './dataset.js';
import { EpochRandom } from './epoch-random.js';
import { Loader } from './loader.js';
import { REMOTE_DATASETS } from './remote-module.js';
import { partOf, type SubsetOf } from './subset.js';

/** What a function on examples is told besides the input. */
export interface ExampleInfo {
  /** The number of the example in the data set. */
  readonly index: number;
  /** Its class. */
  readonly label: number;
  /** Its random numbers in this epoch, the same whatever the number of workers. */
  readonly random: PhiloxStream;
}

/**
 * Changes an input: f32, row-major, in place, or by returning other values. It may be async.
 * @param input of the example, which is reused after the call
 */
export type ExampleMap = (
  input: Float32Array,
  example: ExampleInfo,
) => ArrayLike<number> | undefined | Promise<ArrayLike<number> | undefined>;

/** Options of `mapExamples`. */
export interface MapOptions {
  /** The shape of the new inputs. Default: that of the data set's. */
  readonly inputShape?: Shape | undefined;
  /**
   * The URL of a module that exports the function under its name, `import.meta.url` where it stands: workers of a
   * loader import it there, with all that the module does. Default: none, the data set cannot be used with workers.
   */
  readonly module?: string | undefined;
}

const MAP: Rules<MapOptions> = {
  inputShape: { must: 'a shape, a list of sizes as in [1, 28, 28]', holds: Array.isArray },
  module: aString,
};

/** What another thread opens a mapped data set from. */
export interface RemoteMap {
  readonly dataset: RemoteDataset;
  readonly module: string;
  readonly name: string;
  readonly inputShape: Shape;
}

/**
 * The data set with each input changed by a function when it is asked for, on the host: augmentation, for example.
 * @example
 * const noisy = mapExamples(images, (input, { random }) => {
 *   for (let i = 0; i < input.length; i++) input[i]! += 0.1 * random.normal();
 * });
 * @throws ArgumentError; when it is used, DataError for a function that returns another number of values
 */
export function mapExamples(dataset: Dataset, by: ExampleMap, options: MapOptions = {}): Dataset {
  requireDataset('mapExamples', 'dataset', dataset);
  requireArgument('mapExamples', 'by', by, aFunction);
  requireOptions('mapExamples', options, MAP);
  const { inputShape = dataset.inputShape, module } = options;
  requireShape('mapExamples', inputShape);
  if (module !== undefined && by.name === '')
    throw new ArgumentError('[mapExamples] the function has no name by which a module could export it.');
  return new MappedDataset(dataset, by, inputShape, module);
}

class MappedDataset implements Dataset {
  readonly length: number;
  readonly inputShape: Shape;
  readonly classes: number;
  readonly remote?: () => RemoteDataset;
  readonly #dataset: Dataset;
  readonly #by: ExampleMap;

  constructor(dataset: Dataset, by: ExampleMap, inputShape: Shape, module: string | undefined) {
    this.#dataset = dataset;
    this.#by = by;
    this.length = dataset.length;
    this.inputShape = inputShape;
    this.classes = dataset.classes;
    if (module !== undefined && dataset.remote)
      this.remote = () => {
        const data: RemoteMap = { dataset: dataset.remote!(), module, name: by.name, inputShape };
        return { module: REMOTE_DATASETS, open: 'openMapped', data };
      };
  }

  batchInto(
    indices: ArrayLike<number>,
    inputs: Float32Array,
    labels: Int32Array,
    random = new EpochRandom(0, 0),
  ): void | Promise<void> {
    const isSame = sameShape(this.inputShape, this.#dataset.inputShape);
    const before = isSame ? inputs : new Float32Array(indices.length * sizeOf(this.#dataset.inputShape));
    const map = (): void | Promise<void> =>
      allWritten(
        Array.from(indices, (index, row) => {
          const from = rowOf(before, row, sizeOf(this.#dataset.inputShape));
          const to = rowOf(inputs, row, sizeOf(this.inputShape));
          const mapped = this.#by(from, { index, label: labels[row]!, random: random.of(index) });
          if (!isThenable(mapped)) return this.#write(mapped, to, isSame);
          return mapped.then((values) => this.#write(values, to, isSame));
        }),
      );
    const read = this.#dataset.batchInto(indices, before, labels, random);
    return isThenable(read) ? read.then(map) : map();
  }

  #write(values: ArrayLike<number> | undefined, to: Float32Array, isSame: boolean): void {
    if (values === undefined && isSame) return;
    if (values?.length !== to.length)
      throw new DataError(
        `[mapExamples] the function returned ${values === undefined ? 'nothing' : `${values.length} values`}, must ` +
          `return ${to.length} for inputs of shape ${formatShape(this.inputShape)}.`,
      );
    to.set(values);
  }
}

const rowOf = (rows: Float32Array, row: number, size: number): Float32Array =>
  rows.subarray(row * size, (row + 1) * size);

/** Examples of a read while a data set is filtered. */
const BATCH = 64;

/**
 * The examples for which a function is true: all are read once for it, as inputs of a model.
 * @example const sevens = await filterExamples(images, (_, { label }) => label === 7);
 */
export async function filterExamples<D extends Dataset>(
  dataset: D,
  keep: (input: Float32Array, example: Pick<ExampleInfo, 'index' | 'label'>) => boolean | Promise<boolean>,
): Promise<SubsetOf<D>> {
  requireDataset('filterExamples', 'dataset', dataset);
  requireArgument('filterExamples', 'keep', keep, aFunction);
  const size = sizeOf(dataset.inputShape);
  const kept: number[] = [];
  for await (const { inputs, labels, index: batch } of new Loader<Dataset>(dataset, { batchSize: BATCH }))
    for (const [row, label] of labels.entries()) {
      const index = batch * BATCH + row;
      if (await keep(rowOf(inputs, row, size), { index, label })) kept.push(index);
    }
  return partOf(dataset, kept);
}
