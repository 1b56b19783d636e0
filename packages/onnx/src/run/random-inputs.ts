/** Random inputs of a model, for trying it. */
import { type AnyTensor, ArgumentError, tensor } from 'heddle';
import { PhiloxStream } from 'heddle/internal/core/philox.js';
import { sizeOf } from 'heddle/internal/core/shape.js';
import { ELEMENT_TYPES } from '../file/element-types.js';
import type { OnnxValueInfo } from '../model/signature.js';

/** The sizes of dimensions by their names. */
export type Sizes = Readonly<Record<string, number>>;

/** What a dimension is called that may have any size; of one without a name a name is made. */
export const dimensionName = (name: string, axis: number, size: string | null): string =>
  size ?? `${name}.${axis}`;

/** Sizes for all dimensions that may have any. @throws ArgumentError for given ones that the model does not have */
export function sizesFor(inputs: readonly OnnxValueInfo[], given: Sizes): Sizes {
  const sizes: Record<string, number> = {};
  for (const { name, shape } of inputs)
    for (const [axis, size] of (shape ?? []).entries())
      if (typeof size !== 'number') sizes[dimensionName(name, axis, size)] ??= axis === 0 ? 2 : 16;
  for (const [name, size] of Object.entries(given)) {
    if (!(name in sizes))
      throw new ArgumentError(
        `--sizes ${name}=${size}: the model's dynamic dimensions are ${Object.keys(sizes).join(', ') || 'none'}.`,
      );
    sizes[name] = size;
  }
  return sizes;
}

/** Floats from −1 to 1, and integers and bools of 0 and 1, the same every time. @throws ArgumentError */
export function randomInputs(inputs: readonly OnnxValueInfo[], sizes: Sizes): AnyTensor[] {
  const random = new PhiloxStream(1);
  return inputs.map(({ name, dtype, shape }) => {
    const type = ELEMENT_TYPES[dtype].dtype;
    if (!shape || !type)
      throw new ArgumentError(
        `the input '${name}' is ${shape ? `of ${dtype}` : 'of any number of dimensions'}: no values can be made up for it. Leave running out with --no-run.`,
      );
    const fixed = shape.map((size, axis) =>
      typeof size === 'number' ? size : sizes[dimensionName(name, axis, size)]!,
    );
    const value = type.kind === 'float' ? () => 2 * random.uniform() - 1 : () => random.below(2);
    const values = Array.from({ length: sizeOf(fixed) }, value);
    if (type.name === 'i64') return tensor(BigInt64Array.from(values, BigInt), { shape: fixed }) as AnyTensor;
    return tensor(Float64Array.from(values), { shape: fixed, dtype: type }) as AnyTensor;
  });
}
