/** The training loop. */
import { setExitCode, warn } from '#platform/process.js';
import { requireArgument, requireOptions } from '../core/arguments.js';
import { ArgumentError } from '../core/errors.js';
import type { Tensor } from '../tensor/tensor.js';
import { currentWorld } from '../tensor/world.js';
import { type History, requireCallback } from './callbacks.js';
import { aLayer, type Model } from './evaluate.js';
import { FIT, type FitOptions, INTERVAL } from './fit-options.js';
import { Interrupt } from './interrupt.js';
import { loopStateFor } from './loop-state.js';
import { RunCheckpoints } from './run-checkpoints.js';
import { Training } from './training.js';

/**
 * Train a model. Each step is one compiled program, many steps one launch where the data set is resident; the loss
 * is read from the device every `readEvery` steps only, and awaited when the next steps are queued.
 * From the first loss that is not finite on, no weight changes any more, and training stops with an error. Every epoch
 * begins in training mode (`model.train()`). Gradients from before are forgotten.
 *
 * Where several processes train together (`heddle/distributed`), all call it with the same options: each takes its part of
 * every batch, and all have the same weights and figures after every step, those of rank 0 before the first one. Only rank
 * 0 reads and writes the folder.
 * @example
 * ```ts
 * import { fit, Loader, manualSeed, mse, nn, optim, randn, TensorDataset, tensor } from 'heddle';
 *
 * manualSeed(0);
 * const x = randn([100, 3]);
 * const data = new TensorDataset(x, x.matmul(tensor([[1], [-2], [0.5]])));
 * const model = new nn.Linear(3, 1);
 * const { epochs } = await fit(model, {
 *   train: new Loader(data, { batchSize: 20, shuffle: true }),
 *   optimizer: new optim.SGD(model.parameters(), { lr: 0.1 }),
 *   loss: mse,
 *   epochs: 20,
 * });
 * console.log(epochs.at(-1)!.loss < 0.01); // → true
 * ```
 * @returns what happened; also when `signal` ended it: an epoch that it cut short is the last one in the history, and no
 *   callback is told of it
 * @throws NumericError naming the first layer or parameter that is not finite; the model then has its last good weights
 */
export async function fit<Outputs = Tensor, Targets = Tensor>(
  model: Model<Outputs>,
  options: FitOptions<Outputs, Targets>,
): Promise<History> {
  return trained(model, options as unknown as FitOptions);
}

async function trained(model: Model, options: FitOptions): Promise<History> {
  requireArgument('fit', 'model', model, aLayer);
  requireOptions('fit', options, FIT);
  for (const callback of options.callbacks ?? []) requireCallback(callback);
  requireOptions('fit, checkpointEvery', options.checkpointEvery ?? {}, INTERVAL);
  if (options.train.length === 0) throw new ArgumentError('[fit] there are no batches to train on.');
  const { train } = options;
  const world = currentWorld();
  const ranked = world ? { ...options, train: train.shard(world.rank, world.size) } : options;
  const interrupt = options.signal ? undefined : new Interrupt(({ name }) => notify(name, options));
  try {
    if (world && options.shardOptimizer) options.optimizer.shard(world);
    const state = loopStateFor(model, ranked);
    const { checkpoints, standing } = await RunCheckpoints.open(model, ranked, state);
    const watched = interrupt ? { ...ranked, signal: interrupt.signal } : ranked;
    const history = await new Training(model, watched, { checkpoints, standing, state }).run();
    if (interrupt?.cause) setExitCode(interrupt.cause.code);
    return history;
  } finally {
    train.epoch = ranked.train.epoch;
    if (world) ranked.train.dispose();
    interrupt?.dispose();
  }
}

/** What a signal does. On stderr: the output is the program's. */
function notify(cause: string, { folder, resume }: FitOptions): void {
  const saves = folder !== undefined || typeof resume === 'string';
  warn(`${cause}: stopping after this step${saves ? ' and saving' : ''}. Once more to stop at once.`);
}
