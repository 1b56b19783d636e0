/** Types of the kernel language: values (scalars and short vectors) and memory; and the schemas of parameters. */
import { type DType, requireDType } from '../../core/dtype.js';

export type Lanes = 1 | 2 | 4;

/** A scalar (1 lane) or a vector of 2 or 4. */
export interface ValueType {
  readonly kind: 'value';
  readonly dtype: DType;
  readonly lanes: Lanes;
}

export type Space = 'global' | 'shared' | 'local';

/** Memory that is indexed: a buffer parameter (`dims` is empty, one flat index) or an array of fixed sizes. */
export interface MemoryType {
  readonly kind: 'memory';
  readonly dtype: DType;
  readonly space: Space;
  readonly dims: readonly number[];
}

/** The type of statements. */
export interface NoType {
  readonly kind: 'none';
}

export type KernelType = ValueType | MemoryType | NoType;

export const value = (dtype: DType, lanes: Lanes = 1): ValueType => ({ kind: 'value', dtype, lanes });
export const NONE: NoType = { kind: 'none' };
export const sameValueType = (a: ValueType, b: ValueType): boolean =>
  a.dtype === b.dtype && a.lanes === b.lanes;
export const formatType = (t: KernelType): string =>
  t.kind === 'none'
    ? 'nothing'
    : t.kind === 'value'
      ? `${t.dtype.name}${t.lanes > 1 ? `x${t.lanes}` : ''}`
      : `${t.space} ${t.dtype.name}[${t.dims.join('][')}]`;

/** Schema of a buffer parameter: a pointer to elements of `dtype`, `x[i]` in a kernel. */
export interface BufferSchema<D extends DType = DType> {
  /** Tells buffers from scalars. */
  readonly kind: 'buffer';
  /** The dtype of the elements. */
  readonly dtype: D;
}

/** `x: buffer(f32)` declares a parameter that is indexed. */
export function buffer<D extends DType>(dtype: D): BufferSchema<D> {
  requireDType('buffer', dtype);
  return { kind: 'buffer', dtype };
}

/** A kernel's parameters: scalars by their dtype, buffers by `buffer(dtype)`. */
export type Schema = Readonly<Record<string, DType | BufferSchema>>;

export const isBuffer = (s: DType | BufferSchema): s is BufferSchema => s.kind === 'buffer';
