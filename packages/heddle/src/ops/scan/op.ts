/** Running sums and products along an axis. */
import { scanChoice } from '#ops/gpu-kernels.js';
import { bool, f32, i32, isByte } from '../../core/dtype.js';
import { DTypeError } from '../../core/errors.js';
import { normalizeAxis } from '../../core/shape.js';
import * as b from '../../graph/build.js';
import type { FusedOp } from '../../graph/fused-op.js';
import type { GraphNode } from '../../graph/node.js';
import { stage } from '../stage.js';
import { scanRows } from './cpu.js';
import { problemOf, type ScanArg } from './problem.js';

/** x moved by `by` places towards the end of the last dimension, `value` before it. */
function shifted(x: GraphNode, by: number, value: number): GraphNode {
  const last = x.shape.length - 1;
  const at = (n: number): number[] => x.shape.map((_, i) => (i === last ? n : 0));
  const size = x.shape.map((d, i) => (i === last ? d - by : d));
  return b.pad(b.slice(x, at(0), size), at(by), at(0), value);
}

/** Twice as many elements are combined with each step: W. Hillis and G. Steele, Data parallel algorithms (1986). */
function doubling(x: GraphNode, { op }: ScanArg): GraphNode {
  const n = x.shape.at(-1)!;
  let y = x;
  for (let by = 1; by < n; by *= 2)
    y = b.map(op === 'add' ? 'add' : 'mul', shifted(y, by, op === 'add' ? 0 : 1), y);
  return y;
}

/** (…, n) → the same shape: what the elements up to each add up to, or their product. */
const scanOp = (name: string, grad?: FusedOp<ScanArg>['grad']): FusedOp<ScanArg> => ({
  name,
  infer: ([x]) => x!,
  compose: ([x], arg) => b.widened((x) => doubling(x, arg), x!),
  ...(grad && { grad }),
  kernels: [
    {
      name: `${name}-cpu`,
      when: ({ model }, { dtype }) => model === 'blocks' && dtype === f32,
      finishes: true,
      plan: (io, arg) => [stage(scanRows(problemOf(io, arg)), { input: 0 }, { output: true })],
    },
    scanChoice(`${name}-cuda`),
  ],
});

const reversed = (x: GraphNode): GraphNode => {
  const last = x.shape.length - 1;
  return b.slice(
    x,
    x.shape.map((d, i) => (i === last ? d - 1 : 0)),
    x.shape,
    x.shape.map((_, i) => (i === last ? -1 : 1)),
  );
};

const OPS: Readonly<Record<ScanArg['op'], FusedOp<ScanArg>>> = {
  add: scanOp('cumsum', (_, g, arg) => [reversed(b.call(OPS.add, [reversed(g)], arg))]),
  mul: scanOp('cumprod'),
};

/**
 * Running sums or products along `axis` (negative counts from the back); of i8 and u8 in i32.
 * @throws ShapeError if there is no such axis, DTypeError for bool
 */
export function scan(op: ScanArg['op'], x: GraphNode, axis: number): GraphNode {
  const name = OPS[op].name;
  const at = normalizeAxis(name, axis, x.shape.length);
  if (x.dtype === bool) throw new DTypeError(`[${name}] takes numbers, got bool. Convert with .cast(i32).`);
  const wide = isByte(x.dtype) ? b.cast(x, i32) : x;
  if (x.size === 0) return wide;
  const last = x.shape.length - 1;
  const order = x.shape.map((_, i) => (i === at ? last : i === last ? at : i));
  return b.permute(b.call(OPS[op], [b.permute(wide, order)], { op }), order);
}
