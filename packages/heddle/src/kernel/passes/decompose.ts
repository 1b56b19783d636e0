/** For machines without instructions for them: exp, log, sin and their kin in terms of basic operations. */
import { rewrite } from '../../core/rewrite.js';
import { elementary } from '../elementary/functions.js';
import type { Expr, KernelIr, Node, Statement } from '../ir/ir.js';

/** The kernel without exp, exp2, log, log2, sin, cos, tanh, tf32 and pow. Expressions come to share parts. */
export function decompose(ir: KernelIr): KernelIr {
  const rule = (node: Node): Node | undefined =>
    node.op === 'alu' ? elementary(node.arg, node.src as readonly Expr[]) : undefined;
  const body = rewrite<Node>(ir.body, rule) as Statement;
  return body === ir.body ? ir : { ...ir, body };
}
