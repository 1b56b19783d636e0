/** Settings that a jitted function is traced with, and must be traced anew for when they change. */

/** Settings that a trace has read, with the values they had. */
export type Readings = ReadonlyMap<Setting<unknown>, unknown>;

/** What the trace under way has read, and what it has set itself: that is part of the function. */
let underway:
  | { readonly read: Map<Setting<unknown>, unknown>; readonly set: Set<Setting<unknown>> }
  | undefined;
let changes = 0;

/** How often settings have changed so far: as long as it is the same, they all are. */
export const settingChanges = (): number => changes;

/** A value such as the mode of a layer: no tensor, and no argument of the functions that depend on it. */
export class Setting<T> {
  #value: T;

  constructor(value: T) {
    this.#value = value;
  }

  get value(): T {
    if (underway && !underway.set.has(this)) underway.read.set(this, this.#value);
    return this.#value;
  }

  set value(value: T) {
    underway?.set.add(this);
    if (value === this.#value) return;
    this.#value = value;
    changes++;
  }

  /** Whether it has this value; a trace does not depend on the answer. */
  is(value: unknown): boolean {
    return this.#value === value;
  }
}

/** What `body` gives, and the settings it has read before it set them. */
export function withReadings<T>(body: () => T): { readonly made: T; readonly readings: Readings } {
  const around = underway;
  const read = new Map<Setting<unknown>, unknown>();
  underway = { read, set: new Set() };
  try {
    return { made: body(), readings: read };
  } finally {
    underway = around;
  }
}

/** Whether all settings are as they were read; a trace around depends on them as well. */
export function areAsRead(readings: Readings): boolean {
  for (const [setting, value] of readings) {
    if (!setting.is(value)) return false;
  }
  if (underway) for (const setting of readings.keys()) void setting.value;
  return true;
}
