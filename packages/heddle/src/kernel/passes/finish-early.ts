/**
 * A kernel's epilogue in two steps: what it loads, as soon as a thread knows which elements will
 * be its own, and the rest when their values are there. An optimizer's update waits for its parameters and state
 * while the product is summed, not after.
 */
import { topological } from '../../core/node.js';
import { rewrite } from '../../core/rewrite.js';
import { declare, type Expr, type Node, read, type Statement, type Variable } from '../ir/ir.js';
import { type IrFunction, irFunction } from '../ir/ir-function.js';
import { Numbering } from './numbering.js';

export interface EarlyFinish {
  /** Loads for a value and coordinates like those that `finish` will be given; of the value only its type counts. */
  readonly early: IrFunction;
  /** As the original, from what was loaded. Other coordinates than `early` had load for themselves. */
  readonly finish: IrFunction;
}

export function finishEarly(original: IrFunction): EarlyFinish {
  const numbering = new Numbering();
  const keyOf = (node: Node): number => numbering.of(node, () => 0);
  const loaded = new Map<number, Expr>();
  const early = irFunction(([value, ...coordinates], emit) => {
    const own: Variable = { name: 'own', type: value!.type, constant: true };
    const statements: Statement[] = [];
    const result = original.build([read(own), ...coordinates], (s) => statements.push(s));
    const given = variablesIn(coordinates);
    loaded.clear();
    for (const node of topological<Node>([...statements, result])) {
      if (node.op !== 'load' || node.src[0]!.op !== 'buffer') continue;
      const key = keyOf(node);
      if (loaded.has(key) || [...variablesIn([node])].some((v) => !given.has(v))) continue;
      const variable: Variable = { name: 'early', type: node.type, constant: true };
      emit(declare(variable, node));
      loaded.set(key, read(variable));
    }
    return value!;
  });
  const finish = irFunction((args, emit) => {
    const fromLoaded = <N extends Node>(root: N): N =>
      rewrite<Node>(root, (n) => (n.op === 'load' ? loaded.get(keyOf(n)) : undefined)) as N;
    return fromLoaded(original.build(args, (s) => emit(fromLoaded(s))));
  });
  return { early, finish };
}

const variablesIn = (roots: readonly Node[]): Set<Variable> =>
  new Set(topological<Node>(roots).flatMap((n) => (n.op === 'variable' ? [n.arg] : [])));
