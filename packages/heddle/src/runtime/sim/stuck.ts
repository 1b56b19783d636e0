/** What threads wait for that wait for ever. */
import { WARPGROUP } from '../../kernel/ir/asynchronous.js';
import type { AsyncEngine } from './engine.js';
import type { Mbarriers } from './mbarriers.js';
import type { At } from './memory.js';
import type { Run } from './run.js';
import { type WaitRequest, type Warp, whereabouts } from './warp.js';

/** Some threads wait, and nothing goes on: say why. */
export function reportWaiting(run: Run, warps: readonly Warp[], engine: AsyncEngine | undefined): never {
  const requests = warps.flatMap((w) => w.requests);
  const waiting = requests.findIndex((r) => r !== undefined);
  const stuck = stuckOf(run, requests, engine);
  if (stuck >= 0) reportStuck(run, requests, stuck, engine!);
  const [site, expected = requests.length] = requests[waiting]! as [number, number?];
  const other = requests.findIndex((r, i) => r?.[0] !== (i < expected ? site : undefined));
  const arrived = requests.filter((r) => r?.[0] === site).length;
  return run.fail(
    'divergent-barrier',
    `barrier() is reached by ${arrived} of the block's ${expected} threads: ` +
      `${whereabouts(run, other, requests[other])}. Every thread of a block must reach the same barrier(): ` +
      'move it out of the if or loop, and do not return before it.',
    site,
    waiting,
  );
}

/** Whether a thread of the block waits at an mbarrier whose phase has begun. */
export const hasBegunWaiting = (run: Run, warps: readonly Warp[], engine: AsyncEngine): boolean =>
  warps.some(({ requests }) => requests.some((r) => r && waitsBegun(run, r, engine)));

const waitsBegun = (run: Run, request: WaitRequest, engine: AsyncEngine): boolean =>
  run.site(request[0]).intrinsic === 'waitBarrier' &&
  engine.mbarriers.hasBegun(request[1] as unknown as At<Mbarriers>);

/** The thread that tells most of why nothing goes on, −1 if all wait at barriers of the block. */
function stuckOf(
  run: Run,
  requests: readonly (WaitRequest | undefined)[],
  engine: AsyncEngine | undefined,
): number {
  const at = (...names: readonly string[]): number =>
    requests.findIndex((r) => r !== undefined && names.includes(run.site(r[0]).intrinsic!));
  const divergent = at('wgmma', 'groupBarrier');
  if (divergent >= 0) return divergent;
  const begun = requests.findIndex((r) => r !== undefined && waitsBegun(run, r, engine!));
  if (begun >= 0) return begun;
  const waiting = at('waitBarrier', 'waitCluster');
  return waiting >= 0
    ? waiting
    : requests.findIndex((r) => r !== undefined && run.site(r[0]).intrinsic !== 'barrier');
}

/** Nothing goes on: say what the threads wait for. */
function reportStuck(
  run: Run,
  requests: readonly (WaitRequest | undefined)[],
  stuck: number,
  engine: AsyncEngine,
): never {
  const [site, ...args] = requests[stuck]!;
  const { intrinsic } = run.site(site);
  if (intrinsic === 'waitBarrier') {
    const [at, parity] = args as unknown as readonly [At<Mbarriers>, number];
    return run.fail('deadlock', engine.mbarriers.explainWait(at, parity), site, stuck);
  }
  if (intrinsic === 'waitCluster') return run.fail('deadlock', engine.cluster.explain(), site, stuck);
  const first = stuck - (stuck % WARPGROUP);
  const [from, count] = intrinsic === 'wgmma' ? [first, WARPGROUP] : [0, Number(args[1])];
  const all = Array.from(requests.keys()).slice(from, intrinsic === 'wgmma' ? first + WARPGROUP : undefined);
  const there = all.filter((thread) => requests[thread]?.[0] === site);
  const absent = all.find((thread) => requests[thread]?.[0] !== site);
  return run.fail(
    'divergent-barrier',
    `${intrinsic}() is reached by ${there.length} of ${count} threads` +
      (absent === undefined ? '. ' : `: ${whereabouts(run, absent, requests[absent])}. `) +
      (intrinsic === 'wgmma'
        ? 'All 128 threads of a warpgroup must reach it together: it is 4 whole warps, from a multiple of 128 threads on.'
        : 'As many threads must reach it as it names.'),
    site,
    stuck,
  );
}
