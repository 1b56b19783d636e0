/** Integers, permutations and choices at random: which words of the generator they are made of, and how often they come. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keyOfSeed, philox4x32 } from '../../src/core/philox.js';
import {
  type AnyTensor,
  bernoulli,
  bf16,
  f64,
  Generator,
  i64,
  jit,
  multinomial,
  randint,
  randperm,
  tensor,
  u8,
  useDevice,
  zeros,
} from '../../src/index.js';
import { DEVICES } from '../cases/case-runner.js';

const list = async (t: AnyTensor): Promise<number[]> => Array.from(await t.data(), Number);

/** The first `n` words of a seed. */
const words = (seed: number, n: number): number[] =>
  Array.from({ length: n }, (_, i) => philox4x32([Math.floor(i / 4), 0, 0, 0], keyOfSeed(seed))[i % 4]!);

/** How often each of `n` numbers is among the values. */
const counts = (values: readonly number[], n: number): number[] =>
  Array.from({ length: n }, (_, k) => values.filter((v) => v === k).length);

for (const device of DEVICES) {
  const on = (name: string, body: () => Promise<void>): void => {
    test(`${device}: ${name}`, async () => {
      useDevice(device);
      await body();
    });
  };

  on('randint and bernoulli are of the words of the generator', async () => {
    const raw = words(7, 13);
    const scaled = (low: number, range: number): number[] =>
      raw.map((w) => low + Number((BigInt(w) * BigInt(range)) >> 32n));
    for (const [low, high, dtype] of [
      [-3, 4, undefined],
      [0, 256, u8],
      [-(2 ** 31), 2 ** 31, undefined],
      [2 ** 40, 2 ** 40 + 1000, i64],
      [5, 6, bf16],
    ] as const) {
      const drawn = randint(low, high, [13], { generator: new Generator(7), ...(dtype && { dtype }) });
      assert.deepEqual(await list(drawn), scaled(low, high - low), `${low} to ${high}`);
    }
    for (const dtype of [undefined, f64, bf16]) {
      const p = tensor([0, 0.25, 0.5, 0.75, 1, Number.NaN, -1, 2, 0.5, 0.5, 0.5, 0.5, 0.5], {
        ...(dtype && { dtype }),
      });
      const drawn = bernoulli(p, { generator: new Generator(7) });
      const chances = await list(p);
      assert.equal(drawn.dtype, p.dtype);
      assert.deepEqual(
        await list(drawn),
        raw.map((w, i) => Number((w >>> 8) * 2 ** -24 < chances[i]!)),
      );
    }
  });

  on('randperm is every number once, and goes on in jit', async () => {
    const generator = new Generator(3);
    const step = jit(() => randperm(50, { generator }));
    const [first, second] = [await list(step()), await list(step())];
    const sorted = Array.from({ length: 50 }, (_, i) => i);
    for (const drawn of [first, second])
      assert.deepEqual(
        [...drawn].sort((a, b) => a - b),
        sorted,
      );
    assert.notDeepEqual(first, second);
    assert.deepEqual(await list(randperm(50, { generator: new Generator(3) })), first);
    const raw = words(3, 100);
    const key = (i: number): bigint => BigInt.asIntN(64, (BigInt(raw[i]!) << 32n) | BigInt(raw[50 + i]!));
    assert.deepEqual(
      first,
      sorted.toSorted((a, b) => (key(a) < key(b) ? -1 : 1)),
    );
    assert.deepEqual([await list(randperm(1)), (await list(randperm(0))).length], [[0], 0]);
  });

  on('multinomial draws in proportion to the weights', async () => {
    const weights = [0, 3, 1, 0, 4, 0];
    const generator = new Generator(11);
    const n = 4000;
    const drawn = counts(
      await list(multinomial(tensor(weights), n, { replacement: true, generator })),
      weights.length,
    );
    // Four standard deviations
    const expected = weights.map((w) => (w / 8) * n);
    drawn.forEach((count, k) => {
      const spread = 4 * Math.sqrt(expected[k]! * (1 - weights[k]! / 8));
      assert.ok(Math.abs(count - expected[k]!) <= spread, `${k}: ${count} of ${expected[k]}`);
    });
    // Without replacement the first of three is drawn like one, and the last is what is left.
    const rows = tensor(weights).expand([400, 6]);
    const thrice = (await multinomial(rows, 3, { generator }).array(2)) as number[][];
    for (const row of thrice) assert.deepEqual([...row].sort(), [1, 2, 4]);
    const first = counts(
      thrice.map((row) => row[0]!),
      6,
    );
    [0, 150, 50, 0, 200, 0].forEach((mean, k) => {
      assert.ok(
        Math.abs(first[k]! - mean) <= 4 * Math.sqrt(mean * (1 - mean / 400)),
        `first ${k}: ${first[k]}`,
      );
    });
    const two = multinomial(zeros([2, 3, 4]).add(1), 2, { generator });
    assert.deepEqual(two.shape, [2, 3, 2]);
    const all = await list(multinomial(tensor([0.5, 0.5], { dtype: f64 }), 2));
    assert.deepEqual(all.sort(), [0, 1]);
  });
}

test('misuse of what is drawn at random', () => {
  useDevice(DEVICES[0]!);
  assert.throws(() => randint(3, 3, [2]), /\[randint\] from 3 to 3: high must be from low \+ 1/);
  assert.throws(() => randint(0, 2 ** 33, [2], { dtype: i64 }), /to low \+ 2³²/);
  assert.throws(() => randint(0, 257, [2], { dtype: u8 }), /\[randint\] 256 cannot be represented as u8/);
  assert.throws(
    () => multinomial(tensor([1, 2]), 3),
    /\[multinomial\] 3 of weights \(2\).*replacement: true/,
  );
  assert.throws(() => multinomial(tensor(1), 1), /\[multinomial\] 1 of weights \(\)/);
  assert.throws(() => bernoulli(tensor([true]) as never), /\[bernoulli\] p/);
});
