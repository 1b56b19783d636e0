/** The CPU device: WebAssembly SIMD on memory shared with worker threads. */
import { parallelism, processorModel } from '#platform/engine.js';
import { env } from '../../core/env.js';
import { DeviceError } from '../../core/errors.js';
import { debug } from '../../core/log.js';
import { H200, type Target } from '../../kernel/ir/target.js';
import type { Device, DeviceBuffer, Launch, MemoryReport, Program, Stream } from '../device.js';
import { hostRoutines } from '../host-routines.js';
import { requireRange } from '../pool.js';
import { ImmediateStream } from '../stream.js';
import { prepareEngine } from './engine.js';
import { CpuMemory } from './memory.js';
import { MixedProgram } from './mixed-program.js';
import { CpuProgram, type ProgramHost } from './program.js';
import { Workers } from './workers.js';

interface CpuBuffer extends DeviceBuffer {
  /** Where it is; 0 once freed. */
  address: number;
}

const SCRATCH_LABEL = 'scratch memory of threads';

/** Programs run to their end in `run`, on the calling thread and the workers. */
export class CpuDevice implements Device, ProgramHost {
  readonly name = 'cpu';
  readonly description: string;
  readonly target: Target;
  readonly heap: CpuMemory;
  readonly workers: Workers;
  #closed = false;
  #scratchAddress = 0;
  #scratchBytes = 0;

  /** @param most threads, at most as many as the machine and HEDDLE_THREADS say */
  constructor(most = Number.POSITIVE_INFINITY) {
    const { fma } = prepareEngine();
    const threads = Math.min(most, env('HEDDLE_THREADS') || parallelism());
    this.heap = new CpuMemory();
    this.workers = new Workers(this.heap.memory, threads);
    this.target = {
      name: 'cpu',
      model: 'blocks',
      units: threads,
      fma,
      limits: H200.limits,
      capability: 0,
      overlapped: false,
      libraries: hostRoutines,
    };
    const plural = threads === 1 ? '' : 's';
    this.description = `${processorModel()}, ${threads} thread${plural}, WebAssembly SIMD${fma ? ' with FMA' : ''}`;
    debug(1, () => `cpu: ${this.description}`);
  }

  allocate(bytes: number, label: string): DeviceBuffer {
    this.#mustBeOpen();
    const buffer: CpuBuffer = { device: this, bytes, label, address: this.heap.allocate(bytes, label) };
    return buffer;
  }

  free(buffer: DeviceBuffer): void {
    const mine = buffer as CpuBuffer;
    if (mine.address === 0) return;
    this.heap.release(mine.address, mine.bytes, mine.label);
    mine.address = 0;
  }

  write(buffer: DeviceBuffer, source: Uint8Array, offset = 0): void {
    this.heap.bytes.set(source, this.#range(buffer, offset, source.byteLength));
  }

  clear(buffer: DeviceBuffer): void {
    this.peek(buffer).fill(0);
  }

  async read(buffer: DeviceBuffer, offset = 0, bytes = buffer.bytes - offset): Promise<Uint8Array> {
    const start = this.#range(buffer, offset, bytes);
    const copy = new Uint8Array(bytes);
    copy.set(this.heap.bytes.subarray(start, start + bytes));
    return copy;
  }

  peek(buffer: DeviceBuffer): Uint8Array {
    const start = this.addressOf(buffer);
    return this.heap.bytes.subarray(start, start + buffer.bytes);
  }

  copy(from: DeviceBuffer, to: DeviceBuffer, bytes: number): void {
    const start = this.#range(from, 0, bytes);
    this.heap.bytes.copyWithin(this.#range(to, 0, bytes), start, start + bytes);
  }

  compile(launches: readonly Launch[]): Program {
    this.#mustBeOpen();
    return launches.every((launch) => 'kernel' in launch)
      ? new CpuProgram(this, launches)
      : new MixedProgram(this, launches);
  }

  openStream(): Stream {
    return new ImmediateStream(this);
  }

  async synchronize(): Promise<void> {}

  async time(work: () => void): Promise<number> {
    const started = performance.now();
    work();
    return (performance.now() - started) * 1000;
  }

  memory(): MemoryReport {
    return this.heap.report();
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.workers.stop();
  }

  addressOf(buffer: DeviceBuffer): number {
    const { address } = buffer as CpuBuffer;
    if (buffer.device !== this) throw new DeviceError(`[${buffer.label}] is a buffer of another device.`);
    if (address === 0) throw new DeviceError(`[${buffer.label}] has been freed.`);
    return address;
  }

  scratch(bytesPerThread: number): number {
    const bytes = bytesPerThread * this.target.units;
    if (bytes > this.#scratchBytes) {
      if (this.#scratchAddress > 0)
        this.heap.release(this.#scratchAddress, this.#scratchBytes, SCRATCH_LABEL);
      // Nothing is held if there is no memory for more.
      this.#scratchAddress = 0;
      this.#scratchBytes = 0;
      this.#scratchAddress = this.heap.allocate(bytes, SCRATCH_LABEL);
      this.#scratchBytes = bytes;
    }
    return this.#scratchAddress;
  }

  #mustBeOpen(): void {
    if (this.#closed) throw new DeviceError('The CPU device has been closed.');
  }

  /** The address of a range of a buffer. */
  #range(buffer: DeviceBuffer, offset: number, bytes: number): number {
    const address = this.addressOf(buffer);
    requireRange(buffer, offset, bytes);
    return address + offset;
  }
}
