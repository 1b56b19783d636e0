/** A tensor map as the copy engine reads it: a CUtensorMap, encoded by the driver for the address of a buffer. */
import type { DTypeName } from '../../../core/dtype.js';
import { DeviceError } from '../../../core/errors.js';
import { type BufferSchema, walkEnd } from '../../../kernel/ir/types.js';
import type { Driver } from './driver.js';
import { NativeMemory } from './native.js';

/** Bytes of a CUtensorMap, and what it is aligned to. */
export const TENSOR_MAP = { bytes: 128, alignment: 64 } as const;

/** CUtensorMapDataType; bytes are copied alike whether they have a sign. */
const TYPES: Partial<Readonly<Record<DTypeName, number>>> = {
  ...{ u8: 0, i8: 0, u32: 2, i32: 3, i64: 5 },
  ...{ f16: 6, f32: 7, f64: 8, bf16: 9 },
};
const TF32 = 11;
/** CUtensorMapSwizzle, by the bytes of a row. */
const SWIZZLES: Readonly<Record<number, number>> = { 32: 1, 64: 2, 128: 3 };
/** CU_TENSOR_MAP_L2_PROMOTION_L2_256B: a miss brings neighbours that the next boxes need. */
const PROMOTION = 3;

/** Writes the tensor maps of one parameter, for one address after another. */
export class TensorMapEncoder {
  readonly #driver: Driver;
  readonly #schema: BufferSchema;
  /** Sizes, strides in bytes, element strides, and the box or the corners of a walk. */
  readonly #numbers: NativeMemory;

  /** @throws DeviceError for a dtype that the copy engine does not know */
  constructor(driver: Driver, schema: BufferSchema) {
    this.#driver = driver;
    this.#schema = schema;
    const { dtype, map } = schema;
    const { sizes, strides, box, walk } = map!;
    if (TYPES[dtype.name] === undefined)
      throw new DeviceError(
        `The copy engine does not know ${dtype.name}: a tensorMap takes ${Object.keys(TYPES).join(', ')}.`,
      );
    const rank = sizes.length;
    const numbers = new NativeMemory(28 * rank);
    // The driver counts from the innermost dimension, whose stride is not said.
    for (let i = 0; i < rank; i++) {
      const from = rank - 1 - i;
      numbers.setU64(8 * i, sizes[from]!);
      if (i > 0) numbers.setU64(8 * (rank + i - 1), strides[from]! * dtype.bytes);
      numbers.setU32(16 * rank + 4 * i, walk?.steps?.[from - 1] ?? 1);
      if (!walk) numbers.setU32(20 * rank + 4 * i, box[from]!);
    }
    if (walk) {
      const ends = walkEnd(map!);
      const dimensions = rank - 2;
      for (let i = 0; i < dimensions; i++) {
        const from = dimensions - 1 - i;
        numbers.setU32(20 * rank + 4 * i, walk.from[from]! >>> 0);
        numbers.setU32(20 * rank + 4 * (dimensions + i), ends[from]! >>> 0);
      }
    }
    this.#numbers = numbers;
  }

  /** @param at the address of the map @param buffer that of the buffer */
  encode(at: number, buffer: number): void {
    const { dtype, map } = this.#schema;
    const { sizes, box, offset, tf32, walk } = map!;
    const rank = sizes.length;
    const { address } = this.#numbers;
    const type = tf32 ? TF32 : TYPES[dtype.name]!;
    const elementStrides = address + 16 * rank;
    const corners = address + 20 * rank;
    const layout = [at, type, rank, buffer + offset * dtype.bytes, address, address + 8 * rank] as const;
    const pattern = [0, SWIZZLES[box.at(-1)! * dtype.bytes]!, PROMOTION, 0] as const;
    if (!walk) this.#driver.api.cuTensorMapEncodeTiled(...layout, corners, elementStrides, ...pattern);
    else {
      const [pixels, channels] = box as [number, number];
      const ends = corners + 4 * (rank - 2);
      this.#driver.api.cuTensorMapEncodeIm2col(
        ...layout,
        ...([corners, ends, channels, pixels] as const),
        elementStrides,
        ...pattern,
      );
    }
  }
}
