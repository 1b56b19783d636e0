/** A data set in parts. */
import {
  above,
  integerFrom,
  listOf,
  type Rules,
  requireArgument,
  requireOptions,
} from '../core/arguments.js';
import { ArgumentError } from '../core/errors.js';
import { PhiloxStream } from '../core/philox.js';
import { ArrayDataset } from './dataset.js';
import { shuffled } from './order.js';
import { TensorDataset } from './tensor-dataset.js';

/** Options of `randomSplit`. */
export interface SplitOptions {
  /** Default: 0. */
  readonly seed?: number;
}

const SPLIT: Rules<SplitOptions> = { seed: integerFrom(0) };

/**
 * The examples in parts, each in one of them, chosen at random: `randomSplit(dataset, [0.9, 0.1])` gives one to train on
 * and one for validation.
 * @param fractions of the examples, together at most 1; each part has at least the fraction's whole examples
 */
export function randomSplit<D extends ArrayDataset | TensorDataset>(
  dataset: D,
  fractions: readonly number[],
  options: SplitOptions = {},
): D[] {
  requireArgument('randomSplit', 'dataset', dataset, {
    must: 'an ArrayDataset or a TensorDataset',
    holds: (v) => v instanceof ArrayDataset || v instanceof TensorDataset,
  });
  requireArgument('randomSplit', 'fractions', fractions, listOf(above(0)));
  requireOptions('randomSplit', options, SPLIT);
  const sum = fractions.reduce((a, b) => a + b, 0);
  if (sum > 1 + 1e-9)
    throw new ArgumentError(`[randomSplit] the fractions add up to ${sum}, must be at most 1.`);
  const random = new PhiloxStream(options.seed ?? 0);
  const order = shuffled(dataset.length, random);
  let end = 0;
  return fractions.map((_, i) => {
    const begin = end;
    const share = fractions.slice(0, i + 1).reduce((a, b) => a + b, 0);
    end = Math.round(share * dataset.length);
    return dataset.select(order.subarray(begin, end)) as D;
  });
}
