/** Parsers of option values: what they return is valid, or commander says why not. */
import { InvalidArgumentError } from 'commander';

/** The devices that --device takes. */
export const DEVICE_HELP = 'cpu, cuda, cuda:1… or sim (default: the fastest found)';

export const wholeNumber =
  (low: number, high = Number.MAX_SAFE_INTEGER) =>
  (text: string): number => {
    const value = Number(text);
    if (text.trim() === '' || !Number.isSafeInteger(value) || value < low || value > high) {
      const range = high === Number.MAX_SAFE_INTEGER ? `at least ${low}` : `from ${low} to ${high}`;
      throw new InvalidArgumentError(`Must be a whole number, ${range}.`);
    }
    return value;
  };

export function positiveNumber(text: string): number {
  const value = Number(text);
  if (!Number.isFinite(value) || value <= 0) throw new InvalidArgumentError('Must be a positive number.');
  return value;
}

export function fraction(text: string): number {
  const value = Number(text);
  if (text.trim() === '' || !(value >= 0 && value <= 1))
    throw new InvalidArgumentError('Must be a number from 0 to 1.');
  return value;
}

export function atLeastZero(text: string): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value) || value < 0)
    throw new InvalidArgumentError('Must be a number, at least 0.');
  return value;
}

/** A side of a square, or both sides: 64, 48x64. */
export function imageSize(text: string): number | [height: number, width: number] {
  const sides = text.split('x').map(wholeNumber(1, 2 ** 14));
  if (sides.length > 2) throw new InvalidArgumentError('Must be one number, or <height>x<width>.');
  return sides.length === 1 ? sides[0]! : [sides[0]!, sides[1]!];
}

/** Separated by commas. */
export const words = (text: string): string[] => text.split(',').map((word) => word.trim());

export const wholeNumbers = (low: number, high?: number): ((text: string) => number[]) => {
  const parse = wholeNumber(low, high);
  return (text) => words(text).map(parse);
};
