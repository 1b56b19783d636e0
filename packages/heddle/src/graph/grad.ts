/** Reverse-mode differentiation: a graph of gradients from a graph of values. One rule per primitive. */
import { InternalError } from '../core/errors.js';
import { topological } from '../core/node.js';
import type { ScalarOp } from '../kernel/ir/ops.js';
import * as b from './build.js';
import { callOf, type FusedOp } from './fused-op.js';
import { argOf, type GraphNode, type GraphOp } from './node.js';
import { asPartOf } from './origin.js';
import { replaced, rewritten, withSources } from './rewrites.js';

type GradientRule = (node: GraphNode, g: GraphNode) => readonly (GraphNode | undefined)[];
type ScalarRule = (g: GraphNode, y: GraphNode, ...src: GraphNode[]) => readonly (GraphNode | undefined)[];

const none: ScalarRule = () => [];
const zero = (x: GraphNode): GraphNode => b.like(x, 0);
/** g where `condition`, 0 elsewhere. */
const masked = (condition: GraphNode, g: GraphNode): GraphNode => b.where(condition, g, zero(g));

const gaussian = (square: GraphNode): GraphNode => b.map('exp', b.neg(square));

/** To the value that was taken; where two tie, half to each, and with a NaN all to both: as in PyTorch. */
const choose =
  (isLost: 'lt' | 'gt'): ScalarRule =>
  (g, _y, x, z) => {
    const shared = b.where(b.map('eq', x!, z!), b.mul(g, b.like(g, 0.5)), g);
    return [b.where(b.map(isLost, x!, z!), zero(g), shared), b.where(b.map(isLost, z!, x!), zero(g), shared)];
  };

const SCALAR_RULES = {
  add: (g) => [g, g],
  sub: (g) => [g, b.neg(g)],
  mul: (g, _y, x, z) => [b.mul(g, z!), b.mul(g, x!)],
  div: (g, y, _x, z) => [b.div(g, z!), b.neg(b.div(b.mul(g, y), z!))],
  idiv: none,
  mod: (g, _y, x, z) => [g, b.neg(b.mul(g, b.map('trunc', b.div(x!, z!))))],
  neg: (g) => [b.neg(g)],
  abs: (g, _y, x) => [
    b.mul(
      g,
      b.where(
        b.map('gt', x!, zero(x!)),
        b.like(x!, 1),
        // Left are 0 and NaN, and no slope of the slope.
        b.where(b.map('lt', x!, zero(x!)), b.like(x!, -1), b.detach(x!)),
      ),
    ),
  ],
  min: choose('gt'),
  max: choose('lt'),
  fma: (g, _y, x, z) => [b.mul(g, z!), b.mul(g, x!), g],
  sqrt: (g, y) => [b.div(b.mul(g, b.like(g, 0.5)), y)],
  exp: (g, y) => [b.mul(g, y)],
  // Not y + 1, which has lost the digits of e^x where that is small.
  expm1: (g, _y, x) => [b.mul(g, b.map('exp', x!))],
  log: (g, _y, x) => [b.div(g, x!)],
  log1p: (g, _y, x) => [b.div(g, b.add(x!, b.like(x!, 1)))],
  exp2: (g, y) => [b.mul(g, b.mul(y, b.like(y, Math.LN2)))],
  exp2Normal: (g, y) => [b.mul(g, b.mul(y, b.like(y, Math.LN2)))],
  log2: (g, _y, x) => [b.div(g, b.mul(x!, b.like(x!, Math.LN2)))],
  sin: (g, _y, x) => [b.mul(g, b.map('cos', x!))],
  cos: (g, _y, x) => [b.neg(b.mul(g, b.map('sin', x!)))],
  tanh: (g, y) => [b.mul(g, b.sub(b.like(y, 1), b.mul(y, y)))],
  erf: (g, _y, x) => [b.mul(g, b.mul(gaussian(b.mul(x!, x!)), b.like(x!, 2 / Math.sqrt(Math.PI))))],
  normcdf: (g, _y, x) => [
    b.mul(g, b.mul(gaussian(b.mul(b.mul(x!, x!), b.like(x!, 0.5))), b.like(x!, 1 / Math.sqrt(2 * Math.PI)))),
  ],
  exp16: (g, y) => [b.mul(g, y)],
  normpdf16: (g, y, x) => [b.neg(b.mul(g, b.mul(x!, y)))],
  normcdf16: (g, _y, x) => [b.mul(g, b.map('normpdf16', x!))],
  pow: (g, y, x, z) => {
    // d/dx x^z = z · x^(z−1), 0 where z is 0, also of x = 0
    const known = b.knownValue(z!);
    const less = known === undefined ? b.sub(z!, b.like(z!, 1)) : b.like(z!, (known as number) - 1);
    const slope = b.mul(z!, b.map('pow', x!, less));
    const isZero = (of: GraphNode): GraphNode => b.map('eq', of, zero(of));
    const toBase =
      known === undefined ? b.where(isZero(z!), zero(x!), slope) : known === 0 ? zero(x!) : slope;
    if (!z!.requiresGrad) return [b.mul(g, toBase)];
    // d/dz x^z = x^z · ln x, 0 where x is 0 and z is not negative
    const flat = b.map('and', isZero(x!), b.map('ge', z!, zero(z!)));
    return [b.mul(g, toBase), b.mul(g, b.where(flat, zero(x!), b.mul(y, b.map('log', x!))))];
  },
  atan2: (g, _y, y, x) => {
    const perSquare = b.div(g, b.add(b.mul(x!, x!), b.mul(y!, y!)));
    return [b.mul(perSquare, x!), b.neg(b.mul(perSquare, y!))];
  },
  floor: none,
  ceil: none,
  trunc: none,
  rint: none,
  tf32: (g) => [g],
  lt: none,
  le: none,
  gt: none,
  ge: none,
  eq: none,
  ne: none,
  and: none,
  or: none,
  xor: none,
  not: none,
  shl: none,
  shr: none,
  mulhi: none,
  dp4a: none,
  dp4aPositive: none,
} as const satisfies Record<ScalarOp, ScalarRule>;

/** The derivative of a scalar function of one source, of which `y` is the value. */
export function derivative(y: GraphNode): GraphNode {
  const [slope] = RULES.map(y, b.like(y, 1));
  if (!slope) throw new InternalError(`${argOf(y, 'map').op} has no derivative`);
  return slope;
}

const RULES = {
  leaf: () => [],
  full: () => [],
  iota: () => [],
  random: () => [],
  detach: () => [],
  map: (node, g) => {
    const { op } = argOf(node, 'map');
    if (op === 'cast') return [b.cast(g, node.src[0]!.dtype)];
    if (op === 'bitcast') return [];
    if (op === 'select') return [undefined, masked(node.src[0]!, g), b.where(node.src[0]!, zero(g), g)];
    const rule: ScalarRule = SCALAR_RULES[op];
    return rule(g, node, ...node.src);
  },
  reduce: (node, g) => {
    const x = node.src[0]!;
    const { op, axes } = argOf(node, 'reduce');
    if (op === 'sum') return [b.expand(g, x.shape)];
    if (op === 'prod') return [b.mul(b.expand(g, x.shape), b.call(slopeOfProduct, [x], axes))];
    // To the extreme values, evenly where several tie (as PyTorch's amax does).
    const hit = b.cast(b.map('eq', x, b.expand(node, x.shape)), x.dtype);
    return [b.mul(hit, b.expand(b.div(g, b.sum(hit, axes)), x.shape))];
  },
  reshape: (node, g) => [b.reshape(g, node.src[0]!.shape)],
  permute: (node, g) => {
    const { axes } = argOf(node, 'permute');
    return [
      b.permute(
        g,
        axes.map((_, i) => axes.indexOf(i)),
      ),
    ];
  },
  expand: (node, g) => [b.sumTo(g, node.src[0]!.shape)],
  pad: (node, g) => [b.slice(g, argOf(node, 'pad').before, node.src[0]!.shape)],
  slice: (node, g) => [sliceGradient(node, g)],
  window: (node, g) => [b.fold(g, node.src[0]!.shape.slice(-2) as [number, number], argOf(node, 'window'))],
  fold: (node, g) => [b.window(g, argOf(node, 'fold'))],
  gather: (node, g) => {
    const { axis } = argOf(node, 'gather');
    return [b.scatterAdd(g, node.src[1]!, axis, node.src[0]!.shape[axis]!)];
  },
  scatterAdd: (node, g) => [b.gather(g, node.src[1]!, argOf(node, 'scatterAdd').axis)],
  call: (node, g) => {
    const { op, arg } = callOf(node);
    if (op.grad) return op.grad(node, g, arg);
    return gradientsOf((src) => op.compose(src, arg), node.src, g);
  },
} as const satisfies Record<GraphOp, GradientRule>;

/** Whether constructors of nodes look at what it was made of instead. */
const isSeenThrough = (node: GraphNode): boolean =>
  node.op === 'permute' ||
  node.op === 'reshape' ||
  (node.op === 'map' && !node.isLeaf && argOf(node, 'map').op === 'cast');

/**
 * The gradients of what is composed of sources, by its gradient `g`. Leaves stand for views and casts meanwhile: nodes would be made
 * of what these were made of, where that is simpler, and a gradient with respect to the source would miss them.
 */
function gradientsOf(
  compose: (src: readonly GraphNode[]) => GraphNode,
  sources: readonly GraphNode[],
  g: GraphNode,
): readonly (GraphNode | undefined)[] {
  const stands = sources.map((s) =>
    s.requiresGrad && isSeenThrough(s) ? b.leaf(s.shape, s.dtype, true) : s,
  );
  const gradients = vjp([b.withGradients(() => compose(stands))], [g], stands);
  if (stands.every((stand, i) => stand === sources[i])) return gradients;
  const places = new Map([[g, g] as const, ...stands.map((stand, i) => [stand, sources[i]!] as const)]);
  const found = gradients.filter((node) => node !== undefined);
  const made = replaced(found, places, remade);
  return gradients.map((node) => node && made[found.indexOf(node)]!);
}

/** The same of other sources. What constructors see through is made by them. */
function remade(node: GraphNode, src: readonly GraphNode[]): GraphNode {
  const [x] = src as [GraphNode];
  if (node.op === 'permute') return b.permute(x, argOf(node, 'permute').axes);
  if (node.op === 'reshape') return b.reshape(x, node.shape);
  if (node.op === 'map' && argOf(node, 'map').op === 'cast') return b.cast(x, node.dtype);
  return withSources(node, src);
}

/** At every element, the product of the others along `axes`: without dividing by an element that is 0. */
function productOfOthers(x: GraphNode, axes: readonly number[]): GraphNode {
  const isZero = b.map('eq', x, zero(x));
  const factors = b.where(isZero, b.like(x, 1), x);
  const product = b.expand(b.reduce('prod', factors, axes), x.shape);
  const zeros = b.expand(b.sum(b.cast(isZero, x.dtype), axes), x.shape);
  const others = b.sub(zeros, b.cast(isZero, x.dtype));
  return b.where(b.map('eq', others, zero(x)), b.div(product, factors), zero(x));
}

/** The same as one product for each element, of n factors of which its own is 1. */
function productsOfOthers(x: GraphNode, axes: readonly number[]): GraphNode {
  const kept = x.shape.map((_, i) => i).filter((i) => !axes.includes(i));
  const order = [...kept, ...axes];
  const moved = b.permute(x, order);
  const lead = kept.map((i) => x.shape[i]!);
  const n = axes.reduce((size, i) => size * x.shape[i]!, 1);
  const square = [...lead, n, n];
  const factors = b.expand(b.reshape(moved, [...lead, 1, n]), square);
  const isOwn = b.map('eq', b.iota(square, lead.length), b.iota(square, lead.length + 1));
  const products = b.reduce('prod', b.where(isOwn, b.like(factors, 1), factors), [lead.length + 1]);
  return b.permute(
    b.reshape(products, moved.shape),
    order.map((_, i) => order.indexOf(i)),
  );
}

/**
 * The slope of a product. It is computed by a division, whose derivative would be wrong where an element is 0: its own
 * derivative is that of a product for each element.
 */
const slopeOfProduct: FusedOp<readonly number[]> = {
  name: 'productOfOthers',
  infer: ([x]) => x!,
  compose: ([x], axes) => productOfOthers(x!, axes),
  grad: ({ src }, g, axes) => gradientsOf(([x]) => productsOfOthers(x!, axes), src, g),
  kernels: [],
};

/** A slice's gradient: flipped back where it walked backwards, spread out by its steps, padded with zeros. */
function sliceGradient(node: GraphNode, g: GraphNode): GraphNode {
  const x = node.src[0]!;
  const { start, step, size } = argOf(node, 'slice');
  let out = b.slice(
    g,
    size.map((n, i) => (step[i]! < 0 ? Math.max(0, n - 1) : 0)),
    size,
    step.map((s) => (s < 0 ? -1 : 1)),
  );
  const first = start.map((s, i) => (step[i]! < 0 ? s + step[i]! * (size[i]! - 1) : s));
  step.forEach((by, axis) => {
    const gap = Math.abs(by);
    const n = size[axis]!;
    if (gap === 1 || n < 2) return;
    // (…, n, …) → (…, n, gap, …) with zeros after each, → (…, n·gap, …), and the surplus cut off
    const shape = out.shape;
    const wide = [...shape.slice(0, axis + 1), 1, ...shape.slice(axis + 1)];
    const after = wide.map((_, i) => (i === axis + 1 ? gap - 1 : 0));
    const spread = b.pad(
      b.reshape(out, wide),
      wide.map(() => 0),
      after,
    );
    const merged = b.reshape(
      spread,
      shape.map((d, i) => (i === axis ? n * gap : d)),
    );
    out = b.slice(
      merged,
      shape.map(() => 0),
      shape.map((d, i) => (i === axis ? (n - 1) * gap + 1 : d)),
    );
  });
  return b.pad(
    out,
    first,
    x.shape.map((d, i) => d - first[i]! - out.shape[i]!),
  );
}

/**
 * Vector-Jacobian products: given the gradients of `outputs`, those of `wrt` (undefined for nodes the outputs do not
 * depend on). Differentiation stops at `wrt`.
 */
export function vjp(
  outputs: readonly GraphNode[],
  cotangents: readonly GraphNode[],
  wrt: readonly GraphNode[],
): (GraphNode | undefined)[] {
  const targets = new Set(wrt);
  const results = b.withGradients(() => rewritten(outputs, targets));
  const order = topological(results);
  // Only nodes between the outputs and `wrt` matter.
  const needed = new Set<GraphNode>(wrt);
  for (const node of order) {
    if (!targets.has(node) && node.requiresGrad && node.src.some((s) => needed.has(s))) needed.add(node);
  }
  const gradient = new Map<GraphNode, GraphNode>();
  const accumulate = (node: GraphNode, g: GraphNode): void => {
    const known = gradient.get(node);
    gradient.set(node, known ? b.add(known, g) : g);
  };
  results.forEach((y, i) => {
    accumulate(y, cotangents[i]!);
  });
  for (const node of order.reverse()) {
    const g = gradient.get(node);
    if (!g || targets.has(node) || !needed.has(node)) continue;
    const origin = node.origin && `∂ ${node.origin}`;
    asPartOf(origin, () => RULES[node.op](node, g)).forEach((source, i) => {
      const to = node.src[i]!;
      if (!source || !needed.has(to)) return;
      if (source.shape.length !== to.shape.length || source.shape.some((d, k) => d !== to.shape[k])) {
        throw new InternalError(
          `the gradient of ${node.op} has shape (${source.shape}) for a source of (${to.shape})`,
        );
      }
      accumulate(to, source);
    });
  }
  return wrt.map((node) => gradient.get(node));
}

/** The leaves with `requiresGrad` that gradients of `node` reach. */
export const parametersOf = (node: GraphNode): GraphNode[] =>
  topological([node], (n) => (n.op === 'detach' ? [] : n.src.filter((s) => s.requiresGrad))).filter(
    isParameter,
  );

/** Whether gradients of `node` reach anything that requires one but `variables`. */
export const reachesOthers = (node: GraphNode, variables: ReadonlySet<GraphNode>): boolean =>
  topological([node], (n) => (variables.has(n) ? [] : n.src.filter((s) => s.requiresGrad))).some(
    (n) => n.requiresGrad && !variables.has(n) && (isParameter(n) || !n.src.some((s) => s.requiresGrad)),
  );

/** Whether gradients start here: it requires one, and is not computed from others that do. */
export const isParameter = (node: GraphNode): boolean =>
  node.requiresGrad && (node.src.length === 0 || node.op === 'detach');
