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
 * The least that a kernel asks for as shared memory, of the most that a multiprocessor has. It goes to blocks that declare no
 * shared memory, of which CUDA takes some for each all the same. What only loads is up to 20 % slower with more, and
 * up to 40 % with less, for then few blocks fit.
 */
const LEAST = 0.08;
/** The same where kernels may run side by side and one declares shared memory: so that most of these ask for the same. */
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
  const needs = launches.map((launch) => ('fn' in launch ? neededBy(launch, target) : 0));
  const beside = launchesBeside(launches);
  return launches.map((launch, i) => {
    if (!('fn' in launch)) return 0;
    const others = beside[i]!;
    const isShared = others.length > 0 && [i, ...others].some((other) => needs[other]! > 0);
    const share = Math.max(needs[i]!, isShared ? LEAST_BESIDE : LEAST);
    return Math.min(100, Math.ceil(100 * share));
  });
}

/**
 * The share that the blocks of a kernel take where they are spread over all multiprocessors. 0 if each has no more
 * than what CUDA takes for it: fewer of these blocks with a larger cache are faster than more.
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

/** Of each launch, the others that need not run before or after it. */
function launchesBeside(launches: readonly LaunchOrder[]): number[][] {
  /** What runs before each, a bit for each. */
  const before: Uint32Array[] = [];
  const beside = launches.map((): number[] => []);
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
      if ((mine[other >> 5]! >> (other & 31)) & 1) continue;
      beside[i]!.push(other);
      beside[other]!.push(i);
    }
  });
  return beside;
}
