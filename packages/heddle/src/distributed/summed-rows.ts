/**
 * Gradients that are sums of rows, as that of an embedding: each rank has a row for each position of its batch, and what they add
 * up to is a table of all rows. Where the rows of all ranks are fewer bytes than twice the table, the ranks exchange them, and each
 * adds them up itself, all of them in the same order and so to the same bits. PyTorch does so for embeddings with `sparse`.
 */
import { isFloat } from '../core/dtype.js';
import * as b from '../graph/build.js';
import { callOf } from '../graph/fused-op.js';
import type { GraphNode } from '../graph/node.js';
import { allGatherOf } from './collective-op.js';

/** What the ranks exchange for a sum. */
export class SummedRows {
  /** As many bytes of an all-reduce take as long. */
  readonly bytes: number;
  readonly #sum: GraphNode;
  readonly #ranks: readonly number[];
  /** Of all ranks, by the sources. */
  readonly #gathered = new Map<GraphNode, GraphNode>();

  private constructor(sum: GraphNode, ranks: readonly number[], bytes: number) {
    this.#sum = sum;
    this.#ranks = ranks;
    this.bytes = bytes;
  }

  /** Undefined for a gradient that is something else, or of fewer bytes by itself. */
  static of(gradient: GraphNode, ranks: readonly number[]): SummedRows | undefined {
    if (gradient.isLeaf || gradient.op !== 'call') return undefined;
    const { op, arg } = callOf(gradient);
    if (!op.sumsRows?.(arg)) return undefined;
    // An all-reduce of n ranks has each of them send 2 (n − 1) / n of its bytes, and to gather has n − 1 times those of a source.
    const rows = gradient.src.reduce((sum, { size, dtype }) => sum + size * dtype.bytes, 0);
    const bytes = (rows * ranks.length) / 2;
    return bytes < gradient.size * gradient.dtype.bytes ? new SummedRows(gradient, ranks, bytes) : undefined;
  }

  /** Exchange where the rows belong. No gradient is needed for that: it comes before them. */
  gatherPlaces(): void {
    for (const source of this.#sum.src) if (!isFloat(source.dtype)) this.#gather(source);
  }

  /** Exchange the rows. @returns the sum over the ranks */
  sum(): GraphNode {
    const { op, arg } = callOf(this.#sum);
    return b.call(
      op,
      this.#sum.src.map((source) => this.#gathered.get(source) ?? this.#gather(source)),
      arg,
    );
  }

  #gather(source: GraphNode): GraphNode {
    const [first = 1, ...rest] = source.shape;
    const flat = allGatherOf(source, { ranks: this.#ranks });
    const all = b.reshape(flat, [this.#ranks.length * first, ...rest]);
    this.#gathered.set(source, all);
    return all;
  }
}
