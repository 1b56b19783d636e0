/** Images in files on the command line, read by heddle-data, which is installed where it is needed. */
import { existsSync, readdirSync } from 'node:fs';
import { DataError } from '../core/errors.js';
import { type Shape, sizeOf } from '../core/shape.js';
import { ArrayDataset, type Normalization } from '../data/index.js';
import type { Tensor } from '../tensor/tensor.js';
import type { DamagedImage, DataPackage, ImageFiles, ImageFilesOptions, LongWork } from './data-package.js';
import { counted, whole } from './format.js';
import { neededPackage } from './packages.js';
import type { ImageFilesConfig } from './run-folder.js';

/** Which images, and how they are read. */
export interface ImageFilesPlan {
  readonly root: string;
  readonly seed: number;
  /** Of a new run. */
  readonly options?: ImageFilesOptions | undefined;
  /** Of a run that there is. */
  readonly classNames?: readonly string[] | undefined;
  readonly files?: ImageFilesConfig | undefined;
  readonly limit?: number | undefined;
  readonly skipDamaged?: boolean | undefined;
  /** Only to judge a model: the training images are not decoded. */
  readonly isTest?: boolean | undefined;
  /** Is told what is being done. */
  readonly tell: (text: string) => void;
  /** Is told of each image that is left out. */
  readonly warn: (text: string) => void;
}

/** Up to this size, in bytes, all images of a run are decoded once and kept. */
const KEPT_BYTES = 2 ** 31;

const dataPackage = (): Promise<DataPackage> => neededPackage('heddle-data', 'reading images in files');

/** Whether a path is a folder of folders or images, and not one of files in a format of their own. */
export function isImageFolder(path: string): boolean {
  if (!existsSync(path)) return false;
  const entries = readdirSync(path, { withFileTypes: true }).filter(({ name }) => !name.startsWith('.'));
  const hasImages = entries.some((e) => e.isDirectory() || e.isSymbolicLink() || isImageFile(e.name));
  return hasImages && !entries.some(({ name }) => /idx[13]-ubyte/.test(name));
}

/** Whether a path ends like an image's. */
export const isImageFile = (path: string): boolean => /\.(jpe?g|png|webp|gif|avif|tiff?)$/i.test(path);

/** What is trained on, what is judged by, and how both are normalized. */
interface ImageParts {
  readonly train: ImageFiles | ArrayDataset;
  readonly test: ImageFiles | ArrayDataset;
  readonly normalize: Normalization;
}

/** The parts of an image folder, decoded if they are not too large for it. */
export async function readImageFolder(plan: ImageFilesPlan): Promise<
  Omit<ImageParts, 'normalize'> & {
    readonly classNames: readonly string[];
    readonly files: ImageFilesConfig;
  }
> {
  const { root, seed, options, isTest } = plan;
  const { limit = plan.limit, skipDamaged = plan.skipDamaged } = plan.files ?? {};
  const { imageSplits } = await dataPackage();
  const given = plan.files ? { ...plan.files.format, classNames: plan.classNames! } : { ...options };
  const { train: all, validation, test: last, classNames } = await imageSplits(root, { ...given, seed });
  const train = limit === undefined ? all : all.spread(limit);
  const test = isTest ? last : validation;
  const bytes = (train.length + test.length) * sizeOf(train.inputShape);
  const read = bytes > KEPT_BYTES ? checked : decoded;
  const { normalize, ...parts } = await read(train, test, { ...plan, skipDamaged });
  return { ...parts, classNames, files: { format: { ...train.format, normalize }, limit, skipDamaged } };
}

/** All images in memory: each is decoded once. */
async function decoded(train: ImageFiles, test: ImageFiles, plan: ImageFilesPlan): Promise<ImageParts> {
  const { imageStatistics } = await dataPackage();
  const load = async (part: ImageFiles): Promise<ArrayDataset> => {
    const skipping = { onDamaged: (damaged: DamagedImage) => leftOut(damaged, plan) };
    const images = await part.load({ ...saying('decoding', plan), ...(plan.skipDamaged && skipping) });
    if (images.length > 0) return images;
    throw new DataError(`${plan.root}: none of ${counted(part.length, 'image')} can be decoded.`);
  };
  if (plan.isTest) return { train, test: await load(test), normalize: train.format.normalize };
  const [first, second] = [await load(train), await load(test)];
  const normalize = plan.files ? train.format.normalize : imageStatistics(first);
  const normalized = ({ inputs, inputShape, labels, classes }: ArrayDataset): ArrayDataset =>
    new ArrayDataset({ inputs, inputShape, labels, classes, normalize });
  return { train: normalized(first), test: normalized(second), normalize };
}

/**
 * Images that are decoded when a batch asks for them. How many there are must be known before, so that damaged ones are looked
 * for at once: each image is decoded for that, and again in every epoch.
 */
async function checked(train: ImageFiles, test: ImageFiles, plan: ImageFilesPlan): Promise<ImageParts> {
  const readable = async (part: ImageFiles): Promise<ImageFiles> => {
    if (!plan.skipDamaged) return part;
    const found = await part.verify(saying('checking', plan));
    for (const damaged of found) leftOut(damaged, plan);
    const gone = new Set(found.map(({ index }) => index));
    return part.select(Array.from({ length: part.length }, (_, i) => i).filter((i) => !gone.has(i)));
  };
  const [first, second] = [plan.isTest ? train : await readable(train), await readable(test)];
  const normalize = plan.files ? train.format.normalize : await first.statistics(saying('looking at', plan));
  return { train: first.normalized(normalize), test: second.normalized(normalize), normalize };
}

const saying = (doing: string, { tell }: ImageFilesPlan): LongWork => ({
  onProgress: (done, total) => tell(`${doing} ${whole(done)} of ${whole(total)} images`),
});

const leftOut = ({ error }: DamagedImage, { warn }: ImageFilesPlan): void =>
  warn(`left out: ${error.message}`);

/** Images of files, f32 (N, channels, height, width), as a run reads its own. */
export async function readImageFiles(
  paths: readonly string[],
  { format }: ImageFilesConfig,
): Promise<Tensor<Shape, 'f32'>> {
  const { readImages } = await dataPackage();
  return readImages(paths, format);
}
