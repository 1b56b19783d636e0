/** What the elementary functions need to know of f32 and f64: layout of their bits, and polynomials to match. */
import { type DType, f32, f64, i32, i64 } from '../../core/dtype.js';

export interface FloatFormat {
  readonly float: DType;
  /** The integer of the same size. */
  readonly bits: DType;
  /** Bits of the fraction, and what is added to the exponent. */
  readonly fraction: number;
  readonly bias: number;
  /** Adding it rounds to an integer, which then stands in the low bits. */
  readonly magic: number;
  /** Below it numbers have no full fraction. */
  readonly smallest: number;
  /** The bits of √½. */
  readonly rootHalf: number | bigint;
  /** ln 2 and π/2 in parts of which all but the last multiply a small integer without rounding, largest first. */
  readonly ln2: readonly number[];
  readonly halfPi: readonly number[];
  /** Where halfPi no longer does: larger arguments of sin and cos are reduced with more bits of π. */
  readonly waveRange: number;
  /** Arguments of exp and exp2 beyond which the result is 0 or infinite. */
  readonly expRange: readonly [number, number];
  readonly exp2Range: readonly [number, number];
  /** The negative argument below which e^x − 1 is −1. */
  readonly expm1Least: number;
  /** Coefficients, lowest first. e^r = 1 + r + r²·exp(r) for |r| ≤ ln2/2. */
  readonly exp: readonly number[];
  /** ln((1 + s)/(1 − s)) = 2s + s³·log(s²) for |s| ≤ 3 − 2√2. */
  readonly log: readonly number[];
  /** sin x = x + x³·sin(x²) and cos x = 1 − x²/2 + x⁴·cos(x²) for |x| ≤ π/4. */
  readonly sin: readonly number[];
  readonly cos: readonly number[];
  /** erf x = x + x·erf(x²) for |x| ≤ 1. */
  readonly erf: readonly number[];
  readonly farErf: FarErf;
  readonly tail: NormalTail;
  /** The bits of the upper half of a fraction, sign and exponent: such a number has an exact square. */
  readonly upperHalf: number | bigint;
}

/** erf x = 1 − e^−P(x − 1) for x from 1 to `end`, from where on it is 1. */
export interface FarErf {
  readonly end: number;
  readonly polynomial: readonly number[];
}

/** The normal distribution's tail: Φ(−t) = e^(−t²/2)·P(u)/(t + c) with u = (t − c)/(t + c). */
export interface NormalTail {
  readonly c: number;
  readonly polynomial: readonly number[];
  /** From there on Φ(−t) is 0. */
  readonly end: number;
}

const factorial = (n: number): number => (n < 2 ? 1 : n * factorial(n - 1));
const series = (terms: number, coefficient: (k: number) => number): number[] =>
  Array.from({ length: terms }, (_, k) => coefficient(k));

/**
 * The polynomials of exp, log, sin and cos in f32 are interpolated at Chebyshev nodes in double precision, nearly the
 * best of their degree. Those of erf and the tail, and halfPi, are by scripts/fit-polynomials.py.
 */
export const F32: FloatFormat = {
  float: f32,
  bits: i32,
  fraction: 23,
  bias: 127,
  magic: 1.5 * 2 ** 23,
  smallest: 2 ** -126,
  rootHalf: 0x3f3504f3,
  ln2: [0.693359375, -0.00021219444005469057],
  halfPi: [
    1.5703125, 0.0004837512969970703, 7.549533620476723e-8, 2.5632829192545614e-12, 6.123233995736766e-17,
  ],
  waveRange: 12_800,
  expRange: [-105, 89],
  exp2Range: [-160, 129],
  expm1Least: -20,
  exp: [0.5, 0.16666577025597906, 0.041666554662057834, 0.008363173074523068, 0.0013926176119268645],
  log: [0.6666668503956659, 0.3998878056713672, 0.2957994936333779],
  sin: [-0.16666664662314262, 0.00833274827062428, -0.00019587890879842475],
  cos: [0.04166666465946898, -0.0013888303034212133, 0.00002454794189257713],
  erf: [
    0.12837916572955937, -0.376126258374651, 0.11283585248605635, -0.02685381458207252, 0.005188330482592488,
    -0.0008010202699272506, 7.853849828429409e-5,
  ],
  farErf: {
    end: 4,
    polynomial: [
      1.8496055156537317, 2.6389668798090145, 0.8431176076065364, 0.04150349755018489, -0.009895459615216012,
      0.0018293822513878377, -0.00018637884671505198,
    ],
  },
  tail: {
    c: 4,
    polynomial: [
      0.755285135391019, -0.6078965882435657, 0.3871369008549974, -0.18652344191612688, 0.06040383255324575,
      -0.007525268530095167, -0.003512555901110754, 0.0015699179795440937, 0.00017935284667586817,
      -0.00013197077116525134,
    ],
    end: 14.5,
  },
  upperHalf: ~0xfff,
};

export const F64: FloatFormat = {
  float: f64,
  bits: i64,
  fraction: 52,
  bias: 1023,
  magic: 1.5 * 2 ** 52,
  smallest: 2 ** -1022,
  rootHalf: 0x3fe6a09e667f3bcdn,
  ln2: [0.6931471803691238, 1.9082149292705877e-10],
  halfPi: [1.5707963267341256, 6.077100506303966e-11, 2.0222662487111665e-21, 8.4784276603689e-32],
  waveRange: 1_600_000,
  expRange: [-746, 710],
  exp2Range: [-1080, 1025],
  expm1Least: -40,
  exp: series(12, (k) => 1 / factorial(k + 2)),
  log: series(10, (k) => 2 / (2 * k + 3)),
  sin: series(8, (k) => (-1) ** (k + 1) / factorial(2 * k + 3)),
  cos: series(8, (k) => (-1) ** k / factorial(2 * k + 4)),
  erf: [
    0.12837916709551256, -0.3761263890318352, 0.112837916709442, -0.026866170643113415, 0.005223977606130842,
    -0.0008548325929766244, 0.0001205529358693695, -1.4924712439534814e-5, 1.6447132699786621e-6,
    -1.6206318752969208e-7, 1.3710988704190523e-8, -7.779462971761597e-10,
  ],
  farErf: {
    end: 6,
    polynomial: [
      1.8496055099332482, 2.6389675142347886, 0.843107256358659, 0.04156109804218276, -0.01003382537846156,
      0.001977902594053416, -0.0002373225907949631, -2.62775619399561e-5, 2.7158475272845425e-5,
      -9.607957490911576e-6, 2.058740444328035e-6, -1.4203438868619197e-7, -9.805867175915851e-8,
      5.2268115642611063e-8, -1.498698276871034e-8, 2.881544092768686e-9, -3.7095772412781035e-10,
      2.9066510253884078e-11, -1.0495970869229545e-12,
    ],
  },
  tail: {
    c: 5,
    polynomial: [
      0.769193049750063, -0.6653825028900567, 0.4953056159699773, -0.3135331566712962, 0.1650203661703374,
      -0.06911863870656997, 0.02079506680083781, -0.002993376766705912, -0.0007978694080112797,
      0.0005448990333912974, -5.937567478252487e-5, -4.9762654907283835e-5, 1.668104118511682e-5,
      3.980384673204899e-6, -2.768952394616838e-6, -3.3553709892938213e-7, 4.328839946831618e-7,
      4.088033095884308e-8, -6.601146498297587e-8, -8.29467630529669e-9, 7.942182903606e-9,
      1.4319296560546646e-9, -3.0291105265275335e-10,
    ],
    end: 39,
  },
  upperHalf: ~0x7ffffffn,
};

/**
 * Φ(−t)/φ(t) in f32, φ the normal distribution's density, as v·P(v) with v = 1/(1 + p·t), for results that are rounded to 16
 * bits: relative errors of at most 2^-18 up to t = 5.6, where tails are numbers of f16, and 2^-15 beyond. By
 * scripts/fit-polynomials.py.
 */
export const TAIL_RATIO_16 = {
  p: 0.3,
  polynomial: [
    0.3012708028461613, 0.2818088194497543, 0.3750288688581758, -0.06824917575731682, 0.5643860481956263,
    -0.2009272396534946,
  ],
} as const;

/** For logarithms to 64 bits, atanh s = s + s³/3 + s⁵/5 + …: 1/5, 1/7, … and what 1/3 loses; 2/ln 2 in two parts. */
export const ATANH: readonly number[] = series(11, (k) => 1 / (2 * k + 5));
export const THIRD_LOW = 1.850371707708594e-17;
export const TWO_BY_LN2 = [2.8853900817779268, 4.0710547481862066e-17] as const;

/** atan x = x + x³·atan(x²) for |x| ≤ tan π/8, in f64, interpolated at Chebyshev nodes; and π/4, of which the first part times 3 is exact. */
export const ATAN: readonly number[] = [
  -0.3333333333333333, 0.19999999999999998, -0.1428571428571415, 0.11111111111090433, -0.09090909089290074,
  0.07692307616211806, -0.06666664343202196, 0.05882304610193147, -0.052624536283402454, 0.04754618422446524,
  -0.04294252451442342, 0.037233742339787025, -0.02727353484766671, 0.011958372270565072,
];
export const QUARTER_PI = [0.7853981633974474, 9.18794589678809e-16] as const;
