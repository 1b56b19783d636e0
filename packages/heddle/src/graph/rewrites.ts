/**
 * Rewrites of a graph that keep its values, for the scheduler and for gradients alike. Both need them: the gradients of
 * what a program computes are to be as small as the program is.
 *
 * There is one: what chooses elements by their order, as max pooling does, moves before functions that never decrease:
 * max f(x) = f(max x), however f rounds, and NaN stays NaN. The bias and the ReLU after a convolution, the ReLU's mask and
 * the sum for the bias's gradient then work on windows instead of pixels. Where f makes different pixels equal, the
 * gradient goes to the one that was the largest, not to the first. (One result differs: a bias of ∞ on a window of −∞
 * and no NaN gives ∞ instead of NaN.)
 */
import { type DType, isFloat } from '../core/dtype.js';
import { topological } from '../core/node.js';
import { OPS, type OpRecord, type ScalarOp } from '../kernel/ir/ops.js';
import * as b from './build.js';
import { callOf } from './fused-op.js';
import { argOf, GraphNode } from './node.js';
import { asPartOf } from './origin.js';

/** Whether all pixels of an image are the same: numbers, or a bias for each channel. */
const isUniform = (node: GraphNode): boolean =>
  node.op === 'full' || (node.op === 'expand' && node.src[0]!.shape.slice(-2).every((n) => n === 1));

const isNarrowing = (from: DType, to: DType): boolean =>
  isFloat(from) && isFloat(to) && to.bytes < from.bytes;

/**
 * The place of the one source that x = f(source) never decreases in, its others being the same all over an image.
 * Undefined where there is none, where x is known already, or where it was cut off from the gradients of its sources.
 */
function monotoneIn(x: GraphNode): number | undefined {
  if (x.isLeaf || x.src.some((s) => s.requiresGrad && !x.requiresGrad)) return undefined;
  if (x.op === 'call') return isMonotoneCall(x) ? 0 : undefined;
  if (x.op !== 'map') return undefined;
  const { op } = argOf(x, 'map');
  // Values that were widened for an op stay wide.
  if (op === 'cast') return isNarrowing(x.src[0]!.dtype, x.dtype) ? 0 : undefined;
  const record: OpRecord | undefined = op === 'select' || op === 'bitcast' ? undefined : OPS[op];
  const within = record?.monotone;
  const [at, another] = x.src.flatMap((s, i) => (isUniform(s) ? [] : [i]));
  return another === undefined && (within === 'all' || (within === 'first' && at === 0)) ? at : undefined;
}

/** Whether a call is composed of functions that never decrease, one after the other, of its one source. */
function isMonotoneCall(node: GraphNode): boolean {
  const { op, arg } = callOf(node);
  // A function of windows stays with the kernel that gives it its windows, even where each is one element.
  if (node.src.length !== 1 || op.kernels.length > 0 || op.windows) return false;
  const source = b.leaf(node.src[0]!.shape, node.src[0]!.dtype);
  let x = op.compose([source], arg);
  while (x !== source) {
    const at = monotoneIn(x);
    if (at === undefined) return false;
    x = x.src[at]!;
  }
  return true;
}

/** `x` with `inner` in the place of its source `at`, of another size along the last two dimensions. */
function remade(x: GraphNode, at: number, inner: GraphNode): GraphNode {
  if (x.op === 'call') return b.call(callOf(x).op, [inner], callOf(x).arg);
  const { op } = argOf(x, 'map');
  if (op === 'cast') return b.cast(inner, x.dtype);
  const src = x.src.map((s, i) =>
    i === at
      ? inner
      : s.op === 'full'
        ? b.full(inner.shape, s.dtype, argOf(s, 'full').value)
        : b.expand(s.src[0]!, inner.shape),
  );
  return b.map(op as ScalarOp, ...src);
}

/** The call `node` moved before the functions that its source was made by; undefined if it stays where it is. */
export function beforeMonotone(
  node: GraphNode,
  isFixed: (node: GraphNode) => boolean = () => false,
): GraphNode | undefined {
  if (node.op !== 'call') return undefined;
  const { op, arg } = callOf(node);
  const [x] = node.src as [GraphNode];
  if (!op.selects?.(arg) || isFixed(x)) return undefined;
  const at = monotoneIn(x);
  if (at === undefined) return undefined;
  const inner = b.call(op, [x.src[at]!], arg);
  return remade(x, at, beforeMonotone(inner, isFixed) ?? inner);
}

/** The graph of `outputs` after all rewrites. Nodes that stay the same are the same; what is `fixed` stays. */
export function rewritten(outputs: readonly GraphNode[], fixed: ReadonlySet<GraphNode>): GraphNode[] {
  const isFixed = (node: GraphNode): boolean => fixed.has(node);
  const made = new Map<GraphNode, GraphNode>();
  for (const node of topological(outputs, (n) => (isFixed(n) ? [] : n.src))) {
    const rewrite = (): GraphNode => {
      const src = isFixed(node) ? node.src : node.src.map((s) => made.get(s)!);
      const own = src.every((s, i) => s === node.src[i]) ? node : withSources(node, src);
      return (isFixed(node) || node.isLeaf ? undefined : beforeMonotone(own, isFixed)) ?? own;
    };
    made.set(node, asPartOf(node.origin, rewrite));
  }
  return outputs.map((node) => made.get(node)!);
}

/** The same of other sources. */
export const withSources = (node: GraphNode, src: readonly GraphNode[]): GraphNode =>
  new GraphNode(node.op, node.type, src, node.arg, node.requiresGrad);

/**
 * Nodes with others in the places of those that stood for them, below which nothing is looked at.
 * @param remake a node of other sources
 */
export function replaced(
  nodes: readonly GraphNode[],
  places: ReadonlyMap<GraphNode, GraphNode>,
  remake: typeof withSources = withSources,
): GraphNode[] {
  const made = new Map(places);
  for (const node of topological(nodes, (n) => (places.has(n) ? [] : n.src))) {
    const src = node.src.map((s) => made.get(s) ?? s);
    if (!made.has(node)) made.set(node, src.every((s, i) => s === node.src[i]) ? node : remake(node, src));
  }
  return nodes.map((node) => made.get(node)!);
}
