/** Routines of a vendor's library (cuBLASLt, cuDNN, cuRAND) that may take a kernel's place in a program. */

export type LibraryOption = number | string | boolean | readonly number[];

/** Which routine, and what it has to know besides its buffers. A device says by `Target.libraries` what it has. */
export interface LibraryCall {
  /** `library.routine`, such as `cublaslt.matmul`. */
  readonly name: string;
  readonly options: Readonly<Record<string, LibraryOption>>;
}

/**
 * Whether it exchanges values with other processes (heddle/distributed). That takes its time on the network: it begins as early
 * as it can, and what does not need it goes on beside it.
 */
export const isCollective = ({ name }: LibraryCall): boolean => name.startsWith('collective.');

/**
 * Multiprocessors of a GPU that kernels leave to an exchange while it runs beside them: a kernel with a block for each
 * multiprocessor would otherwise begin its last blocks when the first ones end, and take twice as long. The exchange has twice as
 * many blocks.
 *
 * Measured on 2 × H200 with NCCL 2.28 (2026-11-26, commit 8de0573): a step of ResNet-18 in bf16, 2,702 µs without exchanges, takes
 * 2,833 µs with 4 and 2,789 with 8; one of GPT-2 small, 15,546 µs without, takes 17,423 and 17,320.
 */
export const EXCHANGE_UNITS = 8;
