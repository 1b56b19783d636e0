/** A data set in parts. */
import {
  above,
  anArrayLike,
  integerFrom,
  listOf,
  type Rules,
  requireArgument,
  requireOptions,
} from '../core/arguments.js';
import { ArgumentError } from '../core/errors.js';
import { PhiloxStream } from '../core/philox.js';
import { requireDataset } from './dataset.js';
import type { AnyDataset } from './loader.js';
import { groupsOf, shuffle, shuffled } from './order.js';
import { partOf, type SubsetOf } from './subset.js';
import { TensorDataset } from './tensor-dataset.js';

/** Options of `randomSplit` and `kFold`. */
export interface SplitOptions {
  /** Default: 0. */
  readonly seed?: number;
  /**
   * The class of each example, such as the `labels` of an `ArrayDataset`: every part then has each class's share of it,
   * within one example. Default: none, examples are chosen whatever their class.
   */
  readonly stratify?: ArrayLike<number>;
}

const SPLIT: Rules<SplitOptions> = { seed: integerFrom(0), stratify: anArrayLike };

/**
 * The examples in parts, each in one of them, chosen at random: `randomSplit(dataset, [0.9, 0.1])` gives one to train on
 * and one for validation. A part is what the data set's `select` gives, where it has one, else a `Subset`.
 * @param fractions of the examples, together at most 1; each part has at least the fraction's whole examples
 */
export function randomSplit<D extends AnyDataset>(
  dataset: D,
  fractions: readonly number[],
  options: SplitOptions = {},
): SubsetOf<D>[] {
  const groups = shuffledGroups('randomSplit', dataset, options);
  requireArgument('randomSplit', 'fractions', fractions, listOf(above(0)));
  const sum = fractions.reduce((a, b) => a + b, 0);
  if (sum > 1 + 1e-9)
    throw new ArgumentError(`[randomSplit] the fractions add up to ${sum}, must be at most 1.`);
  const ends = fractions.map((_, i) => fractions.slice(0, i + 1).reduce((a, b) => a + b, 0));
  return ends.map((share, i) => {
    const from = ends[i - 1] ?? 0;
    const chosen = groups.map((group) =>
      group.subarray(Math.round(from * group.length), Math.round(share * group.length)),
    );
    return partOf(dataset, joined(chosen));
  });
}

/** One of the ways to take a part out of a data set. */
export interface KFold<Part> {
  /** All examples but those of `validation`. */
  readonly train: Part;
  /** A `folds`-th of the examples. */
  readonly validation: Part;
}

/**
 * For k-fold cross-validation: the examples in `folds` parts at random, as equal as can be, and each part in turn to
 * validate on, the others to train on. A fold is made when it is asked for.
 * @param folds at least 2, at most as many as there are examples
 * @example for (const { train, validation } of kFold(dataset, 5, { stratify: dataset.labels })) { … }
 */
export function* kFold<D extends AnyDataset>(
  dataset: D,
  folds: number,
  options: SplitOptions = {},
): Generator<KFold<SubsetOf<D>>, void, undefined> {
  const order = joined(shuffledGroups('kFold', dataset, options));
  requireArgument('kFold', 'folds', folds, integerFrom(2, Math.max(2, dataset.length)));
  for (let fold = 0; fold < folds; fold++) {
    // Every `folds`-th, so that a part has its share of each class, which lie one after the other.
    const isHeldOut = (_: number, place: number): boolean => place % folds === fold;
    const validation = partOf(dataset, order.filter(isHeldOut));
    const train = partOf(
      dataset,
      order.filter((example, place) => !isHeldOut(example, place)),
    );
    yield { train, validation };
  }
}

/** The examples in a random order, class by class where that is asked for. */
function shuffledGroups(op: string, dataset: AnyDataset, options: SplitOptions): readonly Uint32Array[] {
  if (!(dataset instanceof TensorDataset)) requireDataset(op, 'dataset', dataset);
  requireOptions(op, options, SPLIT);
  const { seed = 0, stratify } = options;
  const random = new PhiloxStream(seed);
  if (!stratify) return [shuffled(dataset.length, random)];
  if (stratify.length !== dataset.length)
    throw new ArgumentError(
      `[${op}] stratify has ${stratify.length} classes, the data set ${dataset.length} examples: must be one for each.`,
    );
  return groupsOf(op, stratify).map((group) => shuffle(group, random));
}

function joined(groups: readonly Uint32Array[]): Uint32Array {
  const all = new Uint32Array(groups.reduce((sum, { length }) => sum + length, 0));
  let end = 0;
  for (const group of groups) {
    all.set(group, end);
    end += group.length;
  }
  return all;
}
