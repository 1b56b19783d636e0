/** Some of the examples of a data set. */
import { anArrayLike, integerFrom, requireArgument } from '../core/arguments.js';
import type { Shape } from '../core/shape.js';
import { type Dataset, type RemoteDataset, requireDataset } from './dataset.js';
import type { EpochRandom } from './epoch-random.js';
import type { AnyDataset } from './loader.js';
import { REMOTE_DATASETS } from './remote-module.js';

/** What another thread opens a `Subset` from. */
export interface RemoteSubset {
  readonly dataset: RemoteDataset;
  readonly indices: Uint32Array;
}

/**
 * The examples `indices` of a data set, in that order, read from it when they are asked for, as PyTorch's `Subset`.
 * @example const firstHundred = new Subset(images, [...Array(100).keys()]);
 */
export class Subset implements Dataset {
  /** The whole data set. */
  readonly dataset: Dataset;
  /** Of each example, its number in the whole data set. */
  readonly indices: Uint32Array;
  /** How many examples there are. */
  readonly length: number;
  /** The shape of one example. */
  readonly inputShape: Shape;
  /** How many classes there are, in the whole data set. */
  readonly classes: number;
  /** See `Dataset.remote`. There is none if the whole data set has none. */
  readonly remote?: () => RemoteDataset;

  /** @param indices numbers of examples, in any order, also several times @throws ArgumentError */
  constructor(dataset: Dataset, indices: ArrayLike<number>) {
    requireDataset('Subset', 'dataset', dataset);
    requireArgument('Subset', 'indices', indices, anArrayLike);
    const anExample = integerFrom(0, dataset.length - 1);
    for (let i = 0; i < indices.length; i++) requireArgument('Subset', `index ${i}`, indices[i], anExample);
    const chosen = Uint32Array.from(indices);
    this.dataset = dataset;
    this.indices = chosen;
    this.length = chosen.length;
    this.inputShape = dataset.inputShape;
    this.classes = dataset.classes;
    if (dataset.remote)
      this.remote = () => {
        const data: RemoteSubset = { dataset: dataset.remote!(), indices: chosen };
        return { module: REMOTE_DATASETS, open: 'openSubset', data };
      };
  }

  /** See `Dataset.batchInto`. An example has the random numbers that it has in the whole data set. */
  batchInto(
    indices: ArrayLike<number>,
    inputs: Float32Array,
    labels: Int32Array,
    random?: EpochRandom,
  ): void | Promise<void> {
    requireArgument('batchInto', 'indices', indices, anArrayLike);
    const anExample = integerFrom(0, this.length - 1);
    const chosen = Uint32Array.from(indices, (index) => {
      requireArgument('batchInto', 'example', index, anExample);
      return this.indices[index]!;
    });
    return this.dataset.batchInto(chosen, inputs, labels, random);
  }
}

/** What a part of a data set is: what its `select` gives, or a `Subset`. */
export type SubsetOf<D extends AnyDataset> = D extends {
  select(indices: ArrayLike<number>): infer Part extends AnyDataset;
}
  ? Part
  : Dataset;

/** The examples `indices`: by the data set's own `select` where it has one. */
export function partOf<D extends AnyDataset>(dataset: D, indices: ArrayLike<number>): SubsetOf<D> {
  const part = dataset.select ? dataset.select(indices) : new Subset(dataset as Dataset, indices);
  return part as SubsetOf<D>;
}
