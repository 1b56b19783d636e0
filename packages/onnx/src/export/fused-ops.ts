/**
 * Fused ops as ONNX operators. One without a record here, or whose record does not fit, is written as the primitives that it is
 * composed of.
 */
import { DTYPES, type DType, f32, i32 } from 'heddle/internal/core/dtype.js';
import { ArgumentError } from 'heddle/internal/core/errors.js';
import { knownValue, withoutGradients } from 'heddle/internal/graph/build.js';
import { callOf } from 'heddle/internal/graph/fused-op.js';
import { argOf, type GraphNode } from 'heddle/internal/graph/node.js';
import type { Conv2dArg } from 'heddle/internal/ops/conv2d/arg.js';
import type { SelectArg } from 'heddle/internal/ops/index-add/op.js';
import type { PoolArg } from 'heddle/internal/ops/max-pool2d/windows.js';
import type { Quantized } from 'heddle/internal/ops/quantize/arg.js';
import type { StandardizeArg } from 'heddle/internal/ops/standardize/op.js';
import type { Emission } from './emission.js';
import { type Attributes, float, int, ints, text } from './graph-writer.js';
import { writeLayer } from './layers.js';
import { isFixed } from './sizes.js';
import { layerCallOf, type ModelTrace } from './trace-model.js';

/** Writes a fused op. @returns its value; undefined where it does not fit */
type WriteFused<Arg> = (
  io: Emission,
  node: GraphNode,
  arg: Arg,
  values: () => readonly string[],
) => string | undefined;

const as =
  (opType: string): WriteFused<never> =>
  (io, _, __, values) =>
    io.add(opType, values());

const pads = (padding: readonly number[]) => ints([...padding, ...padding]);

const windows = ({ kernel, stride, dilation, padding }: Omit<PoolArg, 'size'>) => ({
  kernel_shape: ints(kernel),
  strides: ints(stride),
  dilations: ints(dilation),
  pads: pads(padding),
});

/** What Conv and ConvTranspose are told. */
export const convolutionAttributes = (arg: Conv2dArg): Attributes => ({
  ...windows(arg),
  group: int(arg.groups),
});

const FUSED = {
  relu: as('Relu'),
  sigmoid: as('Sigmoid'),
  softplus: as('Softplus'),
  silu: (io, _, __, values) => {
    const [x] = values();
    return io.add('Mul', [x, io.add('Sigmoid', [x])]);
  },
  gelu: (io, _, __, values) =>
    io.opset < 20 ? undefined : io.add('Gelu', values(), { approximate: text('none') }),
  clamp: (io, node, { low, high }: { readonly low: number; readonly high: number }, values) => {
    const bound = (value: number) => (Number.isFinite(value) ? io.scalar(value, node.dtype) : undefined);
    return io.add('Clip', [...values(), bound(low), bound(high)]);
  },
  softmax: (io, _, { axis, log }: { readonly axis: number; readonly log: boolean }, values) =>
    io.add(log ? 'LogSoftmax' : 'Softmax', values(), { axis: int(axis) }),
  matmul: as('MatMul'),
  conv2d: (io, _, arg: Conv2dArg, values) => io.add('Conv', values(), convolutionAttributes(arg)),
  conv2dInput: (io, node, arg: Conv2dArg, values) => {
    const { kernel, stride, padding, dilation } = arg;
    const missing = io.traces.fixed(node, 'the output padding', (n) =>
      kernel.map((k, i) => {
        const from =
          (n.src[0]!.shape[2 + i]! - 1) * stride[i]! - 2 * padding[i]! + dilation[i]! * (k - 1) + 1;
        return n.shape[2 + i]! - from;
      }),
    );
    return io.add('ConvTranspose', values(), {
      ...convolutionAttributes(arg),
      output_padding: missing.some((n) => n > 0) ? ints(missing) : undefined,
    });
  },
  maxPool2d: (io, _, arg: PoolArg, values) => io.add('MaxPool', values(), windows(arg)),
  windowSum: (io, node, [h, w]: readonly [number, number], values) => {
    if (node.shape.length !== 4) return undefined;
    const size = { kernel_shape: ints([h, w]), strides: ints([h, w]) };
    return io.add('Mul', [io.add('AveragePool', values(), size), io.scalar(h * w, node.dtype)]);
  },
  windowRepeat: (io, node, sizes: readonly [number, number], values) => {
    const scales = node.shape.map((_, i) => sizes[i - (node.shape.length - 2)] ?? 1);
    return io.add('Resize', [...values(), undefined, io.writer.constant(scales, f32, [scales.length])], {
      mode: text('nearest'),
      coordinate_transformation_mode: text('asymmetric'),
      nearest_mode: text('floor'),
    });
  },
  standardize: (io, node, { axes, eps }: StandardizeArg, values) => {
    const rank = node.shape.length;
    const isTrailing = axes.every((axis, i) => axis === rank - axes.length + i);
    if (!isTrailing || node.src.length > 1) return undefined;
    const [x] = values();
    const shape = io.traces.sizes(node).slice(rank - axes.length);
    const sizes = shape.every(isFixed)
      ? io.sizes(shape)
      : io.add('Shape', [x], { start: int(rank - axes.length) });
    const scale = io.add('Expand', [io.scalar(1, node.dtype), sizes]);
    return io.add('LayerNormalization', [x, scale], {
      axis: int(rank - axes.length),
      epsilon: float(eps),
    });
  },
  indexSelect: (io, _, { axis }: SelectArg, values) => io.add('Gather', values(), { axis: int(axis) }),
  reorder: (io, node, _, values) => io.add('GatherElements', values(), { axis: int(node.shape.length - 1) }),
  cumsum: (io, node, _, values) => io.add('CumSum', [...values(), io.scalar(node.shape.length - 1, i32)]),
  quantizeLinear: (io, node, { dtype }: Quantized) => quantized(io, node, 'QuantizeLinear', DTYPES[dtype]),
  dequantizeLinear: (io, node) => quantized(io, node, 'DequantizeLinear'),
  fakeQuantize: (io, node, { dtype }: Quantized) => {
    const levels = quantized(io, node, 'QuantizeLinear', DTYPES[dtype]);
    return quantized(io, node, 'DequantizeLinear', DTYPES[dtype], levels);
  },
  argsort: (io, node) => {
    const { values, descending } = sorted(node.src[0]!);
    const last = io.traces.sizes(node).at(-1)!;
    const [, positions] = io.writer.all(
      'TopK',
      [io.value(values), io.sizes([last])],
      { axis: int(-1), largest: int(descending ? 1 : 0) },
      2,
    );
    return io.cast(positions!, i32);
  },
} satisfies Record<string, WriteFused<never>>;

/**
 * Scales and zero points lie along an axis in ONNX; in the graph they broadcast to x. A zero point is written where it says what is
 * quantized to.
 * @param x what is quantized, if it is not the node's first source
 */
function quantized(io: Emission, node: GraphNode, opType: string, levels?: DType, x?: string): string {
  const [from, scale, zeroPoint] = node.src as [GraphNode, GraphNode, GraphNode?];
  const axis = Math.max(
    0,
    scale.shape.findIndex((d) => d !== 1),
  );
  const isScalar = scale.size === 1;
  const sizes = isScalar ? [] : [io.traces.sizes(scale)[axis]!];
  const alongAxis = (parameter: GraphNode): string => {
    if (isScalar && knownValue(parameter) !== undefined) return io.known(parameter);
    // As the model has it, where that is along an axis: engines want parameters here.
    const own = parameter.op === 'reshape' ? parameter.src[0]! : parameter;
    if (own.shape.length === sizes.length) return io.value(own);
    return io.reshape(io.value(parameter), io.traces.sizes(parameter), sizes);
  };
  const zero = (dtype: DType): string => {
    const count = isScalar ? 1 : scale.size;
    return io.writer.constant(new Array<number>(count).fill(0), dtype, isScalar ? [] : [count]);
  };
  const zeros = zeroPoint ? alongAxis(zeroPoint) : levels && zero(levels);
  return io.add(opType, [x ?? io.value(from), alongAxis(scale), zeros], isScalar ? {} : { axis: int(axis) });
}

/**
 * What `argsort` sorts: the keys, or the floats whose bits they are; see keysOf of the library's ops/sort. Keys are sorted in
 * ascending order; those with all bits turned over stand for descending ones.
 */
function sorted(keys: GraphNode): { readonly values: GraphNode; readonly descending: boolean } {
  const descending = keys.op === 'map' && argOf(keys, 'map').op === 'not';
  const own = descending ? keys.src[0]! : keys;
  const seen = new Set([own]);
  for (const node of seen) {
    if (node.op !== 'map') continue;
    // The floats, with −0 made 0.
    if (argOf(node, 'map').op === 'bitcast') return { values: node.src[0]!, descending };
    for (const source of node.src) seen.add(source);
    if (seen.size > 32) break;
  }
  return { values: own, descending };
}

/** Write the call of a layer or of a fused op. @returns its value */
export function writeCall(io: Emission, node: GraphNode): string {
  const layer = layerCallOf(node);
  if (layer) return writeLayer(io, node, layer);
  const { op, arg } = callOf(node);
  const record = (FUSED as Readonly<Record<string, WriteFused<never>>>)[op.name];
  const written = record?.(io, node, arg as never, () => node.src.map((s) => io.value(s)));
  if (written !== undefined) return written;
  const composed = withoutGradients(() =>
    io.traces.twins(node).map((twin) => op.compose(twin.src, callOf(twin).arg)),
  );
  io.traces.add(composed);
  return io.value(composed[0]!);
}

/** @throws ArgumentError for a kernel of the user's, which is composed of nothing */
export function refuseKernels({ nodes, madeIn }: ModelTrace): void {
  for (const node of nodes) {
    if (node.op !== 'call') continue;
    const { op, arg } = callOf(node);
    if (typeof arg !== 'object' || arg === null || !('hash' in arg && 'grid' in arg)) continue;
    const path = madeIn(node)?.path ?? '';
    throw new ArgumentError(
      `[exportOnnx] the kernel '${op.name}', called in ${path === '' ? 'the model' : `'${path}'`}${node.origin ? ` at ${node.origin}` : ''}, ` +
        'has no counterpart in ONNX. Write that part of forward with operations on tensors.',
    );
  }
}
