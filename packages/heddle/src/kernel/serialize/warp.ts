/**
 * Warp operations without threads. Each is first brought into the form `let result = operation(variable, …)`, a
 * statement of its own that all threads reach; then it becomes loops over what the lanes have stored.
 */
import { bool, i32, u32 } from '../../core/dtype.js';
import { some } from '../../core/node.js';
import { INTRINSICS, type Intrinsic } from '../ir/intrinsics.js';
import {
  alu,
  block,
  cast,
  constant,
  declare,
  type Expr,
  forLoop,
  int,
  type Node,
  needsOthers,
  read,
  type Statement,
  select,
  set,
  type Variable,
  when,
} from '../ir/ir.js';
import { value } from '../ir/types.js';

export const isWarpOperation = (n: Node | undefined): n is Extract<Expr, { op: 'intrinsic' }> =>
  n?.op === 'intrinsic' && INTRINSICS[n.arg].scope === 'warp';

/** Whether threads need each other in it. */
export const waits = (root: Node): boolean =>
  some([root], (n) => (n.op === 'intrinsic' || n.op === 'effect') && n.arg !== null && needsOthers(n.arg));

/** Why warp operations cannot be brought out of their expressions. */
export interface Obstacle {
  readonly node: Node;
  readonly why: string;
}

/** Bring every warp operation below `s` into its own statement, before the one that uses it. */
export function separateWarpOperations(s: Statement, obstacles: Obstacle[]): Statement {
  if (!waits(s)) return s;
  const before: Statement[] = [];
  const own = (n: Node): Node =>
    n.type.kind === 'none' ? separateWarpOperations(n as Statement, obstacles) : n;
  const out = (n: Node): Node => {
    if (!waits(n) || n.type.kind === 'none') return own(n);
    if (n.op === 'select' && n.src.slice(1).some(waits)) {
      obstacles.push({ node: n, why: 'a warp operation stands in a branch of a conditional expression' });
    }
    const src = n.src.map(out);
    if (!isWarpOperation(n)) return { ...n, src } as Node;
    if (/^(mma|loadMatrix)/.test(n.arg)) obstacles.push({ node: n, why: `${n.arg}() needs tensor cores` });
    const args = src.map((arg, i) => {
      const { type } = arg as Expr;
      const v: Variable = { name: `${n.arg}_${i}`, type, constant: true };
      before.push(declare(v, arg as Expr, n.at));
      return read(v);
    });
    const result: Variable = { name: n.arg, type: n.type, constant: true };
    before.push(declare(result, { ...n, src: args }, n.at));
    return read(result);
  };
  if (s.op === 'while' && waits(s.src[0]!)) {
    obstacles.push({ node: s, why: "a warp operation stands in a loop's condition" });
  }
  if (s.op === 'let' && isWarpOperation(s.src[0])) {
    // Keep the author's variable as the result.
    out(s.src[0]);
    const operation = before.pop()!;
    return block([...before, { ...s, src: operation.src } as Statement]);
  }
  const src = s.src.map(out);
  if (s.op === 'effect' && isWarpOperation(s.src[0])) return block(before);
  const rest = { ...s, src } as Statement;
  return before.length > 0 ? block([...before, rest]) : rest;
}

/** How the warp's loops reach the values of each thread. */
export interface WarpValues {
  /** Threads of the block. */
  readonly threads: number;
  argument(index: number, thread: Expr): Expr;
  result(thread: Expr): Expr;
  setResult(thread: Expr, v: Expr): Statement;
}

const counter = (name: string): Variable => ({ name, type: value(i32), constant: true });
const add = (a: Expr, b: Expr): Expr => alu('add', [a, b]);
const and = (a: Expr, b: Expr): Expr => alu('and', [a, b]);

/** The loops that do what `operation` does in every warp of the block. */
export function warpLoops(operation: Intrinsic, lanes: WarpValues): Statement {
  switch (operation) {
    case 'shuffle':
    case 'shuffleUp':
    case 'shuffleDown':
    case 'shuffleXor':
      return shuffle(operation, lanes);
    case 'any':
    case 'all':
    case 'ballot':
      return vote(operation, lanes);
    default:
      return reduction(operation === 'warpSum' ? 'add' : operation === 'warpMax' ? 'max' : 'min', lanes);
  }
}

function overThreads(threads: number, name: string, body: (thread: Expr) => readonly Statement[]): Statement {
  const t = counter(name);
  return forLoop(t, int(0), int(threads), int(1), block(body(read(t))));
}

function shuffle(
  operation: 'shuffle' | 'shuffleUp' | 'shuffleDown' | 'shuffleXor',
  lanes: WarpValues,
): Statement {
  return overThreads(lanes.threads, 'thread', (thread) => {
    const from: Variable = { name: 'from', type: value(i32), constant: true };
    const lane = and(thread, int(31));
    const by = lanes.argument(1, thread);
    const source = {
      shuffle: () => and(by, int(31)),
      shuffleUp: () => alu('sub', [lane, by]),
      shuffleDown: () => add(lane, by),
      shuffleXor: () => alu('xor', [lane, by]),
    }[operation]();
    const other = add(alu('sub', [thread, lane]), read(from));
    // Out of the warp, or of a last warp that is not whole, a lane gets its own value back.
    const there = select(
      alu('eq', [and(read(from), int(~31)), int(0)]),
      alu('lt', [other, int(lanes.threads)]),
      constant(bool, false),
    );
    return [
      declare(from, source),
      lanes.setResult(thread, select(there, lanes.argument(0, other), lanes.argument(0, thread))),
    ];
  });
}

/**
 * A butterfly, 16, 8, 4, 2, 1, as the GPU adds; both lanes of a pair get the same value. The last warp, if it is not
 * whole, lane by lane.
 */
function reduction(op: 'add' | 'max' | 'min', lanes: WarpValues): Statement {
  const rest = lanes.threads % 32;
  const whole = lanes.threads - rest;
  const parts: Statement[] = [];
  if (whole > 0) parts.push(butterfly(op, { ...lanes, threads: whole }));
  if (rest > 0) parts.push(inOrder(op, lanes, whole));
  return block(parts);
}

function inOrder(op: 'add' | 'max' | 'min', lanes: WarpValues, first: number): Statement {
  const [reader, writer] = [counter('thread'), counter('thread')];
  const start = lanes.argument(0, int(first));
  const total: Variable = { name: 'total', type: start.type, constant: false };
  const next = alu(op, [read(total), lanes.argument(0, read(reader))]);
  const end = int(lanes.threads);
  return block([
    declare(total, start),
    forLoop(reader, int(first + 1), end, int(1), block([set(total, next)])),
    forLoop(writer, int(first), end, int(1), block([lanes.setResult(read(writer), read(total))])),
  ]);
}

function butterfly(op: 'add' | 'max' | 'min', lanes: WarpValues): Statement {
  const by: Variable = counter('by');
  const shift = counter('step');
  const pairs = overThreads(lanes.threads, 'thread', (thread) => {
    const other = add(thread, read(by));
    const both: Variable = { name: 'both', type: lanes.result(thread).type, constant: true };
    const paired = select(
      alu('eq', [and(thread, read(by)), int(0)]),
      alu('lt', [other, int(lanes.threads)]),
      constant(bool, false),
    );
    return [
      when(
        paired,
        block([
          declare(both, alu(op, [lanes.result(thread), lanes.result(other)])),
          lanes.setResult(thread, read(both)),
          lanes.setResult(other, read(both)),
        ]),
      ),
    ];
  });
  return block([
    overThreads(lanes.threads, 'thread', (thread) => [lanes.setResult(thread, lanes.argument(0, thread))]),
    forLoop(shift, int(0), int(5), int(1), block([declare(by, alu('shr', [int(16), read(shift)])), pairs])),
  ]);
}

function vote(operation: 'any' | 'all' | 'ballot', lanes: WarpValues): Statement {
  const first = counter('first');
  const end: Variable = { name: 'end', type: value(i32), constant: true };
  const yes: Variable = { name: 'yes', type: value(u32), constant: false };
  const taking: Variable = { name: 'taking', type: value(u32), constant: false };
  const zero = constant(u32, 0);
  const lane = counter('thread');
  const writer = counter('thread');
  const bit = alu('shl', [constant(u32, 1), cast(u32, and(read(lane), int(31)))]);
  const decided = {
    any: () => alu('ne', [read(yes), zero]),
    all: () => alu('eq', [read(yes), read(taking)]),
    ballot: () => read(yes),
  }[operation]();
  return forLoop(
    first,
    int(0),
    int(lanes.threads),
    int(32),
    block([
      declare(end, alu('min', [add(read(first), int(32)), int(lanes.threads)])),
      declare(yes, zero),
      declare(taking, zero),
      forLoop(
        lane,
        read(first),
        read(end),
        int(1),
        block([
          set(taking, alu('or', [read(taking), bit])),
          when(lanes.argument(0, read(lane)), block([set(yes, alu('or', [read(yes), bit]))])),
        ]),
      ),
      forLoop(writer, read(first), read(end), int(1), block([lanes.setResult(read(writer), decided)])),
    ]),
  );
}
