/**
 * Pieces of lines that stay in shared memory from the first reduction to the last store. Each thread has its own places
 * there: it copies what it reads, and nobody else looks at it, so that no barrier is needed.
 */
import type { GraphNode } from '../../graph/node.js';
import type { ArrayDecl, Expr, MemoryNode, Statement } from '../../kernel/ir/ir.js';
import * as k from '../../kernel/ir/ir.js';
import type { Lanes } from '../../kernel/ir/types.js';
import { add, declared, THREAD, times, toIndex } from './lowering.js';
import type { MatrixKernel, MatrixWork, Piece } from './matrix-kernel.js';

/** Bytes of the shortest and the longest asynchronous copy. */
const COPY = [4, 16] as const;

/** What a kernel reads for each element, at its own place: it can be kept. */
export function inputsOf({ roots, reduction, memories }: MatrixWork): GraphNode[] {
  const { structure, members } = reduction;
  const size = structure.rows * structure.columns;
  const inputs = new Set<GraphNode>();
  const seen = new Set<GraphNode>();
  const visit = (node: GraphNode): void => {
    if (node.size !== size || seen.has(node)) return;
    seen.add(node);
    if (memories.memory(node)) inputs.add(node);
    else if (node.op === 'map' || node.op === 'reshape' || node.op === 'detach') node.src.forEach(visit);
  };
  for (const { node } of members) if (node.op === 'reduce') visit(node.src[0]!);
  roots.forEach(visit);
  return [...inputs];
}

/** What a block reads of each element: of so many tensors, so many bytes each, all of one dtype or not. */
export interface ElementReads {
  readonly tensors: number;
  readonly bytes: number;
  readonly isUniform: boolean;
}

export const readsOf = (inputs: readonly GraphNode[]): ElementReads => ({
  tensors: inputs.length,
  bytes: Math.max(...inputs.map(({ dtype }) => dtype.bytes), 2),
  isUniform: inputs.length > 0 && inputs.every(({ dtype }) => dtype === inputs[0]!.dtype),
});

export class KeptPieces {
  readonly #kernel: MatrixKernel;
  readonly #inputs: readonly GraphNode[];
  readonly #memory: MemoryNode;
  readonly #threads: number;
  readonly #lanes: Lanes;
  readonly #first: number;
  /** Of dynamic shared memory. */
  readonly bytes: number;

  /**
   * @param inputs of one dtype, at least one
   * @param first number of the first piece that a thread keeps, and `count` of them
   */
  constructor(
    kernel: MatrixKernel,
    inputs: readonly GraphNode[],
    { threads, lanes, first, count }: { threads: number; lanes: Lanes; first: number; count: number },
  ) {
    this.#kernel = kernel;
    this.#inputs = inputs;
    this.#threads = threads;
    this.#lanes = lanes;
    this.#first = first;
    const { dtype } = inputs[0]!;
    const array: ArrayDecl = { name: 'kept', dtype, space: 'shared', dims: [-1], lanes: 1 };
    kernel.arrays.push(array);
    this.#memory = k.arrayNode(array);
    this.bytes = count * inputs.length * threads * lanes * dtype.bytes;
  }

  /** Where the thread keeps piece `base + n` of input `i`. */
  #slot(base: Expr | undefined, n: number, i: number): Expr {
    const size = this.#threads * this.#lanes;
    const tensors = this.#inputs.length;
    const own = add(times(THREAD, this.#lanes), k.int(((n - this.#first) * tensors + i) * size));
    return base ? add(times(base, tensors * size), own) : own;
  }

  /** Start to copy pieces `base + from` and those after it. */
  copy(pieces: readonly Piece[], base: Expr | undefined, from: number, out: Statement[]): void {
    for (const [n, { at }] of pieces.entries())
      for (const [i, input] of this.#inputs.entries()) {
        const memory = this.#kernel.scope.memory(input)!;
        const bytes = this.#lanes * input.dtype.bytes;
        const way = bytes >= COPY[0] && bytes <= COPY[1] ? 'async-once' : null;
        const slot = this.#slot(base, from + n, i);
        out.push(k.store(this.#memory, k.load(memory, [toIndex(at)], this.#lanes), [slot], undefined, way));
      }
  }

  /** Read these pieces from where they are kept. */
  take(pieces: readonly Piece[], base: Expr | undefined, from: number, out: Statement[]): void {
    for (const [n, { at, evaluator }] of pieces.entries())
      for (const [i, input] of this.#inputs.entries()) {
        const slot = this.#slot(base, from + n, i);
        const v = declared('v', k.load(this.#memory, [slot], this.#lanes), out);
        evaluator.define(input, at, k.read(v));
      }
  }
}
