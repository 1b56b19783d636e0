/** Long products of few results as sums of products, on a GPU. */
import { f32 } from '../../core/dtype.js';
import * as b from '../../graph/build.js';
import type { GraphNode } from '../../graph/node.js';
import { FITTED } from '../../kernel/ir/machine.js';
import type { Target } from '../../kernel/ir/target.js';

/** Rows and columns of a tile of a small product. */
const TILE = 16;
/** Terms of a part at least, and how many parts: of fewer the tuner knows better how many blocks share a sum. */
const [LEAST_TERMS, LEAST_PARTS] = [128, 8];

/**
 * Splits K of a long product with few results into parts, so that all multiprocessors of a GPU have work. It does so where one block
 * would need at least the time of two launches to read the rows and columns of its tile, and that of one to read all columns.
 * A second kernel sums the parts of each row and can fuse the operations that follow.
 * @param product makes one product of each part
 */
export function productInParts(
  [x, y]: readonly GraphNode[],
  { model, units }: Target,
  product: (x: GraphNode, y: GraphNode) => GraphNode,
): GraphNode | undefined {
  if (model !== 'threads' || x!.dtype !== f32 || x!.shape.length !== 2) return undefined;
  const [M, K] = x!.shape as [number, number];
  const N = y!.shape.at(-1)!;
  const ofTile = f32.bytes * K * (Math.min(M, TILE) + Math.min(N, TILE));
  const ofColumns = f32.bytes * K * N;
  const inLaunch = FITTED.matmul.anotherKernel * FITTED.matmul.received;
  if (ofTile < 2 * inLaunch || ofColumns < inLaunch) return undefined;
  const tiles = Math.ceil(M / TILE) * Math.ceil(N / TILE);
  const most = Math.floor(Math.min(units / tiles, K / LEAST_TERMS));
  const count = Array.from({ length: most }, (_, i) => most - i).find((n) => K % n === 0);
  if (count === undefined || count < LEAST_PARTS) return undefined;
  const left = b.permute(b.reshape(x!, [M, count, K / count]), [1, 0, 2]);
  const parts = product(left, b.reshape(y!, [count, K / count, N]));
  return b.sum(b.permute(parts, [1, 0, 2]), [1]);
}
