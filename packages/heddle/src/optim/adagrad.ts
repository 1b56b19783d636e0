/** Adagrad (Duchi, Hazan and Singer, 2011). */
import { atLeast, type Rules } from '../core/arguments.js';
import type { DType } from '../core/dtype.js';
import { full, tensor } from '../tensor/create.js';
import type { Tensor } from '../tensor/tensor.js';
import {
  type BaseSettings,
  LEARNING_RATE,
  Optimizer,
  type Trainable,
  type Update,
  withDefaults,
} from './optimizer.js';
import type { State } from './state.js';

/** Settings of `Adagrad`. */
export interface AdagradSettings extends BaseSettings {
  /** How fast the learning rate falls: step t uses lr / (1 + (t − 1)·lrDecay) (default 0). */
  readonly lrDecay: number;
  /** L2 penalty: added to the gradient, times the parameter (default 0). */
  readonly weightDecay: number;
  /** The initial value of the sums of squares (default 0). */
  readonly initialAccumulatorValue: number;
  /** Added to the root, against division by 0 (default 1e-10). */
  readonly eps: number;
}

const ADAGRAD: AdagradSettings = {
  lr: 1e-2,
  lrDecay: 0,
  weightDecay: 0,
  initialAccumulatorValue: 0,
  eps: 1e-10,
};

const RULES: Rules<AdagradSettings> = {
  lr: LEARNING_RATE,
  lrDecay: atLeast(0),
  weightDecay: atLeast(0),
  initialAccumulatorValue: atLeast(0),
  eps: atLeast(0),
};

/**
 * s ← s + g²;  p ← p − lr / (1 + (t − 1)·lrDecay) · g / (√s + eps), with g ← ∇ + weightDecay·p. Defaults: lr 1e-2,
 * lrDecay 0, weightDecay 0, initialAccumulatorValue 0, eps 1e-10.
 */
export class Adagrad extends Optimizer<AdagradSettings> {
  constructor(params: Trainable<AdagradSettings>, options: Partial<AdagradSettings> = {}) {
    super(params, withDefaults(options, ADAGRAD), RULES);
  }

  protected initialState({ shape, dtype }: Tensor, { initialAccumulatorValue }: AdagradSettings): State {
    return { sum: full(shape, initialAccumulatorValue, { dtype }) };
  }

  /** 1 + (t − 1)·lrDecay. */
  protected override initialShared({ lrDecay }: AdagradSettings, dtype: DType<'f32' | 'f64'>): State {
    return lrDecay === 0 ? {} : { divisor: tensor(1 - lrDecay, { dtype }) };
  }

  protected override nextShared(shared: State, { lrDecay }: AdagradSettings): State {
    return shared.divisor ? { divisor: shared.divisor.add(lrDecay) } : shared;
  }

  protected update(u: Update<AdagradSettings>): { value: Tensor; state: State } {
    const { parameter, lr, shared, settings: s } = u;
    const g = s.weightDecay === 0 ? u.gradient : u.gradient.add(parameter.mul(s.weightDecay));
    const rate = shared.divisor ? lr.div(shared.divisor.cast(parameter.dtype)) : lr;
    const sum = u.state.sum!.add(g.square());
    return { value: parameter.sub(g.div(sum.sqrt().add(s.eps)).mul(rate)), state: { sum } };
  }
}
