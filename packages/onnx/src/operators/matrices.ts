/** Matrix products. */
import { type AnyTensor, type DType, einsum, f64, i32, i64, type Tensor } from 'heddle';
import { formatShape } from 'heddle/internal/core/shape.js';
import { requireParts } from '../values/limits.js';
import { Value } from '../values/value.js';
import { float, int, required, text } from './attributes.js';
import { type Call, operator } from './operator.js';

/** A product of integers is exact in f64: its sums stay below 2⁵³. */
const ofIntegers = (x: AnyTensor, product: (x: AnyTensor) => AnyTensor): AnyTensor =>
  product(x.cast(f64)).cast(i64);

/** Batches of matrices, of floats or integers. */
export function multiply(x: AnyTensor, y: AnyTensor): AnyTensor {
  if (x.dtype.kind === 'float') return (x as Tensor).matmul(y as Tensor);
  return ofIntegers(x, (wide) => (wide as Tensor).matmul(y.cast(f64) as Tensor));
}

const MatMul = operator({
  since: [1, 9, 13],
  inputs: [2],
  compute: (call) => {
    const [x, y] = call.values() as [Value, Value];
    if (x.type !== y.type)
      throw call.typeError(`inputs are ${x.type.name} and ${y.type.name}, must be of one type.`);
    const product = multiply(x.tensor, y.tensor);
    return Value.wrapped(x.type.kind === 'float' ? product : product.cast(x.type.dtype!), x.type);
  },
});

const transposed = (call: Call, i: number, on: number): AnyTensor => {
  const x = call.value(i);
  if (x.rank !== 2) throw call.shapeError(`input ${i} is ${formatShape(x.shape)}, must be a matrix.`);
  return on ? x.tensor.transpose() : x.tensor;
};

/** alpha · A · B + beta · C */
const Gemm = operator({
  since: [7, 9, 11, 13],
  inputs: [2, 3],
  attributes: { alpha: float(1), beta: float(1), transA: int(0), transB: int(0) },
  compute: (call) => {
    const { alpha, beta, transA, transB } = call.attributes;
    const a = transposed(call, 0, transA);
    const b = transposed(call, 1, transB);
    const type = call.value(0).type;
    const product = multiply(a, b);
    const scaled = alpha === 1 ? product : product.mul(alpha);
    const c = call.optional(2)?.tensor;
    if (!c) return Value.wrapped(scaled.dtype === a.dtype ? scaled : scaled.cast(a.dtype), type);
    const wide = c.dtype === scaled.dtype ? c : c.cast(scaled.dtype);
    const sum = scaled.add(beta === 1 ? wide : wide.mul(beta));
    return Value.wrapped(sum.dtype === a.dtype ? sum : sum.cast(a.dtype), type);
  },
});

const Einsum = operator({
  since: [12, 28],
  inputs: [1, Number.POSITIVE_INFINITY],
  attributes: { equation: required(text(undefined)) },
  compute: (call) => {
    const tensors = call.values().map((x) => x.tensor as Tensor);
    return Value.of(einsum(call.attributes.equation.replaceAll(' ', ''), tensors));
  },
});

/** Determinants by elimination with pivots, a column at a time. */
const Det = operator({
  since: [11, 22],
  inputs: [1],
  compute: (call) => {
    const x = call.value(0);
    const n = x.shape.at(-1) ?? 0;
    if (x.rank < 2 || n !== x.shape.at(-2))
      throw call.shapeError(`${formatShape(x.shape)} are no square matrices.`);
    requireParts(n, 'columns');
    let rest = x.tensor as Tensor;
    let det: AnyTensor | undefined;
    for (let k = n; k > 0; k--) {
      // The row with the largest element of the first column goes first.
      const column = rest.at('...', ':', 0) as Tensor;
      const rows = column.abs().argsort(-1).flip(-1) as AnyTensor;
      const order = rows.unsqueeze(-1).expand(rest.shape as number[]);
      const swapped = rest.gather(rest.ndim - 2, order) as Tensor;
      const sign = parityOf(rows, x.tensor.dtype);
      const pivot = swapped.at('...', 0, 0);
      det = det ? det.mul(pivot).mul(sign) : pivot.mul(sign);
      const below = swapped.at('...', '1:', 0).div(pivot.eq(0).where(1, pivot).unsqueeze(-1)).unsqueeze(-1);
      rest = swapped.at('...', '1:', '1:').sub(below.mul(swapped.at('...', '0:1', '1:'))) as Tensor;
    }
    return Value.of(det!);
  },
});

/** 1 for an even permutation, −1 for an odd one: by its pairs that are out of order. */
function parityOf(rows: AnyTensor, dtype: DType): AnyTensor {
  const later = rows.unsqueeze(-2).lt(rows.unsqueeze(-1)).cast(i32).triu(1);
  return later.sum([-2, -1]).mod(2).mul(-2).add(1).cast(dtype);
}

export const MATRICES = { MatMul, Gemm, Einsum, Det };
