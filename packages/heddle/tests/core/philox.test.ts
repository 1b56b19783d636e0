import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { keyOfSeed, PhiloxStream, philox4x32 } from '../../src/core/philox.js';
import { property } from '../property.js';

test("the generator's published known answers", () => {
  // kat_vectors of the Random123 library: counter, key, result.
  const ones = 0xffffffff;
  assert.deepEqual(philox4x32([0, 0, 0, 0], [0, 0]), [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
  assert.deepEqual(
    philox4x32([ones, ones, ones, ones], [ones, ones]),
    [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd],
  );
  assert.deepEqual(
    philox4x32([0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344], [0xa4093822, 0x299f31d0]),
    [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1],
  );
});

/** The rounds in whole numbers of any size. */
function wholePhilox(counter: readonly number[], key: readonly number[]): number[] {
  const low = (v: bigint): bigint => v & 0xffffffffn;
  let [c0, c1, c2, c3] = counter.map(BigInt) as [bigint, bigint, bigint, bigint];
  let [k0, k1] = key.map(BigInt) as [bigint, bigint];
  for (let round = 0; round < 10; round++) {
    const [p0, p1] = [c0 * 0xd2511f53n, c2 * 0xcd9e8d57n];
    [c0, c1, c2, c3] = [(p1 >> 32n) ^ c1 ^ k0, low(p1), (p0 >> 32n) ^ c3 ^ k1, low(p0)];
    [k0, k1] = [low(k0 + 0x9e3779b9n), low(k1 + 0xbb67ae85n)];
  }
  return [c0, c1, c2, c3].map(Number);
}

const word = fc.oneof(
  fc.integer({ min: 0, max: 2 ** 32 - 1 }),
  fc.constantFrom(0, 0xffff, 2 ** 31, 2 ** 32 - 1),
);

property(
  'products are exact for any counter and key',
  [fc.tuple(word, word, word, word), fc.tuple(word, word)],
  (counter, key) => {
    assert.deepEqual(philox4x32(counter, key), wholePhilox(counter, key));
  },
);

property(
  'a number below a bound is the remainder of the first word that leaves all of them as likely',
  [
    fc.nat(),
    fc.oneof(
      word.map((w) => w + 1),
      fc.constantFrom(3 * 2 ** 30, 2 ** 31 + 1, 2 ** 32),
    ),
  ],
  (seed, bound) => {
    const [drawn, words] = [new PhiloxStream(seed), new PhiloxStream(seed)];
    const limit = Math.floor(2 ** 32 / bound) * bound;
    for (let i = 0; i < 20; i++) {
      let next = words.next();
      while (next >= limit) next = words.next();
      assert.equal(drawn.below(bound), next % bound);
    }
  },
);

test('a stream reads block after block of its seed', () => {
  const stream = new PhiloxStream(7, 3);
  const words = Array.from({ length: 10 }, () => stream.next());
  const blocks = [0, 1, 2].flatMap((block) => philox4x32([block, 0, 3, 0], keyOfSeed(7)));
  assert.deepEqual(words, blocks.slice(0, 10));
  assert.equal(new PhiloxStream(7, 3, 5).next(), philox4x32([0, 0, 3, 5], keyOfSeed(7))[0]);
});

test('seeds over 32 bits differ from their lower half', () => {
  assert.deepEqual(keyOfSeed(2 ** 32 + 5), [5, 1]);
  assert.notEqual(new PhiloxStream(2 ** 32 + 5).next(), new PhiloxStream(5).next());
});

property(
  'numbers stay in their range',
  [fc.nat(), fc.integer({ min: 1, max: 2 ** 32 - 1 })],
  (seed, bound) => {
    const stream = new PhiloxStream(seed);
    for (let i = 0; i < 8; i++) {
      const whole = stream.below(bound);
      assert(Number.isInteger(whole) && whole >= 0 && whole < bound);
      const unit = stream.uniform();
      assert(unit >= 0 && unit < 1 && Math.fround(unit) === unit);
      assert(Number.isFinite(stream.normal()));
    }
  },
);

test('uniform and normal numbers have their mean and variance', () => {
  const stream = new PhiloxStream(1);
  const moments = (draw: () => number): [number, number] => {
    const values = Float64Array.from({ length: 20_000 }, draw);
    const mean = values.reduce((sum, v) => sum + v, 0) / values.length;
    return [mean, values.reduce((sum, v) => sum + (v - mean) ** 2, 0) / values.length];
  };
  const near = (found: number, expected: number): void => {
    assert(Math.abs(found - expected) < 0.03, `${found} is not near ${expected}`);
  };
  const [uniformMean, uniformVariance] = moments(() => stream.uniform());
  near(uniformMean, 1 / 2);
  near(uniformVariance, 1 / 12);
  const [normalMean, normalVariance] = moments(() => stream.normal());
  near(normalMean, 0);
  near(normalVariance, 1);
});
