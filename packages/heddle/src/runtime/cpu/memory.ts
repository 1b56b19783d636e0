/** The CPU device's memory: one WebAssembly memory that grows, with freed buffers kept by size for reuse. */
import { env } from '../../core/env.js';
import { DeviceError, OutOfMemoryError } from '../../core/errors.js';
import { FIRST_BUFFER } from '../../kernel/passes/address.js';
import type { MemoryReport } from '../device.js';
import { formatBytes, Ledger, MEMORY_HINT, sizeClass } from '../pool.js';
import { Memory, type WasmMemory } from './webassembly.js';

const PAGE = 65536;
const MAXIMUM_PAGES = 65536;
/** Vector loads may read past the end of a buffer; after the last one there is this much, in bytes. */
const GUARD = 512;
/** Least growth, in bytes. */
const CHUNK = 16 * 2 ** 20;

export class CpuMemory {
  readonly memory: WasmMemory;
  readonly #limit: number;
  /** End of what has ever been handed out. */
  #top = FIRST_BUFFER;
  readonly #free = new Map<number, number[]>();
  readonly #ledger = new Ledger();
  #view: Uint8Array;

  constructor() {
    this.#limit = env('HEDDLE_MEMORY_MB') * 2 ** 20;
    try {
      this.memory = new Memory({ initial: CHUNK / PAGE, maximum: MAXIMUM_PAGES, shared: true });
    } catch (cause) {
      throw new DeviceError(
        'The CPU device needs 4 GiB of address space for WebAssembly memory and did not get it. ' +
          'Raise the limit on virtual memory (ulimit -v).',
        { cause },
      );
    }
    this.#view = new Uint8Array(this.memory.buffer);
  }

  /** All bytes, as of now. */
  get bytes(): Uint8Array {
    return this.#view;
  }

  /** An address for `bytes` bytes, a multiple of 64. @throws OutOfMemoryError */
  allocate(bytes: number, label: string): number {
    const size = sizeClass(bytes);
    const address = this.#free.get(size)?.pop() ?? this.#extend(size) ?? this.#reclaim(size);
    if (address === undefined) throw this.#exhausted(bytes, label);
    this.#ledger.hold(label, size);
    return address;
  }

  /** @param bytes what was asked for */
  release(address: number, bytes: number, label: string): void {
    const size = sizeClass(bytes);
    this.#ledger.release(label, size);
    this.#keep(address, size);
  }

  report(): MemoryReport {
    return this.#ledger.report(this.#view.byteLength);
  }

  #keep(address: number, size: number): void {
    const list = this.#free.get(size);
    if (list) list.push(address);
    else this.#free.set(size, [address]);
  }

  /** Space that has never been used, growing the memory if need be. */
  #extend(size: number): number | undefined {
    const end = this.#top + size + GUARD;
    if (end > this.#limit) return undefined;
    const have = this.#view.byteLength;
    if (end > have) {
      const wanted = Math.min(this.#limit, Math.max(end, have + CHUNK, have * 1.25));
      if (!this.#grow(wanted - have) && !this.#grow(end - have)) return undefined;
    }
    const address = this.#top;
    this.#top += size;
    return address;
  }

  #grow(bytes: number): boolean {
    try {
      this.memory.grow(Math.ceil(bytes / PAGE));
    } catch {
      return false;
    }
    this.#view = new Uint8Array(this.memory.buffer);
    return true;
  }

  /** Join neighbouring free buffers and take a part of one; the rest stays free. */
  #reclaim(size: number): number | undefined {
    const blocks = [...this.#free].flatMap(([bytes, list]) => list.map((address) => ({ address, bytes })));
    blocks.sort((a, b) => a.address - b.address);
    const joined: { address: number; bytes: number }[] = [];
    for (const block of blocks) {
      const last = joined[joined.length - 1];
      if (last && last.address + last.bytes === block.address) last.bytes += block.bytes;
      else joined.push({ ...block });
    }
    const end = joined[joined.length - 1];
    if (end && end.address + end.bytes === this.#top) {
      this.#top = end.address;
      joined.pop();
    }
    let found: number | undefined;
    this.#free.clear();
    for (const block of joined) {
      let { address, bytes } = block;
      if (found === undefined && bytes >= size) {
        found = address;
        address += size;
        bytes -= size;
      }
      if (bytes > 0) this.#keep(address, bytes);
    }
    return found ?? this.#extend(size);
  }

  #exhausted(bytes: number, label: string): OutOfMemoryError {
    const { used, buffers } = this.#ledger.report(0);
    const free = [...this.#free].reduce((n, [size, list]) => n + size * list.length, this.#limit - this.#top);
    return new OutOfMemoryError(
      `[${label}] asked for ${formatBytes(bytes)}: of ${formatBytes(this.#limit)} on the CPU device, ` +
        `${formatBytes(used)} are held in ${buffers} buffers and ${formatBytes(free)} are free, not in one piece; ` +
        `${this.#ledger.describe()}. ${MEMORY_HINT}` +
        `${this.#limit < MAXIMUM_PAGES * PAGE ? ' Or raise HEDDLE_MEMORY_MB (at most 4096).' : ''}`,
    );
  }
}
