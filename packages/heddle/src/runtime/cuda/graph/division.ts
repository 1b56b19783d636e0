/**
 * How multiprocessors divide their memory between shared memory and L1 cache while the kernels of a graph run. A
 * multiprocessor changes its division only when it is idle. A kernel that needs more shared memory than the blocks that still
 * run leave room for is therefore put on the few multiprocessors that are idle, and takes several times as long.
 */
import { sizeOf } from '../../../core/shape.js';
import { blocksWithRoom } from '../../../kernel/ir/machine.js';
import type { Target } from '../../../kernel/ir/target.js';
import type { Dim3 } from '../../device.js';
import type { CudaFunction } from '../compile/kernels.js';

/**
 * The least that a kernel asks for as shared memory where others may run beside it, of the most that a multiprocessor has: so
 * that most of these ask for the same. One that runs alone leaves all it can to the cache, through which it loads.
 */
const LEAST_BESIDE = 0.5;

/** A launch among others. */
export interface LaunchOrder {
  /** The launches that must run before, by their numbers. */
  readonly needs: readonly number[];
}

/** The blocks of a kernel. */
export interface LaunchBlocks {
  readonly fn: CudaFunction;
  readonly grid: Dim3;
  readonly block: Dim3;
  /** Dynamic shared memory of each. */
  readonly sharedBytes: number;
}

/** What each kernel asks for as shared memory, in percent of the most that a multiprocessor has; 0 for other launches. */
export function sharedPercents(
  launches: readonly (LaunchOrder | (LaunchOrder & LaunchBlocks))[],
  target: Pick<Target, 'limits' | 'units'>,
): number[] {
  const alone = runAlone(launches);
  return launches.map((launch, i) => {
    if (!('fn' in launch)) return 0;
    const share = Math.max(alone[i] ? 0 : LEAST_BESIDE, neededBy(launch, target));
    return Math.min(100, Math.ceil(100 * share));
  });
}

/** The share that the blocks of a kernel take where they are spread over all multiprocessors. */
function neededBy(
  { fn, grid, block, sharedBytes }: LaunchBlocks,
  { limits, units }: Pick<Target, 'limits' | 'units'>,
): number {
  const bytes = fn.fixedShared + sharedBytes;
  const room = blocksWithRoom(limits, { threads: sizeOf(block), bytes, registers: fn.registers });
  const blocks = Math.min(room, Math.ceil(sizeOf(grid) / units));
  return (blocks * (bytes + limits.sharedBytesReserved)) / limits.sharedBytesPerMultiprocessor;
}

/** Of each launch, whether every other one runs before or after it. */
function runAlone(launches: readonly LaunchOrder[]): boolean[] {
  /** What runs before each, a bit for each. */
  const before: Uint32Array[] = [];
  const ordered = launches.map(() => 0);
  launches.forEach(({ needs }, i) => {
    const mine = new Uint32Array((i >> 5) + 1);
    for (const need of needs) {
      mine[need >> 5]! |= 1 << (need & 31);
      before[need]!.forEach((bits, word) => {
        mine[word]! |= bits;
      });
    }
    before.push(mine);
    for (let other = 0; other < i; other++) {
      if (((mine[other >> 5]! >> (other & 31)) & 1) === 0) continue;
      ordered[i]!++;
      ordered[other]!++;
    }
  });
  return ordered.map((others) => others === launches.length - 1);
}
