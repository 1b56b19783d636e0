/** Datasets and loaders. */
export type { Batch } from './batch.js';
export {
  ArrayDataset,
  type ArrayDatasetOptions,
  type Dataset,
  type Normalization,
  type RemoteDataset,
} from './dataset.js';
export { Loader, type LoaderOptions } from './loader.js';
export {
  findImages,
  IMAGE_SETS,
  type ImageSet,
  type ImageSetName,
  type LoadImagesOptions,
  loadImages,
} from './mnist.js';
export {
  quadrantPoints,
  type SeparableOptions,
  type Split,
  separablePoints,
  type ToyOptions,
} from './toy.js';
