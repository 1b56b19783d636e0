/**
 * Learning-rate schedules. Formulas and defaults are those of PyTorch's torch.optim.lr_scheduler, with factors of the
 * optimizer's learning rate where PyTorch has rates: `final: 0.1` is a tenth of it. A schedule with a length keeps its
 * last factor afterwards; `chain` has another one follow.
 */
import {
  aBoolean,
  above,
  aFinite,
  aFunction,
  aString,
  atLeast,
  belowOne,
  integerFrom,
  listOf,
  oneOf,
  type Rules,
  requireArgument,
  requireOptions,
  within,
} from '../core/arguments.js';
import { ArgumentError } from '../core/errors.js';
import {
  aSchedule,
  epochsBefore,
  fromCurve,
  LR_OPTIONS,
  type LrOptions,
  type LrSchedule,
  type LrSpan,
  type LrUnit,
} from './lr-schedule.js';

/** How much of a schedule is over, 0 to 1. */
const progress = (t: number, end: number): number => (end > 0 ? Math.min(1, t / end) : 1);
/** From `from` to `to` along a half cosine. */
const cosineBetween = (from: number, to: number, p: number): number =>
  to + ((from - to) * (1 + Math.cos(Math.PI * p))) / 2;
const linearBetween = (from: number, to: number, p: number): number => from + (to - from) * p;

/** The same factor throughout (default 1). PyTorch's ConstantLR is `chain(constant(1 / 3, { length: 5 }), constant())`. */
export function constant(factor = 1, options: LrOptions = {}): LrSchedule {
  requireArgument('constant', 'factor', factor, atLeast(0));
  requireOptions('constant', options, LR_OPTIONS);
  return fromCurve('constant', options, () => factor);
}

/** Options of `warmup`. */
export interface WarmupOptions {
  /** In what the length is given (default 'step'). */
  readonly unit?: LrUnit;
  /** The factor of the first step (default 0; PyTorch's LinearLR begins with 1/3). */
  readonly startFactor?: number;
}

const WARMUP: Rules<WarmupOptions> = { unit: LR_OPTIONS.unit, startFactor: within(0, 1) };

/** Up a straight line to 1, over `length`: PyTorch's LinearLR. */
export function warmup(length: number, options: WarmupOptions = {}): LrSchedule {
  requireArgument('warmup', 'length', length, atLeast(0));
  requireOptions('warmup', options, WARMUP);
  const { unit = 'step', startFactor = 0 } = options;
  return fromCurve('warmup', { unit, length }, (t, end) => linearBetween(startFactor, 1, progress(t, end)));
}

/** Options of `cosine`. */
export interface CosineScheduleOptions extends LrOptions {
  /** The factor at the end (default 0). */
  readonly final?: number;
}

const FINAL: Rules<CosineScheduleOptions> = { ...LR_OPTIONS, final: aFinite };

/**
 * Down a half cosine: PyTorch's CosineAnnealingLR, which turns back up after `length`.
 * I. Loshchilov, F. Hutter, SGDR (2017).
 * @example
 * ```ts
 * import { optim } from 'heddle';
 *
 * const schedule = optim.schedules.chain(optim.schedules.warmup(500), optim.schedules.cosine());
 * ```
 */
export function cosine(options: CosineScheduleOptions = {}): LrSchedule {
  requireOptions('cosine', options, FINAL);
  const { final = 0 } = options;
  return fromCurve('cosine', options, (t, end) => cosineBetween(1, final, progress(t, end)));
}

/** Options of `cosineRestarts`. */
export interface CosineRestartsOptions extends CosineScheduleOptions {
  /** How many times as long each cosine is as the one before, an integer ≥ 1 (default 1). */
  readonly tMult?: number;
}

const RESTARTS: Rules<CosineRestartsOptions> = { ...FINAL, tMult: integerFrom(1) };

/**
 * Down half cosines, one after the other: PyTorch's CosineAnnealingWarmRestarts.
 * I. Loshchilov, F. Hutter, SGDR (2017).
 * @param first length of the first one, in the unit
 */
export function cosineRestarts(first: number, options: CosineRestartsOptions = {}): LrSchedule {
  requireArgument('cosineRestarts', 'first', first, above(0));
  requireOptions('cosineRestarts', options, RESTARTS);
  const { tMult = 1, final = 0 } = options;
  return fromCurve('cosineRestarts', options, (t) => {
    let [start, length] = [0, first];
    if (tMult === 1) start = Math.floor(t / first) * first;
    else for (; start + length <= t; length *= tMult) start += length;
    return cosineBetween(1, final, (t - start) / length);
  });
}

/** Options of `polynomial`. */
export interface PolynomialOptions extends CosineScheduleOptions {
  /** The exponent of what is left (default 1: a straight line). */
  readonly power?: number;
}

const POLYNOMIAL: Rules<PolynomialOptions> = { ...FINAL, power: above(0) };

/** final + (1 − final) · (1 − t / length)^power: PyTorch's PolynomialLR. By default a straight line down to 0. */
export function polynomial(options: PolynomialOptions = {}): LrSchedule {
  requireOptions('polynomial', options, POLYNOMIAL);
  const { power = 1, final = 0 } = options;
  return fromCurve('polynomial', options, (t, end) => final + (1 - final) * (1 - progress(t, end)) ** power);
}

/** Times `gamma` at each step (or epoch): PyTorch's ExponentialLR. */
export function exponential(gamma: number, options: LrOptions = {}): LrSchedule {
  requireArgument('exponential', 'gamma', gamma, atLeast(0));
  requireOptions('exponential', options, LR_OPTIONS);
  return fromCurve('exponential', options, (t) => gamma ** t);
}

/** Options of `step` and `multiStep`. */
export interface StepScheduleOptions extends LrOptions {
  /** The factor each time (default 0.1). */
  readonly gamma?: number;
}

const STEPS: Rules<StepScheduleOptions> = { ...LR_OPTIONS, gamma: atLeast(0) };

/** Times `gamma` after every `size` steps (or epochs): PyTorch's StepLR. */
export function step(size: number, options: StepScheduleOptions = {}): LrSchedule {
  requireArgument('step', 'size', size, above(0));
  requireOptions('step', options, STEPS);
  const { gamma = 0.1 } = options;
  return fromCurve('step', options, (t) => gamma ** Math.floor(t / size));
}

/** Times `gamma` at each of the milestones: PyTorch's MultiStepLR. */
export function multiStep(milestones: readonly number[], options: StepScheduleOptions = {}): LrSchedule {
  requireArgument('multiStep', 'milestones', milestones, listOf(atLeast(0)));
  requireOptions('multiStep', options, STEPS);
  const { gamma = 0.1 } = options;
  return fromCurve('multiStep', options, (t) => gamma ** milestones.filter((m) => t >= m).length);
}

/** Options of `oneCycle`. */
export interface OneCycleOptions extends LrOptions {
  /** In what the length is given (default 'step'). */
  readonly unit?: 'step' | 'epoch';
  /** The fraction of the schedule in which the rate rises (default 0.3). */
  readonly pctStart?: number;
  /** Along half cosines (default), or straight lines. */
  readonly annealStrategy?: 'cos' | 'linear';
  /** The first factor is 1 / divFactor (default 25). */
  readonly divFactor?: number;
  /** The last factor is the first / finalDivFactor (default 1e4). */
  readonly finalDivFactor?: number;
  /** Down to the first factor as slowly as up, and from there to the last (default false). */
  readonly threePhase?: boolean;
}

const ONE_CYCLE: Rules<OneCycleOptions> = {
  ...LR_OPTIONS,
  unit: oneOf('step', 'epoch'),
  pctStart: within(0, 1),
  annealStrategy: oneOf('cos', 'linear'),
  divFactor: above(0),
  finalDivFactor: above(0),
  threePhase: aBoolean,
};

/**
 * Up to the optimizer's learning rate and down to nearly 0: PyTorch's OneCycleLR, whose `max_lr` that is, without its
 * cycling momentum. L. Smith, N. Topin, Super-convergence (2018).
 */
export function oneCycle(options: OneCycleOptions = {}): LrSchedule {
  requireOptions('oneCycle', options, ONE_CYCLE);
  const {
    pctStart = 0.3,
    annealStrategy = 'cos',
    divFactor = 25,
    finalDivFactor = 1e4,
    threePhase,
  } = options;
  const between = annealStrategy === 'cos' ? cosineBetween : linearBetween;
  const low = 1 / divFactor;
  const last = low / finalDivFactor;
  return fromCurve('oneCycle', options, (t, end) => {
    const peak = pctStart * end - 1;
    const phases: readonly OneCyclePhase[] = threePhase
      ? [
          { until: peak, from: low, to: 1 },
          { until: 2 * peak, from: 1, to: low },
          { until: end - 1, from: low, to: last },
        ]
      : [
          { until: peak, from: low, to: 1 },
          { until: end - 1, from: 1, to: last },
        ];
    let start = 0;
    for (const { until, from, to } of phases) {
      if (t <= until) return between(from, to, progress(t - start, until - start));
      start = until;
    }
    return last;
  });
}

interface OneCyclePhase {
  readonly until: number;
  readonly from: number;
  readonly to: number;
}

/** Options of `plateau`. */
export interface PlateauOptions {
  /** The figure to watch: 'loss' (default; the validation loss, if there is one), or a validation metric. */
  readonly monitor?: string;
  /** Whether less is better (default), or more. */
  readonly mode?: 'min' | 'max';
  /** The factor is multiplied by this number, less than 1 (default 0.1). */
  readonly factor?: number;
  /** Epochs without improvement that are waited for (default 10). */
  readonly patience?: number;
  /** The smallest change that counts as an improvement (default 1e-4). */
  readonly threshold?: number;
  /** Whether the threshold is a fraction of the best value (default), or a difference from it. */
  readonly thresholdMode?: 'rel' | 'abs';
  /** Epochs to wait after a reduction before counting again (default 0). */
  readonly cooldown?: number;
  /** The factor never falls below it (default 0). */
  readonly final?: number;
  /** A smaller change of the factor is left out (default 1e-8). */
  readonly eps?: number;
}

const PLATEAU: Rules<PlateauOptions> = {
  monitor: aString,
  mode: oneOf('min', 'max'),
  factor: belowOne,
  patience: integerFrom(0),
  threshold: atLeast(0),
  thresholdMode: oneOf('rel', 'abs'),
  cooldown: integerFrom(0),
  final: within(0, 1),
  eps: atLeast(0),
};

/**
 * Times `factor` when the monitored figure has not improved for more than `patience` epochs: PyTorch's ReduceLROnPlateau.
 * It follows from the figures of all epochs so far, so a resumed training needs only those.
 */
export function plateau(options: PlateauOptions = {}): LrSchedule {
  requireOptions('plateau', options, PLATEAU);
  const { factor = 0.1, patience = 10, cooldown = 0, final = 0, eps = 1e-8 } = options;
  const isBetter = improvement(options);
  const after = (values: readonly number[]): number => {
    let best = options.mode === 'max' ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
    let [current, bad, resting] = [1, 0, 0];
    for (const value of values) {
      const improved = isBetter(value, best);
      if (improved) best = value;
      bad = improved ? 0 : bad + 1;
      if (resting > 0) {
        resting--;
        bad = 0;
      }
      if (bad <= patience) continue;
      const next = Math.max(current * factor, final);
      if (current - next > eps) current = next;
      resting = cooldown;
      bad = 0;
    }
    return current;
  };
  return {
    name: 'plateau',
    monitor: options.monitor ?? 'loss',
    length: () => undefined,
    factor: (at, span) => {
      const values = span.observed ?? [];
      return after(values.slice(epochsBefore(span.first ?? 0, span), epochsBefore(at, span)));
    },
  };
}

/** Whether a value is an improvement on the best one so far: NaN never is. */
function improvement(options: PlateauOptions): (value: number, best: number) => boolean {
  const { mode = 'min', threshold = 1e-4, thresholdMode = 'rel' } = options;
  const by = mode === 'min' ? -threshold : threshold;
  return (value, best) => {
    const limit = thresholdMode === 'rel' ? best * (1 + by) : best + by;
    return mode === 'min' ? value < limit : value > limit;
  };
}

/**
 * A schedule given by a function: PyTorch's LambdaLR.
 * @param factor the factor at time t of a schedule that ends at `end`, both in the unit
 */
export function custom(factor: (t: number, end: number) => number, options: LrOptions = {}): LrSchedule {
  requireArgument('custom', 'factor', factor, aFunction, 'Write custom((t, end) => 1 - t / end).');
  requireOptions('custom', options, LR_OPTIONS);
  return fromCurve('custom', options, factor);
}

/**
 * One schedule after the other, each from its own beginning: PyTorch's SequentialLR. `chain(warmup(500), cosine())`.
 * @throws ArgumentError for none
 */
export function chain(...schedules: readonly LrSchedule[]): LrSchedule {
  for (const [i, schedule] of schedules.entries())
    requireArgument('chain', `schedule ${i}`, schedule, aSchedule);
  if (schedules.length === 0) throw new ArgumentError('[chain] there are no schedules. Pass one or more.');
  /** The schedule that a step is in, and its span. */
  const at = (step: number, span: LrSpan): readonly [LrSchedule, LrSpan] => {
    let { first = 0 } = span;
    for (const [i, schedule] of schedules.slice(0, -1).entries()) {
      const next = first + lengthOf(schedule, i, { ...span, first });
      if (step < next) return [schedule, { ...span, first }];
      first = next;
    }
    return [schedules.at(-1)!, { ...span, first }];
  };
  const monitors = new Set(schedules.flatMap(({ monitor }) => monitor ?? []));
  if (monitors.size > 1)
    throw new ArgumentError(`[chain] the schedules watch different figures: ${[...monitors].join(', ')}.`);
  return {
    name: 'chain',
    monitor: [...monitors][0],
    length: (span) => {
      const { first = 0 } = span;
      let end = first;
      for (const schedule of schedules) {
        const length = schedule.length({ ...span, first: end });
        if (length === undefined) return undefined;
        end += length;
      }
      return end - first;
    },
    factor: (step, span) => {
      const [schedule, own] = at(step, span);
      return schedule.factor(step, own);
    },
  };
}

/** @throws ArgumentError for a schedule without an end, which none can follow */
function lengthOf(schedule: LrSchedule, position: number, span: LrSpan): number {
  const length = schedule.length(span);
  if (length !== undefined) return length;
  throw new ArgumentError(
    `[chain] schedule ${position} (${schedule.name}) has no length, so the next one never begins. Give it one: { length }.`,
  );
}
