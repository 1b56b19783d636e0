/** The devices there are, and the one to use. Importing this does no work; a device starts when it is opened. */
import { DEVICES } from '#runtime/devices.js';
import { env, requireFlags, unknownFlags } from '../core/env.js';
import { DeviceError } from '../core/errors.js';
import { once } from '../core/log.js';
import { during } from '../core/phases.js';
import type { Device } from './device.js';
import type { DeviceStatus } from './device-entry.js';
import { cacheFolder } from './disk-cache.js';

const opened = new Map<string, Device>();

/** All devices Heddle knows, fastest first, and whether they can be used here. Starts none of them. */
export function listDevices(): DeviceStatus[] {
  return Object.entries(DEVICES).map(([name, { probe }]) => ({ name, ...probe() }));
}

/** How many of a kind can be used here. Starts none of them. */
export function countDevices(kind: string): number {
  const entry = DEVICES[kind];
  return entry?.probe().available ? (entry.count?.() ?? 1) : 0;
}

/**
 * The device of that name, or of HEDDLE_DEVICE, or the fastest that starts. Opened once per process.
 * @throws DeviceError if there is none of that name, or it is not available here · ArgumentError if an environment
 *   variable of Heddle's is malformed · FileError if HEDDLE_CACHE cannot be made
 */
export function openDevice(name?: string): Device {
  if (opened.size === 0) {
    requireFlags();
    cacheFolder();
    for (const { name, hint } of unknownFlags()) once(`${name} is not a variable that Heddle reads. ${hint}`);
  }
  if (name !== undefined) return openNamed(name);
  const asked = env('HEDDLE_DEVICE');
  return asked === '' ? openFastest() : openNamed(asked, 'HEDDLE_DEVICE');
}

function openFastest(): Device {
  const names = Object.entries(DEVICES).flatMap(([name, { probe, onlyByName }]) =>
    !onlyByName && (opened.has(name) || probe().available) ? [name] : [],
  );
  for (const name of names.slice(0, -1)) {
    try {
      return openNamed(name);
    } catch (error) {
      if (!(error instanceof DeviceError)) throw error;
      once(`device ${name} does not start, the next one is used: ${error.message}`);
    }
  }
  return openNamed(names.at(-1)!);
}

/** @param variable that holds the name, for errors */
function openNamed(name: string, variable?: string): Device {
  const [, kind = '', number = '0'] = /^([a-z]+)(?::(\d+))?$/.exec(name) ?? [];
  const entry = DEVICES[kind];
  const ordinal = Number(number);
  if (!entry || (ordinal > 0 && !entry.count)) {
    const names = Object.keys(DEVICES);
    throw new DeviceError(
      `${variable ? `${variable}=${name}: ` : ''}'${name}' is not a device. Expected one of: ${names.join(', ')} ` +
        '(cuda:1 is the second GPU). Without a name the fastest is used.',
    );
  }
  const full = ordinal === 0 ? kind : `${kind}:${ordinal}`;
  const known = opened.get(full);
  if (known) return known;
  const which = variable ? `${variable}=${name}: this device` : `Device '${name}'`;
  const { available, reason, hint } = entry.probe();
  if (!available) throw new DeviceError(`${which} is not available: ${reason}. ${hint}`);
  const count = entry.count?.() ?? 1;
  if (ordinal >= count)
    throw new DeviceError(`${which} is not available: there are ${count}, numbered from 0.`);
  const device = during('open', () => entry.open(ordinal));
  opened.set(full, device);
  return device;
}

/** Close all devices that are open. */
export async function closeDevices(): Promise<void> {
  const all = [...opened.values()];
  opened.clear();
  await Promise.all(all.map((d) => d.close()));
}
