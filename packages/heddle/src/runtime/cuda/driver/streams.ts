/** The device's own stream and those of its users: which waits for which, and how long the device takes. */
import type { Device, Stream } from '../../device.js';
import { requireSame } from '../../stream.js';
import type { CudaContext } from './context.js';
import type { Driver } from './driver.js';
import { CudaStream, type StreamHost } from './stream.js';
import { Timeline } from './timeline.js';
import { happens } from './wait.js';

export class Streams implements StreamHost {
  readonly device: Device;
  readonly driver: Driver;
  /** Of the device's own stream. */
  readonly timeline: Timeline;
  readonly #context: CudaContext;
  readonly #users = new Set<CudaStream>();
  /** Events for one measurement after another, and for `synchronize`. */
  readonly #timers: readonly [number, number];

  constructor(context: CudaContext, device: Device) {
    const { driver } = context;
    this.device = device;
    this.driver = driver;
    this.#context = context;
    this.timeline = new Timeline(driver, context.stream);
    this.#timers = [this.#event(), this.#event()];
  }

  open(): Stream {
    const stream = this.call(() => new CudaStream(this));
    this.#users.add(stream);
    return stream;
  }

  /**
   * A program's work is about to be queued.
   * @param stream a user's, instead of the device's own
   * @returns it, as it is here
   */
  begin(stream: Stream | undefined): CudaStream | undefined {
    if (!stream) {
      this.timeline.now++;
      return undefined;
    }
    requireSame(this.device, 'stream', stream);
    const theirs = stream as CudaStream;
    theirs.mustLive();
    theirs.timeline.now++;
    return theirs;
  }

  call<T>(work: () => T): T {
    return this.#context.call(work);
  }

  release(work: () => void): void {
    this.#context.release(work);
  }

  forget(stream: CudaStream): void {
    this.#users.delete(stream);
  }

  async reached(event: number): Promise<void> {
    this.#context.activate();
    try {
      await happens(this.driver, event);
      this.flush();
    } catch (error) {
      throw this.#context.failure(error);
    }
  }

  /** Wait for a CUstream on the spot. */
  finish(stream: number): void {
    this.driver.api.cuStreamSynchronize(stream);
    this.flush();
  }

  /** Write out what kernels have said. @throws KernelError for an assertion that failed */
  flush(): void {
    this.#context.board.flush(() => this.#joinAll());
  }

  async synchronize(): Promise<void> {
    const [, event] = this.#timers;
    this.call(() => {
      this.#joinAll();
      this.driver.api.cuEventRecord(event, this.#context.stream);
    });
    await this.reached(event);
  }

  /** How long the device takes for what `work` starts, on whatever stream, in µs. */
  async time(work: () => void): Promise<number> {
    const { driver, stream } = this.#context;
    this.#context.activate();
    const [start, end] = [this.#event(), this.#event()];
    try {
      // After what was started before, on whatever stream
      this.#joinAll();
      driver.api.cuEventRecord(start, stream);
      for (const { handle } of this.#users) driver.api.cuStreamWaitEvent(handle, start, 0);
      work();
      this.#joinAll();
      driver.api.cuEventRecord(end, stream);
      await this.reached(end);
      return this.#between(start, end);
    } catch (error) {
      throw this.#context.failure(error);
    } finally {
      // Unchecked: after a fault nothing succeeds, and the fault is what to tell.
      driver.raw.cuEventDestroy_v2(start);
      driver.raw.cuEventDestroy_v2(end);
    }
  }

  /** As `time`, on the device's own stream, waiting on the spot. */
  timeSync(work: () => void): number {
    const { api } = this.driver;
    const [start, end] = this.#timers;
    return this.call(() => {
      api.cuEventRecord(start, this.#context.stream);
      work();
      api.cuEventRecord(end, this.#context.stream);
      api.cuEventSynchronize(end);
      return this.#between(start, end);
    });
  }

  close(): void {
    this.timeline.close();
    for (const { handle, timeline } of this.#users) {
      timeline.close();
      this.driver.api.cuStreamDestroy_v2(handle);
    }
  }

  /** Let the device's own stream wait for all others. */
  #joinAll(): void {
    for (const stream of this.#users) stream.join();
  }

  /** A new CUevent. */
  #event(): number {
    return this.driver.handle((at) => this.driver.api.cuEventCreate(at, 0));
  }

  /** µs from one event to another. */
  #between(start: number, end: number): number {
    return 1000 * this.driver.float((at) => this.driver.api.cuEventElapsedTime(at, start, end));
  }
}
