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
 * The least share of the most shared memory of a multiprocessor that a kernel asks for: CUDA takes some for each block, even if
 * that declares none. Kernels that only load and store take up to 20 % longer with more, and up to 40 % with less, as few blocks
 * fit then.
 */
const LEAST = 0.08;
/** The same for kernels that may run side by side, if one of them needs shared memory: most of these then ask for the same. */
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
  const shares = launches.map((launch) => ('fn' in launch ? neededBy(launch, target) : 0));
  const agree = besideShared(launches, shares);
  return launches.map((launch, i) => {
    if (!('fn' in launch)) return 0;
    const share = Math.max(shares[i]!, agree[i] ? LEAST_BESIDE : LEAST);
    return Math.min(100, Math.ceil(100 * share));
  });
}

/**
 * The share that the blocks of a kernel take if they are spread over all multiprocessors; 0 if each declares no more than CUDA takes
 * for it: fewer of such blocks beside a larger cache are faster than more.
 */
function neededBy(
  { fn, grid, block, sharedBytes }: LaunchBlocks,
  { limits, units }: Pick<Target, 'limits' | 'units'>,
): number {
  const bytes = fn.fixedShared + sharedBytes;
  if (bytes <= limits.sharedBytesReserved) return 0;
  const room = blocksWithRoom(limits, { threads: sizeOf(block), bytes, registers: fn.registers });
  const blocks = Math.min(room, Math.ceil(sizeOf(grid) / units));
  return (blocks * (bytes + limits.sharedBytesReserved)) / limits.sharedBytesPerMultiprocessor;
}

/** Of each launch, whether it may run beside another and one of the two takes a share. */
function besideShared(launches: readonly LaunchOrder[], shares: readonly number[]): boolean[] {
  /** What runs before each, a bit for each. */
  const before: Uint32Array[] = [];
  const found = launches.map(() => false);
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
      const isBefore = ((mine[other >> 5]! >> (other & 31)) & 1) === 1;
      if (isBefore || (shares[i] === 0 && shares[other] === 0)) continue;
      found[i] = true;
      found[other] = true;
    }
  });
  return found;
}
