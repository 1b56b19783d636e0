/** A data set of images in files. */
import { join } from 'node:path';
import { ArgumentError, DataError } from 'heddle';
import {
  ArrayDataset,
  type ByteInputs,
  type Dataset,
  type Normalization,
  type RemoteDataset,
} from 'heddle/data';
import {
  anArrayLike,
  aString,
  integerFrom,
  listOf,
  type Rules,
  requireArgument,
  requireOptions,
} from 'heddle/internal/core/arguments.js';
import { CONCURRENCY, decodeImage, imageFacts } from './decode.js';
import { type FoundImages, findImages } from './find-images.js';
import { formatFor, IMAGE_RULES, type ImageFormat, type ImageOptions } from './image-format.js';
import { countsOf, normalizationBy, SAMPLE, spreadIndices } from './image-statistics.js';
import { inParallel, type LongWorkOptions } from './in-parallel.js';
import { byteTables, writeBytePlanes, writePlanes } from './planes.js';

/** Options of `imageFolder`. */
export interface ImageFolderOptions extends ImageOptions {
  /** The classes there may be, in the order of their labels. Default: all that have a folder, sorted. */
  readonly classNames?: readonly string[];
}

export const FOLDER_RULES: Rules<ImageFolderOptions> = { ...IMAGE_RULES, classNames: listOf(aString) };

/** A file that cannot be decoded. */
export interface DamagedImage {
  /** The number of the example. */
  readonly index: number;
  /** Where it is. */
  readonly path: string;
  /** What is wrong with it. */
  readonly error: DataError;
}

/** Options of `ImageFolder.load`. */
export interface LoadImagesOptions extends LongWorkOptions {
  /** Is told of each image that cannot be decoded, in their order, which is then left out. Default: such an image is an error. */
  readonly onDamaged?: (damaged: DamagedImage) => void;
}

/** What an `ImageFolder` is made of; it survives structured cloning. */
export interface ImageFolderParts extends FoundImages {
  readonly root: string;
  readonly format: ImageFormat;
}

/**
 * Images in files, decoded when a batch asks for them. Inputs are f32 (channels, height, width). Several images are decoded
 * at a time: four, or as many as the environment variable UV_THREADPOOL_SIZE says.
 */
export class ImageFolder implements Dataset {
  /** The folder that the files are in. */
  readonly root: string;
  /** The name of each class. */
  readonly classNames: readonly string[];
  /** Of each example, relative to `root`. */
  readonly files: readonly string[];
  /** Of each example. */
  readonly labels: Int32Array;
  /** How images become inputs. */
  readonly format: ImageFormat;
  /** (channels, height, width). */
  readonly inputShape: readonly [number, number, number];
  readonly #tables: readonly Float32Array[];

  /** @internal Use `imageFolder`. */
  constructor({ root, classNames, files, labels, format }: ImageFolderParts) {
    this.root = root;
    this.classNames = classNames;
    this.files = files;
    this.labels = labels;
    this.format = format;
    this.inputShape = [format.channels, ...format.size];
    this.#tables = byteTables(format.normalize, format.channels);
  }

  /** How many examples there are. */
  get length(): number {
    return this.files.length;
  }

  /** How many classes there are. */
  get classes(): number {
    return this.classNames.length;
  }

  get #features(): number {
    const [channels, height, width] = this.inputShape;
    return channels * height * width;
  }

  /** Where an example's file is. */
  path(index: number): string {
    requireArgument('path', 'index', index, integerFrom(0, this.length - 1));
    return join(this.root, this.files[index]!);
  }

  /**
   * See `Dataset.batchInto`.
   * @throws DataError naming the first file that cannot be decoded, when no other is being decoded any more
   */
  batchInto(indices: ArrayLike<number>, inputs: Float32Array, labels: Int32Array): Promise<void> {
    const features = this.#features;
    return inParallel(indices.length, CONCURRENCY, async (row) => {
      const index = indices[row]!;
      writePlanes(await decodeImage(this.path(index), this.format), this.#tables, inputs, row * features);
      labels[row] = this.labels[index]!;
    });
  }

  /** See `Dataset.bytes`: the images as they are decoded. */
  get bytes(): ByteInputs {
    const features = this.#features;
    const { channels } = this.format;
    const batchInto = (indices: ArrayLike<number>, inputs: Uint8Array, labels: Int32Array): Promise<void> =>
      inParallel(indices.length, CONCURRENCY, async (row) => {
        const index = indices[row]!;
        writeBytePlanes(await decodeImage(this.path(index), this.format), channels, inputs, row * features);
        labels[row] = this.labels[index]!;
      });
    return { tables: this.#tables, batchInto };
  }

  /** The examples of these numbers, one after the other. */
  select(indices: ArrayLike<number>): ImageFolder {
    requireArgument('select', 'indices', indices, anArrayLike);
    const chosen = Array.from(indices);
    for (const [i, index] of chosen.entries())
      requireArgument('select', `index ${i}`, index, integerFrom(0, this.length - 1));
    const files = chosen.map((index) => this.files[index]!);
    const labels = Int32Array.from(chosen, (index) => this.labels[index]!);
    return new ImageFolder({ ...this.#parts(), files, labels });
  }

  /** The examples `begin` up to but without `end`. */
  slice(begin: number, end: number = this.length): ImageFolder {
    requireArgument('slice', 'begin', begin, integerFrom(0, this.length));
    requireArgument('slice', 'end', end, integerFrom(begin, this.length));
    return this.select(Int32Array.from({ length: end - begin }, (_, i) => begin + i));
  }

  /**
   * Decode all images, once, into memory: a byte for each value. What is trained on for several epochs is best kept so, where
   * there is memory for it: `length` × channels × height × width bytes.
   * @throws DataError naming the first file that cannot be decoded, or if there is not enough memory; the signal's reason
   */
  async load(options: LoadImagesOptions = {}): Promise<ArrayDataset> {
    const { onDamaged, ...work } = options;
    const { classes, inputShape, format } = this;
    const features = this.#features;
    const inputs = this.#memory(this.length * features);
    const read = async (i: number): Promise<void> =>
      writeBytePlanes(await decodeImage(this.path(i), format), format.channels, inputs, i * features);
    const damaged = await this.#readEach(read, onDamaged !== undefined, work);
    for (const image of damaged) onDamaged?.(image);
    const gone = new Set(damaged.map(({ index }) => index));
    const left = Array.from(this.files.keys()).filter((i) => !gone.has(i));
    for (const [to, i] of left.entries())
      if (to !== i) inputs.copyWithin(to * features, i * features, (i + 1) * features);
    return new ArrayDataset({
      inputs: inputs.subarray(0, left.length * features),
      labels: Int32Array.from(left, (i) => this.labels[i]!),
      ...{ inputShape, classes, normalize: format.normalize },
    });
  }

  /** @returns those that cannot be decoded, in their order @throws DataError of the first of these, unless they are skipped */
  async #readEach(
    read: (i: number) => Promise<void>,
    isSkipping: boolean,
    options: LongWorkOptions,
  ): Promise<readonly DamagedImage[]> {
    const damaged: DamagedImage[] = [];
    const attempt = async (index: number): Promise<void> => {
      try {
        await read(index);
      } catch (error) {
        if (!(isSkipping && error instanceof DataError)) throw error;
        damaged.push({ index, path: this.path(index), error });
      }
    };
    await inParallel(this.length, CONCURRENCY, attempt, options);
    return damaged.sort((a, b) => a.index - b.index);
  }

  #memory(bytes: number): Uint8Array {
    try {
      return new Uint8Array(bytes);
    } catch (error) {
      throw new DataError(
        `${this.root}: ${this.length} images of ${this.inputShape.join(' × ')} take ${bytes} bytes, more than can be had. Do not load them: batches are decoded as they are asked for. Or choose a smaller size.`,
        { cause: error },
      );
    }
  }

  /**
   * Mean and standard deviation of the bytes / 255, to be used as `normalize`: of all images, or of 1,000 of them that are
   * spread evenly.
   * @throws DataError naming the first of these files that cannot be decoded; the signal's reason
   */
  async statistics(options: LongWorkOptions = {}): Promise<Normalization> {
    const sample = this.spread(SAMPLE);
    const { channels } = this.format;
    const counts = countsOf(channels);
    const count = async (i: number): Promise<void> => {
      const pixels = await decodeImage(sample.path(i), this.format);
      for (let at = 0; at < pixels.length; at++) counts[at % channels]![pixels[at]!]!++;
    };
    await inParallel(sample.length, CONCURRENCY, count, options);
    return normalizationBy(counts);
  }

  /** The same images, normalized in another way. */
  normalized(normalize: Normalization): ImageFolder {
    requireOptions('normalized', { normalize }, { normalize: IMAGE_RULES.normalize });
    return new ImageFolder({ ...this.#parts(), format: { ...this.format, normalize } });
  }

  /** Up to `count` examples at even distances, so that each class keeps its share. */
  spread(count: number): ImageFolder {
    requireArgument('spread', 'count', count, integerFrom(1));
    if (count >= this.length) return this;
    return this.select(spreadIndices(this.length, count));
  }

  /** Decode every image, and say which cannot be. @throws the signal's reason */
  verify(options: LongWorkOptions = {}): Promise<readonly DamagedImage[]> {
    const read = async (i: number): Promise<void> => void (await decodeImage(this.path(i), this.format));
    return this.#readEach(read, true, options);
  }

  /** The list of files is sent to the thread, which decodes them. */
  remote(): RemoteDataset {
    if (!import.meta.url)
      throw new ArgumentError(
        'an image folder cannot be opened on another thread from a CommonJS bundle, which does not know where its files are. Use workers: 0, or leave heddle-data out of the bundle.',
      );
    const module = new URL('./open-image-folder.js', import.meta.url).href;
    return { module, open: 'open', data: this.#parts() };
  }

  #parts(): ImageFolderParts {
    const { root, classNames, files, labels, format } = this;
    return { root, classNames, files, labels, format };
  }
}

/**
 * The images of a folder that has a folder for each class, as torchvision's ImageFolder: `root/cat/1.jpg`, and
 * `root/cat/more/2.png` as well. Labels are the places of the sorted names of the classes.
 * @throws DataError for a folder without classes, a class without images, and what else is wrong with the folder
 * @throws ArgumentError for an option outside its range
 */
export async function imageFolder(root: string, options: ImageFolderOptions = {}): Promise<ImageFolder> {
  requireArgument('imageFolder', 'root', root, aString);
  requireOptions('imageFolder', options, FOLDER_RULES);
  const found = await findImages(root, options.classNames);
  const first = join(root, found.files[0]!);
  const format = await formatFor(options, () => imageFacts(first, options.maxPixels));
  return new ImageFolder({ root, format, ...found });
}
