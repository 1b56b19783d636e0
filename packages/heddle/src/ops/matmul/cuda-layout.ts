/** How the f32 products of GPUs cut the work, and how they keep A and B in shared memory. */
import type { Lanes } from '../lanes.js';
import type { MatmulProblem } from './cpu.js';
import { type Cut, LEVEL, piecesOf, type TileLayout } from './cuda-block.js';
import { panelOf, transposed } from './cuda-panel.js';

/** How the work is cut. The depth is a multiple of 4. */
export interface MatmulTile extends Cut {
  /** Of a warp, along M and N; 32 together. */
  readonly lanes: readonly [number, number];
  /** Elements of C that a thread sums, along M and N. */
  readonly each: readonly [number, number];
}

/** Whether fragments are so large that they are read one step at a time, and what lies along K turned for it. */
const isLarge = ({ each }: MatmulTile): boolean => each[0] * each[1] >= 64;

export function layoutOf(p: MatmulProblem, tile: MatmulTile): TileLayout {
  const { warps, lanes, each, depth, stages } = tile;
  const splits = tile.splits * piecesOf(p.K, tile, LEVEL.f32);
  // What a large tile reads goes further across K: two vectors of 4 for every 64 products, one step at a time.
  const turn = isLarge(tile) && depth % 8 === 0;
  const cut = { inner: p.K, depth, splits, turn, once: isLarge(tile) };
  const share = (side: 0 | 1) => ({ warps: warps[side], lanes: lanes[side], each: each[side] });
  const a = panelOf({ ...cut, operand: p.a, size: p.M, share: share(0) });
  const b = panelOf({ ...cut, operand: transposed(p.b), size: p.N, share: share(1) });
  const shares = warps[2] > 1 ? warps[2] * a.rows * b.rows : 0;
  const sharedBytes = 4 * Math.max(stages * (a.elements + b.elements), shares);
  return { a, b, rows: a.rows, columns: b.rows, sharePitch: b.rows, sharedBytes };
}

/** Neighbours of a row of C that a thread stores together. */
export function lanesOf(p: MatmulProblem, tile: MatmulTile, { b, rows, columns }: TileLayout): Lanes {
  const { warps } = tile;
  const threads = 32 * warps[0] * warps[1] * warps[2];
  // Of shares that are added, as few elements a thread as keep all threads busy with the epilogue.
  const most = warps[2] === 1 ? b.group : Math.max(1, (rows * columns) / threads);
  return most >= 4 && p.N % 4 === 0 ? 4 : most >= 2 && p.N % 2 === 0 ? 2 : 1;
}
