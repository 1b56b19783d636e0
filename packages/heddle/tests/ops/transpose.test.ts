/** The ladder of transposes, in the simulator. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TRANSPOSES } from '../../src/ops/transpose/cuda-ladder.js';
import { SimDevice } from '../../src/runtime/sim/device.js';

for (const { name, make } of TRANSPOSES)
  test(`transpose, ${name}: whole tiles and cut ones`, async () => {
    for (const [rows, columns] of [
      [64, 64],
      [100, 36],
      [4, 132],
    ] as const) {
      const device = new SimDevice();
      const [x, y] = ['x', 'y'].map((label) => device.allocate(rows * columns * 4, label)) as [
        ReturnType<SimDevice['allocate']>,
        ReturnType<SimDevice['allocate']>,
      ];
      const values = Float32Array.from({ length: rows * columns }, (_, i) => i + 0.5);
      device.write(x, new Uint8Array(values.buffer));
      const args = [0, 1].map((slot) => ({ slot, offset: 0 }));
      device.compile([{ ...make(rows, columns), args }]).run([x, y]);
      const expected = Float32Array.from(
        values,
        (_, i) => values[(i % rows) * columns + Math.floor(i / rows)]!,
      );
      assert.deepEqual(new Float32Array((await device.read(y)).slice().buffer), expected);
    }
  });
