/** Copies between this process's memory and the device's, through pinned memory, without waiting where possible. */
import type { Driver } from '../driver/driver.js';
import { NON_BLOCKING } from '../driver/stream.js';
import type { Timeline } from '../driver/timeline.js';
import { happens } from '../driver/wait.js';
import type { CudaAllocator } from './allocator.js';
import type { PinnedMemory } from './host-memory.js';
import { Landing, LEAST } from './landing.js';
import { closeStaging, MOST, openStaging, type Staging, StagingRing } from './staging.js';

/** Pinned buffers kept for reads. */
const IDLE = 16;
/** From this size on a write overlaps with programs instead of waiting between them, which takes some events. */
const BESIDE = 32 << 10;

export class Transfers {
  readonly #driver: Driver;
  readonly #stream: number;
  readonly #timeline: Timeline;
  /** CUstream of large writes. */
  readonly #copies: number;
  /** Writes between programs, and writes that overlap with them. */
  readonly #between: StagingRing;
  readonly #beside: StagingRing;
  /** Of writes up to the size of a place, such as labels, and of larger ones, which would have them wait for their turns. */
  readonly #small: Landing;
  readonly #large: Landing;
  readonly #idle: Staging[] = [];

  /** @param allocator of the device's memory · @param stream what programs run on · @param timeline of that stream */
  constructor(driver: Driver, allocator: CudaAllocator, stream: number, timeline: Timeline) {
    this.#driver = driver;
    this.#stream = stream;
    this.#timeline = timeline;
    this.#copies = driver.handle((at) => driver.api.cuStreamCreate(at, NON_BLOCKING));
    this.#between = new StagingRing(driver, stream);
    this.#beside = new StagingRing(driver, this.#copies);
    this.#small = new Landing(driver, allocator, stream, this.#copies);
    this.#large = new Landing(driver, allocator, stream, this.#copies);
  }

  /**
   * The source may be reused on return. Programs that are queued later see what is written, and those queued earlier do
   * not: a large write to memory that they use lands elsewhere on the device while they run.
   * @param lastUse the tick of the work that used this memory last; 0 if none did
   * @param pinned the memory that the source is in, if the device copies from there: it may be reused after its event
   */
  write(address: number, source: Uint8Array, lastUse: number, pinned?: PinnedMemory): void {
    const sendTo = (ring: StagingRing, to: number): number => {
      if (pinned) return this.#sendPinned(pinned, to, source);
      let last = 0;
      for (let done = 0; done < source.byteLength; done += MOST)
        last = ring.send(to + done, source.subarray(done, done + MOST));
      return last;
    };
    if (source.byteLength < BESIDE && !pinned) {
      sendTo(this.#between, address);
      return;
    }
    const landing = source.byteLength <= LEAST ? this.#small : this.#large;
    const isUsed = lastUse > 0;
    if (isUsed && landing.pass(address, source.byteLength, (place) => sendTo(this.#beside, place))) return;
    this.#timeline.wait(this.#copies, lastUse);
    this.#driver.api.cuStreamWaitEvent(this.#stream, sendTo(this.#beside, address), 0);
    this.#timeline.mark();
  }

  #sendPinned({ address, event }: PinnedMemory, to: number, { byteOffset, byteLength }: Uint8Array): number {
    const { api } = this.#driver;
    api.cuMemcpyHtoDAsync_v2(to, address + byteOffset, byteLength, this.#copies);
    api.cuEventRecord(event, this.#copies);
    return event;
  }

  /** A copy of device memory as it is after everything queued before. */
  async read(address: number, bytes: number): Promise<Uint8Array> {
    const { api } = this.#driver;
    const parts: { staging: Staging; start: number; bytes: number }[] = [];
    for (let start = 0; start < bytes; start += MOST) {
      const part = {
        staging: this.#borrow(Math.min(bytes - start, MOST)),
        start,
        bytes: Math.min(bytes - start, MOST),
      };
      api.cuMemcpyDtoHAsync_v2(part.staging.address, address + start, part.bytes, this.#stream);
      api.cuEventRecord(part.staging.event, this.#stream);
      parts.push(part);
    }
    const result = new Uint8Array(bytes);
    for (const { staging, start, bytes: length } of parts) {
      await happens(this.#driver, staging.event);
      result.set(staging.bytes.subarray(0, length), start);
      if (this.#idle.length < IDLE) this.#idle.push(staging);
      else closeStaging(this.#driver, staging);
    }
    return result;
  }

  /** Give the device memory back that writes land in. @returns whether there was any */
  clear(): boolean {
    const [small, large] = [this.#small.clear(), this.#large.clear()];
    return small || large;
  }

  close(): void {
    this.#between.close();
    this.#beside.close();
    this.clear();
    for (const staging of this.#idle.splice(0)) closeStaging(this.#driver, staging);
    this.#driver.api.cuStreamDestroy_v2(this.#copies);
  }

  #borrow(bytes: number): Staging {
    const found = this.#idle.findIndex((s) => s.bytes.byteLength >= bytes);
    return found >= 0 ? this.#idle.splice(found, 1)[0]! : openStaging(this.#driver, bytes);
  }
}
