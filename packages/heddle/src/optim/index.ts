/** Optimizers: update rules for parameters. */
export type { Rule, Rules } from '../core/arguments.js';
export { GradientAccumulator } from './accumulate.js';
export { Adagrad, type AdagradSettings } from './adagrad.js';
export { Adam, type AdamSettings, AdamW } from './adam.js';
export { type ClipGradNormOptions, clipGradNorm, clipGradValue } from './clip.js';
export { type EmaOptions, ExponentialMovingAverage } from './ema.js';
export { GradScaler, type GradScalerOptions } from './grad-scaler.js';
export { LBFGS, type LBFGSSettings } from './lbfgs.js';
export { Lion, type LionSettings } from './lion.js';
export type { LrOptions, LrSchedule, LrSpan, LrUnit } from './lr-schedule.js';
export { LrScheduler, type LrSchedulerState } from './lr-scheduler.js';
export { Muon, type MuonSettings } from './muon.js';
export {
  type BaseSettings,
  type GroupOptions,
  Optimizer,
  type OptimizerStepOptions,
  ParameterGroup,
  type StepOptions,
  type Trainable,
  type Update,
} from './optimizer.js';
export { RMSprop, type RMSpropSettings } from './rmsprop.js';
export * as schedules from './schedules.js';
export { SGD, type SGDSettings } from './sgd.js';
export type { State } from './state.js';
