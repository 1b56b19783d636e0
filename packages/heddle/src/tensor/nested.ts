/** The elements of tensors in nested arrays. */
import { bool, type DType, type DTypeName, type TypedArray } from '../core/dtype.js';
import { type Shape, sizeOf } from '../core/shape.js';

/** Numbers, or booleans, nested as deep as a tensor has dimensions. */
export type NestedArray = number | boolean | NestedArray[];

/** The elements of a tensor in nested arrays, by how many dimensions it has. Numbers unless it is known to be of bools. */
export interface ArraysByRank<D extends DTypeName, E = [D] extends ['bool'] ? boolean : number> {
  0: E;
  1: E[];
  2: E[][];
  3: E[][][];
  4: E[][][][];
}

/** @internal */
export function nested(data: TypedArray, shape: Shape, dtype: DType): NestedArray {
  const at = (depth: number, offset: number): NestedArray => {
    if (depth === shape.length) return dtype === bool ? data[offset] === 1 : Number(data[offset]);
    const step = sizeOf(shape.slice(depth + 1));
    return Array.from({ length: shape[depth]! }, (_, i) => at(depth + 1, offset + i * step));
  };
  return at(0, 0);
}
