/** `=`, `+=`, `++`: to variables and to elements of memory. */
import type { AssignmentExpression, Expression, Identifier, Pattern, UpdateExpression } from 'acorn';
import { load, read, set, store } from '../ir/ir.js';
import { sameValueType } from '../ir/types.js';
import { element } from './memory.js';
import { combine } from './operators.js';
import { isStable, type Parsing } from './state.js';
import { assignable, toExpr } from './typing.js';
import { type Binding, fromExpr, fromStatic, type Syntax, type Value, VOID } from './values.js';

/** @param used whether its value is needed */
export function assign(p: Parsing, node: AssignmentExpression, used: boolean): Value {
  const { left, right, operator } = node;
  const symbol = operator.slice(0, -1);
  if (symbol === '&&' || symbol === '||' || symbol === '??') {
    return p.fail(node, `\`${operator}\` is not part of the kernel language. Write it out: if (…) x = ….`);
  }
  return change(p, node, left, symbol, right, () => p.expression(right), used);
}

/** `x++` and `++x`. @param used whether its value is needed */
export function update(p: Parsing, node: UpdateExpression, used: boolean): Value {
  const target = node.argument;
  let before: Value = VOID;
  if (used && !node.prefix) {
    const now = toExpr(p, node, p.expression(target));
    before = fromExpr(read(p.keep(now), p.at(node)));
  }
  const after = change(p, node, target, node.operator[0]!, node, () => fromStatic(1), used && node.prefix);
  return node.prefix ? after : before;
}

function change(
  p: Parsing,
  node: AssignmentExpression | UpdateExpression,
  target: Pattern | Expression,
  symbol: string,
  rightNode: Syntax,
  right: () => Value,
  used: boolean,
): Value {
  if (target.type === 'ParenthesizedExpression')
    return change(p, node, target.expression, symbol, rightNode, right, used);
  if (target.type === 'Identifier') return changeVariable(p, node, target, symbol, rightNode, right);
  if (target.type !== 'MemberExpression') {
    return p.fail(target, 'only variables and elements of memory can be assigned: v = …, x[i] = ….');
  }
  const place = element(p, target);
  const { memory, name } = place;
  const old = symbol ? fromExpr(load(memory, place.indices, 1, p.at(target))) : undefined;
  const indices = place.indices.map((index) => () => fromExpr(index));
  const results = p.inOrder(old ? [...indices, () => old, right] : [...indices, right]);
  const settled = results
    .slice(0, indices.length)
    .map((v, i) => toExpr(p, target, v, place.indices[i]!.type.dtype));
  const given = results.at(-1)!;
  const value = old ? combine(p, node, symbol, [target, rightNode], [results.at(-2)!, given]) : given;
  const lanes = memory.op === 'array' ? memory.arg.lanes : 1;
  const expr = assignable(p, rightNode, `${name}[…]`, value, memory.type.dtype, lanes);
  const stored = used && !isStable(expr) ? read(p.keep(expr), p.at(node)) : expr;
  p.emit(store(memory, stored, settled, p.at(node)));
  return fromExpr(stored);
}

function changeVariable(
  p: Parsing,
  node: AssignmentExpression | UpdateExpression,
  target: Identifier,
  symbol: string,
  rightNode: Syntax,
  right: () => Value,
): Value {
  const binding = p.scope.get(target.name);
  if (binding?.kind !== 'variable') return p.fail(target, notAssignable(target.name, binding));
  const { variable, open } = binding;
  const old = fromExpr(read(variable, p.at(target)));
  const assigned = (): Value => {
    if (!symbol) return right();
    const [before, given] = p.inOrder([() => old, right]);
    return combine(p, node, symbol, [target, rightNode], [before!, given!]);
  };
  const value = open === undefined ? assigned() : p.within({ target: { variable, open } }, assigned);
  const other =
    open !== undefined && value.kind === 'expr' && !sameValueType(value.expr.type, variable.type)
      ? { key: open, is: value.expr.type }
      : undefined;
  if (variable.constant)
    return p.fail(target, `${target.name} is a loop variable of a counted loop and stays as it is.`);
  const { dtype, lanes } = variable.type;
  const expr = assignable(p, rightNode, `\`${target.name}\``, value, dtype, lanes, other);
  p.emit(set(variable, expr, p.at(node)));
  return fromExpr(read(variable, p.at(node)));
}

function notAssignable(name: string, binding: Binding | undefined): string {
  if (!binding) return `\`${name}\` is not declared: write let ${name} = ….`;
  if (binding.kind === 'memory') return `\`${name}\` is memory: assign its elements, ${name}[i] = ….`;
  return `\`${name}\` cannot be assigned: copy it first, let v = ${name}.`;
}
