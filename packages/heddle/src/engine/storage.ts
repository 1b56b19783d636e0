/** Device memory of tensors. It is freed when its storage is garbage, or at once by `release`. */
import { collectGarbage, turn } from '#platform/engine.js';
import { env } from '../core/env.js';
import { DeviceError, InternalError, OutOfMemoryError } from '../core/errors.js';
import type { Storage } from '../graph/node.js';
import type { Device, DeviceBuffer } from '../runtime/device.js';
import { countDevices, openDevice } from '../runtime/registry.js';

let chosen: Device | undefined;

/** The device that tensors live on: the one set by `useDevice`, else HEDDLE_DEVICE, else the fastest there is. */
export function currentDevice(): Device {
  chosen ??= openDevice();
  return chosen;
}

/**
 * Of several processes of a host that use GPUs each has its own, unless which one has been said: by HEDDLE_DEVICE, by
 * `useDevice`, or by whoever has started the process and shows it one GPU only.
 * @throws DeviceError if there are more processes than GPUs
 */
export function useDeviceOfRank(localRank: number, processes: number): void {
  if (chosen || processes === 1) return;
  const asked = env('HEDDLE_DEVICE');
  if (asked !== '' && asked !== 'cuda') return;
  const gpus = countDevices('cuda');
  if (gpus < 2) return;
  if (localRank >= gpus)
    throw new DeviceError(
      `There are ${processes} processes on this host, but ${gpus} GPUs: each needs one. Start fewer, or set HEDDLE_DEVICE=cpu.`,
    );
  useDevice(`cuda:${localRank}`);
}

/** Make `name` the device of all tensors made from now on. @throws DeviceError if there is none of that name */
export function useDevice(name: string): Device {
  chosen = openDevice(name);
  return chosen;
}

/** @throws DeviceError unless all of these are memory of `device` */
export function requireOn(device: Device, buffers: readonly DeviceBuffer[]): void {
  for (const { device: other } of buffers)
    if (other !== device)
      throw new DeviceError(
        `A tensor on ${other.name} cannot be used on ${device.name}. Make all tensors of a computation after one useDevice('${device.name}').`,
      );
}

/** Bytes in tensors' storages. */
let live = 0;

const registry = new FinalizationRegistry<DeviceBuffer>((buffer) => {
  live -= buffer.bytes;
  buffer.device.free(buffer);
});

export class BufferStorage implements Storage {
  readonly bytes: number;
  readonly device: Device;
  nodes = 0;
  #buffer: DeviceBuffer | undefined;

  constructor(bytes: number, label: string, device = currentDevice()) {
    if (!Number.isSafeInteger(bytes)) throw new InternalError(`memory of ${bytes} bytes for '${label}'`);
    this.bytes = bytes;
    this.device = device;
    try {
      this.#buffer = device.allocate(Math.max(bytes, 4), label);
    } catch (error) {
      // Whatever has grown since, garbage is looked for at the next wait.
      if (error instanceof OutOfMemoryError) liveAfterCollection = Number.NEGATIVE_INFINITY;
      throw error;
    }
    live += this.#buffer.bytes;
    registry.register(this, this.#buffer, this);
  }

  get buffer(): DeviceBuffer {
    if (!this.#buffer) throw new DeviceError('This tensor has been disposed of: its memory was given back.');
    return this.#buffer;
  }

  get isReleased(): boolean {
    return this.#buffer === undefined;
  }

  release(): void {
    if (!this.#buffer) return;
    registry.unregister(this);
    live -= this.#buffer.bytes;
    this.#buffer.device.free(this.#buffer);
    this.#buffer = undefined;
  }
}

/**
 * Growth of live storage after which a wait for values also collects garbage: the collector does not see it. A GPU that
 * is not kept short has more to spare, and need not stop for a collection because a data set has come; a CPU device that is
 * must not wait until all of it is garbage.
 */
function collectAfter(): number {
  const cuda = chosen?.target.name === 'cuda';
  if (cuda && env('HEDDLE_CUDA_MEMORY_MB') === 0) return 512 * MIB;
  return Math.min(32 * MIB, (env(cuda ? 'HEDDLE_CUDA_MEMORY_MB' : 'HEDDLE_MEMORY_MB') * MIB) / 4);
}
const MIB = 2 ** 20;
let liveAfterCollection = 0;

/** A promise that is already kept lets no timer, signal or finalizer run: real turns are taken this often, in ms. */
const TURN_AFTER = 20;
let lastTurn = performance.now();

/**
 * Called where values are awaited. JavaScript's collector knows nothing of device memory, so tensors that are
 * garbage are looked for when much has been allocated since the last time. Finalizers run as tasks of their own.
 */
export async function reclaim(): Promise<void> {
  liveAfterCollection = Math.min(liveAfterCollection, live);
  const grown = live - liveAfterCollection >= collectAfter();
  if (grown) collectGarbage();
  if (!grown && performance.now() - lastTurn < TURN_AFTER) return;
  await turn();
  lastTurn = performance.now();
  if (grown) liveAfterCollection = live;
}
