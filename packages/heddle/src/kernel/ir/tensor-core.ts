/**
 * What a warp's tensor cores compute: D (16 × 8) = A (16 × K) · B (K × 8) + C from the registers of 32 lanes, laid out
 * as NVIDIA's PTX ISA says for mma.m16n8k8, mma.m16n8k16 and mma.m16n8k32. Products of the rounded operands are exact; their sum is
 * formed in f64 here and rounded to f32 once, closer than the hardware's, whose order of adding is not documented.
 */
import type { DType } from '../../core/dtype.js';
import { fromBf16, fromF16 } from '../../core/float16.js';
import type { WarpArguments } from './intrinsic-record.js';

/** How operands lie in the registers of lane (g, t): the column of A and row of B that its values stand at. */
interface Fragment {
  readonly depth: number;
  /** How many values a register holds. */
  readonly width: number;
  /** Value `i` of a register. */
  readonly read: (register: number, i: number) => number;
  /** The place along K of value `i` of a lane with that t, of A and of B. */
  readonly alongA: (i: number, t: number) => number;
  readonly alongB: (i: number, t: number) => number;
  /** Whether value `i` of A belongs to row g + 8. */
  readonly lower: (i: number) => boolean;
}

const words = new DataView(new ArrayBuffer(4));

/** The hardware reads the upper 19 bits only. */
export function cutToTf32(v: number): number {
  words.setFloat32(0, v);
  words.setUint32(0, words.getUint32(0) & 0xffffe000);
  return words.getFloat32(0);
}

const TF32: Fragment = {
  depth: 8,
  width: 1,
  read: cutToTf32,
  alongA: (i, t) => t + (i >> 1) * 4,
  alongB: (i, t) => t + i * 4,
  lower: (i) => i % 2 === 1,
};

/** Of 16 bits: pairs in a register. @param from the number that bits stand for */
const pairs = (from: (bits: number) => number): Fragment => ({
  depth: 16,
  width: 2,
  read: (register, i) => from((register >>> (16 * i)) & 0xffff),
  alongA: (i, t) => 2 * t + (i % 2) + (i >> 2) * 8,
  alongB: (i, t) => 2 * t + (i % 2) + (i >> 1) * 8,
  lower: (i) => (i >> 1) % 2 === 1,
});

/** Of i8: four in a register. */
const BYTES: Fragment = {
  depth: 32,
  width: 4,
  read: (register, i) => (register << (24 - 8 * i)) >> 24,
  alongA: (i, t) => 4 * t + (i % 4) + (i >> 3) * 16,
  alongB: (i, t) => 4 * t + (i % 4) + (i >> 2) * 16,
  lower: (i) => (i >> 2) % 2 === 1,
};

/** @param round a sum to a number of the result's dtype */
const multiply =
  ({ depth, width, read, alongA, alongB, lower }: Fragment, round: (sum: number) => number = Math.fround) =>
  (_t: DType, lanes: WarpArguments): (number[] | undefined)[] => {
    const a = new Float64Array(16 * depth);
    const b = new Float64Array(depth * 8);
    lanes.forEach((args, lane) => {
      if (!args) return;
      const [g, t] = [lane >> 2, lane & 3];
      const [ofA, ofB] = args as [number[], number[]];
      for (let i = 0; i < ofA.length * width; i++)
        a[(g + (lower(i) ? 8 : 0)) * depth + alongA(i, t)] = read(ofA[(i / width) | 0]!, i % width);
      for (let i = 0; i < ofB.length * width; i++)
        b[alongB(i, t) * 8 + g] = read(ofB[(i / width) | 0]!, i % width);
    });
    return lanes.map((args, lane) => {
      if (!args) return undefined;
      const [g, t] = [lane >> 2, lane & 3];
      return (args[2] as number[]).map((c, i) => {
        const row = g + (i >> 1) * 8;
        const column = 2 * t + (i & 1);
        let sum = c;
        for (let k = 0; k < depth; k++) sum += a[row * depth + k]! * b[k * 8 + column]!;
        return round(sum);
      });
    });
  };

/**
 * ldmatrix: lane 8i + r has row r of matrix i, 8 elements of 16 bits; lane (g, t) gets of each matrix those at (g, 2t)
 * and (g, 2t + 1), or transposed at (2t, g) and (2t + 1, g), the first in the lower half.
 */
export const fragments =
  (transposed: boolean) =>
  (_t: DType, lanes: WarpArguments): (number[] | undefined)[] =>
    lanes.map((args, lane) => {
      if (!args) return undefined;
      const [g, t] = [lane >> 2, lane & 3];
      const element = (matrix: number, row: number, column: number): number =>
        ((lanes[8 * matrix + row]?.[0] as number[] | undefined) ?? [])[column] ?? 0;
      return [0, 1, 2, 3].map((matrix) => {
        const [low, high] = [2 * t, 2 * t + 1].map((k) =>
          transposed ? element(matrix, k, g) : element(matrix, g, k),
        );
        return (low! | (high! << 16)) >>> 0;
      });
    });

export const multiplyTf32 = multiply(TF32);
export const multiplyF16 = multiply(pairs(fromF16));
export const multiplyBf16 = multiply(pairs(fromBf16));
/** Sums wrap, as i32 does. */
export const multiplyBytes = multiply(BYTES, (sum) => sum | 0);
