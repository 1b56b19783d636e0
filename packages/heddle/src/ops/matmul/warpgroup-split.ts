/**
 * Products of f32 at the accuracy of f32 by warpgroups: each operand in two parts of tf32, three products of these (tf32x3, as
 * tensor-core-split.ts has it by warps). Device functions of warpgroup.ts.
 *
 * A's parts are made on the way to registers: h = tf32(a), l = tf32(a − h), rounded to nearest. B is multiplied where it lies in
 * shared memory, and tensor cores take the upper 19 bits of what they find there: h is b cut off, and only l = tf32(b − h) is
 * written, to a tile beside it, by the producer's other warps. Shared memory limits such products nearly as much as tensor
 * cores do. In units of 128 bytes, what it gives or takes in a cycle, a stage of M rows and N columns has 2·M for the copies of A
 * and their way to registers, and N·(3 + 3·M/64) for B: copied, read and written once to be split, and read three times by each
 * warpgroup. A tile of 128 × 128 takes 1,408 cycles of 1,536 that the products take, one of 256 × 128 2,432 of 3,072.
 *
 * With 2^x ≤ |a| < 2^(x + 1) and 2^y ≤ |b| < 2^(y + 1): |l| is at most 2^(x − 11), of b less than 2^(y − 10), and what l leaves
 * out is at most 2^(x − 23) of a, 2^(y − 22) of b. What h·h + (h·l + l·h) leaves out of a·b is l·l and the products of these:
 * 2⁻²¹ + 2⁻²³ + 2⁻²² = 7·2⁻²³ of |a·b| at most, to first order. Below 2⁻¹¹⁴ l leaves out up to 2⁻¹³⁷, half of the smallest
 * number of tf32, and the product is off by that times the other operand more.
 *
 * Tensor cores cut sums off where CUDA cores round them: over a long K the errors, all of one sign, would grow with K. Here they
 * sum a batch of `level` steps along K, from zero, small terms first; the sums of batches are added in f32, rounded to nearest.
 * Aligned to the largest, each of the 9 addends of an instruction loses less than 2⁻²³ of it, and so does the result: 10·2⁻²³
 * of the batch's Σ|a·b| in each of level/8 instructions, and the small terms lose less than another 2⁻²³. With n/level
 * additions, a sum of n products is off by at most ((8 + 10·level/8)·2⁻²³ + n/level·2⁻²⁴)·Σ|a·b|; that of CUDA cores by n·2⁻²⁴.
 *
 * Two warpgroups multiply by turns: while one adds up its batch, and reads and splits its rows of the next, the other's batch is on the
 * tensor cores. The turn is handed over before the last of the three products, so that the other's first one follows closely.
 *
 * Parts near f32's largest, and their products, may be infinite though the operands and their product are not, and
 * ∞ − ∞ is NaN. So a thread whose sums are not all finite sums them again in f32, from memory.
 */
import type { IrFunction } from '../../kernel/ir/ir-function.js';
import type { Memory } from '../../kernel/language/language.js';
import type { PipelineContext, Ring } from './warpgroup-pipeline.js';
import type { WarpgroupPlace } from './warpgroup-result.js';

/** From a row of A, or a column of B, to the next, and from one element along K to the next. */
interface PlainSteps {
  readonly along: number;
  readonly inner: number;
}

/** How elements of A and B are read one by one. */
export interface PlainOperands {
  /** Where a batch begins. */
  readonly aStart: IrFunction;
  readonly bStart: IrFunction;
  readonly plain: Readonly<Record<'a' | 'b', PlainSteps>>;
}

/** What the device functions below take from the context. */
export interface PartsContext extends PipelineContext, Partial<PlainOperands> {
  readonly cut: typeof cut;
  readonly lowOf: typeof lowOf;
  readonly readParts: typeof readParts;
  readonly startBatch: typeof startBatch;
}

/** What a warpgroup has in registers. */
export interface SplitRegisters {
  /** The sums of a batch. */
  readonly batch: Memory;
  /** Words of the parts of its rows of A. */
  readonly high: Memory;
  readonly low: Memory;
}

/** What tensor cores take of a number. */
function cut(v: number, { bitcast, f32, u32 }: PartsContext): number {
  return bitcast(f32, bitcast(u32, v) & 0xffffe000);
}

/** The low parts of four elements of B. */
function lowOf(v: number, context: PartsContext): number {
  const { cut, lane, tf32, vec4 } = context;
  const low = (n: number) => tf32(lane(v, n) - cut(lane(v, n), context));
  return vec4(low(0), low(1), low(2), low(3));
}

/** Stores the low parts of B's columns, by a warp of those that share them: of what lies along K 16 columns at a time. */
function splitB({ bs, lows }: Ring, stage: number, warp: number, context: PartsContext): void {
  const { f32, idiv, laneId, load4, local4, lowOf, store4, turn, work } = context;
  const { columns, turners } = work;
  if (work.b.turned) {
    const keep = (column: number, k: number, v: number) => {
      store4(bs, stage, 0, column, k, v);
      store4(lows, stage, 0, column, k, lowOf(v, context));
    };
    turn(bs, stage, warp, keep, context);
  } else {
    const k = 4 * (laneId % 8);
    const v = local4(f32, 4);
    for (let first = 16 * warp; first < columns; first += 16 * turners) {
      const column = first + idiv(laneId, 8);
      for (let i = 0; i < 4; i++) v[i] = load4(bs, stage, 0, column + 4 * i, k);
      for (let i = 0; i < 4; i++) store4(lows, stage, 0, column + 4 * i, k, lowOf(v[i]!, context));
    }
  }
}

/**
 * Reads the steps from `k` on of a warpgroup's 64 rows of A, as wgmma takes a left operand in registers, and splits them. The
 * batch that reads the words before is done.
 */
function readParts(
  { high, low }: SplitRegisters,
  as: Memory,
  stage: number,
  part: number,
  k: number,
  steps: number,
  context: PartsContext,
): void {
  const { bitcast, f32, groupBarrier, idiv, lane, laneId, load2, loadMatrix4, rowInTile, tf32 } = context;
  const { threadIdx, u32, warpId, work, THREADS, WARPS } = context;
  const thread = threadIdx.x % THREADS;
  const keep = (n: number, word: number, v: number) => {
    const h = tf32(v);
    high[n][word] = bitcast(u32, h);
    low[n][word] = bitcast(u32, tf32(v - h));
  };
  for (let n = 0; n < idiv(steps, 8); n++) {
    if (work.a.turned) {
      const row = rowInTile(thread, 0, context);
      const panel = part + idiv(row, 32) * 32;
      for (let half = 0; half < 2; half++) {
        const v = load2(as, stage, 0, panel + k + 8 * n + 4 * half + (thread % 4), row % 32);
        keep(n, 2 * half, lane(v, 0));
        keep(n, 2 * half + 1, lane(v, 1));
      }
    } else {
      // Of the 2 × 2 matrices the next is the one below.
      const row = part + 16 * idiv(thread, 32) + (laneId % 8) + 8 * (idiv(laneId, 8) % 2);
      const v = loadMatrix4(as, stage, 0, row, k + 8 * n + 4 * idiv(laneId, 16));
      for (let word = 0; word < 4; word++) keep(n, word, bitcast(f32, lane(v, word)));
    }
  }
  // One lane will say for all that they have read.
  groupBarrier(WARPS + warpId, 32);
}

/** Starts the three products of a batch: the small terms first. */
function startBatch(
  { batch, high, low }: SplitRegisters,
  bs: Memory,
  lows: Memory,
  stage: number,
  k: number,
  steps: number,
  yieldTurn: () => void,
  { commitWgmma, fenceWgmma, idiv, wgmma }: PartsContext,
): void {
  fenceWgmma(batch);
  fenceWgmma(high);
  fenceWgmma(low);
  for (let n = 0; n < idiv(steps, 8); n++) {
    if (n === 0) wgmma(batch, 0, low, n, bs, stage, 0, 0, k, false, false, true);
    else wgmma(batch, 0, low, n, bs, stage, 0, 0, k + 8 * n);
  }
  for (let n = 0; n < idiv(steps, 8); n++) wgmma(batch, 0, high, n, lows, stage, 0, 0, k + 8 * n);
  yieldTurn();
  for (let n = 0; n < idiv(steps, 8); n++) wgmma(batch, 0, high, n, bs, stage, 0, 0, k + 8 * n);
  commitWgmma();
}

/** Adds the products of one stage to the sums of a warpgroup, as soon as it is full, and says that it is empty. */
function multiplySplit(
  sums: Memory,
  own: SplitRegisters,
  ring: Ring,
  stage: number,
  phase: number,
  group: number,
  context: PartsContext,
): void {
  const { arrive, idiv, readParts, startBatch, threadIdx, waitBarrier, waitWgmma } = context;
  const { work, ROWS } = context;
  const { columns, each, filled, groups, level, stages } = work;
  const { as, bs, empty, full, lows, order, turned } = ring;
  const batches = idiv(filled + level - 1, level);
  const before = (phase * stages + stage) * each * batches;
  const isFirstLane = threadIdx.x % 32 === 0;
  waitBarrier(full, stage, phase);
  for (let e = 0; e < each; e++) {
    for (let n = 0; n < batches; n++) {
      const steps = Math.min(level, filled - n * level);
      readParts(own, as, stage, (group * each + e) * ROWS, n * level, steps, context);
      if (e === 0 && n === 0) waitBarrier(turned, stage, phase);
      // When most of the other's batch is on its way: nobody can wait for the phase after the next.
      if (groups === 2) waitBarrier(order, group, before + e * batches + n + group + 1);
      const yieldTurn = () => {
        if (groups === 2 && isFirstLane) arrive(order, 1 - group);
      };
      startBatch(own, bs, lows, stage, n * level, steps, yieldTurn, context);
      waitWgmma(own.batch, 0);
      waitWgmma(own.high, 0);
      waitWgmma(own.low, 0);
      if (e === each - 1 && n === batches - 1 && isFirstLane) arrive(empty, stage);
      for (let i = 0; i < idiv(columns, 2); i++) sums[e][i] = sums[e][i] + own.batch[0][i];
    }
  }
}

/** Whether all sums of a thread are finite. */
function areFinite(sums: Memory, { f32, fma, idiv, local, work }: PartsContext): boolean {
  const { columns, each } = work;
  const zeros = local(f32, 4);
  for (let i = 0; i < 4; i++) zeros[i] = 0;
  for (let e = 0; e < each; e++)
    for (let i = 0; i < idiv(columns, 2); i++) zeros[i % 4] = fma(sums[e][i], 0, zeros[i % 4]);
  return zeros[0] + zeros[1] + (zeros[2] + zeros[3]) === 0;
}

/** Sums a thread's part of a tile from memory in f32, one product after the other. */
function sumPlainly(
  x: Memory,
  y: Memory,
  sums: Memory,
  group: number,
  at: WarpgroupPlace,
  context: PartsContext,
): void {
  const { aStart, bStart, f32, fma, idiv, local, plain, rowInTile, threadIdx, work, ROWS, THREADS } = context;
  const { columns, depth, each, inner, sizes } = work;
  const thread = threadIdx.x % THREADS;
  const { a, b } = plain!;
  const left = aStart!(at.batch);
  const right = bStart!(at.batch);
  const u = local(f32, each, 2);
  for (let e = 0; e < each; e++) for (let i = 0; i < idiv(columns, 2); i++) sums[e][i] = 0;
  let k = at.from * depth;
  const end = Math.min(at.end * depth, inner);
  while (k < end) {
    for (let e = 0; e < each; e++)
      for (let half = 0; half < 2; half++) {
        const row = at.row + (group * each + e) * ROWS + rowInTile(thread, half, context);
        u[e][half] = x[left + Math.min(row, sizes.M - 1) * a.along + k * a.inner];
      }
    for (let i = 0; i < idiv(columns, 4); i++) {
      const column = at.column + 8 * idiv(i, 2) + 2 * (thread % 4) + (i % 2);
      const v = y[right + Math.min(column, sizes.N - 1) * b.along + k * b.inner];
      for (let e = 0; e < each; e++)
        for (let half = 0; half < 2; half++) {
          const to = 4 * idiv(i, 2) + 2 * half + (i % 2);
          sums[e][to] = fma(u[e][half], v, sums[e][to]);
        }
    }
    k += 1;
  }
}

/** The device functions, as constants of a kernel. */
export const SPLIT_PRODUCTS = {
  ...{ cut, lowOf, splitB, readParts, startBatch, multiplySplit, areFinite, sumPlainly },
};
