/** Expressions of the source. */
import type { BinaryExpression, Expression, Identifier, LogicalExpression, UnaryExpression } from 'acorn';
import { bool } from '../../core/dtype.js';
import { alu, read } from '../ir/ir.js';
import { missingFrom, unknownName } from './advice.js';
import { assign, update } from './assignments.js';
import { MATH } from './builtins.js';
import { call } from './calls.js';
import { choose } from './choose.js';
import { withoutCounters } from './instrumented.js';
import { member } from './memory.js';
import { combine } from './operators.js';
import type { Parsing } from './state.js';
import { apply, choice, staticOf, toCondition } from './typing.js';
import { fromExpr, fromStatic, type Value, VOID } from './values.js';

/** The constants of `Math` and `Number`, and the functions of `Math`. */
const host = (name: string, object: object): Value => ({
  kind: 'record',
  name,
  names: Object.getOwnPropertyNames(object).filter(
    (key) => name === 'Number' || key in MATH || key === key.toUpperCase(),
  ),
  get: (key) => {
    const own = (object as Readonly<Record<string, unknown>>)[key];
    if (typeof own === 'number') return fromStatic(own);
    return typeof own === 'function' ? { kind: 'builtin', name: `${name}.${key}` } : undefined;
  },
});

const GLOBALS: Readonly<Record<string, Value>> = {
  Math: host('Math', Math),
  Number: host('Number', Number),
  Infinity: fromStatic(Number.POSITIVE_INFINITY),
  NaN: fromStatic(Number.NaN),
  undefined: fromStatic(undefined),
};

export function expression(p: Parsing, node: Expression): Value {
  switch (node.type) {
    case 'Literal':
      if (typeof node.value === 'number' || typeof node.value === 'boolean' || typeof node.value === 'string')
        return fromStatic(node.value);
      return p.fail(node, `${p.textOf(node)} has no meaning in a kernel: use numbers and booleans.`);
    case 'Identifier':
      return identifier(p, node);
    case 'UnaryExpression':
      return unary(p, node);
    case 'BinaryExpression':
      return binary(p, node);
    case 'LogicalExpression':
      return logical(p, node);
    case 'ConditionalExpression':
      return choose(
        p,
        node,
        expression(p, node.test),
        node.test,
        [node.consequent, node.alternate],
        () => expression(p, node.consequent),
        () => expression(p, node.alternate),
      );
    case 'SequenceExpression': {
      const parts = withoutCounters(node.expressions);
      parts.slice(0, -1).forEach((part) => {
        evaluateFor(p, part);
      });
      const last = parts.at(-1);
      return last ? expression(p, last) : VOID;
    }
    case 'ParenthesizedExpression':
      return expression(p, node.expression);
    case 'AssignmentExpression':
      return assign(p, node, true);
    case 'UpdateExpression':
      return update(p, node, true);
    case 'MemberExpression':
      return member(p, node);
    case 'CallExpression':
      return call(p, node);
    case 'ArrowFunctionExpression':
    case 'FunctionExpression':
      return {
        kind: 'function',
        name: p.around.naming ?? 'function',
        node,
        source: p.source,
        scope: p.scope,
      };
    case 'ObjectExpression': {
      const members = new Map<string, Value>();
      for (const property of node.properties) {
        if (property.type !== 'Property' || property.computed || property.key.type !== 'Identifier') {
          return p.fail(property, 'only names may be passed on like this: { exp2, barrier }.');
        }
        const v = expression(p, property.value);
        members.set(property.key.name, p.settle(v, property.key.name));
      }
      const names = [...members.keys()];
      return { kind: 'record', name: 'the object', names, get: (name) => members.get(name) };
    }
    case 'TemplateLiteral':
      return p.fail(
        node,
        "template strings have no meaning in a kernel. In print write {} and pass the value: print('x = {}', x).",
      );
    case 'ArrayExpression':
      return p.fail(
        node,
        'array literals have no meaning in a kernel. Pass a constant array in the fourth argument of kernel(), or use local(f32, n).',
      );
    case 'NewExpression':
      return p.fail(
        node,
        '`new` has no meaning in a kernel. Arrays come from shared(f32, n) and local(f32, n).',
      );
    default:
      return p.fail(node, `${UNSUPPORTED[node.type] ?? node.type} is not part of the kernel language.`);
  }
}

const UNSUPPORTED: Readonly<Record<string, string>> = {
  ThisExpression: '`this`',
  AwaitExpression: '`await`',
  YieldExpression: '`yield`',
  ChainExpression: '`?.`',
  ClassExpression: 'a class',
  TaggedTemplateExpression: 'a tagged template',
  ImportExpression: '`import()`',
};

function identifier(p: Parsing, node: Identifier): Value {
  const binding = p.scope.get(node.name);
  if (binding?.kind === 'variable') return fromExpr(read(binding.variable, p.at(node)));
  if (binding?.kind === 'missing') {
    const { from, name } = binding;
    return p.fail(node, from.kind === 'record' ? missingFrom(p, from, name) : unknownName(p, name));
  }
  if (binding) return binding;
  return GLOBALS[node.name] ?? p.fail(node, unknownName(p, node.name));
}

function unary(p: Parsing, node: UnaryExpression): Value {
  if (node.operator === 'void') {
    evaluateFor(p, node.argument);
    return VOID;
  }
  const operand = expression(p, node.argument);
  switch (node.operator) {
    case '-':
      // Of a constant that is 0, which may well be an integer; −0 is only what is written so.
      if (operand.kind === 'static' && operand.value === 0 && node.argument.type !== 'Literal')
        return operand;
      return apply(p, node, 'neg', [node.argument], [operand]);
    case '+':
      if (operand.kind === 'static' && typeof operand.value === 'boolean')
        return fromStatic(Number(operand.value));
      // What minifiers make of `c ? 1 : 0`.
      if (operand.kind === 'expr' && operand.expr.type.dtype === bool)
        return choice(p, node, operand.expr, [node, node], [fromStatic(1), fromStatic(0)]);
      // x − 0 is x, also where x is −0.
      return apply(p, node, 'sub', [node.argument, node.argument], [operand, fromStatic(0)]);
    case '~':
      return apply(p, node, 'not', [node.argument], [operand]);
    case '!': {
      const known = staticOf(operand);
      if (known !== undefined) return fromStatic(!known);
      return fromExpr(alu('not', [toCondition(p, node.argument, operand)], p.at(node)));
    }
    default:
      return p.fail(node, `\`${node.operator}\` is not part of the kernel language.`);
  }
}

function binary(p: Parsing, node: BinaryExpression): Value {
  const { left, right } = node;
  if (left.type === 'PrivateIdentifier')
    return p.fail(node, 'private names are not part of the kernel language.');
  const values = p.inOrder([() => expression(p, left), () => expression(p, right)]);
  return combine(p, node, node.operator, [left, right], values);
}

function logical(p: Parsing, node: LogicalExpression): Value {
  const { left, right, operator: symbol } = node;
  if (symbol === '??')
    return p.fail(node, '`??` is not part of the kernel language: values are never undefined.');
  const first = expression(p, left);
  const known = staticOf(first);
  if (known !== undefined) {
    if (Boolean(known) !== (symbol === '&&')) return first;
    return expression(p, right);
  }
  const second = (): Value => {
    const v = expression(p, right);
    return v.kind === 'void' ? v : fromExpr(toCondition(p, right, v));
  };
  const short = (): Value => fromStatic(symbol === '||');
  return symbol === '&&'
    ? choose(p, node, first, left, [right, node], second, short)
    : choose(p, node, first, left, [node, right], short, second);
}

/** Evaluate an expression for what it does: `a && f()`, `c ? x = 1 : y = 2`, `i++`, `a, b`. */
export function evaluateFor(p: Parsing, node: Expression): void {
  switch (node.type) {
    case 'SequenceExpression':
      for (const part of withoutCounters(node.expressions)) evaluateFor(p, part);
      return;
    case 'LogicalExpression': {
      const effect = (): Value => {
        evaluateFor(p, node.right);
        return VOID;
      };
      const nothing = (): Value => VOID;
      const both = node.operator === '||' ? ([nothing, effect] as const) : ([effect, nothing] as const);
      choose(p, node, expression(p, node.left), node.left, [node.right, node.right], ...both);
      return;
    }
    case 'ConditionalExpression': {
      const side = (part: Expression) => (): Value => {
        evaluateFor(p, part);
        return VOID;
      };
      const { consequent, alternate } = node;
      choose(
        p,
        node,
        expression(p, node.test),
        node.test,
        [consequent, alternate],
        side(consequent),
        side(alternate),
      );
      return;
    }
    case 'AssignmentExpression':
      assign(p, node, false);
      return;
    case 'UpdateExpression':
      update(p, node, false);
      return;
    case 'ParenthesizedExpression':
      evaluateFor(p, node.expression);
      return;
    default:
      expression(p, node);
  }
}
