/** A model's parameters and buffers in a safetensors file. */
import { aString, instance, requireArgument } from '../core/arguments.js';
import { readSafetensors, type StoredMetadata, writeSafetensors } from '../io/index.js';
import { Module } from '../nn/index.js';
import { restored, storedAll } from './stored.js';

/** @internal */
export const aModule = instance(Module, 'a module, such as nn.Sequential');

/**
 * Write a model's state, atomically: what was at `path` stays whole if anything fails.
 * @param metadata texts to keep in the file
 * @throws FileError
 */
export async function saveWeights(model: Module, path: string, metadata: StoredMetadata = {}): Promise<void> {
  requireArgument('saveWeights', 'model', model, aModule);
  requireArgument('saveWeights', 'path', path, aString);
  await writeSafetensors(path, await storedAll(model.stateDict()), metadata);
}

/**
 * Read what `saveWeights` (or PyTorch's safetensors) wrote into a model of the same structure.
 * @returns the texts kept in the file
 * @throws FileError, and what `Module.loadStateDict` throws
 */
export async function loadWeights(model: Module, path: string): Promise<StoredMetadata> {
  requireArgument('loadWeights', 'model', model, aModule);
  requireArgument('loadWeights', 'path', path, aString);
  const { tensors, metadata } = await readSafetensors(path);
  model.loadStateDict(Object.fromEntries(Object.entries(tensors).map(([name, t]) => [name, restored(t)])));
  return metadata;
}
