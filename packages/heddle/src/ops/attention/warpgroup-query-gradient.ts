/**
 * The gradient of attention's queries by warpgroups, for GPUs of compute capability 9.0; cuda-gradients.ts says what is
 * computed. A warpgroup has 64 rows of queries and of the output's gradient, and meets tiles of keys and values. The products
 * of the next tile are started behind the one that adds to the gradient, whose left operand, the gradient of the scores, is
 * in registers.
 */
import { f32, u32 } from '../../core/dtype.js';
import { type BufferSchema, buffer } from '../../kernel/ir/types.js';
import { defineKernel, type Memory } from '../../kernel/language/language.js';
import type { GridKernel } from '../tiled.js';
import type { GradientProblem, RowsLayout } from './problem.js';
import {
  GROUP,
  type GroupContext,
  type GroupTile,
  groupWork,
  mappedRows,
  REGISTERS,
  ROWS,
  THREADS,
} from './warpgroup.js';

interface Context extends GroupContext {
  readonly toQ: RowsLayout;
  readonly produce: typeof produce;
  readonly differentiate: typeof differentiate;
  readonly toSlopes: typeof toSlopes;
}

interface Tiles {
  readonly qs: Memory;
  readonly gs: Memory;
  readonly ks: Memory;
  readonly vs: Memory;
  readonly fullOwn: Memory;
  readonly emptyOwn: Memory;
  readonly full: Memory;
  readonly empty: Memory;
}

type Given = Readonly<Record<'g' | 'q' | 'k' | 'v' | 'counter' | 'logSumExp' | 'mean' | 'toQ', Memory>>;

/** The producer: starts the copies of all that the block's warpgroups work on, as soon as there is room. */
function produce(given: Given, tiles: Tiles, context: Context): void {
  const { arriveExpect, eachBlock, idiv, tmaLoad, waitBarrier, work } = context;
  const { across, panel, panels, rows, sharing, stages, width } = work;
  const { empty, emptyOwn, full, fullOwn, gs, ks, qs, vs } = tiles;
  let taken = 0;
  let met = 0;
  eachBlock((at) => {
    const b = at.batch;
    const shared = idiv(at.head, sharing);
    waitBarrier(emptyOwn, 0, taken + 1);
    arriveExpect(fullOwn, 0, 2 * rows * width * 2);
    for (let i = 0; i < panels; i++) {
      const column = i * panel;
      tmaLoad(qs, i, 0, 0, given.q, b * work.q.batch, at.head * work.q.head, at.first, column, fullOwn, 0);
      tmaLoad(gs, i, 0, 0, given.g, b * work.g.batch, at.head * work.g.head, at.first, column, fullOwn, 0);
    }
    for (let n = 0; n < at.tiles; n++) {
      const s = (met + n) % stages;
      const row = n * across;
      waitBarrier(empty, s, idiv(met + n, stages) + 1);
      arriveExpect(full, s, 2 * across * width * 2);
      for (let i = 0; i < panels; i++) {
        const column = i * panel;
        tmaLoad(ks, s, i, 0, 0, given.k, b * work.k.batch, shared * work.k.head, row, column, full, s);
        tmaLoad(vs, s, i, 0, 0, given.v, b * work.v.batch, shared * work.v.head, row, column, full, s);
      }
    }
    taken += 1;
    met += at.tiles;
  }, context);
}

/** The gradients of scores, from their weights and those of the weights; `means` of the thread's two rows. */
function toSlopes(products: Memory, weights: Memory, means: Memory, context: Context): void {
  const { idiv, slope, work } = context;
  for (let i = 0; i < idiv(work.across, 2); i++)
    products[i] = slope(weights[i], products[i], means[idiv(i, 2) % 2], context);
}

/** A warpgroup: the gradient of its 64 rows of each block. */
function differentiate(given: Given, tiles: Tiles, group: number, context: Context): void {
  const { arrive, eachBlock, exp2Normal, f32, fenceWgmma, fma, idiv, laneId, local, store2, threadIdx } =
    context;
  const { maskScores, startColumns, startRows, toOperand, toSlopes, u32, vec2, waitBarrier, waitWgmma } =
    context;
  const { markDropped, toQ, work, ROWS, THREADS } = context;
  const { across, heads, isCausal, keys, queries, scale, scale2, stages, width } = work;
  const { empty, emptyOwn, full, fullOwn, gs, ks, qs, vs } = tiles;
  const scores = local(f32, idiv(across, 2));
  const products = local(f32, idiv(across, 2));
  const words = local(u32, idiv(across, 16), 4);
  const sums = local(f32, idiv(width, 2));
  const logs = local(f32, 2);
  const means = local(f32, 2);
  const isFirstLane = threadIdx.x % 32 === 0;
  const inTile = group * ROWS + 16 * idiv(threadIdx.x % THREADS, 32) + idiv(laneId, 4);
  let taken = 0;
  let met = 0;
  eachBlock((at) => {
    const row = at.first + inTile;
    const head = at.batch * heads + at.head;
    const last = at.first + (group + 1) * ROWS;
    // Tiles that are too late for all rows of the warpgroup are let go.
    const own = isCausal ? Math.min(at.tiles, idiv(last + across - 1, across)) : at.tiles;
    const begin = met;
    for (let half = 0; half < 2; half++) {
      const query = Math.min(row + 8 * half, queries - 1);
      logs[half] = given.logSumExp[head * queries + query];
      means[half] = given.mean[(at.batch * queries + query) * heads + at.head] * work.drop.share;
    }
    for (let i = 0; i < idiv(width, 2); i++) sums[i] = 0;
    const waitTile = (n: number) => waitBarrier(full, (begin + n) % stages, idiv(begin + n, stages));
    waitBarrier(fullOwn, 0, taken);
    waitTile(0);
    for (let n = 0; n < own; n++) {
      const s = (begin + n) % stages;
      startRows(scores, qs, ks, s, group, context);
      startRows(products, gs, vs, s, group, context);
      // What was started before them is done, too: the tile before is free.
      waitWgmma(scores, 1);
      fenceWgmma(scores);
      if (n > 0 && isFirstLane) arrive(empty, (begin + n - 1) % stages);
      const isLate = isCausal && (n + 1) * across > at.first + group * ROWS + 1;
      if (isLate || (n + 1) * across > keys) maskScores(scores, row, n * across + 2 * (laneId % 4), context);
      for (let i = 0; i < idiv(across, 2); i++)
        scores[i] = exp2Normal(fma(scores[i], scale2, -logs[idiv(i, 2) % 2]));
      // A wait for the copy engine keeps the compiler from waiting for the products before it makes the powers.
      if (n + 1 < own) waitTile(n + 1);
      markDropped(scores, given, head, row - idiv(laneId, 4), n * across, false, context);
      waitWgmma(products, 0);
      toSlopes(products, scores, means, context);
      toOperand(words, products, false, context);
      startColumns(sums, words, ks, s, context);
    }
    waitWgmma(sums, 0);
    if (isFirstLane) {
      arrive(emptyOwn, 0);
      arrive(empty, (begin + own - 1) % stages);
    }
    for (let n = own; n < at.tiles; n++) {
      waitTile(n);
      if (isFirstLane) arrive(empty, (begin + n) % stages);
    }
    const factor = scale * work.drop.factor;
    for (let half = 0; half < 2; half++) {
      const query = row + 8 * half;
      if (query < queries) {
        const first = toQ.offset + at.batch * toQ.batch + query * toQ.row + at.head * toQ.head;
        const to = first + 2 * (laneId % 4);
        for (let j = 0; j < idiv(width, 8); j++) {
          const pair = vec2(sums[4 * j + 2 * half] * factor, sums[4 * j + 2 * half + 1] * factor);
          store2(given.toQ, to + 8 * j, work.cast(pair));
        }
      }
    }
    taken += 1;
    met += at.tiles;
  }, context);
}

/** The gradient of queries. No mask, and a scale above 0. @param toQ as the result lies */
export function queryGradientGroups(
  p: GradientProblem,
  tile: GroupTile,
  units: number,
  toQ: RowsLayout,
): GridKernel {
  const rows = ROWS * tile.groups;
  const q = mappedRows(p.q, p, [p.batch, p.heads, p.queries], rows);
  const g = mappedRows(p.g, p, [p.batch, p.heads, p.queries], rows);
  const k = mappedRows(p.k, p, [p.batch, p.keyHeads, p.keys], tile.across);
  const v = mappedRows(p.v, p, [p.batch, p.keyHeads, p.keys], tile.across);
  const work = groupWork(p, tile, { q, k, v, g }, { length: p.queries, heads: p.batch * p.heads, units });
  const kernel = defineKernel(
    'attentionQueryGradientGroups',
    {
      ...{ g: g.schema, q: q.schema, k: k.schema, v: v.schema },
      ...(p.dropout && { counter: buffer(u32) }),
      ...{ logSumExp: buffer(f32), mean: buffer(f32), toQ: buffer(p.dtype) },
    } as Record<keyof Given, BufferSchema>,
    (given, context) => {
      const { barrier, differentiate, groupOf, initBarrier, lowerRegisters, mbarriers, produce } = context;
      const { dtype, raiseRegisters, registers, sharedTile, threadIdx, work, THREADS } = context;
      const { across, groups, panel, panels, rows, stages } = work;
      const qs = sharedTile(dtype, panels, rows, panel);
      const gs = sharedTile(dtype, panels, rows, panel);
      const ks = sharedTile(dtype, stages, panels, across, panel);
      const vs = sharedTile(dtype, stages, panels, across, panel);
      const fullOwn = mbarriers(1);
      const emptyOwn = mbarriers(1);
      const full = mbarriers(stages);
      const empty = mbarriers(stages);
      if (threadIdx.x === 0) {
        // Tiles are free again when each warp that multiplies has said so.
        initBarrier(fullOwn, 0, 1);
        initBarrier(emptyOwn, 0, groups * 4);
        for (let s = 0; s < stages; s++) {
          initBarrier(full, s, 1);
          initBarrier(empty, s, groups * 4);
        }
      }
      barrier();
      const tiles = { qs, gs, ks, vs, fullOwn, emptyOwn, full, empty };
      const group = groupOf(context);
      if (group === groups) {
        lowerRegisters(registers.producer);
        if (threadIdx.x === groups * THREADS) produce(given, tiles, context);
      } else {
        raiseRegisters(registers.consumer);
        differentiate(given, tiles, group, context);
      }
    },
    {
      ...GROUP,
      ...{ produce, differentiate, toSlopes },
      ...{ dtype: p.dtype, registers: REGISTERS[tile.groups], toQ, work, ROWS, THREADS },
    },
  );
  return {
    kernel,
    grid: [Math.min(work.down * p.batch * p.heads, units), 1, 1],
    threads: (tile.groups + 1) * THREADS,
    sharedBytes: 0,
  };
}
