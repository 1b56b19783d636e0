/** Pinned memory that copies to and from the device go through. */
import type { Driver } from '../driver/driver.js';
import { viewNative } from '../driver/native.js';
import { UNTIMED } from '../driver/timeline.js';

/** Pinned memory and the event after which it is free again. */
export interface Staging {
  readonly address: number;
  readonly bytes: Uint8Array;
  readonly event: number;
}

/** Sizes of pinned buffers. */
const LEAST = 1 << 20;
export const MOST = 8 << 20;
/** Buffers that are filled in turn. */
const RING = 3;

export function openStaging(driver: Driver, bytes: number): Staging {
  const { api } = driver;
  const size = Math.max(LEAST, 2 ** Math.ceil(Math.log2(bytes)));
  const address = driver.handle((at) => api.cuMemHostAlloc(at, size, 0));
  const event = driver.handle((at) => api.cuEventCreate(at, UNTIMED));
  return { address, bytes: viewNative(address, size), event };
}

export function closeStaging({ api }: Driver, { address, event }: Staging): void {
  api.cuMemFreeHost(address);
  api.cuEventDestroy_v2(event);
}

/**
 * Room for what is on its way to the device, in buffers that are filled in turn. All of it goes on one stream, so that
 * the event after the last copy out of a buffer stands for those before it.
 */
export class StagingRing {
  /** CUstream */
  readonly stream: number;
  readonly #driver: Driver;
  /** With the bytes that are taken. */
  readonly #slots: { staging: Staging; filled: number }[] = [];
  #current = 0;

  constructor(driver: Driver, stream: number) {
    this.#driver = driver;
    this.stream = stream;
  }

  /**
   * Copy to the device. Waits only if all buffers are on their way. @param source at most `MOST` bytes
   * @returns the event after the copy
   */
  send(address: number, source: Uint8Array): number {
    const { api } = this.#driver;
    const { staging, offset } = this.#take(source.byteLength);
    staging.bytes.set(source, offset);
    api.cuMemcpyHtoDAsync_v2(address, staging.address + offset, source.byteLength, this.stream);
    api.cuEventRecord(staging.event, this.stream);
    return staging.event;
  }

  close(): void {
    for (const { staging } of this.#slots.splice(0)) closeStaging(this.#driver, staging);
  }

  #take(bytes: number): { readonly staging: Staging; readonly offset: number } {
    const slot = this.#slots[this.#current];
    if (slot && slot.filled + bytes <= slot.staging.bytes.byteLength) {
      const offset = slot.filled;
      slot.filled += align(bytes);
      return { staging: slot.staging, offset };
    }
    const next = slot ? (this.#current + 1) % RING : this.#current;
    const old = this.#slots[next]?.staging;
    if (old) this.#driver.api.cuEventSynchronize(old.event);
    const fits = old && old.bytes.byteLength >= bytes;
    const staging = fits ? old : openStaging(this.#driver, bytes);
    this.#slots[next] = { staging, filled: align(bytes) };
    this.#current = next;
    if (old && !fits) closeStaging(this.#driver, old);
    return { staging, offset: 0 };
  }
}

const align = (bytes: number): number => Math.ceil(bytes / 64) * 64;
