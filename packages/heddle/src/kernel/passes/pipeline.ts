/** The kernel compiler: from the parsed kernel to what renderers print. `PASSES` is the list, in the order they run. */
import { verify } from '#passes/checks.js';
import { promotionForCuda, unrollingForCuda } from '#passes/for-cuda-compiler.js';
import { env } from '../../core/env.js';
import { debug } from '../../core/log.js';
import { topological } from '../../core/node.js';
import type { KernelIr, Node } from '../ir/ir.js';
import { printKernel } from '../ir/print.js';
import type { Target } from '../ir/target.js';
import { serialize } from '../serialize/serialize.js';
import { isWarpOperation } from '../serialize/warp.js';
import { lowerAddresses } from './address.js';
import { emulateAtomics } from './atomics.js';
import { branchSelects } from './branch.js';
import { settleCopies } from './copies.js';
import { shareCommon } from './cse.js';
import { decompose } from './decompose.js';
import { hoistBlocks, hoistLoops } from './hoist.js';
import { waitForLaunches } from './overlap.js';
import type { KernelPass, KernelSetting } from './pass.js';
import { promote } from './promote.js';
import { simplify } from './simplify.js';
import { reduceStrength } from './strength.js';
import { unroll } from './unroll.js';

/** The CUDA compiler does these itself, and does them better. */
const cpu = ({ target }: KernelSetting): boolean => target.model === 'blocks';
const cuda = ({ target }: KernelSetting): boolean => target.name === 'cuda';
/** The simulator runs what the author wrote, so that its findings are about that. */
const notSimulated = ({ target }: KernelSetting): boolean => target.name !== 'sim';

/** What happens to a kernel, in this order. */
export const PASSES: readonly KernelPass[] = [
  // A CPU has no threads: what they do between two barriers becomes a loop over them.
  {
    name: 'serialize',
    when: (setting, ir) => cpu(setting) && hasThreads(ir, setting.block),
    run: (ir, { block }) => serialize(ir, block!),
  },
  // Constants and decided branches make loops short and indices plain.
  { name: 'simplify', when: notSimulated, run: simplify },
  // Constant indices let local arrays live in registers.
  { name: 'unroll', when: cpu, run: unroll },
  // The loop variables are constants now.
  { name: 'simplify-unrolled', when: cpu, run: simplify },
  // An accumulator tile must not live in memory.
  { name: 'promote', when: cpu, run: promote },
  ...promotionForCuda,
  // Without one-sided selects every expression may be evaluated as a whole, shared and moved.
  { name: 'branch', when: cpu, run: branchSelects },
  // WebAssembly has no exp, log, sin and their kin: basic operations compute them.
  { name: 'decompose', when: cpu, run: decompose },
  // An address in bytes can be hoisted in part, and moved from one round of a loop to the next.
  { name: 'address', when: cpu, run: lowerAddresses },
  // What does not change in a loop is computed before it.
  { name: 'hoist', when: cpu, run: hoistLoops },
  // One call runs many blocks: what is the same for all of them is computed once.
  { name: 'hoist-blocks', when: cpu, run: hoistBlocks },
  // An address that moves evenly becomes a pointer: one addition a round.
  { name: 'strength', when: cpu, run: reduceStrength },
  // What is computed more than once is kept, and a shared expression does not grow into a tree.
  { name: 'share', when: cpu, run: shareCommon },
  // WebAssembly has atomics of integers of 32 and 64 bits only: others are tried until nothing comes between.
  { name: 'atomics', when: cpu, run: emulateAtomics },
  // A GPU copies from global memory without waiting; a value that has become a constant it stores.
  { name: 'copies', when: cuda, run: settleCopies },
  ...unrollingForCuda,
  // A launch that starts while those ahead still run waits for them before it touches memory.
  { name: 'overlap', when: ({ target }) => target.overlapped, run: waitForLaunches },
];

/** A block of one thread has none beside it, but its warp operations still need to become something. */
const hasThreads = (ir: KernelIr, block: KernelSetting['block']): boolean =>
  block !== undefined &&
  (block.some((size) => size > 1) || topological<Node>([ir.body]).some(isWarpOperation));

/**
 * Run the passes for `target`. HEDDLE_CHECK=1 verifies the IR after each, HEDDLE_DEBUG=5 prints it.
 * @param block threads of a block: a CPU needs it for kernels of more than one
 * @throws NotSerialized if a CPU cannot run the kernel's threads one after another
 * @throws InternalError under HEDDLE_CHECK=1, if a pass breaks the IR
 */
export function compile(
  ir: KernelIr,
  target: Target,
  block?: KernelSetting['block'],
  passes: readonly KernelPass[] = PASSES,
): KernelIr {
  const setting: KernelSetting = { target, block };
  const check = env('HEDDLE_CHECK') === 1;
  const show = (name: string, now: KernelIr): void => {
    if (check) verify(now, name);
    debug(5, () => `${now.name} after ${name}\n${printKernel(now)}`);
  };
  show('parse', ir);
  let now = ir;
  for (const pass of passes) {
    if (pass.when && !pass.when(setting, now)) continue;
    now = pass.run(now, setting);
    show(pass.name, now);
  }
  return now;
}
