/**
 * The gradients of attention on tensor cores by mma (FlashAttention-2; Dao, 2023). Weights are computed again from the
 * log-sum-exp of their query: p = 2^(score − logSumExp). With g the output's gradient and mean = Σ p · (g · vᵀ) for each
 * query, that of scores is s = p · (g · vᵀ − mean), and those of the sources are s · k, sᵀ · q and pᵀ · g.
 *
 * A block has some rows of queries and meets tiles of keys, or the other way round: each adds its own sums in a fixed order,
 * so that nothing is added by atomics. That takes 4 products for keys and values and 3 for queries, instead of 5 in one
 * kernel. The kernel for keys multiplies keys by queries, which gives it the weights transposed, as it needs them: they stay in
 * registers in both kernels.
 */
import { f32 } from '../../core/dtype.js';
import { buffer } from '../../kernel/ir/types.js';
import { defineKernel } from '../../kernel/language/language.js';
import type { GridKernel } from '../tiled.js';
import type { GradientProblem, RowsLayout } from './problem.js';
import { sources, WARP, type WarpTile, warpWork } from './warp.js';

type GradientParams =
  | 'g'
  | 'q'
  | 'k'
  | 'v'
  | 'logSumExp'
  | 'mean'
  | 'mask'
  | 'counter'
  | 'toQ'
  | 'toK'
  | 'toV';
type Params = Record<GradientParams, ReturnType<typeof buffer>>;

/** The gradient of queries: blocks of queries meet tiles of keys and values. */
export function queryGradientWarps(p: GradientProblem, tile: WarpTile, toQ: RowsLayout): GridKernel {
  const work = warpWork(p, tile);
  const down = Math.ceil(p.queries / work.rows);
  const kernel = defineKernel(
    'attentionQueryGradient',
    {
      ...sources(work, 'g', 'q', 'k', 'v'),
      logSumExp: buffer(f32),
      mean: buffer(f32),
      toQ: buffer(p.dtype),
    } as Params,
    (given, context) => {
      const { barrier, blockIdx, commitCopies, exp2, f32, idiv, lane, laneId, local } = context;
      const { local4, shared, u32, vec4, waitCopies, warpId } = context;
      const { clear, copyTile, markDropped, multiplyColumns, multiplyRows, readRows } = context;
      const { down, slope, storeRow, toOperand, toQ, toScores, work } = context;
      const { batch, heads, isCausal, keys, queries, rows, sharing, tile, width } = work;
      const { across, stages } = tile;
      const qs = shared(work.element, 1, rows, work.pitch);
      const gs = shared(work.element, 1, rows, work.pitch);
      const ks = shared(work.element, stages, across, work.pitch);
      const vs = shared(work.element, stages, across, work.pitch);
      const own = local4(u32, idiv(width, 16));
      const scores = local4(f32, idiv(across, 8));
      const products = local4(f32, idiv(across, 8));
      const toWeights = local4(u32, idiv(across, 16));
      const sums = local4(f32, idiv(width, 8));
      const logs = local(f32, 2);
      const means = local(f32, 2);

      const b = blockIdx.x % batch;
      const h = idiv(blockIdx.x, batch) % heads;
      const shares = idiv(h, sharing);
      const first = (down - 1 - idiv(blockIdx.x, batch * heads)) * rows;
      const atQ = work.q.offset + b * work.q.batch + h * work.q.head;
      const atG = work.g.offset + b * work.g.batch + h * work.g.head;
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
        copyTile(vs, stage, across, given.v, atV, work.v, n * across, keys, context);
      };

      copyTile(qs, 0, rows, given.q, atQ, work.q, first, queries, context);
      copyTile(gs, 0, rows, given.g, atG, work.g, first, queries, context);
      copy(0);
      commitCopies();
      clear(sums, idiv(width, 8), context);
      for (let half = 0; half < 2; half++) {
        const query = Math.min(row + 8 * half, queries - 1);
        logs[half] = given.logSumExp[head * queries + query];
        means[half] = given.mean[(b * queries + query) * heads + h] * work.drop.share;
      }
      for (let n = 0; n < tiles; n++) {
        if (n + 1 < tiles) copy(n + 1);
        commitCopies();
        waitCopies(1);
        barrier();
        const stage = n % stages;
        clear(scores, idiv(across, 8), context);
        readRows(own, qs, 0, 16 * warpId, context);
        multiplyRows(scores, own, ks, stage, across, context);
        const column = n * across + 2 * (laneId % 4);
        const isLate = isCausal && (n + 1) * across > first + 16 * warpId + 1;
        if (isLate || (n + 1) * across > keys)
          toScores(scores, across, row, column, maskAt, true, false, mask, context);
        else toScores(scores, across, row, column, maskAt, false, false, mask, context);
        clear(products, idiv(across, 8), context);
        readRows(own, gs, 0, 16 * warpId, context);
        multiplyRows(products, own, vs, stage, across, context);
        for (let j = 0; j < idiv(across, 8); j++) {
          const s = scores[j];
          const power = (i: number) => exp2(lane(s, i) - logs[idiv(i, 2)]);
          scores[j] = vec4(power(0), power(1), power(2), power(3));
        }
        markDropped(scores, across, given, head, first + 16 * warpId, n * across, false, context);
        for (let j = 0; j < idiv(across, 8); j++) {
          const p = scores[j];
          const d = products[j];
          const toScore = (i: number) => slope(lane(p, i), lane(d, i), means[idiv(i, 2)], context);
          scores[j] = vec4(toScore(0), toScore(1), toScore(2), toScore(3));
        }
        toOperand(toWeights, scores, across, false, context);
        multiplyColumns(sums, toWeights, ks, stage, across, context);
        barrier();
      }

      for (let half = 0; half < 2; half++) {
        const query = row + 8 * half;
        if (query < queries) {
          const at = toQ.offset + b * toQ.batch + query * toQ.row + h * toQ.head;
          storeRow(given.toQ, at, sums, half, work.scale * work.drop.factor, context);
        }
      }
    },
    { ...WARP, work, down, toQ },
  );
  return { kernel, grid: [down * p.heads * p.batch, 1, 1], threads: work.threads, sharedBytes: 0 };
}

/** Those of the gradients of keys and values that are wanted, as they lie. */
export interface KeyValueResults {
  readonly toK: RowsLayout | undefined;
  readonly toV: RowsLayout | undefined;
}

/** The same for a kernel: which are wanted, and how they lie, which it asks of those alone. */
export interface GradientContext {
  readonly wanted: Readonly<Record<'toK' | 'toV', boolean>>;
  readonly results: Readonly<Record<'toK' | 'toV', RowsLayout>>;
}

export const gradientContext = ({ toK, toV }: KeyValueResults): GradientContext => ({
  wanted: { toK: toK !== undefined, toV: toV !== undefined },
  results: { toK, toV } as GradientContext['results'],
});

/** The gradients of keys and values: blocks of keys meet tiles of queries, of all heads that share the keys. */
export function keyValueGradientWarps(
  p: GradientProblem,
  tile: WarpTile,
  results: KeyValueResults,
): GridKernel {
  const work = warpWork(p, tile);
  const down = Math.ceil(p.keys / work.rows);
  const kernel = defineKernel(
    'attentionKeyValueGradient',
    {
      ...sources(work, 'g', 'q', 'k', 'v'),
      logSumExp: buffer(f32),
      mean: buffer(f32),
      ...(results.toK && { toK: buffer(p.dtype) }),
      ...(results.toV && { toV: buffer(p.dtype) }),
    } as Params,
    (given, context) => {
      const { barrier, blockIdx, commitCopies, copyAsync, exp2, f32, idiv, lane, laneId } = context;
      const { local4, shared, threadIdx, u32, vec4, waitCopies, warpId } = context;
      const { clear, copyTile, markDropped, multiplyColumns, multiplyRows, readRows } = context;
      const { results, slope, storeRow, toOperand, toScores, wanted, work } = context;
      const { batch, heads, isCausal, keyHeads, keys, queries, rows, sharing, tile, width } = work;
      const { across, stages } = tile;
      const ks = shared(work.element, 1, rows, work.pitch);
      const vs = shared(work.element, 1, rows, work.pitch);
      const qs = shared(work.element, stages, across, work.pitch);
      const gs = shared(work.element, stages, across, work.pitch);
      const logs = shared(f32, stages, across);
      const means = shared(f32, stages, across);
      const own = local4(u32, idiv(width, 16));
      const scores = local4(f32, idiv(across, 8));
      const products = local4(f32, idiv(across, 8));
      const weights = local4(u32, idiv(across, 16));
      const sumsK = local4(f32, idiv(width, 8));
      const sumsV = local4(f32, idiv(width, 8));

      const b = blockIdx.x % batch;
      const h = idiv(blockIdx.x, batch) % keyHeads;
      const first = idiv(blockIdx.x, batch * keyHeads) * rows;
      const atK = work.k.offset + b * work.k.batch + h * work.k.head;
      const atV = work.v.offset + b * work.v.batch + h * work.v.head;
      const mask = work.hasMask ? given.mask : given.q;
      const row = first + 16 * warpId + idiv(laneId, 4);
      // Tiles of queries from the first that may attend to one of the keys, for each of the heads.
      const skipped = isCausal ? Math.min(idiv(first, across), idiv(queries, across)) : 0;
      const each = idiv(queries + across - 1, across) - skipped;
      const tiles = each * sharing;
      const copy = (n: number) => {
        const stage = n % stages;
        const head = h * sharing + idiv(n, each);
        const at = (skipped + (n % each)) * across;
        const atQ = work.q.offset + b * work.q.batch + head * work.q.head;
        const atG = work.g.offset + b * work.g.batch + head * work.g.head;
        copyTile(qs, stage, across, given.q, atQ, work.q, at, queries, context);
        copyTile(gs, stage, across, given.g, atG, work.g, at, queries, context);
        if (threadIdx.x < across) {
          const query = at + threadIdx.x;
          const isIn = query < queries;
          copyAsync(logs, stage, threadIdx.x, given.logSumExp, (b * heads + head) * queries + query, isIn);
          copyAsync(means, stage, threadIdx.x, given.mean, (b * queries + query) * heads + head, isIn);
        }
      };

      copyTile(ks, 0, rows, given.k, atK, work.k, first, keys, context);
      copyTile(vs, 0, rows, given.v, atV, work.v, first, keys, context);
      if (tiles > 0) copy(0);
      commitCopies();
      clear(sumsK, idiv(width, 8), context);
      clear(sumsV, idiv(width, 8), context);
      for (let n = 0; n < tiles; n++) {
        if (n + 1 < tiles) copy(n + 1);
        commitCopies();
        waitCopies(1);
        barrier();
        const stage = n % stages;
        const at = (skipped + (n % each)) * across;
        const head = h * sharing + idiv(n, each);
        const maskAt = work.mask.offset + b * work.mask.batch + head * work.mask.head;
        clear(scores, idiv(across, 8), context);
        readRows(own, ks, 0, 16 * warpId, context);
        multiplyRows(scores, own, qs, stage, across, context);
        const column = at + 2 * (laneId % 4);
        const isLate = isCausal && at < first + 16 * warpId + 15;
        if (isLate || at + across > queries)
          toScores(scores, across, row, column, maskAt, true, true, mask, context);
        else toScores(scores, across, row, column, maskAt, false, true, mask, context);
        for (let j = 0; j < idiv(across, 8); j++) {
          const s = scores[j];
          const power = (i: number) => exp2(lane(s, i) - logs[stage][8 * j + 2 * (laneId % 4) + (i % 2)]);
          scores[j] = vec4(power(0), power(1), power(2), power(3));
        }
        markDropped(scores, across, given, b * heads + head, first + 16 * warpId, at, true, context);
        if (wanted.toV) {
          toOperand(weights, scores, across, true, context);
          multiplyColumns(sumsV, weights, gs, stage, across, context);
        }
        if (wanted.toK) {
          clear(products, idiv(across, 8), context);
          readRows(own, vs, 0, 16 * warpId, context);
          multiplyRows(products, own, gs, stage, across, context);
          for (let j = 0; j < idiv(across, 8); j++) {
            const p = scores[j];
            const d = products[j];
            const mean = (i: number) => means[stage][8 * j + 2 * (laneId % 4) + i] * work.drop.share;
            const toScore = (i: number) => slope(lane(p, i), lane(d, i), mean(i % 2), context);
            scores[j] = vec4(toScore(0), toScore(1), toScore(2), toScore(3));
          }
          toOperand(weights, scores, across, false, context);
          multiplyColumns(sumsK, weights, qs, stage, across, context);
        }
        barrier();
      }

      for (let half = 0; half < 2; half++) {
        const key = row + 8 * half;
        if (key < keys) {
          const placeIn = (to: RowsLayout) => to.offset + b * to.batch + key * to.row + h * to.head;
          if (wanted.toV) storeRow(given.toV, placeIn(results.toV), sumsV, half, work.drop.factor, context);
          if (wanted.toK)
            storeRow(given.toK, placeIn(results.toK), sumsK, half, work.scale * work.drop.factor, context);
        }
      }
      waitCopies(0);
    },
    { ...WARP, ...gradientContext(results), work },
  );
  return { kernel, grid: [down * p.keyHeads * p.batch, 1, 1], threads: work.threads, sharedBytes: 0 };
}
