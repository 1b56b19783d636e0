/** Which names a piece of source sets or mentions. */

/** A place that sets a name after its declaration: `name = …`, `name += …`, `name++`. */
export interface Assignment {
  readonly name: string;
  readonly start: number;
}

interface SyntaxNode {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly name?: string;
  readonly left?: SyntaxNode;
  readonly argument?: SyntaxNode;
}

const known = new WeakMap<object, readonly Assignment[]>();

/** All assignments in a function, in no order. The syntax tree is walked once. */
export function assignmentsIn(fn: object): readonly Assignment[] {
  const before = known.get(fn);
  if (before) return before;
  const found: Assignment[] = [];
  const visit = (node: SyntaxNode): void => {
    if (node.type === 'AssignmentExpression' || node.type === 'UpdateExpression') {
      const target = node.type === 'AssignmentExpression' ? node.left : node.argument;
      if (target?.name !== undefined) found.push({ name: target.name, start: node.start });
    }
    for (const key in node) {
      const child: unknown = node[key as keyof SyntaxNode];
      if (typeof child === 'object' && child !== null) visit(child as SyntaxNode);
    }
  };
  visit(fn as SyntaxNode);
  known.set(fn, found);
  return found;
}

/** Whether one of the assignments is of `name`, and stands inside of a node if one is given. */
export const isAssigned = (
  assignments: readonly Assignment[],
  name: string,
  inside?: { readonly start: number; readonly end: number },
): boolean =>
  assignments.some((a) => a.name === name && (!inside || (a.start >= inside.start && a.start < inside.end)));

/** Whether a piece of source has an identifier of that name. */
export function mentions(root: unknown, name: string): boolean {
  if (typeof root !== 'object' || root === null) return false;
  const node = root as SyntaxNode;
  if (node.type === 'Identifier' && node.name === name) return true;
  return Object.values(node).some((child) => mentions(child, name));
}
