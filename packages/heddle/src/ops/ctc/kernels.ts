/**
 * The recursions of CTC, one launch each: a block takes an example through all steps, on a GPU with a thread for a label,
 * and waits for all of them after each step. f32.
 */
import { f32 } from '../../core/dtype.js';
import type { KernelIr } from '../../kernel/ir/ir.js';
import { buffer } from '../../kernel/ir/types.js';
import { defineKernel, type Intrinsics, type Memory } from '../../kernel/language/language.js';

export interface CtcProblem {
  readonly steps: number;
  readonly rows: number;
  /** Labels with the blanks around them. */
  readonly length: number;
  readonly offsets: readonly number[];
  /** Whether a thread is a label; else a block takes all. */
  readonly isGpu: boolean;
}

/** Stands for the logarithm of 0: sums of it stay finite. */
export const LOWEST = -1e30;

/** Threads of a block on a GPU. */
export const threadsOf = (length: number): number => Math.min(512, Math.ceil(length / 32) * 32);

interface CtcConstants {
  readonly steps: number;
  readonly rows: number;
  readonly length: number;
  readonly lowest: number;
  readonly eAt: number;
  readonly skipAt: number;
  readonly gAt: number;
  readonly aAt: number;
}

/** Label s of example n after step t; a (T, N, L) is read at t − 1. */
const forwardAt = (
  n: number,
  s: number,
  t: number,
  e: Memory,
  skip: Memory,
  a: Memory,
  { rows, length, lowest, eAt, skipAt, f32 }: Intrinsics & CtcConstants,
) => {
  const to = (t * rows + n) * length + s;
  if (t === 0) {
    let v = f32(lowest);
    if (s < 2) v = e[eAt + to];
    a[to] = v;
  } else {
    const from = to - rows * length;
    const p = a[from];
    let q = f32(lowest);
    let r = f32(lowest);
    if (s > 0) q = a[from - 1];
    if (s > 1) r = a[from - 2] + skip[skipAt + n * length + s];
    const most = Math.max(Math.max(p, q), r);
    a[to] = e[eAt + to] + (most + Math.log(Math.exp(p - most) + Math.exp(q - most) + Math.exp(r - most)));
  }
};

/** Label s of example n of the gradient's step t; d (T, N, L) is read at t + 1. */
const backwardAt = (
  n: number,
  s: number,
  t: number,
  g: Memory,
  a: Memory,
  e: Memory,
  skip: Memory,
  d: Memory,
  { steps, rows, length, gAt, aAt, eAt, skipAt }: Intrinsics & CtcConstants,
) => {
  const to = (t * rows + n) * length + s;
  let sum = g[gAt + to];
  if (t < steps - 1) {
    const later = to + rows * length;
    const own = a[aAt + to];
    sum = sum + d[later] * Math.exp(own - (a[aAt + later] - e[eAt + later]));
    if (s < length - 1) sum = sum + d[later + 1] * Math.exp(own - (a[aAt + later + 1] - e[eAt + later + 1]));
    if (s < length - 2) {
      const start = own + skip[skipAt + n * length + s + 2];
      sum = sum + d[later + 2] * Math.exp(start - (a[aAt + later + 2] - e[eAt + later + 2]));
    }
  }
  d[to] = sum;
};

/** e (T, N, L), skip (N, L) → a (T, N, L). */
export function forwardVariables({ steps, rows, length, offsets, isGpu }: CtcProblem): KernelIr {
  const [eAt, skipAt] = offsets as [number, number];
  const f = buffer(f32);
  return defineKernel(
    'ctc',
    { e: f, skip: f, a: f },
    ({ e, skip, a }, context) => {
      const { blockIdx, threadIdx, barrier, isGpu, steps, length, threads, forwardAt } = context;
      const n = blockIdx.x;
      for (let t = 0; t < steps; t++) {
        if (isGpu) {
          for (let s = threadIdx.x; s < length; s += threads) forwardAt(n, s, t, e, skip, a, context);
          barrier();
        } else {
          for (let s = 0; s < length; s++) forwardAt(n, s, t, e, skip, a, context);
        }
      }
    },
    {
      ...{ steps, rows, length, isGpu, lowest: LOWEST, threads: threadsOf(length) },
      ...{ eAt, skipAt, gAt: 0, aAt: 0, forwardAt },
    },
  );
}

/** g, a, e (T, N, L), skip (N, L) → d (T, N, L). */
export function backwardVariables({ steps, rows, length, offsets, isGpu }: CtcProblem): KernelIr {
  const [gAt, aAt, eAt, skipAt] = offsets as [number, number, number, number];
  const f = buffer(f32);
  return defineKernel(
    'ctcGradient',
    { g: f, a: f, e: f, skip: f, d: f },
    ({ g, a, e, skip, d }, context) => {
      const { blockIdx, threadIdx, barrier, isGpu, steps, length, threads, backwardAt } = context;
      const n = blockIdx.x;
      for (let i = 0; i < steps; i++) {
        const t = steps - 1 - i;
        if (isGpu) {
          for (let s = threadIdx.x; s < length; s += threads) backwardAt(n, s, t, g, a, e, skip, d, context);
          barrier();
        } else {
          for (let s = 0; s < length; s++) backwardAt(n, s, t, g, a, e, skip, d, context);
        }
      }
    },
    {
      ...{ steps, rows, length, isGpu, lowest: LOWEST, threads: threadsOf(length) },
      ...{ eAt, skipAt, gAt, aAt, backwardAt },
    },
  );
}
