/** Which names a piece of source sets or mentions. */

const assignedBy = new WeakMap<object, ReadonlySet<string>>();

/** The names that a piece of source sets after their declaration, anywhere inside. */
export function assignedNames(root: object): ReadonlySet<string> {
  const known = assignedBy.get(root);
  if (known) return known;
  const names = new Set<string>();
  const visit = (node: unknown): void => {
    if (Array.isArray(node)) {
      for (const item of node) visit(item);
      return;
    }
    if (typeof node !== 'object' || node === null || !('type' in node)) return;
    const target =
      node.type === 'AssignmentExpression' && 'left' in node
        ? node.left
        : node.type === 'UpdateExpression' && 'argument' in node
          ? node.argument
          : undefined;
    if (typeof target === 'object' && target !== null && 'name' in target) names.add(String(target.name));
    for (const child of Object.values(node)) visit(child);
  };
  visit(root);
  assignedBy.set(root, names);
  return names;
}

/** Whether a piece of source has an identifier of that name. */
export function mentions(root: unknown, name: string): boolean {
  if (Array.isArray(root)) return root.some((item) => mentions(item, name));
  if (typeof root !== 'object' || root === null) return false;
  if ('type' in root && root.type === 'Identifier' && 'name' in root && root.name === name) return true;
  return Object.values(root).some((child) => mentions(child, name));
}
