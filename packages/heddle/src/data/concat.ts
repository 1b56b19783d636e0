/** Data sets one after the other. */
import { integerFrom, listOf, requireArgument } from '../core/arguments.js';
import { DataError } from '../core/errors.js';
import { formatShape, type Shape, sameShape, sizeOf } from '../core/shape.js';
import { allWritten } from './all-written.js';
import { aDataset, type Dataset, type RemoteDataset, requireBatch } from './dataset.js';
import type { EpochRandom } from './epoch-random.js';
import { REMOTE_DATASETS } from './remote-module.js';

/** What another thread opens a `ConcatDataset` from. */
export type RemoteParts = readonly RemoteDataset[];

/**
 * The examples of several data sets, those of the first before those of the second, as PyTorch's `ConcatDataset`.
 * @example const all = new ConcatDataset([train, extra]);
 */
export class ConcatDataset implements Dataset {
  /** What it is made of. */
  readonly datasets: readonly Dataset[];
  /** How many examples there are, of all. */
  readonly length: number;
  /** The shape of one example. */
  readonly inputShape: Shape;
  /** How many classes there are: the most of any. */
  readonly classes: number;
  /** See `Dataset.remote`. There is none if one of the data sets has none. */
  readonly remote?: () => RemoteDataset;
  /** The first example of each. */
  readonly #begins: readonly number[];

  /** @throws DataError unless all inputs have one shape; ArgumentError */
  constructor(datasets: readonly Dataset[]) {
    requireArgument('ConcatDataset', 'datasets', datasets, listOf(aDataset));
    const [first] = datasets;
    requireArgument('ConcatDataset', 'the number of data sets', datasets.length, integerFrom(1));
    for (const [i, { inputShape }] of datasets.entries())
      if (!sameShape(inputShape, first!.inputShape))
        throw new DataError(
          `[ConcatDataset] data set ${i} has inputs of shape ${formatShape(inputShape)}, data set 0 ` +
            `${formatShape(first!.inputShape)}: they must be the same.`,
        );
    let end = 0;
    this.#begins = datasets.map(({ length }) => {
      end += length;
      return end - length;
    });
    this.datasets = [...datasets];
    this.length = end;
    this.inputShape = first!.inputShape;
    this.classes = Math.max(...datasets.map(({ classes }) => classes));
    if (datasets.every(({ remote }) => remote))
      this.remote = () => {
        const data: RemoteParts = datasets.map((dataset) => dataset.remote!());
        return { module: REMOTE_DATASETS, open: 'openConcat', data };
      };
  }

  /** See `Dataset.batchInto`. */
  batchInto(
    indices: ArrayLike<number>,
    inputs: Float32Array,
    labels: Int32Array,
    random?: EpochRandom,
  ): void | Promise<void> {
    requireBatch(indices, inputs, labels);
    const features = sizeOf(this.inputShape);
    const places = Array.from(indices, (index) => this.#placeOf(index));
    const written: (void | Promise<void>)[] = [];
    for (let begin = 0, end = 0; begin < places.length; begin = end) {
      const { part } = places[begin]!;
      while (end < places.length && places[end]!.part === part) end++;
      written.push(
        this.datasets[part]!.batchInto(
          places.slice(begin, end).map(({ index }) => index),
          inputs.subarray(begin * features, end * features),
          labels.subarray(begin, end),
          random?.from(this.#begins[part]!),
        ),
      );
    }
    return allWritten(written);
  }

  #placeOf(index: number): { readonly part: number; readonly index: number } {
    requireArgument('batchInto', 'example', index, integerFrom(0, this.length - 1));
    let part = this.#begins.length - 1;
    while (this.#begins[part]! > index) part--;
    return { part, index: index - this.#begins[part]! };
  }
}
