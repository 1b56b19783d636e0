/** Scheduled graphs as device programs. */

import { keptSchedule } from '#engine/kept-schedule.js';
import { debug } from '../core/log.js';
import { during, type PhaseTimes, phasesSince, phaseTimes } from '../core/phases.js';
import type { GraphNode } from '../graph/node.js';
import type { Device, DeviceBuffer, Launch, Program } from '../runtime/device.js';
import type { Schedule } from '../schedule/launch.js';
import { type ScheduleOptions, schedule } from '../schedule/schedule.js';
import { LaunchLog } from './launch-log.js';
import { type Profile, type ProfileOptions, profileProgram } from './profile.js';
import { BufferStorage, requireOn } from './storage.js';
import type { Tuner } from './tuner.js';

/** Run counts and sizes, for people and tests. */
export interface Stats {
  /** Graphs compiled. */
  compiled: number;
  /** Programs run. */
  runs: number;
  /** Kernel launches, over all runs. */
  launches: number;
}

const counts: Stats = { compiled: 0, runs: 0, launches: 0 };
export const stats = (): Readonly<Stats> => ({ ...counts });

export interface CompileOptions extends Omit<ScheduleOptions, 'tune'> {
  /** Chooses among the ways of a hand-written kernel; without it, each takes its best guess. */
  readonly tuner?: Tuner;
  /** Of the graph, by schedule/passes/canonical.ts: its schedule may be read from disk. */
  readonly fingerprint?: string;
  /** Until the first run the device may compile its kernels in the background. */
  readonly beside?: boolean;
}

/** About how many kernels a graph becomes, those included that are timed only: one for so many nodes. */
const kernelsOf = (fingerprint: string): number => Math.ceil(fingerprint.split('\n').length / 16);

/** The schedule of a graph, made or read from disk. */
export function scheduleFor(
  roots: readonly GraphNode[],
  device: Device,
  { tuner, fingerprint, beside, ...options }: CompileOptions,
): Schedule {
  const { target } = device;
  const planned = (all: ScheduleOptions): Schedule => {
    if (beside && fingerprint) device.expect?.(kernelsOf(fingerprint));
    return during('plan', () => schedule(roots, target, all));
  };
  return fingerprint
    ? keptSchedule({ fingerprint, target, options, tuner }, planned)
    : planned({ ...options, ...(tuner && { tune: tuner.tune }) });
}

/** Bytes of each result. */
export function resultBytes({ roots }: Schedule): number[] {
  const bytes: number[] = [];
  for (const root of roots) if ('result' in root) bytes[root.result] = root.bytes;
  return bytes;
}

/** The launches of a schedule on slots: the leaves' buffers, the results', and the arena. */
export function launchesOf(schedule: Schedule, leaves: number): Launch[] {
  const arena = leaves + resultBytes(schedule).length;
  return schedule.launches.map((l): Launch => {
    const args = l.args.map((place) => {
      if ('value' in place) return place;
      if ('leaf' in place) return { slot: place.leaf, offset: 0 };
      if ('result' in place) return { slot: leaves + place.result, offset: 0 };
      return { slot: arena, offset: place.arena };
    });
    return { ...l.work, args, needs: l.needs };
  });
}

/** What a device makes of the launches. */
interface Made {
  readonly program: Program;
  /** What runs instead with HEDDLE_DEBUG=2. */
  readonly log: LaunchLog | undefined;
}

/** A compiled graph. Slots are the leaves' buffers, the results', and the arena. */
export class CompiledGraph {
  readonly schedule: Schedule;
  readonly device: Device;
  readonly #launches: readonly Launch[];
  readonly #before: PhaseTimes;
  #made: Made | undefined;
  readonly #results: readonly number[];
  #arena: BufferStorage | undefined;

  constructor(roots: readonly GraphNode[], leaves: number, device: Device, options: CompileOptions = {}) {
    this.#before = phaseTimes();
    this.device = device;
    this.schedule = scheduleFor(roots, device, options);
    this.#results = resultBytes(this.schedule);
    this.#launches = launchesOf(this.schedule, leaves);
    counts.compiled++;
    if (!options.beside || this.ready) this.#make();
  }

  /** Whether nothing is left to compile: the first run then starts at once. */
  get ready(): boolean {
    return this.#made !== undefined || (this.device.prepare?.(this.#launches) ?? true);
  }

  #make(): Made {
    if (this.#made) return this.#made;
    const program = this.device.compile(this.#launches);
    this.#made = { program, log: LaunchLog.of(this.device, this.#launches, this.schedule) };
    debug(1, () => `compiled ${this.launches} launches: ${phasesSince(this.#before) || 'less than 1 ms'}`);
    return this.#made;
  }

  get launches(): number {
    return this.schedule.launches.length;
  }

  /**
   * Results in their own memory, one storage each; the arena is kept for the next run if `keepArena`. With `times`,
   * that many runs on the same memory, and the results of the last.
   * @param given memory for results, by their numbers; the others get new memory
   */
  run(
    leaves: readonly DeviceBuffer[],
    label: string,
    keepArena: boolean,
    times = 1,
    given: ReadonlyMap<number, BufferStorage> = new Map(),
  ): BufferStorage[] {
    const results: BufferStorage[] = [];
    try {
      const slots = this.#memory(leaves, results, label, given);
      const { program, log } = this.#make();
      (log ?? program).run(slots, times);
    } catch (error) {
      // At once: the collector would find them only when the program waits for something.
      results.forEach((result, i) => {
        if (!given.has(i)) result.release();
      });
      throw error;
    } finally {
      if (!keepArena) {
        this.#arena?.release();
        this.#arena = undefined;
      }
    }
    counts.runs += times;
    counts.launches += times * this.launches;
    return results;
  }

  /** Device time on these leaves. It runs many times: what it updates in place moves on with every run. */
  async profile(leaves: readonly DeviceBuffer[], options: ProfileOptions = {}): Promise<Profile> {
    const results: BufferStorage[] = [];
    const slots = this.#memory(leaves, results, 'profile');
    const { program } = this.#make();
    const profile = await profileProgram(this.device, program, this.schedule, slots, options);
    for (const result of results) result.release();
    return profile;
  }

  /** What a run works on: the leaves, memory for the results, which it adds to `results`, the arena. */
  #memory(
    leaves: readonly DeviceBuffer[],
    results: BufferStorage[],
    label: string,
    given: ReadonlyMap<number, BufferStorage> = new Map(),
  ): DeviceBuffer[] {
    requireOn(this.device, leaves);
    const slots = leaves.slice();
    this.#results.forEach((bytes, i) => {
      const result = given.get(i) ?? new BufferStorage(bytes, label, this.device);
      results.push(result);
      slots.push(result.buffer);
    });
    const { arenaBytes } = this.schedule;
    if (arenaBytes === 0) return slots;
    this.#arena ??= new BufferStorage(arenaBytes, 'intermediate values', this.device);
    slots.push(this.#arena.buffer);
    return slots;
  }

  dispose(): void {
    this.#made?.log?.dispose();
    this.#arena?.release();
    this.#arena = undefined;
    this.#made?.program.dispose();
  }
}
