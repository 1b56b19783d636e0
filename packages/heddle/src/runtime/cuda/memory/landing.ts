/** Device memory where large writes land while programs still use the memory that they are for. */
import type { Driver } from '../driver/driver.js';
import { UNTIMED } from '../driver/timeline.js';
import type { CudaAllocator } from './allocator.js';

/** A larger write waits for the programs: a data set that is uploaded once need not take its memory twice. */
const MOST = 256 << 20;
/** Size of a place, at least. */
export const LEAST = 1 << 20;
/** Places that take turns: one is copied from when a step begins, the other is filled while it runs. */
const TURNS = 2;

interface LandingPlace {
  readonly address: number;
  readonly bytes: number;
  /** CUevent after which nothing reads it any more. */
  readonly free: number;
}

export class Landing {
  readonly #driver: Driver;
  readonly #allocator: CudaAllocator;
  /** CUstream of programs, and of large writes. */
  readonly #programs: number;
  readonly #copies: number;
  readonly #places: LandingPlace[] = [];
  #next = 0;

  constructor(driver: Driver, allocator: CudaAllocator, programs: number, copies: number) {
    this.#driver = driver;
    this.#allocator = allocator;
    this.#programs = programs;
    this.#copies = copies;
  }

  /**
   * Write by way of a place here: `send` copies to it on the stream of writes, beside the programs, and what is there goes
   * on to `address` between them.
   * @param send to an address; returns the CUevent after it
   * @returns false if there is no memory for it, and nothing was done
   */
  pass(address: number, bytes: number, send: (place: number) => number): boolean {
    const { api } = this.#driver;
    const place = bytes <= MOST ? this.#take(bytes) : undefined;
    if (!place) return false;
    api.cuStreamWaitEvent(this.#copies, place.free, 0);
    api.cuStreamWaitEvent(this.#programs, send(place.address), 0);
    api.cuMemcpyDtoDAsync_v2(address, place.address, bytes, this.#programs);
    api.cuEventRecord(place.free, this.#programs);
    return true;
  }

  /** Give all memory back, until the next write takes some. @returns whether there was any */
  clear(): boolean {
    const places = this.#places.splice(0);
    for (const place of places) this.#giveBack(place);
    this.#next = 0;
    return places.length > 0;
  }

  /** The place whose turn it is, made larger if need be. */
  #take(bytes: number): LandingPlace | undefined {
    const turn = this.#next;
    const old = this.#places[turn];
    if (!old || old.bytes < bytes) {
      const place = this.#open(bytes);
      if (!place) return undefined;
      this.#places[turn] = place;
      if (old) this.#giveBack(old);
    }
    this.#next = (turn + 1) % TURNS;
    return this.#places[turn];
  }

  #open(bytes: number): LandingPlace | undefined {
    const { api } = this.#driver;
    const size = Math.max(LEAST, 2 ** Math.ceil(Math.log2(bytes)));
    const address = this.#allocator.reserve(size);
    if (address === undefined) return undefined;
    return { address, bytes: size, free: this.#driver.handle((at) => api.cuEventCreate(at, UNTIMED)) };
  }

  #giveBack({ address, bytes, free }: LandingPlace): void {
    this.#allocator.giveBack(address, bytes);
    this.#driver.api.cuEventDestroy_v2(free);
  }
}
