/** Transforms of images: what they take. */
import { transforms } from '../../src/index.js';
import { flag, isList, list, number, oneOf, optional, options, orElse, type Spec, slow } from './spec.js';

const size = slow(orElse(number(2), isList));
const fill = optional(orElse(number(0), isList));
const span = optional(list(() => [0.5, 1]));
const range = orElse(number(10), isList);
const chance = options({ p: optional(number(0.5)) });
const interpolation = optional(oneOf('nearest', 'bilinear'));
const resizing = {
  interpolation: optional(oneOf('nearest', 'bilinear', 'bicubic')),
  antialias: optional(flag),
};
const rotation = { interpolation, center: optional(list(() => [1, 1])), fill };
const factor = optional(orElse(number(0.5), isList));
const mix = options({ alpha: optional(number()), numClasses: optional(number(2)) });

export const TRANSFORM_CALLS: Readonly<Record<string, readonly Spec[]>> = {
  'transforms.compose': [list(() => [transforms.randomHorizontalFlip()])],
  'transforms.randomCrop': [
    size,
    options({
      padding: optional(orElse(number(0), isList)),
      padIfNeeded: optional(flag),
      ...{ fill, paddingMode: optional(oneOf('constant', 'edge', 'reflect', 'symmetric')) },
    }),
  ],
  'transforms.centerCrop': [size],
  'transforms.randomHorizontalFlip': [chance],
  'transforms.randomVerticalFlip': [chance],
  'transforms.randomRotation': [range, options({ ...rotation, expand: optional(flag) })],
  'transforms.randomAffine': [
    range,
    options({ ...rotation, translate: optional(list(() => [0, 0.5])), scale: span, shear: factor }),
  ],
  'transforms.resize': [size, options(resizing)],
  'transforms.randomResizedCrop': [size, options({ ...resizing, scale: span, ratio: span })],
  'transforms.colorJitter': [
    options({ brightness: factor, contrast: factor, saturation: factor, hue: factor }),
  ],
  'transforms.grayscale': [options({ numOutputChannels: optional(number(3)) })],
  'transforms.randomGrayscale': [chance],
  'transforms.normalize': [orElse(number(), isList), orElse(number(), isList)],
  'transforms.randomErasing': [
    options({
      p: optional(number(0.5)),
      scale: span,
      ratio: span,
      value: optional(orElse(number(0), (v) => isList(v) || v === 'random')),
    }),
  ],
  'transforms.cutout': [number(2), options({ holes: optional(number()), value: fill })],
  'transforms.trivialAugmentWide': [options({ numMagnitudeBins: optional(number(2)), interpolation, fill })],
  'transforms.mixUp': [mix],
  'transforms.cutMix': [mix],
};
