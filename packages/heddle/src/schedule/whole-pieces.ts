/**
 * What becomes of the flat result of an exchange. A source that is only cut out of it whole, in its shape, may be sent with its
 * dimensions in another order: then the piece is in that order, too.
 */
import { sameShape, sizeOf } from '../core/shape.js';
import { callOf, type Exchange, type FlatExchange } from '../graph/fused-op.js';
import { argOf, type GraphNode } from '../graph/node.js';

/**
 * Of each exchange whose sources may be in any order, those that are only cut out of its result whole.
 * @param nodes all of the graph
 */
export function wholePieces(
  nodes: readonly GraphNode[],
  roots: readonly GraphNode[],
): ReadonlyMap<GraphNode, readonly boolean[]> {
  const users = new Map<GraphNode, GraphNode[]>();
  const usersOf = (node: GraphNode): readonly GraphNode[] => users.get(node) ?? [];
  for (const node of nodes)
    for (const source of node.isLeaf ? [] : node.src) {
      if (users.has(source)) users.get(source)!.push(node);
      else users.set(source, [node]);
    }
  const wanted = new Set(roots);
  /** An exchange comes after `node`, whose values nobody reads. */
  const isOnlyAwaited = (node: GraphNode): boolean =>
    !wanted.has(node) && usersOf(node).every((user) => readsNot(user, node));
  const isWhole = (
    exchange: GraphNode,
    { isReadOutside }: FlatExchange,
    offset: number,
    { shape }: GraphNode,
  ): boolean => {
    if (isReadOutside && wanted.has(exchange)) return false;
    const count = sizeOf(shape);
    return usersOf(exchange).every((user) => {
      if (user.op === 'detach') return isOnlyAwaited(user);
      if (user.op === 'reshape') return count === exchange.size && sameShape(user.shape, shape);
      if (user.op !== 'slice') return false;
      const { start, size, step } = argOf(user, 'slice');
      if (step[0] !== 1) return false;
      if (start[0]! >= offset + count || start[0]! + size[0]! <= offset) return true;
      if (start[0] !== offset || size[0] !== count || wanted.has(user)) return false;
      return usersOf(user).every((piece) => piece.op === 'reshape' && sameShape(piece.shape, shape));
    });
  };
  const whole = new Map<GraphNode, readonly boolean[]>();
  for (const node of nodes) {
    const flat = exchangeOf(node)?.flat;
    if (flat)
      whole.set(
        node,
        flat.places.map((places, i) => places.every((at) => isWhole(node, flat, at, node.src[i]!))),
      );
  }
  return whole;
}

/** What a node exchanges with other processes, if it does. */
export function exchangeOf(node: GraphNode): Exchange | undefined {
  if (node.isLeaf || node.op !== 'call') return undefined;
  const { op, arg } = callOf(node);
  return op.exchanges?.(arg);
}

/** Whether `node` is no source that an exchange sends. */
function readsNot(exchange: GraphNode, node: GraphNode): boolean {
  const sent = exchangeOf(exchange)?.sent;
  return sent !== undefined && !exchange.src.slice(0, sent).includes(node);
}
