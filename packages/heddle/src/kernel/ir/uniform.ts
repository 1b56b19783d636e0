/**
 * Which values are uniform: equal in all threads of a block that reach the same point. Conservative: what comes
 * from memory, from atomics or from warp operations counts as varying.
 */
import { some } from '../../core/node.js';
import type { Expr, Node, Statement, Variable } from './ir.js';

/** Tells whether an expression has the same value in all threads of a block. */
export type Uniform = (e: Node) => boolean;

/** What is uniform in a kernel with this body. Declarations under varying control flow count as varying. */
export function uniformity(body: Statement): Uniform {
  const varying = new Set<Variable>();
  const varies = (e: Node): boolean =>
    some(
      [e],
      (n) =>
        (n.op === 'special' && /^(threadIdx|laneId|warpId)/.test(n.arg)) ||
        n.op === 'load' ||
        n.op === 'intrinsic' ||
        (n.op === 'variable' && varying.has(n.arg)),
    );
  const walk = (s: Node, divergent: boolean): void => {
    switch (s.op) {
      case 'let':
      case 'set':
        if (divergent || varies(s.src[0]!)) varying.add(s.arg);
        break;
      case 'if': {
        const inside = divergent || varies(s.src[0]!);
        for (const branch of s.src.slice(1)) walk(branch, inside);
        break;
      }
      case 'for': {
        const [start, end, step, loop] = s.src as [Expr, Expr, Expr, Statement];
        const inside = divergent || [start, end, step].some(varies) || leavesApart(loop, varies);
        if (inside) varying.add(s.arg.variable);
        walk(loop, inside);
        break;
      }
      case 'while': {
        const [condition, loop, update] = s.src as [Expr, Statement, Statement];
        const inside = divergent || varies(condition) || leavesApart(loop, varies);
        walk(loop, inside);
        walk(update, inside);
        break;
      }
      case 'block':
        for (const each of s.src) walk(each, divergent);
        break;
    }
  };
  // What varies only grows, and makes more vary: until nothing is added.
  for (let before = -1; before < varying.size; ) {
    before = varying.size;
    walk(body, false);
  }
  return (e) => !varies(e);
}

/** Whether threads may leave an iteration of the loop with this body at different places. */
function leavesApart(s: Node, varies: (n: Node) => boolean, divergent = false): boolean {
  switch (s.op) {
    case 'break':
    case 'continue':
      return divergent;
    case 'if':
      return s.src.slice(1).some((branch) => leavesApart(branch, varies, divergent || varies(s.src[0]!)));
    case 'block':
      return s.src.some((each) => leavesApart(each, varies, divergent));
    default:
      return false;
  }
}
