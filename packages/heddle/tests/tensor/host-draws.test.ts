/** Large tensors' numbers for the host are those of the generator, one after the other. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PhiloxStream } from '../../src/core/philox.js';
import { f64, manualSeed, nn, useDevice, zeros } from '../../src/index.js';
import { closeDevices, openHelper } from '../../src/runtime/registry.js';
import { type Distribution, fillDrawn } from '../../src/tensor/host-draws.js';

/** More than two launches of the kernel, and not whole blocks. */
const MANY = 2 ** 21 + 3;

for (const [distribution, T, from] of [
  ['uniform', Float32Array, 0],
  ['uniform', Float64Array, 3],
  ['normal', Float32Array, 2],
  ['normal', Float64Array, 0],
  // Each number lies in two blocks.
  ['normal', Float32Array, 1],
] as [Distribution, typeof Float32Array | typeof Float64Array, number][])
  test(`${distribution} numbers in a ${T.name}, from word ${from} on`, () => {
    const count = from === 1 ? 2 ** 18 : MANY;
    const [stream, plain] = [0, 1].map(() => {
      const made = new PhiloxStream(2 ** 40 + 7, 0xffffffff);
      made.position = 2 ** 34 - 8 + from;
      return made;
    }) as [PhiloxStream, PhiloxStream];
    const drawn = fillDrawn(stream, new T(count), { distribution, offset: -3, scale: 0.125 });
    // Logarithms and cosines are those of two libraries, right to some units in the last place of f64.
    const unit = distribution === 'uniform' ? 0 : T === Float32Array ? 2 ** -24 : 2 ** -50;
    let stray = 0;
    for (const v of drawn) {
      const exact = -3 + 0.125 * plain[distribution]();
      const wanted = T === Float32Array ? Math.fround(exact) : exact;
      if (!(Math.abs(v - wanted) <= unit * Math.abs(wanted))) stray++;
    }
    assert.equal(stray, 0);
    assert.equal(stream.position, plain.position);
  });

test('for another device they are drawn beside it, by few threads, and are the same', async () => {
  const drawnOn = async (name: string): Promise<Float32Array> => {
    useDevice(name);
    manualSeed(3);
    return await nn.init.normal(zeros([512, 513])).data();
  };
  const here = await drawnOn('cpu');
  await closeDevices();
  try {
    assert.deepEqual(await drawnOn('sim'), here);
    assert.ok(openHelper().target.units <= 6);
  } finally {
    await closeDevices();
    useDevice('cpu');
  }
});

test('parameters of a large layer are drawn from the seed, and the next layer from there on', async () => {
  const made = async () => {
    manualSeed(5);
    const [first, second] = [new nn.Linear(1024, 1027), new nn.Linear(4, 3)];
    return [await first.weight.data(), await second.weight.data()];
  };
  const [large, small] = await made();
  const host = new PhiloxStream(5, 0xffffffff);
  const uniform = (bound: number) => Math.fround(-bound + 2 * bound * host.uniform());
  assert.deepEqual(
    large,
    Float32Array.from({ length: 1024 * 1027 }, () => uniform(1 / 32)),
  );
  for (let i = 0; i < 1027; i++) host.next();
  assert.deepEqual(
    small,
    Float32Array.from({ length: 12 }, () => uniform(1 / 2)),
  );
  assert.deepEqual(await made(), [large, small]);
  const wide = nn.init.normal(zeros([512, 513], { dtype: f64 }), { mean: 2, std: 0.5 });
  const values = await wide.data();
  const mean = values.reduce((sum, v) => sum + v, 0) / values.length;
  assert.ok(Math.abs(mean - 2) < 0.005, `mean ${mean}`);
});
