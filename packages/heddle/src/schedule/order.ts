/** Orders of dimensions: dimension i of a tensor in another order is `order[i]` of the tensor as it was, as `permute` takes it. */
import { type Shape, sizeOf } from '../core/shape.js';

export type Order = readonly number[];

export const sameOrder = (a: Order, b: Order): boolean =>
  a.length === b.length && a.every((axis, i) => axis === b[i]);
export const isAsItWas = (order: Order): boolean => order.every((axis, i) => axis === i);
export const permuted = <T>(values: readonly T[], order: Order): T[] => order.map((axis) => values[axis]!);

/** The dimensions of more than one element as they come in memory, outermost first; none where they come as they were. */
export function movedAxes(order: Order, shape: Shape): Order {
  const longer = order.filter((axis) => shape[axis] !== 1);
  return longer.every((axis, i) => i === 0 || longer[i - 1]! < axis) ? [] : longer;
}

/** Dimensions of more than one element that become others, of as many elements, without what is around them. */
interface Regrouping {
  readonly from: readonly number[];
  readonly to: readonly number[];
}

/** How a reshape splits and joins dimensions. */
function regroupings(from: Shape, to: Shape): Regrouping[] {
  const longer = (shape: Shape): number[] => shape.flatMap((d, axis) => (d === 1 ? [] : [axis]));
  const [old, made] = [longer(from), longer(to)];
  const blocks: Regrouping[] = [];
  const count = (shape: Shape, axes: readonly number[]): number => axes.reduce((n, a) => n * shape[a]!, 1);
  while (old.length > 0) {
    const block: { from: number[]; to: number[] } = { from: [old.shift()!], to: [made.shift()!] };
    for (;;) {
      const [n, m] = [count(from, block.from), count(to, block.to)];
      if (n === m) break;
      if (n < m) block.from.push(old.shift()!);
      else block.to.push(made.shift()!);
    }
    blocks.push(block);
  }
  return blocks;
}

/** Orders before and after a reshape, between which it is one in memory as well. */
interface ReshapedOrder {
  readonly before: Order;
  readonly after: Order;
}

/**
 * A reshape of a tensor in another order: dimensions that are joined are brought next to each other, where the innermost of them is
 * that is not repeated.
 * @param isRepeated whether a dimension repeats one element
 */
export function reshapedOrder(
  from: Shape,
  order: Order,
  to: Shape,
  isRepeated: (axis: number) => boolean,
): ReshapedOrder | undefined {
  if (sizeOf(from) === 0) return undefined;
  const blocks = regroupings(from, to);
  const placeOf = ({ from: axes }: Regrouping): number => {
    const real = axes.filter((axis) => !isRepeated(axis));
    return Math.max(...(real.length > 0 ? real : axes).map((axis) => order.indexOf(axis)));
  };
  const sorted = [...blocks].sort((a, b) => placeOf(a) - placeOf(b));
  const withOnes = (axes: readonly number[], shape: Shape): number[] => {
    // A dimension of one element goes with the one before it.
    const all = [...axes];
    shape.forEach((d, axis) => {
      if (d === 1) all.splice(axis === 0 ? 0 : all.indexOf(axis - 1) + 1, 0, axis);
    });
    return all;
  };
  const before = sorted.flatMap((block) => block.from);
  const after = sorted.flatMap((block) => block.to);
  return {
    before: withOnes(before, from),
    after: movedAxes(after, to).length > 0 ? withOnes(after, to) : to.map((_, axis) => axis),
  };
}
