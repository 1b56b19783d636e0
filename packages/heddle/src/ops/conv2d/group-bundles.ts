/**
 * Grouped convolutions by warpgroups, whose tiles are wider than the few channels that a group may have. So some neighbouring groups
 * become one, a bundle: a filter has the channels of all of them, and is 0 at those of the others. What is multiplied by these zeros
 * is more than the groups' own products, but a tile takes no longer for them. A bundle with a number that is not finite gives others.
 */
import * as b from '../../graph/build.js';
import type { GraphNode, TensorType } from '../../graph/node.js';
import { depthOf, ROWS } from '../matmul/warpgroup-layout.js';
import { COPY } from './last-product.js';

/**
 * How many groups a bundle has, so that all bundles take the fewest steps of tiles, and then are few: all, if no fewer have channels
 * that can be copied.
 * @param weights (O, C/G, kH, kW)
 */
export function bundleOf({ shape, dtype }: TensorType, groups: number): number {
  const [outputs, inputs] = [shape[0]! / groups, shape[1]!];
  const steps = (n: number): number =>
    (groups / n) * Math.ceil((n * inputs) / depthOf(dtype)) * Math.ceil((n * outputs) / ROWS);
  const isCopied = (n: number): boolean => [inputs, outputs].every((c) => (n * c * dtype.bytes) % COPY === 0);
  let best = groups;
  for (let n = groups - 1; n > 0; n--)
    if (groups % n === 0 && isCopied(n) && steps(n) < steps(best)) best = n;
  return best;
}

/** (O, kH, kW, C/G) with a filter for the channels of each of the `n` groups of a bundle: (O, kH, kW, n·C/G). */
export function bundled(w: GraphNode, groups: number, n: number): GraphNode {
  if (n === 1) return w;
  const [outputs, rows, columns, inputs] = w.shape as [number, number, number, number];
  const filters = b.reshape(w, [groups / n, n, outputs / groups, rows, columns, 1, inputs]);
  const places = [1, n, 1, 1, 1, n, 1];
  const isOwn = b.map('eq', b.iota(places, 1), b.iota(places, 5));
  return b.reshape(b.where(isOwn, filters, b.full([], w.dtype, 0)), [outputs, rows, columns, n * inputs]);
}

/** The filters of the groups themselves: (O, kH, kW, n·C/G) → (O, kH, kW, C/G). */
export function unbundled(w: GraphNode, groups: number, n: number): GraphNode {
  if (n === 1) return w;
  const [outputs, rows, columns, all] = w.shape as [number, number, number, number];
  const [bundles, each, inputs] = [groups / n, outputs / groups, all / n];
  // A filter's own channels are those of its number in the bundle: a diagonal.
  const apart = b.permute(b.reshape(w, [bundles, n, each, rows, columns, n, inputs]), [0, 2, 3, 4, 6, 1, 5]);
  const rest = [bundles, each, rows, columns, inputs];
  const square = b.reshape(apart, [...rest, n * n]);
  const start = rest.map(() => 0);
  const step = rest.map(() => 1);
  const own = b.slice(square, [...start, 0], [...rest, n], [...step, n + 1]);
  return b.reshape(b.permute(own, [0, 5, 1, 2, 3, 4]), [outputs, rows, columns, inputs]);
}

/** Of each group (O, kH, kW, C) → (C, kH, kW, O), and back. */
export function turned(w: GraphNode, groups: number): GraphNode {
  const [outputs, rows, columns, inputs] = w.shape as [number, number, number, number];
  const each = b.reshape(w, [groups, outputs / groups, rows, columns, inputs]);
  return b.reshape(b.permute(each, [0, 4, 2, 3, 1]), [groups * inputs, rows, columns, outputs / groups]);
}
