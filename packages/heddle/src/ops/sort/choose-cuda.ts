/** The kernels of sorting for GPUs, as a choice of the fused op. */
import type { KernelChoice } from '../../graph/fused-op.js';
import { sortedPositions } from './cuda.js';
import { problemOf } from './problem.js';

export const argsortChoice: KernelChoice<null> = {
  name: 'argsort-cuda',
  when: ({ model }) => model === 'threads',
  finishes: true,
  plan: (io) => {
    const problem = problemOf(io);
    return sortedPositions(problem, { input: 0 }, io.finish([problem.rows, problem.n]));
  },
};
