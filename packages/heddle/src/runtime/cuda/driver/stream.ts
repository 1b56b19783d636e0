/** CUDA streams of users' own, kept in order with the device's stream where both use the same memory. */
import { holding } from '../../../core/holding.js';
import type { Device, Stream, StreamEvent } from '../../device.js';
import { disposedStream, requireSame } from '../../stream.js';
import type { Driver } from './driver.js';
import { Timeline } from './timeline.js';

/** CU_STREAM_NON_BLOCKING */
export const NON_BLOCKING = 1;

/** What streams need of their device. */
export interface StreamHost {
  readonly device: Device;
  readonly driver: Driver;
  /** Of the device's own stream. */
  readonly timeline: Timeline;
  /** Run what calls the driver, in the device's context. @throws what a failure means */
  call<T>(work: () => T): T;
  /** Resolves when a CUevent has happened, and what kernels said until then is written. */
  reached(event: number): Promise<void>;
  /** Give resources back, unless the device has closed and they are gone with it. */
  release(work: () => void): void;
  /** The stream is closed. */
  forget(stream: CudaStream): void;
}

export class CudaStream implements Stream {
  readonly device: Device;
  /** CUstream */
  readonly handle: number;
  readonly timeline: Timeline;
  readonly #host: StreamHost;
  /** How far the device's own stream has waited for this one, and this one for it. */
  #joined = 0;
  #followed = 0;
  #disposed = false;

  constructor(host: StreamHost) {
    const { driver, device } = host;
    this.#host = host;
    this.device = device;
    this.handle = driver.handle((at) => driver.api.cuStreamCreate(at, NON_BLOCKING));
    this.timeline = new Timeline(driver, this.handle);
  }

  /** Let the device's own stream wait for this one's work up to a tick. */
  join(tick = this.timeline.now): void {
    if (tick > this.#joined) this.#joined = this.timeline.wait(this.#host.timeline.stream, tick);
  }

  /** Wait for the work of the device's own stream up to a tick. */
  follow(tick: number): void {
    if (tick > this.#followed) this.#followed = this.#host.timeline.wait(this.handle, tick);
  }

  record(): StreamEvent {
    this.mustLive();
    return this.#host.call(() => new CudaEvent(this.#host, this.handle));
  }

  wait(event: StreamEvent): void {
    this.mustLive();
    requireSame(this.device, 'event', event);
    const host = this.#host;
    host.call(() => host.driver.api.cuStreamWaitEvent(this.handle, (event as CudaEvent).handle, 0));
  }

  synchronize(): Promise<void> {
    return this.record().synchronize();
  }

  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    const host = this.#host;
    host.forget(this);
    host.release(() =>
      host.call(() => {
        this.join();
        this.timeline.close();
        host.driver.api.cuStreamDestroy_v2(this.handle);
      }),
    );
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /** @throws ArgumentError if it has been disposed of */
  mustLive(): void {
    if (this.#disposed) throw disposedStream();
  }
}

/** Where a buffer has been used on users' streams: the tick of the last use, of each. */
export type Uses = Map<CudaStream, number>;

/** Events that nobody can wait for any more. */
const unused = new FinalizationRegistry<() => void>((destroy) => destroy());

class CudaEvent implements StreamEvent {
  readonly device: Device;
  /** CUevent */
  readonly handle: number;
  readonly #host: StreamHost;

  constructor(host: StreamHost, stream: number) {
    const { driver, device } = host;
    this.#host = host;
    this.device = device;
    const handle = driver.handle((at) => driver.api.cuEventCreate(at, 0));
    driver.api.cuEventRecord(handle, stream);
    // Unchecked: there is nobody to tell.
    unused.register(this, () => host.release(() => driver.raw.cuEventDestroy_v2(handle)));
    this.handle = handle;
  }

  get happened(): boolean {
    return this.#host.call(() => this.#host.driver.happened(this.handle));
  }

  synchronize(): Promise<void> {
    return holding(this, this.#host.reached(this.handle));
  }

  async since(earlier: StreamEvent): Promise<number> {
    requireSame(this.device, 'event', earlier);
    return holding([this, earlier], this.#after((earlier as CudaEvent).handle));
  }

  /** @returns µs from another CUevent to this one, once both have happened */
  async #after(from: number): Promise<number> {
    await this.#host.reached(from);
    await this.#host.reached(this.handle);
    const { driver } = this.#host;
    const ms = this.#host.call(() =>
      driver.float((at) => driver.api.cuEventElapsedTime(at, from, this.handle)),
    );
    return 1000 * ms;
  }
}
