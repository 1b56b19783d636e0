/**
 * Softmax, its logarithm, and cross-entropy over contiguous rows on the CPU. f32.
 *
 * A block is one row: its maximum, then exp(x − max) and their sum, then the result. The exponentials wait in memory
 * of the worker, so main memory is read once and written once, whatever `finish` does; rows too long for that have
 * them computed twice. Two vectors at a time, because sums and maxima are chains that wait for themselves.
 *
 * Most of the time goes into the exponential, which is written out below because it can do with 16 operations where the
 * general one takes 24.
 *
 * The sum of a row longer than LEVEL is added up in three levels, so that it is off by as many roundings as a level has
 * turns, not as the row has elements; rows longer than LONGEST, for which three levels are too few, are left to the
 * composition.
 *
 * NaN needs no care in the maximum: it makes the sum NaN, and with it the whole row.
 */
import { f32, i32 } from '../../core/dtype.js';
import type { IrFunction } from '../../kernel/ir/ir-function.js';
import { buffer } from '../../kernel/ir/types.js';
import { defineKernel, type Intrinsics, type Memory } from '../../kernel/language/language.js';
import type { Tiled } from '../tiled.js';

export interface RowsProblem {
  readonly rows: number;
  /** Elements of a row, at least 1. */
  readonly columns: number;
  readonly offset: number;
}

/** Elements that the accumulators of the lowest level take, and turns of the level above. */
const LEVEL = 1024;
const TURNS = 16;
/** Elements of the longest row. */
export const LONGEST = LEVEL * TURNS * 256;

/** Longest row whose exponentials are kept: a quarter of a second-level cache. */
const KEPT = 2 ** 16;

/**
 * 2^24·e^x for x ≤ 0, of a number or a vector: x = n·ln 2 + r, a polynomial for e^r, and a product with 2^(n+24). The
 * factor, which a quotient by the sum does not show, keeps a full fraction for all that is not 0 in the end: a value
 * below 2^−126 is rounded once, where it is divided. 0 below 2^−150, NaN of NaN.
 */
const expOf = (x: number, { fma, bitcast, select, f32, i32 }: Intrinsics) => {
  // Adding 1.5·2^23 rounds to a whole number, which then stands in the low bits: n + 24 + 127, the exponent of 2^(n+24).
  const shifted = fma(x, Math.LOG2E, 12582912 + 151);
  const n = shifted - (12582912 + 151);
  const r = fma(n, 0.00021219444005469057, fma(n, -0.693359375, x));
  const a = fma(fma(0.0013926176119268645, r, 0.008363173074523068), r, 0.041666554662057834);
  const p = fma(fma(fma(fma(a, r, 0.16666577025597906), r, 0.5), r, 1), r, 1);
  const e = p * bitcast(f32, bitcast(i32, shifted) << 23);
  return select(x < -104, 0, e);
};

/** The largest of the `n` elements from x[from] on. */
const largest = (x: Memory, from: number, n: number, context: Intrinsics) => {
  const { lane, load4, select, splat4, f32 } = context;
  let a = splat4(f32(Number.NEGATIVE_INFINITY));
  let b = a;
  const whole = n - (n % 8);
  for (let i = 0; i < whole; i += 8) {
    const p = load4(x, from + i);
    const q = load4(x, from + i + 4);
    a = select(p > a, p, a);
    b = select(q > b, q, b);
  }
  const c = select(b > a, b, a);
  let m = Math.max(Math.max(lane(c, 0), lane(c, 1)), Math.max(lane(c, 2), lane(c, 3)));
  for (let i = whole; i < n; i++) m = Math.max(m, x[from + i]);
  return m;
};

/** 2^24·Σ exp(x − m) over the `n` elements from x[from] on; each term is also put into `kept`, if KEEP. */
const total = (
  x: Memory,
  from: number,
  n: number,
  m: number,
  kept: Memory,
  keep: boolean,
  context: Intrinsics & { readonly expOf: typeof expOf; readonly LEVEL: number; readonly TURNS: number },
) => {
  const { expOf, lane, load4, store4, splat4, f32, LEVEL, TURNS } = context;
  let a = splat4(f32(0));
  let b = splat4(f32(0));
  const whole = n - (n % 8);
  const terms = (begin: number, end: number) => {
    for (let i = begin; i < end; i += 8) {
      const p = expOf(load4(x, from + i) - splat4(m), context);
      const q = expOf(load4(x, from + i + 4) - splat4(m), context);
      a += p;
      b += q;
      if (keep) {
        store4(kept, i, p);
        store4(kept, i + 4, q);
      }
    }
  };
  if (n <= LEVEL) terms(0, whole);
  else {
    let total = splat4(f32(0));
    for (let i = 0; i < whole; i += LEVEL * TURNS) {
      const last = Math.min(i + LEVEL * TURNS, whole);
      let middle = splat4(f32(0));
      for (let j = i; j < last; j += LEVEL) {
        terms(j, Math.min(j + LEVEL, last));
        middle += a + b;
        a = splat4(f32(0));
        b = a;
      }
      total += middle;
    }
    a = total;
  }
  const c = a + b;
  let sum = lane(c, 0) + lane(c, 2) + (lane(c, 1) + lane(c, 3));
  for (let i = whole; i < n; i++) {
    const e = expOf(x[from + i] - m, context);
    sum += e;
    if (keep) kept[i] = e;
  }
  return sum;
};

const HELPERS = { largest, total, expOf, LEVEL, TURNS };

/** @param finish (value, row, column) → the value to store */
export function softmaxRows({ rows, columns, offset }: RowsProblem, log: boolean, finish: IrFunction): Tiled {
  const kernel = defineKernel(
    log ? 'logSoftmax' : 'softmax',
    { x: buffer(f32), y: buffer(f32) },
    ({ x, y }, context) => {
      const {
        blockIdx,
        f32,
        local,
        load4,
        store4,
        splat4,
        largest,
        total,
        expOf,
        finish,
        N,
        X_AT,
        LOG,
        KEEP,
      } = context;
      const row = blockIdx.x;
      const from = X_AT + row * N;
      const to = row * N;
      const kept = local(f32, KEEP ? N : 1);
      const m = largest(x, from, N, context);
      const sum = total(x, from, N, m, kept, KEEP, context);
      const whole = N - (N % 4);
      if (LOG) {
        const shift = Math.log(sum * 2 ** -24);
        for (let i = 0; i < whole; i += 4)
          store4(y, to + i, finish(load4(x, from + i) - splat4(m) - splat4(shift), row, i));
        for (let i = whole; i < N; i++) y[to + i] = finish(x[from + i] - m - shift, row, i);
      } else {
        const scale = f32(1) / sum;
        for (let i = 0; i < whole; i += 4) {
          const e = KEEP ? load4(kept, i) : expOf(load4(x, from + i) - splat4(m), context);
          store4(y, to + i, finish(e * splat4(scale), row, i));
        }
        for (let i = whole; i < N; i++) {
          const e = KEEP ? kept[i] : expOf(x[from + i] - m, context);
          y[to + i] = finish(e * scale, row, i);
        }
      }
    },
    { ...HELPERS, N: columns, X_AT: offset, LOG: log, KEEP: !log && columns <= KEPT, finish },
  );
  return { kernel, blocks: rows };
}

/** The loss of each row: log Σ exp(x − max) + max − x[label]; NaN for a label outside. `finish` takes (value, row). */
export function crossEntropyRows(problem: RowsProblem, labelsAt: number, finish: IrFunction): Tiled {
  const kernel = defineKernel(
    'crossEntropy',
    { x: buffer(f32), labels: buffer(i32), y: buffer(f32) },
    ({ x, labels, y }, context) => {
      const { blockIdx, f32, local, largest, total, finish, N, X_AT, LABELS_AT } = context;
      const row = blockIdx.x;
      const from = X_AT + row * N;
      const m = largest(x, from, N, context);
      const sum = total(x, from, N, m, local(f32, 1), false, context);
      const label = labels[LABELS_AT + row];
      const logit = label >= 0 && label < N ? x[from + label] : f32(Number.NaN);
      y[row] = finish(Math.log(sum * 2 ** -24) - (logit - m), row);
    },
    { ...HELPERS, N: problem.columns, X_AT: problem.offset, LABELS_AT: labelsAt, finish },
  );
  return { kernel, blocks: problem.rows };
}

/** softmax(x) − onehot(label), row by row. `finish` takes (value, row, column). */
export function crossEntropyGradientRows(
  { rows, columns, offset }: RowsProblem,
  labelsAt: number,
  finish: IrFunction,
): Tiled {
  const kernel = defineKernel(
    'crossEntropyGradient',
    { x: buffer(f32), labels: buffer(i32), y: buffer(f32) },
    ({ x, labels, y }, context) => {
      const { blockIdx, f32, local, load4, store4, splat4, vec4, select } = context;
      const { largest, total, expOf, finish, N, X_AT, LABELS_AT, KEEP } = context;
      const row = blockIdx.x;
      const from = X_AT + row * N;
      const to = row * N;
      const kept = local(f32, KEEP ? N : 1);
      const m = largest(x, from, N, context);
      const scale = f32(1) / total(x, from, N, m, kept, KEEP, context);
      const label = labels[LABELS_AT + row];
      const whole = N - (N % 4);
      for (let i = 0; i < whole; i += 4) {
        const e = KEEP ? load4(kept, i) : expOf(load4(x, from + i) - splat4(m), context);
        const hot = select(vec4(0, 1, 2, 3) === splat4(label - i), splat4(f32(1)), splat4(f32(0)));
        store4(y, to + i, finish(e * splat4(scale) - hot, row, i));
      }
      for (let i = whole; i < N; i++) {
        const e = KEEP ? kept[i] : expOf(x[from + i] - m, context);
        y[to + i] = finish(e * scale - (i === label ? f32(1) : f32(0)), row, i);
      }
    },
    { ...HELPERS, N: columns, X_AT: offset, LABELS_AT: labelsAt, KEEP: columns <= KEPT, finish },
  );
  return { kernel, blocks: rows };
}
