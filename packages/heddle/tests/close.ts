/** Comparison of numbers computed in f32 with what they should be. */
import assert from 'node:assert/strict';

export interface Tolerance {
  /** Of the expected number (default 1e-5). */
  readonly relative?: number;
  /** For small sums of larger numbers, times the largest expected number where that is more than 1 (default 1e-6). */
  readonly absolute?: number;
}

export function assertClose(
  actual: ArrayLike<number | bigint>,
  expected: ArrayLike<number>,
  message: string,
  { relative = 1e-5, absolute = 1e-6 }: Tolerance = {},
): void {
  assert.equal(actual.length, expected.length, `${message}: length`);
  let largest = 1;
  for (let i = 0; i < expected.length; i++) largest = Math.max(largest, Math.abs(expected[i]!));
  for (let i = 0; i < expected.length; i++) {
    const [a, e] = [Number(actual[i]), expected[i]!];
    const allowed = relative * Math.abs(e) + absolute * largest;
    if (a !== e && !(Math.abs(a - e) <= allowed))
      assert.fail(`${message}: element ${i} is ${a}, expected ${e} (± ${allowed})`);
  }
}
