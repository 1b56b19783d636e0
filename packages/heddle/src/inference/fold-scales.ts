/**
 * Constant factors per channel, moved into the weights: (x ∗ w + b − m) · s + t = x ∗ (w · s) + ((b − m) · s + t). A batch norm
 * after a convolution or a linear layer is such a factor and such a sum (Jacob et al., 2018, section 3.2). No layer is searched
 * for: an op says by `scaledBy` what its weights are.
 */
import { isFloat } from '../core/dtype.js';
import { topological } from '../core/node.js';
import { type Shape, sizeOf } from '../core/shape.js';
import * as b from '../graph/build.js';
import { callOf } from '../graph/fused-op.js';
import { argOf, GraphNode } from '../graph/node.js';
import { constantsOf, unexpanded } from './constants.js';

/** A node as call · factor + shift, element by element, with constants that differ along one axis at most. */
interface AffineOfCall {
  readonly call: GraphNode;
  /** Of the node: the one that the call's weights can be scaled along. */
  readonly axis: number;
  readonly factor: GraphNode | undefined;
  readonly shift: GraphNode | undefined;
}

/** The graph of `roots` with factors of calls moved into their weights. Values differ by rounding. */
export function foldScales(roots: readonly GraphNode[]): GraphNode[] {
  const constants = constantsOf(roots);
  const order = topological(roots, (n) => (n.isLeaf || constants.has(n) ? [] : n.src));
  const users = new Map<GraphNode, number>();
  for (const used of [...roots, ...order.flatMap((n) => (constants.has(n) ? [] : n.src))])
    users.set(used, (users.get(used) ?? 0) + 1);
  const affine = new Map<GraphNode, AffineOfCall>();
  const made = new Map<GraphNode, GraphNode>();
  for (const node of order) {
    if (node.isLeaf || constants.has(node)) {
      made.set(node, node);
      continue;
    }
    const form = affineOf(node, constants, (n) => (users.get(n) === 1 ? affine.get(n) : undefined));
    if (form) affine.set(node, form);
    const src = node.src.map((s) => made.get(s) ?? s);
    made.set(
      node,
      form?.factor
        ? scaled(node, form, made)
        : src.every((s, i) => s === node.src[i])
          ? node
          : new GraphNode(node.op, node.type, src, node.arg, false),
    );
  }
  return roots.map((root) => made.get(root)!);
}

/** @param of the form of a source that nobody else reads */
function affineOf(
  node: GraphNode,
  constants: ReadonlySet<GraphNode>,
  of: (node: GraphNode) => AffineOfCall | undefined,
): AffineOfCall | undefined {
  if (node.op === 'call') {
    const { op, arg } = callOf(node);
    const weights = op.scaledBy?.(node, arg);
    if (!weights || !constants.has(node.src[weights.source]!)) return undefined;
    return { call: node, axis: weights.axis, factor: undefined, shift: undefined };
  }
  if (node.op === 'reshape') {
    const form = of(node.src[0]!);
    const axis = form && axisAfter(node.src[0]!.shape, form.axis, node.shape);
    if (axis === undefined) return undefined;
    const moved = (constant: GraphNode | undefined): GraphNode | undefined =>
      constant &&
      b.reshape(
        constant,
        node.shape.map((_, i) => (i === axis ? constant.size : 1)),
      );
    return { call: form!.call, axis, factor: moved(form!.factor), shift: moved(form!.shift) };
  }
  if (node.op !== 'map' || !isFloat(node.dtype)) return undefined;
  const { op } = argOf(node, 'map');
  if (op === 'cast') return isFloat(node.src[0]!.dtype) ? of(node.src[0]!) : undefined;
  if (op === 'neg') return combined('mul', of(node.src[0]!), b.like(node, -1));
  const at = node.src.findIndex((s) => !constants.has(s));
  const constant = node.src[1 - at];
  if (!constant || !constants.has(constant)) return undefined;
  const form = of(node.src[at]!);
  if (op === 'add' || op === 'mul') return combined(op, form, constant);
  if (op === 'sub' && at === 0) return combined('add', form, b.neg(unexpanded(constant)));
  if (op === 'div' && at === 0)
    return combined('mul', form, b.div(b.like(unexpanded(constant), 1), unexpanded(constant)));
  return undefined;
}

/** The form after one more sum or product; undefined for a constant that differs along other axes. */
function combined(
  op: 'add' | 'mul',
  form: AffineOfCall | undefined,
  operand: GraphNode,
): AffineOfCall | undefined {
  const constant = unexpanded(operand);
  if (!form || constant.shape.some((size, i) => size !== 1 && i !== form.axis)) return undefined;
  const together = (make: typeof b.add, a: GraphNode | undefined): GraphNode =>
    a ? make(b.cast(a, constant.dtype), constant) : constant;
  if (op === 'add') return { ...form, shift: together(b.add, form.shift) };
  return { ...form, factor: together(b.mul, form.factor), shift: form.shift && together(b.mul, form.shift) };
}

/** The node, with the factor in the call's weights. */
function scaled(
  node: GraphNode,
  { call, axis, factor, shift }: AffineOfCall,
  made: ReadonlyMap<GraphNode, GraphNode>,
): GraphNode {
  const { op, arg } = callOf(call);
  const { source, along } = op.scaledBy!(call, arg)!;
  const factors = b.reshape(
    b.expand(
      factor!,
      factor!.shape.map((d, i) => (i === axis ? node.shape[i]! : d)),
    ),
    [node.shape[axis]!],
  );
  const src = call.src.map((s, i) => (i === source ? scaledAlong(s, along, factors) : (made.get(s) ?? s)));
  const product = b.reshape(b.call(op, src, arg), node.shape);
  if (!shift) return b.cast(product, node.dtype);
  return b.cast(b.add(b.cast(product, shift.dtype), shift), node.dtype);
}

/** Weights times a factor for each index along an axis: before they are moved or rounded. */
function scaledAlong(weights: GraphNode, axis: number, factors: GraphNode): GraphNode {
  if (!weights.isLeaf && weights.op === 'permute') {
    const { axes } = argOf(weights, 'permute');
    return b.permute(scaledAlong(weights.src[0]!, axes[axis]!, factors), axes);
  }
  if (!weights.isLeaf && weights.op === 'map' && argOf(weights, 'map').op === 'cast')
    return b.cast(scaledAlong(weights.src[0]!, axis, factors), weights.dtype);
  const shape = weights.shape.map((_, i) => (i === axis ? factors.size : 1));
  const wide = b.cast(b.wide(weights), factors.dtype);
  return b.cast(b.mul(wide, b.reshape(factors, shape)), weights.dtype);
}

/** The axis of `to` that is axis `axis` of `from`, in the same elements; undefined if it has been cut or joined. */
function axisAfter(from: Shape, axis: number, to: Shape): number | undefined {
  const before = sizeOf(from.slice(0, axis));
  const at = to.findIndex((size, i) => size === from[axis] && sizeOf(to.slice(0, i)) === before);
  return at < 0 ? undefined : at;
}
