/** What a training does with a batch: traced once, then run on the device for each. */
import { f32, f64, isFloat } from '../core/dtype.js';
import type { Batched } from '../data/index.js';
import type { Module } from '../nn/index.js';
import { clipGradNorm } from '../optim/index.js';
import { cat, full, stack, tensor, zeros } from '../tensor/create.js';
import { noGrad } from '../tensor/modes.js';
import type { Tensor } from '../tensor/tensor.js';
import { currentWorld, type World } from '../tensor/world.js';
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

/** Gradients that are sums over examples become means. */
function divideGradients(parameters: readonly Tensor[], examples: number | Tensor): void {
  noGrad(() => {
    for (const parameter of parameters) {
      const { grad } = parameter;
      if (grad)
        parameter.grad = grad.div(typeof examples === 'number' ? examples : examples.cast(grad.dtype));
    }
  });
}

/**
 * Whether the optimizer's step averages gradients over the ranks, each of which updates a part of the parameters: where nothing else needs
 * the gradients of all.
 */
const averagesInStep = ({
  shardOptimizer = false,
  accumulate = 1,
  autocast,
  clipGradNorm: maxNorm,
}: FitOptions): boolean =>
  currentWorld() !== undefined &&
  shardOptimizer &&
  accumulate === 1 &&
  autocast !== 'f16' &&
  maxNorm === undefined;

/** Why a training ends early: a callback says 'stop', or the signal is given. */
export type StopReason = 'stopped' | 'aborted';

/** A batch as this rank has it. */
interface MyBatch {
  /** The loss; where the loss is a mean and there are other ranks, the sum over the examples. */
  readonly loss: Tensor;
  readonly size: number;
  readonly isMean: boolean;
  /** The others have as many examples of every batch. */
  readonly isEven: boolean;
}

/** A batch as all ranks together have it. */
interface WholeBatch {
  /** The loss. */
  readonly seen: Tensor;
  /** Examples. */
  readonly total: Tensor;
  /** How many ranks wish to stop, (2): see `TrainingStep.sums`. */
  readonly wishes: Tensor;
}

export class TrainingStep {
  /**
   * Of this epoch: good steps, the sum of the losses of their examples, and how many ranks have wished to stop as by 'stop'
   * of a callback and as by the signal, summed over steps. f64: no step is too small to count.
   */
  readonly sums = tensor([0, 0, 0, 0], { dtype: f64 });
  /** 1 for what this rank wishes. */
  readonly #wishes = tensor([0, 0]);
  /** 1 until a loss is not finite: then nothing changes any more. */
  readonly #good = tensor(1);
  readonly work: BatchWork;

  /**
   * @param setRates sets the learning rates of the next update, and counts it
   * @param check called when gradients are there
   */
  constructor(
    model: Module,
    options: FitOptions,
    { accumulation, scaler, ema }: LoopState,
    setRates: () => void,
    check: () => void,
  ) {
    const { train, loss, augment, lossReduction = 'mean', optimizer, autocast } = options;
    const { clipGradNorm: maxNorm } = options;
    const parameters = optimizer.groups.flatMap((group) => group.params);
    const isMean = lossReduction === 'mean';
    const world = currentWorld();
    const averages = averagesInStep(options);
    const summed = averages ? [] : parameters;
    this.work = (examples, labels, size, closes) => {
      if (closes) setRates();
      const buffers = model.buffers().map((buffer) => [buffer, buffer.detach()] as const);
      const [inputs, targets] = varied(augment, examples, labels);
      const value = inPrecision(autocast, () =>
        scalarOf('fit', 'loss', loss(outputsOf(model, inputs) as Tensor, targets as Tensor)),
      );
      // Several ranks add up sums over examples: their numbers of examples may differ.
      const own = world ? value.mul(isMean || size === 0 ? size : 1) : value;
      (scaler?.scale(own) ?? own).backward();
      accumulation?.add(isMean && !world ? size : 1);
      const mine = { loss: own.detach().cast(f32), size, isMean, isEven: train.rows.isEven };
      const { seen, total, wishes } = world
        ? this.#ofAll(world, mine, closes ? summed : [], model.buffers())
        : { seen: mine.loss, total: size, wishes: zeros([2]) };
      const good = this.#good.gt(0).and(seen.abs().le(MAX_FINITE));
      check();
      const examplesOfUpdate = accumulation?.keep(total, closes, good) ?? total;
      if (closes) {
        if (isMean && (world || accumulation)) divideGradients(summed, examplesOfUpdate);
        scaler?.unscale(optimizer);
        if (maxNorm !== undefined) clipGradNorm(parameters, maxNorm);
        const shared = { divisor: isMean ? total : 1, equalBatches: train.rows.isEven };
        if (scaler) scaler.step(optimizer, { when: good });
        else optimizer.step({ when: good, ...(averages && shared) });
        ema?.update({ when: good });
      }
      model.zeroGrad();
      noGrad(() => {
        for (const [buffer, before] of buffers) buffer.assign(good.where(buffer, before));
        const one = good.where(1, 0);
        const seenTotal = isMean ? seen.mul(total) : seen;
        const step = cat([stack([one, seenTotal]), wishes]).cast(f64);
        this.sums.assign(good.where(this.sums.add(step), this.sums));
        this.#good.assign(one);
      });
    };
  }

  /** Begin an epoch, or go on in it: with its sums so far. */
  begin([good, loss]: readonly number[]): void {
    this.sums.write([good!, loss!, 0, 0]);
  }

  /** Tell the other ranks with the next step that all are to stop. */
  wish(why: StopReason): void {
    this.#wishes.write(why === 'stopped' ? [1, 0] : [0, 1]);
  }

  /**
   * What the ranks have together, with the same bits on all of them: gradients of these parameters become sums over the ranks, and
   * buffers means over the examples of the batch.
   */
  #ofAll(
    world: World,
    { loss, size, isMean, isEven }: MyBatch,
    parameters: readonly Tensor[],
    buffers: readonly Tensor[],
  ): WholeBatch {
    return noGrad(() => {
      const moving = parameters.filter((p) => p.grad);
      const floats = buffers.filter(({ dtype }) => isFloat(dtype));
      const summands = [
        cat([stack([loss, full([], size)]), this.#wishes]),
        ...floats.map((buffer) => buffer.mul(size)),
        ...moving.map((p) => p.grad!),
      ];
      const [of, ...sums] = world.sum(summands, isEven) as Tensor[];
      const [seen, total, ...wished] = of!.unbind() as [Tensor, Tensor, ...Tensor[]];
      const mean = (sum: Tensor): Tensor => sum.div(total.cast(sum.dtype)) as Tensor;
      for (const [i, buffer] of floats.entries()) buffer.assign(mean(sums[i]!));
      for (const [i, parameter] of moving.entries()) parameter.grad = sums[floats.length + i]!;
      return { seen: isMean ? mean(seen) : seen, total, wishes: stack(wished) };
    });
  }

  dispose(): void {
    this.sums.dispose();
    this.#wishes.dispose();
    this.#good.dispose();
  }
}
