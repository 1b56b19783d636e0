/** What a training does with a batch: traced once, then run on the device for each. */
import { f32, f64, i32 } from '../core/dtype.js';
import type { Batched } from '../data/index.js';
import type { Module } from '../nn/index.js';
import { clipGradNorm } from '../optim/index.js';
import { stack, tensor } from '../tensor/create.js';
import { noGrad } from '../tensor/modes.js';
import type { Tensor } from '../tensor/tensor.js';
import { inPrecision, outputsOf, scalarOf } from './evaluate.js';
import type { BatchWork } from './feed.js';
import type { FitOptions } from './fit-options.js';
import type { LoopState } from './loop-state.js';

/** The largest f32: anything larger, or NaN, aborts training. */
const MAX_FINITE = 3.4028234663852886e38;

/** What the batch becomes. */
function varied(
  augment: FitOptions['augment'],
  inputs: Batched,
  targets: Batched,
): readonly [Batched, Batched] {
  if (!augment) return [inputs, targets];
  const made = augment(inputs as Tensor, targets as Tensor);
  return Array.isArray(made) ? (made as unknown as readonly [Tensor, Tensor]) : [made as Tensor, targets];
}

export class TrainingStep {
  /** Of this epoch: good steps, and the sum of the losses of their examples. f64: no step is too small to count. */
  readonly sums = tensor([0, 0], { dtype: f64 });
  /** 1 until a loss is not finite: then nothing changes any more. */
  readonly #good = tensor(1);
  readonly work: BatchWork;

  /**
   * @param setRates sets the learning rates of the next update, and counts so many updates
   * @param check called when gradients are there
   */
  constructor(
    model: Module,
    { loss, augment, lossReduction = 'mean', optimizer, autocast, clipGradNorm: maxNorm }: FitOptions,
    { accumulation, scaler, ema }: LoopState,
    setRates: (updates: Tensor | number) => void,
    check: () => void,
  ) {
    const parameters = optimizer.groups.flatMap((group) => group.params);
    this.work = (examples, labels, size) => {
      if (!accumulation) setRates(1);
      const buffers = model.buffers().map((buffer) => [buffer, buffer.detach()] as const);
      const [inputs, targets] = varied(augment, examples, labels);
      const value = inPrecision(autocast, () =>
        scalarOf('fit', 'loss', loss(outputsOf(model, inputs) as Tensor, targets as Tensor)),
      );
      (scaler?.scale(value) ?? value).backward();
      const seen = value.detach().cast(f32);
      const good = this.#good.gt(0).and(seen.abs().le(MAX_FINITE));
      check();
      const when = accumulation?.add(size, lossReduction === 'mean', good) ?? good;
      if (accumulation) setRates(when.cast(i32));
      scaler?.unscale(optimizer);
      if (maxNorm !== undefined) clipGradNorm(parameters, maxNorm);
      if (scaler) scaler.step(optimizer, { when });
      else optimizer.step({ when });
      ema?.update({ when });
      model.zeroGrad();
      noGrad(() => {
        for (const [buffer, before] of buffers) buffer.assign(good.where(buffer, before));
        const one = good.where(1, 0);
        const total = lossReduction === 'mean' ? seen.mul(size) : seen;
        this.sums.assign(good.where(this.sums.add(stack([one, total]).cast(f64)), this.sums));
        this.#good.assign(one);
      });
    };
  }

  dispose(): void {
    this.sums.dispose();
    this.#good.dispose();
  }
}
