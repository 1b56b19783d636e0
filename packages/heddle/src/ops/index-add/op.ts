/** Rows picked by an index, and the adjoint: rows added up where the index points. The index is the same everywhere. */
import { f32, i32 } from '../../core/dtype.js';
import { sizeOf } from '../../core/shape.js';
import * as b from '../../graph/build.js';
import type { FusedOp } from '../../graph/fused-op.js';
import type { GraphNode } from '../../graph/node.js';
import { sortedPairs } from '../sort/cuda.js';
import { gridStage } from '../stage.js';
import * as cuda from './cuda.js';

export interface IndexArg {
  readonly axis: number;
  /** Of the tensor that is picked from, along `axis`. */
  readonly size: number;
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

/** x (…, size, …), index (n) i32 → (…, n, …): 0 where the index is out of range. */
export const indexSelectOp: FusedOp<IndexArg> = {
  name: 'indexSelect',
  infer: ([x, index], arg) => ({ dtype: x!.dtype, shape: withSize(x!.shape, arg, sizeOf(index!.shape)) }),
  compose: ([x, index], arg) =>
    b.gather(x!, along(index!, withSize(x!.shape, arg, index!.size), arg), arg.axis),
  grad: ({ src: [, index] }, g, arg) => [b.call(indexAddOp, [g, index!], arg), undefined],
  kernels: [],
};

/** Positions up to which every element of the result looks at all of them. */
const FEW = 256;

/** values (…, n, …), index (n) i32 → (…, size, …), added always in the same order. */
export const indexAddOp: FusedOp<IndexArg> = {
  name: 'indexAdd',
  infer: ([values], arg) => ({ dtype: values!.dtype, shape: withSize(values!.shape, arg, arg.size) }),
  compose: ([values, index], arg) =>
    b.scatterAdd(values!, along(index!, values!.shape, arg), arg.axis, arg.size),
  grad: ({ src: [, index] }, g, arg) => [b.call(indexSelectOp, [g, index!], arg), undefined],
  kernels: [
    {
      name: 'indexAdd-cuda',
      when: ({ model }, { dtype, src }) => model === 'threads' && dtype === f32 && src[1]!.size > FEW,
      finishes: true,
      plan: ({ inputs: [values, index], output, finish }, { axis, size }) => {
        const n = index!.shape[0]!;
        const outer = sizeOf(output.shape.slice(0, axis));
        const inner = sizeOf(output.shape.slice(axis + 1));
        const problem: cuda.IndexAddProblem = {
          ...{ outer, n, size, inner, valuesOffset: values!.offset },
          finish: finish([outer, size, inner]),
        };
        const { stages, keys, positions } = sortedPairs(
          { rows: 1, n, offset: index!.offset, dtype: i32 },
          { input: 1 },
        );
        const starts = { scratch: 'starts', bytes: (size + 1) * i32.bytes };
        const sums = [{ input: 0 }, positions, starts, { output: true }] as const;
        return [
          ...stages,
          gridStage(cuda.rowStarts(problem), keys, starts),
          gridStage(cuda.addRows(problem), ...sums),
          ...(n > cuda.LONG ? [gridStage(cuda.addLongRows(problem), keys, ...sums)] : []),
        ];
      },
    },
  ],
};

/** Rows (or whatever `axis` holds) of x by an index (n), i32. */
export const indexSelect = (x: GraphNode, index: GraphNode, axis: number): GraphNode =>
  b.call(indexSelectOp, [x, index], { axis, size: x.shape[axis]! });
