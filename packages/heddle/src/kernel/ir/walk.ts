/** What statements contain. Expressions are graphs, searched with core/node.ts; statements form a tree. */
import type { Location } from '../../core/errors.js';
import { find, some, topological } from '../../core/node.js';
import { rewrite } from '../../core/rewrite.js';
import type { Expr, KernelIr, Node, Statement, Variable } from './ir.js';

/** The statements of which one consists, without its expressions. */
export const statementsOf = (s: Node): readonly Statement[] =>
  (s.src as readonly Node[]).filter((c) => c.type.kind === 'none') as Statement[];

/** All statements below `roots`, these included. */
export const allStatements = (roots: readonly Statement[]): Statement[] =>
  topological<Node>(roots, statementsOf) as Statement[];

/** Whether a `break` or `continue` of the loop around `body` stands in it. */
export const jumps = (body: Node, ops: readonly Statement['op'][] = ['break', 'continue']): boolean =>
  some([body], (n) => ops.includes(n.op as Statement['op']), outsideLoops);

const outsideLoops = (s: Node): readonly Statement[] =>
  s.op === 'for' || s.op === 'while' ? [] : statementsOf(s);

/** `rule` on every statement, inner ones first: its replacement, or undefined to keep it. Expressions are not looked at. */
export function rewriteStatements(
  root: Statement,
  rule: (statement: Statement) => Statement | undefined,
): Statement {
  let changed = false;
  const src = (root.src as readonly Node[]).map((s) => {
    const next = s.type.kind === 'none' ? rewriteStatements(s as Statement, rule) : s;
    changed ||= next !== s;
    return next;
  });
  const rebuilt = changed ? ({ ...root, src } as Statement) : root;
  return rule(rebuilt) ?? rebuilt;
}

/** The first `return`. */
export const returnIn = (s: Node): Node | undefined => find([s], (n) => n.op === 'return', statementsOf);

/** Variables that are given a value: declared, set or counted with. */
export const changedIn = (roots: readonly Statement[]): Set<Variable> =>
  new Set(
    allStatements(roots).flatMap((s) =>
      s.op === 'let' || s.op === 'set' ? [s.arg] : s.op === 'for' ? [s.arg.variable] : [],
    ),
  );

/** Variables that are set after their declaration. */
export const assignedIn = (roots: readonly Statement[]): Set<Variable> =>
  new Set(allStatements(roots).flatMap((s) => (s.op === 'set' ? [s.arg] : [])));

/** A copy of `body` with `values` for variables; those it declares become variables of the copy's own. */
export function copyOf(body: Statement, values: ReadonlyMap<Variable, Expr> = new Map()): Statement {
  const fresh = new Map<Variable, Variable>();
  for (const s of allStatements([body])) {
    if (s.op === 'let') fresh.set(s.arg, { ...s.arg });
    if (s.op === 'for') fresh.set(s.arg.variable, { ...s.arg.variable });
  }
  const own = (v: Variable): Variable => fresh.get(v) ?? v;
  return rewrite<Node>(body, (node) => {
    switch (node.op) {
      case 'variable':
        return values.get(node.arg) ?? (fresh.has(node.arg) ? { ...node, arg: own(node.arg) } : undefined);
      case 'let':
      case 'set':
        return fresh.has(node.arg) ? { ...node, arg: own(node.arg) } : undefined;
      case 'for':
        return { ...node, arg: { ...node.arg, variable: own(node.arg.variable) } };
      default:
        return undefined;
    }
  }) as Statement;
}

/** The first place in the author's source that a kernel's IR knows. */
export const locationOf = (kernel: KernelIr): Location | undefined =>
  find<Node>([kernel.body], (node) => node.at !== undefined)?.at;
