/** What the loop keeps from step to step, besides model and optimizer: checkpoints have it as well. */
import type { Module } from '../nn/index.js';
import { ExponentialMovingAverage, GradScaler } from '../optim/index.js';
import { BatchGroups } from './batch-groups.js';
import type { FitOptions } from './fit-options.js';

export interface LoopState {
  /** Sums of gradients, where several batches make an update. */
  readonly accumulation?: BatchGroups;
  /** The scale of the loss, where gradients are in f16. */
  readonly scaler?: GradScaler;
  /** Averages of the weights, if they are asked for. */
  readonly ema?: ExponentialMovingAverage;
}

export function loopStateFor(
  model: Module,
  { accumulate = 1, autocast, ema, optimizer }: FitOptions,
): LoopState {
  return {
    ...(accumulate > 1 && { accumulation: new BatchGroups(optimizer) }),
    ...(autocast === 'f16' && { scaler: new GradScaler() }),
    ...(ema && { ema: new ExponentialMovingAverage(model.parameters(), ema) }),
  };
}
