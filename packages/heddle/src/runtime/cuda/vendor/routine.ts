/** What a device asks of a routine of a vendor library, and what the routine is given. */
import type { LibraryCall } from '../../../kernel/ir/library-call.js';
import type { Scalar } from '../../../kernel/ir/ops.js';

/** Device memory of a routine's own. */
export interface WorkMemory {
  readonly address: number;
  free(): void;
}

/** What a routine is told of the device it is prepared for, whose context is current. One object per open device. */
export interface LibraryContext {
  readonly ordinal: number;
  /** Compute capability × 10. */
  readonly capability: number;
  allocate(bytes: number, label: string): WorkMemory;
}

/** A graph that has captured what a library put on a stream. */
export interface CapturingGraph {
  /** Its program makes another one when it runs again. */
  dispose(): void;
}

/** A call made ready: the way is chosen. */
export interface PreparedRoutine {
  /** Device memory that it needs while it runs. What was there before does not matter, nor what is there after. */
  readonly workspaceBytes: number;
  /**
   * Puts its work on the stream, also while that is captured into a graph: it neither waits nor allocates.
   * @param args addresses of buffers and values of scalars, in the order of the launch
   * @param workspace the address of `workspaceBytes`
   */
  enqueue(stream: number, args: readonly Scalar[], workspace: number): void;
  /** Is told of every run of its program before that is queued, also as a graph. */
  readonly begins?: () => void;
  /** Graphs that have captured it are in this set as long as they live. */
  readonly graphs?: Set<CapturingGraph>;
  /** Gives its memory back. */
  dispose(): void;
}

export interface Routine {
  /** Whether its library is found (and not switched off). Opens nothing. */
  available(): boolean;
  /**
   * Opens the library the first time. Not while a stream is captured.
   * @throws DeviceError if the options are not what the routine takes
   */
  prepare(call: LibraryCall, context: LibraryContext): PreparedRoutine;
}
