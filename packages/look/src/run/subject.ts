/** The run that is looked at: its network, its data, and what the network makes of them. */
import { existsSync } from 'node:fs';
import { ArgumentError, ArrayDataset, type Dataset, FileError, type nn, type Tensor } from 'heddle';
import { readImageFiles } from 'heddle/internal/cli/image-files.js';
import type { ClassDataset } from 'heddle/internal/cli/run-data.js';
import { dataOfRun, openModel, type SavedModel } from 'heddle/internal/cli/saved-run.js';
import sharp from 'sharp';
import { isConvolution, layerNamed } from '../layers.js';
import { examplesOf, type Predictions, predictions } from '../predictions.js';
import type { LookOptions } from './options.js';

type Data = Awaited<ReturnType<typeof dataOfRun>>;

/** Says what is under way. */
export type Status = (text: string) => void;

/** A run that is looked at. */
export interface Subject extends SavedModel {
  readonly path: string;
  readonly data: Data;
  /** The test set, if it has classes. */
  readonly test: ClassDataset | undefined;
  /** Whether the inputs are images (C, H, W). */
  readonly ofImages: boolean;
  readonly classes: readonly string[];
  /** --layer, which the model has. */
  readonly layer: string | undefined;
  /** The names of the convolutions over images. */
  readonly convolutions: readonly string[];
  /** Of the whole test set; made when first asked for. */
  readonly predictions: () => Promise<Predictions>;
  /** --image, or the first example of the test set. */
  readonly image: () => Promise<Tensor>;
  readonly options: LookOptions;
}

/** Open a run, and check the options against it. @throws ArgumentError, FileError, DataError */
export async function subjectOf(path: string, options: LookOptions, status: Status): Promise<Subject> {
  const saved = await openModel(path, options);
  const { model } = saved;
  if (options.layer !== undefined) layerNamed('look', model, options.layer);
  const data = await dataOfRun(saved, options);
  const test = 'classes' in data ? data.test : undefined;
  const ofImages = test?.inputShape.length === 3;
  if (options.image !== undefined && !ofImages)
    throw new ArgumentError(
      `${path} is a run of ${saved.program.name}, which is not about images: leave --image ${options.image} out.`,
    );
  const image = options.image === undefined ? undefined : await imageOf(options.image, saved, test!);
  let judged: Promise<Predictions> | undefined;
  return {
    ...{ ...saved, path, data, test, ofImages, options },
    classes: 'classes' in data ? data.classes : [],
    layer: options.layer,
    convolutions: [...model.namedModules()].flatMap(([name, module]) =>
      isConvolution(module) ? [name] : [],
    ),
    predictions: () => {
      judged ??= predictions(model, test!, {
        onProgress: async (done, of) => {
          status(`judging the test set: ${done.toLocaleString('en-US')} of ${of.toLocaleString('en-US')}`);
          // Signals are heard between two batches.
          await new Promise(setImmediate);
        },
      });
      return judged;
    },
    image: async () => image ?? (await examplesOf(test!, [0])).inputs,
  };
}

/** The layer of that name. */
export const moduleOf = (model: nn.Layer, name: string): nn.Module => layerNamed('look', model, name);

/** (1, C, H, W) of an image file, fitted to what the network takes, or of an example of the test set. */
async function imageOf(input: string, { config }: SavedModel, test: ClassDataset): Promise<Tensor> {
  const number = /^test:(\d+)$/.exec(input)?.[1];
  if (number !== undefined) {
    if (Number(number) >= test.length)
      throw new ArgumentError(`--image ${input}: the test set has the examples 0 to ${test.length - 1}.`);
    return (await examplesOf(test, [Number(number)])).inputs;
  }
  if (!existsSync(input))
    throw new FileError(input, 'no such file. Expected an image, or an example of the test set (test:3).');
  // As the images of the run are read, where these are files.
  if (config.data.files) return readImageFiles([input], config.data.files);
  const { inputShape, classes } = test;
  const normalize = test instanceof ArrayDataset ? test.normalize : { mean: 0, std: 1 };
  const [channels, height, width] = inputShape as [number, number, number];
  const pixels = await pixelsOf(input, channels, height, width);
  const one = new ArrayDataset({
    ...{ inputs: pixels, inputShape, classes, normalize },
    labels: new Int32Array(1),
  });
  return (await examplesOf(one satisfies Dataset, [0])).inputs;
}

/** Bytes (C, H, W): turned as its camera says, on black where it is transparent. @throws FileError */
async function pixelsOf(file: string, channels: number, height: number, width: number): Promise<Uint8Array> {
  if (channels !== 1 && channels !== 3)
    throw new ArgumentError(`--image: the network takes images of ${channels} channels, a file has 1 or 3.`);
  try {
    const { data } = await sharp(file)
      .rotate()
      .flatten({ background: '#000000' })
      .toColourspace(channels === 1 ? 'b-w' : 'srgb')
      .resize(width, height, { fit: 'fill' })
      .raw()
      .toBuffer({ resolveWithObject: true });
    const plane = height * width;
    return Uint8Array.from(
      { length: channels * plane },
      (_, i) => data[(i % plane) * channels + Math.floor(i / plane)]!,
    );
  } catch (error) {
    throw new FileError(file, `cannot read it as an image (${(error as Error).message}).`, { cause: error });
  }
}
