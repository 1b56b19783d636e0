/**
 * How threads share out the columns of a matrix that are reduced and then needed again (softmax along the first axis).
 * A block takes a strip of neighbouring columns, as narrow as a whole sector of memory, and keeps it from the first
 * reduction to the last store: in registers, what does not fit there in shared memory, and what fits into neither it
 * reads again. So a matrix that a reduction, another one and the result would read three times is read once. Where there are
 * clusters, the blocks of one may share a strip: each keeps some of its rows.
 */
import { clusterSizes, FITTED, residentBlocks, sharedBytesOfEach } from '../../kernel/ir/machine.js';
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
/** Registers that a thread has. */
const REGISTERS = 64;
/** Elements that a thread keeps in them: where it keeps others elsewhere, and where it keeps no others. */
const KEPT = 16;
const KEPT_ALONE = 32;
/** Threads of a block, in the order in which they are tried. */
const THREADS = [128, 256, 512, 1024] as const;
/** Of a block where there are few elements. */
const FEW = 256;
/** Bytes of the warps' results of a block at most, which lie beside what it keeps. */
const MOST_PART_BYTES = 24 * 1024;

export interface Strips {
  readonly lanes: Lanes;
  /** Threads of a block side by side, and above each other. */
  readonly across: number;
  readonly down: number;
  /** Blocks that share a strip: a cluster, if more than one. */
  readonly blocks: number;
  /** Blocks of a multiprocessor, where that many have room for what they keep. */
  readonly resident?: number;
  /** Vectors of a column that a thread has: those in registers, those in shared memory, and all of them. */
  readonly inRegisters: number;
  readonly inShared: number;
  readonly pieces: number;
  /** What the model says that it takes. */
  readonly cycles: number;
}

/** What is known of the elements of columns. */
export interface StripElements extends ElementReads {
  /** Whether a value that much work goes into is computed of each, and again of those that are read again. */
  readonly isCostly?: boolean;
  /** Nothing is stored for each, and columns are short: a block keeps its own, and shares them with no other. Default: false. */
  readonly isAlone?: boolean;
}

/** Vectors of a thread that go to shared memory, or come from it, at a time. */
export const SHARED_TURN = 2;

/** Threads of a warp above each other. */
export const rowsOfWarp = (across: number): number => Math.max(1, 32 / across);

/**
 * @param inner size of the innermost loop, which vectors lie along
 * @param resultBytes of one result of each reduction
 * @param clusters how many blocks may share a strip
 */
export function stripsOf(
  { rows: results, columns: length }: Structure,
  inner: number,
  reads: StripElements,
  resultBytes: number,
  clusters: readonly number[],
  target: Target,
): Strips {
  if (results * length < WIDE) {
    const across = Math.min(32, powerOfTwo(results));
    const down = Math.max(32 / across, Math.min(FEW / across, powerOfTwo(length / 2)));
    const pieces = Math.ceil(length / down);
    const inRegisters = Math.min(pieces, Math.floor(KEPT / Math.max(1, reads.tensors)));
    const shares = { lanes: 1, across, down, blocks: 1, inRegisters, inShared: 0, pieces } as const;
    return { ...shares, cycles: cyclesOf(shares, results, length, reads, target) };
  }
  const lanes: Lanes = inner % 4 === 0 ? 4 : 1;
  let best: Strips | undefined;
  for (const blocks of clusters)
    for (const threads of THREADS)
      for (let width = WIDEST; width >= SECTOR; width /= 2) {
        const across = Math.min(threads, powerOfTwo(width / (lanes * reads.bytes)));
        const shape = { lanes, across, down: threads / across, blocks };
        const made = stripsOfShape(shape, results, length, reads, resultBytes, target);
        if (made && made.cycles < (best?.cycles ?? Number.POSITIVE_INFINITY)) best = made;
      }
  return best!;
}

/** How blocks of such a shape keep strips; undefined if their threads cannot share them. */
function stripsOfShape(
  shape: Pick<Strips, 'lanes' | 'across' | 'down' | 'blocks'>,
  results: number,
  length: number,
  reads: StripElements,
  resultBytes: number,
  target: Target,
): Strips | undefined {
  const { tensors, bytes, isUniform } = reads;
  const { limits } = target;
  const { lanes, across, down, blocks } = shape;
  const threads = across * down;
  const parts = (down / rowsOfWarp(across)) * across * lanes * resultBytes;
  if (down < rowsOfWarp(across) || parts > MOST_PART_BYTES) return undefined;
  const resident = residentBlocks(limits, { threads, bytes: 0, registers: REGISTERS });
  const pieces = Math.ceil(length / (down * blocks));
  const each = lanes * Math.max(1, tensors);
  const most = pieces * each <= KEPT_ALONE ? pieces : Math.max(1, Math.floor(KEPT / each));
  const inRegisters = Math.min(pieces, most);
  const slotBytes = threads * lanes * bytes * tensors;
  const slots = isUniform ? Math.floor((sharedBytesOfEach(limits, resident) - parts) / slotBytes) : 0;
  const turns = Math.floor(Math.min(slots, pieces - inRegisters) / SHARED_TURN);
  const inShared = Math.max(0, turns) * SHARED_TURN;

  const shares = { ...shape, resident, inRegisters, inShared, pieces };
  return { ...shares, cycles: cyclesOf(shares, results, length, reads, target) };
}

/** What the model says that blocks take that keep strips so. */
function cyclesOf(
  { lanes, across, down, blocks, inRegisters, inShared, pieces, ...shares }: Omit<Strips, 'cycles'>,
  results: number,
  length: number,
  { tensors, bytes, isCostly, isAlone }: StripElements,
  { units, limits }: Target,
): number {
  const threads = across * down;
  const { resident = residentBlocks(limits, { threads, bytes: 0, registers: REGISTERS }) } = shares;
  const { memory, kept, again, costly, latency, meeting, ofCluster, narrow } = FITTED.strips;
  const elements = (length * across * lanes) / blocks;
  const width = across * lanes * bytes;
  const readAgain = pieces - inRegisters - inShared;
  const moved = bytes * (tensors + (isAlone ? 0 : 1) + (2 * tensors * readAgain) / pieces);
  const moving = (elements * moved * (1 + (narrow * SECTOR) / width)) / memory;
  const once = isCostly ? costly : 0;
  const ofPieces = inRegisters * (kept + once) + (pieces - inRegisters) * (again + 2 * once);
  const computing = threads * lanes * ofPieces;
  const waiting = latency + 2 * (meeting + (blocks > 1 ? ofCluster : 0));
  const ofUnit = (Math.ceil(results / (across * lanes)) * blocks) / units;
  const beside = Math.min(resident, Math.ceil(ofUnit));
  const rounds = Math.ceil(ofUnit / beside);
  // All that the blocks of a multiprocessor move and compute, or what one does after the other; where these take about as long,
  // more than each of them. Blocks that start together all move at first, then all compute.
  const together = beside * (moving + computing) + waiting;
  const bounds = [beside * moving, beside * computing, moving + computing + waiting];
  const round = rounds > 1 ? Math.cbrt(bounds.reduce((sum, bound) => sum + bound ** 3, 0)) : together;
  return rounds * round;
}

/**
 * Whether strips take less time than kernels for the reductions and one for what is made of them. These read every tensor again, but any
 * number of blocks can share in that. They are rated as two passes, each of which reads all tensors and moves one besides.
 * @param tensors that the elements are made of
 */
export function suitsStrips(structure: Structure, tensors: number, target: Target): boolean {
  const { rows: results, columns: length, contiguous, bytes } = structure;
  if (contiguous) return false;
  const { memory, latency, kernel } = FITTED.strips;
  const moved = (results * length * bytes) / (target.units * memory);
  const reads = { tensors, bytes, isUniform: true };
  const strips = stripsOf(structure, results, reads, 4, clusterSizes(target.capability), target);
  return strips.cycles < latency + 2 * ((tensors + 1) * moved + kernel);
}
