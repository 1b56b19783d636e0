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
  readonly sharedBytesPerBlock: number;
}
