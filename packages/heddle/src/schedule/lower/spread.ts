/** Stores of windows, side by side, that come from one element each. */
import { callOf } from '../../graph/fused-op.js';
import type { GraphNode } from '../../graph/node.js';
import type { Expr, MemoryNode, Statement, Variable } from '../../kernel/ir/ir.js';
import * as k from '../../kernel/ir/ir.js';
import { type Affine, type Atom, divide, plus, shifted, times, toExpr } from './affine.js';

/** Elements of what windows come from. */
interface Elements {
  /** The value of a source: an element, or some neighbours. */
  readonly value: (source: GraphNode) => Expr;
  /** The number of the element, or of the first, which is a multiple of the lanes. */
  readonly index: Affine;
  /** What counts the lanes, if there are several. */
  readonly along: Atom | undefined;
}

/**
 * The windows of some elements, computed at once; what is returned emits their stores.
 * @param node one of `Group.spreads`
 */
export function spreadWindows(
  node: GraphNode,
  memory: MemoryNode,
  { value, index, along }: Elements,
  emit: (statement: Statement) => void,
): () => void {
  const { op, arg } = callOf(node);
  const from = op.spreads!(arg)!;
  const columns = node.src[0]!.shape.at(-1)!;
  const named = (name: string, v: Expr): Expr => {
    const variable: Variable = { name, type: v.type, constant: true };
    emit(k.declare(variable, v));
    return k.read(variable);
  };
  const [height, width] = from.sizes;
  const held = from.compute(node.src.map((s) => named('v', value(s)))).map((v) => named('w', v));
  const { lanes } = held[0]!.type;
  const element = (i: number, of: number): Expr => (lanes === 1 ? held[i]! : k.lane(held[i]!, of));
  // Neighbours in a row of windows are stored together.
  const together = columns % lanes === 0 ? lanes : 1;
  const run = together * width;
  const step = run % 4 === 0 ? 4 : run % 2 === 0 ? 2 : 1;
  return () => {
    for (let first = 0; first < lanes; first += together) {
      const { quotient: row, remainder: column } = divide(
        along ? shifted(index, along, first) : index,
        columns,
      );
      const place = named('at', toExpr(plus(times(row, height * width * columns), times(column, width))));
      for (let y = 0; y < height; y++) {
        const line = Array.from({ length: run }, (_, e) =>
          element(y * width + (e % width), first + Math.floor(e / width)),
        );
        for (let e = 0; e < run; e += step) {
          const v = step === 1 ? line[e]! : k.vector(line.slice(e, e + step));
          emit(k.store(memory, v, [k.alu('add', [place, k.int(y * width * columns + e)])]));
        }
      }
    }
  };
}
