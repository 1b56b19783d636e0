/**
 * Normal numbers of random bits, √(−2 ln x) · cos 2πt: G. Box and M. Muller (1958). By operations that IEEE 754 rounds, in f64: the
 * same bits give the same number on every device and in every engine, whose own logarithms and cosines differ in the last place.
 * Kernels are given the functions as constants: they see nothing but their arguments.
 */

/** The value of a polynomial. @param coefficients two at least, that of the highest power first */
export const polynomial = (x: number, coefficients: readonly number[]): number => {
  // In a kernel, the product with x says of which dtype the sum is.
  let sum = coefficients[0]! * x + coefficients[1]!;
  for (let k = 2; k < coefficients.length; k++) sum = sum * x + coefficients[k]!;
  return sum;
};

/** Of sin 2πy / y in powers of y², the highest first: (2π)ⁿ/n! with alternating signs. @param degree of the sine, odd */
export const sineSeries = (degree: number): number[] => {
  const coefficients: number[] = [];
  let term = 2 * Math.PI;
  for (let n = 1; n <= degree; n += 2) {
    coefficients.unshift(term);
    term *= -((2 * Math.PI) ** 2) / ((n + 1) * (n + 2));
  }
  return coefficients;
};

/** What `gaussianOf` computes with: right to some units in the last place of f64. */
export const GAUSSIAN = {
  polynomial,
  /** Of artanh z / z in powers of z², for z² ≤ 0.03. */
  ARTANH: Array.from({ length: 11 }, (_, k) => 1 / (21 - 2 * k)),
  /** For y² ≤ 1/16. */
  SINE: sineSeries(21),
} as const;

/**
 * √(−2 ln(m · 2^exponent)) · sin 2πy.
 * @param m from √½ to √2
 * @param y from −¼ to ¼: a cosine is the sine of ¼ minus its part of a turn
 */
export const gaussianOf = (
  m: number,
  exponent: number,
  y: number,
  { polynomial, ARTANH, SINE }: typeof GAUSSIAN,
): number => {
  const z = (m - 1) / (m + 1);
  const logarithm = exponent * Math.LN2 + 2 * z * polynomial(z * z, ARTANH);
  return Math.sqrt(-2 * logarithm) * (y * polynomial(y * y, SINE));
};

/** The bits of √½ as an f32: those of m · 2^e, with m from there to √2, are between e and e + 1 times 2²³ above. */
export const SQRT_HALF_BITS = 0x3f3504f3;
