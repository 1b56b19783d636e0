/** From the parsed kernel to what renderers take: the list of passes. */
import { env } from '../../core/env.js';
import { debug } from '../../core/log.js';
import type { KernelIr } from '../ir/ir.js';
import { printKernel } from '../ir/print.js';
import type { Target } from '../ir/target.js';
import { verify } from '../ir/verify.js';
import { promote } from './promote.js';
import { simplify } from './simplify.js';
import { unroll } from './unroll.js';

export interface Pass {
  readonly name: string;
  readonly why: string;
  /** Targets it is for; all if absent. */
  readonly when?: (target: Target) => boolean;
  readonly run: (ir: KernelIr, target: Target) => KernelIr;
}

/** The CUDA compiler unrolls and keeps arrays in registers itself, and does it better. */
const blocks = (target: Target): boolean => target.model === 'blocks';
/** The simulator runs what the author wrote, so that its findings are about that. */
const notSimulated = (target: Target): boolean => target.name !== 'sim';

/** What happens to a kernel, in this order. */
export const PASSES: readonly Pass[] = [
  {
    name: 'simplify',
    why: 'constants and decided branches make loops short and indices plain',
    when: notSimulated,
    run: simplify,
  },
  { name: 'unroll', why: 'constant indices let local arrays live in registers', when: blocks, run: unroll },
  { name: 'simplify-unrolled', why: 'the loop variables are constants now', when: blocks, run: simplify },
  { name: 'promote', why: 'an accumulator tile must not live in memory', when: blocks, run: promote },
];

/**
 * Run the passes for `target`. HEDDLE_CHECK=1 verifies the IR after each, HEDDLE_DEBUG=5 prints it.
 * @throws InternalError under HEDDLE_CHECK=1, if a pass breaks the IR
 */
export function compile(ir: KernelIr, target: Target, passes: readonly Pass[] = PASSES): KernelIr {
  const check = env('HEDDLE_CHECK') === 1;
  const show = (name: string, now: KernelIr): void => {
    if (check) verify(now, name);
    debug(5, () => `${now.name} after ${name}\n${printKernel(now)}`);
  };
  show('parse', ir);
  let now = ir;
  for (const pass of passes) {
    if (pass.when && !pass.when(target)) continue;
    now = pass.run(now, target);
    show(pass.name, now);
  }
  return now;
}
