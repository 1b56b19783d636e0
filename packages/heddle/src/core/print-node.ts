/** A stable text of any node tree, for snapshots and HEDDLE_DEBUG=5. */
import type { IrNode } from './node.js';

/** One line per node, sources indented below their user; a node met again is only referred to. */
export function print(root: IrNode, describe: (node: IrNode) => string): string {
  const lines: string[] = [];
  const names = new Map<IrNode, number>();
  const visit = (node: IrNode, depth: number): void => {
    const known = names.get(node);
    const pad = '  '.repeat(depth);
    if (known !== undefined && node.src.length > 0) {
      lines.push(`${pad}%${known}`);
      return;
    }
    names.set(node, names.size);
    lines.push(`${pad}%${names.get(node)} ${describe(node)}`);
    for (const source of node.src) visit(source, depth + 1);
  };
  visit(root, 0);
  return `${lines.join('\n')}\n`;
}
