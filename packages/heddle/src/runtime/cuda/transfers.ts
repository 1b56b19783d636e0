/** Copies between this process's memory and the device's, through pinned memory, without waiting where possible. */
import type { Driver } from './driver.js';
import { CUDA_ERROR } from './driver.js';
import { viewNative } from './native.js';

/** CU_EVENT_DISABLE_TIMING */
export const UNTIMED = 2;

/** Pinned memory and the event after which it is free again. */
interface Staging {
  address: number;
  bytes: Uint8Array;
  readonly event: number;
  busy: boolean;
}

/** Pinned bytes per staging buffer at least. */
const LEAST = 1 << 20;
const MOST = 64 << 20;
const RING = 3;

export class Transfers {
  private readonly driver: Driver;
  private readonly stream: number;
  private readonly ring: Staging[] = [];
  private next = 0;
  /** Bytes of the current staging buffer that are taken. */
  private filled = 0;
  private readonly idle: Staging[] = [];

  /** @param stream what copies are in order with */
  constructor(driver: Driver, stream: number) {
    this.driver = driver;
    this.stream = stream;
  }

  /** The source may be reused on return. */
  write(address: number, source: Uint8Array): void {
    for (let done = 0; done < source.byteLength; ) {
      const bytes = Math.min(source.byteLength - done, MOST);
      const { staging, offset } = this.take(bytes);
      staging.bytes.set(source.subarray(done, done + bytes), offset);
      this.driver.api.cuMemcpyHtoDAsync_v2(address + done, staging.address + offset, bytes, this.stream);
      this.driver.api.cuEventRecord(staging.event, this.stream);
      staging.busy = true;
      done += bytes;
    }
  }

  /** A copy of device memory once everything queued before is done. */
  async read(address: number, bytes: number): Promise<Uint8Array> {
    const result = new Uint8Array(bytes);
    for (let done = 0; done < bytes; ) {
      const part = Math.min(bytes - done, MOST);
      const staging = this.borrow(part);
      this.driver.api.cuMemcpyDtoHAsync_v2(staging.address, address + done, part, this.stream);
      this.driver.api.cuEventRecord(staging.event, this.stream);
      await this.reached(staging.event);
      result.set(staging.bytes.subarray(0, part), done);
      this.idle.push(staging);
      done += part;
    }
    return result;
  }

  /** Resolves when the event has happened; other work of the process goes on meanwhile. */
  async reached(event: number): Promise<void> {
    const { raw } = this.driver;
    const started = performance.now();
    for (;;) {
      const status = raw.cuEventQuery(event);
      if (status === 0) return;
      if (status !== CUDA_ERROR.notReady) throw this.driver.error('cuEventQuery', status);
      // Short waits are what a training loop has between its steps; long ones need not take a core.
      if (performance.now() - started < 5) await new Promise((resolve) => setImmediate(resolve));
      else await new Promise((resolve) => setTimeout(resolve, 1));
    }
  }

  close(): void {
    const { api } = this.driver;
    for (const { address, event } of [...this.ring, ...this.idle]) {
      api.cuMemFreeHost(address);
      api.cuEventDestroy_v2(event);
    }
    this.ring.length = 0;
    this.idle.length = 0;
  }

  /** Room in the ring. Waits only if all of it is on its way to the device. */
  private take(bytes: number): { staging: Staging; offset: number } {
    const current = this.ring[this.next];
    if (current && this.filled + bytes <= current.bytes.byteLength) {
      const offset = this.filled;
      this.filled += align(bytes);
      return { staging: current, offset };
    }
    if (current) this.next = (this.next + 1) % RING;
    let staging = this.ring[this.next];
    if (staging?.busy) {
      this.driver.api.cuEventSynchronize(staging.event);
      staging.busy = false;
    }
    if (!staging || staging.bytes.byteLength < bytes) {
      if (staging) this.driver.api.cuMemFreeHost(staging.address);
      staging = this.allocate(bytes, staging?.event);
      this.ring[this.next] = staging;
    }
    this.filled = align(bytes);
    return { staging, offset: 0 };
  }

  private borrow(bytes: number): Staging {
    const found = this.idle.findIndex((s) => s.bytes.byteLength >= bytes);
    return found >= 0 ? this.idle.splice(found, 1)[0]! : this.allocate(bytes);
  }

  private allocate(bytes: number, event?: number): Staging {
    const { api } = this.driver;
    const size = Math.max(LEAST, 2 ** Math.ceil(Math.log2(bytes)));
    const address = this.driver.handle((at) => api.cuMemHostAlloc(at, size, 0));
    return {
      address,
      bytes: viewNative(address, size),
      event: event ?? this.driver.handle((at) => api.cuEventCreate(at, UNTIMED)),
      busy: false,
    };
  }
}

const align = (bytes: number): number => Math.ceil(bytes / 64) * 64;
