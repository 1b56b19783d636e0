/** Functions of numbers that are made of others, on nodes. 16-bit floats are computed in f32 and rounded once. */
import { f64, isFloat, requireFloats } from '../core/dtype.js';
import * as b from '../graph/build.js';
import type { GraphNode } from '../graph/node.js';

type Operation = (...src: GraphNode[]) => GraphNode;

const floats =
  (op: string, compute: Operation) =>
  (x: GraphNode, ...others: readonly GraphNode[]): GraphNode => {
    requireFloats(op, 'x', x);
    return b.widened(compute, x, ...others);
  };

const one = (x: GraphNode): GraphNode => b.like(x, 1);
const half = (x: GraphNode): GraphNode => b.mul(x, b.like(x, 0.5));

/** √(1 − x²) without the loss of digits near 1. */
const cosineOfSine = (x: GraphNode): GraphNode => b.map('sqrt', b.mul(b.sub(one(x), x), b.add(one(x), x)));

export const tan = floats('tan', (x) => b.div(b.map('sin', x!), b.map('cos', x!)));
export const atan = floats('atan', (x) => b.map('atan2', x!, one(x!)));
export const asin = floats('asin', (x) => b.map('atan2', x!, cosineOfSine(x!)));
export const acos = floats('acos', (x) => b.map('atan2', cosineOfSine(x!), x!));

/** From there on e^−x is nothing beside e^x, whose half may be finite where it is not. */
const FAR = 80;

/** `near` of x up to FAR, e^|x|/2 beyond, by halves of the exponent. */
function hyperbolic(x: GraphNode, near: Operation, sign: Operation): GraphNode {
  const size = b.map('abs', x);
  const isFar = b.map('gt', size, b.like(x, FAR));
  const root = b.map('exp', half(size));
  return b.where(isFar, b.mul(sign(half(root), x), root), near(b.where(isFar, b.like(x, 0), x)));
}

export const sinh = floats('sinh', (x) =>
  hyperbolic(
    x!,
    (x) => half(b.sub(b.map('expm1', x!), b.map('expm1', b.neg(x!)))),
    (size, x) => b.where(b.map('lt', x!, b.like(x!, 0)), b.neg(size!), size!),
  ),
);
export const cosh = floats('cosh', (x) =>
  hyperbolic(
    x!,
    (x) => half(b.add(b.map('exp', x!), b.map('exp', b.neg(x!)))),
    (size) => size!,
  ),
);

/** log(e^x + e^y) = max + log(1 + e^−|x − y|); of two infinities that are the same, that one. */
export const logaddexp = floats('logaddexp', (x, y) => {
  const isSame = b.map('eq', x!, y!);
  const gap = b.sub(b.where(isSame, b.like(x!, 0), x!), b.where(isSame, b.like(y!, 0), y!));
  const rest = b.map('log1p', b.map('exp', b.neg(b.map('abs', gap))));
  return b.add(b.map('max', x!, y!), rest);
});

/** The remainder with the sign of the divisor. */
export function remainder(x: GraphNode, y: GraphNode): GraphNode {
  const rest = b.map('mod', x, y);
  const isNegative = (v: GraphNode): GraphNode => b.map('lt', v, b.like(v, 0));
  const isOther = b.map('ne', isNegative(rest), isNegative(y));
  return b.where(b.map('and', isOther, b.map('ne', rest, b.like(rest, 0))), b.add(rest, y), rest);
}

export const frac = floats('frac', (x) => b.sub(x!, b.map('trunc', x!)));

const compared = (x: GraphNode, by: 'eq' | 'lt', ofIntegers: boolean): GraphNode =>
  isFloat(x.dtype)
    ? b.map(by, b.map('abs', x), b.like(x, Number.POSITIVE_INFINITY))
    : b.map('eq', b.like(x, 0), b.like(x, ofIntegers ? 0 : 1));

/** Whether elements are ±∞, or neither that nor NaN. Integers are finite. */
export const infinite = (x: GraphNode): GraphNode => compared(x, 'eq', false);
export const finite = (x: GraphNode): GraphNode => compared(x, 'lt', true);

/** |x − y| ≤ atol + rtol · |y|, or equal; of NaN if `equalNan`. */
export function close(
  x: GraphNode,
  y: GraphNode,
  { rtol, atol, equalNan }: { readonly rtol: number; readonly atol: number; readonly equalNan: boolean },
): GraphNode {
  const [p, q] = [x, y].map((v) => (isFloat(v.dtype) ? b.wide(v) : b.cast(v, f64))) as [GraphNode, GraphNode];
  const size = (v: GraphNode): GraphNode => b.map('abs', v);
  const bound = b.add(b.mul(size(q), b.like(q, rtol)), b.like(q, atol));
  const isNear = b.map('and', finite(q), b.map('le', size(b.sub(p, q)), bound));
  const isClose = b.map('or', isNear, b.map('eq', p, q));
  return equalNan ? b.map('or', isClose, b.map('and', b.map('ne', p, p), b.map('ne', q, q))) : isClose;
}
