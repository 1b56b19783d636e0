/** Data sets of files that need a codec: images, tables, tokenized text. */

export { type ReadArraysOptions, readArrays } from './arrays/array-files.js';
export type { ImageSource } from './images/decode.js';
export {
  type DamagedImage,
  ImageFolder,
  type ImageFolderOptions,
  imageFolder,
  type LoadImagesOptions,
} from './images/image-folder.js';
export type { ImageFormat, ImageOptions, ResizeMode } from './images/image-format.js';
export { type ImageSplits, type ImageSplitsOptions, imageSplits } from './images/image-splits.js';
export { imageStatistics } from './images/image-statistics.js';
export type { LongWorkOptions } from './images/in-parallel.js';
export { type ImageValues, readImages, readImageValues } from './images/read-images.js';
export { type ReadCsvOptions, readCsv } from './tables/csv.js';
export { type ReadParquetOptions, readParquet } from './tables/parquet.js';
export {
  type CategoryColumn,
  type Column,
  type ColumnType,
  type NumberColumn,
  Table,
} from './tables/table.js';
export { type TableDataset, TableEncoder, type TableEncoderOptions } from './tables/table-encoder.js';
export {
  type AddedToken,
  type DecodeOptions,
  type NormalizationForm,
  Tokenizer,
  type TokenizerParts,
} from './tokens/tokenizer.js';
export { parseTokenizer, readTokenizer, writeTokenizer } from './tokens/tokenizer-file.js';
export { type TrainTokenizerOptions, trainTokenizer } from './tokens/train-tokenizer.js';
