/**
 * A kernel's epilogue in two steps: what it loads, as soon as a thread knows which elements will
 * be its own, and the rest when their values are there. An optimizer's update waits for its parameters and state
 * while the product is summed, not after. A thread with several elements loads for all of them at once: a load behind the store of
 * another element waits for memory anew, since it might read what was stored.
 */
import { topological } from '../../core/node.js';
import { rewrite } from '../../core/rewrite.js';
import {
  type ArrayDecl,
  arrayNode,
  type Expr,
  int,
  load,
  type Node,
  read,
  type Statement,
  store,
  type Variable,
} from '../ir/ir.js';
import { type IrFunction, irFunction } from '../ir/ir-function.js';
import { Numbering } from './numbering.js';

export interface EarlyFinish {
  /** Loads for values and coordinates like those that `finish` will be given; of the values only their types count. */
  readonly early: IrFunction;
  /** As the original, from what `early` has loaded for the same coordinates. */
  readonly finish: IrFunction;
}

/**
 * Both as one element of a thread needs them; of several, each call has the number of the element before its other arguments.
 * @param elements that a thread loads for at once, if they are counted
 * @param values arguments of the original before its coordinates
 */
export function finishEarly(original: IrFunction, elements?: number, values = 1): EarlyFinish {
  const arrays: ArrayDecl[] = [];
  const isOfSeveral = elements !== undefined;
  const split = (args: readonly Expr[]) => {
    const [element, own] = isOfSeveral ? [args[0]!, args.slice(1)] : [int(0), args];
    return { element, own: own.slice(0, values), coordinates: own.slice(values) };
  };
  const early = irFunction((args, emit, reserve) => {
    const { element, own, coordinates } = split(args);
    const given = own.map(({ type }): Expr => {
      const variable: Variable = { name: 'own', type, constant: true };
      return read(variable);
    });
    loadsOf(original, isOfSeveral, given, coordinates, reserve).inOrder.forEach((node, i) => {
      const { dtype, lanes } = node.type;
      arrays[i] ??= { name: 'early', dtype, space: 'local', dims: [elements ?? 1], lanes };
      reserve(arrays[i]);
      emit(store(arrayNode(arrays[i]), node, [element]));
    });
    return own[0]!;
  });
  const finish = irFunction((args, emit, reserve) => {
    const { element, own, coordinates } = split(args);
    const { statements, result, numberOf } = loadsOf(original, isOfSeveral, own, coordinates, reserve);
    const fromLoaded = <N extends Node>(root: N): N =>
      rewrite<Node>(root, (n) => {
        const number = numberOf(n);
        return number === undefined ? undefined : load(arrayNode(arrays[number]!), [element]);
      }) as N;
    for (const statement of statements) emit(fromLoaded(statement));
    return fromLoaded(result);
  });
  return { early, finish };
}

/**
 * The epilogue, and what it loads from memory at places that follow from the coordinates alone: each load has a number. What several
 * elements of a thread share is not among it, which is in the cache after the first.
 */
function loadsOf(
  original: IrFunction,
  isOfSeveral: boolean,
  values: readonly Expr[],
  coordinates: readonly Expr[],
  reserve: (array: ArrayDecl) => void,
) {
  const statements: Statement[] = [];
  const result = original.build([...values, ...coordinates], (s) => statements.push(s), reserve);
  const given = variablesIn(coordinates);
  const last = variablesIn(coordinates.filter((c) => variablesIn([c]).size > 0).slice(-1));
  const isEarly = (node: Node): boolean => {
    const variables = [...variablesIn([node])];
    return variables.every((v) => given.has(v)) && (!isOfSeveral || variables.some((v) => last.has(v)));
  };
  const numbering = new Numbering();
  const keyOf = (node: Node): number => numbering.of(node, () => 0);
  const inOrder: Expr[] = [];
  const numbers = new Map<number, number>();
  for (const node of topological<Node>([...statements, result])) {
    if (node.op !== 'load' || node.src[0]!.op !== 'buffer') continue;
    if (numbers.has(keyOf(node)) || !isEarly(node)) continue;
    numbers.set(keyOf(node), inOrder.length);
    inOrder.push(node);
  }
  const numberOf = (node: Node): number | undefined =>
    node.op === 'load' ? numbers.get(keyOf(node)) : undefined;
  return { statements, result, inOrder, numberOf };
}

const variablesIn = (roots: readonly Node[]): Set<Variable> =>
  new Set(topological<Node>(roots).flatMap((n) => (n.op === 'variable' ? [n.arg] : [])));
