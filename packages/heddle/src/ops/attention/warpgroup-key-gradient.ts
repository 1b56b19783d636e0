/**
 * The gradients of attention's keys and values by warpgroups, for GPUs of compute capability 9.0; cuda-gradients.ts says what
 * is computed. A warpgroup has 64 rows of keys and values, and meets tiles of queries and of the output's gradient, of all
 * heads that share the keys. Weights come transposed from the product, (key, query), so that they and the gradients of
 * scores are left operands where they are, in registers. The products of the next tile are started behind those that add.
 *
 * Beside the producer a warp brings the log-sum-exp and the mean of each query.
 *
 * With 128 features the registers suffice for tiles of 48 queries. They do for 64, of which a product reads less of shared
 * memory, if the gradients of weights are multiplied once the scores are there (`inTurn`): what the products before them have
 * in registers is free then. Else the compiler runs out of them, and makes products wait for each other.
 */
import { f32, u32 } from '../../core/dtype.js';
import { type BufferSchema, buffer } from '../../kernel/ir/types.js';
import { defineKernel, type Memory } from '../../kernel/language/language.js';
import type { GridKernel } from '../tiled.js';
import { type GradientContext, gradientContext, type KeyValueResults } from './cuda-gradients.js';
import type { GradientProblem, RowsLayout } from './problem.js';
import {
  GROUP,
  type GroupContext,
  type GroupTile,
  groupWork,
  IN_TURN,
  mappedRows,
  REGISTERS,
  ROWS,
  THREADS,
} from './warpgroup.js';

interface Context extends GroupContext, GradientContext {
  /** Of the tile. */
  readonly inTurn: boolean;
  readonly eachKeys: typeof eachKeys;
  readonly tileAt: typeof tileAt;
  readonly produce: typeof produce;
  readonly bringNumbers: typeof bringNumbers;
  readonly differentiate: typeof differentiate;
  readonly maskWeights: typeof maskWeights;
  readonly storeRows: typeof storeRows;
}

interface Tiles {
  readonly qs: Memory;
  readonly gs: Memory;
  readonly ks: Memory;
  readonly vs: Memory;
  /** Of each query of a stage. */
  readonly logs: Memory;
  readonly means: Memory;
  readonly fullOwn: Memory;
  readonly emptyOwn: Memory;
  readonly full: Memory;
  readonly empty: Memory;
}

type Given = Readonly<
  Record<'g' | 'q' | 'k' | 'v' | 'counter' | 'logSumExp' | 'mean' | 'toK' | 'toV', Memory>
>;

/** The rows of keys that a block works on, and the tiles of queries that they meet. */
interface KeysPlace {
  readonly batch: number;
  readonly head: number;
  readonly first: number;
  /** Tiles of queries that are too early for all the keys, of each head. */
  readonly skipped: number;
  /** Tiles of each head of queries, and of all. */
  readonly each: number;
  readonly tiles: number;
}

/** Calls `body` for each block of rows that this one takes: of some heads side by side the first rows first. */
function eachKeys(body: (at: KeysPlace) => void, context: Context): void {
  const { eachTurn, idiv, work } = context;
  const { across, batch, isCausal, keyHeads, queries, rows, sharing } = work;
  eachTurn(
    batch * keyHeads,
    (index, turn) => {
      const first = turn * rows;
      const all = idiv(queries + across - 1, across);
      const skipped = isCausal ? Math.min(idiv(first, across), all) : 0;
      const each = all - skipped;
      const batchIndex = idiv(index, keyHeads);
      body({ batch: batchIndex, head: index % keyHeads, first, skipped, each, tiles: each * sharing });
    },
    context,
  );
}

/** The n-th tile of queries that a block meets: its head and its first row. */
function tileAt(
  n: number,
  at: KeysPlace,
  { idiv, work }: Context,
): { readonly head: number; readonly row: number } {
  const { across, sharing } = work;
  const head = sharing === 1 ? at.head : at.head * sharing + idiv(n, at.each);
  const row = (at.skipped + (sharing === 1 ? n : n % at.each)) * across;
  return { head, row };
}

/** The producer: starts the copies of all that the block's warpgroups work on, as soon as there is room. */
function produce(given: Given, tiles: Tiles, context: Context): void {
  const { arriveExpect, eachKeys, idiv, tileAt, tmaLoad, waitBarrier, work } = context;
  const { across, panel, panels, rows, stages, width } = work;
  const { empty, emptyOwn, full, fullOwn, gs, ks, qs, vs } = tiles;
  let taken = 0;
  let met = 0;
  eachKeys((at) => {
    const b = at.batch;
    waitBarrier(emptyOwn, 0, taken + 1);
    arriveExpect(fullOwn, 0, 2 * rows * width * 2);
    for (let i = 0; i < panels; i++) {
      const column = i * panel;
      tmaLoad(ks, i, 0, 0, given.k, b * work.k.batch, at.head * work.k.head, at.first, column, fullOwn, 0);
      tmaLoad(vs, i, 0, 0, given.v, b * work.v.batch, at.head * work.v.head, at.first, column, fullOwn, 0);
    }
    for (let n = 0; n < at.tiles; n++) {
      const s = (met + n) % stages;
      const { head, row } = tileAt(n, at, context);
      waitBarrier(empty, s, idiv(met + n, stages) + 1);
      arriveExpect(full, s, 2 * across * width * 2);
      for (let i = 0; i < panels; i++) {
        const column = i * panel;
        tmaLoad(qs, s, i, 0, 0, given.q, b * work.q.batch, head * work.q.head, row, column, full, s);
        tmaLoad(gs, s, i, 0, 0, given.g, b * work.g.batch, head * work.g.head, row, column, full, s);
      }
    }
    taken += 1;
    met += at.tiles;
  }, context);
}

/** A warp: the numbers of each tile's queries, 0 beyond the end. */
function bringNumbers(given: Given, tiles: Tiles, context: Context): void {
  const { arrive, eachKeys, idiv, laneId, tileAt, waitBarrier, work } = context;
  const { across, heads, queries, stages } = work;
  const { empty, full, logs, means } = tiles;
  let met = 0;
  eachKeys((at) => {
    for (let n = 0; n < at.tiles; n++) {
      const s = (met + n) % stages;
      const { head, row } = tileAt(n, at, context);
      waitBarrier(empty, s, idiv(met + n, stages) + 1);
      for (let i = laneId; i < across; i += 32) {
        const query = row + i;
        if (query < queries) {
          logs[s][i] = given.logSumExp[(at.batch * heads + head) * queries + query];
          means[s][i] = given.mean[(at.batch * queries + query) * heads + head] * work.drop.share;
        } else {
          logs[s][i] = 0;
          means[s][i] = 0;
        }
      }
      arrive(full, s);
    }
    met += at.tiles;
  }, context);
}

/** −Infinity where a query is before a key. @param row key of the first of the thread's sums, and its query */
function maskWeights(scores: Memory, row: number, column: number, context: Context): void {
  const { idiv, work } = context;
  for (let i = 0; i < idiv(work.across, 2); i++) {
    const query = column + 8 * idiv(i, 4) + (i % 2);
    if (query < row + 8 * (idiv(i, 2) % 2)) scores[i] = -Infinity;
  }
}

/** Stores the rows of a block that a thread has: the first, and the eighth after it. */
function storeRows(
  to: Memory,
  layout: RowsLayout,
  sums: Memory,
  factor: number,
  row: number,
  at: KeysPlace,
  context: Context,
): void {
  const { idiv, laneId, store2, vec2, work } = context;
  const { keys, width } = work;
  for (let half = 0; half < 2; half++) {
    const key = row + 8 * half;
    if (key < keys) {
      const from = layout.offset + at.batch * layout.batch + key * layout.row + at.head * layout.head;
      const first = from + 2 * (laneId % 4);
      for (let j = 0; j < idiv(width, 8); j++) {
        const pair = vec2(sums[4 * j + 2 * half] * factor, sums[4 * j + 2 * half + 1] * factor);
        store2(to, first + 8 * j, work.cast(pair));
      }
    }
  }
}

/** A warpgroup: the gradients of its 64 rows of each block. */
function differentiate(given: Given, tiles: Tiles, group: number, context: Context): void {
  const { arrive, eachKeys, exp2Normal, f32, fenceWgmma, fma, idiv, inTurn } = context;
  const { lane, laneId, load2, local, threadIdx, u32 } = context;
  const { maskWeights, startColumns, startRows, storeRows, tileAt, toOperand, waitBarrier, waitWgmma } =
    context;
  const { markDropped, results, slope, wanted, work, ROWS, THREADS } = context;
  const { across, heads, isCausal, scale, scale2, stages, width } = work;
  const { empty, emptyOwn, full, fullOwn, gs, ks, logs, means, qs, vs } = tiles;
  const scores = local(f32, idiv(across, 2));
  const products = local(f32, idiv(across, 2));
  const weights = local(u32, idiv(across, 16), 4);
  const slopes = local(u32, idiv(across, 16), 4);
  const sumsK = local(f32, idiv(width, 2));
  const sumsV = local(f32, idiv(width, 2));
  const isFirstLane = threadIdx.x % 32 === 0;
  const inTile = group * ROWS + 16 * idiv(threadIdx.x % THREADS, 32) + idiv(laneId, 4);
  const column = 2 * (laneId % 4);
  // Each lane has read numbers of the stage: it says so itself.
  const free = (stage: number) => arrive(empty, stage);
  let taken = 0;
  let met = 0;
  eachKeys((at) => {
    const row = at.first + inTile;
    const begin = met;
    for (let i = 0; i < idiv(width, 2); i++) {
      sumsK[i] = 0;
      sumsV[i] = 0;
    }
    const waitTile = (n: number) => waitBarrier(full, (begin + n) % stages, idiv(begin + n, stages));
    waitBarrier(fullOwn, 0, taken);
    if (at.tiles > 0) waitTile(0);
    for (let n = 0; n < at.tiles; n++) {
      const s = (begin + n) % stages;
      const { head, row: query } = tileAt(n, at, context);
      startRows(scores, ks, qs, s, group, context);
      if (!inTurn) startRows(products, vs, gs, s, group, context);
      // What was started before them is done, too: the tile before is free.
      waitWgmma(scores, inTurn ? 0 : 1);
      fenceWgmma(scores);
      if (inTurn) startRows(products, vs, gs, s, group, context);
      if (n > 0) free((begin + n - 1) % stages);
      if (isCausal && query < at.first + (group + 1) * ROWS - 1)
        maskWeights(scores, row, query + column, context);
      for (let i = 0; i < idiv(across, 2); i += 2) {
        const pair = load2(logs, s, 8 * idiv(i, 4) + column);
        scores[i] = exp2Normal(fma(scores[i], scale2, -lane(pair, 0)));
        scores[i + 1] = exp2Normal(fma(scores[i + 1], scale2, -lane(pair, 1)));
      }
      markDropped(scores, given, at.batch * heads + head, row - idiv(laneId, 4), query, true, context);
      toOperand(weights, scores, true, context);
      // A wait for the copy engine keeps the compiler from waiting for the products before it makes the powers.
      if (n + 1 < at.tiles) waitTile(n + 1);
      waitWgmma(products, 0);
      if (wanted.toV) startColumns(sumsV, weights, gs, s, context);
      if (wanted.toK) {
        for (let i = 0; i < idiv(across, 2); i++)
          products[i] = slope(scores[i], products[i], means[s][8 * idiv(i, 4) + column + (i % 2)], context);
        toOperand(slopes, products, false, context);
        startColumns(sumsK, slopes, qs, s, context);
      }
    }
    waitWgmma(sumsK, 0);
    waitWgmma(sumsV, 0);
    if (isFirstLane) arrive(emptyOwn, 0);
    if (at.tiles > 0) free((begin + at.tiles - 1) % stages);
    if (wanted.toV) storeRows(given.toV, results.toV, sumsV, work.drop.factor, row, at, context);
    if (wanted.toK) storeRows(given.toK, results.toK, sumsK, scale * work.drop.factor, row, at, context);
    taken += 1;
    met += at.tiles;
  }, context);
}

/** The gradients of keys and values, or one of them. No mask, and a scale above 0. */
export function keyValueGradientGroups(
  p: GradientProblem,
  tile: GroupTile,
  units: number,
  results: KeyValueResults,
): GridKernel {
  const rows = ROWS * tile.groups;
  const q = mappedRows(p.q, p, [p.batch, p.heads, p.queries], tile.across);
  const g = mappedRows(p.g, p, [p.batch, p.heads, p.queries], tile.across);
  const k = mappedRows(p.k, p, [p.batch, p.keyHeads, p.keys], rows);
  const v = mappedRows(p.v, p, [p.batch, p.keyHeads, p.keys], rows);
  const work = groupWork(p, tile, { q, k, v, g }, { length: p.keys, heads: p.batch * p.keyHeads, units });
  const kernel = defineKernel(
    'attentionKeyValueGradientGroups',
    {
      ...{ g: g.schema, q: q.schema, k: k.schema, v: v.schema },
      ...(p.dropout && { counter: buffer(u32) }),
      ...{ logSumExp: buffer(f32), mean: buffer(f32) },
      ...(results.toK && { toK: buffer(p.dtype) }),
      ...(results.toV && { toV: buffer(p.dtype) }),
    } as Record<keyof Given, BufferSchema>,
    (given, context) => {
      const { barrier, bringNumbers, differentiate, f32, groupOf, initBarrier, laneId, lowerRegisters } =
        context;
      const { dtype, mbarriers, produce, raiseRegisters, registers, shared, sharedTile, shuffle } = context;
      const { threadIdx, warpId, work, THREADS } = context;
      const { across, groups, panel, panels, rows, stages } = work;
      const ks = sharedTile(dtype, panels, rows, panel);
      const vs = sharedTile(dtype, panels, rows, panel);
      const qs = sharedTile(dtype, stages, panels, across, panel);
      const gs = sharedTile(dtype, stages, panels, across, panel);
      const logs = shared(f32, stages, across);
      const means = shared(f32, stages, across);
      const fullOwn = mbarriers(1);
      const emptyOwn = mbarriers(1);
      const full = mbarriers(stages);
      const empty = mbarriers(stages);
      if (threadIdx.x === 0) {
        // Tiles of keys and values are free again when each warp that multiplies has said so, those of queries when each of its lanes
        // has; the lanes that bring numbers arrive, too.
        initBarrier(fullOwn, 0, 1);
        initBarrier(emptyOwn, 0, groups * 4);
        for (let s = 0; s < stages; s++) {
          initBarrier(full, s, 33);
          initBarrier(empty, s, groups * THREADS);
        }
      }
      barrier();
      const tiles = { qs, gs, ks, vs, logs, means, fullOwn, emptyOwn, full, empty };
      const group = groupOf(context);
      if (group === groups) {
        lowerRegisters(registers.producer);
        // By the shuffle the compiler knows that all lanes go one way, and needs fewer registers.
        const warp = shuffle(warpId, 0) - groups * 4;
        if (warp === 1) bringNumbers(given, tiles, context);
        else if (warp === 0 && laneId === 0) produce(given, tiles, context);
      } else {
        raiseRegisters(registers.consumer);
        differentiate(given, tiles, group, context);
      }
    },
    {
      ...GROUP,
      ...{ eachKeys, tileAt, produce, bringNumbers, differentiate, maskWeights, storeRows },
      ...gradientContext(results),
      ...{ dtype: p.dtype, inTurn: tile.inTurn === true, work, ROWS, THREADS },
      registers: tile.inTurn ? IN_TURN : REGISTERS[tile.groups],
    },
  );
  return {
    kernel,
    grid: [Math.min(work.down * p.batch * p.keyHeads, units), 1, 1],
    threads: (tile.groups + 1) * THREADS,
    sharedBytes: 0,
  };
}
