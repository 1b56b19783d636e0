/** What a classifier makes of a data set: predictions, and from them the confusion matrix and the worst mistakes. */
import { type Dataset, jit, logSoftmax, type nn, noGrad, type Tensor, tensor } from 'heddle';
import type { PictureOptions } from './chart.js';
import { twoSided } from './grad-cam.js';
import { judged, valuesOf } from './layers.js';
import { percent } from './numbers.js';
import { rasterOf } from './raster.js';
import { tilesSvg } from './tiles.js';

/** What a model takes the examples of a data set for. */
export interface Predictions {
  /** The true class of each example. */
  readonly labels: Int32Array;
  /** Of each example the class with the largest logit. */
  readonly predicted: Int32Array;
  /** The probability that the model gives to the predicted class, from 0 to 1. */
  readonly probabilities: Float32Array;
  /** The cross-entropy of each example, in nats. */
  readonly losses: Float32Array;
  /** How many classes there are. */
  readonly classes: number;
}

/** Options of `predictions`. */
export interface PredictionsOptions {
  /** Examples at once; default 200. */
  readonly batchSize?: number;
  /** Is told how many examples are done, after each batch; it may be async. */
  readonly onProgress?: (done: number, of: number) => void | Promise<void>;
}

/** Examples of a data set as a tensor (N, …), and their labels. */
export async function examplesOf(
  dataset: Dataset,
  indices: readonly number[],
): Promise<{ readonly inputs: Tensor; readonly labels: Int32Array }> {
  const shape = [indices.length, ...dataset.inputShape];
  const values = new Float32Array(shape.reduce((a, b) => a * b, 1));
  const labels = new Int32Array(indices.length);
  await dataset.batchInto(indices, values, labels);
  return { inputs: tensor(values, { shape }), labels };
}

/**
 * Judge every example of a data set, in evaluation mode and without gradients.
 * @param model gives logits (N, classes); of one logit per example the classes are 0 and 1
 * @throws what `dataset.batchInto` throws
 */
export async function predictions(
  model: nn.Layer,
  dataset: Dataset,
  options: PredictionsOptions = {},
): Promise<Predictions> {
  const { batchSize = 200, onProgress } = options;
  const { length } = dataset;
  const predicted = new Int32Array(length);
  const [probabilities, losses] = [new Float32Array(length), new Float32Array(length)];
  const labels = new Int32Array(length);
  let classes = 0;
  await judged(model, async () => {
    const logsOf = jit((x: Tensor) => noGrad(() => logSoftmax(twoSided(model.forward(x)), 1)));
    for (let from = 0; from < length; from += batchSize) {
      const size = Math.min(batchSize, length - from);
      const batch = await examplesOf(
        dataset,
        Array.from({ length: size }, (_, i) => from + i),
      );
      const logs = logsOf(batch.inputs);
      classes = logs.shape[1]!;
      const values = await valuesOf(logs);
      for (let i = 0; i < size; i++) {
        const own = values.subarray(i * classes, (i + 1) * classes);
        const best = own.reduce((at, v, c) => (v > own[at]! ? c : at), 0);
        labels[from + i] = batch.labels[i]!;
        predicted[from + i] = best;
        probabilities[from + i] = Math.exp(own[best]!);
        losses[from + i] = -own[batch.labels[i]!]!;
      }
      await onProgress?.(from + size, length);
    }
  });
  return { labels, predicted, probabilities, losses, classes };
}

/** How often each class (row) is taken for each class (column). @returns classes × classes counts */
export function confusionOf(found: Predictions): number[][] {
  const { labels, predicted, classes } = found;
  const counts = Array.from({ length: classes }, () => new Array<number>(classes).fill(0));
  for (const [i, label] of labels.entries()) counts[label]![predicted[i]!]!++;
  return counts;
}

/**
 * The examples that are taken for another class, the highest loss first.
 * @param most how many at most; default 24
 * @returns their numbers in the data set
 */
export function worstMistakes(found: Predictions, most = 24): number[] {
  const { labels, predicted, losses } = found;
  return [...labels.keys()]
    .filter((i) => labels[i] !== predicted[i])
    .sort((a, b) => losses[b]! - losses[a]! || a - b)
    .slice(0, most);
}

/** Options of `mistakesSvg`. */
export interface MistakesOptions extends PictureOptions {
  /** What the classes are called; default: their numbers. */
  readonly classes?: readonly string[];
  /** Draw at most so many; default 24. */
  readonly most?: number;
}

/**
 * The mistakes with the highest loss: each image, what it is and what it is taken for, and with which probability.
 * @param dataset of images (C, H, W), the one that the predictions are of
 * @returns the text of an SVG
 */
export async function mistakesSvg(
  dataset: Dataset,
  found: Predictions,
  options: MistakesOptions = {},
): Promise<string> {
  const { classes, most = 24, ...drawing } = options;
  const worst = worstMistakes(found, most);
  const all = worstMistakes(found, found.labels.length).length;
  const [channels, height, width] = dataset.inputShape as [number, number, number];
  const { inputs } = await examplesOf(dataset, worst);
  const values = await inputs.data();
  const size = channels * height * width;
  const nameOf = (c: number): string => classes?.[c] ?? String(c);
  const tiles = worst.map((example, i) => ({
    raster: rasterOf(
      values.subarray(i * size, (i + 1) * size) as Float32Array,
      channels === 3 ? 3 : 1,
      height,
      width,
    ),
    captions: [
      `${nameOf(found.labels[example]!)} → ${nameOf(found.predicted[example]!)}`,
      `${percent(found.probabilities[example]!)}`,
    ],
  }));
  const heading = {
    title: 'The worst mistakes',
    subtitle: `${worst.length} of ${all} in ${found.labels.length.toLocaleString('en-US')} examples, the highest loss first: what it is → what it is taken for, with which probability`,
  };
  return tilesSvg(heading, tiles, { size: 84 }, drawing);
}
