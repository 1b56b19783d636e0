/** Images varied: augmentation on a device, inside the program that trains, and on the host. */
export {
  type PlacingOptions,
  type RandomAffineOptions,
  type RandomRotationOptions,
  randomAffine,
  randomRotation,
} from './affine.js';
export type { Degrees, Fill, Interpolation, ResizeInterpolation } from './arguments.js';
export {
  type ColorJitterOptions,
  colorJitter,
  type GrayscaleOptions,
  grayscale,
  normalize,
  type RandomGrayscaleOptions,
  randomGrayscale,
} from './color.js';
export {
  type ChanceOptions,
  centerCrop,
  type RandomCropOptions,
  randomCrop,
  randomHorizontalFlip,
  randomVerticalFlip,
} from './crop.js';
export { type CutoutOptions, cutout, type RandomErasingOptions, randomErasing } from './erasing.js';
export { cutMix, type Mix, type MixOptions, mixUp } from './mixing.js';
export { type RandomResizedCropOptions, type ResizeOptions, randomResizedCrop, resize } from './resize.js';
export { compose, type HostImage, type Transform } from './transform.js';
export { type TrivialAugmentWideOptions, trivialAugmentWide } from './trivial-augment.js';
