/**
 * ONNX Runtime's own operators that are several of ONNX's: what its optimizer puts in place of a bias and an activation, of a sum and
 * its normalization, of a transpose and a product.
 */
import { type AnyTensor, f32, gelu, type Tensor } from 'heddle';
import { ELEMENT_TYPES } from '../file/element-types.js';
import { positionsOf, Value } from '../values/value.js';
import { float, floats, int, text } from './attributes.js';
import { convolve } from './convolution.js';
import { multiply } from './matrices.js';
import { type Call, type Operator, operator } from './operator.js';
import { GROUP, WINDOW } from './windows.js';

const KEEP = { keepdim: true } as const;

/** Layers of the last dimension, in f32 at least: (x − mean) / deviation · weight + bias, or x / root mean square · weight. */
function normalized(
  x: AnyTensor,
  isCentred: boolean,
  eps: number,
  weight: AnyTensor,
  bias: AnyTensor | undefined,
): { readonly made: AnyTensor; readonly mean: AnyTensor; readonly inverse: AnyTensor } {
  const wide = (x.dtype.bytes < 4 ? x.cast(f32) : x) as Tensor;
  const mean = wide.mean(-1, KEEP);
  const centred = isCentred ? wide.sub(mean) : wide;
  const inverse = centred.square().mean(-1, KEEP).add(eps).rsqrt();
  const scaled = centred.mul(inverse).cast(x.dtype).mul(weight);
  return { made: bias ? scaled.add(bias) : scaled, mean, inverse };
}

/** The normalization of x + skip + bias, and the sum itself. */
const skipNormalization = (isCentred: boolean): Operator =>
  operator({
    since: [1],
    inputs: isCentred ? [3, 5] : [3, 4],
    attributes: { epsilon: float(isCentred ? 1e-12 : 1e-6) },
    compute: (call) => {
      const skipped = call.tensor(0).add(call.tensor(1));
      const bias = call.optional(isCentred ? 4 : 3)?.tensor;
      const sum = bias ? skipped.add(bias) : skipped;
      const beta = isCentred ? call.optional(3)?.tensor : undefined;
      const { made, mean, inverse } = normalized(
        sum,
        isCentred,
        call.attributes.epsilon,
        call.tensor(2),
        beta,
      );
      return [made, mean, inverse, sum].map((x) => Value.of(x));
    },
  });

/** Of the days when ONNX had no RMSNormalization: ONNX Runtime's operator in ONNX's own domain. */
const SimplifiedLayerNormalization = operator({
  since: [1],
  inputs: [2],
  attributes: { axis: int(-1), epsilon: float(1e-5), stash_type: int(1) },
  compute: (call) => {
    const x = call.value(0);
    if (call.axis(call.attributes.axis, x.rank) !== x.rank - 1)
      throw call.shapeError('axis must be the last one.');
    const { made, inverse } = normalized(x.tensor, false, call.attributes.epsilon, call.tensor(1), undefined);
    return [Value.of(made), Value.of(inverse)];
  },
});

/** The sum of embeddings of words, positions and segments, and its normalization; how many words each row has. */
const EmbedLayerNormalization = operator({
  since: [1],
  inputs: [7, 9],
  attributes: { epsilon: float(1e-12), mask_index_type: int(0) },
  compute: (call) => {
    const ids = call.value(0);
    const [segments, segmentTable, mask, positions] = [1, 4, 7, 8].map((i) => call.optional(i));
    const table = call.value(3);
    const ahead = positions
      ? table.take(positions, 0)
      : table.slice([0, 0], [ids.shape[1]!, table.shape[1]!], [1, 1]);
    const placed = call.value(2).take(ids, 0).tensor.add(ahead.tensor);
    const sum = segments && segmentTable ? placed.add(segmentTable.take(segments, 0).tensor) : placed;
    const { made } = normalized(sum, true, call.attributes.epsilon, call.tensor(5), call.tensor(6));
    const counts = mask && call.attributes.mask_index_type === 1;
    const lengths = counts ? positionsOf(mask).sum(1) : positionsOf(ids).mul(0).sum(1);
    return [Value.of(made), Value.of(lengths, ELEMENT_TYPES.i32), Value.of(sum)];
  },
});

/** A function of x, or of x and a bias of its last dimension. */
const ofSum = (inputs: readonly [number, number?], f: (x: AnyTensor) => AnyTensor): Operator =>
  operator({
    since: [1],
    inputs,
    compute: (call) => {
      const bias = call.optional(1)?.tensor;
      return Value.of(f(bias ? call.tensor(0).add(bias) : call.tensor(0)));
    },
  });

const exactGelu = (x: AnyTensor): AnyTensor => gelu(x as Tensor);
const tanhGelu = (x: AnyTensor): AnyTensor => gelu(x as Tensor, { approximate: 'tanh' });

const QuickGelu = operator({
  since: [1],
  inputs: [1],
  attributes: { alpha: float(1.702) },
  compute: (call) => {
    const x = call.tensor(0);
    return Value.of(x.mul(x.mul(call.attributes.alpha).sigmoid()));
  },
});

const FusedMatMul = operator({
  since: [1],
  inputs: [2],
  attributes: {
    ...{ alpha: float(1), transA: int(0), transB: int(0) },
    ...{ transBatchA: int(0), transBatchB: int(0) },
  },
  compute: (call) => {
    const { alpha, transA, transB, transBatchA, transBatchB } = call.attributes;
    const of = (i: number, isTransposed: number, isMoved: number): AnyTensor => {
      const x = call.tensor(i);
      // With the first dimension moved before the last, the rows of a matrix lie across the batch.
      const moved = isMoved ? x.permute([...rangeOf(1, x.ndim - 1), 0, x.ndim - 1]) : x;
      return isTransposed && x.ndim > 1 ? moved.transpose(-2, -1) : moved;
    };
    const product = multiply(of(0, transA, transBatchA), of(1, transB, transBatchB));
    return Value.of(alpha === 1 ? product : product.mul(alpha));
  },
});

const rangeOf = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, i) => from + i);

/** Activations that ONNX Runtime names in an attribute, with their parameters. */
const ACTIVATIONS: Readonly<Record<string, (x: AnyTensor, alpha: number, beta: number) => AnyTensor>> = {
  '': (x) => x,
  Relu: (x) => x.relu(),
  Tanh: (x) => x.tanh(),
  Sigmoid: (x) => x.sigmoid(),
  LeakyRelu: (x, alpha) => x.gt(0).where(x, x.mul(alpha)) as AnyTensor,
  Clip: (x, low, high) => x.clamp(low, high),
  HardSigmoid: (x, alpha, beta) => x.mul(alpha).add(beta).clamp(0, 1),
};

function activated(call: Call, x: AnyTensor, name: string, [alpha = 0, beta = 0]: readonly number[]): Value {
  const f = Object.hasOwn(ACTIVATIONS, name) ? ACTIVATIONS[name] : undefined;
  if (!f) throw call.typeError(`the activation ${name} is not supported.`);
  return Value.of(f(x, alpha, beta));
}

/** A convolution, what is added to it, and an activation. */
const FusedConv = operator({
  since: [1],
  inputs: [2, 4],
  attributes: { ...WINDOW, ...GROUP, activation: text(''), activation_params: floats([]) },
  compute: (call) => {
    const a = call.attributes;
    const [x, w] = [call.tensor(0) as Tensor, call.tensor(1) as Tensor];
    const y = convolve(call, a, x, w, call.optional(2)?.tensor);
    const added = call.optional(3)?.tensor;
    return activated(call, added ? y.add(added) : y, a.activation, a.activation_params);
  },
});

const FusedGemm = operator({
  since: [1],
  inputs: [2, 3],
  attributes: {
    ...{ alpha: float(1), beta: float(1), transA: int(0), transB: int(0), activation: text('') },
    ...{ activation_alpha: float(0), activation_beta: float(0), activation_gamma: float(0) },
  },
  compute: (call) => {
    const { alpha, beta, transA, transB, activation, activation_alpha, activation_beta } = call.attributes;
    const [a, b] = [call.tensor(0), call.tensor(1)];
    const product = multiply(transA ? a.transpose() : a, transB ? b.transpose() : b).mul(alpha);
    const bias = call.optional(2)?.tensor;
    const sum = bias ? product.add(bias.mul(beta)) : product;
    return activated(call, sum, activation, [activation_alpha, activation_beta]);
  },
});

export const CONTRIB = {
  SimplifiedLayerNormalization,
  'com.microsoft.SkipLayerNormalization': skipNormalization(true),
  'com.microsoft.SkipSimplifiedLayerNormalization': skipNormalization(false),
  'com.microsoft.EmbedLayerNormalization': EmbedLayerNormalization,
  'com.microsoft.BiasGelu': ofSum([2], exactGelu),
  'com.microsoft.FastGelu': ofSum([1, 2], tanhGelu),
  'com.microsoft.Gelu': ofSum([1], exactGelu),
  'com.microsoft.QuickGelu': QuickGelu,
  'com.microsoft.FusedMatMul': FusedMatMul,
  'com.microsoft.FusedConv': FusedConv,
  'com.microsoft.FusedGemm': FusedGemm,
};
