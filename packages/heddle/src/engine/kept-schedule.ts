/**
 * Schedules on disk. From the start of a process to its first training step most of the time went into scheduling,
 * by code that V8 had not optimized yet. A graph that any process has scheduled before is read instead.
 */
import { BUILD_ID } from '../core/build-id.js';
import { env } from '../core/env.js';
import { later } from '../core/later.js';
import { debug } from '../core/log.js';
import { during } from '../core/phases.js';
import { recordsOrigins } from '../graph/origin.js';
import type { Target } from '../kernel/ir/target.js';
import { cacheKey, cacheOf } from '../runtime/disk-cache.js';
import type { Schedule } from '../schedule/launch.js';
import type { ScheduleOptions } from '../schedule/schedule.js';
import { packSchedule, unpackSchedule } from './packed-schedule.js';
import type { Tuner } from './tuner.js';

/** What is scheduled faster is not worth a file. */
const WORTH_KEEPING_MS = 5;
const MOST_FILES = 512;

/** What is scheduled, and for what. */
export interface Scheduled {
  /** Of the graph: schedule/passes/canonical.ts. */
  readonly fingerprint: string;
  readonly target: Target;
  readonly options: Omit<ScheduleOptions, 'tune'>;
  readonly tuner: Tuner | undefined;
}

/** The schedule: read from disk, else made, and written if that took long. */
export function keptSchedule(
  { fingerprint, target, options, tuner }: Scheduled,
  make: (options: ScheduleOptions) => Schedule,
): Schedule {
  // What is shown and checked of the passes needs them to run; origins are not of the structure.
  const seen = env('HEDDLE_DEBUG') >= 3 || env('HEDDLE_CHECK') === 1 || recordsOrigins();
  const cache = seen ? undefined : cacheOf('schedule', MOST_FILES);
  if (!cache || BUILD_ID === undefined) return make({ ...options, ...(tuner && { tune: tuner.tune }) });
  const { libraries, ...rest } = target;
  const { updates, constants, kernels = true } = options;
  const key = cacheKey(
    BUILD_ID,
    fingerprint,
    JSON.stringify([
      rest,
      [...libraries].sort(),
      [...(updates ?? [])],
      [...(constants ?? [])],
      kernels,
      tuner !== undefined,
    ]),
  );
  const kept = during('read', () => {
    const found = cache.get(key);
    return found && unpackSchedule<Choices>(new TextDecoder().decode(found));
  });
  if (kept && stillChosen(kept.beside, tuner)) {
    debug(1, () => `schedule of ${kept.schedule.launches.length} launches read from ${cache.folder}`);
    return kept.schedule;
  }
  const started = performance.now();
  const choices: Record<string, string | null> = {};
  const schedule = make({
    ...options,
    ...(tuner && {
      tune: (requests, others) => {
        const names = tuner.tune(requests, others);
        requests.forEach(({ key: call }, i) => {
          choices[call] = names[i] ?? null;
        });
        return names;
      },
    }),
  });
  if (performance.now() - started >= WORTH_KEEPING_MS)
    later(() => cache.put(key, new TextEncoder().encode(packSchedule(schedule, choices))));
  return schedule;
}

/** The variant of each tuned call, by `TuneRequest.key`; null: its guess. */
type Choices = Readonly<Record<string, string | null>>;

const stillChosen = (choices: Choices, tuner: Tuner | undefined): boolean =>
  Object.entries(choices).every(([call, name]) => {
    const known = tuner?.chosen(call) ?? null;
    return known === name && !(known === null && tuner?.measures);
  });
