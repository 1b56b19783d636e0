/**
 * Products of f32 at the accuracy of f32 on tensor cores: each operand in two parts of tf32, three products of these (tf32x3).
 * Device functions of tensor-core.ts.
 *
 * a = h + l + e, where h = tf32(a), l = tf32(a − h). With 2^x ≤ |a| < 2^(x + 1): |l| ≤ 2^(x − 11), and a − h, which is
 * exact, has 12 bits, one more than tf32, so that |e| ≤ 2^(x − 23). What h·h + (h·l + l·h) leaves out of a·b is l·l and the
 * products of e: 2⁻²² + 2·2⁻²³ = 2⁻²¹ of |a·b| at most, to first order. Below 2⁻¹¹⁴ e is up to 2⁻¹³⁷, half of the smallest
 * number of tf32, and the product is off by 2⁻¹³⁷·|b| more.
 *
 * Tensor cores cut sums off where CUDA cores round them (Ootomo & Yokota, Recovering single precision accuracy from Tensor Cores
 * while surpassing the FP32 theoretical peak performance, 2022; the parts are those of Markidis et al., NVIDIA Tensor Core
 * Programmability, Performance & Precision, 2018): over a long K the errors, all of one sign, would grow with K. Here
 * they sum the 8 products of a step, from zero, small terms first; the sums of steps are added in f32, rounded to nearest.
 * Aligned to the largest, each of the 9 addends of an instruction loses less than 2⁻²³ of it: 9·2⁻²³ of the step's Σ|a·b|, and the
 * small terms lose less than another 2⁻²³. With n/8 additions, a sum of n products is off by at most
 * (2⁻²¹ + 10·2⁻²³ + n/8·2⁻²⁴)·Σ|a·b|; that of CUDA cores by n·2⁻²⁴.
 *
 * Parts near f32's largest, and their products, may be infinite though the operands and their product are not, and
 * ∞ − ∞ is NaN. So a lane whose sums are not all finite sums them again in f32.
 */
import type { Memory } from '../../kernel/language/language.js';
import type { TilePlace } from './cuda-block.js';
import type { FragmentContext, Lane } from './tensor-core-fragments.js';

/** What the device functions below take from the context. */
interface SplitContext extends FragmentContext {
  readonly clear: (sums: Memory, context: FragmentContext) => void;
  readonly splitStep: typeof splitStep;
}

/** Splits the fragments of f32 at place `from` into their high parts, at place 2, and low ones, at place 3. */
function splitStep(as: Memory, bs: Memory, from: number, context: SplitContext): void {
  const { bitcast, f32, fragments, lane, tf32, u32, vec2, vec4 } = context;
  const { each } = fragments;
  const high = (v: number, n: number) => bitcast(u32, tf32(bitcast(f32, lane(v, n))));
  const low = (v: number, h: number, n: number) =>
    bitcast(u32, tf32(bitcast(f32, lane(v, n)) - bitcast(f32, lane(h, n))));
  for (let i = 0; i < each[0]; i++) {
    const v = as[from][i];
    const h = vec4(high(v, 0), high(v, 1), high(v, 2), high(v, 3));
    as[2][i] = h;
    as[3][i] = vec4(low(v, h, 0), low(v, h, 1), low(v, h, 2), low(v, h, 3));
  }
  for (let j = 0; j < each[1]; j++) {
    const v = bs[from][j];
    const h = vec2(high(v, 0), high(v, 1));
    bs[2][j] = h;
    bs[3][j] = vec2(low(v, h, 0), low(v, h, 1));
  }
}

/**
 * Adds the products of the fragments at place `from` at the accuracy of f32: row by row, so that a product does not wait
 * for the one before, to which it is added.
 */
function multiplySplit(own: Lane, from: number, context: SplitContext): void {
  const { f32, fragments, local4, multiplyTf32, splat4, splitStep } = context;
  const { each } = fragments;
  const { as, bs, sums } = own;
  const row = local4(f32, each[1]);
  splitStep(as, bs, from, context);
  for (let i = 0; i < each[0]; i++) {
    for (let j = 0; j < each[1]; j++) row[j] = multiplyTf32(as[3][i], bs[2][j], splat4(0), context);
    for (let j = 0; j < each[1]; j++) row[j] = multiplyTf32(as[2][i], bs[3][j], row[j], context);
    for (let j = 0; j < each[1]; j++) row[j] = multiplyTf32(as[2][i], bs[2][j], row[j], context);
    for (let j = 0; j < each[1]; j++) sums[i][j] = sums[i][j] + row[j];
  }
}

/** Whether all sums of a lane are finite. */
function areFinite(sums: Memory, { f32, fma, fragments, lane }: SplitContext): boolean {
  const { each } = fragments;
  let zero = f32(0);
  for (let i = 0; i < each[0]; i++)
    for (let j = 0; j < each[1]; j++) for (let n = 0; n < 4; n++) zero = fma(lane(sums[i][j], n), 0, zero);
  return zero === 0;
}

/** Sums a lane's part of a piece from memory in f32, one product after the other. */
function sumPlainly(
  a: Memory,
  b: Memory,
  sums: Memory,
  piece: number,
  at: TilePlace,
  context: SplitContext,
): void {
  const { clear, f32, fma, fragments, idiv, lane, laneId, local, vec4, work } = context;
  const { each } = fragments;
  const { a: A, b: B, chunks, depth, pieces, sizes, warps } = work;
  const firstRow = at.row + at.warpRow + idiv(laneId, 4);
  const firstColumn = at.column + at.warpColumn + 2 * (laneId % 4);
  const x = local(f32, each[0], 2);
  const y = local(f32, each[1], 2);
  clear(sums, context);
  let chunk = (at.split * pieces + piece) * chunks;
  const end = chunk + chunks;
  while (chunk < end) {
    let k = chunk * depth + at.share * (depth / warps.K);
    const last = Math.min(k + depth / warps.K, A.inner);
    while (k < last) {
      for (let i = 0; i < each[0]; i++)
        for (let n = 0; n < 2; n++) {
          const row = Math.min(firstRow + i * 16 + n * 8, sizes.M - 1);
          x[i][n] = a[at.left + row * A.rowStep + k * A.innerStep];
        }
      for (let j = 0; j < each[1]; j++)
        for (let n = 0; n < 2; n++) {
          const column = Math.min(firstColumn + j * 8 + n, sizes.N - 1);
          y[j][n] = b[at.right + column * B.rowStep + k * B.innerStep];
        }
      for (let i = 0; i < each[0]; i++)
        for (let j = 0; j < each[1]; j++) {
          const v = sums[i][j];
          sums[i][j] = vec4(
            fma(x[i][0], y[j][0], lane(v, 0)),
            fma(x[i][0], y[j][1], lane(v, 1)),
            fma(x[i][1], y[j][0], lane(v, 2)),
            fma(x[i][1], y[j][1], lane(v, 3)),
          );
        }
      k += 1;
    }
    chunk += 1;
  }
}

/** The device functions, as constants of a kernel. */
export const SPLIT = { splitStep, multiplySplit, areFinite, sumPlainly };
