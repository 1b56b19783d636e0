/** What a learning-rate schedule is, and what it is told about the training. */
import { atLeast, integerFrom, oneOf, type Rule, type Rules, shaped } from '../core/arguments.js';

/** The training, or the part of it, that a schedule is for. */
export interface LrSpan {
  /** Steps of the whole training. */
  readonly steps: number;
  /** Steps of an epoch. */
  readonly stepsPerEpoch: number;
  /** The step the schedule begins with, counted from 0 (default 0). */
  readonly first?: number;
  /** The monitored figure after each epoch so far, for schedules that have a `monitor`. */
  readonly observed?: readonly number[];
}

export const SPAN: Rules<LrSpan> = {
  steps: { ...integerFrom(1), required: true },
  stepsPerEpoch: { ...integerFrom(1), required: true },
  first: integerFrom(0),
  observed: { must: 'an array of numbers', holds: Array.isArray },
};

/**
 * A learning-rate schedule: a pure function from the step to a factor for the learning rate. Everything it depends on is in
 * its arguments, so there is no state to save but the figures that were observed.
 */
export interface LrSchedule {
  /** For people. */
  readonly name: string;
  /** The factor for the learning rate of a step. @param step of the whole training, counted from 0 */
  readonly factor: (step: number, span: LrSpan) => number;
  /** How many steps it takes; undefined: as many as are left. */
  readonly length: (span: LrSpan) => number | undefined;
  /** The figure whose values it needs: 'loss', or a metric. */
  readonly monitor?: string | undefined;
}

/** The rule of what is to be a schedule. */
export const aSchedule: Rule = shaped('a schedule, such as optim.schedules.cosine()', {
  factor: { must: 'a function', holds: (v) => typeof v === 'function' },
  length: { must: 'a function', holds: (v) => typeof v === 'function' },
});

/**
 * What a schedule counts: 'step'; 'epoch', and its factor changes only between epochs; or 'training', of which 1 is the
 * whole, so that 0.1 is a tenth of all steps.
 */
export type LrUnit = 'step' | 'epoch' | 'training';

/** Options of all schedules. */
export interface LrOptions {
  /** In what lengths and milestones are given (default 'step'). */
  readonly unit?: LrUnit;
  /** How long it takes, in that unit (default: what is left of the training). */
  readonly length?: number;
}

/** Their rules. */
export const LR_OPTIONS: Rules<LrOptions> = { unit: oneOf('step', 'epoch', 'training'), length: atLeast(0) };

/** Epochs that are over when a step begins. */
export const epochsBefore = (step: number, { stepsPerEpoch }: LrSpan): number =>
  Math.floor(step / stepsPerEpoch);

/** How much of the schedule is over when a step begins, in its unit. */
function elapsed(step: number, span: LrSpan, unit: LrUnit): number {
  const { first = 0, steps } = span;
  if (unit === 'epoch') return epochsBefore(step, span) - epochsBefore(first, span);
  return unit === 'step' ? step - first : (step - first) / steps;
}

/** How much there is from the schedule's beginning to the training's end, in its unit. */
function remaining(span: LrSpan, unit: LrUnit): number {
  const { first = 0, steps, stepsPerEpoch } = span;
  if (unit === 'epoch') return steps / stepsPerEpoch - epochsBefore(first, span);
  return unit === 'step' ? steps - first : (steps - first) / steps;
}

/** A length in steps. */
function inSteps(length: number, span: LrSpan, unit: LrUnit): number {
  const { first = 0, steps, stepsPerEpoch } = span;
  if (unit === 'epoch') return Math.round((epochsBefore(first, span) + length) * stepsPerEpoch) - first;
  return Math.round(unit === 'step' ? length : length * steps);
}

/**
 * A schedule from its curve.
 * @param curve the factor, from how much of the schedule is over, and of how much, in its unit
 */
export function fromCurve(
  name: string,
  { unit = 'step', length }: LrOptions,
  curve: (t: number, end: number) => number,
): LrSchedule {
  return {
    name,
    factor: (step, span) => curve(elapsed(step, span, unit), length ?? remaining(span, unit)),
    length: (span) => (length === undefined ? undefined : inSteps(length, span, unit)),
  };
}
