/** What tools put into a function's source and must be taken out: coverage counters and name helpers. */
import type { Expression, Statement } from 'acorn';

/** `cov_1abc().s[3]++`, as istanbul counts. */
function isCounter(node: Expression): boolean {
  if (node.type !== 'UpdateExpression') return false;
  let target: Expression = node.argument;
  while (target.type === 'MemberExpression' && target.object.type !== 'Super') target = target.object;
  if (target.type === 'CallExpression' && target.callee.type !== 'Super') target = target.callee;
  return target.type === 'Identifier' && target.name.startsWith('cov_');
}

/** `__name(f, 'f')` as a statement, which esbuild adds to keep the names of functions. */
const isNaming = (node: Expression): boolean =>
  node.type === 'CallExpression' && node.callee.type === 'Identifier' && /^__name\d*$/.test(node.callee.name);

/** The parts of a sequence that the author wrote. */
export const withoutCounters = (parts: readonly Expression[]): Expression[] =>
  parts.filter((e) => !isCounter(e));

/** Whether a statement only counts or names. */
export const isInstrumentation = (node: Statement): boolean =>
  node.type === 'ExpressionStatement' && (isCounter(node.expression) || isNaming(node.expression));

/** The function inside `__name(function, 'name')`, or the call itself. */
export function unnamed(node: Expression): Expression {
  const inner = isNaming(node) && node.type === 'CallExpression' ? node.arguments[0] : undefined;
  return inner && inner.type !== 'SpreadElement' ? inner : node;
}
