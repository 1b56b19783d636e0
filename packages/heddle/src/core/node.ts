/**
 * The graph machine under both of Heddle's languages (kernels and tensors): immutable nodes with an operation, a
 * type, sources and an argument.
 */
import type { Location } from './errors.js';

/** What every node has. `kernel/` and `graph/` each narrow it to a union over their own ops. */
export interface IrNode {
  readonly op: string;
  readonly type: unknown;
  readonly src: readonly IrNode[];
  readonly arg: unknown;
  readonly at?: Location | undefined;
}

/** Every node below `roots`, sources before users, each once. Iterative: graphs can be deep. */
export function topological<N extends IrNode>(
  roots: readonly N[],
  sources: (node: N) => readonly IrNode[] = (node) => node.src,
): N[] {
  const order: N[] = [];
  const done = new Set<N>();
  // The path to where the search is: nodes, their sources, and which of these is next.
  const path: N[] = [];
  const below: (readonly IrNode[])[] = [];
  const next: number[] = [];
  const enter = (node: N): void => {
    done.add(node);
    const src = sources(node);
    if (src.length === 0) {
      order.push(node);
      return;
    }
    path.push(node);
    below.push(src);
    next.push(0);
  };
  for (const root of roots) {
    if (done.has(root)) continue;
    enter(root);
    while (path.length > 0) {
      const top = path.length - 1;
      const source = below[top]![next[top]!++] as N | undefined;
      if (source) {
        if (!done.has(source)) enter(source);
      } else {
        order.push(path.pop()!);
        below.pop();
        next.pop();
      }
    }
  }
  return order;
}

/** Every node below `roots`, users before sources, each once and only when it is asked for: a search ends where it finds. */
export function* preorder<N extends IrNode>(
  roots: readonly N[],
  sources: (node: N) => readonly IrNode[] = (node) => node.src,
): Generator<N> {
  const seen = new Set<N>();
  const stack = roots.toReversed();
  for (let node = stack.pop(); node; node = stack.pop()) {
    if (seen.has(node)) continue;
    seen.add(node);
    yield node;
    const src = sources(node) as readonly N[];
    for (let i = src.length - 1; i >= 0; i--) stack.push(src[i]!);
  }
}

/** The first node below `roots`, in preorder, that is what is looked for. */
export function find<N extends IrNode>(
  roots: readonly N[],
  test: (node: N) => boolean,
  sources?: (node: N) => readonly IrNode[],
): N | undefined {
  for (const node of preorder(roots, sources)) if (test(node)) return node;
  return undefined;
}

/** Whether there is such a node below `roots`. */
export const some = <N extends IrNode>(
  roots: readonly N[],
  test: (node: N) => boolean,
  sources?: (node: N) => readonly IrNode[],
): boolean => find(roots, test, sources) !== undefined;
