/** How far the device has come: so that a copy waits for the work that uses its memory, and for no more. */
import type { Driver } from './driver.js';

/** CU_EVENT_DISABLE_TIMING */
export const UNTIMED = 2;

/** Everything up to a tick has happened when the event has. */
interface Mark {
  tick: number;
  readonly event: number;
}

/** Marks kept: inputs that take turns are used again after a few steps. */
const MARKS = 4;

/** Numbers the work of a stream, in the order in which it is queued. */
export class Timeline {
  /** The number of the work queued last. */
  now = 0;
  readonly #driver: Driver;
  /** CUstream */
  readonly stream: number;
  /** The oldest first. */
  readonly #marks: Mark[] = [];

  constructor(driver: Driver, stream: number) {
    this.#driver = driver;
    this.stream = stream;
  }

  /** Let another stream wait until the work of that number is done. @returns up to where it waits */
  wait(other: number, tick: number): number {
    if (tick === 0) return 0;
    const mark = this.#marks.find((m) => m.tick >= tick) ?? this.mark();
    this.#driver.api.cuStreamWaitEvent(other, mark.event, 0);
    return mark.tick;
  }

  /** Record that the stream has come to here. */
  mark(): Mark {
    const last = this.#marks.at(-1);
    if (last?.tick === this.now) return last;
    const reused = this.#marks.length < MARKS ? undefined : this.#marks.shift();
    const event = reused?.event ?? this.#driver.handle((at) => this.#driver.api.cuEventCreate(at, UNTIMED));
    const mark = { tick: this.now, event };
    this.#driver.api.cuEventRecord(event, this.stream);
    this.#marks.push(mark);
    return mark;
  }

  close(): void {
    for (const { event } of this.#marks.splice(0)) this.#driver.api.cuEventDestroy_v2(event);
  }
}
