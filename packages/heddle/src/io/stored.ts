/** Tensors as a safetensors file has them, and back. */
import { arrayOf, DTYPES, type DType, type TypedArray, viewAs } from '../core/dtype.js';
import { fromBf16, fromF16, toBf16, toF16 } from '../core/float16.js';
import { tensor } from '../tensor/create.js';
import type { AnyTensor } from '../tensor/tensor.js';
import type { StoredTensor, StoredTensors } from './safetensors.js';

const HALVES = { f16: { encode: toF16, decode: fromF16 }, bf16: { encode: toBf16, decode: fromBf16 } };

const halfOf = (dtype: DType): (typeof HALVES)['f16'] | undefined =>
  dtype.name === 'f16' || dtype.name === 'bf16' ? HALVES[dtype.name] : undefined;

/** The values that the tensors have now: what changes them later does not change the result. */
export async function storedAll(tensors: Readonly<Record<string, AnyTensor>>): Promise<StoredTensors> {
  const entries = Object.entries(tensors).map(async ([name, t]) => [name, await stored(t)] as const);
  return Object.fromEntries(await Promise.all(entries));
}

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

export function restored({ dtype: name, shape, data }: StoredTensor): AnyTensor {
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
