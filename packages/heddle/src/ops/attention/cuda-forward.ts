/**
 * Attention on tensor cores by mma (FlashAttention-2; Dao, 2023). A block takes some rows of queries of one head, 16 for
 * each warp, and meets one tile of keys and values after the other. Of the scores that a warp has of a tile it knows the
 * largest so far, m, and sums powers relative to it; a larger m makes the sums and the output so far smaller. At the end the
 * output is divided by the sum. The next tile is copied meanwhile.
 *
 * With a causal mask, tiles that are too late are not met, and the longest rows of blocks begin first.
 */
import { f32 } from '../../core/dtype.js';
import { buffer } from '../../kernel/ir/types.js';
import { defineKernel, type Memory } from '../../kernel/language/language.js';
import type { GridKernel } from '../tiled.js';
import type { AttentionProblem } from './problem.js';
import { sources, WARP, type WarpContext, type WarpTile, warpWork } from './warp.js';

/** What is wanted of a forward pass. */
export interface ForwardResults {
  readonly output: boolean;
  readonly logSumExp: boolean;
}

interface Context extends WarpContext {
  readonly results: ForwardResults;
  readonly softmaxStep: typeof softmaxStep;
}

/**
 * Makes powers of scores relative to the largest so far, and the factor by which what was summed before is smaller.
 * @param most of the lane's two rows, and `totals` of their powers
 */
function softmaxStep(
  sums: Memory,
  count: number,
  most: Memory,
  totals: Memory,
  factors: Memory,
  context: Context,
): void {
  const { exp2, idiv, lane, select, shuffleXor, vec4, work } = context;
  for (let half = 0; half < 2; half++) {
    let now = most[half];
    for (let j = 0; j < idiv(count, 8); j++)
      now = Math.max(now, Math.max(lane(sums[j], 2 * half), lane(sums[j], 2 * half + 1)));
    now = Math.max(now, shuffleXor(now, 1));
    now = Math.max(now, shuffleXor(now, 2));
    // Of a row that may attend to nothing yet, all powers are 0.
    const base = work.hasMask ? select(now === -Infinity, 0, now) : now;
    factors[half] = exp2(most[half] - base);
    most[half] = now;
    factors[2 + half] = base;
    totals[half] = totals[half] * factors[half];
  }
  for (let j = 0; j < idiv(count, 8); j++) {
    const v = sums[j];
    const power = (i: number) => exp2(lane(v, i) - factors[2 + idiv(i, 2)]);
    const p = vec4(power(0), power(1), power(2), power(3));
    totals[0] = totals[0] + (lane(p, 0) + lane(p, 1));
    totals[1] = totals[1] + (lane(p, 2) + lane(p, 3));
    sums[j] = p;
  }
}

/** The output and the log-sum-exp, or one of them. */
export function attentionWarps(p: AttentionProblem, tile: WarpTile, results: ForwardResults): GridKernel {
  const work = warpWork(p, tile);
  const down = Math.ceil(p.queries / work.rows);
  const kernel = defineKernel(
    'attention',
    {
      ...sources(work, 'q', 'k', 'v'),
      ...(results.output && { output: buffer(p.dtype) }),
      ...(results.logSumExp && { logSumExp: buffer(f32) }),
    } as Record<'q' | 'k' | 'v' | 'mask' | 'counter' | 'output' | 'logSumExp', ReturnType<typeof buffer>>,
    (given, context) => {
      const { barrier, blockIdx, commitCopies, f32, idiv, laneId, local, local4, select } = context;
      const { shared, shuffleXor, u32, vec4, waitCopies, warpId } = context;
      const { clear, copyTile, markDropped, multiplyColumns, multiplyRows, readRows } = context;
      const { softmaxStep, storeRow, toOperand, toScores } = context;
      const { down, results, work } = context;
      const { batch, heads, isCausal, keys, queries, rows, sharing, tile, width } = work;
      const { across, stages } = tile;
      const qs = shared(work.element, 1, rows, work.pitch);
      const ks = shared(work.element, stages, across, work.pitch);
      const vs = shared(work.element, stages, across, work.pitch);
      const own = local4(u32, idiv(width, 16));
      const scores = local4(f32, idiv(across, 8));
      const weights = local4(u32, idiv(across, 16));
      const sums = local4(f32, idiv(width, 8));
      const most = local(f32, 2);
      const totals = local(f32, 2);
      const factors = local(f32, 4);

      const b = blockIdx.x % batch;
      const h = idiv(blockIdx.x, batch) % heads;
      const shares = idiv(h, sharing);
      const first = (down - 1 - idiv(blockIdx.x, batch * heads)) * rows;
      const atQ = work.q.offset + b * work.q.batch + h * work.q.head;
      const atK = work.k.offset + b * work.k.batch + shares * work.k.head;
      const atV = work.v.offset + b * work.v.batch + shares * work.v.head;
      const maskAt = work.mask.offset + b * work.mask.batch + h * work.mask.head;
      const mask = work.hasMask ? given.mask : given.q;
      const head = b * heads + h;
      const end = isCausal ? Math.min(keys, first + rows) : keys;
      const tiles = idiv(end + across - 1, across);
      const row = first + 16 * warpId + idiv(laneId, 4);
      const copy = (n: number) => {
        const stage = n % stages;
        copyTile(ks, stage, across, given.k, atK, work.k, n * across, keys, context);
        if (results.output) copyTile(vs, stage, across, given.v, atV, work.v, n * across, keys, context);
      };

      copyTile(qs, 0, rows, given.q, atQ, work.q, first, queries, context);
      copy(0);
      commitCopies();
      clear(sums, idiv(width, 8), context);
      for (let half = 0; half < 2; half++) {
        most[half] = -Infinity;
        totals[half] = 0;
      }
      for (let n = 0; n < tiles; n++) {
        if (n + 1 < tiles) copy(n + 1);
        commitCopies();
        waitCopies(1);
        barrier();
        const stage = n % stages;
        readRows(own, qs, 0, 16 * warpId, context);
        clear(scores, idiv(across, 8), context);
        multiplyRows(scores, own, ks, stage, across, context);
        const column = n * across + 2 * (laneId % 4);
        const isLate = isCausal && (n + 1) * across > first + 16 * warpId + 1;
        if (isLate || (n + 1) * across > keys)
          toScores(scores, across, row, column, maskAt, true, false, mask, context);
        else toScores(scores, across, row, column, maskAt, false, false, mask, context);
        softmaxStep(scores, across, most, totals, factors, context);
        if (results.output) {
          markDropped(scores, across, given, head, first + 16 * warpId, n * across, false, context);
          toOperand(weights, scores, across, true, context);
          for (let j = 0; j < idiv(width, 8); j++)
            sums[j] = sums[j] * vec4(factors[0], factors[0], factors[1], factors[1]);
          multiplyColumns(sums, weights, vs, stage, across, context);
        }
        barrier();
      }

      for (let half = 0; half < 2; half++) {
        let total = totals[half];
        total = total + shuffleXor(total, 1);
        total = total + shuffleXor(total, 2);
        const query = row + 8 * half;
        const isClosed = work.hasMask ? total === 0 : false;
        if (query < queries) {
          if (results.output) {
            const at = ((b * queries + query) * heads + h) * width;
            storeRow(given.output, at, sums, half, select(isClosed, 0, work.drop.factor / total), context);
          }
          if (results.logSumExp && laneId % 4 === 0)
            given.logSumExp[head * queries + query] = select(
              isClosed,
              Infinity,
              most[half] + Math.log2(total),
            );
        }
      }
    },
    { ...WARP, softmaxStep, results, work, down },
  );
  return { kernel, grid: [down * p.heads * p.batch, 1, 1], threads: work.threads, sharedBytes: 0 };
}
