/**
 * Pieces of lines that stay in shared memory from the first reduction to the last store. Each thread has its own places
 * there: it copies what it reads, and nobody else looks at it, so that no barrier is needed.
 *
 * What a reduction computes of the elements, and all that comes later is made of, may take their place, such as the exponentials
 * of a softmax: nothing is computed twice. If it has twice the bytes, two pieces of the elements share the place of one of it, the
 * last ones, so that a value is only written over elements that have been read: piece n over those up to n.
 */
import { sizeOf } from '../../core/shape.js';
import { argOf, type GraphNode } from '../../graph/node.js';
import type { ArrayDecl, Expr, MemoryNode, Statement } from '../../kernel/ir/ir.js';
import * as k from '../../kernel/ir/ir.js';
import type { Lanes } from '../../kernel/ir/types.js';
import type { Coordinates } from './coordinates.js';
import { add, declared, type Memories, THREAD, times, toIndex } from './lowering.js';
import type { MatrixKernel, MatrixWork, Piece } from './matrix-kernel.js';
import { sliced } from './movement.js';

/** Bytes of the shortest and the longest asynchronous copy. */
const COPY = [4, 16] as const;

/** What a kernel reads for each element, at its own place: it can be kept. */
export function inputsOf({ roots, reduction, memories }: MatrixWork): GraphNode[] {
  const reduced = reduction.members.flatMap(({ node }) => (node.op === 'reduce' ? [node.src[0]!] : []));
  const { rows, columns } = reduction.structure;
  return elementsBelow(
    [...reduced, ...roots].filter(({ size }) => size === rows * columns),
    memories,
  );
}

/** What these nodes read at the places of their own elements. */
export function elementsBelow(nodes: readonly GraphNode[], memories: Memories): GraphNode[] {
  const inputs = new Set<GraphNode>();
  const seen = new Set<GraphNode>();
  const visit = (node: GraphNode): void => {
    if (node.size !== nodes[0]!.size || seen.has(node)) return;
    seen.add(node);
    if (memories.memory(node) || isPartOfMemory(node, memories)) inputs.add(node);
    else if (node.op === 'map' || node.op === 'reshape' || node.op === 'detach') node.src.forEach(visit);
  };
  nodes.forEach(visit);
  return [...inputs];
}

/** Whether it is a slice of a node in memory where vectors of its elements are aligned as well. */
function isPartOfMemory(node: GraphNode, memories: Memories): boolean {
  const [whole] = node.src;
  if (node.op !== 'slice' || !memories.memory(whole!)) return false;
  const { start, size, step } = argOf(node, 'slice');
  const { shape } = whole!;
  const last = shape.findLastIndex((n, i) => n !== size[i]);
  // Vectors lie along what comes behind the last dimension that is cut, if anything does.
  const isAligned = (lanes: number): boolean =>
    sizeOf(shape.slice(last + 1)) > 1 ||
    size[last]! % lanes !== 0 ||
    (shape[last]! % lanes === 0 && start[last]! % lanes === 0);
  return step.every((n) => n === 1) && [2, 4].every(isAligned);
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

/** Values that take the place of the elements. */
interface Carried {
  readonly node: GraphNode;
  readonly memory: MemoryNode;
}

/** Which pieces threads keep. */
interface KeptShares {
  readonly threads: number;
  readonly lanes: Lanes;
  /** Number of the first piece, and how many there are. */
  readonly first: number;
  readonly count: number;
  /** What takes the place of the elements; of one input, and with as many bytes or twice as many. */
  readonly carried?: GraphNode | undefined;
}

export class KeptPieces {
  readonly #kernel: MatrixKernel;
  readonly #inputs: readonly GraphNode[];
  readonly #memory: MemoryNode;
  readonly #carried: Carried | undefined;
  readonly #count: number;
  /** The elements are gone. */
  #isCarrying = false;
  readonly #threads: number;
  readonly #lanes: Lanes;
  readonly #first: number;
  /** Of dynamic shared memory. */
  readonly bytes: number;

  /** @param inputs of one dtype, at least one */
  constructor(
    kernel: MatrixKernel,
    inputs: readonly GraphNode[],
    { threads, lanes, first, count, carried }: KeptShares,
  ) {
    this.#kernel = kernel;
    this.#inputs = inputs;
    this.#threads = threads;
    this.#lanes = lanes;
    this.#first = first;
    this.#count = count;
    const dynamic = (name: string, { dtype }: GraphNode): MemoryNode => {
      const array: ArrayDecl = { name, dtype, space: 'shared', dims: [-1], lanes: 1 };
      kernel.arrays.push(array);
      return k.arrayNode(array);
    };
    this.#memory = dynamic('kept', inputs[0]!);
    this.#carried = carried && { node: carried, memory: dynamic('carried', carried) };
    const bytes = Math.max(inputs[0]!.dtype.bytes * inputs.length, carried?.dtype.bytes ?? 0);
    this.bytes = count * threads * lanes * bytes;
  }

  /** Where the thread keeps piece `base + n` of input `i`. */
  #slot(base: Expr | undefined, n: number, i: number): Expr {
    const size = this.#threads * this.#lanes;
    if (this.#carried && this.#carried.node.dtype.bytes > this.#inputs[0]!.dtype.bytes)
      return this.#half(base, n);
    const tensors = this.#inputs.length;
    const own = add(times(THREAD, this.#lanes), k.int(((n - this.#first) * tensors + i) * size));
    return base ? add(times(base, tensors * size), own) : own;
  }

  /**
   * Half of the place of a value. Eight threads in a row take the lower one, the next eight the upper one, so that their accesses
   * meet all banks. `base` is even.
   */
  #half(base: Expr | undefined, n: number): Expr {
    const lanes = this.#lanes;
    const at = n - this.#first;
    const place = Math.floor(this.#count / 2) + Math.floor(at / 2);
    const own = add(times(THREAD, 2 * lanes), k.int(place * 2 * this.#threads * lanes));
    const upper = k.alu('mod', [add(k.alu('idiv', [THREAD, k.int(8)]), k.int(at % 2)), k.int(2)]);
    const half = add(own, times(upper, lanes));
    return base ? add(half, times(base, this.#threads * lanes)) : half;
  }

  /** Where the thread keeps a value. */
  #place(base: Expr | undefined, n: number): Expr {
    const size = this.#threads * this.#lanes;
    const own = add(times(THREAD, this.#lanes), k.int((n - this.#first) * size));
    return base ? add(own, times(base, size)) : own;
  }

  /** Start to copy pieces `base + from` and those after it. */
  copy(pieces: readonly Piece[], base: Expr | undefined, from: number, out: Statement[]): void {
    for (const [n, { at }] of pieces.entries())
      for (const [i, input] of this.#inputs.entries()) {
        const bytes = this.#lanes * input.dtype.bytes;
        const way = bytes >= COPY[0] && bytes <= COPY[1] ? 'async-once' : null;
        const slot = this.#slot(base, from + n, i);
        out.push(k.store(this.#memory, this.#load(input, at), [slot], undefined, way));
      }
  }

  /** The elements of an input from its memory, or from that which it is a part of. */
  #load(input: GraphNode, at: Coordinates): Expr {
    const own = this.#kernel.scope.memory(input);
    if (own) return k.load(own, [toIndex(at)], this.#lanes);
    return k.load(this.#kernel.scope.memory(input.src[0]!)!, [toIndex(sliced(input, at))], this.#lanes);
  }

  /** Read these pieces from where they are kept. */
  take(pieces: readonly Piece[], base: Expr | undefined, from: number, out: Statement[]): void {
    const carried = this.#isCarrying ? this.#carried : undefined;
    if (carried)
      for (const [n, { at, evaluator }] of pieces.entries()) {
        const place = this.#place(base, from + n);
        const v = declared('v', k.load(carried.memory, [place], this.#lanes), out);
        evaluator.define(carried.node, at, k.read(v));
      }
    else this.#takeElements(pieces, base, from, out);
  }

  /** Put the values of these pieces in the place of the elements, which have been taken. */
  carry(pieces: readonly Piece[], base: Expr | undefined, from: number, out: Statement[]): void {
    const { node, memory } = this.#carried!;
    for (const [n, { at, evaluator }] of pieces.entries())
      out.push(k.store(memory, evaluator.value(node, at), [this.#place(base, from + n)]));
  }

  /** From here on the values are there, and the elements are not. */
  dropElements(): void {
    this.#isCarrying = true;
  }

  #takeElements(pieces: readonly Piece[], base: Expr | undefined, from: number, out: Statement[]): void {
    for (const [n, { at, evaluator }] of pieces.entries())
      for (const [i, input] of this.#inputs.entries()) {
        const slot = this.#slot(base, from + n, i);
        const v = declared('v', k.load(this.#memory, [slot], this.#lanes), out);
        evaluator.define(input, at, k.read(v));
      }
  }
}
