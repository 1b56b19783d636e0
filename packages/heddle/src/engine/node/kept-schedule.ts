/** Schedules on disk. A browser keeps none: see engine/browser/kept-schedule.ts. */
export { keptSchedule } from '../kept-schedule.js';
