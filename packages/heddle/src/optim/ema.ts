/** Moving averages of weights. */
import { type Rules, requireOptions, within } from '../core/arguments.js';
import { ArgumentError } from '../core/errors.js';
import type { AnyTensor } from '../tensor/checks.js';
import { aTensor, requireFloat } from '../tensor/checks.js';
import { full, tensor } from '../tensor/create.js';
import { noGrad } from '../tensor/modes.js';
import type { Tensor } from '../tensor/tensor.js';
import { listOfTensors } from './clip.js';
import type { StepOptions } from './optimizer.js';
import { assignAll, requireMatch } from './state.js';

/** Options of `ExponentialMovingAverage`. */
export interface EmaOptions {
  /** Fraction of the old average that is kept (default 0.999). */
  readonly decay?: number;
}

const EMA: Rules<EmaOptions> = { decay: within(0, 1) };
const UPDATE: Rules<StepOptions> = { when: aTensor };

/**
 * Averages of weights over the training, which often do better than the last weights: a ← decay·a + (1 − decay)·p, from the
 * weights of the first update on. PyTorch's AveragedModel with `get_ema_multi_avg_fn`. Call `update` after each
 * `optimizer.step()`, in `jit`, too. B. Polyak, A. Juditsky, Acceleration of stochastic approximation by averaging (1992).
 */
export class ExponentialMovingAverage {
  readonly #parameters: readonly Tensor[];
  readonly #averages: readonly Tensor[];
  /** 0 before the first update, then 1. */
  readonly #begun = tensor(0);
  readonly #decay: number;
  #isSwapped = false;

  /**
   * @param parameters those to average, such as model.parameters()
   * @throws ArgumentError, DTypeError unless they are tensors of floats
   */
  constructor(parameters: Iterable<Tensor>, options: EmaOptions = {}) {
    requireOptions('ExponentialMovingAverage', options, EMA);
    this.#parameters = listOfTensors('ExponentialMovingAverage', parameters);
    this.#parameters.forEach((p, i) => {
      requireFloat('ExponentialMovingAverage', `parameter ${i}`, p);
    });
    this.#decay = options.decay ?? 0.999;
    this.#averages = this.#parameters.map((p) => p.detach().mul(1));
  }

  /** Take the weights as they are now into the averages. @throws ArgumentError while they are swapped */
  update(options: StepOptions = {}): void {
    requireOptions('update', options, UPDATE);
    if (this.#isSwapped)
      throw new ArgumentError('[update] the averages are in the model: call restore() first.');
    const { when } = options;
    noGrad(() => {
      const isFirst = this.#begun.eq(0);
      this.#parameters.forEach((p, i) => {
        const average = this.#averages[i]!;
        const one = full([], 1, { dtype: p.dtype });
        const share = isFirst.where(one, 1 - this.#decay);
        const next = average.add(p.sub(average).mul(share));
        average.assign(when ? when.where(next, average) : next);
      });
      const begun = full([], 1);
      this.#begun.assign(when ? when.where(begun, this.#begun) : begun);
    });
  }

  /** Put the averages into the model, and keep its weights until `restore`. @throws ArgumentError if they are there */
  swap(): void {
    if (this.#isSwapped)
      throw new ArgumentError('[swap] the averages are in the model already: call restore() first.');
    this.#exchange();
  }

  /** Put the model's own weights back. @throws ArgumentError unless `swap` was called */
  restore(): void {
    if (!this.#isSwapped)
      throw new ArgumentError('[restore] the weights are in the model: call swap() first.');
    this.#exchange();
  }

  #exchange(): void {
    noGrad(() => {
      this.#parameters.forEach((p, i) => {
        const average = this.#averages[i]!;
        const weights = p.detach();
        p.assign(average.detach());
        average.assign(weights);
      });
    });
    this.#isSwapped = !this.#isSwapped;
  }

  /** The averages by the parameters' positions: `0`, `1` …, and whether there was an update. */
  stateDict(): Record<string, Tensor> {
    return { ...Object.fromEntries(this.#averages.map((a, i) => [String(i), a])), begun: this.#begun };
  }

  /** Take over what `stateDict` gave. Nothing is changed if anything does not fit. @throws ArgumentError, ShapeError */
  loadStateDict(state: Readonly<Record<string, AnyTensor>>): void {
    const own = this.stateDict();
    requireMatch('ExponentialMovingAverage', 'these averages', own, state);
    assignAll(own, state);
  }
}
