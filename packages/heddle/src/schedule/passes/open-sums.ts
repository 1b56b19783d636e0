/** Sums of columns as the kernel is given them that stores what they are of: see column-sums.ts. */
import type { ColumnSums } from '../../graph/fused-op.js';
import type { GraphNode } from '../../graph/node.js';
import type { Expr, MemoryNode, Statement } from '../../kernel/ir/ir.js';
import * as k from '../../kernel/ir/ir.js';
import { irFunction } from '../../kernel/ir/ir-function.js';
import { type Group, sumsOf } from '../group.js';
import { atom, ofAtom, toExpr } from '../lower/affine.js';
import { type Coordinates, flatten } from '../lower/coordinates.js';
import { Evaluator, type LoopScope } from '../lower/evaluate.js';
import { reductionLevels } from '../lower/members.js';

/**
 * What a kernel is given of the sums beside its call.
 * @param scope of its epilogue
 * @param beside as the kernel brings them
 * @param memoryOf where a result is stored
 */
export function openSums(
  group: Group,
  scope: LoopScope,
  beside: readonly GraphNode[],
  memoryOf: (root: GraphNode) => MemoryNode,
): ColumnSums {
  const [made] = group.roots as [GraphNode];
  const reduction = group.reduction!;
  const [parts, rows, columns] = reduction.structure.runs.map(({ size }) => size) as [number, number, number];
  const levels = reductionLevels(reduction);
  const nodes = levels.flat();
  const results = sumsOf(group);
  /** What computes with these sums at a place whose last coordinate is that of a column. */
  const evaluate = (place: readonly (readonly [Expr, number])[], sums: readonly Expr[], emit: Emit) => {
    const atoms = place.map(([at, size]) => atom(at, Math.max(2, size)));
    const at: Coordinates = atoms.map((a, i) => ({ size: place[i]![1], value: ofAtom(a) }));
    const { lanes } = sums[0]!.type;
    const held = new Map(nodes.map((node, i) => [node, sums[i]!]));
    const before: Statement[] = [];
    const evaluator = new Evaluator(
      { ...scope, held: (node) => held.get(node) },
      lanes > 1 ? { atom: atoms.at(-1)!, lanes } : undefined,
      before,
    );
    const value = (node: GraphNode): Expr => {
      const computed = evaluator.value(node, at);
      for (const statement of before.splice(0)) emit(statement);
      return computed;
    };
    return { at, evaluator, value };
  };
  const term = irFunction(([number, value, part, row, column, ...given], emit) => {
    const node = nodes[number!.arg as number]!;
    const place = [[part!, parts] as const, [row!, rows] as const, [column!, columns] as const];
    const sums = given.slice(0, nodes.length);
    const computing = evaluate(place, sums, emit);
    computing.evaluator.define(made, computing.at, value!);
    given.slice(nodes.length, nodes.length + beside.length).forEach((brought, i) => {
      computing.evaluator.define(beside[i]!, computing.at, brought);
    });
    return computing.value(node.src[0]!);
  });
  const store = irFunction(([part, column, ...sums], emit) => {
    const { at, value } = evaluate([[part!, parts] as const, [column!, columns] as const], sums, emit);
    for (const root of results) emit(k.store(memoryOf(root), value(root), [toExpr(flatten(at))]));
    return k.int(0);
  });
  const numbers = levels.map((level) => level.map((node) => nodes.indexOf(node)));
  return { levels: numbers.filter((level) => level.length > 0), term, store };
}

type Emit = (statement: Statement) => void;
