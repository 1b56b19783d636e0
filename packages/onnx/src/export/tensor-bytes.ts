/** The bytes of numbers and tensors as an ONNX file has them: little-endian, in row-major order. */
import type { AnyTensor } from 'heddle';
import { arrayOf, type DType, viewAs } from 'heddle/internal/core/dtype.js';
import { toBf16, toF16 } from 'heddle/internal/core/float16.js';
import { readBytes } from 'heddle/internal/engine/realize.js';
import { nodeOf } from 'heddle/internal/tensor/tracing.js';

const HALVES: Readonly<Record<string, ((value: number) => number) | undefined>> = {
  f16: toF16,
  bf16: toBf16,
};

/** Numbers as elements of a dtype. */
export function bytesOfNumbers(values: readonly (number | bigint | boolean)[], dtype: DType): Uint8Array {
  const round = HALVES[dtype.name] ?? ((value: number) => value);
  const array = arrayOf(dtype, values.length);
  values.forEach((value, i) => {
    array[i] = dtype.name === 'i64' ? BigInt(value) : round(Number(value));
  });
  return new Uint8Array(array.buffer);
}

/** Elements of a dtype, other than i64 and 16-bit floats, as numbers. */
export const numbersOfBytes = ({ buffer, byteOffset, byteLength }: Uint8Array, dtype: DType): number[] =>
  Array.from(viewAs(dtype, buffer, byteOffset, byteLength / dtype.bytes), Number);

/** The values that a tensor has now. */
export const bytesOfTensor = (tensor: AnyTensor): Promise<Uint8Array> => readBytes(nodeOf(tensor));
