/**
 * Attention by warpgroups, for GPUs of compute capability 9.0 (FlashAttention-3; Shah and others, 2024). Blocks stay on their
 * multiprocessor and take the rows of queries of one head after another, the longest first. One thread, the producer, has
 * the copy engine bring queries, and tiles of keys and values into rings of stages; behind it each warpgroup has 64 rows.
 *
 * A warpgroup starts the scores of the next tile before the product of the last weights with their values, so that the tensor
 * cores work while it makes powers of the scores. Weights are the left operand of that product where they are, in registers.
 */
import { f32, u32 } from '../../core/dtype.js';
import { type BufferSchema, buffer } from '../../kernel/ir/types.js';
import { defineKernel, type Memory } from '../../kernel/language/language.js';
import type { GridKernel } from '../tiled.js';
import type { ForwardResults } from './cuda-forward.js';
import type { AttentionProblem } from './problem.js';
import {
  GROUP,
  type GroupContext,
  type GroupTile,
  groupWork,
  mappedRows,
  type QueriesPlace,
  REGISTERS,
  ROWS,
  THREADS,
} from './warpgroup.js';

interface Context extends GroupContext {
  readonly results: ForwardResults;
  readonly toPowers: typeof toPowers;
  readonly produce: typeof produce;
  readonly attend: typeof attend;
  readonly finishRows: typeof finishRows;
}

/** Makes powers of scores relative to the largest so far, of the thread's two rows. */
function toPowers(scores: Memory, most: Memory, totals: Memory, factors: Memory, context: Context): void {
  const { exp2Normal, fma, idiv, shuffleXor, work } = context;
  const { across, scale2 } = work;
  for (let half = 0; half < 2; half++) {
    let now = most[half];
    for (let j = 0; j < idiv(across, 8); j++)
      now = Math.max(now, Math.max(scores[4 * j + 2 * half], scores[4 * j + 2 * half + 1]));
    now = Math.max(now, shuffleXor(now, 1));
    now = Math.max(now, shuffleXor(now, 2));
    factors[half] = exp2Normal((most[half] - now) * scale2);
    most[half] = now;
    const base = -now * scale2;
    let total = totals[half] * factors[half];
    for (let j = 0; j < idiv(across, 8); j++) {
      const low = exp2Normal(fma(scores[4 * j + 2 * half], scale2, base));
      const high = exp2Normal(fma(scores[4 * j + 2 * half + 1], scale2, base));
      total = total + (low + high);
      scores[4 * j + 2 * half] = low;
      scores[4 * j + 2 * half + 1] = high;
    }
    totals[half] = total;
  }
}

/** What the warpgroups of a block share: tiles of queries, keys and values, and the mbarriers that say whose turn it is. */
interface Tiles {
  readonly qs: Memory;
  readonly ks: Memory;
  readonly vs: Memory;
  readonly fullQ: Memory;
  readonly emptyQ: Memory;
  readonly fullK: Memory;
  readonly emptyK: Memory;
  readonly fullV: Memory;
  readonly emptyV: Memory;
}

type Given = Readonly<Record<'q' | 'k' | 'v' | 'counter' | 'output' | 'logSumExp', Memory>>;

/** The producer: starts the copies of all that the block's warpgroups work on, as soon as there is room. */
function produce(given: Given, tiles: Tiles, context: Context): void {
  const { arriveExpect, eachBlock, idiv, tmaLoad, waitBarrier, work, ROWS } = context;
  const { across, groups, panel, panels, sharing, stages, width } = work;
  const { emptyK, emptyQ, emptyV, fullK, fullQ, fullV, ks, qs, vs } = tiles;
  let taken = 0;
  let met = 0;
  eachBlock((at) => {
    const q0 = at.batch * work.q.batch;
    const q1 = at.head * work.q.head;
    const k0 = at.batch * work.k.batch;
    const k1 = idiv(at.head, sharing) * work.k.head;
    const v0 = at.batch * work.v.batch;
    const v1 = idiv(at.head, sharing) * work.v.head;
    for (let n = 0; n < at.tiles; n++) {
      const stage = (met + n) % stages;
      const phase = idiv(met + n, stages);
      waitBarrier(emptyK, stage, phase + 1);
      arriveExpect(fullK, stage, across * width * 2);
      for (let i = 0; i < panels; i++)
        tmaLoad(ks, stage, i, 0, 0, given.k, k0, k1, n * across, i * panel, fullK, stage);
      waitBarrier(emptyV, stage, phase + 1);
      arriveExpect(fullV, stage, across * width * 2);
      for (let i = 0; i < panels; i++)
        tmaLoad(vs, stage, i, 0, 0, given.v, v0, v1, n * across, i * panel, fullV, stage);
      // Behind the first tile, which there is room for before all warpgroups are done with the block before.
      if (n === 0)
        for (let g = 0; g < groups; g++) {
          const row = g * ROWS;
          waitBarrier(emptyQ, g, taken + 1);
          arriveExpect(fullQ, g, ROWS * width * 2);
          for (let i = 0; i < panels; i++)
            tmaLoad(qs, i, row, 0, given.q, q0, q1, at.first + row, i * panel, fullQ, g);
        }
    }
    taken += 1;
    met += at.tiles;
  }, context);
}

/** A warpgroup: the output and the log-sum-exp of its 64 rows of each block. */
function attend(given: Given, tiles: Tiles, group: number, context: Context): void {
  const { arrive, eachBlock, f32, fenceWgmma, idiv, laneId, local, threadIdx, u32, waitBarrier } = context;
  const { finishRows, maskScores, startColumns, startRows, toPowers, waitWgmma } = context;
  const { markDropped, results, toOperand, work, ROWS, THREADS } = context;
  const { across, heads, isCausal, keys, queries, stages, width } = work;
  const { emptyK, emptyQ, emptyV, fullK, fullQ, fullV, ks, qs, vs } = tiles;
  const scores = local(f32, idiv(across, 2));
  const weights = local(u32, idiv(across, 16), 4);
  const out = local(f32, idiv(width, 2));
  const most = local(f32, 2);
  const totals = local(f32, 2);
  const factors = local(f32, 2);
  const isFirstLane = threadIdx.x % 32 === 0;
  const inTile = group * ROWS + 16 * idiv(threadIdx.x % THREADS, 32) + idiv(laneId, 4);
  let taken = 0;
  let met = 0;
  eachBlock((at) => {
    const row = at.first + inTile;
    const head = at.batch * heads + at.head;
    const last = at.first + (group + 1) * ROWS;
    // Tiles that are too late for all rows of the warpgroup are let go, as are all of them beyond the last query.
    const needed = isCausal ? Math.min(at.tiles, idiv(last + across - 1, across)) : at.tiles;
    const own = last - ROWS < queries ? needed : 0;
    const begin = met;
    const toWeights = (n: number) => {
      const isLate = isCausal && (n + 1) * across > at.first + group * ROWS + 1;
      if (isLate || (n + 1) * across > keys) maskScores(scores, row, n * across + 2 * (laneId % 4), context);
      toPowers(scores, most, totals, factors, context);
      if (results.output) markDropped(scores, given, head, row - idiv(laneId, 4), n * across, false, context);
    };
    const waitValues = (n: number) => waitBarrier(fullV, (begin + n) % stages, idiv(begin + n, stages));
    const multiplyValues = (n: number) => startColumns(out, weights, vs, (begin + n) % stages, context);
    const freeValues = (n: number) => {
      waitWgmma(out, 0);
      if (isFirstLane) arrive(emptyV, (begin + n) % stages);
    };
    for (let half = 0; half < 2; half++) {
      most[half] = -Infinity;
      totals[half] = 0;
    }
    for (let i = 0; i < idiv(width, 2); i++) out[i] = 0;
    waitBarrier(fullQ, group, taken);
    if (own > 0) {
      waitBarrier(fullK, begin % stages, idiv(begin, stages));
      startRows(scores, qs, ks, begin % stages, group, context);
      waitWgmma(scores, 0);
      if (isFirstLane) arrive(emptyK, begin % stages);
      toWeights(0);
      toOperand(weights, scores, true, context);
      waitValues(0);
    }
    for (let n = 1; n < own; n++) {
      const stage = (begin + n) % stages;
      waitBarrier(fullK, stage, idiv(begin + n, stages));
      startRows(scores, qs, ks, stage, group, context);
      multiplyValues(n - 1);
      waitWgmma(scores, 1);
      // No read of the scores moves over the wait.
      fenceWgmma(scores);
      if (isFirstLane) arrive(emptyK, stage);
      toWeights(n);
      // A wait for the copy engine keeps the compiler from waiting for the product before it makes the powers.
      waitValues(n);
      freeValues(n - 1);
      for (let i = 0; i < idiv(width, 2); i++) out[i] = out[i] * factors[idiv(i, 2) % 2];
      toOperand(weights, scores, true, context);
    }
    if (isFirstLane) arrive(emptyQ, group);
    if (own > 0) {
      multiplyValues(own - 1);
      freeValues(own - 1);
    }
    for (let n = own; n < at.tiles; n++) {
      const stage = (begin + n) % stages;
      waitBarrier(fullK, stage, idiv(begin + n, stages));
      waitBarrier(fullV, stage, idiv(begin + n, stages));
      if (isFirstLane) arrive(emptyK, stage);
      if (isFirstLane) arrive(emptyV, stage);
    }
    finishRows(given, out, most, totals, row, at, context);
    taken += 1;
    met += at.tiles;
  }, context);
}

/** Stores the rows of a block that a thread has: the first, and the eighth after it. */
function finishRows(
  given: Given,
  out: Memory,
  most: Memory,
  totals: Memory,
  row: number,
  at: QueriesPlace,
  context: Context,
): void {
  const { idiv, laneId, results, shuffleXor, store2, vec2, work } = context;
  const { heads, queries, scale2, width } = work;
  for (let half = 0; half < 2; half++) {
    let total = totals[half];
    total = total + shuffleXor(total, 1);
    total = total + shuffleXor(total, 2);
    const query = row + 8 * half;
    const share = work.drop.factor / total;
    if (query < queries) {
      if (results.output) {
        const to = ((at.batch * queries + query) * heads + at.head) * width + 2 * (laneId % 4);
        for (let j = 0; j < idiv(width, 8); j++) {
          const pair = vec2(out[4 * j + 2 * half] * share, out[4 * j + 2 * half + 1] * share);
          store2(given.output, to + 8 * j, work.cast(pair));
        }
      }
      if (results.logSumExp && laneId % 4 === 0)
        given.logSumExp[(at.batch * heads + at.head) * queries + query] =
          most[half] * scale2 + Math.log2(total);
    }
  }
}

const FUNCTIONS = { toPowers, produce, attend, finishRows };

/** The output and the log-sum-exp, or one of them. No mask, and a scale above 0. */
export function attentionGroups(
  p: AttentionProblem,
  tile: GroupTile,
  units: number,
  results: ForwardResults,
): GridKernel {
  const q = mappedRows(p.q, p, [p.batch, p.heads, p.queries], ROWS);
  const k = mappedRows(p.k, p, [p.batch, p.keyHeads, p.keys], tile.across);
  const v = mappedRows(p.v, p, [p.batch, p.keyHeads, p.keys], tile.across);
  const work = groupWork(p, tile, { q, k, v }, { length: p.queries, heads: p.batch * p.heads, units });
  const kernel = defineKernel(
    'attentionGroups',
    {
      ...{ q: q.schema, k: k.schema, v: v.schema },
      ...(p.dropout && { counter: buffer(u32) }),
      ...(results.output && { output: buffer(p.dtype) }),
      ...(results.logSumExp && { logSumExp: buffer(f32) }),
    } as Record<keyof Given, BufferSchema>,
    (given, context) => {
      const { attend, barrier, groupOf, initBarrier, lowerRegisters, mbarriers, produce } = context;
      const { dtype, raiseRegisters, registers, sharedTile, threadIdx, work, THREADS } = context;
      const { across, groups, panel, panels, rows, stages } = work;
      const qs = sharedTile(dtype, panels, rows, panel);
      const ks = sharedTile(dtype, stages, panels, across, panel);
      const vs = sharedTile(dtype, stages, panels, across, panel);
      const fullQ = mbarriers(groups);
      const emptyQ = mbarriers(groups);
      const fullK = mbarriers(stages);
      const emptyK = mbarriers(stages);
      const fullV = mbarriers(stages);
      const emptyV = mbarriers(stages);
      const tiles = { qs, ks, vs, fullQ, emptyQ, fullK, emptyK, fullV, emptyV };
      if (threadIdx.x === 0) {
        // Tiles are free again when each warp that multiplies has said so.
        for (let g = 0; g < groups; g++) {
          initBarrier(fullQ, g, 1);
          initBarrier(emptyQ, g, 4);
        }
        for (let s = 0; s < stages; s++) {
          initBarrier(fullK, s, 1);
          initBarrier(emptyK, s, groups * 4);
          initBarrier(fullV, s, 1);
          initBarrier(emptyV, s, groups * 4);
        }
      }
      barrier();
      const group = groupOf(context);
      if (group === groups) {
        lowerRegisters(registers.producer);
        if (threadIdx.x === groups * THREADS) produce(given, tiles, context);
      } else {
        raiseRegisters(registers.consumer);
        attend(given, tiles, group, context);
      }
    },
    {
      ...GROUP,
      ...FUNCTIONS,
      ...{ dtype: p.dtype, registers: REGISTERS[tile.groups], results, work, ROWS, THREADS },
    },
  );
  return {
    kernel,
    grid: [Math.min(work.down * p.batch * p.heads, units), 1, 1],
    threads: (tile.groups + 1) * THREADS,
    sharedBytes: 0,
  };
}
