/** Windows in memory: what the kernels know of them. */
import type { DType } from '../../core/dtype.js';
import type { KernelIo, View, WindowSizes } from '../../graph/fused-op.js';
import type { IrFunction } from '../../kernel/ir/ir-function.js';

export interface WindowsProblem {
  readonly name: string;
  /** Images × channels, and the channels. */
  readonly planes: number;
  readonly channels: number;
  /** Rows and columns of a plane, and of its windows. */
  readonly size: readonly [number, number];
  readonly outSize: readonly [number, number];
  readonly window: WindowSizes;
  /** Where the source begins, in elements. */
  readonly offset: number;
  readonly from: DType;
  readonly to: DType;
  /** (the window's values, image, channel, row, column of the window) → the value to store. */
  readonly finish: IrFunction;
}

/** The problem of `io`, whose node's values are at `source`: (…, C, H, W), contiguous. */
export function problemOf({ window, output, finish }: KernelIo, source: View): WindowsProblem {
  const [channels, ...size] = source.shape.slice(-3) as [number, number, number];
  const planes = source.shape.slice(0, -2).reduce((n, d) => n * d, 1);
  const [rows, columns] = output.shape.slice(-2) as [number, number];
  return {
    ...{ name: window!.name, planes, channels, size: size as [number, number], outSize: [rows, columns] },
    ...{ window: window!.sizes, offset: source.offset, from: source.dtype, to: output.dtype },
    finish: finish([planes / channels, channels, rows, columns]),
  };
}
