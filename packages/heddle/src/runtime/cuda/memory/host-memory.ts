/** Memory of this process that the device copies from by itself: its pages stay where they are. */
import type { HostMemory, MemoryKind } from '../../device.js';
import type { Driver } from '../driver/driver.js';
import { koffi } from '../driver/native.js';
import type { Streams } from '../driver/streams.js';
import { UNTIMED } from '../driver/timeline.js';

const PAGE = 4096;

/** What a copy out of it needs to know. */
export interface PinnedMemory {
  /** Of the first byte of the buffer. */
  readonly address: number;
  /** Where the pages begin that stay. */
  readonly pages: number;
  /** CUevent after the last copy. */
  readonly event: number;
}

export class HostMemories {
  readonly #driver: Driver;
  readonly #streams: Streams;
  /** What is pinned must not be collected. */
  readonly #pinned = new Map<ArrayBufferLike, PinnedMemory>();

  constructor(streams: Streams) {
    this.#driver = streams.driver;
    this.#streams = streams;
  }

  /** Undefined where the system does not let it be pinned. */
  open(bytes: number, memory: MemoryKind): HostMemory | undefined {
    const streams = this.#streams;
    // Whole pages: those of two memories must not be the same.
    const size = Math.ceil(bytes / PAGE) * PAGE;
    const buffer = new memory(size + PAGE);
    const address = Number(koffi().address(new Uint8Array(buffer)));
    const pages = Math.ceil(address / PAGE) * PAGE;
    const { api, raw } = this.#driver;
    // Unchecked: a system may limit how much it lets be pinned.
    if (streams.call(() => raw.cuMemHostRegister_v2(pages, size, 0)) !== 0) return undefined;
    const event = this.#driver.handle((at) => api.cuEventCreate(at, UNTIMED));
    const pinned = { address, pages, event };
    this.#pinned.set(buffer, pinned);
    return {
      ...{ buffer, offset: pages - address },
      sent: () => (streams.call(() => this.#driver.happened(event)) ? undefined : streams.reached(event)),
      dispose: () => {
        if (this.#pinned.delete(buffer)) streams.release(() => this.#unpin(pinned));
      },
    };
  }

  /** Where a source of a copy is pinned, if it is. */
  find(source: Uint8Array): PinnedMemory | undefined {
    return this.#pinned.get(source.buffer);
  }

  close(): void {
    for (const pinned of this.#pinned.values()) this.#unpin(pinned);
    this.#pinned.clear();
  }

  #unpin({ pages, event }: PinnedMemory): void {
    // Unchecked: after a fault nothing succeeds, and the fault is what to tell.
    const { raw } = this.#driver;
    // A copy may still be under way, of a training that was broken off.
    raw.cuEventSynchronize(event);
    raw.cuEventDestroy_v2(event);
    raw.cuMemHostUnregister(pages);
  }
}
