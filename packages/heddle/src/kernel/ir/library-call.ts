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
 * multiprocessor would otherwise begin its last blocks when the first ones end, and take twice as long. The exchange may have more
 * blocks than these.
 */
export const EXCHANGE_UNITS = 4;
