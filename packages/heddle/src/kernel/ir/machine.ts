/**
 * The model of a GPU that launch rules rank their ways by. What a multiprocessor has room for follows from its limits
 * (target.ts). How long things take is fitted, and stands in one table, in cycles of an H200 unless said otherwise; products by
 * warpgroups have a table of their own (warpgroup-times.ts). A model ranks; the autotuner times the first few.
 */
import { GPU, type GpuLimits } from './target.js';

/** What a block asks for. */
export interface BlockNeeds {
  readonly threads: number;
  /** Of shared memory. */
  readonly bytes: number;
  /** Of a thread. */
  readonly registers: number;
}

/** Blocks that a multiprocessor has room for at once. @param shared bytes for all of them; default: all there are */
export const blocksWithRoom = (
  limits: GpuLimits,
  { threads, bytes, registers }: BlockNeeds,
  shared = limits.sharedBytesPerMultiprocessor,
): number =>
  Math.min(
    Math.floor(shared / (bytes + limits.sharedBytesReserved)),
    Math.floor(limits.threadsPerMultiprocessor / threads),
    Math.floor(limits.registersPerMultiprocessor / (threads * registers)),
    limits.blocksPerMultiprocessor,
  );

/** The same as launch rules count: at least one, and less one reserve of shared memory, as the times below were fitted. */
export const residentBlocks = (limits: GpuLimits, needs: BlockNeeds): number =>
  Math.max(
    1,
    blocksWithRoom(limits, needs, limits.sharedBytesPerMultiprocessor - limits.sharedBytesReserved),
  );

/** Bytes of shared memory that each of `blocks` blocks of a multiprocessor can have. */
export const sharedBytesOfEach = (limits: GpuLimits, blocks: number): number =>
  Math.min(
    limits.sharedBytesPerBlock,
    Math.floor(limits.sharedBytesPerMultiprocessor / blocks) - limits.sharedBytesReserved,
  );

/** Compute capability × 10 that has thread-block clusters (Hopper). */
const CLUSTERS = 90;

/** Blocks that may work together on a GPU of that compute capability × 10: powers of two. */
export const clusterSizes = (capability: number): readonly number[] =>
  capability < CLUSTERS ? [1] : Array.from({ length: 1 + Math.log2(GPU.blocksPerCluster) }, (_, i) => 2 ** i);

/** Whether a block's threads can have that many registers each. */
export const hasRegisters = (limits: GpuLimits, threads: number, registers: number): boolean =>
  threads * registers <= limits.registersPerMultiprocessor;

/** How long things take. */
export const FITTED = {
  matmul: {
    /** From the start of a kernel to the first elements of memory. */
    latency: 1100,
    /** For another kernel after it. */
    anotherKernel: 1900,
    /** To start a block, and besides for each of its warps. */
    block: 100,
    warp: 12,
    /** Bytes that a multiprocessor receives per cycle. */
    received: 40,
    /** What of receiving, and of the waits of a warp by itself, does not hide behind products. */
    unhidden: 0.5,
    /** Of a warp, from a read of shared memory to its use. */
    readLatency: 30,
    /** How much longer small tiles take for what they read along K, with fewer reads on their way at a time. */
    alongK: 1.25,
    /** To meet before the shares of warps along K are added. */
    shares: 100,
    /** For each element, if something follows that is computed at the store: one after the other in a thread. */
    following: 100,
    /** On tensor cores. */
    tensor: {
      /** Multiply-adds of a multiprocessor per cycle, for each of the steps along K of an instruction. */
      rate: 60,
      /** To wait for a copy, and to meet. */
      chunk: 40,
    },
  },
  /**
   * Fitted to 200 timings of 16 small convolutions: its first guess takes 6 % longer than the best of them, on average, the
   * best of its first four 1.4 %.
   */
  conv2d: {
    /** To wait for a copy from memory. */
    latency: 1500,
    /** To copy one element, shared by the warps of a multiprocessor. */
    copy: 0.21,
    /** That a copy costs besides: to start it, and to meet. */
    barrier: 280,
    /** What of the shorter of moving and multiplying does not hide behind the longer, where many blocks follow each other. */
    unhidden: 0.4,
    /** To store one element. */
    store: 0.04,
    /** Share of a multiprocessor's shared memory from which a block of the weight gradient gains no more. */
    weightShare: 0.4386,
    /** Bytes of shared memory of a block that the estimate of its needs leaves out. */
    sharedMargin: 3072,
    /** Without tensor cores. */
    fma: {
      /** What of the shorter of reading and multiplying does not hide behind the longer. */
      mixed: 0.3,
      /** Of a step besides its reads and products, and of one of the weight gradient. */
      step: 4,
      gradientStep: 8,
    },
    /** On tensor cores. */
    tensor: {
      /** Of an mma, where a word that a warp reads takes one. */
      product: 1.5,
      /** What of the shorter of reading and multiplying does not hide behind the longer. */
      mixed: 0.1,
      /** That a warp waits in a step for its reads, and for each of its products. */
      wait: 55,
      productWait: 6,
    },
  },
  /**
   * Reckoned from an H200's figures, but `cached`, `wait` and `tail`, which only those with channels last have, are fitted to 593
   * timings of 24 of them: the first guess takes 5 % longer than the best that was timed, on average, the best of its first four 1.2 %.
   */
  depthwise: {
    /** Bytes that a multiprocessor moves per cycle. */
    received: 18,
    /** Bytes that it gets from the cache of the GPU per cycle. */
    cached: 64,
    /** From a read of memory to its value. */
    wait: 700,
    /** Share of a wave of blocks that memory could move besides while the last blocks end, where blocks follow each other. */
    tail: 0.4,
    /** Of a warp for a read of memory or a store, with its place and its test. */
    instructions: 6,
    /** What of the other limits does not hide behind the narrowest. */
    unhidden: 0.3,
    /** From the start of a block to its end, besides. */
    latency: 1500,
  },
  /**
   * Columns that a block, or a cluster, keeps while it reduces them. Fitted to 2801 timings on an H200 (2026-11-29): softmax, its
   * gradient, layer norm, log-sum-exp and variance along the columns of f32 and bf16, 75 cases from 512² to 8192², each with up to 38
   * ways to keep them, of which the faster ones have more weight. `memory` and `latency` were given. What the model chooses takes 13 %
   * longer than the fastest of these, as a geometric mean.
   */
  strips: {
    /** Bytes that a multiprocessor has of the memory's bandwidth per cycle. */
    memory: 18,
    /** For another kernel after one. */
    kernel: 1900,
    /** To compute with an element each time, and to compute an expensive value of one, such as an exponential, once. */
    element: 0.006,
    costly: 0.011,
    /** What a thread does to put a reduction of a column together, besides what it waits. */
    joined: 0.033,
    /** From the start of a block to its first elements. */
    latency: 1200,
    /** For the threads of a block to put a reduction together, and besides for those of a cluster. */
    meeting: 630,
    ofCluster: 1245,
    /** How much longer the slowest block of a cluster, for which all wait, takes to read and store. */
    uneven: 0.27,
    /** How much longer accesses of single sectors take than of whole lines. */
    narrow: 0.545,
    /** How much longer copies through the L1 cache take, for each part of shared memory that is taken beyond 70 %. */
    crowded: 0.51,
  },
  /** Rows that are kept in shared memory. Estimates, but that clusters pay: cross entropy of 50,304 bf16 was measured. */
  rows: {
    /** How much longer it takes if no other block of the multiprocessor moves while one computes. */
    alone: 0.95,
    /** That each further block of a cluster costs, which all wait for. */
    together: 0.015,
    /** How much longer it takes to compute a costly value of each element twice. Not measured yet: from the instructions. */
    again: 1.3,
  },
  /** Launches beside each other, in instructions of a thread (`DURATION` in cost.ts). */
  launch: {
    /** What a launch takes besides its instructions. */
    latency: 4000,
    /** Threads of a multiprocessor that keep it busy. */
    busy: 1024,
    /** A library's routine, of which nothing is known: that it fills the GPU. */
    library: 50_000,
  },
} as const;
