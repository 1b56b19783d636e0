/**
 * Where in a tensor: coordinates as digits of a mixed-radix number, outermost first. A reshape changes nothing; a
 * movement op regroups the digits along its dimensions, and splits one only where it must. Splits of loop
 * variables are remembered, so that the kernel can be lowered again with finer loops and no division.
 */
import { InternalError } from '../../core/errors.js';
import { sizeOf } from '../../core/shape.js';
import { type Affine, divide, plus, times, ZERO } from './affine.js';

/** A dimension of a kernel's iteration space, before it is cut into loops. */
export interface LoopAxis {
  readonly size: number;
  /** Products of inner sizes at which a digit had to be split. */
  readonly splits: Set<number>;
}

export interface Digit {
  readonly size: number;
  readonly value: Affine;
  /** The loop it is a digit of, and the product of the sizes below it there. */
  readonly origin?: { readonly axis: LoopAxis; readonly below: number };
}

export type Coordinates = readonly Digit[];

/** The position as one number. */
export function flatten(digits: Coordinates): Affine {
  let radix = 1;
  let sum = ZERO;
  for (let i = digits.length - 1; i >= 0; i--) {
    sum = plus(sum, times(digits[i]!.value, radix));
    radix *= digits[i]!.size;
  }
  return sum;
}

/**
 * The digits grouped by dimensions of the given sizes.
 * @throws InternalError if the product of the sizes is not that of the digits
 */
export function align(digits: Coordinates, sizes: readonly number[]): Digit[][] {
  const [have, want] = [digits.reduce((n, d) => n * d.size, 1), sizeOf(sizes)];
  if (have !== want)
    throw new InternalError(
      `coordinates of ${have} elements (${digits.map((d) => d.size)}) do not fit (${sizes})`,
    );
  let rest = [...digits];
  const groups: Digit[][] = sizes.map(() => []);
  for (let i = sizes.length - 1; i >= 0; i--) {
    let need = sizes[i]!;
    while (need > 1) {
      const digit = rest.pop()!;
      if (need % digit.size === 0) {
        groups[i]!.unshift(digit);
        need /= digit.size;
      } else if (digit.size % need === 0) {
        const [high, low] = split(digit, need);
        groups[i]!.unshift(low);
        rest.push(high);
        need = 1;
      } else {
        // The boundaries do not line up: take all that is left as one number.
        const all = [...rest, digit];
        rest = [{ size: all.reduce((n, d) => n * d.size, 1), value: flatten(all) }];
      }
    }
  }
  return groups;
}

function split(digit: Digit, low: number): [Digit, Digit] {
  const { quotient, remainder } = divide(digit.value, low);
  const { origin } = digit;
  origin?.axis.splits.add(origin.below * low);
  return [
    {
      size: digit.size / low,
      value: quotient,
      ...(origin ? { origin: { axis: origin.axis, below: origin.below * low } } : {}),
    },
    { size: low, value: remainder, ...(origin ? { origin } : {}) },
  ];
}

/** Sizes of the loops for an axis, outermost first, from the splits that fit into each other. */
export function loopSizes(axis: LoopAxis): number[] {
  const sizes: number[] = [];
  let below = 1;
  for (const at of [...axis.splits].sort((a, b) => a - b)) {
    if (at === below || at % below !== 0 || axis.size % at !== 0) continue;
    sizes.unshift(at / below);
    below = at;
  }
  if (axis.size > below || sizes.length === 0) sizes.unshift(axis.size / below);
  return sizes;
}
