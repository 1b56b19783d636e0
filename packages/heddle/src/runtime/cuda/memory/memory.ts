/** The buffers of a device: their memory, and the order of the work that uses them. */
import { DeviceError, OutOfMemoryError } from '../../../core/errors.js';
import type { Device, DeviceBuffer, HostMemory, MemoryKind, MemoryReport } from '../../device.js';
import { requireRange } from '../../pool.js';
import type { CudaContext } from '../driver/context.js';
import type { CudaStream, Uses } from '../driver/stream.js';
import type { Streams } from '../driver/streams.js';
import type { WorkMemory } from '../vendor/routine.js';
import { type Block, CudaAllocator } from './allocator.js';
import { HostMemories } from './host-memory.js';
import { Transfers } from './transfers.js';

interface CudaBuffer extends DeviceBuffer {
  /** 0 once freed. */
  address: number;
  /** Of its block, in bytes. */
  readonly size: number;
  /** The tick of the work that used it last. */
  lastUse: number;
  /** Users' streams that have used it since the device's own waited for them. */
  elsewhere?: Uses | undefined;
}

export class CudaMemory {
  readonly #device: Device;
  readonly #context: CudaContext;
  readonly #streams: Streams;
  readonly #allocator: CudaAllocator;
  readonly #transfers: Transfers;
  readonly #hostMemories: HostMemories;

  constructor(context: CudaContext, streams: Streams) {
    this.#device = streams.device;
    this.#context = context;
    this.#streams = streams;
    this.#allocator = new CudaAllocator(context.driver, context.name);
    this.#transfers = new Transfers(context.driver, this.#allocator, context.stream, streams.timeline);
    this.#hostMemories = new HostMemories(streams);
  }

  allocate(bytes: number, label: string): DeviceBuffer {
    return this.#context.call(() => {
      const block = this.#take(bytes, label);
      const buffer: CudaBuffer = { device: this.#device, bytes, label, ...block };
      return buffer;
    });
  }

  /** Memory that is in no buffer, for a library's routine. */
  allocateWork(bytes: number, label: string): WorkMemory {
    const { address, size } = this.#take(bytes, label);
    const free = (): void =>
      this.#allocator.release({ address, size, lastUse: this.#streams.timeline.now }, label);
    return { address, free };
  }

  /** If need be, writes under way wait between programs instead of landing beside them. @throws OutOfMemoryError */
  #take(bytes: number, label: string): Block {
    try {
      return this.#allocator.allocate(bytes, label);
    } catch (error) {
      if (!(error instanceof OutOfMemoryError && this.#transfers.clear())) throw error;
      return this.#allocator.allocate(bytes, label);
    }
  }

  free(buffer: DeviceBuffer): void {
    const mine = buffer as CudaBuffer;
    if (mine.address === 0 || this.#context.isClosed) return;
    try {
      this.#context.release(() => this.#join(mine));
    } catch {
      // A kernel has failed: the next call that can be answered says so.
    }
    const { address, size, lastUse, label } = mine;
    this.#allocator.release({ address, size, lastUse }, label);
    mine.address = 0;
  }

  write(buffer: DeviceBuffer, source: Uint8Array, offset: number): void {
    const address = this.#range(buffer, offset, source.byteLength);
    const mine = buffer as CudaBuffer;
    this.#join(mine);
    const pinned = this.#hostMemories.find(source);
    this.#context.call(() => this.#transfers.write(address, source, mine.lastUse, pinned));
    mine.lastUse = ++this.#streams.timeline.now;
  }

  clear(buffer: DeviceBuffer): void {
    const { driver, stream } = this.#context;
    this.#context.activate();
    this.#streams.timeline.now++;
    const address = this.use(buffer, undefined);
    this.#context.call(() => driver.api.cuMemsetD8Async(address, 0, buffer.bytes, stream));
  }

  openHostMemory(bytes: number, memory: MemoryKind): HostMemory | undefined {
    return this.#hostMemories.open(bytes, memory);
  }

  async read(buffer: DeviceBuffer, offset: number, bytes: number): Promise<Uint8Array> {
    const address = this.#range(buffer, offset, bytes);
    const mine = buffer as CudaBuffer;
    this.#context.activate();
    this.#join(mine);
    mine.lastUse = ++this.#streams.timeline.now;
    try {
      const result = await this.#transfers.read(address, bytes);
      this.#streams.flush();
      return result;
    } catch (error) {
      throw this.#context.failure(error);
    }
  }

  copy(from: DeviceBuffer, to: DeviceBuffer, bytes: number): void {
    const [source, target] = [this.#range(from, 0, bytes), this.#range(to, 0, bytes)];
    const { driver, stream } = this.#context;
    this.#context.activate();
    this.#streams.timeline.now++;
    this.use(from, undefined);
    this.use(to, undefined);
    this.#context.call(() => driver.api.cuMemcpyDtoDAsync_v2(target, source, bytes, stream));
  }

  /** The address of a buffer that work is about to use, on a user's stream if one is given. */
  use(buffer: DeviceBuffer, stream: CudaStream | undefined): number {
    const address = this.addressOf(buffer);
    const mine = buffer as CudaBuffer;
    if (stream) {
      stream.follow(mine.lastUse);
      mine.elsewhere ??= new Map();
      mine.elsewhere.set(stream, stream.timeline.now);
    } else {
      if (mine.elsewhere) this.#join(mine);
      mine.lastUse = this.#streams.timeline.now;
    }
    return address;
  }

  addressOf(buffer: DeviceBuffer): number {
    const { address } = buffer as CudaBuffer;
    if (buffer.device !== this.#device)
      throw new DeviceError(`[${buffer.label}] is a buffer of another device.`);
    if (address === 0) throw new DeviceError(`[${buffer.label}] has been freed.`);
    return address;
  }

  report(): MemoryReport {
    return this.#allocator.report();
  }

  close(): void {
    this.#hostMemories.close();
    this.#transfers.close();
    this.#allocator.close();
  }

  /** Let the device's own stream wait for what users' streams do with a buffer. */
  #join(buffer: CudaBuffer): void {
    const { elsewhere } = buffer;
    if (!elsewhere) return;
    buffer.elsewhere = undefined;
    buffer.lastUse = ++this.#streams.timeline.now;
    this.#context.call(() => {
      for (const [stream, tick] of elsewhere) stream.join(tick);
    });
  }

  /** The address of a range of a buffer. */
  #range(buffer: DeviceBuffer, offset: number, bytes: number): number {
    const address = this.addressOf(buffer);
    requireRange(buffer, offset, bytes);
    return address + offset;
  }
}
