/**
 * Elementwise functions with a derivative of their own: by the composition's rules it would overflow, cancel or keep
 * more values for the backward pass than it needs. They have no kernels; the composition is fused with what is around it.
 */
import * as b from '../../graph/build.js';
import type { FusedOp } from '../../graph/fused-op.js';
import { derivative } from '../../graph/grad.js';
import type { GraphNode } from '../../graph/node.js';

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
  kernels: [],
};
export const clamp = (x: GraphNode, low: number, high: number): GraphNode =>
  b.call(clampOp, [x], { low, high });

/** 1 / (1 + e^−x), of negative x as e^x / (1 + e^x): neither overflows. */
const sigmoidOp = elementwise(
  'sigmoid',
  (x) => {
    const small = b.map('exp', b.neg(b.map('abs', x)));
    return b.div(b.where(b.map('lt', x, b.like(x, 0)), small, one(x)), b.add(small, one(x)));
  },
  (_x, y, g) => b.mul(g, b.mul(y, b.sub(one(y), y))),
);
export const sigmoid = (x: GraphNode): GraphNode => apply(sigmoidOp, x);

/** The root of e^−|x|, or 1 for x that are not negative, and 1 / (1 + e^−|x|). */
const siluFactors = (x: GraphNode): [over: GraphNode, share: GraphNode] => {
  const root = b.map('exp', b.mul(b.map('abs', x), b.like(x, -0.5)));
  const over = b.where(b.map('lt', x, b.like(x, 0)), root, one(x));
  return [over, b.div(one(x), b.add(one(x), b.mul(root, root)))];
};

/** x / (1 + e^−x), of negative x as x·e^(x/2)·e^(x/2) / (1 + e^x): no factor ends before the product does. */
const siluOp = elementwise(
  'silu',
  (x) => {
    const [over, share] = siluFactors(x);
    return b.mul(b.mul(b.mul(x, over), over), share);
  },
  (x, y, g) => {
    const [over, share] = siluFactors(x);
    const s = b.mul(b.mul(over, over), share);
    return b.mul(g, b.add(s, b.mul(y, b.sub(one(x), s))));
  },
);
export const silu = (x: GraphNode): GraphNode => apply(siluOp, x);

/**
 * x · Φ(x). The derivative is Φ(x) + x·φ(x), φ the normal distribution's density: it is computed of x, which takes less than to
 * keep Φ(x).
 */
const geluOp = elementwise(
  'gelu',
  (x) => b.mul(x, b.map('normcdf', x)),
  (x, _y, g) => {
    const share = b.map('normcdf', x);
    return b.mul(g, b.map('fma', x, derivative(share), share));
  },
);
export const gelu = (x: GraphNode): GraphNode => apply(geluOp, x);

/** log x, not below −100, so that a probability of 0 costs much and not everything. */
const boundedLog = (x: GraphNode): GraphNode => b.map('max', b.map('log', x), b.like(x, -100));

/**
 * −(t log p + (1 − t) log(1 − p)) of probabilities p and targets t. The derivative in p is (p − t) / (p(1 − p)), of which
 * the denominator is not below 1e-12, as in PyTorch: by the composition's rules it would be 0/0 where p is 0 or 1.
 */
const binaryCrossEntropyOp: FusedOp<null> = {
  name: 'binaryCrossEntropy',
  infer: ([p]) => p!,
  compose: (src) =>
    b.widened(
      (p, t) =>
        b.neg(b.add(b.mul(t!, boundedLog(p!)), b.mul(b.sub(one(t!), t!), boundedLog(b.sub(one(p!), p!))))),
      ...(src as [GraphNode, GraphNode]),
    ),
  grad: ({ src: [p, t] }, g) => [
    b.widened(
      (p, t, g) => {
        const spread = b.mul(p!, b.sub(one(p!), p!));
        return b.div(b.mul(g!, b.sub(p!, t!)), b.map('max', spread, b.like(p!, 1e-12)));
      },
      ...[p!, t!, g],
    ),
    b.widened((p, g) => b.mul(g!, b.sub(boundedLog(b.sub(one(p!), p!)), boundedLog(p!))), p!, g),
  ],
  kernels: [],
};
export const binaryCrossEntropy = (p: GraphNode, t: GraphNode): GraphNode =>
  b.call(binaryCrossEntropyOp, [p, t], null);

/** log(1 + e^−|x|), what softplus is more than max(x, 0). */
const logOfOneAnd = (x: GraphNode): GraphNode => b.map('log1p', b.map('exp', b.neg(b.map('abs', x))));

/** log(1 + e^x) = max(x, 0) + log(1 + e^−|x|). */
const softplusOp = elementwise(
  'softplus',
  (x) => b.add(b.map('max', x, b.like(x, 0)), logOfOneAnd(x)),
  (x, _y, g) => b.mul(g, sigmoid(x)),
);
export const softplus = (x: GraphNode): GraphNode => apply(softplusOp, x);

/**
 * log(1 + e^x) − t·x of logits x and targets t: (1 − t)·x or, for x < 0, −t·x, and log(1 + e^−|x|). No large terms
 * cancel, and infinite logits cost infinitely much where they are wrong.
 */
const binaryCrossEntropyOfLogitsOp: FusedOp<null> = {
  name: 'binaryCrossEntropyOfLogits',
  infer: ([x]) => x!,
  compose: (src) =>
    b.widened(
      (x, t) => {
        const share = b.where(b.map('lt', x!, b.like(x!, 0)), b.neg(t!), b.sub(one(t!), t!));
        return b.add(b.mul(share, x!), logOfOneAnd(x!));
      },
      ...(src as [GraphNode, GraphNode]),
    ),
  grad: ({ src: [x, t] }, g) => [
    b.widened((x, t, g) => b.mul(g!, b.sub(sigmoid(x!), t!)), x!, t!, g),
    b.widened((x, g) => b.neg(b.mul(g!, x!)), x!, g),
  ],
  kernels: [],
};
export const binaryCrossEntropyOfLogits = (x: GraphNode, t: GraphNode): GraphNode =>
  b.call(binaryCrossEntropyOfLogitsOp, [x, t], null);
