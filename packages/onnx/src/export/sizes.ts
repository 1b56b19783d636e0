/**
 * Sizes that are not fixed. A model is traced several times with other sizes of its dynamic dimensions; a size in the graph is
 * then one number for each of these traces, and what it is as a function of the dynamic dimensions follows from them.
 */
import { ArgumentError } from 'heddle/internal/core/errors.js';

/** A number of the graph in each of the traces. */
export type Size = readonly number[];

/** The sizes of all dynamic dimensions in one trace, by name. */
export type Point = Readonly<Record<string, number>>;

/** Σ coefficient · product of dynamic dimensions. */
export type Polynomial = readonly {
  readonly coefficient: number;
  readonly symbols: readonly string[];
}[];

export const isFixed = (size: Size): boolean => size.every((n) => n === size[0]);

export const sameSize = (a: Size, b: Size): boolean => a.every((n, i) => n === b[i]);

/** Sizes to trace with for one dynamic dimension: two that determine a linear function, and one that checks it. */
export interface Choices {
  readonly base: number;
  readonly other: number;
  readonly check: number;
}

/**
 * The sizes of the traces: every combination of the first two of each dimension, in binary order, then one in which all are
 * the third.
 */
export function pointsOf(choices: Readonly<Record<string, Choices>>): Point[] {
  const names = Object.keys(choices);
  const corners = Array.from({ length: 2 ** names.length }, (_, bits) =>
    Object.fromEntries(
      names.map((name, i) => [name, choices[name]![(bits >> i) & 1 ? 'other' : 'base']] as const),
    ),
  );
  if (names.length === 0) return corners;
  return [...corners, Object.fromEntries(names.map((name) => [name, choices[name]!.check] as const))];
}

/** Size as a polynomial that is linear in each dynamic dimension, with integer coefficients; undefined if it is none. */
export function polynomialOf(size: Size, points: readonly Point[]): Polynomial | undefined {
  const names = Object.keys(points[0]!);
  // Coefficients of ∏ xᵢ over subsets: divide differences along one dimension after the other.
  const coefficients = size.slice(0, 2 ** names.length);
  for (const [i, name] of names.entries()) {
    const [base, other] = [points[0]![name]!, points[1 << i]![name]!];
    for (let bits = 0; bits < coefficients.length; bits++) {
      if ((bits >> i) & 1) continue;
      const [at, beyond] = [bits, bits | (1 << i)];
      const slope = (coefficients[beyond]! - coefficients[at]!) / (other - base);
      coefficients[beyond] = slope;
      coefficients[at]! -= slope * base;
    }
  }
  if (coefficients.some((c) => !Number.isInteger(c))) return undefined;
  const terms = coefficients.flatMap((coefficient, bits) =>
    coefficient === 0 ? [] : [{ coefficient, symbols: names.filter((_, i) => (bits >> i) & 1) }],
  );
  return points.every((point, i) => valueAt(terms, point) === size[i]) ? terms : undefined;
}

const valueAt = (terms: Polynomial, point: Point): number =>
  terms.reduce(
    (sum, { coefficient, symbols }) => sum + symbols.reduce((n, s) => n * point[s]!, coefficient),
    0,
  );

/** `2*batch*length + 1`, as the file names such a dimension. */
export const polynomialText = (terms: Polynomial): string =>
  terms
    .map(({ coefficient, symbols }) =>
      [...(coefficient === 1 && symbols.length > 0 ? [] : [String(coefficient)]), ...symbols].join('*'),
    )
    .join(' + ') || '0';

/**
 * Sizes that models are rarely built for, so that none is equal to another size of the model by chance; odd and even, with other
 * remainders by small divisors, so that what is rounded shows.
 */
const UNUSUAL = [61, 68, 75, 82, 89];

/** Sizes worth trying for a dimension that is `example` in the example. */
export function candidates(example: number): number[] {
  const near = [0, -1, -2, -3, 1, 2].map((d) => example + d);
  const multiples = [2, 3, 4, 1 / 2, 1 / 4].map((f) => example * f);
  return [...new Set([...UNUSUAL, ...near, ...multiples])].filter((n) => Number.isInteger(n) && n > 1);
}

/**
 * Three sizes of the dimension `name` that the model accepts.
 * @param works throws for sizes that the model does not accept
 * @throws ArgumentError if there are none
 */
export function choose(name: string, example: number, works: (size: number) => void): Choices {
  const found: number[] = [];
  let refusal: unknown;
  for (const size of candidates(example)) {
    if (found.length === 3) break;
    try {
      works(size);
      found.push(size);
    } catch (error) {
      refusal ??= error;
    }
  }
  const [base, other, check] = found;
  if (base === undefined || other === undefined || check === undefined)
    throw new ArgumentError(
      `[exportOnnx] the dimension '${name}' cannot be dynamic: the model takes ${found.join(' and ') || 'no other size'} there, ` +
        `but not other sizes: ${refusal instanceof Error ? refusal.message : String(refusal)}`,
    );
  return { base, other, check };
}
