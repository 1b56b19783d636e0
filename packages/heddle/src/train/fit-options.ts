/** The options of `fit`. */
import {
  aBoolean,
  above,
  aFunction,
  aString,
  instance,
  integerFrom,
  isPlainObject,
  type Rules,
  required,
} from '../core/arguments.js';
import type { LoaderOf } from '../data/index.js';
import { type BaseSettings, type EmaOptions, type LrSchedule, Optimizer } from '../optim/index.js';
import { aSchedule } from '../optim/lr-schedule.js';
import type { Tensor } from '../tensor/tensor.js';
import type { Callback } from './callbacks.js';
import { type AutocastName, aLoader, EVALUATE, type EvaluateOptions } from './evaluate.js';

/** Options of `fit`. */
export interface FitOptions<Outputs = Tensor, Targets = Tensor> extends EvaluateOptions<Outputs, Targets> {
  /** The training data. Epochs are counted from `train.epoch` on, which afterwards is the next epoch. */
  readonly train: LoaderOf<Targets>;
  /** Evaluated after every epoch, if given. */
  readonly validation?: LoaderOf<Targets> | undefined;
  /** Updates the model's parameters. */
  readonly optimizer: Optimizer<BaseSettings>;
  /** How many times all examples are seen. */
  readonly epochs: number;
  /**
   * Varies the batches that are trained on, within the program: a transform of the inputs, or a function that also gives
   * other targets, such as `transforms.mixUp({ numClasses: 10 })`. Default: batches stay as they are.
   */
  readonly augment?: Augment<Targets> | undefined;
  /**
   * The learning rates' factors, such as `optim.schedules.cosine()`. The rates are put back afterwards.
   * Default: none, the rates are the optimizer's, which callbacks may change.
   */
  readonly schedule?: LrSchedule | undefined;
  /**
   * Mixed precision, of validation, too: see `autocast`. In f16 the loss is scaled as by `optim.GradScaler`: a step whose
   * gradients overflow is left out, and the training goes on with a smaller scale. Default: off.
   */
  readonly autocast?: AutocastName | undefined;
  /**
   * Batches whose gradients make one update, as those of one batch of all their examples would (default 1). Schedules
   * count updates then; reports count batches.
   */
  readonly accumulate?: number | undefined;
  /** Scale the gradients of an update so that their norm is at most this: see `optim.clipGradNorm`. Default: no limit. */
  readonly clipGradNorm?: number | undefined;
  /**
   * Keep averages of the weights: see `optim.ExponentialMovingAverage`. Validation, `onEpochEnd` and the best weights are
   * those of the averages, which the model has in the end; a checkpoint has both. Default: none.
   */
  readonly ema?: EmaOptions | undefined;
  /**
   * Where several processes train together, let each keep the optimizer's state of some of the parameters only, and update
   * those (default false). Results are the same. The gradients of a parameter are added up for that process only, and its new
   * value is sent while the backward pass goes on, unless `accumulate`, `clipGradNorm` or f16 needs the gradients of all.
   */
  readonly shardOptimizer?: boolean | undefined;
  /** Called during the training. */
  readonly callbacks?: readonly Callback[] | undefined;
  /** Steps between two calls of `onLog` of callbacks, counted over all epochs (default 50). */
  readonly logEvery?: number | undefined;
  /** Steps between two readings of the loss, at least (default 16): reading waits for the device. */
  readonly readEvery?: number;
  /**
   * A folder for checkpoints: checkpoint.safetensors is the last one, with all that a training needs to go on, and
   * best.safetensors the weights after the best epoch. Default: none are written.
   */
  readonly folder?: string | undefined;
  /** When checkpoints are written, besides at the end. Default: after every epoch. */
  readonly checkpointEvery?: CheckpointInterval | undefined;
  /** The figure that says which epoch is the best: a metric (more is better), or 'loss' (less is better; default). */
  readonly monitor?: string | undefined;
  /**
   * true: continue from the last checkpoint in `folder`, if there is one. A path: continue from the checkpoint in that
   * folder, which also serves as `folder` unless another is given. Losses, learning rates, random numbers, the order of the examples and weights
   * are then bit for bit those of a training that was never interrupted.
   */
  readonly resume?: boolean | string | undefined;
  /**
   * Ends the training after the steps in progress, with everything saved that is to be saved. Without a signal, Ctrl-C,
   * SIGTERM and SIGHUP do so, unless the program listens to them itself; the process then has their exit code.
   */
  readonly signal?: AbortSignal | undefined;
}

/** Inputs and targets of a batch → other inputs, or both. */
export type Augment<Targets = Tensor> = (
  inputs: Tensor,
  targets: Targets,
) => Tensor | readonly [inputs: Tensor, targets: Targets];

/** How often something happens. */
export interface CheckpointInterval {
  /** After every so many epochs. */
  readonly epochs?: number;
  /** After every so many steps, counted over all epochs. */
  readonly steps?: number;
}

/** @internal */
export const INTERVAL: Rules<CheckpointInterval> = { epochs: integerFrom(1), steps: integerFrom(1) };

/** @internal */
export const FIT: Rules<FitOptions> = {
  ...EVALUATE,
  train: required(aLoader),
  validation: aLoader,
  optimizer: required(
    instance(Optimizer, 'an optimizer, such as new optim.SGD(model.parameters(), { lr: 0.1 })'),
  ),
  epochs: required(integerFrom(1)),
  augment: aFunction,
  schedule: aSchedule,
  accumulate: integerFrom(1),
  clipGradNorm: above(0),
  ema: { must: 'an object such as { decay: 0.999 }', holds: isPlainObject },
  shardOptimizer: aBoolean,
  callbacks: { must: 'an array of callbacks', holds: Array.isArray },
  logEvery: integerFrom(1),
  readEvery: integerFrom(1),
  folder: aString,
  checkpointEvery: { must: 'an object such as { epochs: 1 } or { steps: 500 }', holds: isPlainObject },
  monitor: aString,
  resume: { must: 'true, false or a path', holds: (v) => aBoolean.holds(v) || aString.holds(v) },
};
