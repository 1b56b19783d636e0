/** Matrices in memory: by rows, by columns, from an offset on, with gaps. */
import { bf16, type DType, f16, f32 } from '../../src/core/dtype.js';
import { toBf16, toF16 } from '../../src/core/float16.js';
import { noise, type Source } from '../kernel/harness.js';

export type Layout = 'rows' | 'columns' | 'offset' | 'gaps';

export const LAYOUTS: readonly (readonly [Layout, Layout])[] = [
  ['rows', 'rows'],
  ['rows', 'columns'],
  ['columns', 'rows'],
  ['columns', 'columns'],
  ['offset', 'gaps'],
  ['gaps', 'offset'],
];

/** A (batch, r, c) source in memory as `layout` says. */
export function laidOutMatrix(
  batch: number,
  r: number,
  c: number,
  layout: Layout,
  seed: number,
  dtype: DType = f32,
): Source {
  const values = noise(batch * r * c, seed);
  const data =
    dtype === bf16
      ? Uint16Array.from(values, toBf16)
      : dtype === f16
        ? Uint16Array.from(values, toF16)
        : values;
  if (layout === 'rows') return { data };
  if (layout === 'columns') return { data, view: { strides: [r * c, 1, r], offset: 0, length: data.length } };
  if (layout === 'offset')
    return { data, view: { strides: [r * c, c, 1], offset: 5, length: data.length + 5 } };
  const strides = [2 * r * (2 * c + 1), 2 * c + 1, 2];
  return { data, view: { strides, offset: 3, length: batch * strides[0]! + 3 } };
}
