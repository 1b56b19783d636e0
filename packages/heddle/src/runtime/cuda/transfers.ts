/** Copies between this process's memory and the device's, through pinned memory, without waiting where possible. */
import type { Driver } from './driver.js';
import { viewNative } from './native.js';
import { type Timeline, UNTIMED } from './timeline.js';

/** Pinned memory and the event after which it is free again. */
interface Staging {
  readonly address: number;
  readonly bytes: Uint8Array;
  readonly event: number;
}

/** The pinned buffers that writes fill in turn. */
interface Slot {
  staging: Staging;
  /** Bytes that are taken. */
  filled: number;
}

/** Sizes of pinned buffers. */
const LEAST = 1 << 20;
const MOST = 8 << 20;
const RING = 3;
/** Pinned buffers kept for reads. */
const IDLE = 16;
/** From here on a write goes beside the programs instead of between them, which takes two events. */
const BESIDE = 32 << 10;
/**
 * A wait looks at its event all the time for so long, as training loops wait between their steps; then once a
 * millisecond, since a long wait need not take a core. It ends about 2 % late at most.
 */
const BUSY_MS = 50;

export class Transfers {
  private readonly driver: Driver;
  private readonly stream: number;
  private readonly timeline: Timeline;
  /** CUstream of large writes. */
  private readonly copies: number;
  private readonly ring: Slot[] = [];
  private current = 0;
  private readonly idle: Staging[] = [];

  /** @param stream what programs run on · @param timeline of that stream */
  constructor(driver: Driver, stream: number, timeline: Timeline, copies: number) {
    this.driver = driver;
    this.stream = stream;
    this.timeline = timeline;
    this.copies = copies;
  }

  /**
   * The source may be reused on return. Programs that are queued later see what is written.
   * @param lastUse the tick of the work that used this memory last
   */
  write(address: number, source: Uint8Array, lastUse: number): void {
    const { api } = this.driver;
    const beside = source.byteLength >= BESIDE;
    const stream = beside ? this.copies : this.stream;
    if (beside) this.timeline.wait(stream, lastUse);
    let last = 0;
    for (let done = 0; done < source.byteLength; ) {
      const bytes = Math.min(source.byteLength - done, MOST);
      const { staging, offset } = this.take(bytes);
      staging.bytes.set(source.subarray(done, done + bytes), offset);
      api.cuMemcpyHtoDAsync_v2(address + done, staging.address + offset, bytes, stream);
      api.cuEventRecord(staging.event, stream);
      last = staging.event;
      done += bytes;
    }
    if (!beside) return;
    api.cuStreamWaitEvent(this.stream, last, 0);
    this.timeline.mark();
  }

  /** A copy of device memory as it is after everything queued before. */
  async read(address: number, bytes: number): Promise<Uint8Array> {
    const { api } = this.driver;
    const parts: { staging: Staging; start: number; bytes: number }[] = [];
    for (let start = 0; start < bytes; start += MOST) {
      const part = {
        staging: this.borrow(Math.min(bytes - start, MOST)),
        start,
        bytes: Math.min(bytes - start, MOST),
      };
      api.cuMemcpyDtoHAsync_v2(part.staging.address, address + start, part.bytes, this.stream);
      api.cuEventRecord(part.staging.event, this.stream);
      parts.push(part);
    }
    const result = new Uint8Array(bytes);
    for (const { staging, start, bytes: length } of parts) {
      await this.reached(staging.event);
      result.set(staging.bytes.subarray(0, length), start);
      if (this.idle.length < IDLE) this.idle.push(staging);
      else this.release(staging);
    }
    return result;
  }

  /** Resolves when the event has happened; other work of the process goes on meanwhile. */
  async reached(event: number): Promise<void> {
    const started = performance.now();
    while (!this.driver.happened(event)) {
      if (performance.now() - started < BUSY_MS) await new Promise((resolve) => setImmediate(resolve));
      else await new Promise((resolve) => setTimeout(resolve, 1));
    }
  }

  close(): void {
    for (const staging of [...this.ring.map((slot) => slot.staging), ...this.idle]) this.release(staging);
    this.ring.length = 0;
    this.idle.length = 0;
  }

  /** Room in the ring. Waits only if all of it is on its way to the device. */
  private take(bytes: number): { staging: Staging; offset: number } {
    const slot = this.ring[this.current];
    if (slot && slot.filled + bytes <= slot.staging.bytes.byteLength) {
      const offset = slot.filled;
      slot.filled += align(bytes);
      return { staging: slot.staging, offset };
    }
    if (slot) this.current = (this.current + 1) % RING;
    const next = this.ring[this.current];
    if (next) this.driver.api.cuEventSynchronize(next.staging.event);
    let staging = next?.staging;
    if (!staging || staging.bytes.byteLength < bytes) {
      if (staging) this.release(staging);
      staging = this.allocate(bytes);
    }
    this.ring[this.current] = { staging, filled: align(bytes) };
    return { staging, offset: 0 };
  }

  private borrow(bytes: number): Staging {
    const found = this.idle.findIndex((s) => s.bytes.byteLength >= bytes);
    return found >= 0 ? this.idle.splice(found, 1)[0]! : this.allocate(bytes);
  }

  private allocate(bytes: number): Staging {
    const { api } = this.driver;
    const size = Math.max(LEAST, 2 ** Math.ceil(Math.log2(bytes)));
    const address = this.driver.handle((at) => api.cuMemHostAlloc(at, size, 0));
    const event = this.driver.handle((at) => api.cuEventCreate(at, UNTIMED));
    return { address, bytes: viewNative(address, size), event };
  }

  private release({ address, event }: Staging): void {
    this.driver.api.cuMemFreeHost(address);
    this.driver.api.cuEventDestroy_v2(event);
  }
}

const align = (bytes: number): number => Math.ceil(bytes / 64) * 64;
