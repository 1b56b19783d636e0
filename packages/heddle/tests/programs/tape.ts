/**
 * What a computation should give, number by number: every element of every tensor is an entry of a tape, with its value
 * in f64, a bound on the error that a device may make, and its slopes. Values and gradients come from here, by no code of
 * the library's.
 *
 * The bound is a running error analysis (Higham, "Accuracy and stability of numerical algorithms", ch. 3): each entry takes
 * over the errors of what it is made of, times the slopes, and adds the rounding of its own dtype. An error of 0 says that
 * a device has exactly this number; an infinite one that rounding decides what it is (a comparison of nearly equal
 * numbers, floor next to an integer).
 */
import type { DTypeName } from '../../src/core/dtype.js';
import { fromBf16, fromF16, toBf16, toF16 } from '../../src/core/float16.js';
import type { NdArray } from '../ndarray.js';

/** A tensor: entries of the tape, in row-major order. */
export interface Entries extends NdArray {
  readonly dtype: DTypeName;
}

export interface Format {
  /** Relative error of one rounding. 0: not of floats. */
  readonly unit: number;
  /** Absolute error of one rounding: below the smallest normal number digits are lost. */
  readonly tiny: number;
  readonly largest: number;
  readonly round: (v: number) => number;
}

const whole = (largest: number, round: (v: number) => number): Format => ({
  ...{ unit: 0, tiny: 0, largest, round },
});
export const FORMATS: Readonly<Record<DTypeName, Format>> = {
  // Twice a rounding: the tape's numbers, themselves of f64, are off by as much as a device's may be.
  f64: { unit: 2 ** -52, tiny: 2 ** -1022, largest: Number.MAX_VALUE, round: (v) => v },
  f32: { unit: 2 ** -24, tiny: 2 ** -126, largest: 2 ** 128 - 2 ** 104, round: Math.fround },
  f16: { unit: 2 ** -11, tiny: 2 ** -24, largest: 65504, round: (v) => fromF16(toF16(v)) },
  bf16: { unit: 2 ** -8, tiny: 2 ** -126, largest: 2 ** 128 - 2 ** 120, round: (v) => fromBf16(toBf16(v)) },
  i32: whole(2 ** 31 - 1, (v) => v | 0),
  u32: whole(2 ** 32 - 1, (v) => v >>> 0),
  i8: whole(127, (v) => (v << 24) >> 24),
  u8: whole(255, (v) => v & 255),
  i64: whole(2 ** 53, (v) => v),
  bool: whole(1, (v) => (v ? 1 : 0)),
};
export const isFloat = (dtype: DTypeName): boolean => FORMATS[dtype].unit > 0;

/** A function of one number. Errors not said are those of a correctly rounded result, or nearly so. */
export interface Curve {
  readonly f: (x: number) => number;
  readonly slope: (x: number) => number;
  /** Error of f in units of its last place, at most (default 4). */
  readonly ulps?: number;
  /** What the rounding errors of f and of its slope are relative to (default: themselves). */
  readonly scale?: (x: number) => number;
  readonly slopeScale?: (x: number) => number;
  /** Distance from x to where f or its slope jumps; default: nowhere. */
  readonly jump?: (x: number) => number;
  /** f and its slope are waves from −1 to 1 of length 2π. */
  readonly waves?: boolean;
  /** f gives whole numbers, or one of its operands: no rounding. */
  readonly exact?: boolean;
  /** Steps: gradients stop here. */
  readonly flat?: boolean;
}

/**
 * Roundings in a sum of n terms, as its error relative to the sum of their sizes. Short sums may be added one after the
 * other, long ones are added in levels (schedule/lower/accumulate.ts).
 */
export const additions = (n: number): number =>
  Math.min(n, 16 * Math.ceil(Math.log(Math.max(1, n)) / Math.log(16)) + 32);

const word = new DataView(new ArrayBuffer(8));
const zerosAtTheEnd = (bits: number): number => 31 - Math.clz32(bits & -bits);

/** Exponent of the last bit of v that is set: v is a multiple of 2 to this. */
function lastBit(v: number): number {
  if (v === 0 || !Number.isFinite(v)) return Number.POSITIVE_INFINITY;
  word.setFloat64(0, v);
  const [high, low] = [word.getUint32(0), word.getUint32(4)];
  const exponent = (high >>> 20) & 0x7ff;
  const zeros = low !== 0 ? zerosAtTheEnd(low) : 32 + zerosAtTheEnd((high & 0xfffff) | 0x100000);
  return Math.max(1, exponent) - 1075 + zeros;
}

/** Whether adding numbers to `sum`, all multiples of 2^last, whose sizes add up to `size`, never rounds, in whatever order. */
const isSumExact = (dtype: DTypeName, sum: number, size: number, last: number): boolean =>
  size === 0 || (size * FORMATS[dtype].unit <= 2 ** last && FORMATS[dtype].round(sum) === sum);

/** What a + b rounds off (Knuth's TwoSum): added up beside a sum, it makes the sum as exact as twice the digits would. */
function lost(a: number, b: number): number {
  const sum = a + b;
  if (!Number.isFinite(sum)) return 0;
  const right = sum - a;
  return a - (sum - right) + (b - right);
}

/** Of all entries, by their number. */
interface Derivatives {
  readonly value: Float64Array;
  readonly error: Float64Array;
  /** How many terms each is a sum of; 0: it is not reached. */
  readonly uses: Uint32Array;
}

/** As in C: 1 to any power is 1, and so is −1 to an infinite one; JavaScript gives NaN. */
const pow = (x: number, z: number): number =>
  x === 1 || (x === -1 && Math.abs(z) === Number.POSITIVE_INFINITY) ? 1 : x ** z;

export class Tape {
  readonly value: number[] = [];
  readonly error: number[] = [];
  readonly #dtype: DTypeName[] = [];
  /** Entry i is made of those from `#first[i]` to `#first[i + 1]` of these lists. */
  readonly #first: number[] = [0];
  readonly #from: number[] = [];
  readonly #slope: number[] = [];
  readonly #doubt: number[] = [];
  readonly #constants = new Map<string, number>();

  /** The entry's operands so far, and that it is one. */
  #add(dtype: DTypeName, value: number, error: number): number {
    this.value.push(value);
    this.error.push(error);
    this.#dtype.push(dtype);
    this.#first.push(this.#from.length);
    return this.value.length - 1;
  }

  #operand(id: number, slope: number, doubt: number): void {
    this.#from.push(id);
    this.#slope.push(slope);
    this.#doubt.push(Number.isFinite(slope) && !Number.isNaN(doubt) ? doubt : Number.POSITIVE_INFINITY);
  }

  /** An entry of which rounding, or the way a device computes it, decides what it is. */
  open(dtype: DTypeName, value: number, from: readonly number[]): number {
    for (const id of from) this.#operand(id, 0, Number.POSITIVE_INFINITY);
    return this.#add(dtype, value, Number.POSITIVE_INFINITY);
  }

  /** An entry that is a result: with the error it takes over, and one more that is relative to `scale`. */
  #result(dtype: DTypeName, value: number, taken: number, ulps: number, scale: number): number {
    const { unit, tiny, largest } = FORMATS[dtype];
    if (unit === 0) return this.#add(dtype, value, taken);
    if (Number.isNaN(taken) || taken === Number.POSITIVE_INFINITY)
      return this.#add(dtype, value, Number.POSITIVE_INFINITY);
    if (!Number.isFinite(value)) return this.#add(dtype, value, 0);
    const error = taken + (ulps === 0 ? 0 : ulps * unit * scale + tiny);
    if (Math.abs(value) + error <= largest) return this.#add(dtype, value, error);
    return Math.abs(value) - error > largest * (1 + unit)
      ? this.#add(dtype, Math.sign(value) * Number.POSITIVE_INFINITY, 0)
      : this.#add(dtype, value, Number.POSITIVE_INFINITY);
  }

  leaf(dtype: DTypeName, value: number, error = 0): number {
    return this.#add(dtype, value, error);
  }

  /** A number in the source: rounded to its dtype. */
  constant(dtype: DTypeName, value: number): number {
    const key = `${dtype} ${Object.is(value, -0) ? '-0' : value}`;
    const known = this.#constants.get(key);
    if (known !== undefined) return known;
    const id = this.#add(dtype, FORMATS[dtype].round(value), 0);
    this.#constants.set(key, id);
    return id;
  }

  /** The same number, for which gradients stop. */
  detached(id: number): number {
    return this.#add(this.#dtype[id]!, this.value[id]!, this.error[id]!);
  }

  /** A result without slopes: of whole numbers, a bool, a position. `certain`: its operands leave no doubt what it is. */
  plain(dtype: DTypeName, value: number, certain: boolean): number {
    return this.#add(dtype, value, certain ? 0 : Number.POSITIVE_INFINITY);
  }

  isExact(...ids: readonly number[]): boolean {
    return ids.every((id) => this.error[id] === 0);
  }

  /** Σ factor · x, of known factors. */
  combination(dtype: DTypeName, ids: readonly number[], factors?: readonly number[]): number {
    const { unit, tiny } = FORMATS[dtype];
    let [sum, rest, size, taken, exact] = [0, 0, 0, 0, true];
    let last = Number.POSITIVE_INFINITY;
    ids.forEach((id, i) => {
      const factor = factors ? factors[i]! : 1;
      const term = factor * this.value[id]!;
      last = Math.min(last, lastBit(factor) + lastBit(this.value[id]!));
      rest += lost(sum, term);
      sum += term;
      if (Number.isFinite(term)) size += Math.abs(term);
      taken += Math.abs(factor) * this.error[id]!;
      exact &&= this.error[id] === 0;
      this.#operand(id, factor, 0);
    });
    sum += rest;
    const ulps = exact && isSumExact(dtype, sum, size, last) ? 0 : additions(ids.length) + (factors ? 1 : 0);
    const scale = size + (taken > 0 && ids.length > 1 ? taken : 0);
    // A value from numbers that overflow on the way is not known.
    if (size > FORMATS[dtype].largest) return this.#add(dtype, sum, Number.POSITIVE_INFINITY);
    return this.#result(dtype, sum, taken, ulps, unit > 0 ? Math.max(scale, ulps * tiny) : 0);
  }

  /** Σ a · b. */
  dot(dtype: DTypeName, a: readonly number[], b: readonly number[]): number {
    let [sum, rest, size, taken, exact] = [0, 0, 0, 0, true];
    let last = Number.POSITIVE_INFINITY;
    for (let i = 0; i < a.length; i++) {
      const [x, y] = [this.value[a[i]!]!, this.value[b[i]!]!];
      const [dx, dy] = [this.error[a[i]!]!, this.error[b[i]!]!];
      last = Math.min(last, lastBit(x) + lastBit(y));
      rest += lost(sum, x * y);
      sum += x * y;
      if (Number.isFinite(x * y)) size += Math.abs(x * y);
      taken +=
        (dx === 0 ? 0 : dx * Math.abs(y)) +
        (dy === 0 ? 0 : dy * Math.abs(x)) +
        (dx === 0 || dy === 0 ? 0 : dx * dy);
      exact &&= dx === 0 && dy === 0;
      this.#operand(a[i]!, y, dy);
      this.#operand(b[i]!, x, dx);
    }
    sum += rest;
    const ulps = exact && isSumExact(dtype, sum, size, last) ? 0 : additions(a.length) + 1;
    if (size > FORMATS[dtype].largest && a.length > 1) return this.#add(dtype, sum, Number.POSITIVE_INFINITY);
    return this.#result(dtype, sum, taken, ulps, size);
  }

  /** f(x) as an entry. */
  curve(
    dtype: DTypeName,
    id: number,
    { f, slope, ulps = 4, scale, slopeScale, jump, waves, exact, flat }: Curve,
  ): number {
    const [x, e] = [this.value[id]!, this.error[id]!];
    const [y, s] = [f(x), slope(x)];
    if (e === Number.POSITIVE_INFINITY || (e > 0 && jump && !(jump(x) > e))) {
      return this.open(dtype, y, [id]);
    }
    /** How much g may differ where x does: most at one of the ends, unless a wave's crest may be between. */
    const spread = (g: (x: number) => number, at: number): number => {
      if (e === 0) return 0;
      if (waves && e > Math.PI / 2) return 2;
      return 1.01 * Math.max(Math.abs(g(x + e) - at), Math.abs(g(x - e) - at));
    };
    if (!flat)
      this.#operand(id, s, spread(slope, s) + 4 * FORMATS[dtype].unit * (slopeScale?.(x) ?? Math.abs(s)));
    const taken = Math.max(spread(f, y), e === 0 || s === 0 ? 0 : Math.abs(s) * e);
    // A unit of the last place is at most two of the relative ones. 16-bit floats are f32's result, rounded.
    const rounds = exact ? 0 : FORMATS[dtype].unit > 2 ** -20 ? 1.1 : 2 * ulps;
    return this.#result(dtype, y, flat ? 0 : taken, rounds, scale?.(x) ?? Math.abs(y));
  }

  /** a / b. */
  quotient(dtype: DTypeName, a: number, b: number): number {
    const [x, y, dx, dy] = [this.value[a]!, this.value[b]!, this.error[a]!, this.error[b]!];
    const q = x / y;
    if (dy > 0 && dy >= Math.abs(y)) {
      return this.open(dtype, q, [a, b]);
    }
    const least = Math.abs(y) - dy;
    const taken = dx === 0 && dy === 0 ? 0 : (dx + Math.abs(q) * dy) / least;
    this.#operand(a, 1 / y, dy === 0 ? 0 : dy / (least * least));
    this.#operand(
      b,
      -q / y,
      (taken + (dy === 0 ? 0 : (Math.abs(q) * dy) / least)) / least +
        4 * FORMATS[dtype].unit * Math.abs(q / y),
    );
    return this.#result(dtype, q, taken, 2, Math.abs(q));
  }

  /** x^z, of x > 0, or of a known whole exponent. */
  power(dtype: DTypeName, a: number, b: number): number {
    const [x, z, dx, dz] = [this.value[a]!, this.value[b]!, this.error[a]!, this.error[b]!];
    const y = pow(x, z);
    const { unit } = FORMATS[dtype];
    if ((dz > 0 && !(x - dx > 0)) || (dx > 0 && dx >= Math.abs(x))) {
      return this.open(dtype, y, [a, b]);
    }
    const corner =
      dx === 0 && dz === 0
        ? []
        : [-1, 0, 1].flatMap((i) => [-1, 0, 1].map((k) => pow(x + i * dx, z + k * dz)));
    const taken = corner.reduce((most, v) => Math.max(most, Math.abs(v - y)), 0) * 1.01;
    const toBase = z === 0 ? 0 : z * pow(x, z - 1);
    const relative =
      Math.abs(dx / x) * Math.abs(z - 1) + (dz > 0 ? dz * (Math.abs(Math.log(x)) + 1 / Math.abs(z)) : 0);
    this.#operand(a, toBase, Math.abs(toBase) * (2 * relative + 32 * unit));
    const toExponent = x === 0 && z >= 0 ? 0 : y * Math.log(x);
    this.#operand(
      b,
      toExponent,
      x > 0
        ? taken * Math.abs(Math.log(x)) + (Math.abs(y) * (2 * dx)) / x + 32 * unit * Math.abs(toExponent)
        : x === 0
          ? 0
          : Number.POSITIVE_INFINITY,
    );
    return this.#result(dtype, y, taken, 32, Math.abs(y));
  }

  /** The remainder of x / z, with the sign of x. */
  remainder(dtype: DTypeName, a: number, b: number): number {
    const [x, z] = [this.value[a]!, this.value[b]!];
    const n = Math.trunc(x / z);
    const near = Math.abs(x / z - Math.round(x / z)) * Math.abs(z);
    const margin =
      this.error[a]! + this.error[b]! * (Math.abs(n) + 1) + 4 * FORMATS[dtype].unit * Math.abs(x);
    this.#operand(a, 1, 0);
    this.#operand(b, -n, 0);
    if (Number.isFinite(x / z) && !this.isExact(a, b) && !(near > margin))
      return this.#add(dtype, x % z, Number.POSITIVE_INFINITY);
    return this.#result(
      dtype,
      x % z,
      this.error[a]! + Math.abs(n) * this.error[b]!,
      this.isExact(a, b) ? 0 : 4,
      Math.abs(x),
    );
  }

  /** Whether rounding leaves it open which of two numbers is larger, or whether they are the same. */
  isOpen(a: number, b: number): boolean {
    const margin = this.error[a]! + this.error[b]!;
    return margin > 0 && !(Math.abs(this.value[a]! - this.value[b]!) > margin);
  }

  /** Those of the entries with the largest (sign 1) or least (−1) value; undefined if rounding decides which they are. */
  #extremes(ids: readonly number[], sign: 1 | -1): number[] | undefined {
    if (ids.some((id) => this.error[id] === Number.POSITIVE_INFINITY)) return undefined;
    let best = ids[0]!;
    for (const id of ids) {
      if (Number.isNaN(this.value[id])) return [id];
      if (sign * this.value[id]! > sign * this.value[best]!) best = id;
    }
    const near = ids.filter(
      (id) => id === best || this.value[id] === this.value[best] || this.isOpen(id, best),
    );
    return near.length === 1 || this.isExact(...near) ? near : undefined;
  }

  /** The largest or least. Where several tie, each is it in part (`share`), or the first is. */
  extreme(dtype: DTypeName, ids: readonly number[], sign: 1 | -1, share: boolean): number {
    const found = this.#extremes(ids, sign);
    if (!found) return this.open(dtype, Number.NaN, ids);
    const to = share ? found : found.slice(0, 1);
    const value = this.value[found[0]!]!;
    if (Number.isNaN(value)) for (const id of ids) this.#operand(id, Number.NaN, Number.POSITIVE_INFINITY);
    else for (const id of to) this.#operand(id, 1 / to.length, to.length > 1 ? 2 * FORMATS[dtype].unit : 0);
    // Of 0 and −0 it may be either.
    const sign0 = value === 0 && found.length > 1 ? FORMATS[dtype].tiny : 0;
    return this.#add(dtype, value, Math.max(...found.map((id) => this.error[id]!), sign0));
  }

  /** The place of the first of the largest or least; of NaN if there is one. */
  place(ids: readonly number[], sign: 1 | -1): number {
    const found = this.#extremes(ids, sign);
    return this.plain('i32', found ? ids.indexOf(found[0]!) : 0, found !== undefined);
  }

  /** Another dtype's nearest number, by what `convert` says. */
  converted(dtype: DTypeName, id: number, convert: (v: number) => number): number {
    const [v, e] = [this.value[id]!, this.error[id]!];
    const [from, to] = [FORMATS[this.#dtype[id]!], FORMATS[dtype]];
    if (to.unit === 0) {
      // Between two numbers that a bool takes for true, 0 may lie.
      const ends = [v - e, v + e, ...(Math.abs(v) < e ? [0] : [])];
      const certain =
        e === 0 || (e < Number.POSITIVE_INFINITY && ends.every((end) => convert(end) === convert(v)));
      return this.plain(dtype, convert(v), certain);
    }
    if (from.unit > 0) this.#operand(id, 1, 0);
    const exact = e === 0 && to.round(v) === v;
    return this.#result(dtype, v, e, exact ? 0 : 1, Math.abs(v));
  }

  /**
   * Derivatives of the entries `of`, one after the other, which are added up as `grad` of a leaf is, each with its error bound.
   * Indexed by entry.
   */
  gradients(of: readonly number[]): Derivatives {
    const [first, ...others] = of.map((id) => this.#derivatives(id));
    if (!first) {
      const none = (): Float64Array => new Float64Array(this.value.length);
      return { value: none(), error: none(), uses: new Uint32Array(this.value.length) };
    }
    return others.reduce((sum, next) => {
      const value = sum.value.map((v, id) => v + next.value[id]!);
      const error = sum.error.map((before, id) => {
        const both = before + next.error[id]!;
        if (sum.uses[id] === 0 || next.uses[id] === 0) return both;
        const { unit, largest } = FORMATS[this.#dtype[id]!];
        const size = Math.abs(value[id]!) + both;
        return size <= largest ? both + unit * size : Number.POSITIVE_INFINITY;
      });
      return { value, error, uses: sum.uses.map((count, id) => count + next.uses[id]!) };
    }, first);
  }

  /** Derivatives of an entry: reverse mode, with the same analysis. */
  #derivatives(of: number): Derivatives {
    const n = this.value.length;
    const [value, rest] = [new Float64Array(n), new Float64Array(n)];
    const [error, size] = [new Float64Array(n), new Float64Array(n)];
    const uses = new Uint32Array(n);
    value[of] = 1;
    let isOpen = false;
    for (let id = n - 1; id >= 0; id--) {
      if (uses[id] === 0 && value[id] === 0) continue;
      value[id]! += rest[id]!;
      const { unit, tiny, largest } = FORMATS[this.#dtype[id]!];
      if (uses[id]! > 1) error[id]! += additions(uses[id]!) * unit * size[id]!;
      if (uses[id]! > 0) error[id]! += tiny * uses[id]!;
      if (!(size[id]! + error[id]! <= largest) || !Number.isFinite(value[id]!)) isOpen = true;
      const [g, dg] = [value[id]!, error[id]!];
      for (let k = this.#first[id]!; k < this.#first[id + 1]!; k++) {
        const [to, slope, doubt] = [this.#from[k]!, this.#slope[k]!, this.#doubt[k]!];
        const part = g * slope;
        rest[to]! += lost(value[to]!, part);
        value[to]! += part;
        size[to]! += Math.abs(part);
        uses[to]!++;
        const finite =
          Number.isFinite(part) && dg < Number.POSITIVE_INFINITY && doubt < Number.POSITIVE_INFINITY;
        if (!finite) error[to] = Number.POSITIVE_INFINITY;
        else {
          // A cast's gradient is rounded to the operand's dtype.
          const rounding = 2 * Math.max(unit, FORMATS[this.#dtype[to]!].unit) * Math.abs(part);
          error[to]! += dg * (Math.abs(slope) + doubt) + Math.abs(g) * doubt + rounding;
        }
      }
    }
    // Where a gradient is not finite, all are open: 0 times it is NaN.
    if (isOpen) error.fill(Number.POSITIVE_INFINITY);
    return { value, error, uses };
  }
}
