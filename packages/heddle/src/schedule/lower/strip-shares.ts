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
/** Registers of a thread at least, and those that it has for other things than elements: more where a costly value is computed. */
const REGISTERS = 64;
const OTHERS = 40;
const COSTLY = 8;
/** Elements that a thread keeps in them at most, as it does where it keeps no others elsewhere. */
const MOST_KEPT = 32;
/** Of blocks where there are few elements. */
const KEPT_OF_FEW = 16;
/** How many blocks of a multiprocessor are tried, of those that it has room for: fewer have more registers and shared memory each. */
const RESIDENT = [1, 3 / 4, 1 / 2] as const;
/** Threads of a block, in the order in which they are tried: of equals the largest hides more latency. */
const THREADS = [1024, 512, 256, 128] as const;
/** Of a block that shares a strip with others, at least. */
const THREADS_OF_CLUSTER = 256;
/** Of a block where there are few elements. */
const FEW = 256;
/** Share of shared memory up to which the L1 cache has room for what is on its way. */
const ROOMY = 0.7;
/** Bytes of such results of a block at most (`partBytesOf`), which lie beside what it keeps. */
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

type StripShape = Pick<Strips, 'lanes' | 'across' | 'down' | 'blocks'>;

/** What is known of the elements of columns. */
export interface StripElements extends ElementReads {
  /** Whether a value that much work goes into is computed of each, and again of those that are read again. */
  readonly isCostly?: boolean;
  /** Whether something is stored for each. */
  readonly stores: boolean;
  /** How often threads put reductions together: those that need no other's results at once. */
  readonly levels: number;
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
    const inRegisters = Math.min(pieces, Math.floor(KEPT_OF_FEW / Math.max(1, reads.tensors)));
    const shares = { lanes: 1, across, down, blocks: 1, inRegisters, inShared: 0, pieces } as const;
    return { ...shares, cycles: cyclesOf(shares, 0, results, length, reads, target) };
  }
  const lanes: Lanes = inner % 4 === 0 ? 4 : 1;
  let best: Strips | undefined;
  for (const blocks of clusters)
    for (const threads of THREADS) {
      if (blocks > 1 && threads < THREADS_OF_CLUSTER) continue;
      for (let width = WIDEST; width >= SECTOR; width /= 2) {
        const across = Math.min(threads, powerOfTwo(width / (lanes * reads.bytes)));
        const shape = { lanes, across, down: threads / across, blocks };
        for (const resident of residentsOf(threads, target)) {
          const made = stripsOfShape({ ...shape, resident }, results, length, reads, resultBytes, target);
          if (made && made.cycles < (best?.cycles ?? Number.POSITIVE_INFINITY)) best = made;
        }
      }
    }
  return best!;
}

const mostResident = (threads: number, { limits }: Target): number =>
  residentBlocks(limits, { threads, bytes: 0, registers: REGISTERS });

const residentsOf = (threads: number, target: Target): Set<number> =>
  new Set(RESIDENT.map((share) => Math.ceil(share * mostResident(threads, target))));

/**
 * Shared memory in which a block puts reductions together: what its warps have, what the blocks of its cluster send, and an
 * mbarrier of 8 bytes for each time that they do, at most once for each result, which takes 4 bytes at least.
 */
function partBytesOf({ lanes, across, down, blocks }: StripShape, resultBytes: number): number {
  const warps = down / rowsOfWarp(across);
  const held = (warps > 1 ? warps : 0) + (blocks > 1 ? blocks : 0);
  const barriers = blocks > 1 ? 16 * Math.ceil((2 * resultBytes) / 16) : 0;
  return held * across * lanes * resultBytes + barriers;
}

/** How blocks of such a shape keep strips; undefined if their threads cannot share them. */
function stripsOfShape(
  shape: StripShape & { readonly resident: number },
  results: number,
  length: number,
  reads: StripElements,
  resultBytes: number,
  target: Target,
): Strips | undefined {
  const { tensors, bytes, isUniform, isCostly } = reads;
  const { limits } = target;
  const { lanes, across, down, blocks, resident } = shape;
  const threads = across * down;
  const parts = partBytesOf(shape, resultBytes);
  if (down < rowsOfWarp(across) || parts > MOST_PART_BYTES) return undefined;
  const pieces = Math.ceil(length / (down * blocks));
  const each = lanes * Math.max(1, tensors);
  const registers =
    limits.registersPerMultiprocessor / (threads * resident) - OTHERS - (isCostly ? COSTLY : 0);
  const room = pieces * each <= MOST_KEPT ? MOST_KEPT : Math.min(MOST_KEPT, registers);
  const inRegisters = Math.min(pieces, Math.max(1, Math.floor(room / each)));
  const slotBytes = threads * lanes * bytes * tensors;
  const slots = isUniform ? Math.floor((sharedBytesOfEach(limits, resident) - parts) / slotBytes) : 0;
  const turns = Math.floor(Math.min(slots, pieces - inRegisters) / SHARED_TURN);
  const inShared = Math.max(0, turns) * SHARED_TURN;
  const shares = { ...shape, inRegisters, inShared, pieces };
  const sharedBytes = parts + inShared * slotBytes;
  return { ...shares, cycles: cyclesOf(shares, sharedBytes, results, length, reads, target) };
}

/** What the model says that blocks take that keep strips so. @param sharedBytes of a block */
function cyclesOf(
  { lanes, across, down, blocks, inRegisters, inShared, pieces, ...shares }: Omit<Strips, 'cycles'>,
  sharedBytes: number,
  results: number,
  length: number,
  { tensors, bytes, isCostly, stores, levels }: StripElements,
  target: Target,
): number {
  const { units, limits } = target;
  const threads = across * down;
  const { resident = mostResident(threads, target) } = shares;
  const { memory, element, costly, joined, latency, meeting, ofCluster, uneven, narrow, crowded } =
    FITTED.strips;
  const elements = (length * across * lanes) / blocks;
  const width = across * lanes * bytes;
  const readAgain = pieces - inRegisters - inShared;
  const moved = bytes * (tensors + (stores ? 1 : 0) + (2 * tensors * readAgain) / pieces);
  // Copies that are not of 16 bytes go through the L1 cache, whose memory is what is left of the shared one.
  const taken = (resident * (sharedBytes + limits.sharedBytesReserved)) / limits.sharedBytesPerMultiprocessor;
  const cached = lanes * bytes < 16 ? crowded * Math.max(0, taken - ROOMY) : 0;
  const moving = (elements * moved * (1 + (narrow * SECTOR) / width) * (1 + cached)) / memory;
  const once = isCostly ? costly : 0;
  const ofPieces = pieces * element + (2 * pieces - inRegisters) * once;
  const computing = threads * lanes * (ofPieces + levels * joined);
  const isShared = blocks > 1;
  const waiting =
    latency + levels * (meeting + (isShared ? ofCluster : 0)) + (isShared ? uneven * moving : 0);
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

/** Answers of `suitsStrips`, by target: planning a network asks hundreds of times about a few structures. */
const found = new WeakMap<Target, Map<string, boolean>>();

/**
 * Whether strips take less time than kernels for the reductions and one for what is made of them. These read every tensor again, but any
 * number of blocks can share in that. They are rated as two passes, each of which reads all tensors and moves one besides.
 * @param tensors that the elements are made of
 */
export function suitsStrips(structure: Structure, tensors: number, target: Target): boolean {
  const { rows: results, columns: length, contiguous, bytes } = structure;
  if (contiguous) return false;
  const key = [results, length, bytes, tensors].join();
  const known = found.get(target) ?? new Map<string, boolean>();
  found.set(target, known);
  let suits = known.get(key);
  if (suits === undefined) {
    const { memory, latency, kernel } = FITTED.strips;
    const moved = (results * length * bytes) / (target.units * memory);
    const reads = { tensors, bytes, isUniform: true, stores: true, levels: 1 };
    const strips = stripsOf(structure, results, reads, 4, clusterSizes(target.capability), target);
    suits = strips.cycles < latency + 2 * ((tensors + 1) * moved + kernel);
    known.set(key, suits);
  }
  return suits;
}
