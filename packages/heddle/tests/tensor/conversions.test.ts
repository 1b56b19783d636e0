/** Conversions to floats are rounded once, to nearest, ties to even: from integers, and from wider floats. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bf16, type DType, f16, f32, f64, i32, i64, u32 } from '../../src/core/dtype.js';
import { tensor, useDevice } from '../../src/index.js';
import { DEVICES } from '../cases/case-runner.js';

/** Digits of the significand, the exponent of the smallest number, and that of the first power of 2 that is too large. */
const FORMATS = {
  f16: [11, -24, 16],
  bf16: [8, -133, 128],
  f32: [24, -149, 128],
  f64: [53, -1074, 1024],
} as const;
type FloatName = keyof typeof FORMATS;

/** v·2^-scale rounded to a format, in whole numbers. */
function nearest(name: FloatName, v: bigint, scale: number): number {
  const [digits, least, end] = FORMATS[name];
  const size = v < 0n ? -v : v;
  // Cut so many bits that `digits` are left, or those above the smallest number.
  const cut = Math.max(size.toString(2).length - digits, least + scale, 0);
  const unit = 1n << BigInt(cut);
  const rest = size % unit;
  const below = size / unit;
  const up = 2n * rest > unit || (2n * rest === unit && below % 2n === 1n);
  const rounded = Number(below + (up ? 1n : 0n)) * 2 ** (cut - scale);
  return (v < 0n ? -1 : 1) * (rounded >= 2 ** end ? Number.POSITIVE_INFINITY : rounded);
}

/** Whole numbers at and next to ties of every format, with a bit far below. */
const WHOLE: readonly bigint[] = [11, 8, 24, 53].flatMap((digits) =>
  [0n, 1n, 2n, 3n].flatMap((even) =>
    [0, 1, 2, 7, 20, 38]
      .filter((up) => digits + up < 61)
      .flatMap((up) => {
        const tie = ((1n << BigInt(digits)) + 2n * even + 1n) << BigInt(up);
        return [tie, tie + 1n, tie - 1n, -tie, -tie - 1n, 1n - tie];
      }),
  ),
);
const IN_RANGE: Readonly<Record<string, (v: bigint) => boolean>> = {
  i64: () => true,
  i32: (v) => v === BigInt.asIntN(32, v),
  u32: (v) => v === BigInt.asUintN(32, v),
};
const ENDS: Readonly<Record<string, readonly bigint[]>> = {
  i64: [2n ** 63n - 1n, -(2n ** 63n), 9_007_199_791_611_905n, 0n],
  i32: [2n ** 31n - 1n, -(2n ** 31n), 65_519n, 65_520n],
  u32: [2n ** 32n - 1n, 0xff7f_ffffn, 0xff80_0000n, 0xff80_0001n],
};

/** f64 numbers as v·2^-scale. */
const DOUBLES: readonly (readonly [v: bigint, scale: number])[] = [11, 8, 24].flatMap((digits) =>
  [0n, 1n, 2n].flatMap((even) =>
    // Around 1, near the smallest numbers of the formats, and near the largest
    [0, 14, 25, 30, 120, 140, 148, 150, -3, -110].flatMap((scale) => {
      const tie = ((1n << BigInt(digits)) + 2n * even + 1n) << 28n;
      return [tie, tie + 1n, tie - 1n, -tie - 1n].map((v) => [v, 28 + digits + scale] as const);
    }),
  ),
);

for (const device of DEVICES) {
  const check = async (
    from: DType,
    to: DType,
    values: readonly (number | bigint)[],
    wanted: readonly number[],
  ) => {
    useDevice(device);
    const x = from === i64 ? BigInt64Array.from(values as bigint[]) : Float64Array.from(values, Number);
    const got = await tensor(x, { dtype: from }).cast(to).data();
    wanted.forEach((w, i) => {
      assert.ok(
        Object.is(Number(got[i]), w),
        `${from.name} ${values[i]} as ${to.name} is ${got[i]}, not ${w}`,
      );
    });
  };

  test(`${device}: integers become the nearest floats`, async () => {
    for (const from of [i64, i32, u32]) {
      const values = [...WHOLE.filter(IN_RANGE[from.name]!), ...ENDS[from.name]!];
      for (const to of [f16, bf16, f32, f64])
        await check(
          from,
          to,
          values,
          values.map((v) => nearest(to.name as FloatName, v, 0)),
        );
    }
  });

  test(`${device}: f64 becomes the nearest 16-bit float and f32, NaN and signs of zero stay`, async () => {
    const numbers = DOUBLES.map(([v, scale]) => Number(v) * 2 ** -scale);
    const rest = [Number.NaN, Infinity, -Infinity, 0, -0, 1e-300, -1e-300, 1e300, -1e300];
    const tiny = [Number.NaN, Infinity, -Infinity, 0, -0, 0, -0, Infinity, -Infinity];
    for (const to of [f16, bf16, f32]) {
      const wanted = DOUBLES.map(([v, scale]) => nearest(to.name as FloatName, v, scale));
      await check(f64, to, [...numbers, ...rest], [...wanted, ...tiny]);
    }
  });
}
