/** Asynchronous copies whose value the passes before have changed (to zeros, say) become ordinary stores. */
import { rewrite } from '../../core/rewrite.js';
import { asyncCopyOf } from '../ir/async-copy.js';
import type { KernelIr, Node, Statement } from '../ir/ir.js';

export function settleCopies(ir: KernelIr): KernelIr {
  const rule = (node: Node): Node | undefined =>
    node.op === 'store' && node.arg && !asyncCopyOf(node) ? { ...node, arg: null } : undefined;
  const body = rewrite<Node>(ir.body, rule) as Statement;
  return body === ir.body ? ir : { ...ir, body };
}
