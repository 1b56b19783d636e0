/** Samplers: which examples an epoch has, and in which order. */
import {
  aBoolean,
  anArrayLike,
  integerFrom,
  type Rule,
  type Rules,
  requireArgument,
  requireOptions,
  shaped,
  shown,
} from '../core/arguments.js';
import { ArgumentError } from '../core/errors.js';
import type { PhiloxStream } from '../core/philox.js';
import { classOrder, groupsOf, inOrder, shuffle, shuffled } from './order.js';

/** Chooses the examples of an epoch: an option of a `Loader`. Implement it to choose them in a way of your own. */
export interface Sampler {
  /** How many examples an epoch has. */
  readonly length: number;
  /**
   * The examples of an epoch in their order: `length` indices of the data set. Where it follows from the arguments
   * alone, a training can be resumed in the middle.
   * @param random numbers drawn from the loader's seed and the epoch
   * @param epoch its number, from 0
   */
  order(random: PhiloxStream, epoch: number): Uint32Array;
}

/** @internal */
export const aSampler: Rule = shaped('a sampler such as a WeightedRandomSampler, with length and order', {
  length: integerFrom(0),
  order: { must: 'a function', holds: (v) => typeof v === 'function' },
});

/** The examples as they lie in the data set: what a loader does without `shuffle`. */
export class SequentialSampler implements Sampler {
  /** How many examples an epoch has: all of the data set. */
  readonly length: number;

  /** @param length examples of the data set @throws ArgumentError */
  constructor(length: number) {
    requireArgument('SequentialSampler', 'length', length, integerFrom(0, 2 ** 32 - 1));
    this.length = length;
  }

  /** 0, 1, 2, … */
  order(): Uint32Array {
    return inOrder(this.length);
  }
}

/** Each example once, every order as likely: what a loader does with `shuffle: true`. */
export class RandomSampler implements Sampler {
  /** How many examples an epoch has: all of the data set. */
  readonly length: number;

  /** @param length examples of the data set @throws ArgumentError */
  constructor(length: number) {
    requireArgument('RandomSampler', 'length', length, integerFrom(0, 2 ** 32 - 1));
    this.length = length;
  }

  /** See `Sampler.order`. */
  order(random: PhiloxStream): Uint32Array {
    requireRandom(random);
    return shuffled(this.length, random);
  }
}

/** Options of `WeightedRandomSampler`. */
export interface WeightedSamplerOptions {
  /** Whether an example may come more than once in an epoch. Default: true. */
  readonly replacement?: boolean;
}

const WEIGHTED: Rules<WeightedSamplerOptions> = { replacement: aBoolean };

/**
 * Examples drawn with probabilities proportional to weights, as PyTorch's `WeightedRandomSampler`: with weights of
 * 1 / (examples of its class), all classes come equally often.
 */
export class WeightedRandomSampler implements Sampler {
  /** How many examples an epoch has. */
  readonly length: number;
  readonly #weights: Float64Array;
  /** Sums of the weights up to each. */
  readonly #sums: Float64Array;
  readonly #replacement: boolean;

  /**
   * @param weights one for each example of the data set, not negative, and not all of them 0; they need not add up to 1
   * @param numSamples how many examples an epoch has
   * @throws ArgumentError for other weights, or without replacement, if fewer than `numSamples` weights are above 0
   */
  constructor(weights: ArrayLike<number>, numSamples: number, options: WeightedSamplerOptions = {}) {
    requireArgument('WeightedRandomSampler', 'weights', weights, anArrayLike);
    requireArgument('WeightedRandomSampler', 'numSamples', numSamples, integerFrom(1, 2 ** 32 - 1));
    requireOptions('WeightedRandomSampler', options, WEIGHTED);
    const { replacement = true } = options;
    const given = Float64Array.from(weights, Number);
    const wrong = given.findIndex((weight) => !(weight >= 0 && weight < Number.POSITIVE_INFINITY));
    if (wrong >= 0)
      throw new ArgumentError(
        `[WeightedRandomSampler] weight ${wrong} is ${shown(weights[wrong])}, must be a finite number ≥ 0.`,
      );
    const possible = given.filter((weight) => weight > 0).length;
    const needed = replacement ? 1 : numSamples;
    if (possible < needed)
      throw new ArgumentError(
        `[WeightedRandomSampler] ${possible} of the ${given.length} weights are above 0, must be at least ${needed}` +
          `${replacement ? '' : ', as many as numSamples without replacement'}.`,
      );
    this.length = numSamples;
    this.#weights = given;
    this.#replacement = replacement;
    let sum = 0;
    this.#sums = given.map((weight) => {
      sum += weight;
      return sum;
    });
  }

  /** See `Sampler.order`. */
  order(random: PhiloxStream): Uint32Array {
    requireRandom(random);
    if (this.#replacement) return new Uint32Array(this.length).map(() => this.#draw(random));
    // The order of arrivals that come at random with these rates (Efraimidis and Spirakis, Weighted random sampling
    // with a reservoir, 2006): that of draws without replacement.
    const arrivals = this.#weights.map((weight) => -Math.log(1 - fine(random)) / weight);
    // A very small weight also gives infinity, as a weight of 0 does: sorting alone cannot tell them apart.
    const order = Uint32Array.from(arrivals, (_, i) => i).filter((i) => this.#weights[i]! > 0);
    return order.sort((a, b) => arrivals[a]! - arrivals[b]! || a - b).slice(0, this.length);
  }

  /** The first example with a sum above a number that is uniform in all of it: one of weight 0 has no such number. */
  #draw(random: PhiloxStream): number {
    const sums = this.#sums;
    const at = fine(random) * sums.at(-1)!;
    let low = 0;
    let high = sums.length - 1;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (sums[middle]! > at) high = middle;
      else low = middle + 1;
    }
    // Where rounding led to the end, past the last example that has a weight.
    while (this.#weights[low] === 0) low--;
    return low;
  }
}

/**
 * Each example once, at random, so that every batch has the classes' proportions, whatever the batch size: the first n
 * examples of an epoch have each class's share of n, less than one example more or fewer.
 */
export class StratifiedSampler implements Sampler {
  /** How many examples an epoch has: all of the data set. */
  readonly length: number;
  /** The examples of each class, one class after the other. */
  readonly #groups: readonly Uint32Array[];
  /** The class at each place of an epoch, as a number of a group. */
  readonly #classes: Uint32Array;

  /** @param labels the class of each example of the data set, integers from 0 @throws ArgumentError */
  constructor(labels: ArrayLike<number>) {
    this.#groups = groupsOf('StratifiedSampler', labels);
    this.length = labels.length;
    this.#classes = classOrder(this.#groups.map((group) => group.length));
  }

  /** See `Sampler.order`. */
  order(random: PhiloxStream): Uint32Array {
    requireRandom(random);
    const groups = this.#groups.map((group) => shuffle(group.slice(), random));
    const used = groups.map(() => 0);
    return this.#classes.map((group) => groups[group]![used[group]!++]!);
  }
}

/** From 0 up to but without 1, with 53 bits: weights may differ by more than 24 bits tell. */
const fine = (random: PhiloxStream): number =>
  ((random.next() >>> 5) * 2 ** 26 + (random.next() >>> 6)) * 2 ** -53;

const RANDOM: Rule = shaped('the random numbers of an epoch, as a loader gives them', {
  next: { must: 'a function', holds: (v) => typeof v === 'function' },
});

function requireRandom(random: unknown): void {
  requireArgument('order', 'random', random, RANDOM);
}
