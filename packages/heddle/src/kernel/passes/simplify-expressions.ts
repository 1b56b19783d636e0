/** Algebra on expressions that is exact: the same bits for every value of the operands. */
import { bool, type DType, isFloat } from '../../core/dtype.js';
import { alu, constant, type Expr, select, splat } from '../ir/ir.js';
import { convert, evaluate, OPS, type OpRecord, type Scalar, type ScalarOp } from '../ir/ops.js';

/** A simpler expression of the same value, whose sources are simple already; or the same one. */
export function simplifyExpr(e: Expr): Expr {
  switch (e.op) {
    case 'alu':
      return simplifyAlu(e);
    case 'cast': {
      const v = e.src[0] as Expr;
      return v.op === 'const' ? constant(e.type.dtype, convert(v.type.dtype, e.type.dtype, v.arg), e.at) : e;
    }
    case 'select': {
      const [c, a, b] = e.src as readonly [Expr, Expr, Expr];
      if (c.op === 'const') return c.arg ? a : b;
      if (same(a, b) && isPure(c)) return a;
      if (a.op === 'const' && b.op === 'const' && a.type.dtype === bool && a.arg && !b.arg) return c;
      return c.op === 'alu' && c.arg === 'not' ? select(c.src[0] as Expr, b, a, e.at) : e;
    }
    case 'vector': {
      const [first, ...rest] = e.src as readonly Expr[];
      return first?.op === 'const' && rest.every((s) => same(first, s))
        ? splat(first, e.type.lanes, e.at)
        : e;
    }
    case 'lane': {
      const v = e.src[0] as Expr;
      if (v.op === 'splat') return v.src[0] as Expr;
      return v.op === 'vector' && v.src.every((s) => isPure(s as Expr)) ? (v.src[e.arg] as Expr) : e;
    }
    default:
      return e;
  }
}

/** Equal leaves. */
const same = (a: Expr, b: Expr): boolean =>
  a === b ||
  (a.op === 'const' && b.op === 'const' && a.type.dtype === b.type.dtype && Object.is(a.arg, b.arg)) ||
  (a.op === 'variable' && b.op === 'variable' && a.arg === b.arg);

const purity = new WeakMap<Expr, boolean>();

/** Whether an expression may be left out: it does nothing but give its value. */
export function isPure(e: Expr): boolean {
  if (e.op === 'intrinsic') return false;
  if (e.src.length === 0) return true;
  const known = purity.get(e);
  if (known !== undefined) return known;
  const pure = (e.src as readonly Expr[]).every(isPure);
  purity.set(e, pure);
  return pure;
}

function simplifyAlu(e: Extract<Expr, { op: 'alu' }>): Expr {
  const src = e.src as readonly Expr[];
  const [a, b] = src as readonly [Expr, Expr];
  const t = a.type.dtype;
  if (src.every((s) => s.op === 'const')) {
    const [x, y, z] = src.map((s) => s.arg as Scalar);
    return constant(e.type.dtype, evaluate(e.arg, t, x!, y, z), e.at);
  }
  if (src.every((s) => s.op === 'splat')) {
    const scalars = src.map((s) => s.src[0] as Expr);
    return splat(simplifyExpr(alu(e.arg, scalars, e.at)), e.type.lanes, e.at);
  }
  if (src.length === 1)
    return a.op === 'alu' && a.arg === e.arg && undoesItself(e.arg) ? (a.src[0] as Expr) : e;
  if (src.length > 2) return e;
  return isFloat(t) ? simplifyFloat(e, a, b) : simplifyInteger(e, a, b, t);
}

const commutes = (op: ScalarOp): boolean => (OPS[op] as OpRecord).commutes === true;
const undoesItself = (op: ScalarOp): boolean => op === 'neg' || op === 'not';

/** The value of a constant, or of a splatted one. */
function constantOf(e: Expr): Scalar | undefined {
  const c = e.op === 'splat' ? (e.src[0] as Expr) : e;
  return c.op === 'const' ? c.arg : undefined;
}

function simplifyFloat(e: Extract<Expr, { op: 'alu' }>, a: Expr, b: Expr): Expr {
  const [x, y] = [constantOf(a), constantOf(b)];
  switch (e.arg) {
    case 'mul':
      return y === 1 ? a : x === 1 ? b : e;
    case 'div':
      return y === 1 ? a : e;
    case 'add':
      return Object.is(y, -0) ? a : Object.is(x, -0) ? b : e;
    case 'sub':
      return Object.is(y, 0) ? a : e;
    default:
      return e;
  }
}

/** Integers and bools. Arithmetic wraps, so that sums and products may be regrouped: constants gather on the right. */
function simplifyInteger(e: Extract<Expr, { op: 'alu' }>, a: Expr, b: Expr, t: DType): Expr {
  const op = e.arg;
  const again = (name: ScalarOp, left: Expr, right: Expr): Expr =>
    simplifyExpr(alu(name, [left, right], e.at));
  const number = (v: Scalar): Expr => splat(constant(t, v, e.at), a.type.lanes, e.at);
  const [x, y] = [constantOf(a), constantOf(b)];
  if (x !== undefined && commutes(op)) return y === undefined ? again(op, b, a) : e;
  const isZero = y === 0 || y === 0n;
  const isOne = y === 1 || y === 1n;
  switch (op) {
    case 'add':
      if (isZero) return a;
      return gatherSum(a, b, y, again) ?? e;
    case 'sub':
      if (isZero) return a;
      return y === undefined ? e : again('add', a, number(evaluate('neg', t, y)));
    case 'mul': {
      if (isOne) return a;
      if (isZero && isPure(a)) return b;
      if (y === undefined || a.op !== 'alu') return e;
      const [left, right] = a.src as readonly [Expr, Expr];
      if (a.arg === 'mul' && constantOf(right) !== undefined)
        return again('mul', left, again('mul', right, b));
      if (a.arg === 'add' && constantOf(right) !== undefined) {
        return again('add', again('mul', left, b), again('mul', right, b));
      }
      return e;
    }
    case 'idiv':
      return isOne ? a : e;
    case 'mod':
      return isOne && isPure(a) ? number(t.name === 'i64' ? 0n : 0) : e;
    case 'shl':
    case 'shr':
    case 'xor':
      return isZero ? a : e;
    case 'or':
      if (y === true && isPure(a)) return b;
      return isZero || y === false ? a : e;
    case 'and':
      if ((isZero || y === false) && isPure(a)) return b;
      return y === true ? a : e;
    case 'eq':
      return y === true ? a : e;
    default:
      return e;
  }
}

/** `(u + c) + v` → `(u + v) + c`: constants move out, where they meet and become offsets. */
function gatherSum(
  a: Expr,
  b: Expr,
  y: Scalar | undefined,
  again: (op: 'add', left: Expr, right: Expr) => Expr,
): Expr | undefined {
  const sum = (e: Expr): readonly [Expr, Expr] | undefined => {
    if (e.op !== 'alu' || e.arg !== 'add') return undefined;
    const [left, right] = e.src as readonly [Expr, Expr];
    return constantOf(right) === undefined ? undefined : [left, right];
  };
  const left = sum(a);
  if (left && y !== undefined) return again('add', left[0], again('add', left[1], b));
  if (left) return again('add', again('add', left[0], b), left[1]);
  const right = sum(b);
  return right && again('add', again('add', a, right[0]), right[1]);
}
