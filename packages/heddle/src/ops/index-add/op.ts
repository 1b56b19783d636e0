/** Rows picked by an index, and the adjoint: rows added up where the index points. The index is the same everywhere. */
import { indexAddChoice } from '#ops/gpu-kernels.js';
import { sizeOf } from '../../core/shape.js';
import * as b from '../../graph/build.js';
import type { FusedOp } from '../../graph/fused-op.js';
import type { GraphNode } from '../../graph/node.js';
import type { IndexArg } from './arg.js';

export type { IndexArg } from './arg.js';

/** What `indexSelect` is, besides its tensors. */
export interface SelectArg extends IndexArg {
  /** What an index that is out of range picks. */
  readonly outside: 'zero' | 'nan';
}

const withSize = (shape: readonly number[], { axis }: IndexArg, size: number): number[] =>
  shape.map((d, i) => (i === axis ? size : d));

/** The index (n) along `axis` of a tensor of this shape. */
const along = (index: GraphNode, shape: readonly number[], { axis }: IndexArg): GraphNode =>
  b.expand(
    b.reshape(
      index,
      shape.map((_, i) => (i === axis ? index.size : 1)),
    ),
    shape,
  );

/** x (…, size, …), index (n) i32 → (…, n, …). What is picked from outside gets no gradient: nothing need mask it. */
export const indexSelectOp: FusedOp<SelectArg> = {
  name: 'indexSelect',
  infer: ([x, index], arg) => ({ dtype: x!.dtype, shape: withSize(x!.shape, arg, sizeOf(index!.shape)) }),
  compose: ([x, index], arg) => {
    const at = along(index!, withSize(x!.shape, arg, index!.size), arg);
    const picked = b.gather(x!, at, arg.axis);
    if (arg.outside === 'zero') return picked;
    const inside = b.map('and', b.map('ge', at, b.like(at, 0)), b.map('lt', at, b.like(at, arg.size)));
    return b.where(inside, picked, b.like(picked, Number.NaN));
  },
  grad: ({ src: [, index] }, g, { axis, size }) => [
    b.call(indexAddOp, [g, index!], { axis, size }),
    undefined,
  ],
  kernels: [],
};

/** values (…, n, …), index (n) i32 → (…, size, …), added always in the same order. */
export const indexAddOp: FusedOp<IndexArg> = {
  name: 'indexAdd',
  infer: ([values], arg) => ({ dtype: values!.dtype, shape: withSize(values!.shape, arg, arg.size) }),
  compose: ([values, index], arg) =>
    b.scatterAdd(values!, along(index!, values!.shape, arg), arg.axis, arg.size),
  grad: ({ src: [, index] }, g, { axis }) => [indexSelect(g, index!, axis), undefined],
  sumsRows: ({ axis }) => axis === 0,
  kernels: [indexAddChoice],
};

/** Rows (or whatever `axis` holds) of x by an index (n), i32. */
export const indexSelect = (
  x: GraphNode,
  index: GraphNode,
  axis: number,
  outside: SelectArg['outside'] = 'zero',
): GraphNode => b.call(indexSelectOp, [x, index], { axis, size: x.shape[axis]!, outside });
