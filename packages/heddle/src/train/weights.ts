/** A model's parameters and buffers in a file. */
import {
  aBoolean,
  aFunction,
  aString,
  instance,
  oneOf,
  type Rules,
  recordOf,
  requireArgument,
  requireOptions,
} from '../core/arguments.js';
import { i64, isFloat } from '../core/dtype.js';
import { ArgumentError } from '../core/errors.js';
import { loadTensors, type StoredMetadata, saveTensors } from '../io/index.js';
import { Module } from '../nn/index.js';
import { BatchNorm } from '../nn/normalization.js';
import { zeros } from '../tensor/create.js';
import type { AnyTensor } from '../tensor/tensor.js';

/** @internal */
export const aModule = instance(Module, 'a module, such as nn.Sequential');

/** Options of `saveWeights`. */
export interface SaveWeightsOptions {
  /** Texts to keep in the file. */
  readonly metadata?: StoredMetadata;
  /**
   * 'pytorch': names as PyTorch has them, such as `bn1.running_mean`, with batch normalization's `num_batches_tracked`, so that
   * `load_state_dict` of the same model takes the file. Default: 'heddle', those of `model.stateDict()`.
   */
  readonly names?: 'heddle' | 'pytorch';
}

const SAVE: Rules<SaveWeightsOptions> = {
  metadata: recordOf(aString, 'an object of strings by name'),
  names: oneOf('heddle', 'pytorch'),
};

/**
 * Write a model's state, atomically: what was at `path` stays whole if anything fails. The path ends in .safetensors or .npz.
 * @example
 * ```ts
 * import { loadWeights, nn, saveWeights } from 'heddle';
 *
 * const model = new nn.Linear(4, 2);
 * await saveWeights(model, 'linear.safetensors');
 * await loadWeights(new nn.Linear(4, 2), 'linear.safetensors');
 * ```
 * @throws ArgumentError, FileError
 */
export async function saveWeights(
  model: Module,
  path: string,
  options: SaveWeightsOptions = {},
): Promise<void> {
  requireArgument('saveWeights', 'model', model, aModule);
  requireArgument('saveWeights', 'path', path, aString);
  requireOptions('saveWeights', options, SAVE);
  const { metadata = {}, names = 'heddle' } = options;
  const state = names === 'pytorch' ? pytorchState(model) : model.stateDict();
  await saveTensors(path, state, { metadata });
}

/** A model's state by PyTorch's names, which `loadWeights` understands as well. */
function pytorchState(model: Module): Record<string, AnyTensor> {
  const named = Object.entries(model.stateDict()).map(([name, t]) => [snakeCase(name), t] as const);
  const counts = [...model.namedModules()].flatMap(([name, module]) =>
    module instanceof BatchNorm
      ? [
          [
            `${name === '' ? '' : `${snakeCase(name)}.`}num_batches_tracked`,
            zeros([], { dtype: i64 }),
          ] as const,
        ]
      : [],
  );
  return Object.fromEntries<AnyTensor>([...named, ...counts]);
}

/** `selfAttn.inProjWeight` → `self_attn.in_proj_weight`; a name that would not come back stays as it is. */
function snakeCase(name: string): string {
  const parts = name.split('.').map((part) => {
    const snake = part.replace(/(?<=[a-z0-9])[A-Z]/g, (letter) => `_${letter}`).toLowerCase();
    return camelCase(snake) === part ? snake : part;
  });
  return parts.join('.');
}

/** Options of `loadWeights`. */
export interface LoadWeightsOptions {
  /** Demand exactly the model's names, once they are renamed (default true). */
  readonly strict?: boolean;
  /** Take only names that begin so, without it: `state_dict.`, `model.encoder.`. Default: all names. */
  readonly prefix?: string;
  /** The model's name for a name in the file; undefined leaves the tensor out. Default: see `loadWeights`. */
  readonly rename?: (name: string) => string | undefined;
}

const LOAD: Rules<LoadWeightsOptions> = { strict: aBoolean, prefix: aString, rename: aFunction };

const camelCase = (name: string): string =>
  name.replace(/_+([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());

/** What PyTorch keeps and no layer here needs: how many batches a batch normalization has seen. */
const UNUSED = /(?:^|\.)num_batches_tracked$/;

/**
 * Read the weights of a model from a file: what `saveWeights` wrote, or those of PyTorch and Hugging Face, in any format of
 * `loadTensors`. A name that the model does not have is tried in camel case, so that `bn1.running_mean` is `bn1.runningMean`;
 * floats of another dtype are converted to the model's.
 * @returns the texts kept in the file
 * @throws FileError, and what `Module.loadStateDict` throws
 */
export async function loadWeights(
  model: Module,
  path: string,
  options: LoadWeightsOptions = {},
): Promise<StoredMetadata> {
  requireArgument('loadWeights', 'model', model, aModule);
  requireOptions('loadWeights', options, LOAD);
  const { strict = true, prefix = '', rename } = options;
  const { tensors, metadata } = await loadTensors(path);
  const own = model.stateDict();
  const given = new Map<string, AnyTensor>();
  for (const [full, tensor] of Object.entries(tensors)) {
    if (!full.startsWith(prefix) || UNUSED.test(full)) continue;
    const name = full.slice(prefix.length);
    const asked = rename ? rename(name) : name;
    if (asked === undefined) continue;
    const to = Object.hasOwn(own, asked)
      ? asked
      : Object.hasOwn(own, camelCase(asked))
        ? camelCase(asked)
        : asked;
    if (given.has(to))
      throw new ArgumentError(
        `[loadWeights] two tensors of the file are ${to} of the model, one of them ${full}.`,
      );
    given.set(to, converted(tensor, own[to]));
  }
  model.loadStateDict(Object.fromEntries(given), { strict });
  return metadata;
}

const converted = (from: AnyTensor, to: AnyTensor | undefined): AnyTensor =>
  to && from.dtype !== to.dtype && isFloat(from.dtype) && isFloat(to.dtype) ? from.cast(to.dtype) : from;
