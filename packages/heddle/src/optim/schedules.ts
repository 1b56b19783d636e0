/** Learning rate schedules: functions from training progress (0 to 1) to a factor for the learning rate. */
import { aFinite, belowOne, listOf, type Rules, requireArgument, requireOptions } from '../core/arguments.js';

/** The factor for the learning rate at a point of the training, 0 to 1. */
export type LrSchedule = (progress: number) => number;

/** Options of `cosine` and `linear`. */
export interface RampOptions {
  /** The share of the training in which the rate rises from 0 (default 0). */
  readonly warmup?: number;
  /** The factor at the end (default 0). */
  readonly final?: number;
}

const RAMP: Rules<RampOptions> = { warmup: belowOne, final: aFinite };

function ramp(name: string, options: RampOptions, shape: (t: number) => number): LrSchedule {
  requireOptions(name, options, RAMP);
  const { warmup = 0, final = 0 } = options;
  return (progress) =>
    progress < warmup
      ? progress / warmup
      : final + (1 - final) * shape(Math.min(1, (progress - warmup) / (1 - warmup)));
}

/** Down a half cosine (Loshchilov and Hutter, 2017), after a linear rise if wanted. */
export const cosine = (options: RampOptions = {}): LrSchedule =>
  ramp('cosine', options, (t) => (1 + Math.cos(Math.PI * t)) / 2);

/** Down a straight line, after a linear rise if wanted. */
export const linear = (options: RampOptions = {}): LrSchedule => ramp('linear', options, (t) => 1 - t);

/** Options of `steps`. */
export interface StepsOptions {
  /** The factor at each milestone (default 0.1). */
  readonly gamma?: number;
}

const STEPS: Rules<StepsOptions> = { gamma: aFinite };

/** Times `gamma` (default 0.1) at each of the milestones, given as shares of the training. */
export function steps(milestones: readonly number[], options: StepsOptions = {}): LrSchedule {
  requireOptions('steps', options, STEPS);
  const { gamma = 0.1 } = options;
  requireArgument('steps', 'milestones', milestones, listOf(aFinite));
  return (progress) => gamma ** milestones.filter((m) => progress >= m).length;
}
