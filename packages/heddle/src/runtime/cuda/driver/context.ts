/** The context of a GPU: what calls the driver does so through it, and an error is explained on its way out. */
import { env } from '../../../core/env.js';
import { DeviceError } from '../../../core/errors.js';
import { MessageBoard } from '../messages.js';
import { ATTRIBUTE, type Driver } from './driver.js';
import { Faults, type RecentProgram } from './faults.js';
import { NON_BLOCKING } from './stream.js';

/** The driver whose graphs have edges that let kernels overlap: CUDA 12.3. */
const EDGE_DATA = 12030;

/** The context that is current on this thread. */
let current: CudaContext | undefined;

export class CudaContext {
  /** As `useDevice` takes the device. */
  readonly name: string;
  readonly driver: Driver;
  readonly ordinal: number;
  /** CUdevice */
  readonly gpu: number;
  /** Compute capability × 10. */
  readonly capability: number;
  /** `Target.overlapped` */
  readonly overlapped: boolean;
  /** CUstream that programs run on. */
  readonly stream: number;
  readonly board: MessageBoard;
  /** Wait after every launch, so that a fault is found where it happens. */
  readonly step = env('HEDDLE_CUDA_SYNC') === 1;
  readonly #handle: number;
  readonly #faults: Faults;
  #closed = false;

  /** @throws DriverError if there is no such GPU */
  constructor(driver: Driver, ordinal: number) {
    const { api } = driver;
    this.name = ordinal === 0 ? 'cuda' : `cuda:${ordinal}`;
    this.driver = driver;
    this.ordinal = ordinal;
    this.gpu = driver.number((at) => api.cuDeviceGet(at, ordinal));
    this.capability =
      10 * this.attribute(ATTRIBUTE.capabilityMajor) + this.attribute(ATTRIBUTE.capabilityMinor);
    this.overlapped = this.capability >= 90 && driver.version >= EDGE_DATA;
    this.#faults = new Faults(this.name);
    this.#handle = driver.handle((at) => api.cuDevicePrimaryCtxRetain(at, this.gpu));
    this.activate();
    this.stream = driver.handle((at) => api.cuStreamCreate(at, NON_BLOCKING));
    this.board = new MessageBoard(driver, this.stream);
  }

  get isClosed(): boolean {
    return this.#closed;
  }

  /** @param which one of ATTRIBUTE */
  attribute(which: number): number {
    return this.driver.attribute(this.gpu, which);
  }

  /** Make it current on this thread. @throws DeviceError if it has been closed */
  activate(): void {
    if (current === this) return;
    if (this.#closed) throw new DeviceError(`The device ${this.name} has been closed.`);
    this.driver.api.cuCtxSetCurrent(this.#handle);
    current = this;
  }

  /** Run what calls the driver. @throws what a failure means */
  call<T>(work: () => T): T {
    this.activate();
    try {
      return work();
    } catch (error) {
      throw this.failure(error);
    }
  }

  /** Give resources back, unless the device has closed and they are gone with it. */
  release(work: () => void): void {
    if (this.#closed || this.#faults.lost) return;
    this.activate();
    work();
  }

  /** A program is about to run: a fault may come from it. */
  remember(program: RecentProgram): void {
    this.#faults.remember(program);
  }

  /** What to throw instead of an error of the driver. @param launch what was running, where it is known */
  failure(error: unknown, launch?: RecentProgram['plan'][number]): unknown {
    return this.#faults.explain(error, launch, () => this.board.salvage());
  }

  /** Nothing can be queued from now on. */
  shut(): void {
    this.#closed = true;
  }

  /**
   * Wait for everything that is queued, and give everything back.
   * @param flush writes what kernels have said
   * @throws what went wrong and nobody has waited for
   */
  close(flush: () => void, giveBack: () => void): void {
    if (this.#faults.lost) return;
    current = undefined;
    const { api } = this.driver;
    api.cuCtxSetCurrent(this.#handle);
    let failed: unknown;
    try {
      api.cuCtxSynchronize();
      flush();
    } catch (error) {
      failed = this.failure(error);
    }
    if (!this.#faults.lost) {
      giveBack();
      this.board.close();
      api.cuStreamDestroy_v2(this.stream);
      api.cuDevicePrimaryCtxRelease_v2(this.gpu);
    }
    if (failed) throw failed;
  }
}
