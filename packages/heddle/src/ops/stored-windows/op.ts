/** Windows of a source that is in memory, for functions of windows that no other kernel computes. */
import { isFloat } from '../../core/dtype.js';
import type { FusedOp, KernelIo, StageArgument, WindowSizes } from '../../graph/fused-op.js';
import { gridStage, stage } from '../stage.js';
import { windowsOnCpu } from './cpu.js';
import { windowsOnGpu } from './cuda.js';
import { problemOf } from './problem.js';

const source: StageArgument = { input: 0 };
const output: StageArgument = { output: true };

/** The source, given window by window to what is made of it. */
export const storedWindowsOp: FusedOp<WindowSizes> = {
  name: 'storedWindows',
  identity: true,
  infer: ([x]) => x!,
  compose: ([x]) => x!,
  kernels: (['blocks', 'threads'] as const).map((model) => ({
    name: `storedWindows-${model === 'blocks' ? 'cpu' : 'cuda'}`,
    when: (target, { dtype, size }) => target.model === model && isFloat(dtype) && size > 0,
    finishes: true,
    windows: () => true,
    plan: (io: KernelIo) =>
      model === 'blocks'
        ? [stage(windowsOnCpu(problemOf(io, io.inputs[0]!)), source, output)]
        : [gridStage(windowsOnGpu(problemOf(io, io.inputs[0]!)), source, output)],
  })),
};
