/** With HEDDLE_DEBUG=2, a program runs launch by launch and writes a line for each. */
import { env } from '../core/env.js';
import { debug } from '../core/log.js';
import type { Device, DeviceBuffer, Launch, Program } from '../runtime/device.js';
import type { Schedule, ScheduledLaunch } from '../schedule/launch.js';
import { compiledAlone } from './profile.js';

export class LaunchLog {
  readonly #device: Device;
  readonly #programs: readonly (readonly [Program, ScheduledLaunch])[];

  /** @returns undefined unless HEDDLE_DEBUG is at least 2 */
  static of(device: Device, launches: readonly Launch[], schedule: Schedule): LaunchLog | undefined {
    return env('HEDDLE_DEBUG') >= 2 ? new LaunchLog(device, launches, schedule) : undefined;
  }

  private constructor(device: Device, launches: readonly Launch[], schedule: Schedule) {
    this.#device = device;
    this.#programs = launches.map((l, i) => [compiledAlone(device, l), schedule.launches[i]!]);
  }

  run(slots: readonly DeviceBuffer[], times = 1): void {
    for (let i = 0; i < times; i++)
      for (const [program, { work, level }] of this.#programs) {
        const us = this.#time(() => program.run(slots));
        const what =
          'kernel' in work ? `${work.kernel.name}  grid ${work.grid.join('×')}` : work.library.name;
        debug(2, () => `${us.toFixed(us < 100 ? 1 : 0).padStart(8)} µs  level ${level}  ${what}`);
      }
  }

  #time(work: () => void): number {
    if (this.#device.timeSync) return this.#device.timeSync(work);
    const started = performance.now();
    work();
    return (performance.now() - started) * 1000;
  }

  dispose(): void {
    for (const [program] of this.#programs) program.dispose();
  }
}
