/** Learning rate schedules: factors of the learning rate, from the share of the training that is done (0 … 1). */
import { ArgumentError } from '../core/errors.js';

export type Schedule = (progress: number) => number;

export interface RampOptions {
  /** The share of the training in which the rate rises from 0 (default 0). */
  readonly warmup?: number;
  /** The factor at the end (default 0). */
  readonly final?: number;
}

function ramp(name: string, options: RampOptions, shape: (t: number) => number): Schedule {
  const { warmup = 0, final = 0 } = options;
  if (!(warmup >= 0 && warmup < 1))
    throw new ArgumentError(`[${name}] warmup is ${warmup}, must be at least 0 and less than 1.`);
  return (progress) =>
    progress < warmup
      ? progress / warmup
      : final + (1 - final) * shape(Math.min(1, (progress - warmup) / (1 - warmup)));
}

/** Down a half cosine (Loshchilov and Hutter, 2017), after a linear rise if wanted. */
export const cosine = (options: RampOptions = {}): Schedule =>
  ramp('cosine', options, (t) => (1 + Math.cos(Math.PI * t)) / 2);

/** Down a straight line, after a linear rise if wanted. */
export const linear = (options: RampOptions = {}): Schedule => ramp('linear', options, (t) => 1 - t);

/** Times `gamma` (default 0.1) at each of the milestones, given as shares of the training. */
export function steps(milestones: readonly number[], gamma = 0.1): Schedule {
  return (progress) => gamma ** milestones.filter((m) => progress >= m).length;
}
