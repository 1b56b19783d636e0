/** Random numbers for the examples of an epoch, as of augmentation on the host. */
import { integerFrom, requireArgument } from '../core/arguments.js';
import { PhiloxStream } from '../core/philox.js';

/**
 * Where the examples of an epoch get their random numbers. They depend on the seed, the epoch and the example alone: not
 * on the batch it is in, on the order of the batches, or on the thread that makes them.
 */
export class EpochRandom {
  /** Of the loader. */
  readonly seed: number;
  /** The number of the epoch, from 0. */
  readonly epoch: number;
  /** The number of example 0 where the data set is a part of another. */
  #first = 0;

  /** @throws ArgumentError unless both are integers from 0 to 2^53 − 1 */
  constructor(seed: number, epoch: number) {
    requireArgument('EpochRandom', 'seed', seed, integerFrom(0));
    requireArgument('EpochRandom', 'epoch', epoch, integerFrom(0));
    this.seed = seed;
    this.epoch = epoch;
  }

  /**
   * The random numbers of an example, from the first on at each call: ask once for each example.
   * @param index of the example in the data set
   * @example const flip = random.of(index).uniform() < 0.5;
   */
  of(index: number): PhiloxStream {
    requireArgument('of', 'index', index, integerFrom(0, 2 ** 32 - 2));
    // Substream 0 is the order of the epoch.
    return new PhiloxStream(this.seed, this.epoch, this.#first + index + 1);
  }

  /** The numbers of a part whose example 0 is example `first` of the data set that these are of. */
  from(first: number): EpochRandom {
    requireArgument('from', 'first', first, integerFrom(0, 2 ** 32 - 2));
    const part = new EpochRandom(this.seed, this.epoch);
    part.#first = this.#first + first;
    return part;
  }
}
