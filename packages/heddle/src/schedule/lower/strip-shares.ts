/**
 * How threads share out the columns of a matrix that are reduced and then needed again (softmax along the first axis).
 * A block takes a strip of neighbouring columns, as narrow as a whole sector of memory, and keeps it from the first
 * reduction to the last store: in registers, what does not fit there in shared memory, and what fits into neither it
 * reads again. So a matrix that a reduction, another one and the result would read three times is read once.
 */
import { FITTED, residentBlocks, sharedBytesOfEach } from '../../kernel/ir/machine.js';
import type { Target } from '../../kernel/ir/target.js';
import type { Lanes } from '../../kernel/ir/types.js';
import type { Structure } from '../group.js';
import type { ElementReads } from './kept-pieces.js';
import { powerOfTwo } from './lowering.js';

/** Elements from which accesses are of 16 bytes: below, more threads finish sooner. */
export const WIDE = 2 ** 18;
/** Bytes that memory moves at least, and so the width of the narrowest strip. */
const SECTOR = 32;
/** Widest strip: more than whole lines gain nothing. */
const WIDEST = 512;
/** Registers that a thread has, and those of them that keep elements. */
const REGISTERS = 64;
const KEPT = 16;
/** Threads of a block, in the order in which they are tried. */
const THREADS = [128, 256, 512, 1024] as const;
/** Of a block where there are few elements. */
const FEW = 256;
/** Bytes of the warps' results of a block at most, which lie beside what it keeps. */
const MOST_PART_BYTES = 24 * 1024;

export interface Strips {
  readonly lanes: Lanes;
  /** Threads side by side, and above each other. */
  readonly across: number;
  readonly down: number;
  /** Vectors of a column that a thread has: those in registers, those in shared memory, and all of them. */
  readonly inRegisters: number;
  readonly inShared: number;
  readonly pieces: number;
}

/** Vectors of a thread that go to shared memory, or come from it, at a time. */
export const SHARED_TURN = 2;

/** Threads of a warp above each other. */
export const rowsOfWarp = (across: number): number => Math.max(1, 32 / across);

/**
 * @param inner size of the innermost loop, which vectors lie along
 * @param resultBytes of one result of each reduction
 */
export function stripsOf(
  { rows: results, columns: length }: Structure,
  inner: number,
  { tensors, bytes, isUniform }: ElementReads,
  resultBytes: number,
  target: Target,
): Strips {
  const held = KEPT / Math.max(1, tensors);
  if (results * length < WIDE) {
    const across = Math.min(32, powerOfTwo(results));
    const down = Math.max(32 / across, Math.min(FEW / across, powerOfTwo(length / 2)));
    const pieces = Math.ceil(length / down);
    return { lanes: 1, across, down, inRegisters: Math.min(pieces, Math.floor(held)), inShared: 0, pieces };
  }
  const lanes: Lanes = inner % 4 === 0 ? 4 : 1;
  let best: Strips | undefined;
  let least = Number.POSITIVE_INFINITY;
  for (const threads of THREADS) {
    const blocks = residentBlocks(target.limits, { threads, bytes: 0, registers: REGISTERS });
    for (let width = WIDEST; width >= SECTOR; width /= 2) {
      const across = Math.min(threads, powerOfTwo(width / (lanes * bytes)));
      const down = threads / across;
      const parts = (down / rowsOfWarp(across)) * across * lanes * resultBytes;
      if (down < rowsOfWarp(across) || parts > MOST_PART_BYTES) continue;
      const pieces = Math.ceil(length / down);
      const inRegisters = Math.min(pieces, Math.max(1, Math.floor(held / lanes)));
      const slotBytes = threads * lanes * bytes * tensors;
      const slots = isUniform
        ? Math.floor((sharedBytesOfEach(target.limits, blocks) - parts) / slotBytes)
        : 0;
      const turns = Math.floor(Math.min(slots, pieces - inRegisters) / SHARED_TURN);
      const inShared = Math.max(0, turns) * SHARED_TURN;
      const all = Math.ceil(results / (across * lanes));
      const rounds = Math.ceil(all / (target.units * blocks));
      const { alone, narrow } = FITTED.strips;
      const cost =
        (1 + (pieces - inRegisters - inShared) / pieces) *
        (1 + alone / blocks) *
        (1 + (narrow * SECTOR) / width) *
        ((rounds * target.units * blocks) / all) *
        ((pieces * down) / length);
      if (cost >= least) continue;
      [best, least] = [{ lanes, across, down, inRegisters, inShared, pieces }, cost];
    }
  }
  return best!;
}

/**
 * Whether strips take less time than a kernel for each reduction and one for what is made of them: these read the
 * matrix three times, but any number of blocks can share in it.
 */
export function suitsStrips(
  { rows: results, columns: length, contiguous, bytes }: Structure,
  { units, limits }: Target,
): boolean {
  if (contiguous) return false;
  const { memory, received, kernel } = FITTED.strips;
  // What kernels leave in memory for each other is mostly f32.
  const whole = (results * length * 4) / (units * memory);
  const strip = length * SECTOR;
  const room = limits.registersPerMultiprocessor * 2 + sharedBytesOfEach(limits, 1);
  const rounds = Math.ceil((results * bytes) / SECTOR / units);
  const once = Math.max(whole, (rounds * strip) / (received * bytes));
  const again = Math.max(0, 1 - room / strip);
  return once * (2 + 2 * again) < 4 * whole + 2 * kernel;
}
