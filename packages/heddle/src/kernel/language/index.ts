/** `heddle/kernel`: what a kernel is written with. */
export {
  bf16,
  bool,
  type DType,
  type DTypeName,
  f16,
  f32,
  f64,
  i8,
  i32,
  i64,
  u8,
  u32,
} from '../../core/dtype.js';
export type { KernelIr } from '../ir/ir.js';
export {
  type BufferSchema,
  buffer,
  type PixelWalk,
  type Schema,
  type TensorMap,
  type TensorMapOptions,
  tensorMap,
} from '../ir/types.js';
export {
  type Cast,
  type Constants,
  type CopyArgument,
  defineKernel,
  type Intrinsics,
  type KernelFunction,
  type Memory,
  type Sizes,
  type ValuesOf,
  type Vector3,
} from './language.js';
