/** Images in files on the command line, read by heddle-data, which is installed where it is needed. */
import { existsSync, readdirSync } from 'node:fs';
import { type Shape, sizeOf } from '../core/shape.js';
import type { ArrayDataset } from '../data/index.js';
import type { Tensor } from '../tensor/tensor.js';
import type { DataPackage, ImageFiles, ImageFilesOptions, LongWork } from './data-package.js';
import { whole } from './format.js';
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

/** The parts of an image folder, decoded if they are not too large for it. */
export async function readImageFolder(plan: ImageFilesPlan): Promise<{
  readonly train: ImageFiles | ArrayDataset;
  readonly test: ImageFiles | ArrayDataset;
  readonly classNames: readonly string[];
  readonly files: ImageFilesConfig;
}> {
  const { root, seed, options, tell, warn } = plan;
  const { limit = plan.limit, skipDamaged = plan.skipDamaged } = plan.files ?? {};
  const { imageSplits } = await dataPackage();
  const given = plan.files ? { ...plan.files.format, classNames: plan.classNames! } : { ...options };
  const splits = await imageSplits(root, { ...given, seed });
  const work = (doing: string): LongWork => ({
    onProgress: (done, total) => tell(`${doing} ${whole(done)} of ${whole(total)} images`),
  });
  const readable = async (part: ImageFiles): Promise<ImageFiles> => {
    if (!skipDamaged) return part;
    const damaged = await part.verify(work('checking'));
    for (const { error } of damaged) warn(`left out: ${error.message}`);
    const left = new Set(damaged.map(({ index }) => index));
    return part.select(Array.from({ length: part.length }, (_, i) => i).filter((i) => !left.has(i)));
  };
  const judged = plan.isTest ? splits.test : splits.validation;
  let train = limit === undefined ? splits.train : splits.train.spread(limit);
  if (!plan.isTest) train = await readable(train);
  let test = await readable(judged);
  if (!plan.files) {
    const normalize = await train.statistics(work('looking at'));
    train = train.normalized(normalize);
    test = test.normalized(normalize);
  }
  const files = { format: train.format, limit, skipDamaged };
  const { classNames } = splits;
  const bytes = (train.length + test.length) * sizeOf(train.inputShape);
  if (bytes > KEPT_BYTES) return { train, test, classNames, files };
  return {
    train: plan.isTest ? train : await train.load(work('decoding')),
    test: await test.load(work('decoding')),
    ...{ classNames, files },
  };
}

/** Images of files, f32 (N, channels, height, width), as a run reads its own. */
export async function readImageFiles(
  paths: readonly string[],
  { format }: ImageFilesConfig,
): Promise<Tensor<Shape, 'f32'>> {
  const { readImages } = await dataPackage();
  return readImages(paths, format);
}
