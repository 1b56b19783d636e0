/** Gradients gathered over several calls of a jitted function. */
import { aFinite, requireArgument } from '../core/arguments.js';
import { zeros } from '../tensor/create.js';
import { noGrad, noteUseOfGradients } from '../tensor/modes.js';
import type { Tensor } from '../tensor/tensor.js';
import { listOfTensors, withGradients } from './clip.js';

/**
 * Sums of gradients, for batches that are larger than memory. Within a function, several `backward` calls add up by
 * themselves; a jitted function keeps no gradients from call to call, and these sums do:
 *
 *     const sums = new optim.GradientAccumulator(model.parameters());
 *     const gather = jit((x, y) => { const loss = …; loss.backward(); sums.add(); return loss; });
 *     const update = jit(() => { sums.take(1 / k); optimizer.step(); });   // after every k calls of gather
 */
export class GradientAccumulator {
  readonly #parameters: readonly Tensor[];
  readonly #sums: readonly Tensor[];

  /** @throws ArgumentError unless they are tensors */
  constructor(parameters: Iterable<Tensor>) {
    this.#parameters = listOfTensors('GradientAccumulator', parameters);
    this.#sums = this.#parameters.map(({ shape, dtype }) => zeros(shape, { dtype }));
  }

  /** Add the parameters' gradients to the sums, and forget them. */
  add(): void {
    noteUseOfGradients();
    const moving = new Set(withGradients('GradientAccumulator', this.#parameters));
    noGrad(() => {
      this.#parameters.forEach((p, i) => {
        if (!moving.has(p)) return;
        const sum = this.#sums[i]!;
        sum.assign(sum.add(p.grad!));
        p.grad = undefined;
      });
    });
  }

  /** Give each parameter its sum, times `factor` (default 1), as its gradient; the sums begin again with 0. */
  take(factor = 1): void {
    requireArgument('take', 'factor', factor, aFinite);
    noGrad(() => {
      this.#parameters.forEach((p, i) => {
        const sum = this.#sums[i]!;
        p.grad = sum.mul(factor);
        sum.assign(zeros(sum.shape, { dtype: sum.dtype }));
      });
    });
  }
}
