/** The devices there are, and the one to use. Importing this does no work; a device starts when it is opened. */
import { env } from '../core/env.js';
import { DeviceError } from '../core/errors.js';
import { CpuDevice } from './cpu/device.js';
import type { Device } from './device.js';
import { SimDevice } from './sim/device.js';

export interface DeviceInfo {
  readonly name: string;
  readonly available: boolean;
  /** Why it is, or is not, available. */
  readonly reason: string;
  /** How to get it, where it is not. */
  readonly hint: string;
}

interface Entry {
  readonly open: () => Device;
  readonly probe: () => Omit<DeviceInfo, 'name'>;
}

/** Fastest first; the simulator, which is for finding faults, is only taken by name. */
const DEVICES: Readonly<Record<string, Entry>> = {
  cpu: {
    open: () => new CpuDevice(),
    probe: () => ({ available: true, reason: 'WebAssembly SIMD and worker threads', hint: '' }),
  },
  sim: {
    open: () => new SimDevice(),
    probe: () => ({ available: true, reason: 'checks every access; slow', hint: '' }),
  },
};

const opened = new Map<string, Device>();

/** All devices Heddle knows, fastest first. */
export function listDevices(): DeviceInfo[] {
  return Object.entries(DEVICES).map(([name, { probe }]) => ({ name, ...probe() }));
}

/**
 * The device of that name, or of the environment variable DEV, or the fastest found. Opened once per process.
 * @throws DeviceError if there is none of that name, or it is not available here
 */
export function openDevice(name: string = env('DEV')): Device {
  const devices = listDevices();
  const chosen = name || devices.find((d) => d.available)!.name;
  const known = opened.get(chosen);
  if (known) return known;
  const info = devices.find((d) => d.name === chosen);
  if (!info) {
    throw new DeviceError(
      `There is no device "${chosen}". There are: ${devices.map((d) => d.name).join(', ')}. ` +
        'Set DEV, or leave it out for the fastest.',
    );
  }
  if (!info.available)
    throw new DeviceError(`Device "${chosen}" is not available: ${info.reason}. ${info.hint}`);
  const device = DEVICES[chosen]!.open();
  opened.set(chosen, device);
  return device;
}

/** Close all devices that are open. */
export async function closeDevices(): Promise<void> {
  const all = [...opened.values()];
  opened.clear();
  await Promise.all(all.map((d) => d.close()));
}
