/** Functions and layers of signals, images and volumes: what they take. */
import { nn, ones } from '../../src/index.js';
import type { LayerRow } from './sequences.js';
import {
  convolution,
  flag,
  images,
  isList,
  number,
  oneOf,
  optional,
  options,
  orElse,
  pair,
  pooling,
  precision,
  type Spec,
  tensor,
} from './spec.js';

export const signals = tensor(() => ones([1, 1, 4]));
const volumes = tensor(() => ones([1, 1, 2, 3, 3]));
const triple = (good: number): Spec => orElse(number(good), isList);
const alongSignal = { stride: optional(number(2)), padding: optional(number(0)) };
const convolution1d = { ...alongSignal, dilation: optional(number()), groups: optional(number()), precision };
const convolution3d = {
  ...{ stride: optional(triple(2)), padding: optional(triple(0)), dilation: optional(triple(1)) },
  ...{ groups: optional(number()), precision },
};
const named = (v: unknown): boolean => v === 'same' || v === 'valid';
const padded1d = { ...convolution1d, padding: optional(orElse(number(0), named)) };
const padded2d = { ...convolution, padding: optional(orElse(pair(0), named)) };
const padded3d = { ...convolution3d, padding: optional(orElse(triple(0), named)) };
const transposed1d = { ...convolution1d, outputPadding: optional(number(0)) };
const transposed2d = { ...convolution, outputPadding: optional(pair(0)) };
const transposed3d = { ...convolution3d, outputPadding: optional(triple(0)) };
const bias = optional(flag);
const ofKernel = (...kernel: number[]): Spec[] => [
  tensor(() => ones([1, 1, ...kernel])),
  optional(tensor(() => ones([1]))),
];
const dropping = options({ p: optional(number(0.5)), training: optional(flag) });

const sliding = { ...pooling, dilation: optional(pair(1)) };
const resizing = options(
  {
    ...{ size: optional(orElse(number(2), isList)), scaleFactor: optional(orElse(number(2), isList)) },
    ...{
      mode: optional(oneOf('nearest', 'nearest-exact', 'linear', 'bilinear', 'bicubic', 'area')),
      alignCorners: optional(flag),
    },
  },
  () => ({ size: 2 }),
);

export const IMAGE_CALLS: Readonly<Record<string, readonly Spec[]>> = {
  conv1d: [signals, ...ofKernel(2), options(padded1d)],
  conv2d: [images, ...ofKernel(2, 2), options(padded2d)],
  conv3d: [volumes, ...ofKernel(1, 2, 2), options(padded3d)],
  convTranspose1d: [signals, ...ofKernel(2), options(transposed1d)],
  convTranspose2d: [images, ...ofKernel(2, 2), options(transposed2d)],
  convTranspose3d: [volumes, ...ofKernel(1, 2, 2), options(transposed3d)],
  maxPool1d: [signals, number(2), options({ ...alongSignal, dilation: optional(number()) })],
  avgPool1d: [signals, number(2), options({ ...alongSignal, countIncludePad: optional(flag) })],
  maxPool2d: [images, pair(2), options({ ...pooling, dilation: optional(pair(1)) })],
  avgPool2d: [images, pair(2), options({ ...pooling, countIncludePad: optional(flag) })],
  adaptiveAvgPool1d: [signals, number(3)],
  adaptiveMaxPool1d: [signals, number(3)],
  adaptiveAvgPool2d: [images, pair(3)],
  adaptiveMaxPool2d: [images, pair(3)],
  interpolate: [images, resizing],
  pixelShuffle: [tensor(() => ones([1, 4, 2, 2])), number(2)],
  pixelUnshuffle: [images, number(2)],
  unfold: [images, pair(2), options(sliding)],
  fold: [tensor(() => ones([1, 4, 4])), pair(3), pair(2), options(sliding)],
  dropout: [tensor(), dropping],
  dropout2d: [images, dropping],
  dropPath: [tensor(), dropping],
};

const oneD = (takes: readonly Spec[], make: LayerRow['make']): LayerRow => ({ takes, make, input: signals });
const twoD = (takes: readonly Spec[], make: LayerRow['make']): LayerRow => ({ takes, make, input: images });
const rate = [options({ p: optional(number(0.5)) })];

export const IMAGE_LAYERS: Readonly<Record<string, LayerRow>> = {
  Conv1d: oneD(
    [number(1), number(1), number(2), options({ ...padded1d, bias })],
    () => new nn.Conv1d(1, 1, 2),
  ),
  Conv2d: twoD([number(1), number(1), pair(2), options({ ...padded2d, bias })], () => new nn.Conv2d(1, 1, 2)),
  Conv3d: {
    takes: [number(1), number(1), triple(2), options({ ...padded3d, bias })],
    make: () => new nn.Conv3d(1, 1, 2),
    input: volumes,
  },
  ConvTranspose1d: oneD(
    [number(1), number(1), number(2), options({ ...transposed1d, bias })],
    () => new nn.ConvTranspose1d(1, 1, 2),
  ),
  ConvTranspose2d: twoD(
    [number(1), number(1), pair(2), options({ ...transposed2d, bias })],
    () => new nn.ConvTranspose2d(1, 1, 2),
  ),
  ConvTranspose3d: {
    takes: [number(1), number(1), triple(2), options({ ...transposed3d, bias })],
    make: () => new nn.ConvTranspose3d(1, 1, 2),
    input: volumes,
  },
  MaxPool1d: oneD(
    [number(2), options({ ...alongSignal, dilation: optional(number()) })],
    () => new nn.MaxPool1d(2),
  ),
  AvgPool1d: oneD(
    [number(2), options({ ...alongSignal, countIncludePad: optional(flag) })],
    () => new nn.AvgPool1d(2),
  ),
  MaxPool2d: twoD([pair(2), options({ ...pooling, dilation: optional(pair(1)) })], () => new nn.MaxPool2d(2)),
  AvgPool2d: twoD(
    [pair(2), options({ ...pooling, countIncludePad: optional(flag) })],
    () => new nn.AvgPool2d(2),
  ),
  AdaptiveAvgPool1d: oneD([number(3)], () => new nn.AdaptiveAvgPool1d(3)),
  AdaptiveMaxPool1d: oneD([number(3)], () => new nn.AdaptiveMaxPool1d(3)),
  AdaptiveAvgPool2d: twoD([pair(3)], () => new nn.AdaptiveAvgPool2d(3)),
  AdaptiveMaxPool2d: twoD([pair(3)], () => new nn.AdaptiveMaxPool2d(3)),
  Upsample: twoD([resizing], () => new nn.Upsample({ scaleFactor: 2 })),
  PixelShuffle: {
    takes: [number(2)],
    make: () => new nn.PixelShuffle(2),
    input: tensor(() => ones([1, 4, 2, 2])),
  },
  PixelUnshuffle: twoD([number(2)], () => new nn.PixelUnshuffle(2)),
  Unfold: twoD([pair(2), options(sliding)], () => new nn.Unfold(2)),
  Fold: {
    takes: [pair(3), pair(2), options(sliding)],
    make: () => new nn.Fold(3, 2),
    input: tensor(() => ones([1, 4, 4])),
  },
  ConstantPad1d: { ...oneD([pair(1), number()], () => new nn.ConstantPad1d(1, 2)), inherits: true },
  ConstantPad2d: { ...twoD([pair(1), number()], () => new nn.ConstantPad2d(1, 2)), inherits: true },
  ZeroPad1d: { ...oneD([pair(1)], () => new nn.ZeroPad1d(1)), inherits: true },
  ZeroPad2d: { ...twoD([pair(1)], () => new nn.ZeroPad2d(1)), inherits: true },
  ReflectionPad1d: { ...oneD([pair(1)], () => new nn.ReflectionPad1d(1)), inherits: true },
  ReflectionPad2d: { ...twoD([pair(1)], () => new nn.ReflectionPad2d(1)), inherits: true },
  ReplicationPad1d: { ...oneD([pair(1)], () => new nn.ReplicationPad1d(1)), inherits: true },
  ReplicationPad2d: { ...twoD([pair(1)], () => new nn.ReplicationPad2d(1)), inherits: true },
  CircularPad1d: { ...oneD([pair(1)], () => new nn.CircularPad1d(1)), inherits: true },
  CircularPad2d: { ...twoD([pair(1)], () => new nn.CircularPad2d(1)), inherits: true },
  Identity: { takes: [], make: () => new nn.Identity() },
  Dropout: { takes: rate, make: () => new nn.Dropout() },
  Dropout2d: twoD(rate, () => new nn.Dropout2d()),
  DropPath: { takes: rate, make: () => new nn.DropPath() },
};
