/** What a block has of the row that it takes through a chain (chain.ts), and where it stores what it computes. */
import { topological } from '../../core/node.js';
import type { GraphNode } from '../../graph/node.js';
import type { ArrayDecl, Expr, MemoryNode, Statement, Variable } from '../../kernel/ir/ir.js';
import * as k from '../../kernel/ir/ir.js';
import { memoryOf, type RowChain, type RowLink } from '../group.js';
import { type Affine, plus, times as scaled, toExpr } from './affine.js';
import { chainThreads } from './chain-shares.js';
import { type Coordinates, type Digit, flatten, type LoopAxis } from './coordinates.js';
import type { Evaluator, LoopScope } from './evaluate.js';
import {
  add,
  BLOCK,
  cut,
  declared,
  lessThan,
  type Memories,
  scopeOf,
  storesOf,
  variable,
} from './lowering.js';
import { spreadWindows } from './spread.js';

/** Part of a row in shared memory. */
interface KeptRow {
  readonly memory: MemoryNode;
  readonly columns: number;
}

/** What some links read of what others make. */
function readBy(links: readonly RowLink[], makers: readonly RowLink[]): Set<GraphNode> {
  const made = new Set(makers.flatMap(({ roots }) => roots));
  const roots = links.flatMap((link) => link.roots);
  const below = topological(roots, (n) => (made.has(n) ? [] : n.src));
  return new Set(below.filter((n) => made.has(n)));
}

/** A chain, with windows that come from elements of its results. */
export interface SpreadChain extends RowChain {
  readonly spreads: readonly GraphNode[];
}

export class ChainRow {
  /** What comes first: where the row is, and what all its elements need. */
  readonly first: Statement[] = [];
  readonly #early = new Map<string, Variable>();
  /** All other statements. */
  readonly out: Statement[] = [];
  readonly arrays: ArrayDecl[] = [];
  readonly #locals = new Map<GraphNode, KeptRow>();
  /** What a row has one of, once it is computed: every thread has it. */
  readonly held = new Map<GraphNode, Expr>();
  readonly scope: LoopScope;
  /** Where the row is. */
  readonly digits: readonly Digit[];
  readonly threads: number;
  readonly chain: SpreadChain;
  readonly outputs: ReadonlyMap<GraphNode, MemoryNode>;
  readonly memories: Memories;
  /** What later links read. */
  #later: ReadonlySet<GraphNode> = new Set();
  /** Of the link that is being computed, and what has been stored in shared memory since the threads met. */
  readonly #pending = new Map<GraphNode, KeptRow>();
  readonly #unmet = new Set<GraphNode>();

  constructor(
    roots: readonly GraphNode[],
    outputs: readonly MemoryNode[],
    chain: SpreadChain,
    memories: Memories,
    axis: LoopAxis,
  ) {
    this.chain = chain;
    this.memories = memories;
    this.outputs = new Map(roots.map((root, i) => [root, outputs[i]!]));
    this.threads = chainThreads(chain.links, chain.rows);
    const row = declared('row', BLOCK, this.first);
    this.digits = cut(row, [axis], 'i', this.first)[0]!;
    const first = flatten(this.digits);
    this.scope = {
      ...scopeOf(memories, false),
      aligned: true,
      held: (node) => this.held.get(node),
      memory: (node) => this.#locals.get(node)?.memory ?? memories.memory(node),
      placed: (node, index) => {
        const local = this.#locals.get(node);
        return local ? plus(index, scaled(first, -local.columns)) : index;
      },
      loaded: (memory, index) => this.#ofRows(memory, index),
    };
  }

  /** What a link computes, from here on: the threads wait for what it reads of those before it. */
  begin(link: RowLink, before: readonly RowLink[], after: readonly RowLink[]): void {
    this.#later = readBy(after, [...before, link]);
    const reads = readBy([link], before);
    if (![...this.#unmet].some((node) => reads.has(node))) return;
    this.out.push(k.barrier());
    this.#unmet.clear();
  }

  /** It is computed: later links read what it has stored. */
  end(): void {
    for (const [node, local] of this.#pending) {
      this.#locals.set(node, local);
      this.#unmet.add(node);
    }
    this.#pending.clear();
  }

  /** An element that is the same for the whole row: every thread reads it at the beginning. */
  #ofRows(memory: MemoryNode, index: Affine): Expr | undefined {
    const ofRow = new Set(this.digits.flatMap(({ value }) => value.terms.map(({ atom }) => atom)));
    const isLocal = [...this.#locals.values()].some((local) => local.memory === memory);
    if (isLocal || !index.terms.every(({ atom }) => ofRow.has(atom))) return undefined;
    const key = JSON.stringify([
      memory.arg.name,
      index.constant,
      ...index.terms.map(({ atom, factor }) => [[...ofRow].indexOf(atom), factor]),
    ]);
    let read = this.#early.get(key);
    if (!read) {
      read = declared('of_row', k.load(memory, [toExpr(index)]), this.first);
      this.#early.set(key, read);
    }
    return k.read(read);
  }

  /** Shared memory for an element of each column. */
  array(name: string, { dtype }: GraphNode, columns: number): MemoryNode {
    const array: ArrayDecl = { name, dtype, space: 'shared', dims: [columns], lanes: 1 };
    this.arrays.push(array);
    return k.arrayNode(array);
  }

  /** Something for each of `count` places, `span` of them at a time: all threads take part, and some may be outside. */
  turns(
    count: number,
    span: number,
    own: Expr,
    out: Statement[],
    visit: (place: Variable, inside: Expr | undefined, into: Statement[]) => void,
  ): void {
    const whole = Math.floor(count / span);
    const at = (base: Expr | undefined, isPartial: boolean, into: Statement[]): void => {
      const place = declared('c', base ? add(own, base) : own, into);
      visit(place, isPartial ? lessThan(k.read(place), count) : undefined, into);
    };
    if (whole > 1) {
      const base = variable('base');
      const inside: Statement[] = [];
      at(k.read(base), false, inside);
      out.push(k.forLoop(base, k.int(0), k.int(whole * span), k.int(span), k.block(inside)));
    } else if (whole === 1) at(undefined, false, out);
    if (count % span !== 0) at(whole > 0 ? k.int(whole * span) : undefined, true, out);
  }

  /** The values of a row's elements at a place, stored for later links and for others. */
  store(roots: readonly GraphNode[], at: Coordinates, evaluator: Evaluator, out: Statement[]): void {
    const stores: Statement[] = [];
    const results: Statement[] = [];
    for (const root of roots) {
      const v = k.read(declared('v', evaluator.value(root, at), out));
      evaluator.define(root, at, v);
      const output = this.outputs.get(root);
      if (output) results.push(...storesOf(output, v, root, at, evaluator));
      if (!this.#later.has(root)) continue;
      const columns = root.size / this.chain.rows;
      let local = this.#pending.get(root);
      if (!local) {
        local = { memory: this.array('kept', root, columns), columns };
        this.#pending.set(root, local);
      }
      const index = plus(flatten(at), scaled(flatten(this.digits), -columns));
      stores.push(k.store(local.memory, v, [toExpr(index)]));
    }
    const place = {
      value: (n: GraphNode) => evaluator.value(n, at),
      index: flatten(at),
      along: evaluator.vector?.atom,
    };
    const windows = this.#spreadsOf(roots).map((node) =>
      spreadWindows(node, this.outputs.get(node)!, place, (s) => out.push(s)),
    );
    out.push(...stores, ...results);
    for (const store of windows) store();
  }

  /** Windows that come from elements of some results. */
  #spreadsOf(roots: readonly GraphNode[]): GraphNode[] {
    const isMade = (n: GraphNode): boolean => roots.includes(memoryOf(n, new Set(roots)));
    return this.chain.spreads.filter(({ src }) => src.some(isMade));
  }
}
