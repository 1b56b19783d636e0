/** Small generated problems in the plane, the same for the same seed. */
import { integerFrom, type Rules, requireOptions, within } from '../core/arguments.js';
import { PhiloxStream } from '../core/philox.js';
import { ArrayDataset } from './dataset.js';

/** Examples to train on, and others to judge the model by. */
export interface Split {
  /** The examples to train on. */
  readonly train: ArrayDataset;
  /** The examples to judge a trained model by. */
  readonly test: ArrayDataset;
}

/** Options of data sets that are drawn at random. */
export interface ToyOptions {
  /** Default: 0. */
  readonly seed?: number;
  /** Default: 2,000, or 20 batches of 100. */
  readonly trainLength?: number;
  /** Default: 100. */
  readonly testLength?: number;
}

const TOY: Rules<ToyOptions> = {
  seed: integerFrom(0),
  trainLength: integerFrom(0),
  testLength: integerFrom(0),
};

/** Options of `separablePoints`. */
export interface SeparableOptions extends ToyOptions {
  /** The least distance of a point from the line, 0 to 0.5 (default 0.1). */
  readonly margin?: number;
}

const SEPARABLE: Rules<SeparableOptions> = { ...TOY, margin: within(0, 0.5) };

/**
 * Points in [−1, 1]², 1 on one side of a random line and 0 on the other, none nearer to the line than `margin`:
 * what a single linear layer can separate.
 */
export function separablePoints(options: SeparableOptions = {}): Split {
  requireOptions('separablePoints', options, SEPARABLE);
  const { seed = 0, margin = 0.1 } = options;
  const random = new PhiloxStream(seed);
  const angle = 2 * Math.PI * random.uniform();
  const offset = random.uniform() - 0.5;
  return split(options, random, (x, y) => {
    const distance = x * Math.cos(angle) + y * Math.sin(angle) - offset;
    return Math.abs(distance) < margin ? undefined : Number(distance > 0);
  });
}

/** Points in [−1, 1]², 1 where x·y > 0, which no line separates. */
export function quadrantPoints(options: ToyOptions = {}): Split {
  requireOptions('quadrantPoints', options, TOY);
  return split(options, new PhiloxStream(options.seed ?? 0), (x, y) => Number(x * y > 0));
}

/** @param label the class of a point, or undefined to draw another */
function split(
  { trainLength = 2000, testLength = 100 }: ToyOptions,
  random: PhiloxStream,
  label: (x: number, y: number) => number | undefined,
): Split {
  const draw = (length: number): ArrayDataset => {
    const inputs = new Float32Array(2 * length);
    const labels = new Int32Array(length);
    for (let i = 0; i < length; ) {
      const x = 2 * random.uniform() - 1;
      const y = 2 * random.uniform() - 1;
      const drawn = label(x, y);
      if (drawn === undefined) continue;
      inputs.set([x, y], 2 * i);
      labels[i] = drawn;
      i++;
    }
    return new ArrayDataset({ inputs, inputShape: [2], labels, classes: 2 });
  };
  return { train: draw(trainLength), test: draw(testLength) };
}
