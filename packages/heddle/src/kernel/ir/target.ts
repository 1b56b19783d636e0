/** What devices are, to those who choose code for them: the limits of GPUs stand here, and nowhere else. */

/**
 * What all GPUs have in common, from compute capability 5.0 on (CUDA C++ Programming Guide, "Technical Specifications per
 * Compute Capability"). Every launch is checked by these, on every device.
 */
export const GPU = {
  /** Threads of a warp. */
  warp: 32,
  /** Blocks along x, y and z. */
  grid: [2 ** 31 - 1, 65535, 65535],
  /** Threads along x, y and z, and of a block in all. */
  block: [1024, 1024, 64],
  threadsPerBlock: 1024,
  /** Blocks of a cluster, where there are clusters. */
  blocksPerCluster: 8,
  /** Bytes of shared memory of a block that it need not ask for. */
  freeSharedBytes: 48 * 1024,
} as const;

/** What GPUs differ in: what a block and a multiprocessor have at most. */
export interface GpuLimits {
  /** Dynamic shared memory included. */
  readonly sharedBytesPerBlock: number;
  readonly sharedBytesPerMultiprocessor: number;
  /** Of those of a multiprocessor, what CUDA itself takes for each block. */
  readonly sharedBytesReserved: number;
  /** Of 32 bits. */
  readonly registersPerMultiprocessor: number;
  readonly threadsPerMultiprocessor: number;
  readonly blocksPerMultiprocessor: number;
  /** Of all parameters of a kernel. */
  readonly parameterBytes: number;
  /** Of the cache that all multiprocessors share (L2). */
  readonly cacheBytes: number;
}

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
  /** Of a GPU. A CPU has none, and is given those that launches are checked by. */
  readonly limits: GpuLimits;
  /** Compute capability × 10 of the GPU (90: Hopper) that instructions may be used of; 0 on the CPU. */
  readonly capability: number;
  /**
   * Launches may start while those that they need still run (programmatic dependent launch, Hopper and later), so that
   * kernels wait for them by themselves.
   */
  readonly overlapped: boolean;
  /** Routines of vendor libraries that may be called, by `LibraryCall.name`. */
  readonly libraries: ReadonlySet<string>;
}

/** NVIDIA's H200: the limits of the simulator, and of schedules made without a GPU. No GPU has more shared memory. */
export const H200: Target = {
  ...{
    name: 'cuda',
    model: 'threads',
    units: 132,
    fma: true,
    capability: 90,
    overlapped: false,
    libraries: new Set(),
  },
  limits: {
    sharedBytesPerBlock: 227 * 1024,
    sharedBytesPerMultiprocessor: 228 * 1024,
    sharedBytesReserved: 1024,
    registersPerMultiprocessor: 65536,
    threadsPerMultiprocessor: 2048,
    blocksPerMultiprocessor: 32,
    parameterBytes: 32764,
    cacheBytes: 60 * 2 ** 20,
  },
};
