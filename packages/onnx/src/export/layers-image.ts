/** Layers of images, signals and features as ONNX operators. */
import { nn } from 'heddle';
import { f32, i64 } from 'heddle/internal/core/dtype.js';
import { type Attributes, float, int, ints, text } from './graph-writer.js';
import type { LayerExport, LayerIo } from './layer-export.js';

type Numbers = number | readonly number[];

/** One number for all dimensions, or one for each. */
const each = (value: Numbers, count: number): readonly number[] =>
  typeof value === 'number' ? new Array<number>(count).fill(value) : value;

/** As much before as after. */
const around = (amounts: readonly number[]): readonly number[] => [...amounts, ...amounts];

interface ConvolutionOptions {
  readonly stride?: Numbers;
  readonly padding?: Numbers | string;
  readonly dilation?: Numbers;
  readonly groups?: number;
  readonly outputPadding?: Numbers;
}

const withBias = ({ io, module, values }: LayerIo<nn.ConvolutionLayer>): (string | undefined)[] => [
  ...values,
  io.tensor(module.weight),
  module.bias && io.tensor(module.bias),
];

function windows(kernel: readonly number[], options: ConvolutionOptions): Attributes {
  const { stride = 1, padding = 0, dilation = 1 } = options;
  const count = kernel.length;
  const shared = {
    kernel_shape: ints(kernel),
    strides: ints(each(stride, count)),
    dilations: ints(each(dilation, count)),
  };
  if (padding === 'valid') return shared;
  if (typeof padding !== 'string') return { ...shared, pads: ints(around(each(padding, count))) };
  // 'same': of an odd number of elements the larger half is at the end.
  const total = kernel.map((k, i) => each(dilation, count)[i]! * (k - 1));
  return {
    ...shared,
    pads: ints([...total.map((n) => Math.floor(n / 2)), ...total.map((n) => Math.ceil(n / 2))]),
  };
}

type WithOptions = nn.ConvolutionLayer & { readonly options: ConvolutionOptions };

const convolution = (layer: new (...args: never[]) => WithOptions): LayerExport<WithOptions> => ({
  layer,
  write: (call) => {
    const { weight, options } = call.module;
    return [
      call.io.add('Conv', withBias(call), {
        ...windows(weight.shape.slice(2), options),
        group: int(options.groups ?? 1),
      }),
    ];
  },
});

const transposed = (layer: new (...args: never[]) => WithOptions): LayerExport<WithOptions> => ({
  layer,
  // Engines demand an output padding below the stride, Heddle below the stride or the dilation.
  fits: ({ weight, options: { stride = 1, outputPadding = 0 } }) =>
    each(outputPadding, weight.ndim - 2).every((n, i) => n < each(stride, weight.ndim - 2)[i]!),
  write: (call) => {
    const { weight, options } = call.module;
    const extra = each(options.outputPadding ?? 0, weight.ndim - 2);
    return [
      call.io.add('ConvTranspose', withBias(call), {
        ...windows(weight.shape.slice(2), options),
        group: int(options.groups ?? 1),
        output_padding: extra.some((n) => n > 0) ? ints(extra) : undefined,
      }),
    ];
  },
});

const linear: LayerExport<nn.Linear> = {
  layer: nn.Linear,
  fits: (_, inputs) => inputs.length === 1 && inputs[0]!.dtype.name === 'f32',
  write: ({ io, module, inputs, values: [x] }) => {
    const weight = io.tensor(module.weight);
    const bias = module.bias && io.tensor(module.bias);
    if (inputs[0]!.shape.length === 2) return [io.add('Gemm', [x, weight, bias], { transB: int(1) })];
    const product = io.add('MatMul', [x, io.transpose(weight, [1, 0])]);
    return [bias === undefined ? product : io.add('Add', [product, bias])];
  },
};

const embedding: LayerExport<nn.Embedding> = {
  layer: nn.Embedding,
  fits: ({ maxNorm }) => maxNorm === undefined,
  write: ({ io, module, values: [indices] }) => [io.add('Gather', [io.tensor(module.weight), indices])],
};

const flatten: LayerExport<nn.Flatten> = {
  layer: nn.Flatten,
  fits: ({ from }) => from === 1,
  write: ({ io, values }) => [io.add('Flatten', values)],
};

type Pooling = nn.Module & {
  readonly kernel: Numbers;
  readonly options: ConvolutionOptions & { readonly countIncludePad?: boolean };
};

const pooling = (
  layer: new (...args: never[]) => Pooling,
  opType: 'MaxPool' | 'AveragePool',
): LayerExport<Pooling> => ({
  layer,
  write: ({ io, module, inputs, values }) => {
    const { kernel, options } = module;
    const size = each(kernel, inputs[0]!.shape.length - 2);
    const counts = opType === 'AveragePool' && (options.countIncludePad ?? true);
    const { dilations, ...attributes } = windows(size, { stride: size, ...options });
    return [
      io.add(opType, values, {
        ...attributes,
        dilations: opType === 'MaxPool' ? dilations : undefined,
        count_include_pad: counts ? int(1) : undefined,
      }),
    ];
  },
});

/** Pooling to a size: over everything, or where windows are all alike. */
const adaptive = (
  layer: new (...args: never[]) => nn.Module & { readonly outputSize: Numbers },
  kind: 'Max' | 'Average',
): LayerExport<nn.Module & { readonly outputSize: Numbers }> => ({
  layer,
  fits: ({ outputSize }, inputs) => {
    const sizes = inputs[0]!.shape.slice(2);
    return each(outputSize, sizes.length).every((n) => n === 1);
  },
  write: ({ io, values }) => [io.add(`Global${kind}Pool`, values)],
});

const PAD_MODES = new Map<unknown, string>([
  [nn.ConstantPad1d, 'constant'],
  [nn.ConstantPad2d, 'constant'],
  [nn.ZeroPad1d, 'constant'],
  [nn.ZeroPad2d, 'constant'],
  [nn.ReflectionPad1d, 'reflect'],
  [nn.ReflectionPad2d, 'reflect'],
  [nn.ReplicationPad1d, 'edge'],
  [nn.ReplicationPad2d, 'edge'],
]);

const padding = (layer: new (...args: never[]) => nn.PaddingLayer): LayerExport<nn.PaddingLayer> => ({
  layer,
  write: ({ io, module, inputs, values }) => {
    // left, right, top, bottom → before each dimension, then after each
    const [left, right, top, bottom] = module.padding as [number, number, number?, number?];
    const before = top === undefined ? [left] : [top, left];
    const after = bottom === undefined ? [right] : [bottom, right];
    const pads = io.integers([0, 0, ...before, 0, 0, ...after]);
    const fill = 'value' in module ? io.scalar(module.value as number, inputs[0]!.dtype) : undefined;
    return [io.add('Pad', [...values, pads, fill], { mode: text(PAD_MODES.get(layer)!) })];
  },
});

const MODES = { linear: 'linear', bilinear: 'linear', bicubic: 'cubic' } as const;

const upsample: LayerExport<nn.Upsample> = {
  layer: nn.Upsample,
  fits: ({ options: { mode } }) => mode !== 'area',
  write: ({ io, module, inputs, values }) => {
    const { mode = 'nearest', alignCorners = false, size, scaleFactor } = module.options;
    const dimensions = inputs[0]!.shape.length - 2;
    const axes = Array.from({ length: dimensions }, (_, i) => 2 + i);
    const scales = scaleFactor && io.writer.constant(each(scaleFactor, dimensions), f32, [dimensions]);
    const sizes = size && io.writer.constant(each(size, dimensions), i64, [dimensions]);
    const isNearest = mode === 'nearest' || mode === 'nearest-exact';
    const transformation = mode === 'nearest' ? 'asymmetric' : alignCorners ? 'align_corners' : 'half_pixel';
    const attributes = isNearest
      ? { mode: text('nearest'), nearest_mode: text(mode === 'nearest' ? 'floor' : 'round_prefer_ceil') }
      : { mode: text(MODES[mode as keyof typeof MODES]), cubic_coeff_a: float(-0.75) };
    return [
      io.add('Resize', [...values, undefined, scales || undefined, sizes || undefined], {
        ...attributes,
        axes: ints(axes),
        coordinate_transformation_mode: text(transformation),
      }),
    ];
  },
};

const pixelShuffle: LayerExport<nn.PixelShuffle> = {
  layer: nn.PixelShuffle,
  fits: (_, inputs) => inputs[0]!.shape.length === 4,
  write: ({ io, module, values }) => [
    io.add('DepthToSpace', values, { blocksize: int(module.upscaleFactor), mode: text('CRD') }),
  ],
};

export const IMAGES: readonly LayerExport[] = [
  ...[nn.Conv1d, nn.Conv2d, nn.Conv3d].map((layer) => convolution(layer as never)),
  ...[nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d].map((layer) => transposed(layer as never)),
  ...[nn.MaxPool1d, nn.MaxPool2d].map((layer) => pooling(layer as never, 'MaxPool')),
  ...[nn.AvgPool1d, nn.AvgPool2d].map((layer) => pooling(layer as never, 'AveragePool')),
  ...[nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d].map((layer) => adaptive(layer, 'Max')),
  ...[nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d].map((layer) => adaptive(layer, 'Average')),
  ...[...PAD_MODES.keys()].map((layer) => padding(layer as never)),
  ...[linear, embedding, flatten, upsample, pixelShuffle],
] as unknown as readonly LayerExport[];
