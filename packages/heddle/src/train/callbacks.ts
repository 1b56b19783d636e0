/** Reports of `fit` while it runs. */
import {
  aFunction,
  aString,
  integerFrom,
  isPlainObject,
  type Rule,
  type Rules,
  requireArgument,
  required,
  requireOptions,
} from '../core/arguments.js';
import { ArgumentError } from '../core/errors.js';
import type { JsonValue } from './checkpoint-file.js';
import type { Evaluation } from './evaluate.js';

/** After a step, or several for `onProgress`. */
export interface StepReport {
  /** Counted from 0. */
  readonly epoch: number;
  /** Within the epoch, counted from 1. */
  readonly step: number;
  /** How many steps the epoch has. */
  readonly steps: number;
  /** Examples seen in this epoch. */
  readonly examples: number;
  /** Mean over the examples of this epoch so far; as of the last time it was read from the device. */
  readonly loss: number | undefined;
  /** Since the epoch began. */
  readonly seconds: number;
  /** The learning rate of the step. */
  readonly lr: number;
}

/** After every `logEvery` steps; delivered some steps later, when the loss has been read, so that the device need not wait. */
export interface LogReport {
  /** Counted from 0. */
  readonly epoch: number;
  /** Within the epoch, counted from 1. */
  readonly step: number;
  /** Steps of the whole training up to there. */
  readonly totalSteps: number;
  /** Examples seen in this epoch. */
  readonly examples: number;
  /** Mean over the examples since the last report, or since the epoch began. */
  readonly loss: number;
  /** The learning rate of the step. */
  readonly lr: number;
  /** Since the last report, or since the epoch began. */
  readonly examplesPerSecond: number;
  /** Seconds since the training began, validation included. */
  readonly elapsed: number;
}

/** After an epoch. */
export interface EpochReport {
  /** Counted from 0. */
  readonly epoch: number;
  /** How many epochs there are to be. */
  readonly epochs: number;
  /** Mean training loss over the epoch, each batch measured with the weights at that moment. */
  readonly loss: number;
  /** Of the validation loader, if there is one. */
  readonly validation: Evaluation | undefined;
  /** Of training, without the evaluation. */
  readonly seconds: number;
  /** Of training, without validation. */
  readonly examplesPerSecond: number;
  /** The learning rate of the last step. */
  readonly lr: number;
  /** Since the training began, validation included. */
  readonly elapsed: number;
}

/** The plan of a training, before its first step. */
export interface TrainingPlan {
  /** How many epochs there are to be. */
  readonly epochs: number;
  /** How many steps an epoch has. */
  readonly steps: number;
  /** The epoch to begin with, from 0: more than 0 if the training was resumed. */
  readonly epoch: number;
  /** How many steps of that epoch are done. */
  readonly step: number;
  /** Of the epochs that are done. */
  readonly reports: readonly EpochReport[];
}

/** The result of a training. */
export interface History {
  /** A report of each epoch. */
  readonly epochs: readonly EpochReport[];
  /** How many steps were taken. */
  readonly steps: number;
  /** The time it took, validation included. */
  readonly seconds: number;
  /** Why the training ended: all epochs were done, the signal aborted it, or a callback stopped it. */
  readonly ended: 'done' | 'aborted' | 'stopped';
}

/** The result of a callback: nothing, or 'stop' to end the training. */
// biome-ignore lint/suspicious/noConfusingVoidType: a callback may return nothing at all
export type CallbackAnswer = void | 'stop';

/** Functions that `fit` calls during a training. A function that returns 'stop' ends it. */
export interface Callback {
  /** Before the first step. */
  readonly onStart?: (plan: TrainingPlan) => void | Promise<void>;
  /**
   * After each step. A GPU otherwise starts many steps of a resident data set at once, which saves time if they are short:
   * where now and then is enough, use `onProgress`.
   */
  readonly onStep?: (report: StepReport) => CallbackAnswer | Promise<CallbackAnswer>;
  /** After one or more steps, up to 128 of them: as often as `fit` comes round without slowing the training down. */
  readonly onProgress?: (report: StepReport) => CallbackAnswer | Promise<CallbackAnswer>;
  /** After every `logEvery` steps. */
  readonly onLog?: (report: LogReport) => CallbackAnswer | Promise<CallbackAnswer>;
  /** After each epoch and its validation. */
  readonly onEpochEnd?: (report: EpochReport) => CallbackAnswer | Promise<CallbackAnswer>;
  /** After the last epoch, or when the training ends early. */
  readonly onEnd?: (history: History) => void | Promise<void>;
  /** The callback's state, which a checkpoint keeps. */
  readonly saveState?: () => JsonValue;
  /** Restore what `saveState` returned; called before `onStart` when a training is resumed. */
  readonly loadState?: (state: JsonValue) => void;
}

const CALLBACK: Rules<Callback> = {
  onStart: aFunction,
  onStep: aFunction,
  onProgress: aFunction,
  onLog: aFunction,
  onEpochEnd: aFunction,
  onEnd: aFunction,
  saveState: aFunction,
  loadState: aFunction,
};

/** An object of a class may have members of its own as well. */
const aCallback: Rule = {
  must: `an object with some of the functions ${Object.keys(CALLBACK).join(', ')}`,
  holds: (v) =>
    typeof v === 'object' &&
    v !== null &&
    Object.keys(CALLBACK).every((name) =>
      ['undefined', 'function'].includes(typeof (v as Record<string, unknown>)[name]),
    ),
};

/**
 * @internal
 * @throws ArgumentError for what is not a callback; of an object made by `{ … }` also for names that no callback has
 */
export function requireCallback(callback: unknown): void {
  if (isPlainObject(callback)) requireOptions('fit, callback', callback, CALLBACK);
  else requireArgument('fit', 'callback', callback, aCallback);
}

/** Options of `earlyStopping`. */
export interface EarlyStoppingOptions {
  /** Epochs without improvement after which training stops, ≥ 1. */
  readonly patience: number;
  /** A metric (more is better), or 'loss' (less is better; default). */
  readonly monitor?: string;
}

const EARLY_STOPPING: Rules<EarlyStoppingOptions> = {
  patience: required(integerFrom(1)),
  monitor: aString,
};

/** Stop when a validation figure has not improved for `patience` epochs. */
export function earlyStopping(options: EarlyStoppingOptions): Callback {
  requireOptions('earlyStopping', options, EARLY_STOPPING);
  const { patience, monitor = 'loss' } = options;
  let best = Number.NEGATIVE_INFINITY;
  let since = 0;
  return {
    onEpochEnd: (report) => {
      const value = monitored('earlyStopping', report, monitor);
      // NaN is not an improvement.
      since = value > best ? 0 : since + 1;
      if (value > best) best = value;
      return since >= patience ? 'stop' : undefined;
    },
    saveState: () => ({ best, since }),
    loadState: (state) => {
      ({ best, since } = state as { best: number; since: number });
    },
  };
}

/**
 * A figure of which more is better: a metric, or the negative loss. Without validation, of the training loss.
 * @param of who asks @throws ArgumentError for a metric that is not there
 */
export function monitored(of: string, { loss, validation }: EpochReport, name: string): number {
  if (name === 'loss') return -(validation?.loss ?? loss);
  const value = validation?.metrics[name];
  if (value !== undefined) return value;
  throw new ArgumentError(
    validation
      ? `[${of}] there is no metric '${name}'. Expected one of: ${['loss', ...Object.keys(validation.metrics)].join(', ')}.`
      : `[${of}] '${name}' is a metric of validation data: pass fit a validation loader, or watch 'loss'.`,
  );
}
