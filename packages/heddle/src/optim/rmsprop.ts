/** RMSprop (Tieleman and Hinton, 2012), with centering (Graves, 2013). */
import { aBoolean, atLeast, belowOne, type Rules } from '../core/arguments.js';
import type { Tensor } from '../tensor/tensor.js';
import {
  type BaseSettings,
  LEARNING_RATE,
  Optimizer,
  type Trainable,
  type Update,
  withDefaults,
  zerosLike,
} from './optimizer.js';
import type { State } from './state.js';

/** Settings of `RMSprop`. */
export interface RMSpropSettings extends BaseSettings {
  /** Fraction of the old mean square that is kept (default 0.99). */
  readonly alpha: number;
  /** Added to the root, against division by 0 (default 1e-8). */
  readonly eps: number;
  /** L2 penalty: added to the gradient, times the parameter (default 0). */
  readonly weightDecay: number;
  /** Fraction of the previous update that is kept (default 0). */
  readonly momentum: number;
  /** Divide by the standard deviation instead of the root of the mean square (default false). */
  readonly centered: boolean;
}

const RMSPROP: RMSpropSettings = {
  lr: 1e-2,
  alpha: 0.99,
  eps: 1e-8,
  weightDecay: 0,
  momentum: 0,
  centered: false,
};

const RULES: Rules<RMSpropSettings> = {
  lr: LEARNING_RATE,
  alpha: belowOne,
  eps: atLeast(0),
  weightDecay: atLeast(0),
  momentum: atLeast(0),
  centered: aBoolean,
};

/**
 * s ← alpha·s + (1 − alpha)·g²;  d ← g / (√s + eps);  b ← momentum·b + d;  p ← p − lr·b, with
 * g ← ∇ + weightDecay·p and, centered, √(s − m²) where m ← alpha·m + (1 − alpha)·g. Default lr 1e-2.
 */
export class RMSprop extends Optimizer<RMSpropSettings> {
  constructor(params: Trainable<RMSpropSettings>, options: Partial<RMSpropSettings> = {}) {
    super(params, withDefaults(options, RMSPROP), RULES);
  }

  protected initialState(parameter: Tensor, s: RMSpropSettings): State {
    return {
      square: zerosLike(parameter),
      ...(s.centered ? { mean: zerosLike(parameter) } : {}),
      ...(s.momentum === 0 ? {} : { momentum: zerosLike(parameter) }),
    };
  }

  protected update(u: Update<RMSpropSettings>): { value: Tensor; state: State } {
    const { parameter, lr, state: old, settings: s } = u;
    const g = s.weightDecay === 0 ? u.gradient : u.gradient.add(parameter.mul(s.weightDecay));
    const blend = (kept: Tensor, now: Tensor): Tensor => kept.mul(s.alpha).add(now.mul(1 - s.alpha));
    const square = blend(old.square!, g.square());
    const state: Record<string, Tensor> = { square };
    let power = square;
    if (s.centered) {
      const mean = blend(old.mean!, g);
      state.mean = mean;
      power = square.sub(mean.square());
    }
    let direction = g.div(power.sqrt().add(s.eps));
    if (s.momentum !== 0) {
      direction = old.momentum!.mul(s.momentum).add(direction);
      state.momentum = direction;
    }
    return { value: parameter.sub(direction.mul(lr)), state };
  }
}
