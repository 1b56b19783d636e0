/**
 * What the threads of a strip of columns (strips.ts) have of its reductions, put together: those of a warp by shuffles, the warps of
 * a block through shared memory. The blocks of a cluster send what they have to each other, and wait at an mbarrier for what
 * comes: a barrier of the cluster would have every thread wait for all that it has read and written. Always in the same order.
 */
import { i64 } from '../../core/dtype.js';
import type { GraphNode } from '../../graph/node.js';
import type { ArrayDecl, Expr, MemoryNode, Statement, Variable } from '../../kernel/ir/ir.js';
import * as k from '../../kernel/ir/ir.js';
import { opOf } from './accumulate.js';
import { add, BLOCK, declared, lessThan, THREAD, times } from './lowering.js';
import type { MatrixKernel } from './matrix-kernel.js';
import { guarded, reductionLevels } from './members.js';
import { rowsOfWarp, type Strips } from './strip-shares.js';

export class StripSums {
  readonly #kernel: MatrixKernel;
  readonly #shares: Strips;
  /** The thread's number among those side by side, and among those of its block above each other. */
  readonly #x: Variable;
  readonly #y: Variable;
  /** Of a cluster, for what the blocks send: an mbarrier for each time that they do. */
  readonly #full: MemoryNode | undefined;
  #exchanges = 0;

  constructor(kernel: MatrixKernel, shares: Strips, x: Variable, y: Variable) {
    this.#kernel = kernel;
    this.#shares = shares;
    this.#x = x;
    this.#y = y;
    if (shares.blocks > 1) this.#full = this.#begin();
  }

  /** Tell the mbarriers what comes, before another block sends it. */
  #begin(): MemoryNode {
    const { across, lanes, blocks } = this.#shares;
    const levels = reductionLevels(this.#kernel.reduction);
    const array: ArrayDecl = {
      ...{ name: 'full', dtype: i64, space: 'shared', dims: [levels.length], lanes: 1, form: 'barriers' },
    };
    this.#kernel.arrays.push(array);
    const full = k.arrayNode(array);
    const begun = levels.flatMap((level, i) => {
      const bytes = level.reduce((n, { dtype }) => n + dtype.bytes, 0) * across * lanes * blocks;
      const at = [full, k.int(i)];
      return [k.act('initBarrier', [...at, k.int(1)]), k.act('arriveExpect', [...at, k.int(bytes)])];
    });
    this.#kernel.out.push(guarded([k.alu('eq', [THREAD, k.int(0)])], begun), k.act('arriveCluster', []));
    return full;
  }

  /** The values of all threads of the same columns, held in each of them. */
  together(nodes: readonly GraphNode[], own: readonly Expr[]): void {
    const { across, down, blocks } = this.#shares;
    const { out, held } = this.#kernel;
    const rows = rowsOfWarp(across);
    const groups = down / rows;
    let found = nodes.map((node, i) => this.#butterfly(node, own[i]!, rows, out));
    // Of a block in a cluster the first warp, or the first threads side by side, put together what its warps have.
    const inside: Statement[] = [];
    if (groups > 1) {
      const parts = this.#parts(nodes, groups);
      const group = k.alu('idiv', [k.read(this.#y), k.int(rows)]);
      const isFirst = rows === 1 ? [] : [k.alu('eq', [this.#inWarp, k.int(0)])];
      out.push(guarded(isFirst, this.#put(parts, group, found)), k.barrier());
      found = this.#joined(nodes, parts, groups, blocks === 1 ? out : inside);
    }
    if (blocks > 1) found = this.#exchanged(nodes, found, inside);
    nodes.forEach((node, i) => {
      held.set(node, found[i]!);
    });
  }

  /** What all blocks of the cluster have, of which each knows its own. @param inside what its first threads do before */
  #exchanged(nodes: readonly GraphNode[], own: readonly Expr[], inside: Statement[]): Expr[] {
    const { across, blocks, lanes } = this.#shares;
    const { out } = this.#kernel;
    const full = [this.#full!, k.int(this.#exchanges)];
    const rank = k.alu('mod', [BLOCK, k.int(blocks)]);
    const parts = this.#parts(nodes, blocks);
    const rows = rowsOfWarp(across);
    for (let n = 0; n < blocks; n += rows) {
      const to = rows === 1 ? k.int(n) : add(this.#inWarp, k.int(n));
      const sends = parts.flatMap((part, i) =>
        Array.from({ length: lanes }, (_, lane) => {
          const value = lanes === 1 ? own[i]! : k.lane(own[i]!, lane);
          return k.act('storeRemote', [part, rank, add(this.#place, k.int(lane)), ...full, value, to]);
        }),
      );
      inside.push(guarded(rows > blocks ? [lessThan(this.#inWarp, blocks)] : [], sends));
    }
    // All blocks have begun by then.
    if (this.#exchanges++ === 0) out.push(k.act('waitCluster', []));
    out.push(k.when(lessThan(k.read(this.#y), rows), k.block(inside)));
    out.push(k.act('waitBarrier', [...full, k.int(0)]));
    return this.#joined(nodes, parts, blocks, out);
  }

  /** The thread's number among those of its warp above each other. */
  get #inWarp(): Expr {
    return k.alu('mod', [k.read(this.#y), k.int(rowsOfWarp(this.#shares.across))]);
  }

  /** The first of the thread's columns, in the strip. */
  get #place(): Expr {
    return times(k.read(this.#x), this.#shares.lanes);
  }

  /** Shared memory for values of the columns, `count` of each reduction. */
  #parts(nodes: readonly GraphNode[], count: number): MemoryNode[] {
    const { across, lanes } = this.#shares;
    return this.#kernel.parts(nodes, [count, across * lanes]);
  }

  #put(parts: readonly MemoryNode[], number: Expr, values: readonly Expr[]): Statement[] {
    return parts.map((part, i) => k.store(part, values[i]!, [number, this.#place]));
  }

  /** `count` values of each reduction as one. The threads of a warp above each other read some each. */
  #joined(
    nodes: readonly GraphNode[],
    parts: readonly MemoryNode[],
    count: number,
    out: Statement[],
  ): Expr[] {
    const { across, lanes } = this.#shares;
    const side = Math.min(rowsOfWarp(across), count);
    const mine = k.alu('mod', [this.#inWarp, k.int(side)]);
    return nodes.map((node, i) => {
      const read = Array.from({ length: count / side }, (_, n) =>
        k.load(parts[i]!, [n === 0 ? mine : add(mine, k.int(n * side)), this.#place], lanes),
      );
      return this.#butterfly(node, inPairs(node, read), side, out);
    });
  }

  /** The values of `width` threads of a warp above each other, in each of them. */
  #butterfly(node: GraphNode, from: Expr, width: number, out: Statement[]): Expr {
    const { across, lanes } = this.#shares;
    let v = k.read(declared('s', from, out));
    for (let by = width / 2; by >= 1; by /= 2) {
      const others = Array.from({ length: lanes }, (_, i) =>
        k.intrinsic('shuffleXor', [lanes === 1 ? v : k.lane(v, i), k.int(by * across)], node.dtype),
      );
      const other = lanes === 1 ? others[0]! : k.vector(others);
      v = k.read(declared('s', joining(node)(v, other), out));
    }
    return v;
  }
}

export const joining =
  (node: GraphNode) =>
  (a: Expr, b: Expr): Expr =>
    k.alu(opOf(node), [a, b]);

/** Neighbours first, then their results. */
export function inPairs(node: GraphNode, terms: readonly Expr[]): Expr {
  if (terms.length === 1) return terms[0]!;
  const middle = Math.ceil(terms.length / 2);
  return joining(node)(inPairs(node, terms.slice(0, middle)), inPairs(node, terms.slice(middle)));
}
