/** Buffers that a device sets to 0. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { f64, i32, jit, type Shape, type Tensor, tensor, useDevice } from '../../src/index.js';
import { openDevice } from '../../src/runtime/registry.js';
import { storedZeros } from '../../src/tensor/create.js';
import { DEVICES } from '../cases/case-runner.js';

for (const name of DEVICES) {
  test(`${name}: clear sets all bytes to 0, after what was written and before what is`, async () => {
    const device = openDevice(name);
    for (const bytes of [4, 1000, 100_000]) {
      const buffer = device.allocate(bytes, 'test');
      device.write(buffer, new Uint8Array(bytes).fill(7));
      device.clear(buffer);
      assert.ok((await device.read(buffer)).every((byte) => byte === 0));
      device.write(buffer, Uint8Array.of(5), 3);
      assert.deepEqual([...(await device.read(buffer, 0, 4))], [0, 0, 0, 5]);
      device.free(buffer);
      assert.throws(() => device.clear(buffer));
    }
  });

  test(`${name}: zeros in memory of their own are a state that steps update`, async () => {
    useDevice(name);
    const state = storedZeros([300], { dtype: i32 });
    const step = jit((x: Tensor<Shape, 'i32'>) => {
      state.assign(state.add(x));
      return state;
    });
    for (const x of [3, 4]) await step(tensor(x, { dtype: i32 })).data();
    assert.deepEqual(await state.data(), new Int32Array(300).fill(7));
    const parameter = storedZeros([2, 3], { dtype: f64, requiresGrad: true });
    parameter.mul(2).sum().backward();
    assert.deepEqual(await parameter.array(), [
      [0, 0, 0],
      [0, 0, 0],
    ]);
    assert.deepEqual(await parameter.grad!.array(), [
      [2, 2, 2],
      [2, 2, 2],
    ]);
  });
}
