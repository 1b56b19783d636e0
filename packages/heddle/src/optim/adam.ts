/** Adam (Kingma and Ba, 2015) and AdamW (Loshchilov and Hutter, 2019). */
import { atLeast, type Rules } from '../core/arguments.js';
import type { DType } from '../core/dtype.js';
import { arange, full, tensor } from '../tensor/create.js';
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

/** Settings of `Adam` and `AdamW`. */
export interface AdamSettings extends BaseSettings {
  /** Shares of the old means that are kept: of gradients, of their squares (default 0.9, 0.999). */
  readonly betas: readonly [number, number];
  /** Added to the root, against division by 0 (default 1e-8). */
  readonly eps: number;
  /** Adam: added to the gradient, times the parameter (default 0). AdamW: shrinks the parameter (default 0.01). */
  readonly weightDecay: number;
}

const ADAM: AdamSettings = { lr: 1e-3, betas: [0.9, 0.999], eps: 1e-8, weightDecay: 0 };

const RULES: Rules<AdamSettings> = {
  lr: LEARNING_RATE,
  betas: BETAS,
  eps: atLeast(0),
  weightDecay: atLeast(0),
};

/**
 * m ← β₁m + (1 − β₁)g;  v ← β₂v + (1 − β₂)g²;  p ← p − lr/(1 − β₁ᵗ) · m / (√(v/(1 − β₂ᵗ)) + eps),
 * with g ← ∇ + weightDecay·p. Defaults: lr 1e-3, betas 0.9 and 0.999, eps 1e-8, weightDecay 0.
 * @example
 * ```ts
 * import { nn, optim } from 'heddle';
 *
 * const model = new nn.Linear(4, 1);
 * const optimizer = new optim.Adam(model.parameters(), { lr: 1e-3 });
 * console.log(optimizer.groups.length); // → 1
 * ```
 */
export class Adam extends Optimizer<AdamSettings> {
  constructor(params: Trainable<AdamSettings>, options: Partial<AdamSettings> = {}) {
    super(params, withDefaults(options, ADAM), RULES);
  }

  protected initialState(parameter: Tensor): State {
    return { mean: zerosLike(parameter), square: zerosLike(parameter) };
  }

  /** [1 − β₁ᵗ, 1 − β₂ᵗ]: kept as such, because 1 − β₂ᵗ from an f32 β₂ᵗ would lose half its digits at first. */
  protected override initialShared(_settings: AdamSettings, dtype: DType<'f32' | 'f64'>): State {
    return { corrections: tensor([0, 0], { dtype }) };
  }

  protected override nextShared(shared: State, { betas: [beta1, beta2] }: AdamSettings): State {
    const { dtype } = shared.corrections!;
    const isFirst = arange(0, 2).eq(0);
    const pair = (first: number, second: number): Tensor => isFirst.where(full([], first, { dtype }), second);
    const kept = shared.corrections!.mul(pair(beta1, beta2));
    return { corrections: kept.add(pair(1 - beta1, 1 - beta2)) };
  }

  /** Before anything else: how the weights decay. */
  protected decay(u: Update<AdamSettings>): { parameter: Tensor; gradient: Tensor } {
    const { parameter, gradient, settings: s } = u;
    if (s.weightDecay === 0) return { parameter, gradient };
    return { parameter, gradient: gradient.add(parameter.mul(s.weightDecay)) };
  }

  protected update(u: Update<AdamSettings>): { value: Tensor; state: State } {
    const { lr, state, settings } = u;
    const { parameter, gradient: g } = this.decay(u);
    const [beta1, beta2] = settings.betas;
    const corrections = u.shared.corrections!.cast(parameter.dtype);
    const mean = state.mean!.mul(beta1).add(g.mul(1 - beta1));
    const square = state.square!.mul(beta2).add(g.square().mul(1 - beta2));
    const size = square.sqrt().div(corrections.at(1).sqrt()).add(settings.eps);
    const value = parameter.sub(mean.div(size).mul(lr.div(corrections.at(0))));
    return { value, state: { mean, square } };
  }
}

/** Adam with decoupled weight decay: p ← p − lr·weightDecay·p first, the gradient untouched. Default 0.01. */
export class AdamW extends Adam {
  constructor(params: Trainable<AdamSettings>, options: Partial<AdamSettings> = {}) {
    super(params, withDefaults(options, { ...ADAM, weightDecay: 0.01 }));
  }

  protected override decay(u: Update<AdamSettings>): { parameter: Tensor; gradient: Tensor } {
    const { parameter, gradient, lr, settings: s } = u;
    if (s.weightDecay === 0) return { parameter, gradient };
    return { parameter: parameter.mul(lr.mul(-s.weightDecay).add(1)), gradient };
  }
}
