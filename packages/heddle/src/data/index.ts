/** Datasets and loaders. */
export type { Batch } from './batch.js';
export type { Batched } from './batched.js';
export { ConcatDataset } from './concat.js';
export {
  ArrayDataset,
  type ArrayDatasetOptions,
  type ByteInputs,
  type Dataset,
  type RemoteDataset,
} from './dataset.js';
export { EpochRandom } from './epoch-random.js';
export { type AnyDataset, type BatchOf, Loader, type LoaderOf, type LoaderOptions } from './loader.js';
export {
  type ExampleInfo,
  type ExampleMap,
  filterExamples,
  type MapOptions,
  mapExamples,
} from './map.js';
export {
  findImages,
  IMAGE_SETS,
  type ImageSet,
  type ImageSetName,
  type LoadImagesOptions,
  loadImages,
} from './mnist.js';
export type { Normalization } from './normalization.js';
export {
  RandomSampler,
  type Sampler,
  SequentialSampler,
  StratifiedSampler,
  WeightedRandomSampler,
  type WeightedSamplerOptions,
} from './sampler.js';
export { type KFold, kFold, randomSplit, type SplitOptions } from './split.js';
export {
  type CollectOptions,
  collectExamples,
  DataStream,
  type StreamBatchOptions,
  type StreamExample,
  type StreamMapOptions,
  type StreamShuffleOptions,
  type StreamSource,
} from './stream.js';
export { StreamDataset, type StreamDatasetOptions } from './stream-dataset.js';
export { Subset, type SubsetOf } from './subset.js';
export { type TensorBatch, TensorDataset } from './tensor-dataset.js';
export { type LoadTextOptions, loadText, TextDataset, type TextSet } from './text.js';
export {
  quadrantPoints,
  type SeparableOptions,
  type Split,
  separablePoints,
  type ToyOptions,
} from './toy.js';
export { type TextCodec, Vocabulary } from './vocabulary.js';
