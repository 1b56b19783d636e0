/**
 * Generic lowering: a group of nodes of one size → one kernel. Right on every device; the CPU ('blocks') gets loops
 * over vectors of 4, a GPU ('threads') one thread per element.
 */
import { bool, i32 } from '../core/dtype.js';
import type { GraphNode } from '../graph/node.js';
import { argOf } from '../graph/node.js';
import type { Expr, KernelIr, MemoryNode, Param, Statement, Variable } from '../kernel/ir.js';
import * as k from '../kernel/ir.js';
import type { Target } from '../kernel/target.js';
import { buffer, value as valueType } from '../kernel/types.js';
import { type Affine, type Atom, atom, ofAtom, slope, toExpr } from './affine.js';
import { type Coordinates, type Digit, flatten, type LoopAxis, loopSizes } from './coordinates.js';
import { Evaluator, type Scope, VECTOR_DTYPES, type Vector } from './evaluate.js';

export interface Lowered {
  readonly ir: KernelIr;
  /** The nodes whose memory the parameters are: those read, then the roots. */
  readonly params: readonly GraphNode[];
  readonly grid: readonly [number, number, number];
  readonly block: readonly [number, number, number];
}

/** Threads of a block of generated GPU kernels. */
const THREADS = 256;
/** Elementary operations that are worth a block of their own on the CPU. */
const BLOCK_WORK = 16384;

/** Parameters of a kernel being made, and the loops of its reductions. */
class Memories {
  readonly reads = new Map<GraphNode, MemoryNode>();
  readonly #axes = new Map<string, LoopAxis>();
  readonly #ids = new Map<GraphNode, number>();
  readonly #hasMemory: (node: GraphNode) => boolean;

  constructor(hasMemory: (node: GraphNode) => boolean) {
    this.#hasMemory = hasMemory;
  }

  memory(node: GraphNode): MemoryNode | undefined {
    if (!this.#hasMemory(node)) return undefined;
    let memory = this.reads.get(node);
    if (!memory) {
      memory = parameter(`x${this.reads.size}`, node);
      this.reads.set(node, memory);
    }
    return memory;
  }

  axis(node: GraphNode, run: number, size: number): LoopAxis {
    const id = this.#ids.get(node) ?? this.#ids.size;
    this.#ids.set(node, id);
    const key = `${id}:${run}`;
    let axis = this.#axes.get(key);
    if (!axis) {
      axis = { size, splits: new Set() };
      this.#axes.set(key, axis);
    }
    return axis;
  }

  get splits(): number {
    return [...this.#axes.values()].reduce((n, a) => n + a.splits.size, 0);
  }
}

export function parameter(name: string, node: GraphNode): MemoryNode {
  const param: Param = { name, schema: buffer(node.dtype) };
  return k.bufferParam(param);
}

/** Lower `roots`, nodes of one size; nodes for which `hasMemory` holds are read, all others computed here. */
export function lowerGroup(
  name: string,
  roots: readonly GraphNode[],
  hasMemory: (node: GraphNode) => boolean,
  target: Target,
): Lowered {
  const own = new Set(roots);
  const memories = new Memories((node) => hasMemory(node) && !own.has(node));
  const outputs = roots.map((root, i) => parameter(`y${i}`, root));
  const axis: LoopAxis = { size: roots[0]!.size, splits: new Set() };
  const shape = survey(roots, axis, memories);
  const body =
    target.model === 'threads'
      ? threadsBody(roots, outputs, axis, memories)
      : blocksBody(roots, outputs, axis, memories, shape, target);
  const params = [...memories.reads.values(), ...outputs].map((m) => m.arg as Param);
  return {
    ir: { name, params, arrays: [], body: body.statement },
    params: [...memories.reads.keys(), ...roots],
    grid: body.grid,
    block: body.block,
  };
}

/** What a dry run tells: how the kernel reads, and how much it does per element. */
interface Survey {
  /** The innermost output loop may run over vectors of 4. */
  readonly outer: boolean;
  /** Reductions may. */
  readonly inner: boolean;
  readonly work: number;
}

const scopeOf = (memories: Memories, vectorReduce: boolean, onLoad?: (index: Affine) => void): Scope => ({
  memory: (node) => memories.memory(node),
  axis: (node, run, size) => memories.axis(node, run, size),
  vectorReduce,
  ...(onLoad ? { onLoad } : {}),
});

/** Evaluate without keeping the result until no more loops have to be cut finer; then judge the loads. */
function survey(roots: readonly GraphNode[], axis: LoopAxis, memories: Memories): Survey {
  const loads: Affine[] = [];
  let digits: Digit[] = [];
  for (let round = 0; round < 4; round++) {
    const before = axis.splits.size + memories.splits;
    loads.length = 0;
    digits = loopSizes(axis).map((size, i, all) => loopDigit(axis, variable(`i${i}`), size, below(all, i)));
    const evaluator = new Evaluator(
      scopeOf(memories, false, (index) => loads.push(index)),
      undefined,
      [],
    );
    for (const root of roots) evaluator.value(root, digits);
    if (axis.splits.size + memories.splits === before) break;
  }
  const work = workOf(roots, memories);
  const last = digits.at(-1)?.value.terms[0]?.atom;
  const { vectors } = work;
  const slopes = last ? loads.map((index) => slope(index, last)) : [];
  const outer =
    vectors &&
    last !== undefined &&
    last.size >= 4 &&
    slopes.every((s) => s === 0 || s === 1) &&
    (slopes.includes(1) || !work.reduces);
  return { outer, inner: vectors && !outer && work.contiguousReduce, work: work.perElement };
}

/** Operations per element of the kernel, and whether its ops and dtypes fit into vectors. */
function workOf(
  roots: readonly GraphNode[],
  memories: Memories,
): { perElement: number; vectors: boolean; reduces: boolean; contiguousReduce: boolean } {
  let perElement = 0;
  let vectors = true;
  let reduces = false;
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
  return { perElement, vectors, reduces, contiguousReduce: reduces && contiguousReduce };
}

const variable = (name: string): Variable => ({ name, type: valueType(i32), constant: true });
const below = (sizes: readonly number[], i: number): number => sizes.slice(i + 1).reduce((n, d) => n * d, 1);

const loopDigit = (axis: LoopAxis, v: Variable, size: number, under: number): Digit => ({
  size,
  value: ofAtom(atom(k.read(v), size)),
  origin: { axis, below: under },
});

interface Body {
  readonly statement: Statement;
  readonly grid: readonly [number, number, number];
  readonly block: readonly [number, number, number];
}

/** Compute all roots at these coordinates, then store them: an output may be an input's own memory. */
function storeAll(
  roots: readonly GraphNode[],
  outputs: readonly MemoryNode[],
  at: Coordinates,
  scope: Scope,
  vector: Vector | undefined,
): Statement {
  const out: Statement[] = [];
  const evaluator = new Evaluator(scope, vector, out);
  const values = roots.map((root): Expr => {
    const v: Variable = { name: 'v', type: valueType(root.dtype, vector?.lanes ?? 1), constant: true };
    out.push(k.declare(v, evaluator.value(root, at)));
    evaluator.define(root, at, k.read(v));
    return k.read(v);
  });
  const index = toIndex(at);
  values.forEach((v, i) => {
    out.push(k.store(outputs[i]!, v, [index]));
  });
  return k.block(out);
}

const toIndex = (at: Coordinates): Expr => toExpr(flatten(at));

function threadsBody(
  roots: readonly GraphNode[],
  outputs: readonly MemoryNode[],
  axis: LoopAxis,
  memories: Memories,
): Body {
  const i = variable('i');
  const id = k.alu('add', [
    k.alu('mul', [k.special('blockIdx.x'), k.special('blockDim.x')]),
    k.special('threadIdx.x'),
  ]);
  const at = [loopDigit(axis, i, axis.size, 1)];
  const inside = storeAll(roots, outputs, at, scopeOf(memories, false), undefined);
  const threads = Math.min(THREADS, Math.max(32, 2 ** Math.ceil(Math.log2(axis.size))));
  return {
    statement: k.block([k.declare(i, id), k.when(k.alu('lt', [k.read(i), k.int(axis.size)]), inside)]),
    grid: [Math.ceil(axis.size / threads), 1, 1],
    block: [threads, 1, 1],
  };
}

/**
 * Rows of the outer loops × the innermost loop. Blocks take whole rows where there are enough of them, else pieces
 * of a row.
 */
function blocksBody(
  roots: readonly GraphNode[],
  outputs: readonly MemoryNode[],
  axis: LoopAxis,
  memories: Memories,
  shape: Survey,
  target: Target,
): Body {
  const sizes = loopSizes(axis);
  const inner = sizes.at(-1)!;
  const rows = axis.size / inner;
  const blocks = Math.max(1, Math.min(target.units * 16, Math.ceil((axis.size * shape.work) / BLOCK_WORK)));
  const rowsPerBlock = Math.max(1, Math.ceil(rows / blocks));
  const pieces = rows >= blocks ? 1 : Math.min(Math.ceil(blocks / rows), Math.ceil(inner / 16));
  const piece = pieces === 1 ? inner : Math.ceil(inner / pieces / 16) * 16;
  const perRow = Math.ceil(inner / piece);
  const scope = scopeOf(memories, shape.inner);

  const row = variable('row');
  const digits: Digit[] = [];
  const cut: Statement[] = [];
  sizes.slice(0, -1).forEach((size, n, outer) => {
    const under = below(outer, n);
    let v: Expr = k.read(row);
    if (under > 1) v = k.alu('idiv', [v, k.int(under)]);
    if (n > 0) v = k.alu('mod', [v, k.int(size)]);
    const digit = variable(`i${n}`);
    cut.push(k.declare(digit, v));
    digits.push(loopDigit(axis, digit, size, below(sizes, n)));
  });

  const block = k.special('blockIdx.x');
  const from = variable('from');
  const to = variable('to');
  const last = perRow * piece === inner;
  const span: Statement[] =
    perRow === 1
      ? []
      : [
          k.declare(from, k.alu('mul', [k.alu('mod', [block, k.int(perRow)]), k.int(piece)])),
          k.declare(
            to,
            last
              ? k.alu('add', [k.read(from), k.int(piece)])
              : k.alu('min', [k.alu('add', [k.read(from), k.int(piece)]), k.int(inner)]),
          ),
        ];
  const begin = perRow === 1 ? k.int(0) : k.read(from);
  const end = perRow === 1 ? k.int(inner) : k.read(to);
  const line = k.block([
    ...cut,
    ...span,
    ...innerLoops(roots, outputs, axis, digits, inner, begin, end, perRow === 1, scope, shape.outer),
  ]);

  const first = variable('first');
  const blockRow = perRow === 1 ? block : k.alu('idiv', [block, k.int(perRow)]);
  if (rowsPerBlock === 1)
    return {
      statement: k.block([k.declare(row, blockRow), line]),
      grid: [rows * perRow, 1, 1],
      block: [1, 1, 1],
    };
  const stop =
    rows % rowsPerBlock === 0
      ? k.alu('add', [k.read(first), k.int(rowsPerBlock)])
      : k.alu('min', [k.alu('add', [k.read(first), k.int(rowsPerBlock)]), k.int(rows)]);
  return {
    statement: k.block([
      k.declare(first, k.alu('mul', [blockRow, k.int(rowsPerBlock)])),
      k.forLoop(row, k.read(first), stop, k.int(1), line),
    ]),
    grid: [Math.ceil(rows / rowsPerBlock) * perRow, 1, 1],
    block: [1, 1, 1],
  };
}

/** The innermost loop: by vectors of 4, then what is left one by one. */
function innerLoops(
  roots: readonly GraphNode[],
  outputs: readonly MemoryNode[],
  axis: LoopAxis,
  outer: readonly Digit[],
  size: number,
  begin: Expr,
  end: Expr,
  whole: boolean,
  scope: Scope,
  vectors: boolean,
): Statement[] {
  const loop = (from: Expr, to: Expr, step: 1 | 4): Statement => {
    const v = variable('i');
    const digit = loopDigit(axis, v, Math.max(2, size), 1);
    const at = [...outer, { ...digit, size }];
    const vector: Vector | undefined =
      step === 4 ? { atom: digit.value.terms[0]!.atom as Atom, lanes: 4 } : undefined;
    return k.forLoop(v, from, to, k.int(step), storeAll(roots, outputs, at, scope, vector));
  };
  if (!vectors) return [loop(begin, end, 1)];
  if (whole) {
    const even = size - (size % 4);
    return even === size ? [loop(begin, end, 4)] : [loop(begin, k.int(even), 4), loop(k.int(even), end, 1)];
  }
  // Pieces start at multiples of 16; only the last of a row can be uneven.
  const even = variable('even');
  const count = k.alu('and', [k.alu('sub', [end, begin]), k.int(-4)]);
  return size % 4 === 0
    ? [loop(begin, end, 4)]
    : [
        k.declare(even, k.alu('add', [begin, count])),
        loop(begin, k.read(even), 4),
        loop(k.read(even), end, 1),
      ];
}
