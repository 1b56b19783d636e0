/** What the environment variables are for: apart from env.ts, because a browser has neither. */
import type { FlagName } from './env.js';

export const FLAG_DOCS: Readonly<Record<FlagName, string>> = {
  HEDDLE_DEVICE: 'device to use: cuda, cuda:1, cpu, sim (default: the fastest found)',
  HEDDLE_DEBUG:
    '1: devices and caches, 2: a line per launch, 3: fusion and memory plan, 4: source, 5: IR per pass',
  HEDDLE_CHECK: '1: verify kernels and schedules after every pass',
  HEDDLE_THREADS: 'threads of the CPU device (default: one per core)',
  HEDDLE_FMA: '0: never use fused multiply-add on the CPU device',
  HEDDLE_MEMORY_MB: 'most memory the CPU device may hold, in MiB (at most 4096)',
  HEDDLE_NVRTC:
    'the NVRTC library, or the folder it is in (default: CUDA toolkit, system libraries, Python wheels)',
  HEDDLE_MPI: 'the MPI library (default: that of the mpirun on the PATH, system libraries)',
  HEDDLE_CACHE: 'folder of compiled kernels and tuning results (default: ~/.cache/heddle); off: keep nothing',
  HEDDLE_CUDA_MEMORY_MB: 'most memory a CUDA device may hold, in MiB (default: all there is)',
  HEDDLE_CUDA_SYNC:
    '1: wait for every kernel launch of a CUDA device, so that a fault names its kernel, and give every buffer its own memory, for compute-sanitizer; slow',
  HEDDLE_TUNE:
    'on: time the variants of a product or a convolution (inside jit, on a GPU) and remember the fastest; frozen: use only remembered choices; off: take the default',
  HEDDLE_VENDOR: "off: leave out the vendor's libraries (cuBLASLt, cuDNN, cuRAND)",
  HEDDLE_RESTART: 'set by heddle launch: how often it has started the program again',
  HEDDLE_LAUNCHER: 'set by heddle launch: the file descriptor by which it is told of ranks that are gone',
};
