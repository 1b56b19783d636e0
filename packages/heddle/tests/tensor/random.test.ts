/** Random tensors: Philox on every device, as on the host; where draws go on; what the numbers look like. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keyOfSeed, type PhiloxKey, philox4x32 } from '../../src/core/philox.js';
import {
  type AnyTensor,
  f64,
  Generator,
  manualSeed,
  rand,
  randn,
  type Tensor,
  tensor,
  useDevice,
} from '../../src/index.js';
import { DEVICES } from '../cases/case-runner.js';
import { assertClose } from '../close.js';

const list = async (t: AnyTensor): Promise<number[]> => Array.from(await t.data(), Number);

/** The first `n` words from block `block` on. */
const words = (key: PhiloxKey, block: number, n: number): number[] =>
  Array.from({ length: n }, (_, i) => philox4x32([block + Math.floor(i / 4), 0, 0, 0], key)[i % 4]!);
const uniform = (word: number): number => (word >>> 8) * 2 ** -24;

for (const device of DEVICES) {
  test(`${device}: rand is the host's Philox, word for word, and draws go on at whole blocks`, async () => {
    useDevice(device);
    for (const seed of [0, 1, 2 ** 31 + 5, 2 ** 53 - 1]) {
      const generator = new Generator(seed);
      const key = keyOfSeed(seed);
      const draws = [
        rand([5], { generator }),
        rand([2, 3], { generator }),
        rand([1], { generator }),
        rand([0], { generator }),
      ];
      let block = 0;
      for (const t of draws) {
        assert.deepEqual(
          await list(t),
          words(key, block, t.size).map(uniform),
          `seed ${seed}, block ${block}`,
        );
        block += Math.ceil(t.size / 4);
      }
      assert.deepEqual(await list(generator.counter), [5]);
    }
  });

  test(`${device}: a drawn tensor has one value, however often and through whatever view it is read`, async () => {
    useDevice(device);
    const t = rand([4, 6], { generator: new Generator(5) });
    const doubled = await list(t.mul(2));
    const moved = await list(t.transpose().at('::-1'));
    const data = await list(t);
    assert.deepEqual(
      doubled,
      data.map((v) => 2 * v),
    );
    assert.deepEqual(
      moved,
      await list(
        tensor(data, { shape: [4, 6] })
          .transpose()
          .at('::-1'),
      ),
    );
  });

  test(`${device}: randn is Box and Muller's transform of the draws in pairs`, async () => {
    useDevice(device);
    const key = keyOfSeed(9);
    const draws = words(key, 0, 8).map((word) => word / 2 ** 32);
    const angle = (i: number): number => 2 * Math.PI * draws[4 + (i % 4)]!;
    assertClose(
      await list(randn([7], { generator: new Generator(9) })),
      Array.from({ length: 7 }, (_, i) => {
        const radius = Math.sqrt(-2 * Math.log(draws[i % 4]! + 2 ** -33));
        return radius * (i < 4 ? Math.cos(angle(i)) : Math.sin(angle(i)));
      }),
      'randn',
      { relative: 1e-4, absolute: 1e-5 },
    );
  });
}

test('seeds start over, differ, and are independent of each other', async () => {
  useDevice(DEVICES[0]!);
  manualSeed(3);
  const first = await list(rand([8]));
  const second = await list(rand([8]));
  manualSeed(3);
  assert.deepEqual(await list(rand([8])), first);
  assert.deepEqual(await list(rand([8])), second);
  assert.notDeepEqual(first, second);
  manualSeed(4);
  assert.notDeepEqual(await list(rand([8])), first);
});

test('draws that are only looked at later are those of their turn', async () => {
  useDevice(DEVICES[0]!);
  const draw = (): [Tensor, Tensor, Tensor] => {
    const generator = new Generator(11);
    return [rand([3], { generator }), randn([3], { generator }), rand([3], { generator })];
  };
  const forwards = draw();
  const inOrder = [await list(forwards[0]), await list(forwards[1]), await list(forwards[2])];
  const backwards = draw();
  const last = await list(backwards[2]);
  const middle = await list(backwards[1]);
  assert.deepEqual([await list(backwards[0]), middle, last], inOrder);
});

test('uniform and normal numbers have the moments they should', async () => {
  useDevice(DEVICES[0]!);
  const n = 40_000;
  const u = await list(rand([n], { generator: new Generator(1) }));
  const z = await list(randn([n], { generator: new Generator(1), dtype: f64 }));
  const mean = (v: readonly number[]): number => v.reduce((a, b) => a + b, 0) / v.length;
  assert.ok(u.every((v) => v >= 0 && v < 1));
  assert.ok(Math.abs(mean(u) - 0.5) < 0.006);
  assert.ok(Math.abs(mean(u.map((v) => v * v)) - 1 / 3) < 0.006);
  assert.ok(Math.abs(mean(z)) < 0.02);
  assert.ok(Math.abs(mean(z.map((v) => v * v)) - 1) < 0.03);
  assert.ok(Math.abs(mean(z.map((v) => v ** 4)) - 3) < 0.25);
  assert.ok(z.every(Number.isFinite));
});
