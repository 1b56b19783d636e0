/** The reduction of the values that several ranks have, on the host. */
import { DTYPES, type DTypeName, type TypedArray, viewAs } from '../core/dtype.js';
import { f32ToBf16, f32ToF16, fromBf16, fromF16 } from '../core/float16.js';
import type { ReductionOp } from './transport.js';

type NumberArray = Exclude<TypedArray, BigInt64Array>;

/** acc = acc ∘ values, for the first `n`. */
type Combine<A> = (acc: A, values: A, n: number) => void;

/** Storing into a typed array rounds to f32, or takes the number modulo 2⁸, 2¹⁶ or 2³². */
const NUMBERS: Readonly<Record<ReductionOp, Combine<NumberArray>>> = {
  sum: (acc, values, n) => {
    for (let i = 0; i < n; i++) acc[i]! += values[i]!;
  },
  prod: (acc, values, n) => {
    for (let i = 0; i < n; i++) acc[i]! *= values[i]!;
  },
  min: (acc, values, n) => {
    for (let i = 0; i < n; i++) acc[i] = Math.min(acc[i]!, values[i]!);
  },
  max: (acc, values, n) => {
    for (let i = 0; i < n; i++) acc[i] = Math.max(acc[i]!, values[i]!);
  },
};

/** A product of 32-bit integers may have more bits than a number holds. */
const multiplyIntegers: Combine<NumberArray> = (acc, values, n) => {
  for (let i = 0; i < n; i++) acc[i] = Math.imul(acc[i]!, values[i]!);
};

const BIGINTS: Readonly<Record<ReductionOp, Combine<BigInt64Array>>> = {
  sum: (acc, values, n) => {
    for (let i = 0; i < n; i++) acc[i]! += values[i]!;
  },
  prod: (acc, values, n) => {
    for (let i = 0; i < n; i++) acc[i]! *= values[i]!;
  },
  min: (acc, values, n) => {
    for (let i = 0; i < n; i++) if (values[i]! < acc[i]!) acc[i] = values[i]!;
  },
  max: (acc, values, n) => {
    for (let i = 0; i < n; i++) if (values[i]! > acc[i]!) acc[i] = values[i]!;
  },
};

/** Of bytes that are 0 or 1, any is the largest and all the smallest. */
const BOOLS: Readonly<Record<ReductionOp, ReductionOp>> = { sum: 'max', prod: 'min', min: 'min', max: 'max' };

/** The 16-bit floats: the number of their bits, and their bits of those of f32. */
const HALVES = {
  f16: { from: fromF16, to: f32ToF16 },
  bf16: { from: fromBf16, to: f32ToBf16 },
} as const;
const decoded: Partial<Record<DTypeName, Float32Array>> = {};

/** Elements that are reduced at a time: they stay in the processor's first cache. */
const STEP = 2048;

/**
 * `to` = the reduction of `sources`, in their order, element by element: the same bits wherever it is computed. 16-bit floats
 * are combined in f32 and rounded once, NaN stays NaN. All have the same number of bytes; `to` may be one of `sources`.
 */
export function reduceInOrder(
  op: ReductionOp,
  dtype: DTypeName,
  sources: readonly Uint8Array[],
  to: Uint8Array,
): void {
  const t = DTYPES[dtype];
  const see = ({ buffer, byteOffset, length }: Uint8Array): TypedArray =>
    viewAs(t, buffer, byteOffset, length / t.bytes);
  const arrays = sources.map(see);
  const target = see(to);
  if (target instanceof BigInt64Array) {
    reduceSteps(arrays as BigInt64Array[], target, new BigInt64Array(STEP), BIGINTS[op]);
  } else if (dtype === 'f16' || dtype === 'bf16') {
    reduceHalves(dtype, arrays as Uint16Array[], target as Uint16Array, NUMBERS[op]);
  } else {
    const integers = t.kind === 'int' || t.kind === 'uint';
    const combine = integers && op === 'prod' ? multiplyIntegers : NUMBERS[dtype === 'bool' ? BOOLS[op] : op];
    const room = viewAs(t, new ArrayBuffer(STEP * t.bytes), 0, STEP) as NumberArray;
    reduceSteps(arrays as NumberArray[], target as NumberArray, room, combine);
  }
}

interface Steps<A> {
  readonly length: number;
  subarray(begin: number, end: number): A;
  set(values: A, at?: number): void;
}

function reduceSteps<A extends Steps<A>>(sources: readonly A[], to: A, acc: A, combine: Combine<A>): void {
  for (let at = 0; at < to.length; at += STEP) {
    const end = Math.min(at + STEP, to.length);
    const n = end - at;
    acc.set(sources[0]!.subarray(at, end));
    for (let s = 1; s < sources.length; s++) combine(acc, sources[s]!.subarray(at, end), n);
    to.set(acc.subarray(0, n), at);
  }
}

function reduceHalves(
  dtype: 'f16' | 'bf16',
  sources: readonly Uint16Array[],
  to: Uint16Array,
  combine: Combine<NumberArray>,
): void {
  const { from, to: encode } = HALVES[dtype];
  decoded[dtype] ??= Float32Array.from({ length: 2 ** 16 }, (_, bits) => from(bits));
  const table = decoded[dtype];
  const acc = new Float32Array(STEP);
  const accBits = new Uint32Array(acc.buffer);
  const values = new Float32Array(STEP);
  const decode = (source: Uint16Array, at: number, n: number, into: Float32Array): void => {
    for (let i = 0; i < n; i++) into[i] = table[source[at + i]!]!;
  };
  for (let at = 0; at < to.length; at += STEP) {
    const n = Math.min(STEP, to.length - at);
    decode(sources[0]!, at, n, acc);
    for (let s = 1; s < sources.length; s++) {
      decode(sources[s]!, at, n, values);
      combine(acc, values, n);
    }
    for (let i = 0; i < n; i++) to[at + i] = encode(accBits[i]!);
  }
}
