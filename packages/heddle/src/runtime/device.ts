/** The contract between the engine and a device. A device runs programs; it knows no tensors. */
import { DeviceError } from '../core/errors.js';
import type { KernelIr } from '../kernel/ir/ir.js';
import type { LibraryCall } from '../kernel/ir/library-call.js';
import type { Scalar } from '../kernel/ir/ops.js';
import type { Target } from '../kernel/ir/target.js';

export type Dim3 = readonly [number, number, number];

/** Device memory. Opaque: only its device looks inside. */
export interface DeviceBuffer {
  readonly device: Device;
  readonly bytes: number;
  readonly label: string;
}

/** An argument of a launch, in the order of the kernel's parameters. */
export type ProgramArgument =
  /** A buffer: which of those given to `run`, and how many bytes into it. */
  | { readonly slot: number; readonly offset: number }
  /** A scalar, fixed when the program is compiled. */
  | { readonly value: Scalar };

export type Launch = KernelLaunch | LibraryLaunch;

interface LaunchBase {
  readonly args: readonly ProgramArgument[];
  /**
   * The launches of the program that must have run before, by their numbers; those that these need may be left out. It
   * may run concurrently with any other. Default: all launches before it.
   */
  readonly needs?: readonly number[] | undefined;
}

export interface KernelLaunch extends LaunchBase {
  readonly kernel: KernelIr;
  readonly grid: Dim3;
  readonly block: Dim3;
  /** Bytes of the dynamic shared array, if the kernel has one. */
  readonly sharedBytes?: number;
  /** Blocks of a cluster, which divide the grid's: they run side by side. Compute capability 9.0 and up. */
  readonly cluster?: Dim3;
}

/** Only for routines that the device's target lists. */
export interface LibraryLaunch extends LaunchBase {
  readonly library: LibraryCall;
}

/** For devices without libraries. @throws DeviceError if there is a routine among the launches */
export function requireKernels(device: string, launches: readonly Launch[]): readonly KernelLaunch[] {
  return launches.map((l) => {
    if ('kernel' in l) return l;
    throw new DeviceError(`[${l.library.name}] the ${device} device has no vendor libraries.`);
  });
}

export const nameOfLaunch = (l: Launch): string => ('kernel' in l ? l.kernel.name : l.library.name);

/** Launches compiled together; run as often as wanted, with other buffers each time. */
export interface Program {
  readonly launches: readonly Launch[];
  /**
   * Run all launches in order, `times` times (default 1) one after the other. Returns when they are done or queued;
   * later reads see their results.
   * @param stream of the device, to queue them on: after what was started before on their buffers, except on other
   * streams, and before what uses the buffers later
   */
  run(slots: readonly DeviceBuffer[], times?: number, stream?: Stream): void;
  /** Give a scalar argument of a launch another value from the next run on. Absent: scalars are compiled in. */
  setScalar?(launch: number, argument: number, value: Scalar): void;
  dispose(): void;
}

/** What the GPU's compiler made of a kernel. */
export interface KernelInfo {
  /** Per thread. */
  readonly registers: number;
  /** Per block, fixed and dynamic. */
  readonly sharedBytes: number;
  /** Per thread, in memory: registers that were spilled, and arrays whose indices are not constant. */
  readonly localBytes: number;
  /** Blocks that a multiprocessor runs side by side. */
  readonly blocksPerMultiprocessor: number;
  /** Warps that a multiprocessor runs side by side, of the most it can: 0 to 1. */
  readonly occupancy: number;
}

/** What a device holds, in bytes. */
export interface MemoryReport {
  /** In live buffers. */
  readonly used: number;
  /** Taken from the system, live or kept for reuse. */
  readonly reserved: number;
  /** The most that live buffers ever took. */
  readonly peak: number;
  /** How many buffers are live. */
  readonly buffers: number;
  /** The largest holders, by label. */
  readonly holders: readonly { readonly label: string; readonly bytes: number; readonly buffers: number }[];
}

/** Of one thread, or of several. */
export type MemoryKind = typeof ArrayBuffer | typeof SharedArrayBuffer;

/** Memory of the host that a device copies from by itself. */
export interface HostMemory {
  readonly buffer: ArrayBufferLike;
  /** Where in `buffer` it begins. */
  readonly offset: number;
  /** Resolves when what was written from it has been read: it may be overwritten then. Undefined if that is so already. */
  sent(): Promise<void> | undefined;
  dispose(): void;
}

/** What a user is told of a device that is in use. */
export interface DeviceInfo {
  /** As `useDevice` takes it: cpu, sim, cuda, cuda:1… */
  readonly name: string;
  /** One line for people: model, cores, memory, features. */
  readonly description: string;
}

export interface Device extends DeviceInfo {
  readonly target: Target;
  /** @throws OutOfMemoryError saying how much was asked, held, and by what. Contents are undefined. */
  allocate(bytes: number, label: string): DeviceBuffer;
  free(buffer: DeviceBuffer): void;
  /** Copy into a buffer. The source may be reused on return, unless it is in a `HostMemory`. */
  write(buffer: DeviceBuffer, source: Uint8Array, offset?: number): void;
  /** Set all bytes of a buffer to 0. */
  clear(buffer: DeviceBuffer): void;
  /**
   * Memory of the host from which `write` copies without another copy on the way. Absent, or undefined, where there is none.
   */
  openHostMemory?(bytes: number, memory: MemoryKind): HostMemory | undefined;
  /** A copy of a buffer's bytes, once all programs started before have finished. */
  read(buffer: DeviceBuffer, offset?: number, bytes?: number): Promise<Uint8Array>;
  /** A buffer's bytes as they are now, to look at on the spot. Absent where that would mean to wait for the device. */
  peek?(buffer: DeviceBuffer): Uint8Array | undefined;
  copy(from: DeviceBuffer, to: DeviceBuffer, bytes: number): void;
  /** Where a buffer is, to map it into other processes. Absent where it cannot be. */
  addressOf?(buffer: DeviceBuffer): number;
  compile(launches: readonly Launch[]): Program;
  /** Say that about so many kernels are going to be compiled: what compiles them may start. */
  expect?(kernels: number): void;
  /**
   * Begin to compile what these launches need, and return at once: a later `compile` is done sooner.
   * @returns whether all of it is there already
   */
  prepare?(launches: readonly Launch[]): boolean;
  /** A queue besides the device's own. On devices that run work at once, all queues are one. */
  openStream(): Stream;
  /** Resolves once everything started before has finished, on all streams. */
  synchronize(): Promise<void>;
  /** How long the device takes for what `work` starts, in µs: by events on a GPU, by the clock elsewhere. */
  time(work: () => void): Promise<number>;
  /** As `time`, waiting on the spot: to choose between kernels while a program is compiled. Absent: none are timed. */
  timeSync?(work: () => void): number;
  /** What became of a kernel. Absent: the device has no such figures. */
  inspect?(kernel: KernelIr, block: Dim3, sharedBytes?: number): KernelInfo;
  memory(): MemoryReport;
  /** Stop workers and give everything back. */
  close(): Promise<void>;
}

/** A point in a stream: it has happened once everything queued there before it is done. */
export interface StreamEvent {
  /** The device of its stream. */
  readonly device: DeviceInfo;
  /** Whether it has happened by now. */
  readonly happened: boolean;
  /** Resolves when it has happened. @throws KernelError, DeviceError for what failed before it */
  synchronize(): Promise<void>;
  /** Device time from an earlier event to this one, in µs. Waits for both. */
  since(earlier: StreamEvent): Promise<number>;
}

/** Work that runs in the order in which it is queued, concurrently with that of other streams. */
export interface Stream {
  /** The device that the work runs on. */
  readonly device: DeviceInfo;
  /** An event that happens once everything queued so far is done. */
  record(): StreamEvent;
  /** What is queued from now on starts after the event. @throws DeviceError if it is of another device */
  wait(event: StreamEvent): void;
  /** Resolves once everything queued so far is done. */
  synchronize(): Promise<void>;
  /** Give the stream back. What is queued on it still runs. */
  dispose(): void;
  [Symbol.dispose](): void;
}
