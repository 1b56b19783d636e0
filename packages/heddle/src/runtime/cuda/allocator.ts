/** Device memory that is kept for reuse: a training step asks for the same sizes again and again. */
import { env } from '../../core/env.js';
import { OutOfMemoryError } from '../../core/errors.js';
import type { MemoryReport } from '../device.js';
import { formatBytes, Ledger, sizeClass } from '../pool.js';
import { CUDA_ERROR, type Driver } from './driver.js';

/**
 * Freed blocks by their size class, the last freed first. All work on a device is in the order of one stream, so a
 * block may be given away again while kernels that were started before still use it.
 */
export class CudaAllocator {
  private readonly driver: Driver;
  private readonly ledger = new Ledger();
  private readonly free = new Map<number, number[]>();
  private readonly cap = env('HEDDLE_CUDA_MEMORY_MB') * 2 ** 20;
  private reserved = 0;
  private readonly where: string;

  /** @param where the device's name, for messages */
  constructor(driver: Driver, where: string) {
    this.driver = driver;
    this.where = where;
  }

  /** An address that is a multiple of 256. @throws OutOfMemoryError */
  allocate(bytes: number, label: string): number {
    const size = sizeClass(bytes);
    const address = this.free.get(size)?.pop() ?? this.take(size);
    if (address === undefined) throw this.exhausted(bytes, label);
    this.ledger.hold(label, size);
    return address;
  }

  release(address: number, bytes: number, label: string): void {
    const size = sizeClass(bytes);
    const blocks = this.free.get(size);
    if (blocks) blocks.push(address);
    else this.free.set(size, [address]);
    this.ledger.release(label, size);
  }

  /** Give blocks that nobody holds back to the driver, which waits for the device first. */
  trim(): void {
    for (const [size, blocks] of this.free) {
      for (const address of blocks.splice(0)) {
        this.driver.api.cuMemFree_v2(address);
        this.reserved -= size;
      }
    }
  }

  report(): MemoryReport {
    return this.ledger.report(this.reserved);
  }

  private take(size: number): number | undefined {
    const address = this.tryTake(size);
    if (address !== undefined) return address;
    this.trim();
    return this.tryTake(size);
  }

  private tryTake(size: number): number | undefined {
    if (this.cap > 0 && this.reserved + size > this.cap) return undefined;
    let status = 0;
    const address = this.driver.handle((at) => {
      status = this.driver.raw.cuMemAlloc_v2(at, size);
    });
    if (status === CUDA_ERROR.outOfMemory) return undefined;
    if (status !== 0) throw this.driver.error('cuMemAlloc_v2', status);
    this.reserved += size;
    return address;
  }

  private exhausted(bytes: number, label: string): OutOfMemoryError {
    const limit =
      this.cap > 0
        ? `of the ${formatBytes(this.cap)} that HEDDLE_CUDA_MEMORY_MB allows`
        : `and the GPU has ${formatBytes(this.available())} left`;
    return new OutOfMemoryError(
      `${this.where} cannot get ${formatBytes(bytes)} for '${label}': ${formatBytes(this.ledger.used)} are held ${limit}; ` +
        `${this.ledger.describe()}. Use smaller batches, or dispose of tensors that are no longer needed.`,
    );
  }

  private available(): number {
    return this.driver.handle((at) => this.driver.api.cuMemGetInfo_v2(at, at + 8));
  }
}
