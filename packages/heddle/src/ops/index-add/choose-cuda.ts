/** The kernels that add rows up on GPUs, as a choice of the fused op. */
import { f32, i32 } from '../../core/dtype.js';
import { sizeOf } from '../../core/shape.js';
import type { KernelChoice } from '../../graph/fused-op.js';
import { sortedPairs } from '../sort/cuda.js';
import { gridStage } from '../stage.js';
import type { IndexArg } from './arg.js';
import * as cuda from './cuda.js';

/** Positions up to which every element of the result looks at all of them. */
const FEW = 256;

export const indexAddChoice: KernelChoice<IndexArg> = {
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
};
