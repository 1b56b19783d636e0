/** Weights written after every epoch, or after the best so far. */
import { aString, type Rules, requireArgument, requireOptions } from '../core/arguments.js';
import type { Module } from '../nn/index.js';
import { type Callback, monitored } from './callbacks.js';
import { aModule, saveWeights } from './weights.js';

/** Options of `checkpoint`. */
export interface CheckpointOptions {
  /** Write only when this validation metric (or 'loss') is the best so far; default: always. */
  readonly best?: string;
}

const CHECKPOINT: Rules<CheckpointOptions> = { best: aString };

/** Writes the model to `path`, a safetensors file, after each epoch; atomically. */
export function checkpoint(model: Module, path: string, options: CheckpointOptions = {}): Callback {
  requireArgument('checkpoint', 'model', model, aModule);
  requireArgument('checkpoint', 'path', path, aString);
  requireOptions('checkpoint', options, CHECKPOINT);
  let best = Number.NEGATIVE_INFINITY;
  return {
    onEpochEnd: async (report) => {
      if (options.best !== undefined) {
        const value = monitored('checkpoint', report, options.best);
        if (!(value > best)) return;
        best = value;
      }
      const metadata = { epoch: String(report.epoch + 1), loss: String(report.loss) };
      await saveWeights(model, path, { metadata });
    },
    saveState: () => best,
    loadState: (state) => {
      best = state as number;
    },
  };
}
