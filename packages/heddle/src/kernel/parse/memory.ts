/** `x[i]`, `tile[r][c]`, `p.x`, `threadIdx.x`; declarations of shared and local arrays; wide loads and stores. */
import type { CallExpression, Expression, MemberExpression, Super } from 'acorn';
import { i64 } from '../../core/dtype.js';
import { sizeOf } from '../../core/shape.js';
import {
  type ArrayDecl,
  arrayNode,
  type Expr,
  int,
  load,
  type MemoryNode,
  type StoreWay,
  select,
  store,
  zeroOf,
} from '../ir/ir.js';
import { H200 } from '../ir/target.js';
import { type Lanes, TILE_ROWS } from '../ir/types.js';
import { missingFrom } from './advice.js';
import type { Parsing } from './state.js';
import { assignable, describeValue, isDType, staticOf, toCondition, toIndex } from './typing.js';
import { fromExpr, fromStatic, type Syntax, type Value, VOID } from './values.js';

/** A place in memory: `memory[indices[0]][indices[1]]…`. */
export interface ElementRef {
  readonly memory: MemoryNode;
  readonly name: string;
  readonly indices: readonly Expr[];
}

export function member(p: Parsing, node: MemberExpression): Value {
  if (node.computed) {
    const { root, keys } = chain(p, node);
    const base = p.expression(root);
    if (base.kind === 'memory') {
      const { memory, indices } = elementOf(p, node, base, keys);
      return fromExpr(load(memory, indices, 1, p.at(node)));
    }
    return keys.reduce<Value>((v, key) => entry(p, node, v, key), base);
  }
  const object = p.expression(objectOf(p, node));
  const name = node.property.type === 'Identifier' ? node.property.name : p.textOf(node.property);
  if (object.kind === 'record') {
    return object.get(name) ?? p.fail(node.property, missingFrom(p, object, name));
  }
  if (
    object.kind === 'static' &&
    typeof object.value === 'object' &&
    object.value !== null &&
    !isDType(object.value)
  ) {
    const found = (object.value as Readonly<Record<string, unknown>>)[name];
    if (found !== undefined) return fromStatic(found);
  }
  if (object.kind === 'memory' && name === 'length') {
    return p.fail(node, `a kernel does not know the length of ${object.name}: pass it as an i32 parameter.`);
  }
  return p.fail(node.property, `${describeValue(object)} has no member \`${name}\`.`);
}

/** The place that `x[i][j]` names, to be assigned. */
export function element(p: Parsing, node: MemberExpression): ElementRef {
  const { root, keys } = chain(p, node);
  const base = p.expression(root);
  if (base.kind === 'memory' && keys.length > 0) return elementOf(p, node, base, keys);
  return p.fail(node, `only elements of memory can be assigned, not ${describeValue(base)}.`);
}

function objectOf(p: Parsing, node: MemberExpression): Expression {
  return node.object.type === 'Super'
    ? p.fail(node, '`super` is not part of the kernel language.')
    : node.object;
}

/** The computed members around a root, outermost index first. */
function chain(p: Parsing, node: MemberExpression): { root: Expression; keys: Expression[] } {
  const keys: Expression[] = [];
  let root: Expression | Super = node;
  while (root.type === 'MemberExpression' && root.computed) {
    if (root.property.type !== 'PrivateIdentifier') keys.unshift(root.property);
    root = objectOf(p, root);
  }
  return { root, keys };
}

/** An entry of a constant array: its index must be known as well. */
function entry(p: Parsing, node: Syntax, v: Value, key: Expression): Value {
  if (v.kind !== 'static' || !Array.isArray(v.value)) {
    return p.fail(node, `${describeValue(v)} cannot be indexed.`);
  }
  const index = constantOf(p, key, p.expression(key), 'the index of a constant array');
  if (!(index in v.value))
    p.fail(key, `index ${index} is outside the constant array of ${v.value.length} entries.`);
  return fromStatic(v.value[index]);
}

/** Memory that is only for the copy engine and for barriers. */
const isWhole = (memory: MemoryNode): boolean =>
  memory.op === 'buffer' ? memory.type.dims.length > 0 : memory.arg.form === 'barriers';

export function elementOf(
  p: Parsing,
  node: Syntax,
  base: Extract<Value, { kind: 'memory' }>,
  keys: readonly Expression[],
): ElementRef {
  if (isWhole(base.memory))
    p.fail(
      node,
      `${base.name} has no elements: ${base.memory.op === 'buffer' ? 'tmaLoad and tmaStore copy it' : 'arrive and waitBarrier take it'}.`,
    );
  const wanted = Math.max(1, base.memory.type.dims.length);
  if (keys.length !== wanted) {
    p.fail(
      node,
      `${base.name} takes ${wanted} ${wanted === 1 ? 'index' : 'indices'}, got ${keys.length}: ` +
        `${base.name}${'[i]'.repeat(wanted)}.`,
    );
  }
  const indices = p
    .inOrder(keys.map((key) => () => fromExpr(toIndex(p, key, p.expression(key)))))
    .map((v, i) => toIndex(p, keys[i]!, v));
  return { memory: base.memory, name: base.name, indices };
}

/** All elements of an array of a thread's own, of one dimension; undefined of everything else. */
export function elementsOf(v: Value): Expr[] | undefined {
  if (v.kind !== 'memory' || v.memory.op !== 'array') return undefined;
  const { memory } = v;
  const { space, dims } = v.memory.arg;
  if (space !== 'local' || dims.length !== 1) return undefined;
  return Array.from({ length: dims[0]! }, (_, i) => load(memory, [int(i)]));
}

/** A number that must be known when the kernel is compiled. */
export function constantOf(p: Parsing, node: Syntax, v: Value, what: string): number {
  const known = staticOf(v);
  if (typeof known === 'number') return known;
  return p.fail(
    node,
    `${what} must be known when the kernel is compiled, got ${describeValue(v)}. Pass it as a constant in the fourth argument of kernel().`,
    v.kind === 'expr' ? p.constantBy(v.expr) : v.kind === 'flexible' ? p.splitBy(v.key) : undefined,
  );
}

/** `x` and its indices among a call's arguments. */
export function place(p: Parsing, node: CallExpression, args: readonly Expression[]): ElementRef {
  const [first, ...keys] = args;
  const base = first ? p.expression(first) : VOID;
  if (base.kind === 'memory') return elementOf(p, node, base, keys);
  return p.fail(
    first ?? node,
    `${p.textOf(node.callee)} takes memory first, got ${describeValue(base)}: ${p.textOf(node.callee)}(x, i, …).`,
  );
}

/** `load4(x, i)`: neighbouring elements from x[i] on. */
export function loadWide(p: Parsing, node: CallExpression, args: readonly Expression[], lanes: Lanes): Value {
  const { memory, indices, name } = place(p, node, args);
  scalarElements(p, node, memory, name);
  return fromExpr(load(memory, indices, lanes, p.at(node)));
}

/** `store4(x, i, v)`. */
export function storeWide(
  p: Parsing,
  node: CallExpression,
  args: readonly Expression[],
  lanes: Lanes,
): Value {
  const given = args.at(-1);
  if (!given || args.length < 3)
    return p.fail(node, `store${lanes} takes the memory, its index and a vector: store${lanes}(x, i, v).`);
  const { memory, indices, name } = place(p, node, args.slice(0, -1));
  scalarElements(p, node, memory, name);
  const parts = p.inOrder([...indices.map((i) => () => fromExpr(i)), () => p.expression(given)]);
  const v = assignable(p, given, `store${lanes}`, parts.at(-1)!, memory.type.dtype, lanes);
  p.emit(
    store(
      memory,
      v,
      parts.slice(0, -1).map((i) => toIndex(p, node, i)),
      p.at(node),
    ),
  );
  return VOID;
}

/** `copyAsync4(tile, i, x, j, there)`: a store of what is loaded that may come as late as `waitCopies`. */
export function copyAsync(
  p: Parsing,
  node: CallExpression,
  args: readonly Expression[],
  lanes: Lanes,
  way: StoreWay = 'async',
): Value {
  const usage = `${p.textOf(node.callee)}(tile, i, x, j)`;
  const [first] = args;
  const target = first ? p.expression(first) : VOID;
  const taken = target.kind === 'memory' ? 1 + Math.max(1, target.memory.type.dims.length) : 1;
  const to = place(p, node, args.slice(0, taken));
  const from = place(p, node, args.slice(taken, taken + 2));
  const { dtype } = from.memory.type;
  if (args.length > taken + 3) p.fail(node, `${usage} takes one condition more at most.`);
  if (to.memory.type.space !== 'shared' || from.memory.type.space !== 'global')
    p.fail(node, `${usage} copies from a buffer to a shared array.`);
  if (to.memory.type.dtype !== dtype)
    p.fail(
      node,
      `${usage} keeps the dtype: ${to.name} is ${to.memory.type.dtype.name}, ${from.name} ${dtype.name}.`,
    );
  if (dtype.bytes * lanes !== 4 && dtype.bytes * lanes !== 8 && dtype.bytes * lanes !== 16)
    p.fail(node, `${usage} copies 4, 8 or 16 bytes, ${lanes} of ${dtype.name} are ${dtype.bytes * lanes}.`);
  const loaded = load(from.memory, from.indices, lanes, p.at(node));
  const last = args[taken + 2];
  const condition = last && toCondition(p, last, p.expression(last));
  const v = condition ? select(condition, loaded, zeroOf(loaded.type), p.at(node)) : loaded;
  p.emit(store(to.memory, v, to.indices, p.at(node), way));
  return VOID;
}

function scalarElements(p: Parsing, node: Syntax, memory: MemoryNode, name: string): void {
  if (memory.op === 'array' && memory.arg.lanes > 1) {
    p.fail(node, `the elements of ${name} are vectors already: ${name}[i].`);
  }
}

/** `shared(f32, 32, 33)`, `local(f32, 8)`, `local4(f32, 4, 2)`, `dynamicShared(f32)`. */
export function declareArray(
  p: Parsing,
  node: CallExpression,
  callee: string,
  args: readonly Expression[],
): Value {
  const form = callee === 'sharedTile' ? 'tile' : callee === 'mbarriers' ? 'barriers' : undefined;
  const sizes = form === 'barriers' ? args : args.slice(1);
  const [first] = args;
  const dtype = form === 'barriers' ? fromStatic(i64) : first ? p.expression(first) : VOID;
  if (dtype.kind !== 'static' || !isDType(dtype.value)) {
    return p.fail(
      first ?? node,
      `${callee} takes a dtype first, got ${describeValue(dtype)}: ${callee}(f32, 32).`,
    );
  }
  const dims = sizes.map((size) => {
    const n = constantOf(p, size, p.expression(size), 'the size of an array');
    return Number.isInteger(n) && n > 0
      ? n
      : p.fail(size, `the size of an array must be a whole number above 0, got ${n}.`);
  });
  if ((callee === 'dynamicShared') !== (dims.length === 0)) {
    p.fail(
      node,
      callee === 'dynamicShared'
        ? 'dynamicShared takes only a dtype: its size is given at launch by sharedBytes.'
        : `${callee} takes sizes after the dtype: ${callee}(f32, 32).`,
    );
  }
  if (p.around.isConditional && !callee.startsWith('local'))
    p.fail(
      node,
      `${callee} inside of an if: shared memory belongs to the whole block and is there whatever the condition is. ` +
        'Declare it before the if.',
    );
  // Where a loop is unrolled, one place may declare arrays of several sizes.
  const key = `${p.key(node)}[${dims}]`;
  let decl = p.arrays.get(key);
  if (!decl && callee === 'dynamicShared' && [...p.arrays.values()].some((a) => a.dims[0] === -1))
    p.fail(
      node,
      'a block has one dynamicShared: what is declared again would be the same memory. Cut it by offsets.',
    );
  if (!decl) {
    decl = {
      name: p.around.naming ?? 'array',
      dtype: dtype.value,
      space: callee.startsWith('local') ? 'local' : 'shared',
      dims: dims.length > 0 ? dims : [-1],
      lanes: callee === 'local4' ? 4 : callee === 'local2' ? 2 : 1,
      ...(form ? { form } : {}),
    } satisfies ArrayDecl;
    if (form === 'tile') requireRows(p, node, decl);
    p.arrays.set(key, decl);
    requireFitting(p, node);
  }
  return { kind: 'memory', memory: arrayNode(decl, p.at(node)), name: decl.name };
}

function requireRows(p: Parsing, node: Syntax, { dims, dtype }: ArrayDecl): void {
  const bytes = dims.at(-1)! * dtype.bytes;
  if (dims.length < 2 || !TILE_ROWS.includes(bytes as 32) || (dims.at(-2)! * bytes) % 1024 !== 0)
    p.fail(
      node,
      `a tile has rows of ${TILE_ROWS.join(', ')} bytes, and whole KiB of them: (${dims}) of ${dtype.name} has rows of ${bytes}.`,
    );
}

/** Shared arrays of fixed sizes must fit into the shared memory of a block. */
function requireFitting(p: Parsing, node: Syntax): void {
  const shared = [...p.arrays.values()].filter((a) => a.space === 'shared' && a.dims[0] !== -1);
  const bytes = shared.reduce((sum, a) => sum + sizeOf(a.dims) * a.dtype.bytes, 0);
  const most = H200.limits.sharedBytesPerBlock;
  if (bytes > most)
    p.fail(
      node,
      `the shared arrays of the kernel take ${bytes} bytes: a block has at most ${most} ` +
        `(${most / 1024} KiB, on many GPUs less). Use smaller tiles, or work through the data in parts.`,
    );
}
