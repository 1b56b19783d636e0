/** Functions run for the shapes of what they make, and for what computing it would take: nothing is computed. */
import type { DType } from '../core/dtype.js';
import { ArgumentError } from '../core/errors.js';
import type { Shape } from '../core/shape.js';
import { currentTrace, Trace } from '../engine/trace.js';
import * as b from '../graph/build.js';
import { callOf } from '../graph/fused-op.js';
import type { GraphNode } from '../graph/node.js';
import { type AnyTensor, Tensor } from './tensor.js';

export { newestSerial } from '../graph/node.js';

/**
 * Run `body` as `jit` traces a function: tensors have no values, and what it assigns to those from outside is forgotten.
 * @param of who asks @throws ArgumentError within `jit`
 */
export const tracedAlone = <T>(of: string, body: () => T): T => tracedGraph(of, body).result;

/** A function's graph, as it was traced. */
export interface TracedGraph<T> {
  /** What the function returned: its tensors have no values. */
  readonly result: T;
  /** The node of a tensor of the result. */
  readonly nodeOf: (tensor: AnyTensor) => GraphNode;
  /** The tensor from outside that a leaf stands for. */
  readonly tensorOf: (leaf: GraphNode) => AnyTensor | undefined;
  /** How many tensors from outside were assigned. */
  readonly assigned: number;
}

/** Run `body` as `tracedAlone` does. @returns what is needed to read its graph @throws ArgumentError within `jit` */
export function tracedGraph<T>(of: string, body: () => T): TracedGraph<T> {
  if (currentTrace())
    throw new ArgumentError(`[${of}] cannot be called within a jitted function. Call it before.`);
  const trace = new Trace(() => {});
  const result = trace.run(() => b.withoutGradients(body));
  const outsiders = new Map([...trace.captured].map(([handle, leaf]) => [leaf, handle]));
  return {
    result,
    nodeOf: (tensor) => trace.captured.get(tensor) ?? tensor.ownNode,
    tensorOf: (leaf) => outsiders.get(leaf) as AnyTensor | undefined,
    assigned: trace.assigned.size,
  };
}

/** The node of a tensor: within a traced function, what stands for it there. */
export const nodeOf = (tensor: AnyTensor): GraphNode => tensor.node;

/** A tensor of a node. */
export const tensorOf = (node: GraphNode): AnyTensor => new Tensor(node);

/** A tensor without values, for `tracedAlone`. */
export const valueless = (shape: Shape, dtype: DType): AnyTensor => new Tensor(b.leaf(shape, dtype), true);

/**
 * Floating-point operations of products, convolutions and recurrent layers, a multiply-add being two, that these tensors
 * take from the nodes made after the one with the serial number `since`.
 */
export function flopsSince(since: number, results: readonly AnyTensor[]): number {
  const seen = new Set<GraphNode>();
  const open = results.map((t) => t.node);
  let flops = 0;
  for (let node = open.pop(); node; node = open.pop()) {
    if (node.serial <= since || seen.has(node)) continue;
    seen.add(node);
    open.push(...node.src);
    if (node.op !== 'call') continue;
    const { op, arg } = callOf(node);
    flops += op.flops?.(node, arg) ?? 0;
  }
  return flops;
}

/** What a tensor's values are in memory: a reshaped tensor has those of its source. */
export function heldBy(tensor: AnyTensor): GraphNode {
  let { node } = tensor;
  while (node.op === 'reshape') node = node.src[0]!;
  return node;
}
