/** A dry run of a group: how finely its loops have to be cut, how it reads, and how much it does. */
import { bool } from '../../core/dtype.js';
import type { GraphNode } from '../../graph/node.js';
import { argOf } from '../../graph/node.js';
import { slope } from './affine.js';
import { type Digit, type LoopAxis, loopSizes } from './coordinates.js';
import { Evaluator, type MemoryRead, VECTOR_DTYPES } from './evaluate.js';
import { below, loopDigit, type Memories, placeOf, scopeOf, variable } from './lowering.js';

/** What a dry run tells: how the kernel reads, and how much it does per element. */
export interface Survey {
  /** The innermost output loop may run over vectors of 4. */
  readonly outer: boolean;
  /** Reductions may. */
  readonly inner: boolean;
  readonly work: number;
  /** A loop runs inside that of the output: a reduction, or what sums up what may lie at a place. */
  readonly loops: boolean;
  /** It draws random numbers, which is work even without operands. */
  readonly draws: boolean;
  /** The loops of the output, outermost first, and where the kernel reads, in terms of them. */
  readonly digits: readonly Digit[];
  readonly loads: readonly MemoryRead[];
}

/** Evaluate without keeping the result until no more loops have to be cut finer; then judge the loads. */
export function survey(roots: readonly GraphNode[], axis: LoopAxis, memories: Memories): Survey {
  const loads: MemoryRead[] = [];
  let digits: Digit[] = [];
  for (let round = 0; round < 4; round++) {
    const before = axis.splits.size + memories.splits;
    loads.length = 0;
    digits = loopSizes(axis).map((size, i, all) => loopDigit(axis, variable(`i${i}`), size, below(all, i)));
    const evaluator = new Evaluator(
      scopeOf(memories, false, (load) => loads.push(load)),
      undefined,
      [],
    );
    for (const root of roots) {
      evaluator.value(root, digits);
      placeOf(root, digits, evaluator.scope);
    }
    if (axis.splits.size + memories.splits === before) break;
  }
  const work = workOf(roots, memories);
  const last = digits.at(-1)?.value.terms[0]?.atom;
  const { vectors } = work;
  const slopes = last ? loads.map(({ index }) => slope(index, last)) : [];
  const outer =
    vectors &&
    last !== undefined &&
    last.size >= 4 &&
    slopes.every((s) => s === 0 || s === 1) &&
    (slopes.includes(1) || !work.reduces);
  return {
    outer,
    inner: vectors && !outer && work.contiguousReduce,
    work: work.perElement,
    loops: work.loops,
    draws: work.draws,
    digits,
    loads,
  };
}

/** Operations per element of the kernel, and whether its ops and dtypes fit into vectors. */
function workOf(
  roots: readonly GraphNode[],
  memories: Memories,
): {
  perElement: number;
  vectors: boolean;
  reduces: boolean;
  contiguousReduce: boolean;
  loops: boolean;
  draws: boolean;
} {
  let perElement = 0;
  let vectors = true;
  let reduces = false;
  let loops = false;
  let draws = false;
  let contiguousReduce = true;
  const seen = new Set<GraphNode>();
  const visit = (node: GraphNode, times: number): void => {
    if (seen.has(node)) return;
    seen.add(node);
    perElement += times;
    if (
      !VECTOR_DTYPES.has(node.dtype) &&
      !(node.dtype === bool && node.op === 'map' && !memories.reads.has(node))
    )
      vectors = false;
    if (memories.reads.has(node)) return;
    if (node.op === 'random') draws = true;
    if (node.op === 'reduce' || node.op === 'fold' || node.op === 'scatterAdd') loops = true;
    if (
      node.op === 'pad' ||
      node.op === 'gather' ||
      node.op === 'fold' ||
      node.op === 'scatterAdd' ||
      node.op === 'random'
    )
      vectors = false;
    if (node.op === 'map' && argOf(node, 'map').op === 'bitcast') vectors = false;
    let inner = times;
    if (node.op === 'reduce') {
      const { axes } = argOf(node, 'reduce');
      reduces = true;
      if (!axes.includes(node.src[0]!.shape.findLastIndex((d) => d > 1))) contiguousReduce = false;
      inner *= axes.reduce((n, a) => n * node.src[0]!.shape[a]!, 1);
    }
    if (node.op === 'scatterAdd') inner *= node.src[1]!.shape[argOf(node, 'scatterAdd').axis]!;
    for (const s of node.src) visit(s, inner);
  };
  for (const root of roots) {
    if (!VECTOR_DTYPES.has(root.dtype)) vectors = false;
    visit(root, 1);
  }
  return { perElement, vectors, reduces, contiguousReduce: reduces && contiguousReduce, loops, draws };
}
