/** How the ops of images.json are called. */
import * as F from '../../src/index.js';
import type { Tensor } from '../../src/tensor/tensor.js';
import type { Inputs, Options, Run } from './golden.js';

const convolution =
  (name: 'conv1d' | 'conv3d' | 'convTranspose1d' | 'convTranspose2d' | 'convTranspose3d'): Run =>
  ({ x, weight, bias }, options) =>
    F[name](x!, weight!, bias, options);
const pooling =
  (name: 'maxPool1d' | 'avgPool1d'): Run =>
  ({ x }, { kernel, ...options }) =>
    F[name](x!, kernel, options);
const adaptive =
  (name: 'adaptiveAvgPool1d' | 'adaptiveAvgPool2d' | 'adaptiveMaxPool1d' | 'adaptiveMaxPool2d'): Run =>
  ({ x }, { outputSize }) =>
    F[name](x!, outputSize);

export const IMAGES: Readonly<Record<string, Run>> = {
  conv1d: convolution('conv1d'),
  conv2d: ({ x, weight, bias }, options) => F.conv2d(x!, weight!, bias, options),
  conv3d: convolution('conv3d'),
  convTranspose1d: convolution('convTranspose1d'),
  convTranspose2d: convolution('convTranspose2d'),
  convTranspose3d: convolution('convTranspose3d'),
  maxPool1d: pooling('maxPool1d'),
  avgPool1d: pooling('avgPool1d'),
  adaptiveAvgPool1d: adaptive('adaptiveAvgPool1d'),
  adaptiveAvgPool2d: adaptive('adaptiveAvgPool2d'),
  adaptiveMaxPool1d: adaptive('adaptiveMaxPool1d'),
  adaptiveMaxPool2d: adaptive('adaptiveMaxPool2d'),
  interpolate: ({ x }, options) => F.interpolate(x!, options),
  pixelShuffle: ({ x }, { factor }) => F.pixelShuffle(x!, factor),
  pixelUnshuffle: ({ x }, { factor }) => F.pixelUnshuffle(x!, factor),
  pad: ({ x }, { amounts, mode }) =>
    x!.pad(
      x!.shape.map((_, i) => [amounts[2 * i], amounts[2 * i + 1]]),
      { mode },
    ),
  unfold: ({ x }, { kernel, ...options }) => F.unfold(x!, kernel, options),
  fold: ({ x }, { outputSize, kernel, ...options }) => F.fold(x!, outputSize, kernel, options),
};
