/** Schedules for training loops written by hand. */
import { aNumber, instance, requireArgument, requireOptions, shown } from '../core/arguments.js';
import { ArgumentError } from '../core/errors.js';
import { aSchedule, type LrSchedule, type LrSpan, SPAN } from './lr-schedule.js';
import { type BaseSettings, Optimizer } from './optimizer.js';

/** The state of an `LrScheduler`: plain numbers, for JSON. */
export interface LrSchedulerState {
  /** Steps done. */
  readonly step: number;
  /** The learning rates that the factors are of, one for each group. */
  readonly baseRates: readonly number[];
  /** The figures that were observed, one for each epoch. */
  readonly observed: readonly number[];
}

/**
 * Sets an optimizer's learning rates step by step: those it has when this is made, times the schedule's factor. Call
 * `step` after each `optimizer.step()`, outside of `jit`; setting a rate compiles nothing. (`fit` takes the schedule
 * itself.)
 */
export class LrScheduler {
  readonly #optimizer: Optimizer<BaseSettings>;
  readonly #schedule: LrSchedule;
  readonly #span: LrSpan;
  #state: LrSchedulerState;

  /** @throws ArgumentError */
  constructor(optimizer: Optimizer<BaseSettings>, schedule: LrSchedule, span: LrSpan) {
    requireArgument('LrScheduler', 'optimizer', optimizer, instance(Optimizer, 'an optimizer'));
    requireArgument('LrScheduler', 'schedule', schedule, aSchedule);
    requireOptions('LrScheduler', span, SPAN);
    this.#optimizer = optimizer;
    this.#schedule = schedule;
    this.#span = span;
    const observed = span.observed ?? [];
    this.#state = { step: 0, baseRates: optimizer.groups.map(({ lr }) => lr), observed };
    this.#apply();
  }

  /** Set the rates of the next step. */
  step(): void {
    this.#state = { ...this.#state, step: this.#state.step + 1 };
    this.#apply();
  }

  /** Tell it the monitored figure, once after each epoch. Only `plateau` needs it. */
  observe(value: number): void {
    requireArgument('observe', 'value', value, aNumber);
    this.#state = { ...this.#state, observed: [...this.#state.observed, value] };
    this.#apply();
  }

  /** The state to save, in order to resume later. */
  stateDict(): LrSchedulerState {
    return this.#state;
  }

  /** Take over what `stateDict` gave. @throws ArgumentError if it is not of as many groups */
  loadStateDict(state: LrSchedulerState): void {
    const { groups } = this.#optimizer;
    const isState =
      typeof state === 'object' &&
      Number.isSafeInteger(state?.step) &&
      isNumbers(state.baseRates) &&
      isNumbers(state.observed) &&
      state.baseRates.length === groups.length;
    if (!isState)
      throw new ArgumentError(
        `[LrScheduler] the state is ${shown(state)}, must be from the stateDict() of a scheduler whose optimizer has ${groups.length} groups.`,
      );
    this.#state = state;
    this.#apply();
  }

  #apply(): void {
    const { step, baseRates, observed } = this.#state;
    const factor = this.#schedule.factor(step, { ...this.#span, observed });
    this.#optimizer.groups.forEach((group, i) => {
      group.lr = baseRates[i]! * factor;
    });
  }
}

const isNumbers = (value: unknown): value is readonly number[] =>
  Array.isArray(value) && value.every((v) => typeof v === 'number');
