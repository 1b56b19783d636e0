/**
 * The fragments that a warp's tensor cores multiply, from the tiles of A and B in shared memory: how they are read, rounded and
 * multiplied. Device functions of tensor-core.ts.
 */
import type { DType } from '../../core/dtype.js';
import type { Arithmetic } from '../../core/precision.js';
import type { Memory } from '../../kernel/language/language.js';
import type { BlockContext, TilePlace } from './cuda-block.js';
import type { Panel } from './cuda-panel.js';

/** What tensor cores multiply: tf32x3 is f32 in two parts, see tensor-core-split.ts. */
export type TensorOperand = Exclude<Arithmetic, 'f32'> | 'tf32x3' | 'i8';

/** Steps along K of an mma; of i8 in words of four. */
export const stepOf = (operand: TensorOperand): number => (operand === 'f16' || operand === 'bf16' ? 16 : 8);

/** How fragments are made and multiplied. */
export interface Fragments {
  /** Pieces of 16 rows and of 8 columns that a warp sums. */
  readonly each: readonly [number, number];
  /** Steps along K of an mma. */
  readonly step: number;
  /** What the tiles of A and B hold. */
  readonly element: DType;
  /** What an mma multiplies. */
  readonly operand: TensorOperand;
  /** A and B are of 16 bits, as mma takes them; else they are f32, to be rounded. */
  readonly half: boolean;
}

/** What a lane has of the tile. */
export interface Lane {
  readonly sums: Memory;
  /**
   * Fragments, as bits: of the step in use and of the next. f32 that becomes bf16 passes through two more, and the high
   * and low parts of tf32x3 are in these.
   */
  readonly as: Memory;
  readonly bs: Memory;
  /** Where it reads the first of them in a stage. */
  readonly aAt: number;
  readonly bAt: number;
}

/** What the device functions below take from the context. */
export interface FragmentContext extends BlockContext {
  readonly fragments: Fragments;
  readonly readA: typeof readA;
  readonly readB: typeof readB;
  readonly roundToTf32: typeof roundToTf32;
  readonly packToBf16: typeof packToBf16;
  readonly multiplyTf32: typeof multiplyTf32;
}

/** Begins the sums of a warp. */
function clear(sums: Memory, { fragments, splat4 }: FragmentContext): void {
  const { each } = fragments;
  for (let i = 0; i < each[0]; i++) for (let j = 0; j < each[1]; j++) sums[i][j] = splat4(0);
}

/**
 * Where a lane reads its first fragment in a panel: of ldmatrix its row of one of 2 × 2 matrices, `down` along the
 * panel's rows and `along` K.
 */
function startOfLane(
  P: Panel,
  first: number,
  down: number,
  along: number,
  at: TilePlace,
  context: FragmentContext,
): number {
  const { fragments, idiv, laneId, work } = context;
  const { half } = fragments;
  const line = laneId % 8;
  // A warp's share of the steps of a copy.
  const step = at.share * (work.depth / work.warps.K);
  const begin = P.kMajor ? idiv(step, P.perStep) : step * P.pitch;
  if (P.kMajor) return begin + (first + line + 8 * down) * P.pitch + (16 / P.bytes) * along;
  if (half) return begin + (line + 8 * along) * P.pitch + idiv(first + 8 * down, P.perRow);
  return begin + (laneId % 4) * P.pitch + first + idiv(laneId, 4);
}

/** Reads the fragments of A that begin `at`, one for each 16 rows, to `as[to]`. */
function readA(as: Memory, to: number, held: Memory, at: number, context: FragmentContext): void {
  const { bitcast, fragments, idiv, loadMatrix4, loadMatrix4Transposed, u32, vec4, work } = context;
  const { each, half } = fragments;
  const { kMajor, perRow, pitch } = work.a;
  if (kMajor) for (let i = 0; i < each[0]; i++) as[to][i] = loadMatrix4(held, at + i * (16 * pitch));
  else if (half)
    for (let i = 0; i < each[0]; i++) as[to][i] = loadMatrix4Transposed(held, at + idiv(i * 16, perRow));
  else {
    const bits = (row: number, step: number) => bitcast(u32, held[at + row + step * pitch]);
    for (let i = 0; i < each[0]; i++) {
      const row = i * 16;
      as[to][i] = vec4(bits(row, 0), bits(row + 8, 0), bits(row, 4), bits(row + 8, 4));
    }
  }
}

/** Reads the fragments of B that begin `at`, one for each 8 columns, to `bs[to]`. */
function readB(bs: Memory, to: number, held: Memory, at: number, context: FragmentContext): void {
  const { bitcast, fragments, idiv, lane, loadMatrix4, loadMatrix4Transposed, u32, vec2, work } = context;
  const { each, half } = fragments;
  const { kMajor, perRow, pitch } = work.b;
  if (kMajor || half) {
    for (let j = 0; j < each[1]; j += 2) {
      const v = kMajor
        ? loadMatrix4(held, at + j * (8 * pitch))
        : loadMatrix4Transposed(held, at + idiv(j * 8, perRow));
      bs[to][j] = vec2(lane(v, 0), lane(v, 1));
      bs[to][j + 1] = vec2(lane(v, 2), lane(v, 3));
    }
  } else {
    const bits = (column: number, step: number) => bitcast(u32, held[at + column + step * pitch]);
    for (let j = 0; j < each[1]; j++) bs[to][j] = vec2(bits(j * 8, 0), bits(j * 8, 4));
  }
}

/** Reads the fragments of the steps from k on of a stage, as mma takes them, to place `to`. */
function readStep(
  own: Lane,
  to: number,
  held: Memory,
  stage: number,
  k: number,
  context: FragmentContext,
): void {
  const { fragments, idiv, packToBf16, readA, readB, roundToTf32, work } = context;
  const { as, bs } = own;
  const { a, b, stages } = work;
  const read = (to: number, k: number) => {
    const aStep = a.kMajor ? idiv(k, a.perStep) : k * a.pitch;
    const bStep = b.kMajor ? idiv(k, b.perStep) : k * b.pitch;
    readA(as, to, held, stage * stages.elements + own.aAt + aStep, context);
    readB(bs, to, held, stage * stages.elements + own.bAt + bStep, context);
  };
  if (fragments.operand === 'bf16' && !fragments.half) {
    for (let s = 0; s < 2; s++) read(2 + s, k + 8 * s);
    packToBf16(as, bs, to, context);
  } else {
    read(to, k);
    if (fragments.operand === 'tf32') roundToTf32(as, bs, to, context);
  }
}

/** Rounds the fragments of f32 at place `to`. */
function roundToTf32(as: Memory, bs: Memory, to: number, context: FragmentContext): void {
  const { bitcast, f32, fragments, lane, tf32, u32, vec2, vec4 } = context;
  const { each } = fragments;
  const near = (v: number, n: number) => bitcast(u32, tf32(bitcast(f32, lane(v, n))));
  for (let i = 0; i < each[0]; i++) {
    const v = as[to][i];
    as[to][i] = vec4(near(v, 0), near(v, 1), near(v, 2), near(v, 3));
  }
  for (let j = 0; j < each[1]; j++) bs[to][j] = vec2(near(bs[to][j], 0), near(bs[to][j], 1));
}

/** Rounds the fragments of f32 at places 2 and 3, of 8 steps each, and pairs them at place `to`. */
function packToBf16(as: Memory, bs: Memory, to: number, context: FragmentContext): void {
  const { bf16, bitcast, f32, fragments, lane, u32, vec2, vec4 } = context;
  const { each } = fragments;
  const pair = (low: number, high: number) =>
    (bitcast(u32, f32(bf16(bitcast(f32, low)))) >> 16) | bitcast(u32, f32(bf16(bitcast(f32, high))));
  for (let i = 0; i < each[0]; i++) {
    const v = as[2][i];
    const w = as[3][i];
    as[to][i] = vec4(
      pair(lane(v, 0), lane(v, 2)),
      pair(lane(v, 1), lane(v, 3)),
      pair(lane(w, 0), lane(w, 2)),
      pair(lane(w, 1), lane(w, 3)),
    );
  }
  for (let j = 0; j < each[1]; j++) {
    bs[to][j] = vec2(pair(lane(bs[2][j], 0), lane(bs[2][j], 1)), pair(lane(bs[3][j], 0), lane(bs[3][j], 1)));
  }
}

/** A fragment of A by one of B in tf32, added to `sum`. */
function multiplyTf32(v: number, w: number, sum: number, context: FragmentContext): number {
  const { bitcast, f32, lane, mma, vec2, vec4 } = context;
  const x = (k: number) => bitcast(f32, lane(v, k));
  const y = (k: number) => bitcast(f32, lane(w, k));
  return mma(vec4(x(0), x(1), x(2), x(3)), vec2(y(0), y(1)), sum);
}

/** Adds the products of the fragments at place `from`. */
function multiplyStep(own: Lane, from: number, context: FragmentContext): void {
  const { fragments, mmaBf16, mmaF16, mmaI8, multiplyTf32 } = context;
  const { each, operand } = fragments;
  const { as, bs, sums } = own;
  for (let i = 0; i < each[0]; i++) {
    const v = as[from][i];
    for (let j = 0; j < each[1]; j++) {
      const w = bs[from][j];
      if (operand === 'tf32') sums[i][j] = multiplyTf32(v, w, sums[i][j], context);
      else if (operand === 'i8') sums[i][j] = mmaI8(v, w, sums[i][j]);
      else if (operand === 'f16') sums[i][j] = mmaF16(v, w, sums[i][j]);
      else sums[i][j] = mmaBf16(v, w, sums[i][j]);
    }
  }
}

/** The device functions, as constants of a kernel. */
export const FRAGMENTS = {
  clear,
  startOfLane,
  readA,
  readB,
  readStep,
  roundToTf32,
  packToBf16,
  multiplyTf32,
  multiplyStep,
};
