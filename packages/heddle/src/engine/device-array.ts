/** Device memory without a tensor, for users' kernels. */
import { anArrayLike, integerFrom, requireArgument } from '../core/arguments.js';
import { type DType, requireDType, type TypedArray } from '../core/dtype.js';
import { ArgumentError } from '../core/errors.js';
import type { DeviceBuffer, Stream } from '../runtime/device.js';
import { decode, encode } from './realize.js';
import { BufferStorage, currentDevice } from './storage.js';

/**
 * `length` numbers in the memory of a device: what a tensor is without its shape, its graph and its gradient. Kernels
 * change it in place. It frees itself when it is garbage; `dispose` or `using` does so at once.
 */
export class DeviceArray {
  /** The dtype of its elements. */
  readonly dtype: DType;
  /** How many elements it has. */
  readonly length: number;
  readonly #storage: BufferStorage;

  constructor(dtype: DType, length: number) {
    requireDType('allocate', dtype);
    requireArgument('allocate', 'length', length, integerFrom(0));
    this.dtype = dtype;
    this.length = length;
    this.#storage = new BufferStorage(length * dtype.bytes, 'device arrays');
  }

  /** @internal */
  get buffer(): DeviceBuffer {
    return this.#storage.buffer;
  }

  /**
   * Overwrite elements from host memory, which may be reused on return. In order with the kernels that were launched
   * on this memory, on whatever stream. @throws ArgumentError beyond the end
   */
  write(values: ArrayLike<number | bigint>, offset = 0): this {
    requireArgument('write', 'values', values, anArrayLike);
    requireArgument('write', 'offset', offset, integerFrom(0));
    if (offset + values.length > this.length)
      throw new ArgumentError(
        `[write] ${values.length} values from element ${offset} on do not fit: there are ${this.length} elements.`,
      );
    const { buffer } = this;
    buffer.device.write(buffer, encode(values, this.dtype), offset * this.dtype.bytes);
    return this;
  }

  /** A copy of the elements (f16 and bf16 as f32), once the kernels launched on this memory are done. */
  async read(): Promise<TypedArray> {
    const { buffer } = this;
    return decode(await buffer.device.read(buffer, 0, this.length * this.dtype.bytes), this.dtype);
  }

  /** Give the memory back now. It must not be used afterwards. */
  dispose(): void {
    this.#storage.release();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}

/**
 * Memory of the current device for `length` numbers, undefined until they are written, or for these values.
 * @example const x = allocate(f32, 1024); const y = allocate(i32, [1, 2, 3]);
 * @throws OutOfMemoryError
 */
export function allocate(dtype: DType, given: number | ArrayLike<number | bigint>): DeviceArray {
  if (typeof given === 'number') return new DeviceArray(dtype, given);
  requireDType('allocate', dtype);
  requireArgument('allocate', 'given', given, anArrayLike);
  return new DeviceArray(dtype, given.length).write(given);
}

/**
 * A stream of the current device: kernels launched on it run concurrently with tensor operations and other streams. Where tensors (or
 * reads and writes) use the same memory, order is kept: a launch comes after what they started before, and they after
 * the launch. Between streams, events keep it: `b.wait(a.record())`.
 */
export const stream = (): Stream => currentDevice().openStream();
