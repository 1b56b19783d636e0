/** The kernels of recurrent networks for GPUs, as choices of the fused ops. */
import { f32 } from '../../core/dtype.js';
import type { KernelChoice, KernelIo, Stage, Variant } from '../../graph/fused-op.js';
import { FITTED } from '../../kernel/ir/machine.js';
import { gridStage } from '../stage.js';
import { backwardResident, forwardResident, residentCycles, residentWork } from './cuda-resident.js';
import { backwardStep, forwardStep, type StepTile } from './cuda-step.js';
import { stepCycles, stepTiles } from './cuda-step-tiles.js';
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

/** A launch for each step and, where the weights fit, one for all: the one that is likely faster first. */
function variants(io: KernelIo, arg: RecurrentArg, isBackward: boolean): Variant[] {
  const { inputs, target } = io;
  const p = problemOf(io, arg);
  const tiles = stepTiles(p, isBackward, target, 4);
  const steps = tiles.map((tile) => ({
    name: nameOf(tile),
    plan: () => stepStages(io, p, isBackward, tile),
  }));
  const work = residentWork(p, isBackward, target);
  if (!work) return steps;
  const resident = {
    name: `resident-${work.rowsEach}`,
    plan: () => {
      const kernel = isBackward ? backwardResident(p, work) : forwardResident(p, work);
      return [gridStage(kernel, ...inputs.map((_, input) => ({ input })), { output: true })];
    },
  };
  const launch = FITTED.matmul.anotherKernel - FITTED.matmul.latency;
  const stepwise = p.steps * (launch + stepCycles(p, isBackward, target, tiles[0]!));
  return residentCycles(p, work, target) < stepwise ? [resident, ...steps] : [...steps, resident];
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
