/** Tensors on the host: constants of a model, and what is computed of shapes. */
import type { Shape } from 'heddle';
import type { ElementType, HostArray } from './element-types.js';

/** Values on the host, with the type and shape that ONNX gives them. */
export interface HostTensor {
  /** The element type. */
  readonly type: ElementType;
  /** Sizes of the dimensions. */
  readonly shape: Shape;
  /** The values, row by row. */
  readonly values: HostArray;
}
