/** The places that operations of the copy engine and of warpgroups work on: `tmaLoad(as, stage, 0, 0, a, row, k, full, stage)`. */
import type { CallExpression, Expression } from 'acorn';
import type { DType } from '../../core/dtype.js';
import { sizeOf } from '../../core/shape.js';
import { WGMMA_OPERANDS, WGMMA_WORDS } from '../ir/asynchronous.js';
import type { PlaceKind } from '../ir/intrinsic-record.js';
import type { Intrinsic } from '../ir/intrinsics.js';
import type { Expr, MemoryNode } from '../ir/ir.js';
import { indicesOf, isHeld, mapOf, type OperandPlace } from '../ir/operands.js';
import type { Parsing } from './state.js';
import { describeValue, toIndex } from './typing.js';
import { fromExpr, VOID } from './values.js';

/** What stands at a place, for people. */
const NOUNS: Readonly<Record<PlaceKind, string>> = {
  barrier: 'one of mbarriers(n)',
  shared: 'a place in a shared array of numbers of 4 or 8 bytes',
  tile: 'a place in a sharedTile(dtype, …)',
  source: 'a place in a tensorMap parameter',
  target: 'a place in a tensorMap parameter',
  sums: 'a local array of f32 or i32',
  left: 'a place in a sharedTile(dtype, …) or in a local array of u32, of rows of 4,',
  array: 'a local array of f32, i32 or u32',
};

/** What a thread can store in another block's memory. */
const isSent = ({ bytes }: DType): boolean => bytes === 4 || bytes === 8;

const fits = (kind: PlaceKind, memory: MemoryNode): boolean => {
  if (kind === 'source' || kind === 'target') return mapOf(memory) !== undefined;
  if (memory.op !== 'array') return false;
  const { form, space, dtype, lanes } = memory.arg;
  if (kind === 'tile') return form === 'tile';
  if (kind === 'barrier') return form === 'barriers';
  if (kind === 'shared') return space === 'shared' && form === undefined && lanes === 1 && isSent(dtype);
  if (kind === 'left' && form === 'tile') return true;
  if (space !== 'local' || lanes !== 1) return false;
  if (kind === 'left') return dtype.name === 'u32' && memory.type.dims.at(-1) === WGMMA_WORDS;
  return dtype.name === 'f32' || dtype.name === 'i32' || (kind === 'array' && dtype.name === 'u32');
};

/** Parse the places among a call's arguments; `count` of them belong to places. */
export function placesOf(
  p: Parsing,
  node: CallExpression,
  name: Intrinsic,
  kinds: readonly PlaceKind[],
  args: readonly Expression[],
): { readonly places: readonly OperandPlace[]; readonly count: number } {
  let count = 0;
  const places = kinds.map((kind): OperandPlace => {
    const first = args[count++];
    const base = first ? p.expression(first) : VOID;
    if (base.kind !== 'memory' || !fits(kind, base.memory))
      return p.fail(first ?? node, `${name} takes ${NOUNS[kind]} here, got ${describeValue(base)}.`);
    const keys = args.slice(count, count + indicesOf(kind, base.memory));
    if (keys.length < indicesOf(kind, base.memory))
      p.fail(
        node,
        `${base.name} takes ${indicesOf(kind, base.memory)} indices in ${name}, got ${keys.length}.`,
      );
    count += keys.length;
    const indices = p
      .inOrder(keys.map((key) => () => fromExpr(toIndex(p, key, p.expression(key)))))
      .map((v, i) => toIndex(p, keys[i]!, v));
    return { kind, memory: base.memory, indices };
  });
  return { places, count };
}

/** What the places of an operation must have in common. */
export function requirePlaces(
  p: Parsing,
  node: CallExpression,
  name: Intrinsic,
  places: readonly OperandPlace[],
  values: readonly Expr[],
): void {
  const [first, second, third] = places.map(({ memory }) => memory);
  if (name === 'tmaLoad' || name === 'tmaLoadMulticast') requireBox(p, node, name, first!, second!);
  if (name === 'tmaStore') requireBox(p, node, name, second!, first!);
  if (name === 'wgmma')
    requireProduct(
      p,
      node,
      first!,
      second!,
      third!,
      values.slice(0, 2).map((v) => v.op === 'const' && v.arg === true),
    );
}

function requireBox(
  p: Parsing,
  node: CallExpression,
  name: string,
  tile: MemoryNode,
  memory: MemoryNode,
): void {
  const { box, sizes, walk } = mapOf(memory)!;
  const isWhole =
    walk?.from.every((n, d) => n === 0 && walk.counts[d] === sizes[d + 1]) &&
    (walk?.steps ?? []).every((n) => n === 1);
  if (name === 'tmaStore' && walk && !isWhole)
    p.fail(
      node,
      'tmaStore walks over all pixels of images: from 0 on, as many as the sizes say, without steps.',
    );
  const [{ dims, dtype }, { dtype: other }] = [tile.type, memory.type];
  if (dtype !== other)
    p.fail(node, `${name} keeps the dtype: the tile is ${dtype.name}, the map ${other.name}.`);
  // However many dimensions its rows have, they may be rows of one panel.
  if (box.at(-1) === dims.at(-1) && sizeOf(box.slice(0, -1)) <= dims.at(-2)!) return;
  const inner = box.slice(-dims.length);
  const isInside = inner.every((n, i) => n <= dims.at(i - inner.length)!);
  if (box.slice(0, -inner.length).some((n) => n !== 1) || !isInside || box.at(-1) !== dims.at(-1))
    p.fail(
      node,
      `${name}: a box of (${box}) does not lie in a tile of (${dims}). The last sizes are equal, the others no larger.`,
    );
  // The rows of the box are neighbours in memory: all dimensions between the first that is cut and the last are whole.
  const cut = inner.findIndex((n) => n > 1);
  if (inner.some((n, i) => i > cut && n !== dims.at(i - inner.length)!))
    p.fail(node, `${name}: the rows of a box of (${box}) are not neighbours in a tile of (${dims}).`);
}

function requireProduct(
  p: Parsing,
  node: CallExpression,
  sums: MemoryNode,
  a: MemoryNode,
  b: MemoryNode,
  transposed: readonly boolean[],
): void {
  const { dtype } = b.type;
  const held = isHeld('left', a);
  if (held && transposed[0])
    p.fail(node, 'wgmma takes a left operand in registers as words along k, not transposed.');
  const wanted = WGMMA_OPERANDS[dtype.name];
  if ((!held && a.type.dtype !== dtype) || !wanted)
    p.fail(
      node,
      `wgmma multiplies tiles of one dtype, ${Object.keys(WGMMA_OPERANDS).join(', ')}: got ${a.type.dtype.name} and ${dtype.name}.`,
    );
  if (sums.type.dtype.name !== wanted)
    p.fail(
      node,
      `wgmma adds products of ${dtype.name} to sums of ${wanted}: got a local array of ${sums.type.dtype.name}.`,
    );
  if (dtype.bytes !== 2 && transposed.some((t) => t))
    p.fail(
      node,
      `wgmma takes tiles of ${dtype.name} as (row of the product, k) only: they cannot be transposed.`,
    );
  const columns = 2 * sums.type.dims.at(-1)!;
  if (columns % 8 !== 0 || columns > 256)
    p.fail(
      node,
      `wgmma adds to 4 to 128 sums of a thread, a multiple of 4: got ${columns / 2}. They are half the columns of the product.`,
    );
  if (wanted === 'i32' && columns > 32 && columns % 16 !== 0)
    p.fail(
      node,
      `wgmma adds to sums of i32, where there are more than 16, by a multiple of 8: got ${columns / 2}.`,
    );
}
