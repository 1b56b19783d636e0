/** Sums of windows that lie side by side, and their adjoint, which repeats an element all over its window. */
import * as b from '../../graph/build.js';
import type { FusedOp, WindowFunction, WindowSizes } from '../../graph/fused-op.js';
import type { GraphNode, TensorType } from '../../graph/node.js';
import * as k from '../../kernel/ir/ir.js';
import { storedWindowsOp } from '../stored-windows/op.js';

const windowsIn = (shape: readonly number[], sizes: WindowSizes): number[] =>
  shape.slice(-2).map((d, i) => Math.floor(d / sizes[i]!));

/** (…, H, W) → (…, ⌊H/h⌋, ⌊W/w⌋): the sum of each window of h × w elements; what is left over at the ends is in none. */
export const windowSumOp: FusedOp<WindowSizes> = {
  name: 'windowSum',
  infer: ([x], sizes) => ({
    shape: [...x!.shape.slice(0, -2), ...windowsIn(x!.shape, sizes)],
    dtype: x!.dtype,
  }),
  compose: ([x], sizes) => {
    const lead = x!.shape.slice(0, -2);
    const [rows, columns] = windowsIn(x!.shape, sizes) as [number, number];
    const [h, w] = sizes;
    const covered = b.slice(
      x!,
      x!.shape.map(() => 0),
      [...lead, rows * h, columns * w],
    );
    const apart = b.reshape(covered, [...lead, rows, h, columns, w]);
    return b.reshape(b.sum(apart, [lead.length + 1, lead.length + 3]), [...lead, rows, columns]);
  },
  grad: ({ src: [x] }, g, sizes) => {
    const repeated = b.call(windowRepeatOp, [g], sizes);
    const missing = x!.shape.map((d, i) => d - repeated.shape[i]!);
    return [
      b.pad(
        repeated,
        missing.map(() => 0),
        missing,
      ),
    ];
  },
  windows: (sizes) => ({ sizes, compute: added, stored: storedWindowsOp }),
  kernels: [],
};

const added: WindowFunction['compute'] = (values) => values.reduce((sum, v) => k.alu('add', [sum, v]));

/** (…, H, W) → (…, H·h, W·w): every element as a window of h × w. */
export const windowRepeatOp: FusedOp<WindowSizes> = {
  name: 'windowRepeat',
  infer: ([x], sizes): TensorType => ({ shape: repeatedShape(x!.shape, sizes), dtype: x!.dtype }),
  compose: ([x], [h, w]) => {
    const lead = x!.shape.slice(0, -2);
    const [rows, columns] = x!.shape.slice(-2) as [number, number];
    const apart = b.expand(b.reshape(x!, [...lead, rows, 1, columns, 1]), [...lead, rows, h, columns, w]);
    return b.reshape(apart, repeatedShape(x!.shape, [h, w]));
  },
  grad: (_node: GraphNode, g, sizes) => [b.call(windowSumOp, [g], sizes)],
  kernels: [],
};

const repeatedShape = (shape: readonly number[], sizes: WindowSizes): number[] => [
  ...shape.slice(0, -2),
  ...shape.slice(-2).map((d, i) => d * sizes[i]!),
];
