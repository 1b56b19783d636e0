/** Shared memory of a block on the GPUs that have most of it (compute capability 9.0: 227 KiB). */
export const MOST_SHARED_BYTES = 227 * 1024;

/** What the compiler and the scheduler need to know of a device, and all they are told. */
export interface Target {
  readonly name: 'cpu' | 'sim' | 'cuda';
  /**
   * blocks: a block is one thread of work and blocks are spread over cores (generated kernels use a block size of
   * 1 and vectors of 4). threads: a GPU, with warps of 32.
   */
  readonly model: 'blocks' | 'threads';
  /** Workers (CPU) or multiprocessors (GPU) that run blocks side by side. */
  readonly units: number;
  /** fma is one instruction. */
  readonly fma: boolean;
  readonly maxThreadsPerBlock: number;
  /** Dynamic shared memory included. */
  readonly sharedBytesPerBlock: number;
  /** Compute capability × 10 of the GPU (90: Hopper) that instructions may be used of; 0 on the CPU. */
  readonly capability: number;
  /** Routines of vendor libraries that may be called, by `LibraryCall.name`. */
  readonly libraries: ReadonlySet<string>;
}
