/** Which variables a function sets after their declaration, and which names a piece of source mentions. */
import type { AnyNode, Identifier, Pattern } from 'acorn';

/** For each declared name, where `name = …`, `name += …` and `name++` of that very variable begin. */
type Assignments = ReadonlyMap<Identifier, readonly number[]>;

const known = new WeakMap<object, Assignments>();

/**
 * Whether `fn` sets the variable that `declared` declares (inside of a node if one is given). By scope, not by name:
 * minifiers give one name to many variables.
 */
export function isAssigned(
  fn: object,
  declared: Identifier,
  inside?: { readonly start: number; readonly end: number },
): boolean {
  let assignments = known.get(fn);
  if (!assignments) {
    assignments = new Resolver().resolve(fn);
    known.set(fn, assignments);
  }
  const starts = assignments.get(declared) ?? [];
  return starts.some((at) => !inside || (at >= inside.start && at < inside.end));
}

/** Whether a piece of source has an identifier of that name. */
export function mentions(root: unknown, name: string): boolean {
  if (typeof root !== 'object' || root === null) return false;
  if (isNode(root) && root.type === 'Identifier' && root.name === name) return true;
  return Object.values(root).some((child) => mentions(child, name));
}

const isNode = (v: object): v is AnyNode => 'type' in v;

/** Walks a function once, with the names that are visible at each point. */
class Resolver {
  readonly #found = new Map<Identifier, number[]>();
  #scope: ReadonlyMap<string, Identifier> = new Map();

  resolve(root: object): Assignments {
    this.#visit(root);
    return this.#found;
  }

  #visit(node: object): void {
    const outer = this.#scope;
    if (isNode(node)) {
      const target = targetOf(node);
      const declared = target && outer.get(target.name);
      if (declared) this.#found.get(declared)!.push(node.start);
      const own = declaredBy(node);
      for (const id of own) this.#found.set(id, []);
      if (own.length > 0) this.#scope = new Map([...outer, ...own.map((id) => [id.name, id] as const)]);
    }
    for (const child of Object.values(node)) if (typeof child === 'object' && child) this.#visit(child);
    this.#scope = outer;
  }
}

/** The variable that a node sets. */
function targetOf(node: AnyNode): Identifier | undefined {
  const target =
    node.type === 'AssignmentExpression'
      ? node.left
      : node.type === 'UpdateExpression'
        ? node.argument
        : undefined;
  return target?.type === 'Identifier' ? target : undefined;
}

/** The names that a node declares for what stands inside of it. */
function declaredBy(node: AnyNode): Identifier[] {
  switch (node.type) {
    case 'ArrowFunctionExpression':
    case 'FunctionExpression':
    case 'FunctionDeclaration':
      return node.params.flatMap(namesIn);
    case 'BlockStatement':
      return node.body.flatMap(declaredIn);
    case 'ForStatement':
      return node.init ? declaredIn(node.init) : [];
    default:
      return [];
  }
}

/** The names that a statement declares for the block around it. */
function declaredIn(node: AnyNode): Identifier[] {
  if (node.type === 'VariableDeclaration') return node.declarations.flatMap(({ id }) => namesIn(id));
  return node.type === 'FunctionDeclaration' && node.id ? [node.id] : [];
}

function namesIn(pattern: Pattern): Identifier[] {
  switch (pattern.type) {
    case 'Identifier':
      return [pattern];
    case 'ObjectPattern':
      return pattern.properties.flatMap((p) => namesIn(p.type === 'Property' ? p.value : p.argument));
    case 'ArrayPattern':
      return pattern.elements.flatMap((e) => (e ? namesIn(e) : []));
    case 'AssignmentPattern':
      return namesIn(pattern.left);
    case 'RestElement':
      return namesIn(pattern.argument);
    default:
      return [];
  }
}
