/** The kernels of scattering for GPUs, as choices of the fused ops. */
import { f32 } from '../../core/dtype.js';
import type { KernelChoice } from '../../graph/fused-op.js';
import { addStages, lastStages } from './cuda.js';
import { positionsIn, problemOf, type ScatterArg } from './problem.js';

/** Positions in a row up to which every place looks at all of them. */
const FEW = 256;

export const lastAtChoice: KernelChoice<ScatterArg> = {
  name: 'lastAt-cuda',
  when: ({ model }, { src }) => model === 'threads' && positionsIn(src[0]!) > FEW,
  finishes: true,
  plan: (io, arg) => lastStages(problemOf(io, arg)),
};

export const scatterAddChoice: KernelChoice<ScatterArg> = {
  name: 'scatterAdd-cuda',
  when: ({ model }, { dtype, src }) => model === 'threads' && dtype === f32 && positionsIn(src[1]!) > FEW,
  finishes: true,
  plan: (io, arg) => addStages(problemOf(io, arg)),
};
