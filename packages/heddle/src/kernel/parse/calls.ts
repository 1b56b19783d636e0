/** Calls: casts, operations, vectors, intrinsics, and the author's own functions. */
import type { CallExpression, Expression } from 'acorn';
import { bool, type DType, f32, i32, isHalf } from '../../core/dtype.js';
import type { IntrinsicRecord } from '../ir/intrinsic-record.js';
import { INTRINSICS, type Intrinsic, PARAM_TYPE, resultOf } from '../ir/intrinsics.js';
import {
  act,
  assertion,
  bitcast,
  cast,
  type Expr,
  effect,
  int,
  intrinsic,
  isPair,
  lane,
  print,
  read,
  splat,
  vector,
} from '../ir/ir.js';
import { OPS } from '../ir/ops.js';
import type { Lanes } from '../ir/types.js';
import { MATH, NAMED_OPS } from './builtins.js';
import { choose } from './choose.js';
import { type AuthorFunction, inline } from './functions.js';
import { unnamed } from './instrumented.js';
import { constantOf, copyAsync, declareArray, elementsOf, loadWide, place, storeWide } from './memory.js';
import { placesOf, requirePlaces } from './places.js';
import type { Parsing } from './state.js';
import {
  apply,
  assignable,
  choice,
  describeValue,
  isDType,
  literal,
  staticOf,
  toCondition,
  toExpr,
  unify,
} from './typing.js';
import { fromExpr, fromStatic, type Syntax, type Value, VOID } from './values.js';

export function call(p: Parsing, node: CallExpression): Value {
  const bare = unnamed(node, p.isKnown);
  if (bare !== node) return p.expression(bare);
  const args = node.arguments.map((a) =>
    a.type === 'SpreadElement' ? p.fail(a, '`...` has no meaning in a kernel.') : a,
  );
  if (node.callee.type === 'Super') return p.fail(node, '`super` is not part of the kernel language.');
  const callee = p.expression(node.callee);
  if (callee.kind === 'function') return inlineSplit(p, node, callee, args);
  if (callee.kind === 'ir-function') {
    const given = p.inOrder(args.map((a) => () => p.expression(a)));
    const operands = given.flatMap((v, i) => elementsOf(v) ?? toExpr(p, args[i]!, v));
    const values = operands.map((e) => p.repeatable(e));
    return fromExpr(
      callee.build(
        values,
        (statement) => p.emit(statement),
        (array) => p.reserve(array),
      ),
    );
  }
  if (callee.kind === 'static' && isDType(callee.value)) return castTo(p, node, callee.value, args);
  if (callee.kind === 'builtin') return builtin(p, node, callee.name, args);
  if (callee.kind === 'record' && callee.name === 'Number') {
    p.fail(node, 'Number(x) names no dtype: write f32(x), i32(x)…');
  }
  return p.fail(node.callee, `${describeValue(callee)} is not a function.`);
}

/** `f(c ? a : b)` as `c ? f(a) : f(b)`, where a constant in `f` depends on it. */
function inlineSplit(
  p: Parsing,
  node: CallExpression,
  callee: AuthorFunction,
  args: readonly Expression[],
): Value {
  for (const [i, arg] of args.entries()) {
    if (arg.type !== 'ConditionalExpression' || !p.isSplit(arg)) continue;
    const side = (part: Expression) => (): Value => inlineSplit(p, node, callee, args.with(i, part));
    const { test, consequent, alternate } = arg;
    const nodes = [consequent, alternate] as const;
    return choose(p, node, p.expression(test), test, nodes, side(consequent), side(alternate));
  }
  return inline(p, node, callee, args);
}

/** Parse the arguments, in order. @throws KernelError unless there are `count` of them */
function values(
  p: Parsing,
  node: CallExpression,
  args: readonly Expression[],
  usage: string,
  count: number,
): Value[] {
  if (args.length !== count)
    p.fail(node, `${usage} takes ${count} argument${count === 1 ? '' : 's'}, got ${args.length}.`);
  return p.inOrder(args.map((a) => () => p.expression(a)));
}

function castTo(p: Parsing, node: CallExpression, dtype: DType, args: readonly Expression[]): Value {
  const [v] = values(p, node, args, `${dtype.name}(x)`, 1);
  const known = v!.kind === 'static' ? v!.value : undefined;
  if (typeof known === 'number' || typeof known === 'boolean')
    return fromExpr(convertLiteral(p, node, known, dtype));
  if (v!.kind === 'flexible') return fromExpr(cast(dtype, v!.make(v!.natural), p.at(node)));
  return fromExpr(cast(dtype, toExpr(p, args[0]!, v!), p.at(node)));
}

function convertLiteral(p: Parsing, node: Syntax, v: number | boolean, dtype: DType): Expr {
  if (dtype === bool) return literal(p, node, Boolean(v), bool);
  const n = Number(v);
  return literal(p, node, dtype.kind === 'float' ? n : Math.trunc(n), dtype);
}

function builtin(p: Parsing, node: CallExpression, name: string, args: readonly Expression[]): Value {
  const op = NAMED_OPS[name];
  if (op) return apply(p, node, op.op, args, values(p, node, args, op.usage, op.arity));
  if (name.startsWith('Math.')) return math(p, node, name.slice(5), args);
  if (Object.hasOwn(INTRINSICS, name)) return callIntrinsic(p, node, name as Intrinsic, args);
  switch (name) {
    case 'shared':
    case 'local':
    case 'local2':
    case 'local4':
    case 'dynamicShared':
    case 'sharedTile':
    case 'mbarriers':
      return declareArray(p, node, name, args);
    case 'load2':
      return loadWide(p, node, args, 2);
    case 'load4':
      return loadWide(p, node, args, 4);
    case 'copyAsync':
      return copyAsync(p, node, args, 1);
    case 'copyAsync2':
      return copyAsync(p, node, args, 2);
    case 'copyAsync4':
      return copyAsync(p, node, args, 4);
    case 'copyAsync4Once':
      return copyAsync(p, node, args, 4, 'async-once');
    case 'store2':
      return storeWide(p, node, args, 2);
    case 'store4':
      return storeWide(p, node, args, 4);
    case 'vec2':
      return vectorOf(p, node, args, 2);
    case 'vec4':
      return vectorOf(p, node, args, 4);
    case 'splat2':
      return splatOf(p, node, args, 2);
    case 'splat4':
      return splatOf(p, node, args, 4);
    case 'lane': {
      const [v, k] = values(p, node, args, 'lane(v, k)', 2);
      const from = toExpr(p, args[0]!, v!);
      const index = constantOf(p, args[1]!, k!, 'the lane');
      if (from.type.lanes === 1) p.fail(args[0]!, `lane takes a vector first, got ${describeValue(v!)}.`);
      if (!Number.isInteger(index) || index < 0 || index >= from.type.lanes) {
        p.fail(args[1]!, `lane ${index} is out of range: the vector has ${from.type.lanes} lanes.`);
      }
      return fromExpr(lane(from, index, p.at(node)));
    }
    case 'bitcast': {
      const [t, v] = values(p, node, args, 'bitcast(f32, x)', 2);
      if (t!.kind !== 'static' || !isDType(t!.value))
        return p.fail(node, 'bitcast takes a dtype first: bitcast(f32, x).');
      const from = toExpr(p, args[1]!, v!);
      if (from.type.dtype.bytes !== t!.value.bytes && !isPair(t!.value, from.type)) {
        p.fail(
          node,
          `bitcast needs equal sizes: ${from.type.dtype.name} has ${from.type.dtype.bytes} bytes, ${t!.value.name} ${t!.value.bytes}.`,
        );
      }
      return fromExpr(from.type.dtype === t!.value ? from : bitcast(t!.value, from, p.at(node)));
    }
    case 'rsqrt': {
      const [v] = values(p, node, args, 'rsqrt(x)', 1);
      const x = toExpr(p, args[0]!, v!);
      const { dtype } = x.type;
      const root = apply(p, node, 'sqrt', args, [isHalf(dtype) ? fromExpr(cast(f32, x, p.at(node))) : v!]);
      const inverse = apply(p, node, 'div', [node, node], [fromStatic(1), root]);
      return isHalf(dtype) ? fromExpr(cast(dtype, toExpr(p, node, inverse), p.at(node))) : inverse;
    }
    case 'select': {
      const [c, a, b] = values(p, node, args, 'select(c, a, b)', 3);
      const known = staticOf(c!);
      if (known !== undefined) return known ? a! : b!;
      const condition = toExpr(p, args[0]!, c!);
      if (condition.type.dtype !== bool)
        p.fail(args[0]!, `a condition must be a bool, got ${describeValue(c!)}.`);
      const result = choice(p, node, condition, [args[1]!, args[2]!], [a!, b!]);
      const lanes = condition.type.lanes;
      if (lanes > 1 && toExpr(p, node, result).type.lanes !== lanes) {
        p.fail(node, `the condition has ${lanes} lanes: the values must have as many. Use splat${lanes}(v).`);
      }
      return result;
    }
    case 'assert': {
      const [condition, text] = args;
      if (!condition || args.length > 2)
        return p.fail(node, "assert takes a condition and a message: assert(i < n, 'i is in range').");
      const message = text ? textOf(p, text) : p.textOf(condition);
      p.emit(assertion(toCondition(p, condition, p.expression(condition)), message, p.at(node)));
      return VOID;
    }
    case 'print':
      return printCall(p, node, args);
    default:
      return p.fail(node, `${name} is not part of the kernel language.`);
  }
}

function textOf(p: Parsing, node: Expression): string {
  const v = p.expression(node);
  return v.kind === 'static' && typeof v.value === 'string'
    ? v.value
    : p.fail(node, 'the text must be a string literal.');
}

function printCall(p: Parsing, node: CallExpression, args: readonly Expression[]): Value {
  const [text, ...rest] = args;
  if (!text) return p.fail(node, "print takes a text and its values: print('x = {}', x).");
  const format = textOf(p, text);
  const places = format.split('{}').length - 1;
  if (places !== rest.length) {
    p.fail(node, `the text has ${places} {} for ${rest.length} value${rest.length === 1 ? '' : 's'}.`);
  }
  const shown = p.inOrder(rest.map((a) => () => p.expression(a)));
  p.emit(
    print(
      format,
      shown.map((v, i) => toExpr(p, rest[i]!, v)),
      p.at(node),
    ),
  );
  return VOID;
}

/** `vec4(a, b, c, d)`. */
function vectorOf(p: Parsing, node: CallExpression, args: readonly Expression[], lanes: Lanes): Value {
  const parts = values(p, node, args, `vec${lanes}`, lanes);
  const build = (dtype?: DType): Expr => {
    const exprs = dtype
      ? parts.map((v, i) => assignable(p, args[i]!, 'a lane', v, dtype, 1))
      : unify(p, node, `vec${lanes}`, args, parts);
    if (exprs.some((e) => e.type.lanes > 1)) p.fail(node, `vec${lanes} takes scalars.`);
    return vector(exprs, p.at(node));
  };
  if (parts.some((v) => v.kind !== 'static')) return fromExpr(build());
  return { kind: 'flexible', natural: build().type.dtype, lanes, make: build, key: p.key(node) };
}

/** `splat4(v)`. */
function splatOf(p: Parsing, node: CallExpression, args: readonly Expression[], lanes: Lanes): Value {
  const [v] = values(p, node, args, `splat${lanes}(v)`, 1);
  const build = (dtype?: DType): Expr => {
    const from = toExpr(p, args[0]!, v!, dtype);
    if (from.type.lanes > 1) p.fail(node, `splat${lanes} takes a scalar, got ${describeValue(v!)}.`);
    return splat(from, lanes, p.at(node));
  };
  if (v!.kind === 'expr') return fromExpr(build());
  return { kind: 'flexible', natural: build().type.dtype, lanes, make: build, key: p.key(node) };
}

function math(p: Parsing, node: CallExpression, name: string, args: readonly Expression[]): Value {
  const parts = p.inOrder(args.map((a) => () => p.expression(a)));
  const known = parts.map((v) => (v.kind === 'static' && typeof v.value === 'number' ? v.value : undefined));
  if (args.length > 0 && known.every((v) => v !== undefined)) {
    const host = (Math as unknown as Record<string, (...numbers: number[]) => number>)[name]!;
    return fromStatic(host(...known));
  }
  const rule = MATH[name];
  if (!rule)
    return p.fail(
      node,
      `Math.${name} is not part of the kernel language. There are ${Object.keys(MATH).join(', ')}.`,
    );
  if (typeof rule === 'string') {
    if ((rule === 'min' || rule === 'max') && args.length > 2) {
      return parts
        .slice(1)
        .reduce((a, b, i) => apply(p, node, rule, [args[0]!, args[i + 1]!], [a, b]), parts[0]!);
    }
    const { arity } = OPS[rule];
    if (args.length !== arity)
      p.fail(node, `Math.${name} takes ${arity} argument${arity > 1 ? 's' : ''}, got ${args.length}.`);
    return apply(p, node, rule, args, parts);
  }
  if (args.length !== rule.arity)
    p.fail(
      node,
      `Math.${name} takes ${rule.arity} argument${rule.arity > 1 ? 's' : ''}, got ${args.length}.`,
    );
  return rule.make(p, node, args, parts);
}

/** Barriers, warp operations, votes and atomics. One that has a value becomes its own variable. */
function callIntrinsic(
  p: Parsing,
  node: CallExpression,
  name: Intrinsic,
  args: readonly Expression[],
): Value {
  const record: IntrinsicRecord = INTRINSICS[name];
  if (record.result === 'none') return actOf(p, node, name, record, args);
  if (record.rows) {
    const { memory, indices } = place(p, node, args);
    const { dtype, space } = memory.type;
    if (space !== 'shared' || !record.rows.includes(dtype.name))
      p.fail(
        node,
        `${name} reads a shared array of ${record.rows.join(' or ')}, got ${space} ${dtype.name}.`,
      );
    const matrices = intrinsic(name, [memory, ...indices], dtype, p.at(node));
    return fromExpr(read(p.keep(matrices, name), p.at(node)));
  }
  const given = record.params.length;
  const isAtPlace = record.atomic || record.remote;
  const usage = `${name}(${[...(isAtPlace ? ['x', 'i'] : []), ...['v', 'w'].slice(0, given)].join(', ')})`;
  if (isAtPlace ? args.length < given + 2 : args.length !== given) {
    p.fail(
      node,
      `${usage}: ${record.doc}. It takes ${given + (isAtPlace ? 2 : 0)} arguments, got ${args.length}.`,
    );
  }
  const split = isAtPlace ? args.length - given : 0;
  const at = isAtPlace ? place(p, node, args.slice(0, split)) : undefined;
  if (record.remote && at?.memory.type.space !== 'shared')
    p.fail(node, `${name} reads a shared array, got ${at?.name}, ${at?.memory.type.space} memory.`);
  const rest = args.slice(split);
  const parts = p.inOrder(rest.map((a) => () => p.expression(a)));
  const typed = parts.find((v, i) => record.params[i] === 'T' && v.kind === 'expr');
  const t = at ? at.memory.type.dtype : typed?.kind === 'expr' ? typed.expr.type.dtype : undefined;
  const exprs = parts.map((v, i) => {
    const wanted = record.params[i]!;
    const what = `argument ${i + 1} of ${name}`;
    if (wanted === 'T') return assignable(p, rest[i]!, what, v, t ?? toExpr(p, rest[i]!, v).type.dtype, 1);
    const { dtype, lanes } = PARAM_TYPE[wanted];
    return assignable(p, rest[i]!, what, v, dtype, lanes);
  });
  const src = at ? [at.memory, ...at.indices, ...exprs] : exprs;
  const expr = intrinsic(name, src, t ?? exprs[0]?.type.dtype ?? i32, p.at(node));
  return resultOf(name, f32) ? fromExpr(read(p.keep(expr, name), p.at(node))) : effectOf(p, expr);
}

/** Those whose arguments need not be constants. */
const VARYING: ReadonlySet<Intrinsic> = new Set<Intrinsic>([
  'initBarrier',
  'arriveExpect',
  'arriveRemote',
  'storeRemote',
  'tmaLoadMulticast',
  'waitBarrier',
  'groupBarrier',
]);

/** An intrinsic without a result. */
function actOf(
  p: Parsing,
  node: CallExpression,
  name: Intrinsic,
  { places = [], params, optional = 0 }: IntrinsicRecord,
  args: readonly Expression[],
): Value {
  const taken = placesOf(p, node, name, places, args);
  const rest = args.slice(taken.count);
  const usage = `${name}(${[...places.map((kind) => `${kind}, i…`), ...params.map(() => 'n')].join(', ')})`;
  if (rest.length > params.length || rest.length < params.length - optional) {
    const most = `${params.length} argument${params.length === 1 ? '' : 's'}`;
    p.fail(
      node,
      `${usage} takes ${most}${places.length > 0 ? ' after its places' : ''}, got ${rest.length}.`,
    );
  }
  const given = p.inOrder(rest.map((a) => () => p.expression(a)));
  const values = params.map((type, i): Expr => {
    const v = given[i] ?? fromStatic(false);
    const at = rest[i] ?? node;
    const dtype = type === 'T' ? taken.places[0]!.memory.type.dtype : i32;
    if (VARYING.has(name)) return assignable(p, at, `argument ${i + 1} of ${name}`, v, dtype, 1);
    if (type !== 'bool') return int(constantOf(p, at, v, `the argument of ${name}`));
    const known = staticOf(v);
    if (typeof known !== 'boolean') p.fail(at, `argument ${i + 1} of ${name} is true or false, a constant.`);
    return literal(p, at, known === true, bool);
  });
  requirePlaces(p, node, name, taken.places, values);
  p.emit(act(name, [...taken.places.flatMap((at) => [at.memory, ...at.indices]), ...values], p.at(node)));
  return VOID;
}

function effectOf(p: Parsing, expr: Expr): Value {
  p.emit(effect(expr, expr.at));
  return VOID;
}
