import { type DType, f32 } from 'heddle/internal/core/dtype.js';
import { ArgumentError } from 'heddle/internal/core/errors.js';
import { PhiloxStream } from 'heddle/internal/core/philox.js';
import { timeProgram } from 'heddle/internal/engine/profile.js';
import { encode } from 'heddle/internal/engine/realize.js';
import { currentDevice } from 'heddle/internal/engine/storage.js';
import type { Device, DeviceBuffer, KernelLaunch } from 'heddle/internal/runtime/device.js';
import type { DevicePeers } from './peers.js';

export interface LadderOptions {
  /** Of square matrices, or channels. */
  readonly sizes?: readonly number[];
  /** Rungs, or their first words. Default: all. */
  readonly only?: readonly string[];
  readonly peers?: DevicePeers;
  /** The options as they were given, for the record. */
  readonly given?: string;
  readonly onProgress?: (what: string) => void;
  readonly signal?: AbortSignal;
}

/**
 * Whether a rung is among those asked for.
 * @throws ArgumentError, when it is made, for a name that no rung has
 */
export function chosenRungs(
  rungs: readonly string[],
  only: readonly string[] | undefined,
): (rung: string) => boolean {
  const means = (name: string, rung: string): boolean =>
    rung === name || (/^[ ,]/.test(rung.slice(name.length)) && rung.startsWith(name));
  const stray = only?.find((name) => !rungs.some((rung) => means(name, rung)));
  if (stray !== undefined)
    throw new ArgumentError(`no rung is called '${stray}'. Expected one of: ${rungs.join(' · ')}.`);
  return (rung) => !only || only.some((name) => means(name, rung));
}

/** The current device. @throws ArgumentError unless it is a GPU, or the simulator of one */
export function gpuOfLadder(elsewhere: string): Device {
  const device = currentDevice();
  if (device.target.model === 'threads') return device;
  throw new ArgumentError(`the ladder is for GPUs, ${device.name} is none. ${elsewhere}`);
}

/** Device time of a launch on these buffers, its arguments, in µs: a sample a round. */
export async function timeLaunch(
  device: Device,
  launch: Omit<KernelLaunch, 'args'>,
  buffers: readonly DeviceBuffer[],
): Promise<number[]> {
  const args = buffers.map((_, slot) => ({ slot, offset: 0 }));
  const program = device.compile([{ ...launch, args }]);
  try {
    return await timeProgram(device, program, buffers);
  } finally {
    program.dispose();
  }
}

/** Square matrices with random values. */
export function matrices(
  device: Device,
  size: number,
  names: readonly string[],
  dtype: DType = f32,
): DeviceBuffer[] {
  const random = new PhiloxStream(1);
  const row = encode(
    Float32Array.from({ length: size }, () => 2 * random.uniform() - 1),
    dtype,
  );
  // Each row is the last, moved by one element: other numbers than those around it.
  const bytes = new Uint8Array(size * row.length);
  for (let i = 0; i < size; i++) {
    const moved = i * dtype.bytes;
    bytes.set(row.subarray(moved), i * row.length);
    bytes.set(row.subarray(0, moved), (i + 1) * row.length - moved);
  }
  return names.map((name) => {
    const buffer = device.allocate(bytes.length, name);
    device.write(buffer, bytes);
    return buffer;
  });
}
