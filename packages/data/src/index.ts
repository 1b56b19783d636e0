/** Data sets of files that need a codec: images, tables, tokenized text. */

export {
  type DamagedImage,
  ImageFolder,
  type ImageFolderOptions,
  imageFolder,
} from './images/image-folder.js';
export type { ImageFormat, ImageOptions, ResizeMode } from './images/image-format.js';
export { type ImageSplits, type ImageSplitsOptions, imageSplits } from './images/image-splits.js';
export type { LongWorkOptions } from './images/in-parallel.js';
export { readImages } from './images/read-images.js';
export {
  type AddedToken,
  type DecodeOptions,
  type NormalizationForm,
  Tokenizer,
  type TokenizerParts,
} from './tokens/tokenizer.js';
export { parseTokenizer, readTokenizer, writeTokenizer } from './tokens/tokenizer-file.js';
export { type TrainTokenizerOptions, trainTokenizer } from './tokens/train-tokenizer.js';
