/** What the commands take from heddle-data. */
import type { Shape } from '../core/shape.js';
import type { ArrayDataset, Dataset, Normalization, TextCodec } from '../data/index.js';
import type { Tensor } from '../tensor/tensor.js';
import type { ImageFilesConfig } from './run-folder.js';

/** How images become inputs, as options say it. */
export interface ImageFilesOptions {
  readonly size?: number | readonly [number, number];
  readonly resize?: 'squash' | 'crop' | 'pad';
  readonly classNames?: readonly string[];
}

export interface LongWork {
  readonly onProgress: (done: number, total: number) => void;
}

/** One that cannot be decoded. */
export interface DamagedImage {
  readonly index: number;
  readonly error: Error;
}

/** Images that are decoded when they are asked for. */
export interface ImageFiles extends Dataset {
  readonly format: ImageFilesConfig['format'] & { readonly normalize: Normalization };
  slice(begin: number, end?: number): ImageFiles;
  select(indices: ArrayLike<number>): ImageFiles;
  spread(count: number): ImageFiles;
  statistics(work: LongWork): Promise<Normalization>;
  normalized(normalize: Normalization): ImageFiles;
  load(work: LongWork & { readonly onDamaged?: (damaged: DamagedImage) => void }): Promise<ArrayDataset>;
  verify(work: LongWork): Promise<readonly DamagedImage[]>;
}

interface ImageSplits {
  readonly source: string;
  readonly classNames: readonly string[];
  readonly train: ImageFiles;
  readonly validation: ImageFiles;
  readonly test: ImageFiles;
}

/** A column of a table: numbers, NaN where one is missing, or places in `categories`, −1 where one is missing. */
export type TableColumn =
  | { readonly name: string; readonly type: 'number'; readonly values: Float64Array }
  | {
      readonly name: string;
      readonly type: 'category';
      readonly categories: readonly string[];
      readonly codes: Int32Array;
    };

export interface ColumnTable {
  readonly length: number;
  readonly columns: readonly TableColumn[];
}

export interface DataPackage {
  readonly trainTokenizer: (
    texts: Iterable<string>,
    options: { readonly vocabularySize: number },
  ) => TextCodec;
  readonly readTokenizer: (path: string) => Promise<TextCodec>;
  readonly writeTokenizer: (path: string, tokenizer: TextCodec) => Promise<void>;
  readonly imageSplits: (
    root: string,
    options: ImageFilesOptions & { readonly seed: number },
  ) => Promise<ImageSplits>;
  readonly imageStatistics: (images: ArrayDataset) => Normalization;
  readonly readImages: (
    paths: readonly string[],
    options: ImageFilesConfig['format'],
  ) => Promise<Tensor<Shape, 'f32'>>;
  readonly readCsv: (path: string, options?: { readonly delimiter?: string }) => Promise<ColumnTable>;
  readonly readParquet: (path: string) => Promise<ColumnTable>;
}
