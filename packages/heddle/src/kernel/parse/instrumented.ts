/** What tools put into a function's source and must be taken out: coverage counters and name helpers. */
import type { Expression, Statement } from 'acorn';

/** `cov_1abc().s[3]++`, as istanbul counts: an element of what a function of its own returns. */
function isCounter(node: Expression): boolean {
  if (node.type !== 'UpdateExpression') return false;
  let target: Expression = node.argument;
  while (target.type === 'MemberExpression' && target.object.type !== 'Super') target = target.object;
  if (target.type !== 'CallExpression' || target.callee.type !== 'Identifier') return false;
  return target.callee.name.startsWith('cov_');
}

/** Whether a name is the author's. */
type IsKnown = (name: string) => boolean;

/** `__name(f, 'f')`, which esbuild adds to keep the names of functions; a minifier may have renamed it. */
function named(node: Expression, isKnown: IsKnown): Expression | undefined {
  if (node.type !== 'CallExpression' || node.callee.type !== 'Identifier' || isKnown(node.callee.name))
    return undefined;
  const [fn, name] = node.arguments;
  if (node.arguments.length !== 2 || name?.type !== 'Literal' || typeof name.value !== 'string')
    return undefined;
  const isFunction = fn?.type === 'ArrowFunctionExpression' || fn?.type === 'FunctionExpression';
  return isFunction || fn?.type === 'Identifier' ? fn : undefined;
}

/** The parts of a sequence that the author wrote. */
export const withoutCounters = (parts: readonly Expression[]): Expression[] =>
  parts.filter((e) => !isCounter(e));

/** Whether a statement only counts or names. */
export const isInstrumentation = (node: Statement, isKnown: IsKnown): boolean =>
  node.type === 'ExpressionStatement' &&
  (isCounter(node.expression) || named(node.expression, isKnown) !== undefined);

/** The function inside `__name(function, 'name')`, or the expression itself. */
export const unnamed = (node: Expression, isKnown: IsKnown): Expression => named(node, isKnown) ?? node;
