/** The operands of operations on memory that are not loads or stores: places, and the arguments after them. */
import type { IntrinsicRecord, PlaceKind } from './intrinsic-record.js';
import type { Expr, MemoryNode, Node } from './ir.js';

/** A memory and its indices. */
export interface OperandPlace {
  readonly kind: PlaceKind;
  readonly memory: MemoryNode;
  readonly indices: readonly Expr[];
}

/** How many indices a place has. */
export function indicesOf(kind: PlaceKind, { type }: MemoryNode): number {
  if (kind === 'array') return 0;
  return kind === 'sums' ? type.dims.length - 1 : type.dims.length;
}

/** The sources of an operation: its places, and its arguments after them. */
export function operandsOf(
  { places = [] }: IntrinsicRecord,
  src: readonly Node[],
): { readonly places: readonly OperandPlace[]; readonly values: readonly Expr[] } {
  let next = 0;
  const found = places.map((kind): OperandPlace => {
    const memory = src[next++] as MemoryNode;
    const indices = src.slice(next, next + indicesOf(kind, memory)) as Expr[];
    next += indices.length;
    return { kind, memory, indices };
  });
  return { places: found, values: src.slice(next) as Expr[] };
}
