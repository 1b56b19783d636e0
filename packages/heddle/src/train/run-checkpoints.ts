/** The checkpoints of a training in its folder: the last one with everything, and the weights that were best. */
import { existsSync } from '#platform/files.js';
import { join } from '#platform/paths.js';
import { ArgumentError, DistributedError, FileError } from '../core/errors.js';
import { makeFolder } from '../core/folders.js';
import { type AnyDataset, type Loader, RandomSampler, SequentialSampler } from '../data/index.js';
import { writeSafetensors } from '../io/index.js';
import { storedAll } from '../io/stored.js';
import type { Module } from '../nn/index.js';
import { currentWorld } from '../tensor/world.js';
import { type EpochReport, monitored } from './callbacks.js';
import {
  checkpointOf,
  type FoundParts,
  fromJson,
  type JsonValue,
  readCheckpoint,
  type Stateful,
  shareParts,
  toJson,
} from './checkpoint-file.js';
import type { FitOptions } from './fit-options.js';
import type { LoopState } from './loop-state.js';

/** Where a training stands between two steps, besides tensors. */
export interface Standing {
  /** The epoch under way, from 0, and how many of its steps are done. */
  readonly epoch: number;
  readonly step: number;
  /** Good steps of this epoch, and the sum of the losses of their examples. */
  readonly sums: readonly number[];
  /** The examples of this epoch that the last log has told of, and the sum of their losses. */
  readonly logged: readonly number[];
  /** Since the epoch began. */
  readonly seconds: number;
  /** Since the training began. */
  readonly elapsed: number;
  readonly reports: readonly EpochReport[];
  /** The learning rates that a schedule is multiplied with, of each group. */
  readonly rates: readonly number[];
  /** The loader's number of epoch 0. */
  readonly firstEpoch: number;
  /** A callback has ended the training. */
  readonly stopped: boolean;
}

interface Saved extends Standing {
  readonly best: number;
  readonly order: JsonValue;
  readonly callbacks: readonly JsonValue[];
}

/** The names of the files in the folder of a run. */
export const LAST = 'checkpoint.safetensors';
export const BEST = 'best.safetensors';

/** What decides which examples a step sees. */
function orderOf(loader: Loader<AnyDataset>): Readonly<Record<string, JsonValue>> {
  const { dataset, batchSize, length, shuffle, sampler, seed } = loader;
  const isUsual = sampler instanceof SequentialSampler || sampler instanceof RandomSampler;
  return {
    ...{ examples: dataset.length, batchSize, batches: length, shuffle, seed },
    ...(!isUsual && { sampler: digest(loader.order(0)) }),
  };
}

/** FNV-1a. */
const digest = (numbers: Uint32Array): string =>
  numbers.reduce((hash, n) => Math.imul(hash ^ n, 0x01000193) >>> 0, 0x811c9dc5).toString(16);

/** The checkpoints of a training, if it has a folder, and where it stands, if it is resumed. */
interface Opened {
  readonly checkpoints: RunCheckpoints | undefined;
  readonly standing: Standing | undefined;
}

/** What the first of several ranks does and finds, on all ranks. @throws DistributedError on others if it fails */
async function ofFirst<T>(find: () => Promise<T | undefined>): Promise<T | undefined> {
  const world = currentWorld();
  if (!world) return find();
  if (world.rank > 0) {
    const { error, found } = fromJson(await world.textOfFirst('')) as {
      readonly error?: string;
      readonly found?: T;
    };
    if (error !== undefined) throw new DistributedError(`rank 0 cannot begin: ${error}`);
    return found;
  }
  try {
    const found = await find();
    await world.textOfFirst(toJson({ found: found as unknown as JsonValue }));
    return found;
  } catch (error) {
    await world.textOfFirst(toJson({ error: (error as Error).message }));
    throw error;
  }
}

export class RunCheckpoints {
  readonly #model: Module;
  readonly #options: FitOptions;
  readonly #folder: string;
  readonly #parts: Readonly<Record<string, Stateful>>;
  readonly #order: Readonly<Record<string, JsonValue>>;
  /** Whether files are written here. */
  readonly #writes: boolean;
  #best = Number.NEGATIVE_INFINITY;
  /** Files are written one after the other: what a checkpoint says of other files is true once it is there. */
  #writing: Promise<void> = Promise.resolve();
  #saved: Promise<void> = Promise.resolve();

  private constructor(model: Module, options: FitOptions, folder: string, state: LoopState) {
    this.#model = model;
    this.#parts = { model, optimizer: options.optimizer, ...state };
    this.#options = options;
    this.#folder = folder;
    this.#order = orderOf(options.train);
    this.#writes = (currentWorld()?.rank ?? 0) === 0;
  }

  /**
   * The folder that the options name, if any. If the training is to be resumed, the model, the optimizer, the generator
   * and the callbacks are as they were then. Of several ranks only the first looks at files, and writes them; the others
   * get its state.
   * @returns also where it stands, if it is resumed
   * @throws ArgumentError if the folder has a training that is not to be resumed, or the data differ; FileError;
   * DistributedError on other ranks, if the first one fails
   */
  static async open(model: Module, options: FitOptions, state: LoopState): Promise<Opened> {
    const { resume = false } = options;
    const folder = options.folder ?? (typeof resume === 'string' ? resume : undefined);
    const checkpoints = folder === undefined ? undefined : new RunCheckpoints(model, options, folder, state);
    let found: FoundParts = {};
    const saved = await ofFirst(async () => {
      if (checkpoints) {
        const last = await checkpoints.#find();
        found = last?.found ?? {};
        return last?.saved;
      }
      if (resume === true)
        throw new ArgumentError("[fit] resume is true, but no folder is named: write resume: 'runs/mine'.");
      return undefined;
    });
    const world = currentWorld();
    if (world) await shareParts(world, { model, optimizer: options.optimizer, ...state }, found);
    return { checkpoints, standing: saved && checkpoints!.#resumed(saved) };
  }

  /** What the last checkpoint says, if the training is to go on from it: its tensors are loaded. */
  async #find(): Promise<{ readonly saved: Saved; readonly found: FoundParts } | undefined> {
    const { resume = false } = this.#options;
    const folder = this.#folder;
    const from = join(typeof resume === 'string' ? resume : folder, LAST);
    const exists = existsSync(from);
    if (resume === false && exists)
      throw new ArgumentError(
        `[fit] ${folder} has the checkpoint of another training. Continue it with resume: true, or name another folder.`,
      );
    if (!exists && typeof resume === 'string')
      throw new FileError(from, 'there is no checkpoint to resume from.');
    if (!exists) {
      makeFolder(folder);
      return undefined;
    }
    const { state, found } = await readCheckpoint(from, this.#parts);
    const saved = state as unknown as Saved;
    const order = this.#order;
    const before = saved.order as Readonly<Record<string, JsonValue>>;
    for (const name of Object.keys({ ...before, ...order }))
      if (order[name] !== before[name])
        throw new ArgumentError(
          `[fit] the training in ${from} had other data: ${name} was ${before[name]}, here it is ${order[name]}. Resume it with the loader it began with.`,
        );
    return { saved, found };
  }

  #resumed(saved: Saved): Standing {
    const { optimizer, callbacks = [] } = this.#options;
    optimizer.groups.forEach((group, i) => {
      group.lr = saved.rates[i]!;
    });
    callbacks.forEach((callback, i) => {
      const state = saved.callbacks[i];
      if (state !== undefined && state !== null) callback.loadState?.(state);
    });
    this.#best = saved.best;
    // JSON leaves out what is undefined.
    return {
      ...saved,
      logged: saved.logged ?? [0, 0],
      reports: saved.reports.map((report) => ({ ...report, validation: report.validation })),
    };
  }

  /** Start to write where the training stands now. The one before is on the disk when this returns. */
  async save(standing: Standing): Promise<void> {
    if (!this.#writes) {
      // What ranks have in parts is gathered from all of them.
      for (const part of Object.values(this.#parts)) part.stateDict();
      return;
    }
    const { callbacks = [] } = this.#options;
    const state = {
      ...standing,
      best: this.#best,
      order: this.#order,
      callbacks: callbacks.map((callback) => callback.saveState?.() ?? null),
    };
    const path = join(this.#folder, LAST);
    const checkpoint = await checkpointOf(path, this.#parts, state as unknown as JsonValue);
    await this.#saved;
    this.#saved = this.#write(() => checkpoint.write());
  }

  #write(file: () => Promise<void>): Promise<void> {
    this.#writing = this.#writing.then(file);
    this.#writing.catch(() => {}); // whoever waits for it hears of it
    return this.#writing;
  }

  /** Keep the weights if they are the best so far. */
  async keepBest(report: EpochReport): Promise<void> {
    const { monitor = 'loss' } = this.#options;
    const value = monitored('fit', report, monitor);
    if (!(value > this.#best)) return;
    this.#best = value;
    if (!this.#writes) return;
    const path = join(this.#folder, BEST);
    const weights = await storedAll(this.#model.stateDict());
    this.#write(() => writeSafetensors(path, weights, { epoch: String(report.epoch + 1) }));
  }

  /** All is on the disk. @throws what kept it from being written */
  written(): Promise<void> {
    return this.#writing;
  }
}
