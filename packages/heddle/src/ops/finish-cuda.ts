/**
 * The epilogue of a library's routine: its plain results are passed through `finish` and stored. One read and one write
 * of every element more than a kernel that applies its own epilogue; the price of a routine that cannot.
 */
import type { DType } from '../core/dtype.js';
import { f32 } from '../core/dtype.js';
import type { KernelIr } from '../kernel/ir/ir.js';
import type { IrFunction } from '../kernel/ir/ir-function.js';
import { buffer } from '../kernel/ir/types.js';
import { defineKernel } from '../kernel/language/language.js';

export const FINISH_THREADS = 256;

export interface FinishProblem {
  /** Sizes of the results, outermost first: what `finish` takes as coordinates. */
  readonly split: readonly [number, number, number];
  /** Of the results, and of what is stored. */
  readonly from: DType;
  readonly to: DType;
  readonly finish: IrFunction;
}

/** Parameters: the plain results, the output. With the number of blocks to launch. */
export function finishPlain({ split, from, to, finish }: FinishProblem): {
  readonly kernel: KernelIr;
  readonly blocks: number;
} {
  const [A, B, C] = split;
  const LANES = C % 4 === 0 && from === f32 && to === f32 ? 4 : 1;
  const COUNT = A * B * C;
  const kernel = defineKernel(
    'finishPlain',
    { plain: buffer(from), out: buffer(to) },
    ({ plain, out }, { globalId, idiv, load4, store4, COUNT, LANES, B, C, finish }) => {
      const i = globalId.x * LANES;
      if (i < COUNT) {
        const row = idiv(i, C);
        if (LANES === 4) store4(out, i, finish(load4(plain, i), idiv(row, B), row % B, i % C));
        else out[i] = finish(plain[i], idiv(row, B), row % B, i % C);
      }
    },
    { COUNT, LANES, B, C, finish },
  );
  return { kernel, blocks: Math.ceil(COUNT / (LANES * FINISH_THREADS)) };
}
