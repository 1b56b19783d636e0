/** The CUDA device: an NVIDIA GPU by its driver. */
import { env } from '../../core/env.js';
import { DeviceError } from '../../core/errors.js';
import { debug } from '../../core/log.js';
import type { KernelIr } from '../../kernel/ir/ir.js';
import type { Target } from '../../kernel/ir/target.js';
import type {
  Device,
  DeviceBuffer,
  Dim3,
  KernelInfo,
  Launch,
  MemoryReport,
  Program,
  Stream,
} from '../device.js';
import { formatBytes, requireRange } from '../pool.js';
import { requireSame } from '../stream.js';
import { Compiler } from './compile/compiler.js';
import { inspectKernel } from './compile/inspect.js';
import { Kernels } from './compile/kernels.js';
import { findNvrtc, NVRTC_HINT, Nvrtc } from './compile/nvrtc.js';
import { ATTRIBUTE, type Driver, formatVersion, limitsOf, openDriver } from './driver/driver.js';
import { NativeMemory } from './driver/native.js';
import { CudaStream, NON_BLOCKING, type StreamHost, type Uses } from './driver/stream.js';
import { Timeline } from './driver/timeline.js';
import { Faults } from './graph/faults.js';
import { type PlannedLaunch, planLaunches } from './graph/plan.js';
import { CudaProgram, type ProgramHost } from './graph/program.js';
import { CudaAllocator } from './memory/allocator.js';
import { Transfers } from './memory/transfers.js';
import { MessageBoard } from './messages.js';
import { ROUTINES } from './vendor/libraries.js';
import type { LibraryContext } from './vendor/routine.js';

interface CudaBuffer extends DeviceBuffer {
  /** 0 once freed. */
  address: number;
  /** The tick of the work that used it last. */
  lastUse: number;
  /** Users' streams that have used it since the device's own waited for them. */
  elsewhere?: Uses | undefined;
}

/** The driver whose graphs have edges that let kernels overlap: CUDA 12.3. */
const EDGE_DATA = 12030;

/** The device whose context is current on this thread. */
let current: CudaDevice | undefined;

export class CudaDevice implements Device, ProgramHost {
  readonly name: string;
  readonly description: string;
  readonly target: Target;
  readonly driver: Driver;
  readonly stream: number;
  readonly overlapped: boolean;
  readonly step = env('HEDDLE_CUDA_SYNC') === 1;
  readonly kernels: Kernels;
  readonly #ordinal: number;
  readonly #context: number;
  readonly #allocator: CudaAllocator;
  readonly #timeline: Timeline;
  readonly #streams = new Set<CudaStream>();
  readonly #copies: number;
  readonly #transfers: Transfers;
  readonly #compiler: Compiler;
  readonly #libraries: LibraryContext;
  readonly #board: MessageBoard;
  readonly #timers: readonly [number, number];
  readonly #faults: Faults;
  #closed = false;

  /** @throws DeviceError if there is no such GPU, or no NVRTC to compile with */
  constructor(ordinal = 0) {
    const driver = openDriver();
    const { api } = driver;
    this.driver = driver;
    this.#ordinal = ordinal;
    this.name = ordinal === 0 ? 'cuda' : `cuda:${ordinal}`;
    const found = findNvrtc(Math.floor(driver.version / 1000));
    if (!found) throw new DeviceError(`No NVRTC was found, which compiles kernels. ${NVRTC_HINT}`);
    const gpu = driver.number((at) => api.cuDeviceGet(at, ordinal));
    const attribute = (which: number): number => driver.attribute(gpu, which);
    const capability = 10 * attribute(ATTRIBUTE.capabilityMajor) + attribute(ATTRIBUTE.capabilityMinor);
    this.#context = driver.handle((at) => api.cuDevicePrimaryCtxRetain(at, gpu));
    this.#faults = new Faults(this.name);
    this.#activate();
    this.stream = driver.handle((at) => api.cuStreamCreate(at, NON_BLOCKING));
    this.#timers = [
      driver.handle((at) => api.cuEventCreate(at, 0)),
      driver.handle((at) => api.cuEventCreate(at, 0)),
    ];
    this.#allocator = new CudaAllocator(driver, this.name);
    this.#timeline = new Timeline(driver, this.stream);
    this.#copies = driver.handle((at) => api.cuStreamCreate(at, NON_BLOCKING));
    this.#transfers = new Transfers(driver, this.stream, this.#timeline, this.#copies);
    this.#libraries = {
      ordinal,
      capability,
      allocate: (bytes, label) => {
        const block = this.#allocator.allocate(bytes, label);
        return {
          address: block.address,
          free: () => this.#allocator.release({ ...block, lastUse: this.#timeline.now }, bytes, label),
        };
      },
    };
    this.target = {
      name: 'cuda',
      model: 'threads',
      units: attribute(ATTRIBUTE.multiprocessors),
      fma: true,
      limits: limitsOf(attribute),
      capability,
      overlapped: capability >= 90 && driver.version >= EDGE_DATA,
      libraries: new Set(Object.keys(ROUTINES).filter((name) => ROUTINES[name]!.available())),
    };
    this.overlapped = this.target.overlapped;
    const nvrtc = new Nvrtc(found.path);
    this.#compiler = new Compiler(nvrtc, capability);
    this.#board = new MessageBoard(driver, this.stream);
    this.kernels = new Kernels(driver, this.#compiler, this.target, this.#board);
    const name = new NativeMemory(256);
    api.cuDeviceGetName(name.address, 256, gpu);
    const memory = driver.handle((at) => api.cuDeviceTotalMem_v2(at, gpu));
    this.description = `${name.text()}, ${this.target.units} multiprocessors, ${formatBytes(memory)}, compute capability ${capability / 10}, driver for CUDA ${formatVersion(driver.version)}, NVRTC ${nvrtc.version}`;
    debug(1, () => `${this.name}: ${this.description}`);
  }

  allocate(bytes: number, label: string): DeviceBuffer {
    this.#activate();
    try {
      const block = this.#allocator.allocate(bytes, label);
      const buffer: CudaBuffer = { device: this, bytes, label, ...block };
      return buffer;
    } catch (error) {
      throw this.failure(error);
    }
  }

  free(buffer: DeviceBuffer): void {
    const mine = buffer as CudaBuffer;
    if (mine.address === 0 || this.#closed) return;
    try {
      this.release(() => this.#join(mine));
    } catch {
      // A kernel has failed: the next call that can be answered says so.
    }
    const { address, lastUse, bytes, label } = mine;
    this.#allocator.release({ address, lastUse }, bytes, label);
    mine.address = 0;
  }

  write(buffer: DeviceBuffer, source: Uint8Array, offset = 0): void {
    const address = this.#range(buffer, offset, source.byteLength);
    this.#activate();
    const mine = buffer as CudaBuffer;
    this.#join(mine);
    this.#queue(() => this.#transfers.write(address, source, mine.lastUse));
    mine.lastUse = ++this.#timeline.now;
  }

  async read(buffer: DeviceBuffer, offset = 0, bytes = buffer.bytes - offset): Promise<Uint8Array> {
    const address = this.#range(buffer, offset, bytes);
    this.#activate();
    this.#join(buffer as CudaBuffer);
    (buffer as CudaBuffer).lastUse = ++this.#timeline.now;
    try {
      const result = await this.#transfers.read(address, bytes);
      this.#flush();
      return result;
    } catch (error) {
      throw this.failure(error);
    }
  }

  copy(from: DeviceBuffer, to: DeviceBuffer, bytes: number): void {
    const [source, target] = [this.#range(from, 0, bytes), this.#range(to, 0, bytes)];
    this.#activate();
    this.#timeline.now++;
    this.use(from, undefined);
    this.use(to, undefined);
    this.#queue(() => this.driver.api.cuMemcpyDtoDAsync_v2(target, source, bytes, this.stream));
  }

  prepare(launches: readonly Launch[]): boolean {
    return this.kernels.begin(launches.filter((l) => 'kernel' in l));
  }

  compile(launches: readonly Launch[]): Program {
    this.#activate();
    try {
      return new CudaProgram(
        this,
        launches,
        planLaunches(launches, this.kernels, this.target, this.#libraries),
      );
    } catch (error) {
      throw this.failure(error);
    }
  }

  openStream(): Stream {
    this.#activate();
    const host: StreamHost = {
      device: this,
      driver: this.driver,
      timeline: this.#timeline,
      call: (work) => {
        this.#activate();
        return this.#queue(work);
      },
      reached: (event) => this.#reached(event),
      release: (work) => this.release(work),
      forget: (gone) => this.#streams.delete(gone),
    };
    const stream = this.#queue(() => new CudaStream(host));
    this.#streams.add(stream);
    return stream;
  }

  async synchronize(): Promise<void> {
    this.#activate();
    const event = this.#timers[1];
    this.#queue(() => {
      this.#joinAll();
      this.driver.api.cuEventRecord(event, this.stream);
    });
    await this.#reached(event);
  }

  async time(work: () => void): Promise<number> {
    this.#activate();
    const { api } = this.driver;
    const [start, end] = [0, 1].map(() => this.driver.handle((at) => api.cuEventCreate(at, 0))) as [
      number,
      number,
    ];
    try {
      // After what was started before, on whatever stream
      this.#joinAll();
      api.cuEventRecord(start, this.stream);
      for (const { handle } of this.#streams) api.cuStreamWaitEvent(handle, start, 0);
      work();
      this.#joinAll();
      api.cuEventRecord(end, this.stream);
      await this.#reached(end);
      return 1000 * this.driver.float((at) => api.cuEventElapsedTime(at, start, end));
    } catch (error) {
      throw this.failure(error);
    } finally {
      // Unchecked: after a fault nothing succeeds, and the fault is what to tell.
      this.driver.raw.cuEventDestroy_v2(start);
      this.driver.raw.cuEventDestroy_v2(end);
    }
  }

  timeSync(work: () => void): number {
    this.#activate();
    const { api } = this.driver;
    const [start, end] = this.#timers;
    try {
      api.cuEventRecord(start, this.stream);
      work();
      api.cuEventRecord(end, this.stream);
      api.cuEventSynchronize(end);
      return 1000 * this.driver.float((at) => api.cuEventElapsedTime(at, start, end));
    } catch (error) {
      throw this.failure(error);
    }
  }

  inspect(kernel: KernelIr, block: Dim3, sharedBytes = 0): KernelInfo {
    this.#activate();
    return inspectKernel(this.driver, this.#ordinal, this.kernels, kernel, block, sharedBytes);
  }

  memory(): MemoryReport {
    return this.#allocator.report();
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#compiler.close();
    if (this.#faults.lost) return;
    current = undefined;
    const { api } = this.driver;
    api.cuCtxSetCurrent(this.#context);
    let failed: unknown;
    try {
      api.cuCtxSynchronize();
      this.#flush();
    } catch (error) {
      failed = this.failure(error);
    }
    if (!this.#faults.lost) this.#giveBack();
    // What nobody has waited for has gone wrong.
    if (failed) throw failed;
  }

  #giveBack(): void {
    const { api } = this.driver;
    this.#transfers.close();
    this.#board.close();
    this.#allocator.close();
    this.#timeline.close();
    for (const { handle, timeline } of this.#streams) {
      timeline.close();
      api.cuStreamDestroy_v2(handle);
    }
    api.cuStreamDestroy_v2(this.#copies);
    api.cuStreamDestroy_v2(this.stream);
    api.cuDevicePrimaryCtxRelease_v2(this.#ordinal);
  }

  stepped(stream: number): void {
    this.driver.api.cuStreamSynchronize(stream);
    this.#flush();
  }

  begin(program: CudaProgram, stream?: Stream): CudaStream | undefined {
    this.#activate();
    this.#faults.remember(program);
    if (!stream) {
      this.#timeline.now++;
      return undefined;
    }
    requireSame(this, 'stream', stream);
    const theirs = stream as CudaStream;
    theirs.mustLive();
    theirs.timeline.now++;
    return theirs;
  }

  use(buffer: DeviceBuffer, stream: CudaStream | undefined): number {
    const address = this.addressOf(buffer);
    const mine = buffer as CudaBuffer;
    if (stream) {
      stream.follow(mine.lastUse);
      mine.elsewhere ??= new Map();
      mine.elsewhere.set(stream, stream.timeline.now);
    } else {
      this.#join(mine);
      mine.lastUse = this.#timeline.now;
    }
    return address;
  }

  addressOf(buffer: DeviceBuffer): number {
    const { address } = buffer as CudaBuffer;
    if (buffer.device !== this) throw new DeviceError(`[${buffer.label}] is a buffer of another device.`);
    if (address === 0) throw new DeviceError(`[${buffer.label}] has been freed.`);
    return address;
  }

  failure(error: unknown, launch?: PlannedLaunch): unknown {
    return this.#faults.explain(error, launch, () => this.#board.salvage());
  }

  release(work: () => void): void {
    if (this.#closed || this.#faults.lost) return;
    this.#activate();
    work();
  }

  /** Let the device's own stream wait for what users' streams do with a buffer. */
  #join(buffer: CudaBuffer): void {
    if (!buffer.elsewhere) return;
    const { elsewhere } = buffer;
    buffer.elsewhere = undefined;
    buffer.lastUse = ++this.#timeline.now;
    this.#queue(() => {
      for (const [stream, tick] of elsewhere) stream.join(tick);
    });
  }

  #joinAll(): void {
    for (const stream of this.#streams) stream.join();
  }

  /** Resolves when an event has happened, and what kernels said until then is written. */
  async #reached(event: number): Promise<void> {
    this.#activate();
    try {
      await this.#transfers.reached(event);
      this.#flush();
    } catch (error) {
      throw this.failure(error);
    }
  }

  #flush(): void {
    this.#board.flush(() => this.#joinAll());
  }

  #queue<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      throw this.failure(error);
    }
  }

  #activate(): void {
    if (current === this) return;
    if (this.#closed) throw new DeviceError(`The device ${this.name} has been closed.`);
    this.driver.api.cuCtxSetCurrent(this.#context);
    current = this;
  }

  /** The address of a range of a buffer. */
  #range(buffer: DeviceBuffer, offset: number, bytes: number): number {
    const address = this.addressOf(buffer);
    requireRange(buffer, offset, bytes);
    return address + offset;
  }
}
