/** quantizeLinear, dequantizeLinear and fakeQuantize: ONNX Runtime's and PyTorch's numbers, and what is refused. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DTYPES } from '../../src/core/dtype.js';
import { arange, DTypeError, f32, i8, ShapeError, tensor, u8, zeros } from '../../src/index.js';
import { dequantizeLinear, fakeQuantize, quantizeLinear } from '../../src/quantization/index.js';
import { type GoldenQuantization, goldenQuantization } from '../golden/golden.js';

const settings = ({ scale, zeroPoint, axis, dtype }: GoldenQuantization) =>
  ({
    scale: tensor(scale),
    zeroPoint: tensor(zeroPoint, { dtype: DTYPES[dtype] }),
    options: { axis, dtype: DTYPES[dtype] },
  }) as const;

for (const [i, golden] of goldenQuantization().entries())
  test(`case ${i}: levels and values are ONNX Runtime's, the gradient of fake quantization PyTorch's`, async () => {
    const { scale, zeroPoint, options } = settings(golden);
    const x = tensor(golden.x, { dtype: f32, requiresGrad: true });
    const q = quantizeLinear(x.detach(), scale, zeroPoint, options);
    assert.deepEqual(await q.array(), golden.q);
    const d = dequantizeLinear(q, scale, zeroPoint, { axis: golden.axis });
    assert.deepEqual(await d.array(), await tensor(golden.d, { dtype: f32 }).array());
    const y = fakeQuantize(x, scale, zeroPoint, options);
    assert.deepEqual(await y.array(), await d.array());
    y.mul(arange(y.size, { dtype: f32 }).reshape(y.shape))
      .sum()
      .backward();
    assert.deepEqual(await x.grad!.array(), golden.gradient);
  });

test('what does not fit is refused', () => {
  const x = zeros([2, 3]);
  const q = zeros([2, 3], { dtype: i8 });
  assert.throws(() => quantizeLinear(x, tensor([1, 2])), {
    name: 'ShapeError',
    message:
      '[quantizeLinear] scale is (2) for x (2,3): it must have one value, or 3, one for each index along axis 1. ' +
      'Name another axis with { axis }.',
  });
  assert.throws(() => quantizeLinear(x, tensor([1, 2]), 0, { axis: 2 }), ShapeError);
  assert.throws(() => quantizeLinear(x, 0), /scale is 0, must be a finite number greater than 0/);
  assert.throws(() => quantizeLinear(x, 1, 200), /zeroPoint 200 cannot be represented as i8/);
  assert.throws(() => quantizeLinear(x, 1, tensor(0, { dtype: u8 })), DTypeError);
  assert.throws(
    () => quantizeLinear(x, tensor([1, 2, 3]), tensor(0, { dtype: i8 })),
    /scale has 3 values and zeroPoint 1/,
  );
  assert.throws(() => quantizeLinear(q as never, 1), /x must be floats, got i8/);
  assert.throws(() => quantizeLinear(x, tensor(1, { dtype: i8 }) as never), /scale must be floats, got i8/);
  assert.throws(() => quantizeLinear(x, 1, 0, { dtype: f32 as never }), /one of the dtypes i8, u8/);
  assert.throws(() => dequantizeLinear(x as never, 1), /q must be i8, u8 or i32, got f32/);
  assert.throws(() => fakeQuantize(x, -1), /scale is -1/);
});
