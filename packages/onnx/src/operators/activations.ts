/** Activations, and what limits and rounds elements by attributes. */
import { type AnyTensor, gelu, mish, type Tensor } from 'heddle';
import { ELEMENT_TYPES } from '../file/element-types.js';
import { cells } from '../values/host-ops.js';
import { Value } from '../values/value.js';
import { type Attributes, type AttributeValues, float, int, text } from './attributes.js';
import { elementwise } from './elementwise.js';
import { type Operator, operator } from './operator.js';

/** A function of each element, with numbers as attributes. */
const activation = <A extends Attributes>(
  since: readonly number[],
  attributes: A,
  f: (x: Tensor, attributes: AttributeValues<A>) => AnyTensor,
): Operator =>
  operator({
    since,
    inputs: [1],
    attributes,
    compute: (call) => Value.of(f(call.tensor(0) as Tensor, call.attributes)),
  });

const softplus = (x: AnyTensor): AnyTensor => x.maximum(0).add(x.abs().neg().exp().log1p());

const Relu = operator({
  since: [6, 13, 14],
  inputs: [1],
  compute: (call) => {
    const x = call.value(0);
    const f = {
      tensor: (t: AnyTensor | undefined) => (t!.dtype.kind === 'float' ? t!.relu() : t!.maximum(0)),
      number: (v: number | undefined) => Math.max(0, v!),
    };
    return elementwise(call, [x], f as Parameters<typeof elementwise>[2], x.type);
  },
});

const Clip = operator({
  since: [6, 11, 12, 13],
  inputs: [1, 3],
  attributes: {
    min: float(Number.NEGATIVE_INFINITY, { until: 10 }),
    max: float(Number.POSITIVE_INFINITY, { until: 10 }),
  },
  compute: (call) => {
    const x = call.value(0);
    const [low, high] = [call.optional(1), call.optional(2)];
    if (call.version < 11) return Value.of(x.tensor.clamp(call.attributes.min, call.attributes.max));
    const [least, most] = [low, high].map((bound) => bound?.host && Number(cells(bound.host.values)[0]));
    const known = (!low || least !== undefined) && (!high || most !== undefined);
    if (known && x.type.kind === 'float') {
      // Where the bounds cross, the upper one holds.
      const bounded = least !== undefined && most !== undefined && least > most ? most : least;
      return Value.of(x.tensor.clamp(bounded, most));
    }
    const larger = {
      tensor: (a: AnyTensor, b: AnyTensor) => a.maximum(b),
      number: Math.max,
      bigint: (a: bigint, b: bigint) => (a > b ? a : b),
    };
    const smaller = {
      tensor: (a: AnyTensor, b: AnyTensor) => a.minimum(b),
      number: Math.min,
      bigint: (a: bigint, b: bigint) => (a < b ? a : b),
    };
    type F = Parameters<typeof elementwise>[2];
    const above = low ? elementwise(call, [x, low], larger as unknown as F, x.type) : x;
    return high ? elementwise(call, [above, high], smaller as unknown as F, x.type) : above;
  },
});

const PRelu = operator({
  since: [7, 9, 16],
  inputs: [2],
  compute: (call) => {
    const [x, slope] = call.values() as [Value, Value];
    // 1 where x is negative: the slope is broadcast to x.
    return Value.wrapped(x.tensor.lt(0).where(x.tensor.mul(slope.tensor), x.tensor), x.type);
  },
});

const IsInf = operator({
  since: [10, 20],
  inputs: [1],
  attributes: { detect_negative: int(1), detect_positive: int(1) },
  compute: (call) => {
    const x = call.tensor(0);
    const { detect_negative: below, detect_positive: above } = call.attributes;
    const found = x.isInf();
    if (below && above) return Value.of(found);
    if (!below && !above) return Value.of(found.and(found.not()));
    return Value.of(found.and(above ? x.gt(0) : x.lt(0)));
  },
});

const IsNaN = operator({
  since: [9, 13, 20],
  inputs: [1],
  compute: (call) => Value.of(call.tensor(0).isNaN()),
});

/** A product with a factor per element that is drawn: inference passes everything. */
const Dropout = operator({
  since: [7, 10, 12, 13, 22],
  inputs: [1, 3],
  known: [1, 2],
  attributes: { ratio: float(0.5, { until: 11 }), seed: int(undefined, { from: 12 }) },
  compute: (call) => {
    const x = call.value(0);
    if (call.number(2) && (call.number(1) ?? 0.5) > 0)
      throw call.typeError('training_mode is not supported: make the dropout part of your own module.');
    if (!call.outputs[1]) return x;
    const mask = Value.of(x.tensor.eq(x.tensor).or(x.tensor.ne(x.tensor)));
    return [x, mask.type === ELEMENT_TYPES.bool && call.version < 10 ? mask.cast(x.type) : mask];
  },
});

export const ACTIVATIONS = {
  ...{ Relu, Clip, PRelu, IsInf, IsNaN, Dropout },
  Sigmoid: activation([6, 13], {}, (x) => x.sigmoid()),
  Softplus: activation([1, 22], {}, softplus),
  Softsign: activation([1, 22], {}, (x) => x.div(x.abs().add(1))),
  LeakyRelu: activation([6, 16], { alpha: float(0.01) }, (x, { alpha }) => x.lt(0).where(x.mul(alpha), x)),
  Elu: activation([6, 22], { alpha: float(1) }, (x, { alpha }) =>
    x.lt(0).where(x.minimum(0).expm1().mul(alpha), x),
  ),
  Celu: activation([12, 28], { alpha: float(1) }, (x, { alpha }) =>
    x.maximum(0).add(x.div(alpha).minimum(0).expm1().mul(alpha)),
  ),
  Selu: activation(
    [6, 22],
    { alpha: float(1.6732631921768188), gamma: float(1.0507010221481323) },
    (x, { alpha, gamma }) => x.gt(0).where(x, x.minimum(0).expm1().mul(alpha)).mul(gamma),
  ),
  HardSigmoid: activation([6, 22], { alpha: float(0.2), beta: float(0.5) }, (x, { alpha, beta }) =>
    x.mul(alpha).add(beta).clamp(0, 1),
  ),
  HardSwish: activation([14, 22], {}, (x) =>
    x.mul(
      x
        .mul(1 / 6)
        .add(0.5)
        .clamp(0, 1),
    ),
  ),
  Mish: activation([18, 22], {}, (x) => mish(x)),
  Gelu: activation([20], { approximate: text('none') }, (x, { approximate }) =>
    gelu(x, { approximate: approximate === 'tanh' ? 'tanh' : 'none' }),
  ),
  Swish: activation([24], { alpha: float(1) }, (x, { alpha }) => x.mul(x.mul(alpha).sigmoid())),
  ThresholdedRelu: activation(
    [10, 22],
    { alpha: float(1) },
    (x, { alpha }) => x.gt(alpha).where(x, 0) as AnyTensor,
  ),
  Shrink: activation([9], { bias: float(0), lambd: float(0.5) }, (x, { bias, lambd }) =>
    x.lt(-lambd).where(x.add(bias), x.gt(lambd).where(x.sub(bias), x.mul(0))),
  ),
};
