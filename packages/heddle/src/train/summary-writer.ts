/** Figures, histograms and images for TensorBoard, and a callback that writes them as a training goes. */
import { appendFileSync } from '#platform/files.js';
import { join } from '#platform/paths.js';
import { hostName, processId } from '#platform/process.js';
import {
  aNumber,
  anArrayLike,
  aString,
  integerFrom,
  type Rule,
  type Rules,
  requireArgument,
  requireOptions,
} from '../core/arguments.js';
import { u8 } from '../core/dtype.js';
import { FileError, ShapeError } from '../core/errors.js';
import { makeFolder } from '../core/folders.js';
import { formatShape } from '../core/shape.js';
import { type Histogram, type SummaryValue, summaryRecord, versionRecord } from '../io/event-file.js';
import { encodePng } from '../io/png.js';
import type { Module } from '../nn/index.js';
import { type AnyTensor, requireTensor } from '../tensor/checks.js';
import { Tensor } from '../tensor/tensor.js';
import type { Callback } from './callbacks.js';
import { aModule } from './weights.js';

const BUCKETS = 30;

const someValues: Rule = {
  must: 'a tensor, or an array of numbers',
  holds: (v) => v instanceof Tensor || anArrayLike.holds(v),
};

/** Writes a file that TensorBoard shows, as PyTorch's SummaryWriter does: `tensorboard --logdir runs`. */
export class SummaryWriter {
  readonly #path: string;

  /** @param folder is made if it is not there; every writer has a file of its own in it. @throws FileError */
  constructor(folder: string) {
    requireArgument('SummaryWriter', 'folder', folder, aString);
    makeFolder(folder);
    const name = `events.out.tfevents.${Math.floor(Date.now() / 1000)}.${hostName()}.${processId}.${++writers}`;
    this.#path = join(folder, name);
    this.#append(versionRecord(Date.now() / 1000));
  }

  /** A point of a curve. */
  addScalar(tag: string, value: number, step: number): void {
    requireArgument('addScalar', 'value', value, aNumber);
    this.#add('addScalar', tag, { scalar: value }, step);
  }

  /** How values are distributed; those that are not finite are left out. */
  async addHistogram(tag: string, values: AnyTensor | ArrayLike<number>, step: number): Promise<void> {
    requireArgument('addHistogram', 'values', values, someValues);
    const numbers = values instanceof Tensor ? await values.data() : values;
    this.#add('addHistogram', tag, { histogram: histogramOf(Array.from(numbers, Number)) }, step);
  }

  /**
   * A picture.
   * @param image (H, W), or (C, H, W) of 1, 3 or 4 channels; u8, or floats from 0 to 1
   * @throws ShapeError
   */
  async addImage(tag: string, image: AnyTensor, step: number): Promise<void> {
    requireTensor('addImage', 'image', image);
    const [channels, height, width] = image.ndim === 2 ? [1, ...image.shape] : image.shape;
    if (![2, 3].includes(image.ndim) || ![1, 3, 4].includes(channels!) || image.size === 0)
      throw new ShapeError(
        `[addImage] image has the shape ${formatShape(image.shape)}, must be (H,W), or (C,H,W) with 1, 3 or 4 channels.`,
      );
    const data = await image.data();
    const [scale, area] = [image.dtype === u8 ? 1 : 255, height! * width!];
    const pixels = new Uint8Array(data.length);
    for (let i = 0; i < data.length; i++)
      pixels[(i % area) * channels! + Math.floor(i / area)] = Math.min(
        255,
        Math.max(0, Math.round(scale * Number(data[i]))),
      );
    const png = encodePng(pixels, height!, width!, channels!);
    this.#add('addImage', tag, { image: { height: height!, width: width!, channels: channels!, png } }, step);
  }

  #add(op: string, tag: string, value: SummaryValue, step: number): void {
    requireArgument(op, 'tag', tag, aString);
    requireArgument(op, 'step', step, integerFrom(0));
    this.#append(summaryRecord(tag, value, step, Date.now() / 1000));
  }

  #append(bytes: Uint8Array): void {
    try {
      appendFileSync(this.#path, bytes);
    } catch (error) {
      throw new FileError(this.#path, `cannot write to it (${(error as Error).message}).`, { cause: error });
    }
  }
}

/** Of this process, so that their files have different names. */
let writers = 0;

function histogramOf(all: readonly number[]): Histogram {
  const values = all.filter(Number.isFinite);
  let [min, max, sum, sumOfSquares] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0, 0];
  for (const v of values) {
    min = Math.min(min, v);
    max = Math.max(max, v);
    sum += v;
    sumOfSquares += v * v;
  }
  if (values.length === 0) [min, max] = [0, 0];
  const width = (max - min) / BUCKETS || 1;
  const limits = Array.from({ length: BUCKETS }, (_, i) => min + width * (i + 1));
  const counts = limits.map(() => 0);
  for (const v of values) counts[Math.min(BUCKETS - 1, Math.floor((v - min) / width))]!++;
  return { min, max, count: values.length, sum, sumOfSquares, limits, counts };
}

/** Options of `tensorBoard`. */
export interface TensorBoardOptions {
  /** A model whose parameters are shown as histograms after every epoch. Default: none. */
  readonly histograms?: Module;
}

const TENSOR_BOARD: Rules<TensorBoardOptions> = { histograms: aModule };

/**
 * A callback that writes a training for TensorBoard: loss, learning rate and speed every `logEvery` steps, and after every
 * epoch its loss, what validation gives, and histograms if asked for. Steps are counted over all epochs.
 */
export function tensorBoard(folder: string, options: TensorBoardOptions = {}): Callback {
  const writer = new SummaryWriter(folder);
  requireOptions('tensorBoard', options, TENSOR_BOARD);
  const { histograms } = options;
  let steps = 0;
  return {
    onStart: (plan) => {
      steps = plan.steps;
    },
    onLog: ({ totalSteps, loss, lr, examplesPerSecond }) => {
      writer.addScalar('train/loss', loss, totalSteps);
      writer.addScalar('train/lr', lr, totalSteps);
      writer.addScalar('train/examplesPerSecond', examplesPerSecond, totalSteps);
    },
    onEpochEnd: async ({ epoch, loss, validation }) => {
      const at = (epoch + 1) * steps;
      writer.addScalar('epoch/loss', loss, at);
      if (validation) writer.addScalar('validation/loss', validation.loss, at);
      for (const [name, value] of Object.entries(validation?.metrics ?? {}))
        writer.addScalar(`validation/${name}`, value, at);
      for (const [name, parameter] of histograms?.namedParameters() ?? [])
        await writer.addHistogram(name, parameter, at);
    },
  };
}
