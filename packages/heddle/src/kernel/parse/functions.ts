/** Functions of the author's, inlined at their call: parameters, bodies that return a value. */
import type { Statement as AstStatement, CallExpression, Expression, IfStatement, Pattern } from 'acorn';
import { choose } from './choose.js';
import { isAssigned } from './names.js';
import type { Parsing } from './state.js';
import { describeValue, isDType } from './typing.js';
import { type Binding, fromExpr, fromStatic, Scope, type Syntax, type Value, VOID } from './values.js';

const DEEPEST = 64;

export type AuthorFunction = Extract<Value, { kind: 'function' }>;

/** Inline a call: bind the parameters, parse the body where we stand, and yield what it returns. */
export function inline(
  p: Parsing,
  node: CallExpression,
  callee: AuthorFunction,
  args: readonly Expression[],
): Value {
  const { depth } = p.around;
  if (depth >= DEEPEST)
    p.fail(node, `calls nest ${DEEPEST} deep at ${callee.name}: recursive functions cannot be inlined.`);
  const given = p.inOrder(args.map((a) => () => p.expression(a)));
  const scope = new Scope(callee.scope);
  const { params } = callee.node;
  if (params.length !== given.length) {
    p.fail(
      node,
      `${callee.name} has ${params.length} parameter${params.length === 1 ? '' : 's'}, got ${given.length}` +
        '. What a function needs of the context is passed on like any argument: f(x, { exp2 }).',
    );
  }
  const { body } = callee.node;
  const inside = {
    ...{ scope, source: callee.source, path: p.key(node), depth: depth + 1, loop: undefined },
    // An expression is what the caller gives a name.
    naming: body.type === 'BlockStatement' ? undefined : p.around.naming,
  };
  return p.within(inside, () => {
    params.forEach((param, i) => {
      bind(p, param, passed(p, param, given[i]!));
    });
    if (body.type !== 'BlockStatement') return p.expression(body);
    return returning(p, items(body.body, scope));
  });
}

/** An argument as its parameter sees it: computed once, and its own variable where the function sets it. */
function passed(p: Parsing, param: Pattern, v: Value): Binding {
  if (param.type !== 'Identifier') return v;
  if (isAssigned(p.source.node, param)) {
    if (v.kind !== 'expr')
      return p.fail(
        param,
        `\`${param.name}\` is given ${describeValue(v)} and cannot be set. Copy it first: let v = ….`,
      );
    return { kind: 'variable', variable: p.settable(v.expr, param.name) };
  }
  if (v.kind !== 'expr') return p.settle(v, param.name);
  return fromExpr(p.lasting(v.expr, param.name));
}

/** What a value that has members gives for a name. */
function membersOf(v: Binding): ((name: string) => Binding | undefined) | undefined {
  if (v.kind === 'record') return v.get;
  if (v.kind !== 'static' || typeof v.value !== 'object' || v.value === null || isDType(v.value))
    return undefined;
  const object = v.value as Readonly<Record<string, unknown>>;
  return (name) => (name in object ? fromStatic(object[name]) : undefined);
}

/** Give the names of a parameter or a destructuring their meaning. */
export function bind(p: Parsing, pattern: Pattern, v: Binding): void {
  if (pattern.type === 'Identifier') {
    p.scope.set(pattern.name, v);
    return;
  }
  if (pattern.type === 'AssignmentPattern') p.fail(pattern, 'default values have no meaning in a kernel.');
  const members = membersOf(v);
  if (pattern.type !== 'ObjectPattern' || !members) {
    p.fail(
      pattern,
      'only a name, or { names } of the parameters, the context or a constant object, can be declared here.',
    );
  }
  for (const property of pattern.properties) {
    if (property.type !== 'Property' || property.computed || property.key.type !== 'Identifier') {
      p.fail(property, 'take what you need by name: { x, y }.');
    }
    const { name } = property.key;
    const found = members(name);
    if (found) bind(p, property.value, found);
    else if (property.value.type === 'Identifier')
      p.scope.set(property.value.name, { kind: 'missing', name, from: v as Value });
  }
}

/** A statement with the names it sees: the statements after an `if` may be parsed inside its branches. */
interface Item {
  readonly node: AstStatement;
  readonly scope: Scope;
}

const items = (nodes: readonly AstStatement[], scope: Scope): Item[] =>
  nodes.map((node) => ({ node, scope }));

/**
 * Statements up to a `return`, and what it returns. An `if` that returns takes all that follows it into its other
 * side, so that a chain of them becomes one choice.
 */
function returning(p: Parsing, body: readonly Item[]): Value {
  for (const [i, { node, scope }] of body.entries()) {
    const rest = body.slice(i + 1);
    if (node.type === 'ReturnStatement') {
      const { argument } = node;
      return argument ? p.within({ scope }, () => p.expression(argument)) : VOID;
    }
    if (!returns(node)) {
      p.within({ scope }, () => p.statement(node));
    } else if (node.type === 'BlockStatement') {
      return returning(p, [...items(node.body, new Scope(scope)), ...rest]);
    } else if (node.type === 'IfStatement') {
      return p.within({ scope }, () => branch(p, node, scope, rest));
    } else {
      p.fail(
        node,
        'a function that is inlined cannot return from inside a loop. Keep the result in a variable.',
      );
    }
  }
  return VOID;
}

function branch(p: Parsing, node: IfStatement, scope: Scope, rest: readonly Item[]): Value {
  const side = (first: AstStatement | null | undefined) => (): Value =>
    returning(p, [...items(first ? [first] : [], new Scope(scope)), ...rest]);
  const nodes: readonly [Syntax, Syntax] = [node.consequent, node.alternate ?? node];
  return choose(
    p,
    node,
    p.expression(node.test),
    node.test,
    nodes,
    side(node.consequent),
    side(node.alternate),
  );
}

/** Whether a `return` of this function stands inside. */
function returns(node: AstStatement): boolean {
  switch (node.type) {
    case 'ReturnStatement':
      return true;
    case 'BlockStatement':
      return node.body.some(returns);
    case 'IfStatement':
      return returns(node.consequent) || (node.alternate ? returns(node.alternate) : false);
    case 'ForStatement':
    case 'WhileStatement':
    case 'DoWhileStatement':
      return returns(node.body);
    default:
      return false;
  }
}
