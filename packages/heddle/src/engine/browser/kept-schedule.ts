/** Stands in for engine/kept-schedule.ts in a browser, where every schedule is made. */
import type { Schedule } from '../../schedule/launch.js';
import type { ScheduleOptions } from '../../schedule/schedule.js';

export const keptSchedule = (
  { options }: { readonly options: Omit<ScheduleOptions, 'tune'> },
  make: (options: ScheduleOptions) => Schedule,
): Schedule => make(options);
