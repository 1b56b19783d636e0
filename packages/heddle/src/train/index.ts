/** The training loop and what goes with it. */
export {
  type Callback,
  type CallbackAnswer,
  type EarlyStoppingOptions,
  type EpochReport,
  earlyStopping,
  type History,
  type LogReport,
  type StepReport,
  type TrainingPlan,
} from './callbacks.js';
export { type CheckpointOptions, checkpoint } from './checkpoint.js';
export { type JsonValue, loadCheckpoint, type Stateful, saveCheckpoint } from './checkpoint-file.js';
export {
  type AutocastName,
  type EvaluateOptions,
  type Evaluation,
  evaluate,
  type Loss,
  type LossReduction,
  type Model,
} from './evaluate.js';
export { fit } from './fit.js';
export type { Augment, CheckpointInterval, FitOptions } from './fit-options.js';
export type { GPTSizes } from './gpt.js';
export { jsonLog } from './json-log.js';
export * as metrics from './metric-kinds.js';
export { accuracy, binaryAccuracy, type Metric, type MetricFunction, type SummedMetric } from './metrics.js';
export {
  type DataSizes,
  LeNet5,
  PROGRAMS,
  type ProgramName,
  programNamed,
  type TrainingProgram,
} from './programs.js';
export type { Augmentation, OptimizerName, Recipe, Settings as ProgramSettings } from './recipes.js';
export { SummaryWriter, type TensorBoardOptions, tensorBoard } from './summary-writer.js';
export { type LoadWeightsOptions, loadWeights, type SaveWeightsOptions, saveWeights } from './weights.js';
