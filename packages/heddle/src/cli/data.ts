/** `heddle data`: what a data set holds, and how a network sees it. */
import { ArgumentError } from '../core/errors.js';
import { formatShape, type Shape, sizeOf } from '../core/shape.js';
import { ArrayDataset, type Dataset, type Normalization } from '../data/index.js';
import { Loader } from '../data/loader.js';
import { normalizationOf } from '../data/normalization.js';
import { writeFileAtomic } from '../io/index.js';
import { closeDevices } from '../runtime/registry.js';
import { tensor } from '../tensor/create.js';
import { noGrad } from '../tensor/modes.js';
import { manualSeed } from '../tensor/random.js';
import { augmented } from '../train/augment.js';
import { programNamed } from '../train/programs.js';
import type { ImageFilesOptions } from './data-package.js';
import { counted, table, whole } from './format.js';
import { type CaptionedImage, neededPackage } from './packages.js';
import { type ClassData, chooseDevice, loadData } from './run-data.js';
import { isTableFile, tableStats } from './table-stats.js';
import { StatusLine } from './terminal.js';

/** Options of all that read a data set. */
interface DataSetOptions {
  readonly size?: NonNullable<ImageFilesOptions['size']>;
  readonly resize?: NonNullable<ImageFilesOptions['resize']>;
}

export interface StatsOptions extends DataSetOptions {
  readonly json?: boolean;
}

export interface LookOptions extends DataSetOptions {
  readonly out: string;
  readonly count: number;
  readonly seed: number;
  readonly augment?: boolean;
  readonly program: string;
  readonly device?: string;
}

const say = (text: string): void => void process.stdout.write(`${text}\n`);

/** A data set by the name that `heddle train --data` takes. */
async function opened(set: string, { size, resize }: DataSetOptions, status: StatusLine): Promise<ClassData> {
  const program = programNamed('cnn');
  const images = { ...(size !== undefined && { size }), ...(resize !== undefined && { resize }) };
  const data = await loadData({
    ...{ program, recipe: program.recipe, data: set, seed: 0, images },
    tell: (text) => status.show(() => text),
    warn: (text) => status.replace(text),
  });
  status.clear();
  return data as ClassData;
}

/** How its inputs were normalized. */
const normalizationIn = ({ train, files }: ClassData): Normalization =>
  train instanceof ArrayDataset ? train.normalize : (files!.format.normalize as Normalization);

/** Of the numbers of a channel before normalization, bytes as numbers from 0 to 1. */
interface ChannelStatistics {
  readonly mean: number;
  readonly std: number;
  readonly min: number;
  readonly max: number;
}

/** What is known of a part of a data set. */
interface PartStatistics {
  /** Examples of each class. */
  readonly counts: readonly number[];
  readonly channels: readonly ChannelStatistics[];
}

/** Print what a data set holds. */
export async function dataStats(set: string, options: StatsOptions): Promise<number> {
  if (isTableFile(set)) {
    if (options.size !== undefined || options.resize !== undefined)
      throw new ArgumentError(`${set} is not a folder of images: leave --size and --resize out.`);
    await tableStats(set, options);
    return 0;
  }
  const status = new StatusLine(process.stderr);
  try {
    const data = await opened(set, options, status);
    const { train, test, classes, name, source } = data;
    const normalize = normalizationIn(data);
    const looking = (what: string) => (done: number, of: number) =>
      status.show(() => `${what}: ${whole(done)} of ${whole(of)} examples`);
    const learned = await statisticsOf(train, normalize, looking('training data'));
    const judged = await countsOf(test, looking('test data'));
    status.clear();
    const of = (key: 'mean' | 'std'): readonly number[] => learned.channels.map((own) => round(own[key]));
    // A channel of one number throughout cannot be divided by its deviation.
    const suggested = { mean: of('mean'), std: of('std').map((std) => (std > 0 ? std : 1)) };
    if (options.json) {
      const rows = classes.map((own, i) => ({ name: own, train: learned.counts[i]!, test: judged[i]! }));
      say(
        JSON.stringify(
          {
            ...{ name: set, source, inputShape: train.inputShape, train: train.length, test: test.length },
            ...{ classes: rows, channels: learned.channels, normalize: suggested },
          },
          null,
          2,
        ),
      );
      return 0;
    }
    say(`data      ${name}`);
    say(`inputs    ${formatShape(train.inputShape)}`);
    say(`examples  ${whole(train.length)} to train on, ${whole(test.length)} to test\n`);
    say(
      table(
        ['class', 'train', 'test'],
        classes.map((own, i) => [own, whole(learned.counts[i]!), whole(judged[i]!)]),
      ),
    );
    const rows = learned.channels.map((own, i) => [
      String(i),
      ...[own.mean, own.std, own.min, own.max].map((v) => v.toFixed(4)),
    ]);
    say(`\n${table(['channel', 'mean', 'std', 'min', 'max'], rows)}`);
    const one = (values: readonly number[]): string =>
      values.length === 1 ? String(values[0]) : `[${values.join(', ')}]`;
    const text = `{ mean: ${one(suggested.mean)}, std: ${one(suggested.std)} }`;
    say(
      '\nMean and standard deviation are those of the training data; bytes count as numbers from 0 to 1. To normalize by them:',
    );
    say(`  normalize: ${text}    (an option of data sets)`);
    say(`  transforms.normalize(${one(suggested.mean)}, ${one(suggested.std)})`);
    return 0;
  } finally {
    status.clear();
    await closeDevices();
  }
}

const round = (value: number): number => Number(value.toPrecision(5));

type Tell = (done: number, of: number) => void;

/** Bytes are counted where they lie; other examples are read, batch by batch. */
async function statisticsOf(dataset: Dataset, normalize: Normalization, tell: Tell): Promise<PartStatistics> {
  const { inputShape } = dataset;
  const channels = inputShape[0] ?? 1;
  const plane = sizeOf(inputShape) / channels;
  if (dataset instanceof ArrayDataset && dataset.inputs instanceof Uint8Array) {
    const histograms = Array.from({ length: channels }, () => new Float64Array(256));
    const { inputs } = dataset;
    for (let at = 0, block = 0; at < inputs.length; at += plane, block++) {
      const histogram = histograms[block % channels]!;
      for (let i = at; i < at + plane; i++) histogram[inputs[i]!]!++;
    }
    return { counts: tally(dataset, dataset.labels), channels: histograms.map(ofHistogram) };
  }
  const sums = Array.from({ length: channels }, () => ({
    sum: 0,
    squares: 0,
    min: Infinity,
    max: -Infinity,
  }));
  const own = normalizationOf('data', normalize, inputShape);
  const counts = new Array<number>(dataset.classes).fill(0);
  let done = 0;
  for await (const { inputs, labels, size } of new Loader<Dataset>(dataset, {
    batchSize: Math.min(64, dataset.length),
  })) {
    for (let block = 0; block < size * channels; block++) {
      const sum = sums[block % channels]!;
      const { mean, std } = own[own.length === 1 ? 0 : block % channels]!;
      for (let i = block * plane; i < (block + 1) * plane; i++) {
        const value = inputs[i]! * std + mean;
        sum.sum += value;
        sum.squares += value * value;
        if (value < sum.min) sum.min = value;
        if (value > sum.max) sum.max = value;
      }
    }
    for (const label of labels) counts[label]!++;
    done += size;
    tell(done, dataset.length);
  }
  const total = dataset.length * plane;
  return {
    counts,
    channels: sums.map(({ sum, squares, min, max }) => {
      const mean = sum / total;
      return { mean, std: Math.sqrt(Math.max(0, squares / total - mean * mean)), min, max };
    }),
  };
}

function ofHistogram(counts: Float64Array): ChannelStatistics {
  const total = counts.reduce((sum, count) => sum + count, 0);
  const mean = counts.reduce((sum, count, byte) => sum + (count * byte) / 255, 0) / total;
  const variance = counts.reduce((sum, count, byte) => sum + count * (byte / 255 - mean) ** 2, 0) / total;
  const min = counts.findIndex((count) => count > 0) / 255;
  return { mean, std: Math.sqrt(variance), min, max: counts.findLastIndex((count) => count > 0) / 255 };
}

function tally({ classes }: Dataset, labels: ArrayLike<number>): readonly number[] {
  const counts = new Array<number>(classes).fill(0);
  for (let i = 0; i < labels.length; i++) counts[labels[i]!]!++;
  return counts;
}

/** Of each class; data sets that know their labels need not make their inputs. */
async function countsOf(
  dataset: Dataset & { readonly labels?: ArrayLike<number> },
  tell: Tell,
): Promise<readonly number[]> {
  if (dataset.labels) return tally(dataset, dataset.labels);
  return (await statisticsOf(dataset, { mean: 0, std: 1 }, tell)).counts;
}

/** Write a contact sheet of a batch, as a network gets it. */
export async function dataLook(set: string, options: LookOptions): Promise<number> {
  const status = new StatusLine(process.stderr);
  try {
    const look = await neededPackage('heddle-look', 'heddle data look');
    if (!/\.(png|svg)$/i.test(options.out))
      throw new ArgumentError(
        `${options.out}: the picture is a PNG or an SVG. End its name with .png or .svg.`,
      );
    const program = programNamed(options.program);
    const { augment } = program.recipe;
    if (options.augment && augment === undefined)
      throw new ArgumentError(
        `${options.program} is trained on images as they are: leave --augment out, or name another --program, such as resnet18.`,
      );
    const data = await opened(set, options, status);
    const { train, classes } = data;
    const channels = train.inputShape.length === 3 ? train.inputShape[0]! : 0;
    if (channels !== 1 && channels !== 3)
      throw new ArgumentError(
        `${set} has inputs of ${formatShape(train.inputShape)}. Images can be drawn, (C,H,W) of 1 or 3 channels.`,
      );
    const count = Math.min(options.count, train.length);
    const loader = new Loader<Dataset>(train, { batchSize: count, shuffle: true, seed: options.seed });
    const [{ inputs, labels }] = (await firstOf(loader)) as [{ inputs: Float32Array; labels: Int32Array }];
    const shape = [count, ...train.inputShape];
    let values: Float32Array = inputs;
    if (options.augment) {
      chooseDevice(options.device);
      manualSeed(options.seed);
      values = (await noGrad(() =>
        augmented(tensor(inputs.slice(), { shape }), augment!),
      ).data()) as Float32Array;
    }
    const pixels = bytesOf(values, shape, normalizationIn(data));
    const images = Array.from(pixels, (own, i): CaptionedImage => {
      const [height, width] = train.inputShape.slice(1) as [number, number];
      return { raster: { width, height, channels, pixels: own }, captions: [classes[labels[i]!]!] };
    });
    const svg = await look.imagesSvg(images, {
      title: `${data.name}`,
      subtitle: `${counted(count, 'image')} of ${whole(train.length)} to train on, seed ${options.seed}${options.augment ? `, varied as for ${program.name}` : ''}`,
    });
    await writeFileAtomic(options.out, /\.svg$/i.test(options.out) ? svg : await look.toPng(svg));
    say(`${counted(count, 'image')} drawn in ${options.out}`);
    return 0;
  } finally {
    status.clear();
    await closeDevices();
  }
}

async function firstOf<T>(batches: AsyncIterable<T>): Promise<[T]> {
  for await (const batch of batches) return [batch];
  throw new ArgumentError('there are no examples to draw.');
}

/** The images without their normalization, channels side by side. */
function bytesOf(
  values: Float32Array,
  [count, channels, height, width]: Shape,
  normalize: Normalization,
): readonly Uint8Array[] {
  const own = normalizationOf('data', normalize, [channels!, height!, width!]);
  const plane = height! * width!;
  return Array.from({ length: count! }, (_, n) => {
    const pixels = new Uint8Array(channels! * plane);
    for (let c = 0; c < channels!; c++) {
      const { mean, std } = own[own.length === 1 ? 0 : c]!;
      for (let i = 0; i < plane; i++) {
        const value = values[(n * channels! + c) * plane + i]! * std + mean;
        pixels[i * channels! + c] = Math.round(255 * Math.min(1, Math.max(0, value)));
      }
    }
    return pixels;
  });
}
