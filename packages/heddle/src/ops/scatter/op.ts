/** Values put, or added up, where an index points along the last dimension. Out of range is left out. */
import { lastAtChoice, scatterAddChoice } from '#ops/gpu-kernels.js';
import { f32, f64, i32 } from '../../core/dtype.js';
import { sizeOf } from '../../core/shape.js';
import * as b from '../../graph/build.js';
import type { FusedOp } from '../../graph/fused-op.js';
import type { GraphNode } from '../../graph/node.js';
import { stage } from '../stage.js';
import { addToRows, lastOfRows } from './cpu.js';
import { positionsIn, problemOf, type ScatterArg } from './problem.js';

/** Positions in a row up to which every place looks at all of them, on a CPU. */
const VERY_FEW = 16;

/** Index (…, n) i32 → (…, size) i32: the last of the positions that point at each place, −1 where none does. */
const lastAtOp: FusedOp<ScatterArg> = {
  name: 'lastAt',
  infer: ([index], { size }) => ({ shape: [...index!.shape.slice(0, -1), size], dtype: i32 }),
  compose: ([index], { size }) => {
    const lead = index!.shape.slice(0, -1);
    const all = [...lead, positionsIn(index!), size];
    const pointed = b.expand(b.reshape(index!, [...index!.shape, 1]), all);
    const position = b.iota(all, lead.length);
    const isHit = b.map('eq', pointed, b.iota(all, lead.length + 1));
    const last = b.reduce('max', b.where(isHit, position, b.like(position, -1)), [lead.length]);
    return b.reshape(last, [...lead, size]);
  },
  kernels: [
    {
      name: 'lastAt-cpu',
      when: ({ model }, { src }) => model === 'blocks' && positionsIn(src[0]!) > VERY_FEW,
      finishes: true,
      plan: (io, arg) => {
        const last = { scratch: 'last', bytes: sizeOf(io.output.shape) * i32.bytes };
        return [stage(lastOfRows(problemOf(io, arg)), { input: 0 }, last, { output: true })];
      },
    },
    lastAtChoice,
  ],
};

/** Values (…, n), index (…, n) i32 → (…, size), added always in the same order. */
const scatterAddOp: FusedOp<ScatterArg> = {
  name: 'scatterAdd',
  infer: ([values], { size }) => ({ shape: [...values!.shape.slice(0, -1), size], dtype: values!.dtype }),
  compose: ([values, index], { size }) => b.scatterAdd(values!, index!, values!.shape.length - 1, size),
  grad: ({ src: [, index] }, g) => [b.call(gatherOp, [g, index!], null), undefined],
  kernels: [
    {
      name: 'scatterAdd-cpu',
      when: ({ model }, { dtype, src }) =>
        model === 'blocks' && dtype === f32 && positionsIn(src[1]!) > VERY_FEW,
      finishes: true,
      plan: (io, arg) => {
        const sums = { scratch: 'sums', bytes: sizeOf(io.output.shape) * f64.bytes };
        const sources = [{ input: 0 }, { input: 1 }, sums, { output: true }] as const;
        return [stage(addToRows(problemOf(io, arg)), ...sources)];
      },
    },
    scatterAddChoice,
  ],
};

/** x (…, size), index (…, n) i32 → (…, n): 0 where the index is out of range. */
const gatherOp: FusedOp<null> = {
  name: 'gather',
  infer: ([x, index]) => ({ shape: index!.shape, dtype: x!.dtype }),
  compose: ([x, index]) => b.gather(x!, index!, x!.shape.length - 1),
  grad: ({ src: [x, index] }, g) => [
    b.call(scatterAddOp, [g, index!], { size: x!.shape.at(-1)! }),
    undefined,
  ],
  kernels: [],
};

/** x (…, size) at the positions in index (…, n): (…, n). */
export const gather = (x: GraphNode, index: GraphNode): GraphNode => b.call(gatherOp, [x, index], null);

/** Values (…, n) added up where the index (…, n) points: (…, size). */
export const scatterAdd = (values: GraphNode, index: GraphNode, size: number): GraphNode =>
  b.call(scatterAddOp, [values, index], { size });

/** The values (…, n) where the index (…, n) points, the last of several, and whether there is one: both (…, size). */
export function scattered(
  values: GraphNode,
  index: GraphNode,
  size: number,
): { readonly values: GraphNode; readonly isThere: GraphNode } {
  const last = b.call(lastAtOp, [index], { size });
  return {
    values: b.call(gatherOp, [values, last], null),
    isThere: b.map('ge', last, b.like(last, 0)),
  };
}
