/** Device memory that is kept for reuse: a training step asks for the same sizes again and again. */
import { env } from '../../../core/env.js';
import { OutOfMemoryError } from '../../../core/errors.js';
import type { MemoryReport } from '../../device.js';
import { formatBytes, Ledger, MEMORY_HINT, sizeClass } from '../../pool.js';
import { CUDA_ERROR, type Driver } from '../driver/driver.js';

/** What addresses are multiples of: a line of the cache, twice. */
const ALIGNMENT = 256;

export interface Block {
  readonly address: number;
  /** In bytes. */
  readonly size: number;
  /** The tick of the work that used it last (timeline.ts); 0 if none did. */
  readonly lastUse: number;
}

/** Blocks up to this size are cut from slabs: the driver takes long for one, however small. */
const SMALL = 64 << 10;
const SLAB = 1 << 20;

/** The driver's pages: large blocks are of whole ones. */
const PAGE = 2 << 20;

/** A freed block of large size serves what it is at most this many times as large as. */
const SLACK = 1.25;

/**
 * Freed blocks by their size, the last freed first. All work on a device is in the order of one stream, so a
 * block may be given away again while kernels that were started before still use it.
 */
export class CudaAllocator {
  readonly #driver: Driver;
  readonly #ledger = new Ledger();
  readonly #free = new Map<number, Block[]>();
  readonly #cap = env('HEDDLE_CUDA_MEMORY_MB') * 2 ** 20;
  readonly #slabs: number[] = [];
  /** Every buffer has its own memory, of just its size: so compute-sanitizer sees who leaves it. */
  readonly #exact = env('HEDDLE_CUDA_SYNC') === 1;
  #reserved = 0;
  readonly #where: string;

  /** @param where the device's name, for messages */
  constructor(driver: Driver, where: string) {
    this.#driver = driver;
    this.#where = where;
  }

  /** Its address is a multiple of 256. @throws OutOfMemoryError */
  allocate(bytes: number, label: string): Block {
    const size = this.#sizeOf(bytes);
    const block = this.#exact ? this.#reserve(size) : (this.#reuse(size) ?? this.#take(size));
    if (!block) throw this.#exhausted(bytes, label);
    this.#ledger.hold(label, block.size);
    return block;
  }

  release(block: Block, label: string): void {
    const { address, size } = block;
    const blocks = this.#free.get(size);
    if (this.#exact) {
      // Unchecked: it says of a kernel's fault, and so does the next call that somebody waits for.
      this.#driver.raw.cuMemFree_v2(address);
      this.#reserved -= size;
    } else if (blocks) blocks.push(block);
    else this.#free.set(size, [block]);
    this.#ledger.release(label, size);
  }

  #sizeOf(bytes: number): number {
    if (this.#exact) return Math.max(bytes, 4);
    return bytes < 4 * PAGE ? sizeClass(bytes) : Math.ceil(bytes / PAGE) * PAGE;
  }

  /** A freed block of this size, or for a large one the smallest that is hardly larger. */
  #reuse(size: number): Block | undefined {
    const same = this.#free.get(size)?.pop();
    if (same || size < 4 * PAGE) return same;
    let best = size * SLACK;
    for (const [each, blocks] of this.#free)
      if (blocks.length > 0 && each >= size) best = Math.min(best, each);
    return this.#free.get(best)?.pop();
  }

  /** Give large blocks that nobody holds back to the driver, which waits for the device first. */
  trim(): void {
    for (const [size, blocks] of this.#free) {
      if (size <= SMALL) continue;
      for (const { address } of blocks.splice(0)) this.giveBack(address, size);
    }
  }

  /** Give everything back that is in no buffer. */
  close(): void {
    this.trim();
    for (const address of this.#slabs.splice(0)) this.#driver.api.cuMemFree_v2(address);
    this.#free.clear();
  }

  report(): MemoryReport {
    return this.#ledger.report(this.#reserved);
  }

  #take(size: number): Block | undefined {
    if (size > SMALL) return this.#reserve(size);
    const slab = this.#reserve(SLAB);
    if (!slab) return undefined;
    this.#slabs.push(slab.address);
    const step = Math.ceil(size / ALIGNMENT) * ALIGNMENT;
    const blocks: Block[] = [];
    for (let at = SLAB - step; at >= 0; at -= step)
      blocks.push({ address: slab.address + at, size, lastUse: 0 });
    const first = blocks.pop();
    this.#free.set(size, blocks);
    return first;
  }

  /** The address of memory in no buffer, of just this size, until `giveBack`; undefined if there is none left. */
  reserve(size: number): number | undefined {
    return this.#tryReserve(size)?.address;
  }

  /** To the driver, which waits until nothing uses it. */
  giveBack(address: number, size: number): void {
    this.#driver.api.cuMemFree_v2(address);
    this.#reserved -= size;
  }

  /** From the driver, if need be after giving back what nobody holds. */
  #reserve(size: number): Block | undefined {
    const block = this.#tryReserve(size);
    if (block) return block;
    this.trim();
    return this.#tryReserve(size);
  }

  #tryReserve(size: number): Block | undefined {
    if (this.#cap > 0 && this.#reserved + size > this.#cap) return undefined;
    let status = 0;
    const address = this.#driver.handle((at) => {
      status = this.#driver.raw.cuMemAlloc_v2(at, size);
    });
    if (status === CUDA_ERROR.outOfMemory) return undefined;
    if (status !== 0) throw this.#driver.error('cuMemAlloc_v2', status);
    this.#reserved += size;
    return { address, size, lastUse: 0 };
  }

  #exhausted(bytes: number, label: string): OutOfMemoryError {
    const limit =
      this.#cap > 0
        ? `of the ${formatBytes(this.#cap)} that HEDDLE_CUDA_MEMORY_MB allows`
        : `and the GPU has ${formatBytes(this.#available())} left`;
    return new OutOfMemoryError(
      `${this.#where} cannot get ${formatBytes(bytes)} for '${label}': ${formatBytes(this.#ledger.used)} are held ${limit}; ` +
        `${this.#ledger.describe()}. ${MEMORY_HINT}`,
    );
  }

  #available(): number {
    return this.#driver.handle((at) => this.#driver.api.cuMemGetInfo_v2(at, at + 8));
  }
}
