/** What transforms take: sizes, ranges, fills. Sources: torchvision.transforms.v2. */
import { aFinite, integerFrom, listOf, oneOf, type Rule } from '../core/arguments.js';

/** [low, high], or a number d for [−d, d]. */
export type Degrees = number | readonly [low: number, high: number];

/** How pixels between others are made: the nearest one, or a mean of the four around weighted by their distance. */
export type Interpolation = 'nearest' | 'bilinear';

/** What lies outside of images: a number, or one for each channel. */
export type Fill = number | readonly number[];

export const INTERPOLATION: Rule = oneOf('nearest', 'bilinear');

/** How pixels of another size are made; bicubic: a sum of the sixteen around, whose weights may be below 0. */
export type ResizeInterpolation = Interpolation | 'bicubic';

const pairOf = (v: unknown, each: Rule): boolean => listOf(each).holds(v) && (v as unknown[]).length === 2;

export const aSize: Rule = {
  must: 'an integer ≥ 1, or [height, width]',
  holds: (v) => integerFrom(1).holds(v) || pairOf(v, integerFrom(1)),
};

export const sizeOfBoth = (size: number | readonly [number, number]): readonly [number, number] =>
  typeof size === 'number' ? [size, size] : size;

export const aFill: Rule = {
  must: 'a finite number, or one for each channel',
  holds: (v) => aFinite.holds(v) || (listOf(aFinite).holds(v) && (v as unknown[]).length > 0),
};

/** [low, high] within bounds. */
export const aSpan = (low: number, high = Number.POSITIVE_INFINITY): Rule => ({
  must: `[low, high], two finite numbers ${Number.isFinite(high) ? `from ${low} to ${high}` : `≥ ${low}`}, the lower one first`,
  holds: (v) => pairOf(v, aFinite) && isOrdered(v as [number, number], low, high),
});

const isOrdered = ([a, b]: readonly [number, number], low: number, high: number): boolean =>
  low <= a && a <= b && b <= high;

/** A number d ≥ 0 for [−d, d], or [low, high]. */
export const aRange: Rule = {
  must: 'a finite number ≥ 0, or [low, high], the lower one first',
  holds: (v) =>
    (aFinite.holds(v) && (v as number) >= 0) ||
    (pairOf(v, aFinite) &&
      isOrdered(v as [number, number], Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY)),
};

export const rangeOf = (range: Degrees): readonly [number, number] =>
  typeof range === 'number' ? [-range, range] : range;
