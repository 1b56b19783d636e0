/**
 * What works beside the threads of a GPU of compute capability 9.0: the copy engine (TMA), which copies tiles and tells an
 * mbarrier of it; the tensor cores of a warpgroup, which multiply tiles where they lie (wgmma); and what orders them. The
 * records of their operations, as in intrinsics.ts. What they mean is in runtime/sim/engine.ts.
 *
 * Source: NVIDIA, PTX ISA 8.7: mbarrier, cp.async.bulk.tensor, cp.async.mbarrier, st.async, barrier.cluster, mapa, wgmma, fence.proxy, setmaxnreg, and "Memory Consistency
 * Model, Async proxy".
 */
import type { DTypeName } from '../../core/dtype.js';
import type { IntrinsicRecord } from './intrinsic-record.js';

export const ASYNCHRONOUS = {
  initBarrier: {
    scope: 'thread',
    places: ['barrier'],
    params: ['i32'],
    result: 'none',
    doc: 'begins the first phase of an mbarrier, of that many arrivals',
  },
  arrive: {
    scope: 'thread',
    places: ['barrier'],
    params: [],
    result: 'none',
    doc: 'arrives at an mbarrier: what this thread has done is seen by those that wait for the phase',
  },
  arriveExpect: {
    scope: 'thread',
    places: ['barrier'],
    params: ['i32'],
    result: 'none',
    doc: 'arrives at an mbarrier whose phase is to wait for that many bytes of tiles, or of values from other blocks, as well',
  },
  arriveCopies: {
    scope: 'thread',
    places: ['barrier'],
    params: [],
    result: 'none',
    doc: 'arrives at an mbarrier once the copies that this thread has started are made',
  },
  arriveRemote: {
    scope: 'thread',
    cluster: true,
    places: ['barrier'],
    params: ['i32'],
    result: 'none',
    doc: 'arrives at the same mbarrier of another block of the cluster',
  },
  storeRemote: {
    scope: 'thread',
    cluster: true,
    places: ['shared', 'barrier'],
    params: ['T', 'i32'],
    result: 'none',
    doc: 'starts to store a value in shared memory of another block of the cluster, and tells the same mbarrier there of its bytes',
  },
  waitBarrier: {
    scope: 'thread',
    waits: true,
    places: ['barrier'],
    params: ['i32'],
    result: 'none',
    doc: 'waits until the phase of that number, or one of the same parity, is complete',
  },
  tmaLoad: {
    scope: 'thread',
    places: ['tile', 'source', 'barrier'],
    params: [],
    result: 'none',
    doc: 'starts to copy a box of a buffer to a tile, and tells the mbarrier of its bytes when they are there',
  },
  tmaLoadMulticast: {
    scope: 'thread',
    cluster: true,
    places: ['tile', 'source', 'barrier'],
    params: ['i32'],
    result: 'none',
    doc: 'starts to copy a box to the same tile of several blocks of the cluster, and tells the mbarrier of each of its bytes',
  },
  tmaStore: {
    scope: 'thread',
    places: ['target', 'tile'],
    params: [],
    result: 'none',
    doc: 'starts to copy a box of a tile to a buffer',
  },
  tmaCommit: {
    scope: 'thread',
    params: [],
    result: 'none',
    doc: 'makes a group of the tmaStore of this thread since the last',
  },
  tmaWait: {
    scope: 'thread',
    params: ['i32'],
    result: 'none',
    doc: 'waits until at most the n groups of tmaStore committed last still read their tiles',
  },
  fenceAsync: {
    scope: 'thread',
    params: [],
    result: 'none',
    doc: 'lets the copy engine and the tensor cores see what this thread has written to shared memory',
  },
  wgmma: {
    scope: 'warpgroup',
    places: ['sums', 'left', 'tile'],
    params: ['bool', 'bool', 'bool'],
    optional: 3,
    result: 'none',
    doc: 'starts to add a product of two tiles, the left one perhaps in registers, to the sums of a warpgroup',
  },
  clearSums: {
    scope: 'thread',
    places: ['array'],
    params: [],
    result: 'none',
    doc: 'sets sums to 0 for wgmma, which alone changes them then',
  },
  fenceWgmma: {
    scope: 'thread',
    places: ['array'],
    params: [],
    result: 'none',
    doc: 'lets wgmma see what this thread has put into its sums or its left operand',
  },
  commitWgmma: {
    scope: 'thread',
    params: [],
    result: 'none',
    doc: 'makes a group of the wgmma since the last',
  },
  waitWgmma: {
    scope: 'thread',
    places: ['array'],
    params: ['i32'],
    result: 'none',
    doc: 'waits until at most the n groups of wgmma committed last still work: the sums of the others are there',
  },
  groupBarrier: {
    scope: 'group',
    params: ['i32', 'i32'],
    result: 'none',
    doc: 'waits at barrier number id (1 to 15) until that many threads of the block have come',
  },
  arriveCluster: {
    scope: 'thread',
    cluster: true,
    params: [],
    result: 'none',
    doc: 'arrives at the barrier of the cluster, and goes on',
  },
  waitCluster: {
    scope: 'thread',
    cluster: true,
    waits: true,
    params: [],
    result: 'none',
    doc: 'waits until all threads of the cluster have arrived',
  },
  raiseRegisters: {
    scope: 'thread',
    params: ['i32'],
    result: 'none',
    doc: 'gives each thread of the warpgroup up to n registers, once others have lowered theirs',
  },
  lowerRegisters: {
    scope: 'thread',
    params: ['i32'],
    result: 'none',
    doc: 'leaves each thread of the warpgroup n registers',
  },
} as const satisfies Record<string, IntrinsicRecord>;

/** Threads of a warpgroup. */
export const WARPGROUP = 128;

/** Rows of the product that one wgmma adds. */
export const WGMMA_ROWS = 64;

/** Elements along K that one wgmma multiplies: 32 bytes. */
export const wgmmaDepth = (bytes: number): number => 32 / bytes;

/** The operands that wgmma takes, f32 as tf32, and the dtype of their sums. */
export const WGMMA_OPERANDS: Readonly<Partial<Record<DTypeName, 'f32' | 'i32'>>> = {
  ...{ bf16: 'f32', f16: 'f32', f32: 'f32' },
  ...{ i8: 'i32', u8: 'i32' },
};

/** Words of a left operand that a thread has in registers for one wgmma. */
export const WGMMA_WORDS = 4;

/**
 * Where in a left operand of 64 × (32 bytes) word `i` of a thread begins, as in PTX's fragment A of wgmma.
 * @param thread within the warpgroup
 */
export const wordAt = (thread: number, i: number): readonly [row: number, byte: number] => [
  16 * (thread >> 5) + ((thread & 31) >> 2) + 8 * (i & 1),
  16 * (i >> 1) + 4 * (thread & 3),
];

/**
 * Where in a product of 64 × N element `i` of a thread's sums stands, as in PTX's fragment D of wgmma.
 * @param thread within the warpgroup
 */
export const sumAt = (thread: number, i: number): readonly [row: number, column: number] => [
  16 * (thread >> 5) + ((thread & 31) >> 2) + 8 * ((i >> 1) & 1),
  8 * (i >> 2) + 2 * (thread & 3) + (i & 1),
];
