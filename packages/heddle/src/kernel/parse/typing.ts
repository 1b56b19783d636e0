/** The rules of types: literals take the type of their context, nothing else converts silently. */
import { bool, type DType, f32, i32, isFloat, isInteger, NUMBER_LIMITS, u32 } from '../../core/dtype.js';
import { alu, cast, constant, type Expr, select, splat } from '../ir/ir.js';
import {
  evaluate,
  OPS,
  type OperandRule,
  type Scalar,
  type ScalarOp,
  takesOperands,
  wrap,
} from '../ir/ops.js';
import { formatType, sameValueType, value } from '../ir/types.js';
import type { Fact } from './facts.js';
import type { Parsing } from './state.js';
import { fromExpr, fromStatic, type Syntax, type Value } from './values.js';

export const isDType = (v: unknown): v is DType =>
  typeof v === 'object' && v !== null && 'kind' in v && 'bytes' in v;

/** What to call a value in an error. */
export function describeValue(v: Value): string {
  switch (v.kind) {
    case 'expr':
      return formatType(v.expr.type);
    case 'static':
      if (isDType(v.value)) return `the dtype ${v.value.name}`;
      if (Array.isArray(v.value)) return 'an array of constants';
      return v.value === undefined ? 'undefined' : `the constant ${String(v.value)}`;
    case 'flexible':
      return `a constant${v.lanes > 1 ? ` of ${v.lanes} lanes` : ''}`;
    case 'memory':
      return `${v.name} (${formatType(v.memory.type)})`;
    case 'record':
      return v.name;
    case 'builtin':
    case 'function':
    case 'ir-function':
      return `the function ${v.name}`;
    case 'void':
      return 'nothing';
  }
}

/** The dtype a literal has where nothing else says: i32 for whole numbers that fit, f32 for others. */
export function naturalType(v: number | boolean): DType {
  if (typeof v === 'boolean') return bool;
  return Number.isInteger(v) && Math.abs(v) < 2 ** 31 && !Object.is(v, -0) ? i32 : f32;
}

/** The least and the largest literal of an integer type: of i64, those that are exact. */
function rangeOf(dtype: DType): readonly [number, number] {
  if (dtype.name === 'i64') return [-(2 ** 53), 2 ** 53];
  const [least, beyond] = NUMBER_LIMITS[dtype.name]!;
  return [least, beyond - 1];
}

/** A literal as a constant of `dtype`. */
export function literal(p: Parsing, node: Syntax, v: number | boolean, dtype: DType): Expr {
  if (typeof v === 'boolean' || dtype === bool) {
    if (typeof v === 'boolean' && dtype === bool) return constant(bool, v, p.at(node));
    return p.fail(
      node,
      typeof v === 'boolean'
        ? `${v} is a bool where ${dtype.name} is needed. Write ${v ? 1 : 0}, or ${dtype.name}(x) for a value.`
        : `${v} is a number where a bool is needed. Compare it: x !== 0.`,
    );
  }
  if (isFloat(dtype)) return constant(dtype, wrap(dtype, v), p.at(node));
  const [low, high] = rangeOf(dtype);
  if (!Number.isInteger(v)) {
    const { target } = p.around;
    p.fail(
      node,
      `${v} is not an ${dtype.name}: whole numbers only. Convert the other side: f32(…), or write ${Math.trunc(v)}.`,
      target && { key: target.open, is: value(f32) },
    );
  }
  if (v < low || v > high) {
    p.fail(
      node,
      `${v} is outside ${dtype.name} (${low} to ${high}). Use another dtype, such as u32(x) or i64(x).`,
    );
  }
  return constant(dtype, dtype.name === 'i64' ? BigInt(v) : v + 0, p.at(node));
}

/** A value as an expression; a literal takes `dtype`, or its natural type. */
export function toExpr(p: Parsing, node: Syntax, v: Value, dtype?: DType): Expr {
  if (v.kind === 'expr') return v.expr;
  if (v.kind === 'flexible') return v.make(dtype ?? v.natural);
  if (v.kind === 'static' && (typeof v.value === 'number' || typeof v.value === 'boolean')) {
    return literal(p, node, v.value, dtype ?? naturalType(v.value));
  }
  const hint = v.kind === 'memory' ? ` Index it: ${v.name}[i].` : '';
  return p.fail(node, `a value is needed here, got ${describeValue(v)}.${hint}`);
}

/** A number or boolean that is known now, or undefined. A constant expression counts. */
export function staticOf(v: Value): number | boolean | undefined {
  if (v.kind === 'static' && (typeof v.value === 'number' || typeof v.value === 'boolean')) return v.value;
  if (v.kind === 'expr' && v.expr.op === 'const') {
    return typeof v.expr.arg === 'bigint' ? Number(v.expr.arg) : v.expr.arg;
  }
  return undefined;
}

/** Whether a value is made of literals only and takes any dtype. */
const isLiteral = (v: Value): boolean => v.kind === 'flexible' || v.kind === 'static';

/** The values with one type between them: literals adapt, scalars next to vectors are splatted. */
export function unify(
  p: Parsing,
  node: Syntax,
  what: string,
  nodes: readonly Syntax[],
  values: readonly Value[],
): Expr[] {
  const typed = values.findIndex((v) => !isLiteral(v));
  const natural = (v: Value, i: number): DType => toExpr(p, nodes[i]!, v).type.dtype;
  const dtype =
    typed >= 0
      ? natural(values[typed]!, typed)
      : values.map(natural).reduce((a, b) => (a === i32 && b === f32 ? b : a));
  const exprs = values.map((v, i) => toExpr(p, nodes[i]!, v, dtype));
  const other = exprs.find((e) => e.type.dtype !== dtype);
  if (other) mixed(p, node, what, exprs.find((e) => e.type.dtype === dtype)!, other);
  const lanes = exprs.map((e) => e.type.lanes).find((l) => l > 1) ?? 1;
  return exprs.map((e) => {
    if (e.type.lanes === lanes) return e;
    if (e.type.lanes === 1) return splat(e, lanes, e.at);
    return p.fail(node, `${what}: vectors of ${lanes} and of ${e.type.lanes} lanes do not mix.`);
  });
}

/** Two dtypes that meet: an open variable takes the other's, everything else is an error. */
function mixed(p: Parsing, node: Syntax, what: string, a: Expr, b: Expr): never {
  const [from, to] = isInteger(a.type.dtype) || a.type.dtype === bool ? [a, b] : [b, a];
  const name = to.type.dtype.name;
  const text = from.op === 'variable' ? from.arg.name : from.op === 'param' ? from.arg.name : 'x';
  const hint =
    to.type.dtype === bool
      ? 'Compare the number: x !== 0.'
      : isOpen(p, from)
        ? `Declare it with its dtype: let ${text} = ${name}(…).`
        : `Convert one side: ${name}(${text}).`;
  return p.fail(
    node,
    `${what}: ${formatType(a.type)} and ${formatType(b.type)} do not mix; nothing converts silently. ${hint}`,
    p.typedBy(a, b.type) ?? p.typedBy(b, a.type) ?? targetTyped(p, a, b) ?? targetTyped(p, b, a),
  );
}

/** The fact that the variable being assigned, which `mine` reads, has the type of `other`. */
function targetTyped(p: Parsing, mine: Expr, other: Expr): Fact | undefined {
  const { target } = p.around;
  return target && reads(mine, target.variable) && !reads(other, target.variable)
    ? { key: target.open, is: other.type }
    : undefined;
}

/** Whether an expression is a `let` that started as a bare literal. */
function isOpen(p: Parsing, e: Expr): boolean {
  const binding = e.op === 'variable' ? p.scope.get(e.arg.name) : undefined;
  return binding?.kind === 'variable' && binding.variable === e.arg && binding.open !== undefined;
}

const reads = (e: Expr, variable: unknown): boolean =>
  (e.op === 'variable' && e.arg === variable) ||
  ((e.op === 'alu' || e.op === 'select' || e.op === 'splat') &&
    (e.src as Expr[]).some((s) => reads(s, variable)));

const RULE_TEXT: Readonly<Record<OperandRule, string>> = {
  number: 'numbers',
  float: 'floats',
  f32: 'f32',
  i32: 'i32',
  integer: 'integers',
  bits: 'integers or bools',
  bool: 'bools',
  any: 'values',
};

/** Apply an op: to constants now, to the rest in the kernel. */
export function apply(
  p: Parsing,
  node: Syntax,
  op: ScalarOp,
  nodes: readonly Syntax[],
  values: readonly Value[],
): Value {
  const record = OPS[op];
  if ((op === 'eq' || op === 'ne') && values.every((v) => v.kind === 'static')) {
    return fromStatic((values[0]!.value === values[1]!.value) === (op === 'eq'));
  }
  if (values.every((v) => v.kind === 'static' && typeof v.value === 'number')) {
    const [a = 0, b = 0, c = 0] = values.map((v) => (v.kind === 'static' ? (v.value as number) : 0));
    return fromStatic(record.eval(a, b, c));
  }
  const what = `\`${p.textOf(node)}\``;
  const exprs = unify(p, node, what, nodes, values);
  const { dtype, lanes } = exprs[0]!.type;
  if (!takesOperands(record.operands, dtype)) {
    const hint =
      op === 'div'
        ? 'Write idiv(a, b) for the whole quotient, or convert both sides: f32(a) / f32(b).'
        : record.operands === 'float' || record.operands === 'f32'
          ? `Convert first: f32(x).`
          : ['integer', 'bits', 'i32'].includes(record.operands)
            ? 'Convert first: i32(x).'
            : 'Use select(b, 1, 0) for the number of a bool.';
    p.fail(node, `${what} needs ${RULE_TEXT[record.operands]}, got ${dtype.name}. ${hint}`);
  }
  if (lanes === 1 && exprs.every((e) => e.op === 'const')) {
    const [a, b, c] = exprs.map((e) => e.arg as Scalar);
    const result = evaluate(op, dtype, a!, b, c);
    return fromExpr(constant(record.result === 'bool' ? bool : dtype, result, p.at(node)));
  }
  if (record.result === 'same' && values.every(isLiteral)) {
    const make = (t: DType): Expr =>
      alu(
        op,
        values.map((v, i) => assignable(p, nodes[i]!, what, v, t, lanes)),
        p.at(node),
      );
    return { kind: 'flexible', natural: dtype, lanes, make, key: p.key(node) };
  }
  return fromExpr(alu(op, exprs, p.at(node)));
}

/** A condition: a scalar bool. */
export function toCondition(p: Parsing, node: Syntax, v: Value): Expr {
  const expr = toExpr(p, node, v);
  if (expr.type.dtype !== bool) {
    p.fail(node, `a condition must be a bool, got ${describeValue(v)}. Compare it: x !== 0.`);
  }
  if (expr.type.lanes !== 1) p.fail(node, 'a condition must be a scalar; use select(c, a, b) for vectors.');
  return expr;
}

/** An index: i32, or u32 cast to it. */
export function toIndex(p: Parsing, node: Syntax, v: Value): Expr {
  const expr = toExpr(p, node, v, v.kind === 'static' ? i32 : undefined);
  if (expr.type.lanes !== 1) p.fail(node, `an index must be a scalar, got ${formatType(expr.type)}.`);
  if (expr.type.dtype === i32) return expr;
  if (expr.type.dtype === u32) return cast(i32, expr, expr.at);
  return p.fail(node, `an index must be i32, got ${describeValue(v)}. Convert it: i32(x).`);
}

/**
 * A value for a place of a fixed type: a variable, an element, a parameter of a helper.
 * @param unless a fact by which that type is another
 */
export function assignable(
  p: Parsing,
  node: Syntax,
  what: string,
  v: Value,
  dtype: DType,
  lanes: Expr['type']['lanes'],
  unless?: Fact,
): Expr {
  const expr = toExpr(p, node, v, dtype);
  if (expr.type.dtype !== dtype || unless) {
    const hint = dtype === bool ? 'Compare it: x !== 0.' : `Convert it: ${dtype.name}(${p.textOf(node)}).`;
    p.fail(
      node,
      `${what} is ${dtype.name}, the value is ${formatType(expr.type)}. ${hint}`,
      unless ?? p.typedBy(expr, value(dtype, lanes)),
    );
  }
  if (expr.type.lanes === lanes) return expr;
  if (expr.type.lanes === 1) return splat(expr, lanes, expr.at);
  return p.fail(
    node,
    `${what} has ${lanes} lane${lanes > 1 ? 's' : ''}, the value ${expr.type.lanes}. Take one: lane(v, 0).`,
  );
}

/** One of two values by a condition that is known only at run time; both sides have been parsed. */
export function choice(
  p: Parsing,
  node: Syntax,
  condition: Expr,
  nodes: readonly [Syntax, Syntax],
  values: readonly [Value, Value],
): Value {
  const [a, b] = values;
  if (isLiteral(a) && isLiteral(b)) {
    const [x, y] = [staticOf(a), staticOf(b)];
    if (x !== undefined && Object.is(x, y)) return a;
    const [left, right] = unify(p, node, 'the two sides of a choice', nodes, values);
    const { dtype: natural, lanes } = left!.type;
    if (natural === bool) return fromExpr(select(condition, left!, right!, p.at(node)));
    const make = (dtype: DType): Expr =>
      select(
        condition,
        assignable(p, nodes[0], 'the choice', a, dtype, lanes),
        assignable(p, nodes[1], 'the choice', b, dtype, lanes),
        p.at(node),
      );
    return { kind: 'flexible', natural, lanes, make, key: p.key(node) };
  }
  const [left, right] = unify(p, node, 'the two sides of a choice', nodes, values);
  return sameValueType(left!.type, right!.type)
    ? fromExpr(select(condition, left!, right!, p.at(node)))
    : p.fail(node, 'the two sides of a choice differ in type.');
}
