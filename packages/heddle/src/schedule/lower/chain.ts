/**
 * A row of several groups, one after the other, by a block. What a later group reads of an earlier one is in shared memory; sums of
 * a whole row are made by each warp for itself, so that nobody waits for them. Sums of a product are shared out among threads along
 * their terms, where there are more threads than sums, and put together through shuffles, always in the same order.
 */
import { topological } from '../../core/node.js';
import { argOf, type GraphNode } from '../../graph/node.js';
import type { Expr, MemoryNode, Statement } from '../../kernel/ir/ir.js';
import * as k from '../../kernel/ir/ir.js';
import { GPU } from '../../kernel/ir/target.js';
import type { Lanes } from '../../kernel/ir/types.js';
import type { RowLink, RowProduct } from '../group.js';
import { opOf } from './accumulate.js';
import { type Affine, slope } from './affine.js';
import { ChainRow, type SpreadChain } from './chain-row.js';
import { sharesOf } from './chain-shares.js';
import { ofTeam, quotient, remainder, shareOf, type Team } from './chain-sums.js';
import { type Coordinates, type Digit, type LoopAxis, loopSizes } from './coordinates.js';
import { Evaluator, type Vector } from './evaluate.js';
import {
  add,
  type Body,
  cut,
  declared,
  type Memories,
  powerOfTwo,
  settled,
  storesOf,
  THREAD,
  times,
  variable,
} from './lowering.js';
import { guarded, levelsOf, neededInside } from './members.js';
import { runsOf } from './movement.js';
import { joined } from './rows.js';

export function chainBody(
  roots: readonly GraphNode[],
  outputs: readonly MemoryNode[],
  chain: SpreadChain,
  memories: Memories,
): Body {
  const row: LoopAxis = { size: chain.rows, splits: new Set() };
  return settled([row], memories, () => new Chain(new ChainRow(roots, outputs, chain, memories, row)).body());
}

/** The elements of a row of a sum's source: those of a sum, and the sums. */
interface SumAxes {
  readonly columns: readonly LoopAxis[];
  readonly terms: readonly LoopAxis[];
  /** Where an element is. */
  readonly at: (columns: readonly Digit[][], terms: readonly Digit[][]) => Coordinates;
}

const sizeOf = (axes: readonly LoopAxis[]): number => axes.reduce((n, { size }) => n * size, 1);

/** Size of the innermost loop. */
const innermost = (axes: readonly LoopAxis[]): number =>
  axes.length > 0 ? loopSizes(axes.at(-1)!).at(-1)! : 1;

/** Neighbours along the innermost of some loops. */
const vectorOf = (digits: readonly Digit[][], lanes: Lanes): Vector | undefined =>
  lanes > 1 ? { atom: digits.at(-1)!.at(-1)!.value.terms[0]!.atom, lanes } : undefined;

class Chain {
  readonly #row: ChainRow;

  constructor(row: ChainRow) {
    this.#row = row;
  }

  body(): Body {
    const { links, rows } = this.#row.chain;
    links.forEach((link, i) => {
      this.#row.begin(link, links.slice(0, i), links.slice(i + 1));
      if (link.reduction) this.#reduce(link.reduction);
      if (link.product) this.#multiply(link.roots, link.product);
      else this.#elements(link.roots);
      this.#row.end();
    });
    return {
      statement: k.block([...this.#row.first, ...this.#row.out]),
      arrays: this.#row.arrays,
      grid: [rows, 1, 1],
      block: [this.#row.threads, 1, 1],
    };
  }

  /** The axes of what is reduced, kept from round to round. */
  #axesOf(sum: GraphNode): SumAxes {
    const [x] = sum.src as [GraphNode];
    const { axes } = argOf(sum, 'reduce');
    let dims = 0;
    for (let n = 1; n < this.#row.chain.rows; dims++) n *= x.shape[dims]!;
    const runs = runsOf(x.shape.slice(dims), (i) => axes.includes(i + dims)).map(({ size, marked }, i) => ({
      axis: this.#row.memories.axis(sum, i, size),
      marked,
    }));
    const of = (marked: boolean): LoopAxis[] => runs.flatMap((r) => (r.marked === marked ? [r.axis] : []));
    const [columns, terms] = [of(false), of(true)];
    const at = (ofColumn: readonly Digit[][], ofTerm: readonly Digit[][]): Coordinates => [
      ...this.#row.digits,
      ...runs.flatMap(({ axis, marked }) =>
        marked ? ofTerm[terms.indexOf(axis)]! : ofColumn[columns.indexOf(axis)]!,
      ),
    ];
    return { columns, terms, at };
  }

  /** Sums and the like of the whole row, by each warp, and what is made of them for all elements. */
  #reduce(reduction: NonNullable<RowLink['reduction']>): void {
    const out = this.#row.out;
    const rows = new Evaluator(this.#row.scope, undefined, out);
    const early = neededInside(reduction);
    for (const level of levelsOf(reduction))
      for (const node of level) {
        if (node.op === 'reduce') this.#row.held.set(node, this.#ofRow(node));
        else if (early.has(node))
          this.#row.held.set(node, k.read(declared('each', rows.value(node, this.#row.digits), out)));
      }
  }

  #ofRow(node: GraphNode): Expr {
    const out = this.#row.out;
    const { columns, terms: axes, at } = this.#axesOf(node);
    const count = sizeOf(axes);
    const size = Math.min(GPU.warp, powerOfTwo(count));
    const team: Team = { size, member: remainder(THREAD, size) };
    const term = (number: Expr, to: Statement[]): Expr => {
      const place = cut(declared('k', number, to), axes, 'k', to);
      return new Evaluator(this.#row.scope, undefined, to).value(
        node.src[0]!,
        at(
          columns.map(() => []),
          place,
        ),
      );
    };
    return ofTeam(node, shareOf(node, { count, lanes: 1, at: term }, team, out), team, 1, out);
  }

  /** The elements of a row of a product, and what is made of each. */
  #multiply(roots: readonly GraphNode[], product: RowProduct): void {
    const { sum } = product;
    const out = this.#row.out;
    const axes = this.#axesOf(sum);
    const [columns, terms] = [sizeOf(axes.columns), sizeOf(axes.terms)];
    const alongTerms = !this.#liesAlongColumns(sum, axes);
    const inner = { columns: innermost(axes.columns), terms: innermost(axes.terms) };
    const { lanes, team: size } = sharesOf({ columns, terms }, inner, alongTerms, this.#row.threads);
    const [ofColumn, ofTerm] = alongTerms ? ([1, lanes] as const) : ([lanes, 1] as const);
    // Threads side by side read what lies side by side.
    const apart = alongTerms || size === 1 ? 1 : GPU.warp / size;
    const team: Team = { size, member: quotient(remainder(THREAD, apart * size), apart) };
    const number = add(times(quotient(THREAD, apart * size), apart), remainder(THREAD, apart));
    const count = { columns: columns / ofColumn, terms: terms / ofTerm };
    const isFirst = size > 1 ? [k.alu('eq', [team.member, k.int(0)])] : [];
    this.#row.turns(count.columns, this.#row.threads / size, number, out, (place, inside, into) => {
      const column =
        inside && size > 1 ? k.alu('min', [k.read(place), k.int(count.columns - 1)]) : k.read(place);
      const body = inside && size === 1 ? [] : into;
      const ofColumns = cut(declared('c', times(column, ofColumn), body), axes.columns, 'c', body);
      const wide = vectorOf(ofColumns, ofColumn);
      const at = [...this.#row.digits, ...ofColumns.flat()];
      const evaluator = this.#resultsAt(roots, product, at, wide, body);
      const term = (number: Expr, to: Statement[]): Expr => {
        const ofTerms = cut(declared('k', times(number, ofTerm), to), axes.terms, 'k', to);
        const terms = new Evaluator(this.#row.scope, wide ?? vectorOf(ofTerms, ofTerm), to);
        return terms.value(sum.src[0]!, axes.at(ofColumns, ofTerms));
      };
      const share = shareOf(sum, { count: count.terms, lanes, at: term }, team, body);
      const one = alongTerms ? joined(opOf(sum), share) : share;
      const total = team.size > 1 ? ofTeam(sum, one, team, apart, body) : one;
      const stores: Statement[] = [];
      this.#finish(roots, product, { at, evaluator, total }, body, stores);
      const isInside = inside ? [inside] : [];
      if (body === into) into.push(guarded([...isInside, ...isFirst], stores));
      else into.push(guarded(isInside, [...body, ...stores]));
    });
  }

  /** What computes the results of a product at a place, with what they read there besides. */
  #resultsAt(
    roots: readonly GraphNode[],
    { call }: RowProduct,
    at: Coordinates,
    vector: Vector | undefined,
    out: Statement[],
  ): Evaluator {
    const evaluator = new Evaluator(this.#row.scope, vector, out);
    for (const node of this.#besideOf(call, roots)) evaluator.value(node, at);
    return evaluator;
  }

  /** The results of a product at a place, from the sum there. */
  #finish(
    roots: readonly GraphNode[],
    { call, composed, sum }: RowProduct,
    place: {
      readonly at: Coordinates;
      readonly evaluator: Evaluator;
      readonly total: Expr;
    },
    before: Statement[],
    out: Statement[],
  ): void {
    const { at } = place;
    place.evaluator.define(sum, at, k.read(declared('sum', place.total, before)));
    const evaluator = place.evaluator.within(out);
    evaluator.define(call, at, k.read(declared('v', evaluator.value(composed, at), out)));
    this.#row.store(roots, at, evaluator, out);
  }

  /** What is read from memory at the places of a call's elements: it is read before the sums, whose terms arrive meanwhile. */
  #besideOf(call: GraphNode, roots: readonly GraphNode[]): GraphNode[] {
    const isRead = (n: GraphNode): boolean => this.#row.scope.memory(n) !== undefined;
    const inPlace = (n: GraphNode): readonly GraphNode[] =>
      n === call || isRead(n) || !(n.op === 'map' || n.op === 'reshape' || n.op === 'detach') ? [] : n.src;
    return topological(roots, inPlace).filter(
      (n) => n.size === call.size && n !== call && !roots.includes(n) && inPlace(n).length === 0,
    );
  }

  /** Whether what a product reads for neighbouring columns lies side by side. */
  #liesAlongColumns(sum: GraphNode, axes: SumAxes): boolean {
    const loads: Affine[] = [];
    const evaluator = new Evaluator(
      { ...this.#row.scope, onLoad: ({ index }) => loads.push(index) },
      undefined,
      [],
    );
    const columns = cut(variable('c'), axes.columns, 'c', []);
    evaluator.value(sum.src[0]!, axes.at(columns, cut(variable('k'), axes.terms, 'k', [])));
    const last = columns.at(-1)?.at(-1)?.value.terms[0]?.atom;
    return last !== undefined && loads.some((index) => slope(index, last) === 1);
  }

  /** Elements of a row, and what it has one of. */
  #elements(roots: readonly GraphNode[]): void {
    const out = this.#row.out;
    const single = roots.filter(({ size }) => size === this.#row.chain.rows);
    const inside: Statement[] = [];
    const rows = new Evaluator(this.#row.scope, undefined, out);
    for (const root of single) {
      const v = declared('v', rows.value(root, this.#row.digits), out);
      this.#row.held.set(root, k.read(v));
      const output = this.#row.outputs.get(root);
      if (output) inside.push(...storesOf(output, k.read(v), root, this.#row.digits, rows));
    }
    if (inside.length > 0) out.push(guarded([k.alu('eq', [THREAD, k.int(0)])], inside));
    const wide = roots.filter((root) => !single.includes(root));
    for (const columns of new Set(wide.map(({ size }) => size / this.#row.chain.rows))) {
      const own = wide.filter(({ size }) => size / this.#row.chain.rows === columns);
      const axis = this.#row.memories.axis(own[0]!, 0, columns);
      this.#row.turns(columns, this.#row.threads, THREAD, out, (place, isInside, into) => {
        const body: Statement[] = [];
        const at = [...this.#row.digits, ...cut(place, [axis], 'c', body)[0]!];
        this.#row.store(own, at, new Evaluator(this.#row.scope, undefined, body), body);
        into.push(guarded(isInside ? [isInside] : [], body));
      });
    }
  }
}
