/**
 * Functions of windows, computed by the kernel that has made the windows. It is done where nothing else reads the values,
 * which then never reach memory; else, and where no kernel makes such windows, a kernel reads them from memory. Either way
 * all functions of the same windows are results of one kernel.
 */
import { callOf, type KernelChoice, type WindowFunction, type WindowSizes } from '../../graph/fused-op.js';
import type { GraphNode } from '../../graph/node.js';
import type { Target } from '../../kernel/ir/target.js';
import type { WindowsOf } from '../group.js';

/** Whether a call only stands for its source in memory. */
const isIdentity = (node: GraphNode): boolean => node.op === 'call' && callOf(node).op.identity === true;

/** Whether a call is one of functions of windows, which other calls' kernels compute. */
export const isOfWindows = (node: GraphNode): boolean => node.src.length === 1 && isIdentity(node.src[0]!);

export const windowFunctionOf = (node: GraphNode): WindowFunction => {
  const { op, arg } = callOf(node);
  return op.windows!(arg, node.src[0]!.type)!;
};

/** What a function of windows is computed from: `call`, if that makes the windows, or what lies between. */
export const sourceOfWindows = (node: GraphNode, call: GraphNode): GraphNode =>
  node.src[0] === call ? call : node.src[0]!.src[0]!;

/** Whether `node` needs nothing but `from`, element by element, and numbers. */
const isElementwise = (node: GraphNode, from: GraphNode): boolean =>
  isIdentity(node) || (node.op === 'map' && node.src.every((s) => s === from || s.op === 'full'));

/** Of calls whose values are only needed by functions of their windows: these functions. */
export function windowsOfCalls(
  order: readonly GraphNode[],
  users: ReadonlyMap<GraphNode, readonly GraphNode[]>,
  choices: ReadonlyMap<GraphNode, KernelChoice>,
  isRoot: ReadonlySet<GraphNode>,
  target: Target,
): Map<GraphNode, WindowsOf> {
  const found = new Map<GraphNode, WindowsOf>();
  const taken = new Set<GraphNode>();
  for (const node of order) {
    const choice = choices.get(node);
    if (!choice?.windows || taken.has(node)) continue;
    const windows = readersOf(node, users, isRoot);
    if (!windows || !choice.windows(target, node, callOf(node).arg, windows.sizes)) continue;
    // The kernel stores elements of the call's dtype; one that reads memory, of any.
    const [first = isIdentity(node) ? windows.functions[0] : undefined] = windows.functions.filter(
      (f) => f.dtype === node.dtype,
    );
    if (!first) continue;
    const functions = [first, ...windows.functions.filter((f) => f !== first)];
    found.set(node, { ...windows, functions });
    for (const between of windows.between) taken.add(between);
  }
  return found;
}

/** The functions of windows that a call's values go to; undefined if they go anywhere else, or the windows differ. */
function readersOf(
  node: GraphNode,
  users: ReadonlyMap<GraphNode, readonly GraphNode[]>,
  isRoot: ReadonlySet<GraphNode>,
): WindowsOf | undefined {
  const between: GraphNode[] = [];
  const functions: GraphNode[] = [];
  let sizes: WindowSizes | undefined;
  const stack = [node];
  for (let at = stack.pop(); at; at = stack.pop()) {
    if (isRoot.has(at)) return undefined;
    for (const user of users.get(at)!) {
      if (isOfWindows(user)) {
        const own = callOf(at).arg as WindowSizes;
        if (sizes && `${own}` !== `${sizes}`) return undefined;
        sizes = own;
        functions.push(user);
      } else if (isElementwise(user, at)) {
        between.push(user);
        stack.push(user);
      } else return undefined;
    }
  }
  return sizes && { sizes, functions, between };
}
