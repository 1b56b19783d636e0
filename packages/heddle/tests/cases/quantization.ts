/** Quantization to bytes and back, and what computes with the bytes. */
import { bf16, type DType, f16, i8, i32, u8 } from '../../src/core/dtype.js';
import { quantization, tensor } from '../../src/index.js';
import { get, make, type NdArray } from '../ndarray.js';
import type { Case } from './case.js';

const { dequantizeLinear, fakeQuantize, quantizeLinear } = quantization;

/** To the nearest integer, ties to even. */
const rint = (v: number): number => {
  const rest = Math.abs(v % 1);
  return rest === 0.5 ? 2 * Math.round(v / 2) : Math.round(v);
};

const limitsOf = (dtype: DType): readonly [number, number] => (dtype === i8 ? [-128, 127] : [0, 255]);

interface Setting {
  readonly scale: readonly number[];
  readonly zeroPoint: readonly number[];
  readonly axis: number;
  readonly dtype: DType<'i8'> | DType<'u8'>;
}

/** The scale and the zero point of an element: one for all, or one for each index along the axis. */
const at = ({ scale, zeroPoint, axis }: Setting, index: readonly number[]): readonly [number, number] => {
  const i = scale.length === 1 ? 0 : index[axis]!;
  return [Math.fround(scale[i]!), zeroPoint[i]!];
};

const levels = (x: NdArray, s: Setting): NdArray => {
  const [least, most] = limitsOf(s.dtype);
  return make(x.shape, (index) => {
    const [scale, zero] = at(s, index);
    return Math.min(most, Math.max(least, rint(Math.fround(get(x, index) / scale)) + zero));
  });
};
const values = (q: NdArray, s: Setting): NdArray =>
  make(q.shape, (index) => {
    const [scale, zero] = at(s, index);
    return (get(q, index) - zero) * scale;
  });

const SETTINGS: readonly Setting[] = [
  { scale: [0.013], zeroPoint: [0], axis: 1, dtype: i8 },
  { scale: [0.05], zeroPoint: [-17], axis: 1, dtype: i8 },
  { scale: [0.02], zeroPoint: [131], axis: 1, dtype: u8 },
  { scale: [0.01, 0.5, 0.031], zeroPoint: [0, 0, 0], axis: 1, dtype: i8 },
  { scale: [0.01, 0.02], zeroPoint: [100, 3], axis: 0, dtype: u8 },
];

const text = ({ scale, dtype, axis }: Setting): string =>
  `${dtype.name}, ${scale.length === 1 ? 'one scale' : `scales along axis ${axis}`}`;

/** As arguments: numbers where there is one. */
const given = ({
  scale,
  zeroPoint,
  dtype,
}: Setting): readonly [quantization.Scale, quantization.ZeroPoint] =>
  scale.length === 1 ? [scale[0]!, zeroPoint[0]!] : [tensor([...scale]), tensor([...zeroPoint], { dtype })];

const shape = [2, 3, 5];
const TIES = [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 126.5, 127.5, -128.5, 300, -300, Number.POSITIVE_INFINITY];

export const QUANTIZATION: readonly Case[] = SETTINGS.flatMap((s): Case[] => [
  {
    op: `quantizeLinear to ${text(s)}`,
    inputs: [{ shape }],
    run: (x) => quantizeLinear(x, ...given(s), { axis: s.axis, dtype: s.dtype }),
    reference: (x) => levels(x, s),
  },
  {
    op: `dequantizeLinear of ${text(s)}`,
    inputs: [{ shape, dtype: s.dtype, low: limitsOf(s.dtype)[0], high: limitsOf(s.dtype)[1] }],
    run: (q) => dequantizeLinear(q, ...given(s), { axis: s.axis }),
    reference: (q) => values(q, s),
  },
  {
    op: `fakeQuantize to ${text(s)}`,
    inputs: [{ shape }],
    run: (x) => fakeQuantize(x, ...given(s), { axis: s.axis, dtype: s.dtype }),
    reference: (x) => values(levels(x, s), s),
    gradient: { skip: 'it is not the derivative: see tests/golden' },
  },
]).concat(
  {
    op: 'quantizeLinear of ties, and of what is out of reach',
    inputs: [{ shape: [12], values: TIES }],
    run: (x) => quantizeLinear(x, 1),
    reference: (x) => levels(x, { scale: [1], zeroPoint: [0], axis: 0, dtype: i8 }),
  },
  ...[f16, bf16].map(
    (dtype): Case => ({
      op: 'quantizeLinear of 16-bit floats',
      inputs: [{ shape: [5], dtype, values: [-3, 0.25, 0.75, 1.25, 4] }],
      run: (x) => quantizeLinear(x, 0.5),
      reference: (x) => levels(x, { scale: [0.5], zeroPoint: [0], axis: 0, dtype: i8 }),
    }),
  ),
  {
    op: 'dequantizeLinear of i32',
    inputs: [{ shape: [3, 4], dtype: i32, low: -1e6, high: 1e6 }],
    run: (q) => dequantizeLinear(q, tensor([0.5, 0.25, 2]), 0, { axis: 0 }),
    reference: (q) => values(q, { scale: [0.5, 0.25, 2], zeroPoint: [0, 0, 0], axis: 0, dtype: i8 }),
  },
);
