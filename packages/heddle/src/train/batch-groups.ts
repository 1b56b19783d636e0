/**
 * Gradients of several batches before one update, as of one batch of all their examples. It is state on the device, and
 * every step is the same program: it adds to the sums, and updates where the last batch of a group is reached.
 */

import { i32 } from '../core/dtype.js';
import type { Shape } from '../core/shape.js';
import type { BaseSettings, Optimizer } from '../optim/index.js';
import { tensor } from '../tensor/create.js';
import { noGrad } from '../tensor/modes.js';
import type { AnyTensor, Tensor } from '../tensor/tensor.js';

export class BatchGroups {
  readonly #batches: number;
  /** Batches of an epoch: the last group may be smaller. */
  readonly #length: number;
  readonly #sums: ReadonlyMap<Tensor, Tensor>;
  /** Examples in the sums, and batches of the epoch that are done. */
  readonly #examples = tensor(0);
  readonly #done = tensor(0, { dtype: i32 });

  constructor(optimizer: Optimizer<BaseSettings>, batches: number, length: number) {
    this.#batches = batches;
    this.#length = length;
    const parameters = optimizer.groups.flatMap((group) => group.params);
    this.#sums = new Map(
      parameters.map((p) => [p, tensor(new Float32Array(p.size), { shape: p.shape, dtype: p.dtype })]),
    );
  }

  /**
   * Take the gradients of a batch, and leave those of the group for the optimizer.
   * @param size examples of the batch, a number or a scalar f32 @param isMean whether its gradients are those of a mean over them
   * @param good where it is false, nothing is added
   * @returns whether the group is complete, a bool scalar
   */
  add(size: number | Tensor, isMean: boolean, good: Tensor<Shape, 'bool'>): Tensor<Shape, 'bool'> {
    return noGrad(() => {
      const done = this.#done.add(1);
      const isComplete = done.mod(this.#batches).eq(0).or(done.eq(this.#length));
      const examples = this.#examples.add(size);
      for (const [parameter, sum] of this.#sums) {
        const { grad } = parameter;
        if (!grad) continue;
        const total = sum.add(
          isMean ? grad.mul(typeof size === 'number' ? size : size.cast(grad.dtype)) : grad,
        );
        parameter.grad = isMean ? total.div(examples.cast(parameter.dtype)) : total;
        sum.assign(good.where(isComplete.where(0, total), sum));
      }
      this.#examples.assign(good.where(isComplete.where(0, examples), this.#examples));
      this.#done.assign(done.eq(this.#length).where(0, done));
      return isComplete.and(good);
    });
  }

  /** What a checkpoint keeps. */
  stateDict(): Record<string, AnyTensor> {
    const sums = [...this.#sums.values()].map((sum, i) => [String(i), sum] as const);
    return { examples: this.#examples, done: this.#done, ...Object.fromEntries(sums) };
  }

  async loadStateDict(state: Readonly<Record<string, AnyTensor>>): Promise<void> {
    for (const [name, to] of Object.entries(this.stateDict()))
      to.write((await state[name]!.data()) as Float32Array);
  }
}
