/**
 * Whether each example of a batch is computed by itself. An engine pads batches and splits them, which may change no result: it is
 * decided on the graph, by following where the batch is in each node.
 */
import { ArgumentError } from '../core/errors.js';
import { topological } from '../core/node.js';
import { formatShape, type Shape } from '../core/shape.js';
import { callOf } from '../graph/fused-op.js';
import { argOf, type GraphNode } from '../graph/node.js';

/** The example that an element is of: ⌊its index along `axis` / inner⌋ modulo the batch. */
interface ExamplePlace {
  readonly axis: number;
  /** Elements along the axis that neighbours of one example take: heads, where they were joined with the batch. */
  readonly inner: number;
}

/** No example's: nothing of the inputs is in it. */
const NONE = 'none';
/** Of several examples at once, or in a place that is not followed. */
const MIXED = 'mixed';
type Examples = ExamplePlace | typeof NONE | typeof MIXED;

/**
 * @param outputs by their names
 * @param inputs leaves with the batch first
 * @param batch at least 2
 * @throws ArgumentError if an example's result depends on others, or on where in the batch it is
 */
export function requireSeparateExamples(
  outputs: readonly (readonly [name: string, node: GraphNode])[],
  inputs: readonly GraphNode[],
  batch: number,
): void {
  const known = new Map<GraphNode, Examples>(inputs.map((input) => [input, { axis: 0, inner: 1 }]));
  for (const [name, node] of outputs) {
    const examples = examplesOf(node, batch, known);
    if (examples === NONE || (examples !== MIXED && examples.axis === 0 && examples.inner === 1)) continue;
    const first = topological([node], sources).find((n) => known.get(n) === MIXED) ?? node;
    const what = first.op === 'call' ? callOf(first).op.name : first.op;
    throw new ArgumentError(
      `[compile] ${name} of an example depends on the other examples of its batch or on its place there, from the ` +
        `${what} on whose result is ${formatShape(first.shape)}: an engine pads batches and splits them. ` +
        'Let forward compute each example by itself, and combine the results of a batch outside of it.',
    );
  }
}

const sources = (node: GraphNode): readonly GraphNode[] => (node.isLeaf ? [] : node.src);

function examplesOf(root: GraphNode, batch: number, known: Map<GraphNode, Examples>): Examples {
  for (const node of topological([root], (n) => (known.has(n) ? [] : sources(n))))
    if (!known.has(node)) known.set(node, examplesAfter(node, batch, known));
  return known.get(root)!;
}

/** Where the batch is in a node, from where it is in the node's sources. */
function examplesAfter(node: GraphNode, batch: number, known: Map<GraphNode, Examples>): Examples {
  if (node.isLeaf) return NONE;
  const of = node.src.map((s) => known.get(s)!);
  if (of.includes(MIXED)) return MIXED;
  const places = of.filter((place): place is ExamplePlace => typeof place !== 'string');
  const [place] = places;
  if (!place) return NONE;
  if (node.op === 'call') {
    const { op, arg } = callOf(node);
    return examplesOf(op.compose(node.src, arg), batch, known);
  }
  if (places.some(({ axis, inner }) => axis !== place.axis || inner !== place.inner)) return MIXED;
  const [source] = node.src as readonly [GraphNode];
  const { axis } = place;
  switch (node.op) {
    case 'map':
      return node.src.some((s, i) => of[i] === NONE && differsAlong(s, place, batch)) ? MIXED : place;
    case 'reduce':
      return argOf(node, 'reduce').axes.includes(axis) ? MIXED : place;
    case 'reshape':
      return reshaped(source.shape, place, node.shape, batch) ?? MIXED;
    case 'permute':
      return { ...place, axis: argOf(node, 'permute').axes.indexOf(axis) };
    case 'pad':
    case 'slice':
      return keepsRounds(node, place, batch) ? place : MIXED;
    case 'window':
    case 'fold':
      return axis < source.shape.length - 2 && axis < node.shape.length - 2 ? place : MIXED;
    case 'gather':
    case 'scatterAdd': {
      const [values, index] = node.src as readonly [GraphNode, GraphNode];
      const alongIt = argOf(node, node.op).axis === axis;
      // Rows of a table, picked by each example's own indices.
      if (alongIt) return node.op === 'gather' && known.get(values) === NONE ? place : MIXED;
      return [values, index].some((s) => known.get(s) === NONE && differsAlong(s, place, batch))
        ? MIXED
        : place;
    }
    default:
      return node.op === 'detach' || node.op === 'expand' ? place : MIXED;
  }
}

/** Whether a pad or a slice adds and takes whole batches along the axis: everything then is in the place of the same example. */
function keepsRounds(node: GraphNode, { axis, inner }: ExamplePlace, batch: number): boolean {
  const isWhole = (count: number): boolean => count % (inner * batch) === 0;
  if (node.op === 'pad') return isWhole(argOf(node, 'pad').before[axis]!) && isWhole(node.shape[axis]!);
  const { start, step, size } = argOf(node, 'slice');
  return step[axis] === 1 && isWhole(start[axis]!) && isWhole(size[axis]!);
}

/** Where the batch is after a reshape; undefined if one axis does not hold it. */
function reshaped(
  from: Shape,
  { axis, inner }: ExamplePlace,
  to: Shape,
  batch: number,
): ExamplePlace | undefined {
  const stride = strideOf(from, axis) * inner;
  const at = to.findIndex((size, k) => {
    const own = strideOf(to, k);
    return stride % own === 0 && (own * size) % (stride * batch) === 0;
  });
  return at < 0 ? undefined : { axis: at, inner: stride / strideOf(to, at) };
}

const strideOf = (shape: Shape, axis: number): number => shape.slice(axis + 1).reduce((n, d) => n * d, 1);

/** Whether a node that no input is in differs from example to example where it meets one with the batch there. */
function differsAlong(node: GraphNode, place: ExamplePlace, batch: number): boolean {
  const { axis } = place;
  if (node.shape[axis] === 1) return false;
  if (node.isLeaf) return true;
  const [source] = node.src;
  switch (node.op) {
    case 'full':
      return false;
    case 'iota':
      return argOf(node, 'iota').axis === axis;
    case 'map':
      return node.src.some((s) => differsAlong(s, place, batch));
    case 'detach':
    case 'expand':
    case 'slice':
    case 'reduce':
      return differsAlong(source!, place, batch);
    case 'pad': {
      const { before, after } = argOf(node, 'pad');
      return before[axis] !== 0 || after[axis] !== 0 || differsAlong(source!, place, batch);
    }
    case 'permute':
      return differsAlong(source!, { ...place, axis: argOf(node, 'permute').axes[axis]! }, batch);
    case 'reshape': {
      const before = reshaped(node.shape, place, source!.shape, batch);
      return before === undefined || differsAlong(source!, before, batch);
    }
    case 'call': {
      const { op, arg } = callOf(node);
      return differsAlong(op.compose(node.src, arg), place, batch);
    }
    default:
      return true;
  }
}
