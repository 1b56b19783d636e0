/** The contract between the engine and a device. A device runs programs; it knows no tensors. */
import type { KernelIr } from '../kernel/ir.js';
import type { Scalar } from '../kernel/ops.js';
import type { Target } from '../kernel/target.js';

export type Dim3 = readonly [number, number, number];

/** Device memory. Opaque: only its device looks inside. */
export interface DeviceBuffer {
  readonly device: Device;
  readonly bytes: number;
  readonly label: string;
}

/** An argument of a launch, in the order of the kernel's parameters. */
export type LaunchArgument =
  /** A buffer: which of those given to `run`, and how many bytes into it. */
  | { readonly slot: number; readonly offset: number }
  /** A scalar, fixed when the program is compiled. */
  | { readonly value: Scalar };

export interface Launch {
  readonly kernel: KernelIr;
  readonly grid: Dim3;
  readonly block: Dim3;
  readonly args: readonly LaunchArgument[];
  /** Bytes of the dynamic shared array, if the kernel has one. */
  readonly sharedBytes?: number;
  /** Needs nothing from the launches since the last one that is not independent: may run beside them. */
  readonly independent: boolean;
}

/** Launches compiled together; run as often as wanted, with other buffers each time. */
export interface Program {
  readonly launches: readonly Launch[];
  /** Run all launches in order. Returns when they are done or queued; later reads see their results. */
  run(slots: readonly DeviceBuffer[]): void;
  dispose(): void;
}

/** What a device holds, in bytes. */
export interface MemoryReport {
  /** In live buffers. */
  readonly used: number;
  /** Taken from the system, live or kept for reuse. */
  readonly reserved: number;
  readonly peak: number;
  readonly buffers: number;
  /** The largest holders, by label. */
  readonly holders: readonly { readonly label: string; readonly bytes: number; readonly buffers: number }[];
}

export interface Device {
  /** cpu, sim, cuda… */
  readonly name: string;
  /** One line for people: model, cores, memory, features. */
  readonly description: string;
  readonly target: Target;
  /** @throws OutOfMemoryError saying how much was asked, held, and by what. Contents are undefined. */
  allocate(bytes: number, label: string): DeviceBuffer;
  free(buffer: DeviceBuffer): void;
  /** Copy into a buffer. The source may be reused on return. */
  write(buffer: DeviceBuffer, source: Uint8Array, offset?: number): void;
  /** A copy of a buffer's bytes, once all programs started before have finished. */
  read(buffer: DeviceBuffer, offset?: number, bytes?: number): Promise<Uint8Array>;
  copy(from: DeviceBuffer, to: DeviceBuffer, bytes: number): void;
  compile(launches: readonly Launch[]): Program;
  /** Resolves once everything started before has finished. */
  synchronize(): Promise<void>;
  memory(): MemoryReport;
  /** Stop workers and give everything back. */
  close(): Promise<void>;
}
