/** The inputs and outputs of a model: names, element types and shapes, some sizes of which are only named. */
import { type AnyTensor, DTypeError, FileError, i32, ShapeError, type Tensor } from 'heddle';
import { formatShape } from 'heddle/internal/core/shape.js';
import { type ElementType, type ElementTypeName, elementTypeOf } from '../file/element-types.js';
import type { ValueInfoProto } from '../protobuf/onnx_pb.js';
import { Value } from '../values/value.js';

/** An input or an output of a model. */
export interface OnnxValueInfo {
  /** Its name in the model. */
  readonly name: string;
  /** The type of its elements. Types that Heddle lacks are tensors of a wider dtype: i16 and i4 are i32. */
  readonly dtype: ElementTypeName;
  /** Its sizes: a number, the name of one that is free, or null for one without a name; undefined if the rank is free. */
  readonly shape: readonly (number | string | null)[] | undefined;
}

/** @throws FileError unless the value is a tensor */
export function infoOf(
  { name, type }: ValueInfoProto,
  path: string,
): OnnxValueInfo & { readonly type: ElementType | undefined } {
  if (type?.value.case !== 'tensorType') return { name, dtype: 'f32', shape: undefined, type: undefined };
  const { elemType, shape } = type.value.value;
  const element = elementTypeOf(elemType, `${path}: '${name}'`);
  const sizes = shape?.dim.map(({ value }) => {
    if (value.case === 'dimParam') return value.value === '' ? null : value.value;
    if (value.case !== 'dimValue') return null;
    const size = Number(value.value);
    if (!Number.isSafeInteger(size) || size < 0)
      throw new FileError(path, `'${name}' has a dimension of size ${value.value}, must be at least 0.`);
    return size;
  });
  return { name, dtype: element.name, shape: sizes, type: element };
}

/** A tensor as the value of an input. @throws ShapeError, DTypeError if it does not fit @param sizes of names so far */
export function inputValue(
  given: AnyTensor,
  info: OnnxValueInfo & { readonly type: ElementType | undefined },
  sizes: Map<string, number>,
): Value {
  const { name, shape, type } = info;
  if (shape && shape.length !== given.ndim)
    throw new ShapeError(
      `[onnx] the input '${name}' is ${formatShape(given.shape)}, must have the ${shape.length} dimensions (${shape.join(',')}).`,
    );
  for (const [i, size] of (shape ?? []).entries()) {
    const actual = given.shape[i]!;
    const expected = typeof size === 'string' ? (sizes.get(size) ?? actual) : (size ?? actual);
    if (actual !== expected)
      throw new ShapeError(
        `[onnx] the input '${name}' is ${formatShape(given.shape)}, must be (${shape!.join(',')}): dimension ${i} has ${actual} ` +
          `elements, ${typeof size === 'string' ? `'${size}' of another input` : 'the model'} has ${expected}.`,
      );
    if (typeof size === 'string') sizes.set(size, actual);
  }
  if (!type) return Value.of(given);
  if (!type.dtype)
    throw new DTypeError(
      `[onnx] the input '${name}' is of type ${type.name}, of which there are no tensors.`,
    );
  if (given.dtype === type.dtype) return Value.of(given, type);
  // Every i32 is an i64: token ids and labels are i32 in this library.
  if (type.name === 'i64' && given.dtype === i32) return Value.of((given as Tensor).cast(type.dtype), type);
  throw new DTypeError(
    `[onnx] the input '${name}' is ${given.dtype.name}, must be ${type.dtype.name}` +
      `${type.dtype.name === type.name ? '' : `, which carries ${type.name}`}. Convert with .cast(${type.dtype.name}).`,
  );
}
