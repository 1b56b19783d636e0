/** Local arrays whose indices are all constants become variables: the registers of an accumulator tile. */
import { preorder, topological } from '../../core/node.js';
import { rewrite } from '../../core/rewrite.js';
import {
  type ArrayDecl,
  block,
  declare,
  type Expr,
  type KernelIr,
  type MemoryNode,
  type Node,
  read,
  type Statement,
  set,
  type Variable,
  zeroOf,
} from '../ir/ir.js';
import { value } from '../ir/types.js';

export function promote(ir: KernelIr): KernelIr {
  const candidates = new Set(ir.arrays.filter((a) => a.space === 'local'));
  if (candidates.size === 0) return ir;
  // An array that is met other than under a constant index stays memory.
  const others = (node: Node): readonly Node[] => {
    const at = accessOf(node);
    return at?.index === undefined ? node.src : at.others;
  };
  for (const node of topological<Node>([ir.body], others))
    if (node.op === 'array') candidates.delete(node.arg);
  if (candidates.size === 0) return ir;
  const registers = new Map<ArrayDecl, Map<number, Variable>>();
  const registerOf = (array: ArrayDecl, index: number): Variable => {
    const elements = registers.get(array) ?? new Map<number, Variable>();
    registers.set(array, elements);
    const known = elements.get(index);
    if (known) return known;
    const variable = {
      name: `${array.name}_${index}`,
      type: value(array.dtype, array.lanes),
      constant: false,
    };
    elements.set(index, variable);
    return variable;
  };
  const promoted = (node: Node): Variable | undefined => {
    const at = accessOf(node);
    return at?.index !== undefined && candidates.has(at.array) ? registerOf(at.array, at.index) : undefined;
  };
  // Registers are declared in the order in which the arrays are met.
  for (const node of preorder<Node>([ir.body])) promoted(node);
  const body = rewrite<Node>(ir.body, (node) => {
    const variable = promoted(node);
    if (!variable) return undefined;
    return node.op === 'store' ? set(variable, node.src[1] as Expr, node.at) : read(variable, node.at);
  }) as Statement;
  const lets = [...registers.values()].flatMap((elements) =>
    [...elements.entries()].sort(([a], [b]) => a - b).map(([, v]) => declare(v, zeroOf(v.type), ir.body.at)),
  );
  return {
    ...ir,
    arrays: ir.arrays.filter((a) => !candidates.has(a)),
    body: block([...lets, ...(body.src as readonly Statement[])], ir.body.at),
  };
}

interface ArrayAccess {
  readonly array: ArrayDecl;
  /** The element in row-major order, if its place is constant and in range, and it is accessed as a whole. */
  readonly index: number | undefined;
  /** What else the access reads: the value of a store. */
  readonly others: readonly Node[];
}

export function accessOf(node: Node): ArrayAccess | undefined {
  if (node.op !== 'load' && node.op !== 'store') return undefined;
  const memory = node.src[0] as MemoryNode;
  if (memory.op !== 'array') return undefined;
  const array = memory.arg;
  const stored = node.op === 'store' ? (node.src[1] as Expr) : undefined;
  const indices = node.src.slice(stored ? 2 : 1) as readonly Expr[];
  const { lanes } = (stored ?? (node as Expr)).type;
  let index: number | undefined = lanes === array.lanes ? 0 : undefined;
  indices.forEach((e, d) => {
    const i = e.op === 'const' ? Number(e.arg) : -1;
    const inside = i >= 0 && i < array.dims[d]!;
    index = index === undefined || !inside ? undefined : index * array.dims[d]! + i;
  });
  return { array, index, others: stored ? [stored] : [] };
}
