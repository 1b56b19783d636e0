/** Where the time of a start goes, from opening the device to the first run of a program. */

/**
 * Opening the device · calling the traced function · reading a kept schedule · scheduling · planning the variants to be
 * timed · kernels to text · waiting for the compiler · timing the variants · loading kernels · writing to the cache folder ·
 * building a graph of the launches.
 */
export const PHASES = [
  ...(['open', 'trace', 'read', 'plan', 'variants', 'render', 'compile', 'tune', 'load', 'keep'] as const),
  'graph',
] as const;

export type Phase = (typeof PHASES)[number];

/** Milliseconds of each phase. */
export type PhaseTimes = Readonly<Record<Phase, number>>;

const times: Record<Phase, number> = Object.fromEntries(PHASES.map((phase) => [phase, 0])) as PhaseTimes;
let running: Phase | undefined;
let since = 0;

/** Do some work of a phase. What it does of another phase counts for that one. */
export function during<T>(phase: Phase, work: () => T): T {
  const outer = running;
  turnTo(phase);
  try {
    return work();
  } finally {
    turnTo(outer);
  }
}

function turnTo(phase: Phase | undefined): void {
  const now = performance.now();
  if (running) times[running] += now - since;
  running = phase;
  since = now;
}

/** What this process has spent so far. */
export function phaseTimes(): PhaseTimes {
  turnTo(running);
  return { ...times };
}

/** Such as `plan 312 ms, compile 1402 ms`: phases since then that took a millisecond at least. */
export function phasesSince(earlier: PhaseTimes): string {
  const now = phaseTimes();
  return PHASES.map((phase) => ({ phase, ms: now[phase] - earlier[phase] }))
    .filter(({ ms }) => ms >= 1)
    .map(({ phase, ms }) => `${phase} ${ms.toFixed(0)} ms`)
    .join(', ');
}
