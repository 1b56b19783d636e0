/** Statements of the source. */
import type {
  Node as AstNode,
  Statement as AstStatement,
  Expression,
  VariableDeclaration,
  VariableDeclarator,
} from 'acorn';
import { i32 } from '../../core/dtype.js';
import {
  block,
  breakLoop,
  continueLoop,
  declare,
  effect,
  leave,
  type Variable,
  when,
  zeroOf,
} from '../ir/ir.js';
import { value } from '../ir/types.js';
import type { FunctionNode } from './capture.js';
import { evaluateFor } from './expressions.js';
import { bind } from './functions.js';
import { isInstrumentation, unnamed } from './instrumented.js';
import { doWhileLoop, forStatement, whileStatement } from './loops.js';
import { isAssigned } from './names.js';
import type { Parsing } from './state.js';
import { assignable, describeValue, staticOf, toCondition, toExpr } from './typing.js';
import type { Value } from './values.js';

/** Parse statements one after the other; those after a `return`, `break` or `continue` are never reached. */
export function statements(p: Parsing, body: readonly AstNode[]): void {
  for (const node of body) {
    statement(p, node as AstStatement);
    if (
      node.type === 'ReturnStatement' ||
      node.type === 'BreakStatement' ||
      node.type === 'ContinueStatement'
    )
      return;
  }
}

export function statement(p: Parsing, node: AstStatement): void {
  switch (node.type) {
    case 'EmptyStatement':
      return;
    case 'ExpressionStatement':
      if (isInstrumentation(node, p.isKnown)) return;
      effectOnly(p, () => evaluateFor(p, node.expression));
      return;
    case 'VariableDeclaration':
      declaration(p, node);
      return;
    case 'FunctionDeclaration':
      p.scope.set(node.id.name, {
        kind: 'function',
        name: node.id.name,
        node: node as unknown as FunctionNode,
        source: p.source,
        scope: p.scope,
      });
      return;
    case 'BlockStatement': {
      const inner = p.nested(() => statements(p, node.body));
      p.emit(...inner.statements);
      return;
    }
    case 'IfStatement': {
      const test = p.expression(node.test);
      const known = staticOf(test);
      if (known !== undefined) {
        const taken = known ? node.consequent : node.alternate;
        if (taken) p.emit(...p.nested(() => statement(p, taken)).statements);
        return;
      }
      const condition = toCondition(p, node.test, test);
      const then = p.conditional(() => statement(p, node.consequent)).statements;
      const { alternate } = node;
      const otherwise = alternate ? p.conditional(() => statement(p, alternate)).statements : [];
      p.emit(when(condition, block(then), otherwise.length > 0 ? block(otherwise) : undefined, p.at(node)));
      return;
    }
    case 'ForStatement':
      forStatement(p, node);
      return;
    case 'WhileStatement':
      whileStatement(p, node, node.test, node.body);
      return;
    case 'DoWhileStatement':
      doWhileLoop(p, node);
      return;
    case 'BreakStatement':
    case 'ContinueStatement': {
      const word = node.type === 'BreakStatement' ? 'break' : 'continue';
      if (node.label) p.fail(node, `labels have no meaning in a kernel: ${word} leaves the innermost loop.`);
      const { loop } = p.around;
      if (!loop) p.fail(node, `${word} outside of a loop.`);
      if (loop === 'unrolled') {
        p.fail(
          node,
          `${word} in a loop whose variable is needed as a constant: such a loop is unrolled. Use if instead.`,
        );
      }
      p.emit(word === 'break' ? breakLoop(p.at(node)) : continueLoop(p.at(node)));
      return;
    }
    case 'ReturnStatement':
      if (p.around.depth > 0) p.fail(node, 'a function that is inlined cannot return from here.');
      if (node.argument) effectOf(p, node.argument);
      p.emit(leave(p.at(node)));
      return;
    default:
      p.fail(node, UNSUPPORTED[node.type] ?? `${node.type} is not part of the kernel language.`);
  }
}

/** What a kernel ends with: minifiers write `return f(x)` and `return void (x[i] = v)`, but nobody gets a value. */
export function effectOf(p: Parsing, node: Expression): void {
  const last = node.type === 'SequenceExpression' ? node.expressions.at(-1)! : node;
  const sides = last.type === 'ConditionalExpression' ? [last.consequent, last.alternate] : [last];
  const value = sides.find((side) => !WITH_EFFECT.has(side.type) && !isUndefined(side));
  if (value)
    p.fail(
      value,
      'a kernel returns nothing: write its result to memory, y[i] = …, and return without a value.',
    );
  evaluateFor(p, node);
}

const WITH_EFFECT: ReadonlySet<string> = new Set([
  'CallExpression',
  'AssignmentExpression',
  'UpdateExpression',
  'LogicalExpression',
]);

const isUndefined = (node: Expression): boolean =>
  (node.type === 'Identifier' && node.name === 'undefined') ||
  (node.type === 'UnaryExpression' && node.operator === 'void');

const COUNT =
  '`for … of` and `for … in` are not part of the kernel language. Count: for (let i = 0; i < n; i++).';
const ASSERT = "Exceptions have no meaning in a kernel. Use assert(condition, 'message').";
const UNSUPPORTED: Readonly<Record<string, string>> = {
  SwitchStatement: '`switch` is not part of the kernel language. Write if … else if ….',
  ForOfStatement: COUNT,
  ForInStatement: COUNT,
  ThrowStatement: ASSERT,
  TryStatement: ASSERT,
  LabeledStatement: 'labels are not part of the kernel language.',
  ClassDeclaration: 'classes are not part of the kernel language.',
  DebuggerStatement: '`debugger` has no meaning in a kernel. Use print or the simulator.',
};

/** An intrinsic that is called for what it does needs no variable: `let t = atomicAdd(…)` becomes an effect. */
function effectOnly(p: Parsing, parse: () => void): void {
  const before = p.out.length;
  parse();
  const result = p.out.length > before ? p.takeLast() : undefined;
  if (result?.op === 'intrinsic') p.emit(effect(result, result.at));
}

function declaration(p: Parsing, node: VariableDeclaration): void {
  if (node.kind === 'var') p.fail(node, '`var` is not part of the kernel language. Use let or const.');
  for (const declarator of node.declarations) declareOne(p, declarator, node.kind === 'const');
}

function declareOne(p: Parsing, node: VariableDeclarator, isConst: boolean): void {
  const { id, init } = node;
  if (id.type !== 'Identifier') {
    if (!init) p.fail(node, 'a destructuring needs a value.');
    bind(p, id, p.expression(init));
    return;
  }
  const { name } = id;
  const fixed = isConst || !isAssigned(p.source.node, id);
  const given = init ? p.within({ naming: name }, () => p.expression(unnamed(init, p.isKnown))) : undefined;
  if (init && (isUndefined(init) || (given?.kind === 'static' && given.value === undefined)))
    p.fail(
      init,
      `a kernel has no undefined values: give \`${name}\` one, or declare it without: let ${name};`,
    );
  if (fixed && given && given.kind !== 'expr') {
    if (given.kind === 'void') p.fail(init ?? node, `\`${name}\` is given nothing: the call has no value.`);
    p.scope.set(name, p.settle(given, name));
    return;
  }
  if (given?.kind === 'expr') {
    // A typed constant stays known, so that it can size arrays and prune branches.
    if (fixed && given.expr.op === 'const') {
      p.scope.set(name, given);
      return;
    }
    const variable: Variable = { name, type: given.expr.type, constant: fixed };
    p.emit(declare(variable, p.takeResult(given.expr), p.at(node)));
    p.scope.set(name, { kind: 'variable', variable });
    return;
  }
  if (given && given.kind !== 'static' && given.kind !== 'flexible') {
    p.fail(node, `\`${name}\` is ${describeValue(given)} and cannot be set later: use const.`);
  }
  declareOpen(p, node, name, given);
}

/** A `let` that starts as a bare literal, or as nothing: its type comes from the first typed value it is given. */
function declareOpen(p: Parsing, node: VariableDeclarator, name: string, given: Value | undefined): void {
  const key = p.key(node);
  const type = p.typeAt(key);
  const natural = given ? toExpr(p, node, given).type : value(i32);
  const wanted = type ?? natural;
  const initial = given
    ? assignable(p, node.init ?? node, `\`${name}\``, given, wanted.dtype, wanted.lanes)
    : zeroOf(wanted, p.at(node));
  const variable: Variable = { name, type: wanted, constant: false };
  p.emit(declare(variable, initial, p.at(node)));
  p.scope.set(name, type ? { kind: 'variable', variable } : { kind: 'variable', variable, open: key });
}
