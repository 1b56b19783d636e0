/** What the renderer has to know of a kernel before it writes: which arithmetic makes indices, what is aligned. */

import { topological } from '../../core/node.js';
import type { IntrinsicRecord } from '../../kernel/ir/intrinsic-record.js';
import { INTRINSICS } from '../../kernel/ir/intrinsics.js';
import {
  type ArrayDecl,
  type Expr,
  isOfCluster,
  type MemoryNode,
  type Node,
  type Param,
  type Statement,
  type Variable,
} from '../../kernel/ir/ir.js';

/** How a kernel touches memory at one place. */
export interface Access {
  readonly memory: MemoryNode;
  readonly indices: readonly Expr[];
  /** Where these begin among the node's sources. */
  readonly first: number;
  readonly writes: boolean;
  readonly lanes: number;
}

/** The place a load, a store or an atomic touches; undefined for other nodes. */
export function accessOf(node: Node): Access | undefined {
  const [first] = node.src;
  if (node.op === 'load') return access(first!, node.src.slice(1), 1, false, node.type.lanes);
  if (node.op === 'store')
    return access(first!, node.src.slice(2), 2, true, (node.src[1] as Expr).type.lanes);
  if (node.op !== 'intrinsic') return undefined;
  const record: IntrinsicRecord = INTRINSICS[node.arg];
  if (record.rows)
    return access(first!, node.src.slice(1), 1, false, 16 / (first as MemoryNode).type.dtype.bytes);
  if (!record.atomic && !record.remote) return undefined;
  return access(first!, node.src.slice(1, node.src.length - record.params.length), 1, !record.remote, 1);
}

const access = (
  memory: Node,
  indices: readonly Node[],
  first: number,
  writes: boolean,
  lanes: number,
): Access => ({
  memory: memory as MemoryNode,
  indices: indices as readonly Expr[],
  first,
  writes,
  lanes,
});

export interface Analysis {
  /** Integer arithmetic whose overflow would only make an index that is out of bounds. */
  readonly indexArithmetic: ReadonlySet<Node>;
  /** Whether threads may end before others. */
  readonly returns: boolean;
  /** Whether blocks of a cluster work together. */
  readonly isOfCluster: boolean;
  /** Whether warpgroups give registers to others. */
  readonly movesRegisters: boolean;
  /** Arrays of sums that `clearSums` leaves to wgmma. */
  readonly clearedSums: ReadonlySet<ArrayDecl>;
  /** Variables by which more than one number is divided. */
  readonly divisors: ReadonlySet<Variable>;
  /** Constant variables whose values are stored to buffers, and nothing else: a store rounds them. */
  readonly onlyStored: ReadonlySet<Variable>;
  /** Buffers that are stored to. */
  readonly written: ReadonlySet<Param>;
  /** Whether `e` is known to be a multiple of `n`. */
  isMultiple(e: Expr, n: number): boolean;
}

const KEEPS_MULTIPLES: ReadonlySet<string> = new Set(['add', 'sub', 'neg', 'mod']);
const LINEAR: ReadonlySet<string> = new Set(['add', 'sub', 'mul', 'neg']);

export function analyse(body: Statement): Analysis {
  const nodes = topological<Node>([body]);
  const accesses: Access[] = [];
  const definitions = new Map<Variable, Expr[]>();
  const define = (variable: Variable, ...values: Expr[]): void => {
    definitions.set(variable, [...(definitions.get(variable) ?? []), ...values]);
  };
  for (const node of nodes) {
    const touched = accessOf(node);
    if (touched) accesses.push(touched);
    if (node.op === 'let' || node.op === 'set') define(node.arg, node.src[0] as Expr);
    // start, and the step that is added to it
    if (node.op === 'for') define(node.arg.variable, node.src[0] as Expr, node.src[2] as Expr);
  }

  return {
    indexArithmetic: indexArithmetic(nodes, accesses, definitions),
    returns: nodes.some(({ op }) => op === 'return'),
    isOfCluster: nodes.some(isOfCluster),
    movesRegisters: nodes.some(movesRegisters),
    clearedSums: clearedSums(nodes),
    divisors: divisorsOf(nodes),
    onlyStored: onlyStored(nodes),
    written: new Set(
      accesses.flatMap(({ memory, writes }) => (writes && memory.op === 'buffer' ? [memory.arg] : [])),
    ),
    isMultiple: (e, n) => isMultiple(e, n, definitions, new Set()),
  };
}

const movesRegisters = ({ op, arg }: Node): boolean =>
  op === 'effect' && (arg === 'raiseRegisters' || arg === 'lowerRegisters');

const clearedSums = (nodes: readonly Node[]): Set<ArrayDecl> =>
  new Set(
    nodes.flatMap((node) => {
      const [sums] = node.op === 'effect' && node.arg === 'clearSums' ? node.src : [];
      return sums?.op === 'array' ? [sums.arg] : [];
    }),
  );

function divisorsOf(nodes: readonly Node[]): Set<Variable> {
  const [once, again] = [new Set<Variable>(), new Set<Variable>()];
  for (const node of nodes) {
    const by = node.op === 'alu' && node.arg === 'div' ? (node.src[1] as Expr) : undefined;
    if (by?.op === 'variable') (once.has(by.arg) ? again : once).add(by.arg);
  }
  return again;
}

function onlyStored(nodes: readonly Node[]): Set<Variable> {
  const [stored, used] = [new Set<Variable>(), new Set<Variable>()];
  for (const node of nodes)
    (node.src as readonly Node[]).forEach((source, at) => {
      if (source.op !== 'variable') return;
      const isStored = node.op === 'store' && at === 1 && node.src[0]!.op === 'buffer';
      (isStored && source.arg.constant ? stored : used).add(source.arg);
    });
  return new Set([...stored].filter((variable) => !used.has(variable)));
}

const COMPARISONS: ReadonlySet<string> = new Set(['lt', 'le', 'gt', 'ge', 'eq', 'ne']);
/** Which operand of a comparison is the smaller one if it holds. */
const SMALLER: Readonly<Record<string, number>> = { lt: 0, le: 0, gt: 1, ge: 1 };

/** Whether it is an upper bound as such, which tells nothing of an overflow. */
const isSize = (e: Expr): boolean =>
  e.op === 'param' ||
  (e.op === 'const' && Number(e.arg) > 0) ||
  (e.op === 'cast' && isSize(e.src[0] as Expr));

/**
 * Sums and products under an index, through variables too. Where one of these overflows, the index is out of bounds:
 * there C++'s undefined signed overflow costs nothing, and lets the compiler widen and strength-reduce addresses. All
 * other signed arithmetic is made to wrap; a mask or remainder in an index ends the search, so hashing still wraps, and
 * so does what is compared, but with a size: of sums of what is not negative the compiler would conclude that they are
 * not below 0, and leave out the test that says whether they have overflowed.
 */
function indexArithmetic(
  nodes: readonly Node[],
  accesses: readonly Access[],
  definitions: ReadonlyMap<Variable, readonly Expr[]>,
): Set<Node> {
  const found = new Set<Node>();
  const followed = new Set<Variable>();
  const follow = (e: Expr): void => {
    if (e.type.dtype.kind !== 'int' && e.type.dtype.kind !== 'uint') return;
    if (e.op === 'variable' && !followed.has(e.arg)) {
      followed.add(e.arg);
      for (const d of definitions.get(e.arg) ?? []) follow(d);
    }
    if (e.op === 'cast') {
      found.add(e);
      follow(e.src[0] as Expr);
    }
    if (e.op === 'alu' && LINEAR.has(e.arg) && !found.has(e)) {
      found.add(e);
      for (const s of e.src) follow(s as Expr);
    }
  };
  for (const { indices } of accesses) for (const index of indices) follow(index);

  // What is compared with anything but a size is dropped, and with it what it is made of, through variables too.
  const dropped = new Set<Node | Variable>();
  const isCompared = (user: Node, at: number): boolean => {
    if (user.op === 'let' || user.op === 'set') return dropped.has(user.arg);
    if (user.op === 'for') return dropped.has(user.arg.variable);
    if (user.op !== 'alu' || !COMPARISONS.has(user.arg)) return dropped.has(user);
    return at !== SMALLER[user.arg] || !isSize(user.src[1 - at] as Expr);
  };
  const isMine = (source: Node): boolean =>
    source.op === 'variable' ? followed.has(source.arg) : found.has(source);
  // From users to what they use, so that once is enough but for variables that loops set.
  const users = nodes.filter(({ src }) => (src as readonly Node[]).some(isMine)).reverse();
  for (let changed = true; changed; ) {
    changed = false;
    for (const user of users) {
      (user.src as readonly Node[]).forEach((source, at) => {
        if (!isMine(source) || !isCompared(user, at)) return;
        changed = true;
        found.delete(source);
        dropped.add(source);
        if (source.op !== 'variable') return;
        followed.delete(source.arg);
        dropped.add(source.arg);
      });
    }
  }
  return found;
}

/** A variable is a multiple if all that it is ever set to is one, itself assumed so. */
function isMultiple(
  e: Expr,
  n: number,
  definitions: ReadonlyMap<Variable, readonly Expr[]>,
  assumed: Set<Variable>,
): boolean {
  if (n === 1) return true;
  const each = (s: Node): boolean => isMultiple(s as Expr, n, definitions, assumed);
  switch (e.op) {
    case 'const':
      return Number(e.arg) % n === 0;
    case 'variable': {
      if (assumed.has(e.arg)) return true;
      assumed.add(e.arg);
      return definitions.get(e.arg)?.every(each) ?? false;
    }
    case 'cast':
      return e.src.every(each) && (e.src[0] as Expr).type.dtype.kind !== 'float';
    case 'select':
      return e.src.slice(1).every(each);
    case 'alu': {
      // One factor is enough, and what was assumed for one that is not is no proof for the other.
      if (e.arg === 'mul') return e.src.some((s) => isMultiple(s as Expr, n, definitions, new Set(assumed)));
      if (e.arg === 'shl') {
        const by = e.src[1] as Expr;
        return each(e.src[0]!) || (by.op === 'const' && 2 ** Number(by.arg) % n === 0);
      }
      return KEEPS_MULTIPLES.has(e.arg) && e.src.every(each);
    }
    default:
      return false;
  }
}
