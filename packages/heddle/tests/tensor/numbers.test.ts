/** What is true of numbers, and functions of them at their ends. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type AnyTensor, f64, i32, type Tensor, tensor, useDevice } from '../../src/index.js';
import { DEVICES } from '../cases/case-runner.js';
import { assertClose } from '../close.js';

const list = async (t: AnyTensor): Promise<number[]> => Array.from(await t.data(), Number);
const { POSITIVE_INFINITY: inf, NEGATIVE_INFINITY: less, NaN: nan } = Number;

for (const device of DEVICES)
  test(`${device}: isFinite, isInf and functions at their ends`, async () => {
    useDevice(device);
    const ends = tensor([0, -0, inf, less, nan, 1, 3e38]);
    assert.deepEqual(await list(ends.isFinite()), [1, 1, 0, 0, 0, 1, 1]);
    assert.deepEqual(await list(ends.isInf()), [0, 0, 1, 1, 0, 0, 0]);
    assert.deepEqual(await list(tensor(Int32Array.of(0, 5)).isFinite()), [1, 1]);
    assert.deepEqual(await list(tensor(Int32Array.of(0, 5)).isInf()), [0, 0]);
    assert.deepEqual(await list(ends.sinh()), [0, -0, inf, less, nan, Math.fround(Math.sinh(1)), inf]);
    assertClose(await list(tensor([89, -89, 88]).sinh()), [89, -89, 88].map(Math.sinh), 'sinh');
    assertClose(await list(tensor([89, -89, 0]).cosh()), [89, -89, 0].map(Math.cosh), 'cosh');
    assert.deepEqual(await list(tensor([1, -1, 2]).asin()), [1, -1, nan].map(Math.asin).map(Math.fround));
    assert.deepEqual(await list(tensor([1, -1, 2]).acos()), [0, Math.fround(Math.PI), nan]);
    const pairs = [
      [inf, inf],
      [less, less],
      [inf, less],
      [less, 2],
      [1000, 1000],
    ] as const;
    const [x, y] = [0, 1].map((i) => tensor(pairs.map((p) => p[i]!))) as [Tensor, Tensor];
    assert.deepEqual(await list(x.logaddexp(y)), [inf, less, inf, 2, Math.fround(1000 + Math.LN2)]);
    const [p, q] = [tensor([7, -7, 7, -7, 6, -6]), tensor([3, 3, -3, -3, 3, -3])];
    assert.deepEqual(await list(p.remainder(q)), [1, 2, -2, -1, 0, -0]);
    assert.deepEqual(await list(p.cast(i32).remainder(q.cast(i32))), [1, 2, -2, -1, 0, 0]);
    // Slopes where the halves of sinh meet.
    const w = tensor([0, 80, 81], { dtype: f64, requiresGrad: true });
    w.sinh().add(w.cosh()).sum().backward();
    assertClose(await list(w.grad!), [0, 80, 81].map(Math.exp), 'slope', { relative: 1e-12 });
  });

test('allclose: within both tolerances, infinities and NaN', async () => {
  useDevice(DEVICES[0]!);
  const x = tensor([1, 1000, inf]);
  assert.equal(await x.allclose(tensor([1.000009, 1000.009, inf])), true);
  assert.equal(await x.allclose(tensor([1.00002, 1000, inf])), false);
  assert.equal(await x.allclose(tensor([1.02, 1000, inf]), { rtol: 0, atol: 0.03 }), true);
  assert.equal(await x.allclose(tensor([1, 1000, less])), false);
  assert.equal(await tensor([1]).allclose(tensor([inf])), false);
  const holes = tensor([1, nan]);
  assert.deepEqual(
    [await holes.allclose(holes), await holes.allclose(holes, { equalNan: true })],
    [false, true],
  );
  assert.equal(await tensor(Int32Array.of(3)).allclose(tensor(Int32Array.of(4))), false);
  await assert.rejects(x.allclose(x.cast(f64)), /\[allclose\] dtypes differ: f32 and f64/);
});
