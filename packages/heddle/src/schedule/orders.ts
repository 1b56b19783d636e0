/**
 * The order of dimensions in memory. A fused op may be faster on sources whose dimensions are in another order, such as
 * convolutions with channels last. This rewrite computes it so, and all that comes between two such ops as well: the
 * permutations between them cancel, those at the ends are left. What moves elements, such as a padding, a slice, or the parts of a
 * concatenation, moves them in the order of its source. A reduction reads what was permuted as it lies in memory. An op that has
 * kernels for both orders, such as max pooling, follows its source, and an exchange with other processes sends each source in the
 * order that it is in. Tensors keep their shapes.
 */
import { topological } from '../core/node.js';
import * as b from '../graph/build.js';
import { callOf, type Reordered } from '../graph/fused-op.js';
import { argOf, GraphNode } from '../graph/node.js';
import { asPartOf } from '../graph/origin.js';
import { beforeMonotone } from '../graph/rewrites.js';
import type { Target } from '../kernel/ir/target.js';
import { hasKernel, inF32, kernelOf } from './kernel-choice.js';
import { isAsItWas, movedAxes, type Order, permuted, reshapedOrder, sameOrder } from './order.js';
import { spreadNodes } from './passes/parts.js';
import { exchangeOf, wholePieces } from './whole-pieces.js';

/** A node's values with its dimensions in another order: permute(node, order). */
interface InOrder {
  readonly values: GraphNode;
  readonly order: Order;
}

/** permute(x, order): in another shape where only dimensions of size 1 change places, so that nothing moves in memory. */
const moved = (x: GraphNode, order: Order): GraphNode =>
  movedAxes(order, x.shape).length === 0 ? b.reshape(x, permuted(x.shape, order)) : b.permute(x, order);

/** Values that cost nothing in any order: they are made where they are used, or of few. */
const isAnywhere = (node: GraphNode): boolean =>
  !node.isLeaf && (node.op === 'full' || node.op === 'iota' || node.op === 'expand');

const isElementwise = ({ op }: GraphNode): boolean =>
  op === 'map' || op === 'reshape' || op === 'permute' || op === 'detach';

/** Maps before one that is computed in another order: how many of a chain are, too. */
const DEEPEST = 64;

/**
 * Elements that each run converts from one order to another may be at most this share of those that gain by theirs, unless all
 * conversions take less than is saved.
 */
const MOST_CONVERTED = 0.5;

/** Microseconds of a conversion: to begin it, and for a byte that it moves. On an H200, 2026-11-23. */
const CONVERSION = { start: 3, byte: 1 / 1.5e6 } as const;

/**
 * `roots` with what is faster in another order of dimensions computed in it; the same roots if nothing is. Ops that gain nothing by
 * it follow their sources, or lead others where fewer conversions are left by that.
 * @param constants leaves that are converted once, not at every run
 */
export function reordered(
  roots: readonly GraphNode[],
  target: Target,
  constants: ReadonlySet<GraphNode> = new Set(),
): readonly GraphNode[] {
  const nodes = topological(roots, (n) => (n.isLeaf ? [] : n.src));
  const ways = nodes.flatMap((node) => orderOf(node, target) ?? []);
  const isPermuted = target.model === 'threads' && nodes.some((n) => !n.isLeaf && n.op === 'permute');
  if (ways.every(({ follows }) => follows) && !isPermuted) return roots;
  const whole = wholePieces(nodes, roots);
  const leading = ways.some(({ leads }) => leads) ? [false, true] : [false];
  let [least, best] = [Number.POSITIVE_INFINITY, roots];
  for (const leads of leading) {
    const orders = new Orders(target, constants, whole, leads, new Set(spreadNodes(nodes, 0).keys()));
    const made = orders.of(roots);
    const cost = orders.converting - orders.saved;
    const isLittle = orders.converted <= MOST_CONVERTED * orders.gaining;
    if ((isLittle || cost < 0) && cost < least) [least, best] = [cost, made];
  }
  return best.every((node, i) => node === roots[i]) ? roots : best;
}

function orderOf(node: GraphNode, target: Target): Reordered | undefined {
  if (node.isLeaf || node.op !== 'call') return undefined;
  const { op, arg } = callOf(node);
  return op.reordered?.(target, node, arg);
}

class Orders {
  /** Elements that are converted, and elements that reordered ops read and write. */
  converted = 0;
  gaining = 0;
  /** Microseconds of the conversions, and those that reordered ops take less. */
  converting = 0;
  saved = 0;
  readonly #target: Target;
  /** Ops that may lead do. */
  readonly #leads: boolean;
  /** What depends on constants alone. */
  readonly #constants: Set<GraphNode>;
  /** Nodes that are computed in an order of their own. */
  readonly #ordered = new Map<GraphNode, InOrder>();
  /** All others. */
  readonly #plain = new Map<GraphNode, GraphNode>();
  /** Of others, the order that all lies in that they are computed from element by element. */
  readonly #lying = new Map<GraphNode, Order>();
  /** Results that are repeated, and may meet the elements again that they were made of. */
  readonly #spread: ReadonlySet<GraphNode>;
  /** Leaves, and what is computed of them alone element by element. */
  readonly #given = new Set<GraphNode>();
  /** Maps computed in another order. */
  readonly #remapped = new Map<GraphNode, InOrder>();
  /** Of exchanges, the sources that may be sent in other orders. */
  readonly #whole: ReadonlyMap<GraphNode, readonly boolean[]>;
  /** Of exchanges, the orders that sources are sent in, by the places where they begin in the result. */
  readonly #sent = new Map<GraphNode, ReadonlyMap<number, Order>>();

  constructor(
    target: Target,
    constants: ReadonlySet<GraphNode>,
    whole: ReadonlyMap<GraphNode, readonly boolean[]>,
    leads: boolean,
    spread: ReadonlySet<GraphNode>,
  ) {
    this.#spread = spread;
    this.#leads = leads;
    this.#target = target;
    this.#whole = whole;
    this.#constants = new Set(constants);
  }

  of(roots: readonly GraphNode[]): GraphNode[] {
    this.#takeAll(roots);
    return roots.map((root) => this.#asIs(root));
  }

  #takeAll(roots: readonly GraphNode[]): void {
    const isKnown = (node: GraphNode): boolean => this.#ordered.has(node) || this.#plain.has(node);
    for (const node of topological(roots, (n) => (n.isLeaf || isKnown(n) ? [] : n.src)))
      asPartOf(node.origin, () => this.#take(node));
  }

  #take(node: GraphNode): void {
    if (this.#ordered.has(node) || this.#plain.has(node)) return;
    if (!node.isLeaf && node.src.every((s) => this.#constants.has(s))) this.#constants.add(node);
    const ordered = node.isLeaf ? undefined : this.#inAnOrder(node);
    if (ordered && !isAsItWas(ordered.order)) this.#ordered.set(node, ordered);
    else if (!this.#plain.has(node)) {
      this.#plain.set(node, ordered?.values ?? this.#remade(node));
      const lying = this.#lyingIn(node);
      if (lying) this.#lying.set(node, lying);
      if (node.isLeaf || (isElementwise(node) && this.#areGiven(node.src))) this.#given.add(node);
    }
  }

  /** The order of what is in memory of a node that is computed as it is. */
  #lyingIn(node: GraphNode): Order | undefined {
    if (node.isLeaf) return undefined;
    if (node.op === 'permute') {
      const { axes } = argOf(node, 'permute');
      const [x] = node.src as [GraphNode];
      const below = this.#ordered.get(x)?.order ?? this.#lying.get(x) ?? axes.map((_, axis) => axis);
      const order = below.map((axis) => axes.indexOf(axis));
      return movedAxes(order, node.shape).length > 0 ? order : undefined;
    }
    if (node.op !== 'map' && node.op !== 'detach') return undefined;
    const [first, ...others] = node.src.filter((s) => !isAnywhere(s)).map((s) => this.#lying.get(s));
    return first && others.every((o) => o !== undefined && sameOrder(o, first)) ? first : undefined;
  }

  /** What is reduced, as it lies in memory, where its elements are not needed again in the order of its dimensions. */
  #reducedOf(node: GraphNode): InOrder | undefined {
    const [source] = node.src as [GraphNode];
    const ordered = this.#ordered.get(source);
    if (ordered || this.#target.model !== 'threads' || this.#spread.has(node)) return ordered;
    const order = this.#lying.get(source);
    // With the same dimension innermost, neighbours are read together in either order.
    const axes = order ? movedAxes(order, source.shape) : [];
    if (!order || axes.at(-1) === Math.max(...axes)) return undefined;
    this.gaining += source.size;
    return { order, values: this.#inOrder(source, order) };
  }

  /** Whether they are given but for values that cost nothing in any order. */
  #areGiven(nodes: readonly GraphNode[]): boolean {
    const given = nodes.filter((n) => this.#given.has(n));
    return given.length > 0 && nodes.every((n) => given.includes(n) || isAnywhere(n));
  }

  /** With the dimensions as they are. */
  #asIs(node: GraphNode): GraphNode {
    return (
      this.#plain.get(node) ??
      this.#turned(
        node,
        node.shape.map((_, axis) => axis),
      )
    );
  }

  /** permute(node, order) of its values as they are. */
  #turned(node: GraphNode, order: Order): GraphNode {
    const from = this.#ordered.get(node);
    const values = from?.values ?? this.#plain.get(node)!;
    const axes = from ? order.map((axis) => from.order.indexOf(axis)) : order;
    if (movedAxes(axes, values.shape).length > 0) this.#convert(node);
    return moved(values, axes);
  }

  #remade(node: GraphNode): GraphNode {
    if (node.isLeaf) return node;
    const src = node.src.map((s) => this.#asIs(s));
    return src.every((s, i) => s === node.src[i]) ? node : withSources(node, src);
  }

  /** `node` computed in the order that it, or what it is computed from, is faster in. */
  #inAnOrder(node: GraphNode): InOrder | undefined {
    switch (node.op) {
      case 'call':
        return this.#call(node);
      case 'map': {
        const order = this.#commonOrder(node.src.filter((s) => !isAnywhere(s)));
        return order && { order, values: this.#mapped(node, order, 0) };
      }
      // Its dimensions have other names, and what is in memory stays.
      case 'permute': {
        const ordered = this.#ordered.get(node.src[0]!);
        const { axes } = argOf(node, 'permute');
        return ordered && { ...ordered, order: ordered.order.map((axis) => axes.indexOf(axis)) };
      }
      case 'reshape':
        return this.#piece(node) ?? this.#reshaped(node);
      case 'reduce': {
        const ordered = this.#reducedOf(node);
        return ordered && { order: ordered.order, values: this.#alike(node, ordered) };
      }
      case 'detach':
      case 'expand':
      case 'pad':
      case 'slice': {
        const ordered = this.#ordered.get(node.src[0]!);
        if (!ordered || node.shape.length !== ordered.order.length) return undefined;
        return { order: ordered.order, values: this.#alike(node, ordered) };
      }
      default:
        return undefined;
    }
  }

  /** The order of those of the nodes that have one, unless another's is given: that of what is in memory already. */
  #commonOrder(nodes: readonly GraphNode[]): Order | undefined {
    if (nodes.some((n) => this.#given.has(n))) return undefined;
    const [first, ...others] = nodes.map((n) => this.#ordered.get(n)?.order).filter((o) => o !== undefined);
    return first && others.every((o) => sameOrder(o, first)) ? first : undefined;
  }

  #call(node: GraphNode): InOrder | undefined {
    const way = orderOf(node, this.#target);
    if (way?.follows && !(way.leads && this.#leads)) return this.#following(node, way);
    if (way) {
      const sources = node.src.map((s, i) => this.#inOrder(s, way.sources?.[i] ?? way.order));
      if (!way.follows) this.gaining += node.src.reduce((n, s) => n + s.size, node.size);
      // Without a kernel for the order that it is in, it gains whatever the conversion costs.
      if (!hasKernel(node, this.#target)) this.gaining = Number.POSITIVE_INFINITY;
      this.saved += way.saves ?? 0;
      return { order: way.order, values: way.make(sources) };
    }
    if (!node.src.some((s) => this.#ordered.has(s))) return undefined;
    if (this.#whole.has(node)) return this.#exchange(node);
    // Functions of windows are computed by a kernel that holds windows: there is none for this order.
    if (kernelOf(node, this.#target) || inF32(node, this.#target)) return undefined;
    const { op, arg } = callOf(node);
    const ordered = op.reduction && this.#ordered.get(node.src[0]!);
    if (ordered) return { order: ordered.order, values: this.#alike(node, ordered) };
    return this.#insteadOf(node, op.compose(node.src, arg));
  }

  /** An exchange that sends sources in the orders that they are in. */
  #exchange(node: GraphNode): undefined {
    const flat = exchangeOf(node)!.flat!;
    const isWhole = this.#whole.get(node)!;
    const sent = new Map<number, Order>();
    const src = node.src.map((s, i) => {
      const ordered = isWhole[i] ? this.#ordered.get(s) : undefined;
      if (!ordered) return this.#asIs(s);
      for (const place of flat.places[i] ?? []) sent.set(place, ordered.order);
      return ordered.values;
    });
    const orders = flat.places.map(([at], i) => movedAxes(sent.get(at!) ?? [], node.src[i]!.shape));
    this.#plain.set(node, b.call(callOf(node).op, src, flat.inOrders(orders)));
    this.#sent.set(node, sent);
  }

  /** What is cut out of the result of an exchange, in the order that it was sent in. */
  #piece(node: GraphNode): InOrder | undefined {
    const [cut] = node.src as [GraphNode];
    const isCut = !cut.isLeaf && cut.op === 'slice';
    const sent = this.#sent.get(isCut ? cut.src[0]! : cut);
    const order = sent?.get(isCut ? argOf(cut, 'slice').start[0]! : 0);
    return order && { order, values: b.reshape(this.#asIs(cut), permuted(node.shape, order)) };
  }

  /** Dimensions that are split, or joined with their neighbours in memory. Of an expansion those that are repeated may be anywhere. */
  #reshaped(node: GraphNode): InOrder | undefined {
    const [source] = node.src as [GraphNode];
    const ordered = this.#ordered.get(source);
    if (!ordered) return undefined;
    const { shape } = source;
    const isRepeated = (axis: number): boolean =>
      source.op === 'expand' && source.src[0]!.shape[axis] !== shape[axis];
    const found = reshapedOrder(shape, ordered.order, node.shape, isRepeated);
    const stays = (order: Order): Order => order.filter((axis) => shape[axis] !== 1 && !isRepeated(axis));
    if (!found || !sameOrder(stays(found.before), stays(ordered.order))) return undefined;
    const values = b.reshape(this.#inOrder(source, found.before), permuted(node.shape, found.after));
    return { order: found.after, values };
  }

  /** A call in the order that most of its sources are in, moved first to where it stays in either order. */
  #following(node: GraphNode, { order, make }: Reordered): InOrder | undefined {
    const isSo = (s: GraphNode): boolean => {
      const source = this.#ordered.get(s);
      return source !== undefined && sameOrder(source.order, order);
    };
    const most = node.src.reduce((n, s) => n + (isSo(s) ? s.size : -s.size), 0);
    if (most < 0) return undefined;
    const moved = beforeMonotone(node);
    if (moved) return this.#insteadOf(node, moved);
    return { order, values: make(node.src.map((s) => this.#inOrder(s, order))) };
  }

  /** Another graph of the same values. */
  #insteadOf(node: GraphNode, same: GraphNode): InOrder | undefined {
    this.#takeAll([same]);
    const ordered = this.#ordered.get(same);
    if (!ordered) this.#plain.set(node, this.#plain.get(same)!);
    return ordered;
  }

  /** An op that treats all dimensions alike, on its source's order. */
  #alike(node: GraphNode, { values, order }: InOrder): GraphNode {
    if (node.op === 'detach') return b.detach(values);
    if (node.op === 'expand') return b.expand(values, permuted(node.shape, order));
    if (node.op === 'pad') {
      const { before, after, value } = argOf(node, 'pad');
      return b.pad(values, permuted(before, order), permuted(after, order), value);
    }
    if (node.op === 'slice') {
      const { start, size, step } = argOf(node, 'slice');
      return b.slice(values, permuted(start, order), permuted(size, order), permuted(step, order));
    }
    const moved = (axes: readonly number[]): number[] => axes.map((axis) => order.indexOf(axis));
    if (node.op === 'call') {
      const { op, arg } = callOf(node);
      const { along, axes } = op.reduction!;
      return b.call(op, [values], along(arg, moved(axes(arg))));
    }
    const { op, axes } = argOf(node, 'reduce');
    return b.reduce(op, values, moved(axes));
  }

  /** permute(node, order), computed in this order as far as that costs nothing. */
  #inOrder(node: GraphNode, order: Order, depth = 0): GraphNode {
    const ordered = this.#ordered.get(node);
    if (ordered && sameOrder(ordered.order, order)) return ordered.values;
    if (isAsItWas(order)) return this.#asIs(node);
    const shape = permuted(node.shape, order);
    if (node.op === 'expand' && !node.isLeaf && node.src[0]!.shape.length === order.length)
      return b.expand(this.#inOrder(node.src[0]!, order, depth), shape);
    if (!ordered && !node.isLeaf)
      switch (node.op) {
        case 'full':
          return b.full(shape, node.dtype, argOf(node, 'full').value);
        case 'iota':
          return b.iota(shape, order.indexOf(argOf(node, 'iota').axis));
        case 'pad': {
          if (depth >= DEEPEST) break;
          const { before, after, value } = argOf(node, 'pad');
          const inner = this.#inOrder(node.src[0]!, order, depth + 1);
          return b.pad(inner, permuted(before, order), permuted(after, order), value);
        }
        case 'permute':
          return this.#inOrder(node.src[0]!, permuted(argOf(node, 'permute').axes, order), depth);
        case 'map':
          if (depth < DEEPEST) return this.#mapped(node, order, depth + 1);
      }
    return this.#turned(node, order);
  }

  #convert(node: GraphNode): void {
    if (this.#constants.has(node)) return;
    this.converted += node.size;
    this.converting += CONVERSION.start + CONVERSION.byte * node.size * node.dtype.bytes;
  }

  #mapped(node: GraphNode, order: Order, depth: number): GraphNode {
    const known = this.#remapped.get(node);
    if (known && sameOrder(known.order, order)) return known.values;
    const src = node.src.map((s) => this.#inOrder(s, order, depth));
    const values = new GraphNode(
      'map',
      { shape: permuted(node.shape, order), dtype: node.dtype },
      src,
      node.arg,
      false,
    );
    this.#remapped.set(node, { values, order });
    return values;
  }
}

const withSources = (node: GraphNode, src: readonly GraphNode[]): GraphNode =>
  new GraphNode(node.op, node.type, src, node.arg, node.requiresGrad);
