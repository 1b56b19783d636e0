/**
 * Roundings to bytes by constant scales, without divisions: x / s = x · (1 / s), and the factor goes into the constants that x is
 * computed with,
 *
 *   (sums · f + t) / s = sums · (f / s) + t / s        max(x, 0) / s = max(x / s, 0)
 *
 * so that a kernel which stores bytes computes nothing for it. No layer is searched for: the factor goes through whatever is
 * homogeneous. What becomes a sum with a product is a fused multiply-add.
 */
import { topological } from '../core/node.js';
import * as b from '../graph/build.js';
import { callOf } from '../graph/fused-op.js';
import { argOf, GraphNode } from '../graph/node.js';
import type { ScalarOp } from '../kernel/ir/ops.js';
import { constantsOf, unexpanded } from './constants.js';

const MOVES: ReadonlySet<string> = new Set(['reshape', 'permute', 'detach']);

/** f(c · x, c · y) = c · f(x, y) for c > 0: of elements, and of all that are reduced. */
const HOMOGENEOUS: ReadonlySet<string> = new Set(['add', 'sub', 'max', 'min']);
const REDUCTIONS: ReadonlySet<string> = new Set(['sum', 'max', 'min']);

const sources = (node: GraphNode): readonly GraphNode[] => (node.isLeaf ? [] : node.src);

/** Of a quotient of its first two sources. */
const isRounding = (node: GraphNode): boolean => node.op === 'call' && callOf(node).op.ofQuotient === true;

const withSources = (node: GraphNode, src: readonly GraphNode[]): GraphNode =>
  new GraphNode(node.op, node.type, src, node.arg, node.requiresGrad);

/** The graph of `roots` in which roundings by a constant scale of one element do not divide. Values differ by rounding. */
export function foldRoundings(roots: readonly GraphNode[]): GraphNode[] {
  const constants = constantsOf(roots);
  const order = topological(roots, (n) => (constants.has(n) ? [] : sources(n)));
  const isShared = sharedIn(roots, order);
  /** By the node that is now in its place. */
  const before = new Map<GraphNode, GraphNode>();
  const made = new Map<GraphNode, GraphNode>();
  const factors = new Factors(constants, (node) => isShared(before.get(node) ?? node));
  /** By value and scale: what was folded once is the same node everywhere. */
  const levels = new Map<GraphNode, Map<GraphNode, GraphNode>>();
  for (const node of order) {
    const src = constants.has(node) ? node.src : sources(node).map((s) => made.get(s)!);
    const own = src.every((s, i) => s === node.src[i]) ? node : withSources(node, src);
    made.set(node, own);
    before.set(own, node);
    if (!isRounding(own)) continue;
    const [x, scale, ...zeroPoint] = own.src as [GraphNode, GraphNode, ...GraphNode[]];
    if (!constants.has(scale) || scale.size !== 1 || scale.dtype !== x.dtype) continue;
    const one = b.like(scale, 1);
    const known = levels.get(x) ?? new Map<GraphNode, GraphNode>();
    const inLevels = known.get(scale) ?? factors.times(x, b.reshape(b.div(one, scale), []));
    levels.set(x, known.set(scale, inLevels));
    made.set(node, withSources(own, [inLevels, one, ...zeroPoint]));
  }
  return roots.map((root) => made.get(root)!);
}

/** Whether a node has several readers. Roundings of one scale are one of them. */
function sharedIn(roots: readonly GraphNode[], order: readonly GraphNode[]): (node: GraphNode) => boolean {
  const readers = new Map<GraphNode, Set<GraphNode>>();
  const read = (node: GraphNode, by: GraphNode): void => {
    const all = readers.get(node) ?? new Set();
    readers.set(node, all.add(by));
  };
  for (const root of roots) read(root, root);
  for (const node of order)
    for (const s of sources(node)) read(s, isRounding(node) && s === node.src[0] ? node.src[1]! : node);
  return (node) => (readers.get(node)?.size ?? 0) > 1;
}

/** Products with a factor greater than 0 of one element. */
class Factors {
  readonly #constants: ReadonlySet<GraphNode>;
  readonly #isShared: (node: GraphNode) => boolean;

  constructor(constants: ReadonlySet<GraphNode>, isShared: (node: GraphNode) => boolean) {
    this.#constants = constants;
    this.#isShared = isShared;
  }

  /** x · factor. */
  times(x: GraphNode, factor: GraphNode): GraphNode {
    return this.#absorbed(x, factor) ?? b.mul(x, factor);
  }

  #sum(x: GraphNode, y: GraphNode): GraphNode {
    const isProduct = (node: GraphNode): boolean =>
      node.op === 'map' && argOf(node, 'map').op === 'mul' && !this.#isConstant(node);
    if (isProduct(x)) return b.map('fma', ...x.src, y);
    return isProduct(y) ? b.map('fma', ...y.src, x) : b.add(x, y);
  }

  #isConstant(node: GraphNode): boolean {
    return this.#constants.has(node) || (!node.isLeaf && node.src.every((s) => this.#isConstant(s)));
  }

  /** x · factor, where that takes no product more than x; undefined elsewhere. */
  #absorbed(x: GraphNode, factor: GraphNode): GraphNode | undefined {
    if (b.knownValue(x) === 0) return x;
    if (this.#isConstant(x)) return b.expand(b.mul(unexpanded(x), factor), x.shape);
    if (x.isLeaf || this.#isShared(x) || x.dtype !== factor.dtype) return undefined;
    if (MOVES.has(x.op) || (x.op === 'reduce' && REDUCTIONS.has(argOf(x, 'reduce').op))) {
      const inner = this.#absorbed(x.src[0]!, factor);
      return inner && withSources(x, [inner]);
    }
    if (x.op === 'call') return this.#composed(x, factor);
    if (x.op !== 'map') return undefined;
    const { op } = argOf(x, 'map');
    if (HOMOGENEOUS.has(op)) {
      const isConstant = x.src.map((s) => this.#isConstant(s));
      const src = x.src.map((s) => this.#absorbed(s, factor));
      // Of one source at least that is no constant: of others it is a product.
      if (!src.some((s, i) => s && !isConstant[i])) return undefined;
      const [left, right] = src.map((s, i) => s ?? b.mul(x.src[i]!, factor)) as [GraphNode, GraphNode];
      return op === 'add' ? this.#sum(left, right) : b.map(op as ScalarOp, left, right);
    }
    // A product takes it in one of its sources, a quotient in what is divided.
    const places = op === 'mul' ? [0, 1] : op === 'div' ? [0] : [];
    for (const at of places.sort(
      (i, j) => Number(this.#isConstant(x.src[j]!)) - Number(this.#isConstant(x.src[i]!)),
    )) {
      const inner = this.#absorbed(x.src[at]!, factor);
      if (inner)
        return withSources(
          x,
          x.src.map((s, i) => (i === at ? inner : s)),
        );
    }
    return undefined;
  }

  /** Of a call without kernels, in what it is composed of, where that reads each source once. */
  #composed(call: GraphNode, factor: GraphNode): GraphNode | undefined {
    const { op, arg } = callOf(call);
    if (op.kernels.length > 0) return undefined;
    const composed = op.compose(call.src, arg);
    const inner = topological([composed], (n) => (call.src.includes(n) ? [] : sources(n)));
    const reads = inner.flatMap((n) => (call.src.includes(n) ? [] : sources(n)));
    const isOnce = inner.every((n) => this.#isConstant(n) || reads.filter((s) => s === n).length <= 1);
    return isOnce ? this.#absorbed(composed, factor) : undefined;
  }
}
