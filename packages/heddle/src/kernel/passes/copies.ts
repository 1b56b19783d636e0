/** Asynchronous copies whose value the passes before have changed (to zeros, say) become ordinary stores. */
import { asyncCopyOf } from '../ir/async-copy.js';
import type { KernelIr, Statement } from '../ir/ir.js';
import { rewriteStatements } from '../ir/walk.js';

export function settleCopies(ir: KernelIr): KernelIr {
  const rule = (s: Statement): Statement | undefined =>
    s.op === 'store' && s.arg && !asyncCopyOf(s) ? { ...s, arg: null } : undefined;
  const body = rewriteStatements(ir.body, rule);
  return body === ir.body ? ir : { ...ir, body };
}
