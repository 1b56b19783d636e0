/** ONNX Runtime's own operators on quantized tensors. */
import { type AnyTensor, f32, f64, i32, type Tensor } from 'heddle';
import { ELEMENT_TYPES } from '../file/element-types.js';
import { positionsOf, Value } from '../values/value.js';
import { ACTIVATIONS } from './activations.js';
import { type Attribute, type Attributes, float, int } from './attributes.js';
import { multiply } from './matrices.js';
import { NORMALIZATION } from './normalization.js';
import { Call, type Operator, operator } from './operator.js';
import { POOLING } from './pooling.js';
import {
  centred,
  dequantized,
  dynamicallyQuantized,
  perRow,
  QUANTIZATION,
  quantized,
  scalar,
} from './quantization.js';

const { u8: UINT8 } = ELEMENT_TYPES;

/** A record's attributes, whatever version has them: ONNX Runtime's operators have one version. */
const unversioned = (attributes: Attributes): Attributes =>
  Object.fromEntries(
    Object.entries(attributes).map(([name, { from, until, ...attribute }]) => [
      name,
      attribute satisfies Attribute<unknown>,
    ]),
  );

/** One of ONNX's operators at its newest version, in ONNX Runtime's domain. */
const sameAs = (record: Operator): Operator => ({
  ...record,
  since: [1],
  attributes: unversioned(record.attributes ?? {}),
  compute: (call) => record.compute(again(call, record, call.inputs)),
});

/** A call of a record of ONNX at its newest version, with other inputs. */
const again = (call: Call, record: Operator, inputs: Call['inputs']): Call =>
  new Call({ ...call, inputs, version: record.since.at(-1)!, evaluate: call.evaluate });

/** A function of floats on what bytes stand for: x, its scale and zero point, and those of the result. */
const throughFloats = (record: Operator): Operator =>
  operator({
    since: [1],
    inputs: [4, 5],
    fixed: [1, 2, 3, 4],
    attributes: {
      ...unversioned(record.attributes ?? {}),
      ...{ channels_last: int(0), opset: int(13) },
    },
    compute: (call) => {
      if (call.attributes.channels_last) throw call.shapeError('channels_last is not supported.');
      const zeroPoint = call.optional(2);
      const x = dequantized(call.tensor(0), scalar(call.tensor(1))!, scalar(zeroPoint?.tensor));
      const made = record.compute(again(call as Call, record, [Value.of(x)])) as Value;
      const zero = call.optional(4);
      const type = zero?.type ?? call.value(0).type;
      return quantized(made.tensor, scalar(call.tensor(3))!, scalar(zero?.tensor), type);
    },
  });

/** Tensors with scales and zero points of their own, joined with those of the result. */
const QLinearConcat = operator({
  since: [1],
  inputs: [5, Number.POSITIVE_INFINITY],
  attributes: { axis: int(0) },
  compute: (call) => {
    const count = (call.inputs.length - 2) / 3;
    if (!Number.isInteger(count)) throw call.shapeError('each tensor needs a scale and a zero point.');
    const parts = Array.from({ length: count }, (_, i) =>
      Value.of(
        dequantized(call.tensor(2 + 3 * i), scalar(call.tensor(3 + 3 * i))!, scalar(call.tensor(4 + 3 * i))),
      ),
    );
    const whole = Value.concat(parts, call.axis(call.attributes.axis, parts[0]!.rank));
    return quantized(whole.tensor, scalar(call.tensor(0))!, scalar(call.tensor(1)), call.value(1).type);
  },
});

/** Integers (…, M, K) · (…, K, N) in units of both scales, as floats; zero points and scales of B are one, or one for each column. */
function unquantizedProduct(
  a: AnyTensor,
  b: AnyTensor,
  scale: AnyTensor,
  bias: AnyTensor | undefined,
): Value {
  const product = multiply(a, b).mul(scale.cast(f64)).cast(f32);
  return Value.of(bias ? product.add(bias) : product);
}

const DynamicQuantizeMatMul = operator({
  since: [1],
  inputs: [3, 5],
  fixed: [2, 3],
  compute: (call) => {
    const { levels, scale, zero } = dynamicallyQuantized(call.tensor(0) as Tensor);
    const a = centred(levels.tensor, zero);
    const b = centred(call.tensor(1), scalar(call.optional(3)?.tensor));
    return unquantizedProduct(a, b, scale.mul(scalar(call.tensor(2))!), call.optional(4)?.tensor);
  },
});

const MatMulIntegerToFloat = operator({
  since: [1],
  inputs: [4, 7],
  fixed: [2, 3, 4, 5],
  compute: (call) => {
    const a = centred(call.tensor(0), perRow(call.optional(4)?.tensor));
    const b = centred(call.tensor(1), scalar(call.optional(5)?.tensor));
    const scale = perRow(call.tensor(2))!.mul(scalar(call.tensor(3))!);
    return unquantizedProduct(a, b, scale, call.optional(6)?.tensor);
  },
});

/** Numbers of a few bits, the first in the low bits of a byte, one for each: (…, bytes) → (…, bytes · 8/bits). */
function unpacked(bytes: AnyTensor, bits: number): AnyTensor {
  const wide = bytes.cast(i32);
  const each = Array.from({ length: 8 / bits }, (_, i) =>
    Value.of(
      wide
        .shr(i * bits)
        .and(2 ** bits - 1)
        .unsqueeze(-1),
    ),
  );
  return Value.concat(each, bytes.ndim).tensor.reshape([...bytes.shape.slice(0, -1), -1]);
}

/** A product with weights of 2, 4 or 8 bits, in blocks along K with a scale and a zero point each. */
const MatMulNBits = operator({
  since: [1],
  inputs: [3, 6],
  fixed: [2, 3],
  attributes: {
    ...{ K: int(0), N: int(0), bits: int(4), block_size: int(0) },
    ...{ accuracy_level: int(0), weight_prepacked: int(0) },
  },
  compute: (call) => {
    const { K, N, bits, block_size: block, weight_prepacked } = call.attributes;
    if (![2, 4, 8].includes(bits) || weight_prepacked)
      throw call.typeError('weights of 2, 4 and 8 bits that are not prepacked are supported.');
    if (K < 1 || N < 1 || block < 1) throw call.shapeError('K, N and block_size must be at least 1.');
    const blocks = Math.ceil(K / block);
    const levels = unpacked(call.tensor(1), bits)
      .reshape([N, blocks * block])
      .at(':', `0:${K}`);
    const scales = call.tensor(2).reshape([N, blocks]);
    const zero = call.optional(3);
    const zeros =
      zero?.type === UINT8
        ? unpacked(zero.tensor.reshape([N, -1]), bits).at(':', `0:${blocks}`)
        : zero?.tensor.reshape([N, blocks]);
    const group = call.optional(4);
    const spread = (x: AnyTensor): AnyTensor =>
      group ? x.at(':', positionsOf(group)) : x.repeatInterleave(block, 1).at(':', `0:${K}`);
    const middle = zeros ? spread(zeros.cast(scales.dtype)) : 2 ** (bits - 1);
    const weight = levels.cast(scales.dtype).sub(middle).mul(spread(scales));
    const product = multiply(call.tensor(0), weight.transpose());
    const bias = call.optional(5)?.tensor;
    return Value.of(bias ? product.add(bias) : product);
  },
});

export const CONTRIB_QUANTIZATION = {
  'com.microsoft.QuantizeLinear': sameAs(QUANTIZATION.QuantizeLinear),
  'com.microsoft.DequantizeLinear': sameAs(QUANTIZATION.DequantizeLinear),
  'com.microsoft.QLinearSigmoid': throughFloats(ACTIVATIONS.Sigmoid),
  'com.microsoft.QLinearLeakyRelu': throughFloats({
    ...ACTIVATIONS.LeakyRelu,
    attributes: { alpha: float(0.01) },
  }),
  'com.microsoft.QLinearSoftmax': throughFloats(NORMALIZATION.Softmax),
  'com.microsoft.QLinearAveragePool': throughFloats(POOLING.AveragePool),
  'com.microsoft.QLinearConcat': QLinearConcat,
  'com.microsoft.DynamicQuantizeMatMul': DynamicQuantizeMatMul,
  'com.microsoft.MatMulIntegerToFloat': MatMulIntegerToFloat,
  'com.microsoft.MatMulNBits': MatMulNBits,
};
