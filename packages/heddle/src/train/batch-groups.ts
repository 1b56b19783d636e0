/** Gradients of several batches before one update, as of one batch of all their examples. */

import type { Shape } from '../core/shape.js';
import type { BaseSettings, Optimizer } from '../optim/index.js';
import { storedZeros, tensor } from '../tensor/create.js';
import { noGrad } from '../tensor/modes.js';
import type { AnyTensor, Tensor } from '../tensor/tensor.js';

export class BatchGroups {
  /** Of the batches of the group so far, for each parameter: the sum of the gradients of their examples, of this rank's. */
  readonly #sums: ReadonlyMap<Tensor, Tensor>;
  /** How many examples these batches have, on all ranks. */
  readonly #examples = tensor(0);

  constructor(optimizer: Optimizer<BaseSettings>) {
    const parameters = optimizer.groups.flatMap((group) => group.params);
    this.#sums = new Map(parameters.map((p) => [p, storedZeros(p.shape, { dtype: p.dtype })]));
  }

  /** Make the gradients of a batch those of the group. @param weight what makes them sums over their examples */
  add(weight: number): void {
    noGrad(() => {
      for (const [parameter, sum] of this.#sums) {
        const { grad } = parameter;
        if (grad) parameter.grad = sum.add(weight === 1 ? grad : grad.mul(weight));
      }
    });
  }

  /**
   * Keep the gradients of the group for the batches to come, or begin another group.
   * @param size examples of the batch, a number or a scalar f32 @param good where it is false, nothing changes
   * @returns the examples of the group, a scalar f32
   */
  keep(size: number | Tensor, closes: boolean, good: Tensor<Shape, 'bool'>): Tensor {
    return noGrad(() => {
      const examples = this.#examples.add(size);
      this.#examples.assign(good.where(closes ? 0 : examples, this.#examples));
      for (const [{ grad }, sum] of this.#sums) if (grad) sum.assign(good.where(closes ? 0 : grad, sum));
      return examples;
    });
  }

  /** What a checkpoint keeps. */
  stateDict(): Record<string, AnyTensor> {
    const sums = [...this.#sums.values()].map((sum, i) => [String(i), sum] as const);
    return { examples: this.#examples, ...Object.fromEntries(sums) };
  }

  async loadStateDict(state: Readonly<Record<string, AnyTensor>>): Promise<void> {
    for (const [name, to] of Object.entries(this.stateDict()))
      to.write((await state[name]!.data()) as Float32Array);
  }
}
