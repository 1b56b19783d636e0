/** A model's parameters and buffers in a safetensors file. */
import { aString, instance, requireArgument } from '../core/arguments.js';
import { arrayOf, DTYPES, type DType, type TypedArray, viewAs } from '../core/dtype.js';
import { fromBf16, fromF16, toBf16, toF16 } from '../core/float16.js';
import {
  readSafetensors,
  type StoredMetadata,
  type StoredTensor,
  type StoredTensors,
  writeSafetensors,
} from '../io/index.js';
import { Module } from '../nn/index.js';
import { tensor } from '../tensor/create.js';
import type { AnyTensor } from '../tensor/tensor.js';

const HALVES = { f16: { encode: toF16, decode: fromF16 }, bf16: { encode: toBf16, decode: fromBf16 } };

const halfOf = (dtype: DType): (typeof HALVES)['f16'] | undefined =>
  dtype.name === 'f16' || dtype.name === 'bf16' ? HALVES[dtype.name] : undefined;

async function stored(t: AnyTensor): Promise<StoredTensor> {
  const values = await t.data();
  const half = halfOf(t.dtype);
  const raw = half ? Uint16Array.from(values as Float32Array, half.encode) : values;
  return {
    dtype: t.dtype.name,
    shape: t.shape,
    data: new Uint8Array(raw.buffer, raw.byteOffset, raw.byteLength),
  };
}

function restored({ dtype: name, shape, data }: StoredTensor): AnyTensor {
  const dtype = DTYPES[name];
  const count = data.byteLength / dtype.bytes;
  const raw = arrayOf(dtype, count);
  new Uint8Array(raw.buffer).set(data);
  const half = halfOf(dtype);
  const values: TypedArray = half
    ? Float32Array.from(raw as Uint16Array, half.decode)
    : viewAs(dtype, raw.buffer, 0, count);
  return tensor(values, { shape, dtype });
}

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
  const entries = Object.entries(model.stateDict()).map(
    async ([name, t]) => [name, await stored(t)] as const,
  );
  const tensors: StoredTensors = Object.fromEntries(await Promise.all(entries));
  await writeSafetensors(path, tensors, metadata);
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
