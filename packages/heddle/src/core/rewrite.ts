/** Rewriting, sources first, with each node visited once. */
import type { IrNode } from './node.js';

/**
 * Rebuild the tree under `root`: sources first, then `rule` on the node with its new sources. A rule returns the
 * replacement, or undefined to keep the node. Nodes whose sources did not change are kept as they are.
 */
export function rewrite<N extends IrNode>(
  root: N,
  rule: (node: N) => N | undefined,
  memo = new Map<N, N>(),
): N {
  const known = memo.get(root);
  if (known) return known;
  let src: IrNode[] | undefined;
  for (let i = 0; i < root.src.length; i++) {
    const source = root.src[i] as N;
    const next = rewrite(source, rule, memo);
    if (next === source) continue;
    src ??= root.src.slice();
    src[i] = next;
  }
  const rebuilt = src ? { ...root, src } : root;
  const result = rule(rebuilt) ?? rebuilt;
  memo.set(root, result);
  return result;
}
