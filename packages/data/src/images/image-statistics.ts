/** Mean and deviation of images in memory. */
import { ArgumentError } from 'heddle';
import { ArrayDataset, type Normalization } from 'heddle/data';
import { instance, requireArgument } from 'heddle/internal/core/arguments.js';

/** Images that statistics are taken of. */
export const SAMPLE = 1000;

/** Up to `count` of the numbers from 0 to `length` − 1, at even distances. */
export const spreadIndices = (length: number, count: number): Uint32Array =>
  Uint32Array.from({ length: Math.min(length, count) }, (_, i) =>
    count < length ? Math.floor((i * length) / count) : i,
  );

/** How often each byte is there, of each channel. */
export const countsOf = (channels: number): Float64Array[] =>
  Array.from({ length: channels }, () => new Float64Array(256));

export function normalizationBy(counts: readonly Float64Array[]): Normalization {
  const own = counts.map((of) => {
    const total = of.reduce((sum, n) => sum + n, 0);
    const mean = of.reduce((sum, n, byte) => sum + (n * byte) / 255, 0) / total;
    const variance = of.reduce((sum, n, byte) => sum + n * (byte / 255 - mean) ** 2, 0) / total;
    return variance > 0 ? { mean, std: Math.sqrt(variance) } : { mean: 0, std: 1 };
  });
  return own.length === 1 ? own[0]! : { mean: own.map(({ mean }) => mean), std: own.map(({ std }) => std) };
}

/**
 * Mean and standard deviation of the bytes / 255 of each channel, to be used as `normalize`: of all images, or of 1,000 of them
 * that are spread evenly. A channel of one value has mean 0 and deviation 1.
 * @param dataset images of bytes, (channels, height, width), such as `ImageFolder.load` gives
 * @throws ArgumentError for a data set whose inputs are not bytes
 */
export function imageStatistics(dataset: ArrayDataset): Normalization {
  requireArgument('imageStatistics', 'dataset', dataset, instance(ArrayDataset, 'an ArrayDataset'));
  const { inputs, inputShape } = dataset;
  if (!(inputs instanceof Uint8Array) || inputShape.length !== 3)
    throw new ArgumentError(
      `[imageStatistics] the inputs of dataset are ${inputs.constructor.name} (${inputShape.join(',')}), must be bytes (channels, height, width).`,
    );
  const [channels, height, width] = inputShape as readonly [number, number, number];
  const plane = height * width;
  const counts = countsOf(channels);
  for (const image of spreadIndices(dataset.length, SAMPLE))
    for (const [channel, count] of counts.entries()) {
      const begin = (image * channels + channel) * plane;
      for (let i = begin; i < begin + plane; i++) count[inputs[i]!]!++;
    }
  return normalizationBy(counts);
}
