/** Stochastic gradient descent, with momentum (Polyak 1964) and Nesterov's variant (Sutskever et al. 2013). */
import { aBoolean, atLeast, type Rules } from '../core/arguments.js';
import { ArgumentError } from '../core/errors.js';
import { full, tensor } from '../tensor/create.js';
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

/** Settings of `SGD`. */
export interface SGDSettings extends BaseSettings {
  /** Fraction of the previous update that is kept (default 0). */
  readonly momentum: number;
  /** Dampening: fraction of the gradient that momentum leaves out (default 0). */
  readonly dampening: number;
  /** Look ahead along the momentum (default false). */
  readonly nesterov: boolean;
  /** L2 penalty: added to the gradient, times the parameter (default 0). */
  readonly weightDecay: number;
}

const SGD_DEFAULTS: SGDSettings = { lr: 1e-3, momentum: 0, dampening: 0, nesterov: false, weightDecay: 0 };

const RULES: Rules<SGDSettings> = {
  lr: LEARNING_RATE,
  momentum: atLeast(0),
  dampening: atLeast(0),
  nesterov: aBoolean,
  weightDecay: atLeast(0),
};

/**
 * g ← ∇ + weightDecay·p;  b ← momentum·b + (1 − dampening)·g (b = g at first);  p ← p − lr·b
 * (with nesterov: p ← p − lr·(g + momentum·b)). Defaults: lr 1e-3, all else 0.
 * @example
 * ```ts
 * import { nn, optim, randn } from 'heddle';
 *
 * const model = new nn.Linear(4, 1);
 * const optimizer = new optim.SGD(model.parameters(), { lr: 0.1, momentum: 0.9 });
 * model.forward(randn([8, 4])).square().mean().backward();
 * optimizer.step(); // and forgets the gradients
 * ```
 */
export class SGD extends Optimizer<SGDSettings> {
  constructor(params: Trainable<SGDSettings>, options: Partial<SGDSettings> = {}) {
    super(params, withDefaults(options, SGD_DEFAULTS), RULES);
  }

  protected override check(s: SGDSettings): void {
    if (s.nesterov && (s.momentum === 0 || s.dampening !== 0))
      throw new ArgumentError(
        `[optim] nesterov needs a momentum and no dampening, got momentum ${s.momentum}, dampening ${s.dampening}.`,
      );
  }

  protected initialState(parameter: Tensor, s: SGDSettings): State {
    return s.momentum === 0 ? {} : { momentum: zerosLike(parameter) };
  }

  /** Dampening does not apply to the first step, so steps are counted. */
  protected override initialShared(s: SGDSettings): State {
    return s.momentum !== 0 && s.dampening !== 0 ? { steps: tensor(0) } : {};
  }

  protected override nextShared(shared: State): State {
    return shared.steps ? { steps: shared.steps.add(1) } : shared;
  }

  protected update(u: Update<SGDSettings>): { value: Tensor; state: State } {
    const { parameter, lr, settings: s } = u;
    const g = s.weightDecay === 0 ? u.gradient : u.gradient.add(parameter.mul(s.weightDecay));
    if (s.momentum === 0) return { value: parameter.sub(g.mul(lr)), state: {} };
    const one = full([], 1, { dtype: g.dtype });
    const share = u.shared.steps?.eq(1).where(one, 1 - s.dampening);
    const momentum = u.state.momentum!.mul(s.momentum).add(share ? g.mul(share) : g);
    const direction = s.nesterov ? g.add(momentum.mul(s.momentum)) : momentum;
    return { value: parameter.sub(direction.mul(lr)), state: { momentum } };
  }
}
