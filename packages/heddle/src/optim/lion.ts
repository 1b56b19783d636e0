/** Lion (Chen et al., Symbolic discovery of optimization algorithms, 2023). */
import { atLeast, type Rules } from '../core/arguments.js';
import type { Tensor } from '../tensor/tensor.js';
import {
  type BaseSettings,
  BETAS,
  LEARNING_RATE,
  Optimizer,
  type Trainable,
  type Update,
  withDefaults,
  zerosLike,
} from './optimizer.js';
import type { State } from './state.js';

/** Settings of `Lion`. */
export interface LionSettings extends BaseSettings {
  /** Shares of the old mean gradient that are kept: in the direction of a step, and for the next (default 0.9, 0.99). */
  readonly betas: readonly [number, number];
  /** Shrinks the parameter, times the learning rate (default 0). */
  readonly weightDecay: number;
}

const LION: LionSettings = { lr: 1e-4, betas: [0.9, 0.99], weightDecay: 0 };

const RULES: Rules<LionSettings> = { lr: LEARNING_RATE, betas: BETAS, weightDecay: atLeast(0) };

/**
 * p ← p − lr·(sign(β₁m + (1 − β₁)g) + weightDecay·p);  m ← β₂m + (1 − β₂)g. Every element moves by the learning rate,
 * which is therefore a third to a tenth of Adam's. Defaults: lr 1e-4, betas 0.9 and 0.99, weightDecay 0.
 */
export class Lion extends Optimizer<LionSettings> {
  constructor(params: Trainable<LionSettings>, options: Partial<LionSettings> = {}) {
    super(params, withDefaults(options, LION), RULES);
  }

  protected initialState(parameter: Tensor): State {
    return { mean: zerosLike(parameter) };
  }

  protected update(u: Update<LionSettings>): { value: Tensor; state: State } {
    const { parameter, gradient: g, lr, settings } = u;
    const { betas, weightDecay } = settings;
    const blend = (kept: number): Tensor => u.state.mean!.mul(kept).add(g.mul(1 - kept));
    const direction = blend(betas[0]).sign();
    const step = weightDecay === 0 ? direction : direction.add(parameter.mul(weightDecay));
    return { value: parameter.sub(step.mul(lr)), state: { mean: blend(betas[1]) } };
  }
}
