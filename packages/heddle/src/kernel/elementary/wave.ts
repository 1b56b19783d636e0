/**
 * The sine and cosine of large numbers, in f64: reduced by as many bits of 2/π as the argument asks for (Payne and
 * Hanek, "Radian reduction for trigonometric functions", 1983). Called where any of an instruction's lanes needs it.
 */
import { i64 } from '../../core/dtype.js';
import { cast, constant, declare, type Expr, read, type Statement, select, type Variable } from '../ir/ir.js';
import { F64 } from '../math/formats.js';
import { FloatArithmetic, QUARTERS, sineOf, sum, times, type WaveName } from './functions.js';

/** 0, and 2/π below the point: 64 bits each (scripts/fit-polynomials.py). */
const TWO_BY_PI: readonly bigint[] = [
  0n,
  0xa2f9836e4e441529n,
  0xfc2757d1f534ddc0n,
  0xdb6295993c439041n,
  0xfe5163abdebbc561n,
  0xb7246e3a424dd2e0n,
  0x06492eea09d1921cn,
  0xfe1deb1cb129a73en,
  0xe88235f52ebb4484n,
  0xe99c7026b45f7e41n,
  0x3991d639835339f4n,
  0x9c845f8bbdf9283bn,
  0x1ff897ffde05980fn,
  0xef2f118b5a0a6d1fn,
  0x6d367ecf27cb09b7n,
  0x4f463f669e5fea2dn,
  0x7527bac7ebe5f17bn,
  0x3d0739f78a5292ean,
  0x6bfb5fb11f8d5d08n,
  0x56033046fc7b6babn,
];
/** π/2 in two parts. */
const HALF_PI = [1.5707963267948966, 6.123233995736766e-17] as const;

/** The function as a statement that computes `result` from `x`, for x from F32.waveRange on. */
export function largeWave(name: WaveName): { x: Variable; result: Variable; body: Statement } {
  const m = new FloatArithmetic(F64, 1);
  const word = (v: bigint): Expr => constant(i64, BigInt.asIntN(64, v));
  const variable = (of: string): Variable => ({ name: of, type: m.num(0).type, constant: true });
  const x = variable('x');
  const size = m.bitsOf(m.abs(read(x)));
  // |x| = fraction·2^e, e a whole number. Bits of 2/π that make multiples of 4 of it are left out.
  const fraction = m.int('or', m.int('and', size, 2n ** 52n - 1n), 2n ** 52n);
  const skipped = m.int('sub', m.int('shr', size, 52), 1013);
  const first = m.int('shr', skipped, 6);
  const by = m.int('and', skipped, 63);
  const wordAt = (offset: number): Expr =>
    TWO_BY_PI.slice(offset, offset + 17).reduce<Expr | undefined>(
      (rest, w, i) => (rest ? select(m.int('eq', first, i), word(w), rest) : word(w)),
      undefined,
    )!;
  // Logical shifts: the first bit is cleared after it has moved.
  const rest = m.int('sub', word(63n), by);
  const upper = (w: Expr): Expr => m.int('shr', m.int('and', m.int('shr', w, 1), 2n ** 63n - 1n), rest);
  const [a, b, c] = [0, 1, 2].map((i) => m.int('or', m.int('shl', wordAt(i), by), upper(wordAt(i + 1)))) as [
    Expr,
    Expr,
    Expr,
  ];
  // fraction·(a, b, c) modulo 2^192, its upper 128 bits: turns.
  const high = (w: Expr): Expr =>
    m.int('add', m.int('mulhi', fraction, w), m.int('and', m.int('shr', w, 63), fraction));
  const fromC = high(c);
  const low = m.int('add', m.int('mul', fraction, b), fromC);
  const flipped = (w: Expr): Expr => m.int('xor', w, -(2n ** 63n));
  const carry = cast(i64, m.int('lt', flipped(low), flipped(fromC)));
  const turns = m.int('add', m.int('add', m.int('mul', fraction, a), high(b)), carry);
  // The nearest quarter, and what is left: 62 bits and a sign above the point, the others below.
  const quarter = m.int('shr', m.int('add', turns, 2n ** 61n), 62);
  const left = m.int('sub', turns, m.int('shl', quarter, 62));
  const coarse = m.toFloat(m.int('and', left, ~2047n));
  const fine = m.toFloat(m.int('and', left, 2047));
  const finest = m.mul(m.toFloat(m.int('and', m.int('shr', low, 11), 2n ** 53n - 1n)), 2 ** -53);
  const whole = sum(m, coarse, fine);
  const quarters = sum(m, whole.high, m.add(whole.low, finest));
  const angle = times(m, quarters, { high: m.num(HALF_PI[0] * 2 ** -62), low: m.num(HALF_PI[1] * 2 ** -62) });
  const positive = sineOf(m, sum(m, angle.high, angle.low), m.int('add', quarter, QUARTERS[name]));
  const signed = name === 'sin' ? m.select(m.isNegative(read(x)), m.neg(positive), positive) : positive;
  const finite = m.test('eq', m.sub(read(x), read(x)), 0);
  const result = variable(name);
  return { x, result, body: declare(result, m.select(finite, signed, Number.NaN)) };
}
