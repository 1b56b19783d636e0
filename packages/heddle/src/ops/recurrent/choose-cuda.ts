/** The kernels of recurrent networks for GPUs, as choices of the fused ops. */
import { f32 } from '../../core/dtype.js';
import type { KernelChoice, KernelIo, Stage, Variant } from '../../graph/fused-op.js';
import { gridStage } from '../stage.js';
import { backwardStep, forwardStep, type StepTile } from './cuda-step.js';
import { stepTiles } from './cuda-step-tiles.js';
import { problemOf, type RecurrentArg, type RecurrentProblem } from './problem.js';

/** A launch for each step, in the order in which they run. */
function stepStages({ inputs }: KernelIo, p: RecurrentProblem, isBackward: boolean, tile: StepTile): Stage[] {
  const step = isBackward ? backwardStep(p, tile) : forwardStep(p, tile);
  const sources = inputs.map((_, input) => ({ input }));
  return Array.from({ length: p.steps }, (_, i) =>
    gridStage(step, ...sources, { output: true }, { value: isBackward ? p.steps - 1 - i : i }),
  );
}

const nameOf = ({ rows, features, each, shares, depth, stages }: StepTile): string =>
  `steps-${rows}x${features}x${depth}-${each}-shares-${shares}-stages-${stages}`;

function variants(io: KernelIo, arg: RecurrentArg, isBackward: boolean): Variant[] {
  const p = problemOf(io, arg);
  return stepTiles(p, isBackward, io.target, 4).map((tile) => ({
    name: nameOf(tile),
    plan: () => stepStages(io, p, isBackward, tile),
  }));
}

const choice = (name: string, isBackward: boolean): KernelChoice<RecurrentArg> => ({
  name,
  when: ({ model }, { dtype, size }) => model === 'threads' && dtype === f32 && size > 0,
  finishes: false,
  variants: (io, arg) => variants(io, arg, isBackward),
  plan: (io, arg) => variants(io, arg, isBackward)[0]!.plan(),
});

export const forwardChoice = choice('recurrent-cuda', false);
export const backwardChoice = choice('recurrentGradient-cuda', true);
