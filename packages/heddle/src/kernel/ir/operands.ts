/** The operands of operations on memory that are not loads or stores: places, and the arguments after them. */
import type { IntrinsicRecord, PlaceKind } from './intrinsic-record.js';
import type { Expr, MemoryNode, Node } from './ir.js';
import type { BufferSchema, TensorMap } from './types.js';

/** A memory and its indices. */
export interface OperandPlace {
  readonly kind: PlaceKind;
  readonly memory: MemoryNode;
  readonly indices: readonly Expr[];
}

/** The layout of a tensor map's parameter. */
export const mapOf = (memory: MemoryNode): TensorMap | undefined =>
  memory.op === 'buffer' ? (memory.arg.schema as BufferSchema).map : undefined;

/** Whether an operand is in registers, 4 words of each thread. */
export const isHeld = (kind: PlaceKind, { type }: MemoryNode): boolean =>
  kind === 'left' && type.space === 'local';

/** How many indices a place has. Where pixels are read, offsets from them come after, of all but image and channel. */
export function indicesOf(kind: PlaceKind, memory: MemoryNode): number {
  const { length } = memory.type.dims;
  if (kind === 'array') return 0;
  if (kind === 'sums' || isHeld(kind, memory)) return length - 1;
  return kind === 'source' && mapOf(memory)?.walk ? 2 * length - 2 : length;
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
