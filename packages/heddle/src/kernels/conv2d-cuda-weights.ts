/**
 * How a block of the convolution kernels for GPUs copies its weights to shared memory: those of some output channels and
 * some input channels, all taps. In memory they are (output, input, tap) of the forward direction. A warp reads runs as
 * they lie there, of (input, tap) for one output or, for the adjoint, of (output, tap) for one input, and keeps where
 * its columns go: indices are sums.
 */
import type { Intrinsics, Memory } from '../kernel/language.js';
import type { CudaConvolution } from './conv2d-cuda-image.js';
import { IN_FLIGHT } from './conv2d-cuda-image.js';

export interface WeightCopy {
  readonly adjoint: boolean;
  readonly rounded: boolean;
  /** Where the weights begin, and how many channels there are (per group) and in the copy. */
  readonly at: number;
  readonly inputs: number;
  readonly outputs: number;
  readonly taps: number;
  readonly chunk: number;
  readonly channels: number;
  /** Rows and columns of the copy, warps, and what a thread has of both at a time. */
  readonly rows: number;
  readonly columns: number;
  readonly warps: number;
  readonly rowBatch: number;
  readonly columnBatch: number;
}

export function weightCopy(
  p: CudaConvolution & { readonly weightOffset: number },
  chunk: number,
  channels: number,
  warps: number,
): WeightCopy {
  const taps = p.kernel[0] * p.kernel[1];
  const rows = p.adjoint ? chunk : channels;
  const columns = (p.adjoint ? channels : chunk) * taps;
  const rowBatch = Math.min(8, Math.ceil(rows / warps));
  const columnBatch = Math.max(1, Math.min(Math.floor(IN_FLIGHT / rowBatch), Math.ceil(columns / 32)));
  return {
    ...{
      adjoint: p.adjoint,
      rounded: p.tensorCores,
      at: p.weightOffset,
      inputs: p.inputs,
      outputs: p.outputs,
    },
    ...{ taps, chunk, channels, rows, columns, warps, rowBatch, columnBatch },
  };
}

/**
 * Copies the weights of output channels `output` … and input channels `input` … of group g to `to`, zeros where there
 * are none. `place(o, c, tap)` says where.
 */
export function copyWeights(
  w: Memory,
  to: Memory,
  g: number,
  output: number,
  input: number,
  place: (o: number, c: number, tap: number) => number,
  copy: WeightCopy,
  context: Intrinsics,
): void {
  const { warpId, laneId, idiv, local, f32, tf32 } = context;
  const { adjoint, rounded, inputs, outputs, taps, rows, columns, warps, rowBatch, columnBatch } = copy;
  let column = laneId;
  while (column < columns) {
    let row = warpId;
    while (row < rows) {
      const held = local(f32, columnBatch, rowBatch);
      for (let i = 0; i < columnBatch; i++) {
        const at = column + i * 32;
        const other = idiv(at, taps);
        const tap = at % taps;
        for (let b = 0; b < rowBatch; b++) {
          const r = row + b * warps;
          const o = output + (adjoint ? other : r);
          const c = input + (adjoint ? r : other);
          const from = adjoint
            ? ((g * inputs + c) * outputs + o) * taps + taps - 1 - tap
            : ((g * outputs + o) * inputs + c) * taps + tap;
          const there = at < columns && r < rows && o < outputs && c < inputs;
          held[i][b] = there ? w[copy.at + from] : 0;
        }
      }
      for (let i = 0; i < columnBatch; i++) {
        const at = column + i * 32;
        const other = idiv(at, taps);
        const tap = at % taps;
        for (let b = 0; b < rowBatch; b++) {
          const r = row + b * warps;
          const spot = place(adjoint ? other : r, adjoint ? r : other, tap);
          if (at < columns && r < rows) to[spot] = rounded ? tf32(held[i][b]) : held[i][b];
        }
      }
      row += rowBatch * warps;
    }
    column += columnBatch * 32;
  }
}
