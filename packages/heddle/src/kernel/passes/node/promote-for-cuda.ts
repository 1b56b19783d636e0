/** Promotion for the CUDA compiler. Browsers do without: see kernel/passes/browser/promote-for-cuda.ts. */
import type { ArrayDecl, KernelIr } from '../../ir/ir.js';
import { allStatements } from '../../ir/walk.js';
import type { KernelPass } from '../pass.js';
import { accessOf, promote } from '../promote.js';
import { simplify } from '../simplify.js';
import { unroll } from '../unroll.js';

/** From so many on, the CUDA compiler takes longer for an array than for all else: its time grows with their square. */
const MANY_STORES = 500;

export const promotionForCuda: readonly KernelPass[] = [
  {
    name: 'promote-for-cuda',
    why: 'the CUDA compiler promotes arrays by itself, but takes long over one with many stores',
    when: ({ target }) => target.name === 'cuda',
    run: (ir) => (hasManyStores(ir) ? promote(simplify(unroll(ir))) : ir),
  },
];

/** Whether a thread stores that often to an array, under constant indices. */
function hasManyStores(ir: KernelIr): boolean {
  const counts = new Map<ArrayDecl, number>();
  for (const s of allStatements([ir.body])) {
    const at = accessOf(s);
    if (at?.index !== undefined && at.array.space === 'local')
      counts.set(at.array, (counts.get(at.array) ?? 0) + 1);
  }
  return [...counts.values()].some((count) => count >= MANY_STORES);
}
