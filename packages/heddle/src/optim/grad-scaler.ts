/** Loss scaling for gradients in f16 (Micikevicius et al., Mixed precision training, 2018). */

import {
  above,
  instance,
  integerFrom,
  type Rules,
  requireArgument,
  requireOptions,
  within,
} from '../core/arguments.js';
import { f32, i32 } from '../core/dtype.js';
import { ArgumentError } from '../core/errors.js';
import type { Shape } from '../core/shape.js';
import { type AnyTensor, aTensor, requireFloat } from '../tensor/checks.js';
import { tensor, zeros } from '../tensor/create.js';
import { noGrad } from '../tensor/modes.js';
import type { Tensor } from '../tensor/tensor.js';
import { withGradients } from './clip.js';
import { type BaseSettings, Optimizer, type StepOptions } from './optimizer.js';
import { requireAveraged } from './own-gradients.js';
import { assignAll, requireMatch } from './state.js';

/** Options of `GradScaler`. */
export interface GradScalerOptions {
  /** The scale at first (default 65536). */
  readonly initScale?: number;
  /** The scale is multiplied by this after `growthInterval` steps without overflow (default 2). */
  readonly growthFactor?: number;
  /** The scale is multiplied by this after an overflow (default 0.5). */
  readonly backoffFactor?: number;
  /** Steps without overflow until the scale grows (default 2000). */
  readonly growthInterval?: number;
}

const anOptimizer = instance(Optimizer, 'an optimizer');

const RULES: Rules<GradScalerOptions> = {
  initScale: above(0),
  growthFactor: above(1),
  backoffFactor: within(0, 1),
  growthInterval: integerFrom(1),
};
const STEP: Rules<StepOptions> = { when: aTensor };

/**
 * Scales the loss, so that gradients in f16 do not become 0, and the gradients back. A step whose gradients are not all finite
 * is left out, and the scale is lowered; after many good ones it is raised. All of this happens on the device: in `jit` it is
 * part of the program, and nothing waits. Defaults and behaviour are those of PyTorch's torch.amp.GradScaler.
 * @example
 * scaler.scale(autocast(f16, () => loss(x))).backward();
 * scaler.step(optimizer);
 */
export class GradScaler {
  /** The scale, a scalar on the device. */
  readonly factor: Tensor<Shape, 'f32'>;
  /** Steps since the scale changed, a scalar on the device. */
  readonly goodSteps: Tensor<Shape, 'i32'>;
  readonly #options: Required<GradScalerOptions>;
  /** Optimizers whose gradients are scaled back already, and whether all of these are finite. */
  readonly #unscaled = new Map<Optimizer<BaseSettings>, Tensor<Shape, 'bool'>>();

  /** @throws ArgumentError */
  constructor(options: GradScalerOptions = {}) {
    requireOptions('GradScaler', options, RULES);
    const { initScale = 65536, growthFactor = 2, backoffFactor = 0.5, growthInterval = 2000 } = options;
    this.#options = { initScale, growthFactor, backoffFactor, growthInterval };
    this.factor = tensor(initScale, { dtype: f32 });
    this.goodSteps = zeros([], { dtype: i32 });
  }

  /** The loss times the scale: call `backward` on it. @param loss f32 · @throws DTypeError */
  scale(loss: AnyTensor): Tensor {
    requireFloat('GradScaler.scale', 'loss', loss);
    return (loss as Tensor).mul(this.factor.cast(loss.dtype));
  }

  /**
   * Scale the gradients of an optimizer's parameters back: before they are clipped. `step` does it if it has not been done.
   * @throws ArgumentError if there is no gradient, or it has been done
   */
  unscale(optimizer: Optimizer<BaseSettings>): void {
    requireArgument('GradScaler', 'optimizer', optimizer, anOptimizer);
    if (this.#unscaled.has(optimizer))
      throw new ArgumentError(
        '[GradScaler] unscale() was called for this optimizer already. Call step() next.',
      );
    const parameters = withGradients(
      'GradScaler',
      optimizer.groups.flatMap(({ params }) => params),
    );
    requireAveraged('GradScaler', parameters);
    if (parameters.length === 0)
      throw new ArgumentError('[GradScaler] there are no gradients: call backward() on scaler.scale(loss).');
    const isGood = noGrad(() => {
      const back = this.factor.reciprocal();
      const finite = parameters.map((p) => {
        const gradient = p.grad!.mul(back.cast(p.dtype));
        p.grad = gradient;
        // Infinity − Infinity and NaN − NaN are NaN.
        return gradient.sub(gradient).eq(0).all();
      });
      return finite.reduce((all, one) => all.and(one));
    });
    this.#unscaled.set(optimizer, isGood);
  }

  /**
   * Let an optimizer step if all of its gradients are finite, and set the scale for the next step. Where `when` is false,
   * nothing changes, the scale included.
   * @throws ArgumentError if there is no gradient
   */
  step(optimizer: Optimizer<BaseSettings>, options: StepOptions = {}): void {
    requireArgument('GradScaler', 'optimizer', optimizer, anOptimizer);
    requireOptions('GradScaler.step', options, STEP);
    const { when } = options;
    if (!this.#unscaled.has(optimizer)) this.unscale(optimizer);
    const isGood = this.#unscaled.get(optimizer)!;
    this.#unscaled.delete(optimizer);
    const { growthFactor, backoffFactor, growthInterval } = this.#options;
    optimizer.step({ when: when ? isGood.and(when) : isGood });
    noGrad(() => {
      const count = this.goodSteps.add(1);
      const grows = count.ge(growthInterval);
      const risen = grows.where(this.factor.mul(growthFactor), this.factor);
      const factor = isGood.where(risen, this.factor.mul(backoffFactor));
      const goodSteps = isGood.and(grows.not()).where(count, 0) as Tensor<Shape, 'i32'>;
      this.factor.assign(when ? when.where(factor, this.factor) : factor);
      this.goodSteps.assign(
        when ? (when.where(goodSteps, this.goodSteps) as Tensor<Shape, 'i32'>) : goodSteps,
      );
    });
  }

  /** The scale and the steps since it changed, by name. */
  stateDict(): Record<string, Tensor> {
    return { factor: this.factor, goodSteps: this.goodSteps as AnyTensor as Tensor };
  }

  /** Take over what `stateDict` gave. @throws ArgumentError */
  loadStateDict(state: Readonly<Record<string, AnyTensor>>): void {
    requireMatch('GradScaler', 'a GradScaler', this.stateDict(), state);
    assignAll(this.stateDict(), state);
  }
}
