/** The same forward pass for several sets of shapes, node by node: what depends on the sizes shows as numbers that differ. */
import { ArgumentError } from 'heddle/internal/core/errors.js';
import { callOf } from 'heddle/internal/graph/fused-op.js';
import { argOf, type GraphArgs, type GraphNode, type GraphOp } from 'heddle/internal/graph/node.js';
import { isFixed, type Size } from './sizes.js';
import { layerCallOf, type ModelTrace } from './trace-model.js';

/** What a node does, as text: nodes of different traces that stand for each other have the same. */
function describe(node: GraphNode): string {
  const layer = layerCallOf(node);
  if (layer) return `${layer.call.path}(${layer.output})`;
  if (node.op === 'call') return callOf(node).op.name;
  if (node.op === 'map') return argOf(node, 'map').op;
  if (node.op === 'reduce') return `reduce ${argOf(node, 'reduce').op}`;
  return node.op;
}

/** Nodes of the first trace, each with those that stand for it in the others. */
export class GraphTraces {
  readonly #twins = new Map<GraphNode, readonly GraphNode[]>();
  readonly #madeIn: ModelTrace['madeIn'];

  constructor(madeIn: ModelTrace['madeIn']) {
    this.#madeIn = madeIn;
  }

  /**
   * Take in graphs that end in these nodes, one of each trace.
   * @throws ArgumentError if they are not the same but for sizes
   */
  add(ends: readonly GraphNode[]): void {
    const open = [ends];
    for (let nodes = open.pop(); nodes; nodes = open.pop()) {
      const [first] = nodes as [GraphNode];
      if (this.#twins.has(first)) continue;
      const what = describe(first);
      const stray = nodes.find(
        (n) =>
          describe(n) !== what ||
          n.src.length !== first.src.length ||
          n.shape.length !== first.shape.length ||
          n.dtype !== first.dtype,
      );
      if (stray)
        throw new ArgumentError(
          `[exportOnnx] what the model computes depends on the sizes of its dynamic dimensions: in ${this.#where(first)} it is ` +
            `${what} (${first.shape.join(',')}) for one size and ${describe(stray)} (${stray.shape.join(',')}) for another. ` +
            'Make that dimension fixed.',
        );
      this.#twins.set(first, nodes);
      first.src.forEach((_, i) => {
        open.push(nodes.map((n) => n.src[i]!));
      });
    }
  }

  #where(node: GraphNode): string {
    const path = this.#madeIn(node)?.path ?? '';
    return path === '' ? 'the model' : `'${path}'`;
  }

  /** The node in each trace. */
  twins(node: GraphNode): readonly GraphNode[] {
    return this.#twins.get(node)!;
  }

  /** Its dimensions. */
  sizes(node: GraphNode): Size[] {
    const twins = this.twins(node);
    return node.shape.map((_, axis) => twins.map((n) => n.shape[axis]!));
  }

  /** Its argument in each trace. */
  args<Op extends GraphOp>(node: GraphNode, op: Op): readonly GraphArgs[Op][] {
    return this.twins(node).map((n) => argOf(n, op));
  }

  /** The numbers that `read` gives of each trace, which must be the same. @throws ArgumentError */
  fixed(node: GraphNode, what: string, read: (node: GraphNode) => readonly number[]): readonly number[] {
    const [first, ...others] = this.twins(node).map(read) as [readonly number[], ...(readonly number[])[]];
    if (!others.every((o) => o.length === first.length && o.every((n, i) => n === first[i])))
      throw new ArgumentError(
        `[exportOnnx] ${what} of ${describe(node)} in ${this.#where(node)} depends on a dynamic dimension: ${first.join(',')} for one ` +
          `size, ${others.find((o) => o.join() !== first.join())!.join(',')} for another. ONNX wants it fixed. Make that dimension fixed.`,
      );
    return first;
  }

  /** Whether its shape is the same in all traces. */
  hasFixedShape(node: GraphNode): boolean {
    return this.sizes(node).every(isFixed);
  }
}
