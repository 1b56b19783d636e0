/** Routines of the host that stand between the kernels of a program, on a device whose memory is the host's. */
import { DeviceError } from '../core/errors.js';
import type { LibraryCall } from '../kernel/ir/library-call.js';

/**
 * Does its work, and returns when it is done.
 * @param memory of the device
 * @param addresses of the launch's buffers there, in the order of its arguments
 */
export type HostRoutine = (call: LibraryCall, memory: Uint8Array, addresses: readonly number[]) => void;

const routines = new Map<string, HostRoutine>();
const names = new Set<string>();

/** The names of those that there are by now: `Target.libraries` of the CPU device. */
export const hostRoutines: ReadonlySet<string> = names;

/** Programs that are compiled from now on may call it. One of that name is replaced. */
export function registerHostRoutine(name: string, routine: HostRoutine): void {
  routines.set(name, routine);
  names.add(name);
}

/** @throws DeviceError if there is none of that name */
export function hostRoutine({ name }: LibraryCall): HostRoutine {
  const routine = routines.get(name);
  if (routine) return routine;
  throw new DeviceError(`[${name}] the CPU device has no such routine.`);
}
