/**
 * Elementwise functions with a derivative of their own: by the composition's rules it would overflow, cancel or keep
 * more values for the backward pass than it needs. They have no kernels; the composition is fused with what is around it.
 */
import * as b from '../graph/build.js';
import type { FusedOp } from '../graph/fused-op.js';
import type { GraphNode } from '../graph/node.js';

type Derivative = (x: GraphNode, y: GraphNode, g: GraphNode) => GraphNode;

const elementwise = (
  name: string,
  compose: (x: GraphNode) => GraphNode,
  grad: Derivative,
): FusedOp<null> => ({
  name,
  infer: ([x]) => x!,
  compose: ([x]) => b.widened(compose, x!),
  grad: (node, g) => [b.widened(grad, node.src[0]!, node, g)],
  kernels: [],
});

const apply = (op: FusedOp<null>, x: GraphNode): GraphNode => b.call(op, [x], null);
const one = (x: GraphNode): GraphNode => b.like(x, 1);

/** max(0, x). The derivative reads the result, so x need not be kept; it is 0 at 0 and 1 at NaN, as in PyTorch. */
const reluOp: FusedOp<null> = {
  ...elementwise(
    'relu',
    (x) => b.map('max', x, b.like(x, 0)),
    (_x, y, g) => b.where(b.map('le', y, b.like(y, 0)), b.like(g, 0), g),
  ),
  monotone: true,
};
export const relu = (x: GraphNode): GraphNode => apply(reluOp, x);

interface Bounds {
  readonly low: number;
  readonly high: number;
}

/** x limited to [low, high]; the derivative is 1 within, the bounds included, else 0, also at NaN: as in PyTorch. */
const clampOp: FusedOp<Bounds> = {
  name: 'clamp',
  infer: ([x]) => x!,
  compose: ([x], { low, high }) => b.map('min', b.map('max', x!, b.like(x!, low)), b.like(x!, high)),
  grad: ({ src: [x] }, g, { low, high }) => {
    const isWithin = b.map('and', b.map('ge', x!, b.like(x!, low)), b.map('le', x!, b.like(x!, high)));
    return [b.where(isWithin, g, b.like(g, 0))];
  },
  monotone: true,
  kernels: [],
};
export const clamp = (x: GraphNode, low: number, high: number): GraphNode =>
  b.call(clampOp, [x], { low, high });

/** 1 / (1 + e^−x): e^−x may overflow to infinity, the quotient is then 0. */
const sigmoidOp = elementwise(
  'sigmoid',
  (x) => b.div(one(x), b.add(one(x), b.map('exp', b.neg(x)))),
  (_x, y, g) => b.mul(g, b.mul(y, b.sub(one(y), y))),
);
export const sigmoid = (x: GraphNode): GraphNode => apply(sigmoidOp, x);

/** log x, not below −100, so that a probability of 0 costs much and not everything. */
const boundedLog = (x: GraphNode): GraphNode => b.map('max', b.map('log', x), b.like(x, -100));

/**
 * −(t log p + (1 − t) log(1 − p)) of probabilities p and targets t. The derivative in p is (p − t) / (p(1 − p)), of which
 * the denominator is not below 1e-12, as in PyTorch: by the composition's rules it would be 0/0 where p is 0 or 1.
 */
const binaryCrossEntropyOp: FusedOp<null> = {
  name: 'binaryCrossEntropy',
  infer: ([p]) => p!,
  compose: ([p, t]) =>
    b.neg(b.add(b.mul(t!, boundedLog(p!)), b.mul(b.sub(one(t!), t!), boundedLog(b.sub(one(p!), p!))))),
  grad: ({ src: [p, t] }, g) => {
    const spread = b.mul(p!, b.sub(one(p!), p!));
    return [
      b.div(b.mul(g, b.sub(p!, t!)), b.map('max', spread, b.like(p!, 1e-12))),
      b.mul(g, b.sub(boundedLog(b.sub(one(p!), p!)), boundedLog(p!))),
    ];
  },
  kernels: [],
};
export const binaryCrossEntropy = (p: GraphNode, t: GraphNode): GraphNode =>
  b.call(binaryCrossEntropyOp, [p, t], null);

/**
 * log(1 + x) for x ≥ 0 with full relative precision: what rounding 1 + x loses is made up for by the same loss in
 * the quotient (Goldberg, "What every computer scientist should know about floating-point arithmetic", theorem 4).
 */
function log1p(x: GraphNode): GraphNode {
  const u = b.add(one(x), x);
  const exact = b.map('eq', u, one(u));
  const less = b.where(exact, one(u), b.sub(u, one(u)));
  return b.where(exact, x, b.div(b.mul(x, b.map('log', u)), less));
}

/** log(1 + e^x) = max(x, 0) + log(1 + e^−|x|). */
const softplusOp = elementwise(
  'softplus',
  (x) => b.add(b.map('max', x, b.like(x, 0)), log1p(b.map('exp', b.neg(b.map('abs', x))))),
  (x, _y, g) => b.mul(g, sigmoid(x)),
);
export const softplus = (x: GraphNode): GraphNode => apply(softplusOp, x);

/** Abramowitz and Stegun, "Handbook of mathematical functions", 7.1.26: absolute error ≤ 1.5e-7. */
const ERF_P = 0.3275911;
const ERF_A = [0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429] as const;

function erfOf(x: GraphNode): GraphNode {
  const size = b.map('abs', x);
  const t = b.div(one(x), b.add(one(x), b.mul(size, b.like(x, ERF_P))));
  const polynomial = ERF_A.reduceRight<GraphNode>(
    (sum, a) => b.mul(t, b.add(sum, b.like(x, a))),
    b.like(x, 0),
  );
  const positive = b.sub(one(x), b.mul(polynomial, b.map('exp', b.neg(b.mul(x, x)))));
  return b.where(b.map('lt', x, b.like(x, 0)), b.neg(positive), positive);
}

/** The error function 2/√π ∫₀ˣ e^−t² dt, to 1.5e-7. */
const erfOp = elementwise('erf', erfOf, (x, _y, g) =>
  b.mul(g, b.mul(b.map('exp', b.neg(b.mul(x, x))), b.like(x, 2 / Math.sqrt(Math.PI)))),
);
export const erf = (x: GraphNode): GraphNode => apply(erfOp, x);
