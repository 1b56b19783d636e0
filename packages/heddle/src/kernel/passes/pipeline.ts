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
  {
    name: 'serialize',
    why: 'a CPU has no threads: what they do between two barriers becomes a loop over them',
    when: (setting, ir) => cpu(setting) && hasThreads(ir, setting.block),
    run: (ir, { block }) => serialize(ir, block!),
  },
  {
    name: 'simplify',
    why: 'constants and decided branches make loops short and indices plain',
    when: notSimulated,
    run: simplify,
  },
  { name: 'unroll', why: 'constant indices let local arrays live in registers', when: cpu, run: unroll },
  { name: 'simplify-unrolled', why: 'the loop variables are constants now', when: cpu, run: simplify },
  { name: 'promote', why: 'an accumulator tile must not live in memory', when: cpu, run: promote },
  ...promotionForCuda,
  {
    name: 'branch',
    why: 'without one-sided selects every expression may be evaluated as a whole, shared and moved',
    when: cpu,
    run: branchSelects,
  },
  {
    name: 'decompose',
    why: 'WebAssembly has no exp, log, sin and their kin: basic operations compute them',
    when: cpu,
    run: decompose,
  },
  {
    name: 'address',
    why: 'an address in bytes can be hoisted in part, and moved from one round of a loop to the next',
    when: cpu,
    run: lowerAddresses,
  },
  { name: 'hoist', why: 'what does not change in a loop is computed before it', when: cpu, run: hoistLoops },
  {
    name: 'hoist-blocks',
    why: 'one call runs many blocks: what is the same for all of them is computed once',
    when: cpu,
    run: hoistBlocks,
  },
  {
    name: 'strength',
    why: 'an address that moves evenly becomes a pointer: one addition a round',
    when: cpu,
    run: reduceStrength,
  },
  {
    name: 'share',
    why: 'what is computed more than once is kept, and a shared expression does not grow into a tree',
    when: cpu,
    run: shareCommon,
  },
  {
    name: 'atomics',
    why: 'WebAssembly has atomics of integers of 32 and 64 bits only: others are tried until nothing comes between',
    when: cpu,
    run: emulateAtomics,
  },
  {
    name: 'copies',
    why: 'a GPU copies from global memory without waiting; a value that has become a constant it stores',
    when: cuda,
    run: settleCopies,
  },
  ...unrollingForCuda,
  {
    name: 'overlap',
    why: 'a launch that starts while those ahead still run waits for them before it touches memory',
    when: ({ target }) => target.overlapped,
    run: waitForLaunches,
  },
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
