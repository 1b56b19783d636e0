/** `for`, `while` and `do`: loops that count become `for` of the IR, all others `while`. */
import type {
  AssignmentExpression,
  Statement as AstStatement,
  DoWhileStatement,
  Expression,
  ForStatement,
  Identifier,
  UpdateExpression,
  WhileStatement,
} from 'acorn';
import { bool, i32, isByte, isInteger, LIMITS } from '../../core/dtype.js';
import { topological } from '../../core/node.js';
import {
  alu,
  block,
  breakLoop,
  constant,
  declare,
  type Expr,
  forLoop,
  type Node,
  read,
  type Statement,
  set,
  type Variable,
  when,
  whileLoop,
} from '../ir/ir.js';
import type { Scalar } from '../ir/ops.js';
import { sameValueType, value } from '../ir/types.js';
import { evaluateFor } from './expressions.js';
import { isAssigned, mentions } from './names.js';
import type { Parsing } from './state.js';
import { apply, staticOf, toCondition, toExpr } from './typing.js';
import { fromExpr, fromStatic, type Syntax } from './values.js';

/** `for (let NAME = START; NAME < END; NAME += STEP)`. */
interface Counting {
  readonly name: string;
  readonly declared: Identifier;
  readonly start: Expression;
  readonly end: Expression;
  readonly inclusive: boolean;
  /** The step; undefined for ++. */
  readonly step: Expression | undefined;
}

export function forStatement(p: Parsing, node: ForStatement): void {
  const counting = countingOf(node);
  const counts =
    counting &&
    !isAssigned(p.source.node, counting.declared, node.body) &&
    p.attempt(p.key(node), () => countedLoop(p, node, counting));
  if (counts) return;
  const whole = p.nested(() => {
    const { init, update } = node;
    if (init) {
      if (init.type === 'VariableDeclaration') p.statement(init);
      else evaluateFor(p, init);
    }
    const step = update ? () => p.nested(() => evaluateFor(p, update)).statements : () => [];
    loop(p, node, node.test ?? undefined, node.body, step);
  });
  p.emit(...whole.statements);
}

export function whileStatement(p: Parsing, node: WhileStatement, test: Expression, body: AstStatement): void {
  loop(p, node, test, body, () => []);
}

/** A loop of the general kind. A condition that makes statements moves into the body. */
function loop(
  p: Parsing,
  node: Syntax,
  test: Expression | undefined,
  body: AstStatement,
  update: () => Statement[],
): void {
  const yes = constant(bool, true, p.at(node));
  const condition = test
    ? p.nested(() => {
        const v = p.expression(test);
        const known = staticOf(v);
        return known === undefined ? toCondition(p, test, v) : constant(bool, Boolean(known), p.at(test));
      })
    : { statements: [], result: yes };
  if (condition.result.op === 'const' && condition.result.arg === false) return;
  const inner = bodyOf(p, body);
  const step = block(update());
  if (condition.statements.length === 0) {
    p.emit(whileLoop(condition.result, block(inner), step, p.at(node)));
    return;
  }
  const stop = when(alu('not', [condition.result]), block([breakLoop(p.at(node))]), undefined, p.at(node));
  p.emit(whileLoop(yes, block([...condition.statements, stop, ...inner]), step, p.at(node)));
}

/** The condition of `do … while` is the update: `continue` goes there as well. */
export function doWhileLoop(p: Parsing, node: DoWhileStatement): void {
  const again: Variable = { name: 'again', type: value(bool), constant: false };
  p.emit(declare(again, constant(bool, true), p.at(node)));
  const inner = bodyOf(p, node.body);
  const update = p.nested(() => {
    const v = toCondition(p, node.test, p.expression(node.test));
    p.emit(set(again, v, p.at(node.test)));
  });
  p.emit(whileLoop(read(again, p.at(node)), block(inner), block(update.statements), p.at(node)));
}

function bodyOf(p: Parsing, body: AstStatement): Statement[] {
  return p.nested(() => p.statement(body), { loop: 'loop' }).statements;
}

const known = new WeakMap<ForStatement, { readonly counting: Counting | undefined }>();

function countingOf(node: ForStatement): Counting | undefined {
  const found = known.get(node) ?? { counting: findCounting(node) };
  known.set(node, found);
  return found.counting;
}

function findCounting(node: ForStatement): Counting | undefined {
  const { init, test, update } = node;
  if (init?.type !== 'VariableDeclaration' || init.declarations.length !== 1) return undefined;
  const [declarator] = init.declarations;
  if (declarator?.id.type !== 'Identifier' || !declarator.init) return undefined;
  const declared = declarator.id;
  const { name } = declared;
  if (test?.type !== 'BinaryExpression' || !update) return undefined;
  const { left, right, operator } = test;
  const isName = (e: { type: string; name?: string }): boolean => e.type === 'Identifier' && e.name === name;
  let end: Expression;
  if ((operator === '<' || operator === '<=') && isName(left)) end = right;
  else if ((operator === '>' || operator === '>=') && isName(right) && left.type !== 'PrivateIdentifier')
    end = left;
  else return undefined;
  const step = stepOf(update, isName);
  if (!step || mentions(end, name) || mentions(step.by, name)) return undefined;
  return { name, declared, start: declarator.init, end, inclusive: operator.endsWith('='), step: step.by };
}

/** `i++`, `++i`, `i += c`, `i = i + c`. */
function stepOf(
  update: Expression,
  isName: (e: Expression | UpdateExpression['argument'] | AssignmentExpression['left']) => boolean,
): { by: Expression | undefined } | undefined {
  if (update.type === 'UpdateExpression') {
    return update.operator === '++' && isName(update.argument) ? { by: undefined } : undefined;
  }
  if (update.type !== 'AssignmentExpression' || !isName(update.left)) return undefined;
  const { right } = update;
  if (update.operator === '+=') return { by: right };
  if (update.operator !== '=' || right.type !== 'BinaryExpression' || right.operator !== '+')
    return undefined;
  return right.left.type !== 'PrivateIdentifier' && isName(right.left) ? { by: right.right } : undefined;
}

/** A loop that counts, if its end and step stay what they are; false where it must be a `while`. */
function countedLoop(p: Parsing, node: ForStatement, counting: Counting): boolean {
  const { name } = counting;
  const header = p.nested(() => {
    const start = p.expression(counting.start);
    const end = p.expression(counting.end);
    const step = counting.step ? p.expression(counting.step) : fromStatic(1);
    return { start, end, step };
  });
  const { start, end, step } = header.result;
  if (header.statements.length > 0) return false;
  const typed = [start, end, step].find((v) => v.kind === 'expr');
  const type = typed?.kind === 'expr' ? typed.expr.type : value(i32);
  if (!isInteger(type.dtype) || type.lanes > 1) return false;
  const known = staticOf(step);
  if (known !== undefined && !(typeof known === 'number' && known > 0)) return false;
  const nodes = { start: counting.start, end: counting.end, step: counting.step ?? node };
  const bound = counting.inclusive ? apply(p, node, 'add', [nodes.end, node], [end, fromStatic(1)]) : end;
  const exprs = {
    start: toExpr(p, nodes.start, start, type.dtype),
    end: toExpr(p, nodes.end, bound, type.dtype),
    step: toExpr(p, nodes.step, step, type.dtype),
  };
  if (!Object.values(exprs).every((e) => sameValueType(e.type, type))) {
    // Types that differ are an error of the comparison, which the general loop reports.
    return false;
  }
  if (isByte(type.dtype)) {
    const byte = type.dtype.name;
    const end = LIMITS[byte]![1];
    p.fail(
      node,
      `a loop does not count in ${byte}, which ends at ${end}. Count in i32, and write ${byte}(i) inside.`,
    );
  }
  const numbers = Object.values(exprs).map((e) => (e.op === 'const' ? Number(e.arg) : undefined));
  const constants = numbers.every((n) => n !== undefined);
  const key = p.key(node);
  if (constants && p.isUnrolled(key)) {
    unroll(p, node, counting.name, type.dtype, numbers as number[]);
    return true;
  }
  const variable: Variable = { name, type, constant: true };
  if (constants) p.counts(variable, key);
  const inner = p.nested(
    () => {
      p.scope.set(name, { kind: 'variable', variable });
      p.statement(node.body);
    },
    { loop: 'loop' },
  );
  const body = block(inner.statements);
  if (!staysPut([exprs.end, exprs.step], body)) {
    return false;
  }
  p.emit(forLoop(variable, exprs.start, exprs.end, exprs.step, body, constants, p.at(node)));
  return true;
}

/** The loop's body once per value of its variable. */
function unroll(
  p: Parsing,
  node: ForStatement,
  name: string,
  dtype: Expr['type']['dtype'],
  header: readonly number[],
): void {
  const [start = 0, end = 0, step = 1] = header;
  for (let i = start; i < end; i += step) {
    const now: Scalar = dtype.name === 'i64' ? BigInt(i) : i;
    const inner = p.nested(
      () => {
        p.scope.set(name, fromExpr(constant(dtype, now, p.at(node))));
        p.statement(node.body);
      },
      { loop: 'unrolled' },
    );
    p.emit(...inner.statements);
  }
}

/** Two buffers may be the same memory, so that they count as one; each array is its own. */
const aliasOf = (node: Node | undefined): unknown =>
  node?.op === 'buffer' ? 'global' : node?.op === 'array' ? node.arg : undefined;

/** Whether `body` leaves the values of `exprs` as they are: it sets none of their variables, no memory they load. */
function staysPut(exprs: readonly Expr[], body: Statement): boolean {
  const variables = new Set<unknown>();
  const memories = new Set<unknown>();
  for (const n of topological<Node>(exprs)) {
    if (n.op === 'variable' && !n.arg.constant) variables.add(n.arg);
    if (n.op === 'load') memories.add(aliasOf(n.src[0] as Node));
  }
  if (variables.size === 0 && memories.size === 0) return true;
  return topological<Node>([body]).every((n) => {
    if (n.op === 'set') return !variables.has(n.arg);
    if (n.op === 'store' || n.op === 'intrinsic') return !memories.has(aliasOf(n.src[0] as Node | undefined));
    return !(n.op === 'effect' && n.arg === 'barrier' && memories.size > 0);
  });
}
