/** Numbers for people. */

const PREFIXES = ['', 'k', 'M', 'G', 'T'] as const;

/** To so many digits that matter, without zeros at the end: 0.012345 → 0.0123, 12345 → 12,300. */
export function digits(value: number, count = 3): string {
  if (!Number.isFinite(value)) return String(value);
  const rounded = Number(value.toPrecision(count));
  if (rounded !== 0 && (Math.abs(rounded) < 1e-4 || Math.abs(rounded) >= 1e9))
    return rounded.toExponential().replaceAll('-', '−');
  return rounded.toLocaleString('en-US', { maximumSignificantDigits: count }).replace('-', '−');
}

/** With the prefix that keeps it short: 12345678 → 12.3 M. */
export function prefixed(value: number, unit = ''): string {
  let at = 0;
  let rest = value;
  while (Math.abs(rest) >= 1000 && at < PREFIXES.length - 1) {
    rest /= 1000;
    at++;
  }
  return `${digits(rest)} ${PREFIXES[at]}${unit}`.trimEnd();
}

/** 0.98765 → 98.8 % */
export const percent = (share: number, places = 1): string => `${(100 * share).toFixed(places)} %`;

/** 1 → 1 step, 2 → 2 steps */
export const counted = (n: number, one: string, many = `${one}s`): string =>
  `${n.toLocaleString('en-US')} ${n === 1 ? one : many}`;
